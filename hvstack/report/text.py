# SPDX-License-Identifier: Apache-2.0
"""The report for a terminal: a short form, and one with all details.

Both end with the table and the sentences that report the question: a
terminal shows the end of what it was given.
"""

import textwrap
from collections.abc import Sequence

from hvstack.report import compute_hosts
from hvstack.report.comparison import Comparison, ConfigurationDelta
from hvstack.report.explanation import Explanation, build_explanation
from hvstack.report.formats import format_interval, format_plain, format_size
from hvstack.report.growth import Growth
from hvstack.report.sweep_report import SweepReport
from hvstack.report.sweep_rows import EMULATED, PHASES, Row

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
PAGE_ONLY = ('parameters', 'telemetry', 'compute_hosts')
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


def format_table(report: SweepReport, skipped: int = 0) -> str:
    """Return the short form: provenance, table, headline.

    :param skipped: number of configurations that could not exist.
    """
    lines = _format_provenance(report)
    failures = 0
    for row in report.rows:
        if row.status != 'ok' and row.reasons:
            reason = textwrap.shorten(row.reasons[0], 160, placeholder=' ...')
            lines += _wrap(f'{row.label}, {row.status}: {reason}', width=79)
        failures += len(row.failed)
    for reason in report.invalid_records[:_MAX_NAMED_FILES]:
        reason = textwrap.shorten(reason, 240, placeholder=' ...')
        lines += _wrap(f'Left out: {reason}', width=79)
    counts = [
        f'{noun}: {count}'
        for noun, count in (
            ('skipped configurations', skipped),
            ('failed runs', failures),
            ('unusable files', len(report.invalid_records)),
            ('missing runs', len(report.missing_runs)),
        )
        if count
    ]
    if counts:
        lines += _wrap(
            f'{", ".join(counts).capitalize()}; --details shows the reasons.',
            width=79,
        )
    lines += ['', *_format_rows(report, short=True), '']
    sentences = [report.headline]
    explanation = build_explanation(report)
    if explanation:
        sentences.append(explanation.sentence)
    if report.choice and not report.choice.winner:
        sentences += report.choice_note
    lines += _wrap(' '.join(sentences))
    return '\n'.join(lines) + '\n'


def format_details(report: SweepReport, remarks: Sequence[str] = ()) -> str:
    """Return everything that fits a terminal, the table last.

    :param remarks: lines about how the sweep went, such as what it skipped.
    """
    lines = ['What was seen:']
    for row in report.rows:
        for name, value in row.observed.facts.items():
            if name in PAGE_ONLY:
                continue
            lines += _wrap(f'{row.label}: {name}: {format_plain(value)}', '  ')
    lines += ['', *_format_facts(report)]
    if remarks:
        lines += ['', *remarks]
    for growth in report.growth:
        lines += ['', *_format_growth(growth)]
    lines.append('')
    for row in report.rows:
        for reason in row.reasons:
            lines += _wrap(f'{row.label}, {_status_text(row)}: {reason}')
    for note in report.notes:
        lines += _wrap(note)
    lines += _wrap(
        f'Seconds are means. The rate is the {report.rate_name}, a geometric '
        'mean. The 95 % confidence intervals use the variance of the '
        'logarithms of the rates of clusters around the effects of rows and '
        f'passes ({report.pooled.degrees_of_freedom} degrees of freedom), and '
        'hold for all rows together. "No difference" means that the interval '
        'is between 97 and 103; a wider one that contains 100 is "not told '
        'apart". For bare metal, the interval is that of its own mean.'
    )
    lines += _format_compute_hosts(report)
    explanation = build_explanation(report)
    if explanation:
        lines += ['', *_format_explanation(explanation)]
    sentences = [report.headline]
    if explanation:
        sentences.append(explanation.sentence)
    lines += [
        '',
        *_format_rows(report, short=False),
        '',
        *_wrap(' '.join(sentences)),
    ]
    return '\n'.join(lines) + '\n'


def _format_provenance(report: SweepReport) -> list[str]:
    """Return the facts that accompany every figure."""
    facts = [
        f'{name}: {value}'
        for name, value in report.list_facts()
        if name not in ONLY_IN_DETAILS
    ]
    lines = _wrap(f'Percent of bare metal. {"; ".join(facts)}.', width=79)
    for note in report.provenance_notes:
        lines += _wrap(note, width=79)
    return lines


def _format_rows(report: SweepReport, *, short: bool) -> list[str]:
    """Return the table.

    :param short: leave out the columns that are in the details.
    """
    columns = [
        column
        for column, title in enumerate(_COLUMNS)
        if not short or title in _SHORT_COLUMNS
    ]
    rows = [_COLUMNS, *(_format_cells(row) for row in report.rows)]
    return align_columns(
        [[row[column] for column in columns] for row in rows], left=(0, -1)
    )


