# SPDX-License-Identifier: Apache-2.0
"""Reports of studies as text and as pages."""

import textwrap
from collections.abc import Sequence

from hvstack.nouns import format_noun
from hvstack.report import paper_figures
from hvstack.report.chart_base import (
    Chart,
    build_paper_trace,
    build_row_trace,
    build_rows_layout,
    escape_text,
)
from hvstack.report.formats import format_interval, format_size
from hvstack.report.text import align_columns, format_number
from hvstack.results.stats import TOO_FEW_RUNS, Percent
from hvstack.results.typed_json import JsonObject
from hvstack.results.workload_types import TPCX_HS, WorkloadType
from hvstack.study import (
    block_losses,
    map_locality,
    paper_comparison,
    verdicts,
)
from hvstack.study.claim_results import ClaimResult
from hvstack.study.claims import BYTE_MEASURES, RATE, SHARES, Claim
from hvstack.study.paper_comparison import PaperComparison
from hvstack.study.study_report import StudyReport
from hvstack.study.study_rows import VariantRow

_WIDTH = 79


def format_text(report: StudyReport) -> str:
    """Return a report for a terminal; it ends with the verdicts."""
    study = report.started.study
    lines = [f'Study {report.started.id}', *_wrap(study.question), '']
    lines += [line for note in report.notes for line in _wrap(note)]
    lines.append('')
    for workload, rows in _group_rows(report):
        if workload is not TPCX_HS:
            lines.append(f'Workload {workload.title}:')
        lines += align_columns(
            [
                ('variant', 'data', 'runs', 'total s', *workload.timed_phases),
                *map(_list_cells, rows),
            ],
            left=(0,),
        )
    for row in report.rows:
        if row.reason:
            lines += _wrap(f'{row.variant.name}: {row.reason}')
    lines.append('')
    if comparison := paper_comparison.format_comparison(report.comparison):
        lines += [*comparison, '']
    if localities := map_locality.list_localities(study, report.rows):
        lines += [*map_locality.format_localities(localities), '']
    if blocks := block_losses.list_blocks(study, report.rows):
        lines += [*block_losses.format_blocks(blocks), '']
    for result in report.claims:
        lines += _wrap(f'{result.verdict.upper()}: {result.claim.text}')
        lines += [
            f'  {line}'
            for line in textwrap.wrap(format_evidence(result), _WIDTH - 2)
        ]
    lines += ['', *_wrap(report.headline)]
    return '\n'.join(lines) + '\n'


def format_evidence(result: ClaimResult) -> str:
    """Return the basis of a verdict as text."""
    claim = result.claim
    subject = format_subject(claim)
    basis = (
        format_percent(result.percent, result.verdict)
        if result.percent
        else result.measured or result.reason
    )
    # A reason can begin with the variant.
    parts = [] if basis.startswith(f'{subject}: ') else [subject]
    parts += [basis, f'the claim holds for {claim.rule.describe()}']
    if result.published:
        parts.append(f'paper: {result.published}')
    return '; '.join(parts) + '.'


def format_progress(result: ClaimResult) -> str:
    """Return the result of a claim so far as a line; empty without any."""
    claim = result.claim
    if result.percent is not None:
        measured = format_percent(result.percent, result.verdict)
    elif result.measured:
        measured = result.measured
    else:
        return ''
    return f'so far: {format_subject(claim)}: {measured}, {result.verdict}'


def format_subject(claim: Claim) -> str:
    """Return the variants, and the phase or the measure of a claim."""
    text = claim.variant
    if claim.measure in BYTE_MEASURES:
        return f'{text}, {claim.measure} in {claim.phase}'
    if claim.measure in SHARES:
        return f'{text}, {claim.measure}'
    if not claim.against:
        return text
    part = claim.phase if claim.measure == RATE else claim.measure
    text += f' against {claim.against}'
    return f'{text}, {part}' if part else text


def format_percent(percent: Percent, verdict: str) -> str:
    """Return a rate in percent with its interval and its runs.

    An interval from which a verdict follows is always reported.

    :param percent: rate in percent of another rate.
    :param verdict: verdict on the claim about the rates.
    """
    interval = format_interval(percent, missing=TOO_FEW_RUNS)
    if (
        verdict in (verdicts.HOLDS, verdicts.FAILS)
        and percent.low is not None
        and percent.high is not None
    ):
        interval = f'{percent.low:.1f} to {percent.high:.1f}'
    return (
        f'{percent.percent:.1f} % of the rate ({interval}, {percent.runs} '
        f'against {format_noun(percent.baseline_runs, "cluster")})'
    )


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_on_hyphens=False)


def _group_rows(
    report: StudyReport,
) -> list[tuple[WorkloadType, list[VariantRow]]]:
    """Return the rows of each workload, which have the same phases."""
    return [
        (
            workload,
            [row for row in report.rows if row.variant.workload is workload],
        )
        for workload in report.started.study.workloads
    ]


def _list_cells(row: VariantRow) -> tuple[str, ...]:
    """Return name, size, runs, and seconds with the reported values."""
    workload = row.variant.workload
    seconds = {name: format_number(x) for name, x in row.seconds.items()}
    for value in workload.reported:
        rate = row.reported.get(value.measure)
        if rate is not None:
            seconds[value.phase] += f' ({format_number(rate)} {value.unit})'
    return (
        row.variant.name,
        format_size(row.size_bytes) if workload.has_data else '-',
        str(len(row.valid)),
        format_number(row.total_seconds),
        *(
            seconds.get(phase, format_number(None))
            for phase in workload.timed_phases
        ),
    )


