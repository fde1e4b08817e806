# SPDX-License-Identifier: Apache-2.0
"""The answer for other programs: CSV, and JUnit's XML."""

import csv
import io
from collections.abc import Sequence
from xml.etree import ElementTree

from hvstack.report.answer import EMULATED, Answer, Row, plain
from hvstack.results.record import BARE_METAL

#: Name and reason of a configuration that could not exist.
Skipped = tuple[str, str]

_COLUMNS = (
    'configuration',
    'label',
    'status',
    'runs',
    'failed_runs',
    'percent_of_bare_metal',
    'low',
    'high',
    'performance_runs_percent',
    'rate_tb_per_hour',
    'seconds',
    'verdict',
    'reason',
)


#: Status of what is no error for a CI system, beside a failure.
_NO_ERROR = ('ok', 'failed', EMULATED)


def csv_text(answer: Answer, skipped: Sequence[Skipped] = ()) -> str:
    """Return a line for each configuration, bare metal's first.

    Cells without a value are empty. Comment lines at the end hold what must
    be said beside the figures.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(_COLUMNS)
    for row in answer.rows:
        writer.writerow(_cells(row))
    for name, reason in skipped:
        writer.writerow(
            ['', _cell(name), 'skipped', 0, 0, *[''] * 7, _cell(reason)]
        )
    for note in answer.notes:
        text.write(f'# {_one_line(note)}\n')
    return text.getvalue()


def _cells(row: Row) -> list[object]:
    percent = row.percent
    return [
        _cell(row.configuration),
        _cell(row.label),
        row.status,
        len(row.valid),
        len(row.failed),
        *(
            (
                _number(percent.percent),
                _number(percent.low),
                _number(percent.high),
                _number(percent.performance_ratio),
            )
            if percent
            else [EMULATED if row.status == EMULATED else '', *[''] * 3]
        ),
        _number(row.rate),
        _number(row.total_seconds),
        _cell(row.verdict),
        _cell('; '.join(row.reasons)),
    ]


def _number(value: float | None) -> str:
    return '' if value is None else f'{value:.6g}'


def _cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula.

    The apostrophe marks a text in spreadsheets (OWASP, "CSV Injection").
    """
    line = _one_line(text)
    return f"'{line}" if line.startswith(('=', '+', '-', '@')) else line


def _one_line(text: str) -> str:
    return ' '.join(text.split())


def junit(answer: Answer, skipped: Sequence[Skipped] = ()) -> str:
    """Return a test case for each configuration, for a CI system.

    One without a valid run has failed, one that is not comparable is an
    error, one that cannot exist is skipped; a low percentage is no failure,
    nor is none of emulated CPUs.
    """
    counts = [row.status for row in answer.rows]
    error_count = sum(name not in _NO_ERROR for name in counts)
    suite = ElementTree.Element(
        'testsuite',
        name=f'hvstack {answer.sweep}',
        tests=str(len(answer.rows) + len(skipped)),
        failures=str(counts.count('failed')),
        errors=str(error_count),
        skipped=str(len(skipped)),
        timestamp=answer.records[0].started.removesuffix('Z'),
        time=f'{sum(record.total_seconds for record in answer.records):.3f}',
    )
    properties = ElementTree.SubElement(suite, 'properties')
    for name, value in answer.facts():
        ElementTree.SubElement(
            properties, 'property', name=name, value=_printable(value)
        )
    for row in answer.rows:
        _case(suite, row)
    for name, reason in skipped:
        case = _element(suite, name, 0)
        ElementTree.SubElement(case, 'skipped', message=_printable(reason))
    out = ElementTree.SubElement(suite, 'system-out')
    out.text = _printable('\n'.join([answer.headline, *answer.notes]))
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding='unicode')
    return f"<?xml version='1.0' encoding='utf-8'?>\n{text}\n"


def _case(suite: ElementTree.Element, row: Row) -> None:
    case = _element(suite, row.label, row.total_seconds or 0)
    if row.status == EMULATED:
        ElementTree.SubElement(case, 'system-out').text = EMULATED
    elif row.status != 'ok':
        kind = 'failure' if row.status == 'failed' else 'error'
        ElementTree.SubElement(
            case,
            kind,
            message=_printable('; '.join(row.reasons) or row.status),
        )
    if row.percent and row.configuration != BARE_METAL:
        out = ElementTree.SubElement(case, 'system-out')
        out.text = (
            f'{row.percent.percent:.1f} % of bare metal, '
            f'{row.verdict}, {len(row.valid)} runs'
        )


def _element(
    suite: ElementTree.Element, name: str, seconds: float
) -> ElementTree.Element:
    return ElementTree.SubElement(
        suite,
        'testcase',
        classname='hvstack.configuration',
        name=name,
        time=f'{seconds:.3f}',
    )


def _printable(value: object) -> str:
    """Return text without the characters that XML has no way to write."""
    return ''.join(
        char for char in plain(value) if char.isprintable() or char in '\n\t'
    )
