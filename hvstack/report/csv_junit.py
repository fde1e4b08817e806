# SPDX-License-Identifier: Apache-2.0
"""Reports for other programs: CSV and JUnit XML."""

import csv
import io
from collections.abc import Sequence
from xml.etree import ElementTree

from hvstack.model.target import BARE_METAL
from hvstack.nouns import format_noun
from hvstack.report.formats import format_plain
from hvstack.report.sweep_report import SweepReport
from hvstack.report.sweep_rows import EMULATED, SEARCH, Row
from hvstack.results.typed_json import Json

#: Name of a configuration that is not possible, and the reason.
SkippedConfiguration = tuple[str, str]

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


#: Statuses of rows that are not errors for a CI system.
_NON_ERROR_STATUSES = ('ok', 'failed', EMULATED, SEARCH)


def format_csv(
    report: SweepReport, skipped: Sequence[SkippedConfiguration] = ()
) -> str:
    """Return the report as CSV: a line for each row, bare metal first.

    Cells without a value are empty. Comment lines at the end contain the
    notes of the report.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(_COLUMNS)
    for row in report.rows:
        writer.writerow(_format_cells(row))
    for name, reason in skipped:
        writer.writerow(
            [
                '',
                _escape_cell(name),
                'skipped',
                0,
                0,
                *[''] * 7,
                _escape_cell(reason),
            ]
        )
    for note in report.notes:
        text.write(f'# {_join_lines(note)}\n')
    return text.getvalue()


def _format_cells(row: Row) -> list[str | int]:
    percent = row.percent
    low, high = (percent and percent.reported_bounds) or (None, None)
    return [
        _escape_cell(row.configuration),
        _escape_cell(row.label),
        row.status,
        len(row.valid),
        len(row.failed),
        *(
            (
                _format_number(percent.percent),
                _format_number(low),
                _format_number(high),
                _format_number(percent.performance_ratio),
            )
            if percent
            else [EMULATED if row.status == EMULATED else '', *[''] * 3]
        ),
        _format_number(row.rate),
        _format_number(row.total_seconds),
        _escape_cell(row.verdict),
        _escape_cell('; '.join(row.reasons)),
    ]


def _format_number(value: float | None) -> str:
    return '' if value is None else f'{value:.6g}'


def _escape_cell(text: str) -> str:
    """Return text that no spreadsheet interprets as a formula.

    The apostrophe marks text in spreadsheets (OWASP, "CSV Injection").
    """
    line = _join_lines(text)
    return f"'{line}" if line.startswith(('=', '+', '-', '@')) else line


def _join_lines(text: str) -> str:
    return ' '.join(text.split())


def format_junit(
    report: SweepReport, skipped: Sequence[SkippedConfiguration] = ()
) -> str:
    """Return the report as JUnit XML: a test case for each configuration.

    A configuration without a valid run is a failure, a configuration that is
    not comparable is an error, and a configuration that is not possible is
    skipped. A low percentage, emulated CPUs or a search are not a failure.
    """
    counts = [row.status for row in report.rows]
    error_count = sum(name not in _NON_ERROR_STATUSES for name in counts)
    suite = ElementTree.Element(
        'testsuite',
        name=f'hvstack {report.sweep}',
        tests=str(len(report.rows) + len(skipped)),
        failures=str(counts.count('failed')),
        errors=str(error_count),
        skipped=str(len(skipped)),
        timestamp=report.records[0].started.removesuffix('Z'),
        time=f'{sum(record.total_seconds for record in report.records):.3f}',
    )
    properties = ElementTree.SubElement(suite, 'properties')
    for name, value in report.list_facts():
        ElementTree.SubElement(
            properties, 'property', name=name, value=_remove_unprintable(value)
        )
    for row in report.rows:
        _add_test_case(suite, row)
    for name, reason in skipped:
        case = _add_element(suite, name, 0)
        ElementTree.SubElement(
            case, 'skipped', message=_remove_unprintable(reason)
        )
    out = ElementTree.SubElement(suite, 'system-out')
    out.text = _remove_unprintable('\n'.join([report.headline, *report.notes]))
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding='unicode')
    return f"<?xml version='1.0' encoding='utf-8'?>\n{text}\n"


def _add_test_case(suite: ElementTree.Element, row: Row) -> None:
    case = _add_element(suite, row.label, row.total_seconds or 0)
    if row.status in (EMULATED, SEARCH):
        ElementTree.SubElement(case, 'system-out').text = row.status
    elif row.status != 'ok':
        tag = 'failure' if row.status == 'failed' else 'error'
        ElementTree.SubElement(
            case,
            tag,
            message=_remove_unprintable('; '.join(row.reasons) or row.status),
        )
    if row.percent and row.configuration != BARE_METAL:
        out = ElementTree.SubElement(case, 'system-out')
        out.text = (
            f'{row.percent.percent:.1f} % of bare metal, '
            f'{row.verdict}, {format_noun(len(row.valid), "run")}'
        )


def _add_element(
    suite: ElementTree.Element, name: str, seconds: float
) -> ElementTree.Element:
    return ElementTree.SubElement(
        suite,
        'testcase',
        classname='hvstack.configuration',
        name=name,
        time=f'{seconds:.3f}',
    )


def _remove_unprintable(value: Json) -> str:
    """Return text without the characters that XML cannot contain."""
    return ''.join(
        char
        for char in format_plain(value)
        if char.isprintable() or char in '\n\t'
    )