def build_page(report: StudyReport) -> str:
    """Return the page of a study: paper and measurement with the same axes."""
    # Only a page needs Jinja2.
    from hvstack.report.html import render_template

    study = report.started.study
    charts = []
    if any(claim.against for claim in study.claims):
        charts.append(_build_claim_chart(report))
    if report.comparison.has_rates:
        charts.insert(0, _build_paper_chart(report.comparison))
    if localities := map_locality.list_localities(study, report.rows):
        charts.append(map_locality.build_locality_chart(localities))
    if blocks := block_losses.list_blocks(study, report.rows):
        charts.append(block_losses.build_blocks_chart(blocks))
    return render_template(
        'study.html.j2',
        charts,
        report=report,
        study=study,
        paper=paper_figures.load_figures().papers.get(study.paper, {}),
        groups=[
            (
                workload,
                [
                    (_list_cells(row), row.variant.describe(), row.reason)
                    for row in rows
                ],
            )
            for workload, rows in _group_rows(report)
        ],
        claims=[(result, format_evidence(result)) for result in report.claims],
        facts=_list_facts(report),
    )


def _list_facts(report: StudyReport) -> list[tuple[str, str]]:
    """Return the differences between this system and that of the paper."""
    runs = [run for row in report.rows for run in row.valid]
    started = report.started
    facts = [
        ('study', started.id),
        ('started', started.started),
        ('passes', str(started.study.passes)),
        ('host profile', started.host),
        ('compute backend', started.backend),
    ]
    if runs:
        first = runs[0].sut.facts
        hosts = first.get('hosts')
        facts += [
            ('hosts', str(len(hosts) if isinstance(hosts, list) else hosts)),
            (
                'replication',
                ', '.join(sorted({str(run.replication) for run in runs})),
            ),
        ]
        # Variants can have different tuning profiles.
        facts += [
            (name, ', '.join(values))
            for name in ('cpu_model', 'kernel', 'hadoop', 'jre', 'tuning')
            if (
                values := dict.fromkeys(
                    str(value)
                    for run in runs
                    if (value := run.sut.facts.get(name))
                )
            )
        ]
    return facts


def _build_paper_chart(comparison: PaperComparison) -> Chart:
    """Return the chart of the paper's table and the measured rates."""
    base, variants = comparison.reference, comparison.variants
    traces = []
    if comparison.source:
        published = [item for item in variants if item.published is not None]
        traces.append(
            build_paper_trace(
                comparison.source,
                x=[item.published for item in published],
                y=[escape_text(item.name) for item in published],
                hovertemplate='%{y}: %{x:.1f} %<extra></extra>',
            )
        )
    traces += _build_traces(
        [(i.name, i.percent) for i in variants if i.percent is not None]
    )
    return Chart(
        name='paper',
        title=comparison.title,
        caption=(
            'Hollow diamonds: the paper, not measured here. '
            if comparison.source
            else ''
        )
        + 'Filled points: measured, with intervals that hold together with '
        '95 %. '
        f'{base} is 100 %.',
        traces=traces,
        layout=build_rows_layout(
            f'% of {base}',
            len(variants),
            [
                item.name
                for item in variants
                if (item.published, item.percent) != (None, None)
            ],
        ),
        head=paper_comparison.HEAD,
        rows=[
            paper_comparison.list_cells(comparison, item) for item in variants
        ],
        missing=[
            # A reason may begin with the name.
            f'{item.name}: {item.reason.removeprefix(f"{item.name}: ")}'
            for item in variants
            if item.reason
        ],
    )


def _build_traces(
    items: Sequence[tuple[str, Percent]],
) -> list[JsonObject]:
    if not items:
        return []
    names, percents = zip(*items, strict=True)
    return [build_row_trace('Measured', names, percents)]


def _build_claim_chart(report: StudyReport) -> Chart:
    """Return the chart of the intervals of all claims."""
    items = [
        (f'{number}. {format_subject(result.claim)}', result)
        for number, result in enumerate(report.claims, 1)
        if result.claim.against
    ]
    published = [
        (name, result)
        for name, result in items
        if result.published_percent is not None
    ]
    traces = []
    if published:
        traces.append(
            build_paper_trace(
                report.started.study.paper,
                x=[result.published_percent for _, result in published],
                y=[escape_text(name) for name, _ in published],
                text=[escape_text(item.published) for _, item in published],
                hovertemplate='%{text}<extra></extra>',
            )
        )
    traces += _build_traces(
        [
            (name, result.percent)
            for name, result in items
            if result.percent is not None
        ]
    )
    return Chart(
        name='claims',
        title='Intervals of the claims',
        caption='Rate of a variant in percent of another variant. The '
        'intervals hold together with 95 %.'
        + (
            ' Hollow diamonds: the paper, not measured here.'
            if published
            else ''
        ),
        traces=traces,
        layout=build_rows_layout(
            '% of the other variant',
            len(items),
            [
                name
                for name, result in items
                if (result.published_percent, result.percent) != (None, None)
            ],
        ),
        head=('Claim', 'Holds for', 'Paper', 'Measured', 'Verdict'),
        rows=[
            (
                name,
                result.claim.rule.describe(),
                result.published,
                format_percent(result.percent, result.verdict)
                if result.percent
                else '',
                result.verdict,
            )
            for name, result in items
        ],
        missing=[
            f'{name}: {result.reason}'
            for name, result in items
            if result.percent is None
        ],
    )
