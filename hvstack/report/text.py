# SPDX-License-Identifier: Apache-2.0
"""The answer for a terminal: a short form, and one with all details.

Both end with the table and the sentences that answer the question: a
terminal shows the end of what it was given.
"""

import textwrap
from collections.abc import Sequence

from hvstack.report.answer import (
    EMULATED,
    PHASES,
    Answer,
    Growth,
    Row,
    plain,
    size_text,
)
from hvstack.report.comparison import Change, Comparison
from hvstack.results.stats import Percent

_WIDTH = 100
#: Unusable files that the short form names; the details name all.
_MAX_NAMED_FILES = 3
_COLUMNS = (
    'configuration',
    'runs',
    *(phase.replace('HSDataCheck', 'Check') for phase in PHASES),
    'total s',
    'rate TB/h',
    '% of bare metal',
    '95 % interval',
    'perf. runs %',
    'verdict',
)
#: Columns of the short form; they fit 80 characters.
_SHORT_COLUMNS = (
    *('configuration', 'runs', 'total s', '% of bare metal'),
    *('95 % interval', 'verdict'),
)
#: Provenance that the short form leaves to the details.
ONLY_IN_DETAILS = ('os_release', 'jre', 'libvirt', 'qemu', 'runs')
#: What was seen but would fill screens: the page has own tables.
ON_THE_PAGE = ('parameters', 'telemetry')
_CHANGE_COLUMNS = (
    'configuration',
    'runs before',
    'after',
    'after, % of before',
    '95 % interval',
    '% of bare metal before',
    'after',
    'verdict',
)


def table(answer: Answer, skipped: int = 0) -> str:
    """Return the short form: provenance, table, headline.

    :param skipped: number of configurations that could not exist.
    """
    lines = _provenance(answer)
    failures = 0
    for row in answer.rows:
        if row.status != 'ok' and row.reasons:
            reason = textwrap.shorten(row.reasons[0], 160, placeholder=' ...')
            lines += _wrapped(f'{row.label}, {row.status}: {reason}', width=79)
        failures += len(row.failed)
    for reason in answer.left_out[:_MAX_NAMED_FILES]:
        reason = textwrap.shorten(reason, 240, placeholder=' ...')
        lines += _wrapped(f'Left out: {reason}', width=79)
    counts = [
        f'{noun}: {count}'
        for noun, count in (
            ('skipped configurations', skipped),
            ('failed runs', failures),
            ('unusable files', len(answer.left_out)),
            ('missing runs', len(answer.gaps)),
        )
        if count
    ]
    if counts:
        lines += _wrapped(
            f'{", ".join(counts).capitalize()}; --details shows the reasons.',
            width=79,
        )
    lines += ['', *_rows(answer, short=True), '']
    sentences = [answer.headline]
    if answer.choice and not answer.choice.winner:
        sentences += answer.choice_note
    lines += _wrapped(' '.join(sentences))
    return '\n'.join(lines) + '\n'


def details(answer: Answer, remarks: Sequence[str] = ()) -> str:
    """Return everything that fits a terminal, the table last.

    :param remarks: lines about how the sweep went, such as what it skipped.
    """
    lines = ['What was seen:']
    for row in answer.rows:
        for name, value in row.seen.items():
            if name in ON_THE_PAGE:
                continue
            lines += _wrapped(f'{row.label}: {name}: {plain(value)}', '  ')
    lines += ['', *_facts(answer)]
    if remarks:
        lines += ['', *remarks]
    for growth in answer.growth:
        lines += ['', *_growth(growth)]
    lines.append('')
    for row in answer.rows:
        for reason in row.reasons:
            lines += _wrapped(f'{row.label}, {_kind(row)}: {reason}')
    for note in answer.notes:
        lines += _wrapped(note)
    lines += _wrapped(
        f'Seconds are means. The rate is the {answer.rate_name}, a geometric '
        'mean. The 95 % confidence intervals use the variance of the '
        'logarithms of the rates, pooled over all rows '
        f'({answer.pooled.degrees_of_freedom} degrees of freedom). "No '
        'difference" means that the interval contains 100. For bare metal, '
        'the interval is that of its own mean.'
    )
    lines += ['', *_rows(answer, short=False), '', *_wrapped(answer.headline)]
    return '\n'.join(lines) + '\n'