def _status_text(row: Row) -> str:
    return 'a failed run' if row.status == 'ok' else row.status


def format_number(value: float | None, digits: int = 1) -> str:
    """Return a number with the given number of digits, or a dash."""
    return '-' if value is None else f'{value:.{digits}f}'


def format_percent(row: Row | None) -> str:
    """Return a row's percent of bare metal, what it has instead, or a dash."""
    if row is not None and row.status == EMULATED:
        return EMULATED
    return format_number(row.percent.percent if row and row.percent else None)


def format_delta_cells(delta: ConfigurationDelta) -> tuple[str, ...]:
    """Return one row of the table of two sweeps."""
    before, after = delta.before, delta.after
    return (
        delta.label,
        str(len(before.valid) if before else 0),
        str(len(after.valid) if after else 0),
        format_number(delta.percent.percent if delta.percent else None),
        format_interval(delta.percent),
        format_percent(before),
        format_percent(after),
        delta.verdict,
    )


def format_comparison(comparison: Comparison) -> str:
    """Return two sweeps as text."""
    lines = [*_wrap(comparison.headline), '']
    lines += align_columns(
        [_CHANGE_COLUMNS, *map(format_delta_cells, comparison.deltas)],
        left=(0, -1),
    )
    lines.append('')
    for delta in comparison.deltas:
        for reason in delta.reasons:
            lines += _wrap(f'{delta.label}: {reason}')
    for note in comparison.notes:
        lines += _wrap(note)
    return '\n'.join(lines) + '\n'


def _format_cells(row: Row) -> tuple[str, ...]:
    percent = row.percent
    failed = f' + {len(row.failed)} failed' if row.failed else ''
    rate, seconds = row.rate, row.seconds
    return (
        row.title,
        f'{len(row.valid)}{failed}',
        *(format_number(seconds.get(phase)) for phase in PHASES),
        format_number(row.total_seconds),
        '-' if rate is None else f'{rate:.4g}',
        format_percent(row),
        format_interval(percent),
        format_number(percent.performance_ratio if percent else None),
        row.verdict,
    )


def _format_facts(report: SweepReport) -> list[str]:
    lines = ['Percent of bare metal', '']
    for name, value in report.list_facts():
        lines += textwrap.wrap(
            f'{name + ":":24}{value}', _WIDTH, subsequent_indent=' ' * 24
        )
    return lines


def _format_growth(growth: Growth) -> list[str]:
    """Say how bare metal's phases grow with the data."""
    head = f'Bare metal with {growth.factor:g} times the data:'
    rows: list[Sequence[str]] = [
        (
            'phase',
            f'{format_size(growth.small)}, s',
            f'{format_size(growth.large)}, s',
            'ratio',
            'does not grow, s',
        )
    ]
    for phase, (small, large) in growth.seconds.items():
        rows.append(
            (
                phase,
                format_number(small),
                format_number(large),
                format_number(growth.ratio(phase), 2),
                format_number(growth.fixed_seconds(phase)),
            )
        )
    return [head, *align_columns(rows, left=(0,))]


def _format_compute_hosts(report: SweepReport) -> list[str]:
    """Return the use of the compute hosts as a table, and what it lacks."""
    lines: list[str] = []
    cores = compute_hosts.list_cores(report, whole=True)
    if cores:
        methods = '; '.join(compute_hosts.list_methods(report))
        lines += ['', 'Cores of the compute hosts:']
        lines += align_columns(
            [compute_hosts.HEAD, *(row.format_cells() for row in cores)],
            left=(0, 1),
        )
        lines += _wrap(f'{compute_hosts.LEGEND} The counters were {methods}.')
    for labels, reason in compute_hosts.list_reasons(report):
        lines += _wrap(f'{labels}: {reason}')
    return lines


def _format_explanation(explanation: Explanation) -> list[str]:
    """Return the causes of the difference from bare metal as a table."""
    lines = [
        f'Seconds that {explanation.row.title} takes longer than bare metal, '
        'by cause and phase:',
        *align_columns(
            [
                [cell.replace('HSDataCheck', 'Check') for cell in row]
                for row in explanation.list_cells()
            ],
            left=(0,),
        ),
    ]
    for remedy in explanation.remedies:
        lines += _wrap(f'To close the share of {remedy}.')
    if explanation.unobserved_titles:
        lines += _wrap(
            'Not recorded by all runs, so not attributed: '
            f'{", ".join(explanation.unobserved_titles)}.'
        )
    return lines


def align_columns(
    rows: Sequence[Sequence[str]], left: Sequence[int]
) -> list[str]:
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


def _wrap(text: str, indent: str = '', width: int = _WIDTH) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=f'{indent}  ',
        break_on_hyphens=False,
        # A path is copied as a whole.
        break_long_words=False,
    )