def _provenance(answer: Answer) -> list[str]:
    """Return what no figure is shown without, in a few lines."""
    facts = [
        f'{name}: {value}'
        for name, value in answer.facts()
        if name not in ONLY_IN_DETAILS
    ]
    lines = _wrapped(f'Percent of bare metal. {"; ".join(facts)}.', width=79)
    for note in answer.provenance_notes:
        lines += _wrapped(note, width=79)
    return lines


def _rows(answer: Answer, *, short: bool) -> list[str]:
    """Return the table.

    :param short: leave out the columns that are in the details.
    """
    columns = [
        number
        for number, title in enumerate(_COLUMNS)
        if not short or title in _SHORT_COLUMNS
    ]
    rows = [_COLUMNS, *(_cells(row) for row in answer.rows)]
    return _aligned(
        [[row[number] for number in columns] for row in rows], left=(0, -1)
    )


def _kind(row: Row) -> str:
    return 'a failed run' if row.status == 'ok' else row.status


def number(value: float | None, digits: int = 1) -> str:
    """Return a number with so many digits, or a dash."""
    return '-' if value is None else f'{value:.{digits}f}'


def interval(row: Row) -> str:
    """Return a row's interval, or a dash."""
    return bounds(row.percent)


def percent_of(row: Row | None) -> str:
    """Return a row's percent of bare metal, what it has instead, or a dash."""
    if row is not None and row.status == EMULATED:
        return EMULATED
    return number(row.percent.percent if row and row.percent else None)


def bounds(percent: Percent | None) -> str:
    """Return the interval of a percentage, or a dash."""
    if percent is None or percent.low is None or percent.high is None:
        return '-'
    return f'{percent.low:.1f} to {percent.high:.1f}'


def change_cells(change: Change) -> tuple[str, ...]:
    """Return one row of the table of two sweeps."""
    before, after = change.before, change.after
    return (
        change.label,
        str(len(before.valid) if before else 0),
        str(len(after.valid) if after else 0),
        number(change.percent.percent if change.percent else None),
        bounds(change.percent),
        percent_of(before),
        percent_of(after),
        change.verdict,
    )


def comparison_table(comparison: Comparison) -> str:
    """Return two sweeps as text."""
    lines = [*_wrapped(comparison.headline), '']
    lines += _aligned(
        [_CHANGE_COLUMNS, *map(change_cells, comparison.changes)],
        left=(0, -1),
    )
    lines.append('')
    for change in comparison.changes:
        for reason in change.reasons:
            lines += _wrapped(f'{change.label}: {reason}')
    for note in comparison.notes:
        lines += _wrapped(note)
    return '\n'.join(lines) + '\n'


def _cells(row: Row) -> tuple[str, ...]:
    percent = row.percent
    failed = f' + {len(row.failed)} failed' if row.failed else ''
    rate = row.rate
    return (
        row.title,
        f'{len(row.valid)}{failed}',
        *(number(row.seconds.get(phase)) for phase in PHASES),
        number(row.total_seconds),
        '-' if rate is None else f'{rate:.4g}',
        percent_of(row),
        interval(row),
        number(percent.performance_ratio if percent else None),
        row.verdict,
    )


def _facts(answer: Answer) -> list[str]:
    lines = ['Percent of bare metal', '']
    for name, value in answer.facts():
        lines += textwrap.wrap(
            f'{name + ":":24}{value}', _WIDTH, subsequent_indent=' ' * 24
        )
    return lines


def _growth(growth: Growth) -> list[str]:
    """Say how bare metal's phases grow with the data."""
    head = f'Bare metal with {growth.factor:g} times the data:'
    rows: list[Sequence[str]] = [
        (
            'phase',
            f'{size_text(growth.small)}, s',
            f'{size_text(growth.large)}, s',
            'ratio',
            'does not grow, s',
        )
    ]
    for phase, (small, large) in growth.seconds.items():
        rows.append(
            (
                phase,
                number(small),
                number(large),
                number(growth.ratio(phase), 2),
                number(growth.fixed(phase)),
            )
        )
    return [head, *_aligned(rows, left=(0,))]


def _aligned(rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    """Return rows with their columns aligned, those of ``left`` leftwards."""
    count = len(rows[0])
    left_columns = {column % count for column in left}
    widths = [max(len(row[n]) for row in rows) for n in range(count)]
    lines = [
        '  '.join(
            cell.ljust(width) if n in left_columns else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [lines[0], '-' * max(map(len, lines)), *lines[1:]]


def _wrapped(text: str, indent: str = '', width: int = _WIDTH) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=f'{indent}  ',
        break_on_hyphens=False,
        # A path is copied as a whole.
        break_long_words=False,
    )
