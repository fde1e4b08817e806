# SPDX-License-Identifier: Apache-2.0
"""Report of a study: rates of the variants, and verdicts on the claims."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from hvstack.model.plain_data import JsonObject
from hvstack.nouns import format_noun
from hvstack.report import page_cache
from hvstack.report.provenance import list_provenance_notes
from hvstack.results import quantiles
from hvstack.results.estimator import SweepFit
from hvstack.study import (
    block_losses,
    map_locality,
    os_differences,
    paper_comparison,
    verdicts,
)
from hvstack.study.claim_results import (
    ClaimResult,
    judge_claim,
)
from hvstack.study.paper_comparison import PaperComparison
from hvstack.study.study_rows import (
    Quantity,
    VariantRow,
    build_row,
    fit_rates,
    get_quantity,
)
from hvstack.study.study_store import StartedStudy, StudyRecords

FORMAT = 1


@dataclass(frozen=True)
class StudyReport:
    """Results of a study.

    :param started: the started study.
    :param rows: rows of the variants.
    :param claims: results of the claims.
    :param comparison: comparison with the table of the paper.
    :param pending: number of remaining runs.
    :param notes: limits of the verdicts, which every form must contain.
    """

    started: StartedStudy
    rows: tuple[VariantRow, ...]
    claims: tuple[ClaimResult, ...]
    comparison: PaperComparison
    pending: int
    notes: tuple[str, ...] = field(default=())

    @property
    def headline(self) -> str:
        """Summary of the verdicts in one sentence."""
        counts = [
            f'{count} {verbs[count > 1]}'
            for verdict, verbs in verdicts.VERDICTS.items()
            if (count := [r.verdict for r in self.claims].count(verdict))
        ]
        state = ''
        if self.pending:
            remain = 'remains' if self.pending == 1 else 'remain'
            state = (
                f' {format_noun(self.pending, "run")} {remain}, so the '
                'verdicts are preliminary.'
            )
        claims = format_noun(len(self.claims), 'claim')
        return f'Of {claims}, {", ".join(counts)}.{state}'


def build_report(started: StartedStudy, stored: StudyRecords) -> StudyReport:
    """Return the results of a study so far.

    :param started: the study.
    :param stored: its records.
    :raises hvstack.errors.InputError: a record does not contain its cluster
        and its pass.
    """
    rows = tuple(
        build_row(started, stored, variant)
        for variant in started.study.variants
    )
    by_name = {row.variant.name: row for row in rows}
    fits: dict[Quantity, SweepFit | None] = {}

    def fit(quantity: Quantity) -> SweepFit | None:
        if quantity not in fits:
            fits[quantity] = fit_rates(rows, quantity)
        return fits[quantity]

    claims = tuple(
        judge_claim(
            claim,
            by_name,
            fit(get_quantity(claim, by_name[claim.variant].variant)),
            started,
        )
        for claim in started.study.claims
    )
    return StudyReport(
        started,
        rows,
        claims,
        paper_comparison.compare(started.study, by_name, fit),
        len(stored.pending),
        tuple(_list_notes(started, rows)),
    )


def _list_notes(
    started: StartedStudy, rows: Sequence[VariantRow]
) -> list[str]:
    """Return the limits of the verdicts, as a verdict must state them."""
    records = [run for row in rows for run in row.valid]
    notes = list_provenance_notes(
        records,
        {run.size_bytes for run in records},
        {run.sweep: row.variant.name for row in rows for run in row.valid},
    )
    in_memory = [
        row.variant.name
        for row in rows
        for run in row.valid[:1]
        if row.variant.workload.uses_page_cache
        and page_cache.fits_page_cache(run)
    ]
    if in_memory:
        notes.append(
            'The data is smaller than the memory of the hosts, so disks are '
            f'not measured: {", ".join(in_memory)}.'
        )
    if len({row.variant.setup.os_profile for row in rows}) > 1:
        notes += [
            f'{row.variant.name}: settings of its OS profile that were not in '
            f'force: {"; ".join(lines)}.'
            for row in rows
            for run in row.valid[:1]
            if (lines := os_differences.list_not_set(run))
        ]
    if started.study.note:
        notes.append(started.study.note)
    return notes


def to_mapping(report: StudyReport) -> JsonObject:
    """Return a report as plain data."""
    started, study = report.started, report.started.study
    variants = {variant.name: variant for variant in study.variants}
    quantities = [
        get_quantity(claim, variants[claim.variant]) for claim in study.claims
    ]
    return {
        'format': FORMAT,
        'id': started.id,
        'study': study.name,
        'question': study.question,
        'paper': study.paper,
        'covers': list(study.covers),
        'passes': study.passes,
        'remaining_runs': report.pending,
        'headline': report.headline,
        'confidence': quantiles.CONFIDENCE,
        'notes': list(report.notes),
        'variants': [
            {
                'name': row.variant.name,
                'settings': row.variant.describe(),
                'size_bytes': row.size_bytes,
                'runs': len(row.valid),
                'total_seconds': row.total_seconds,
                'workload': row.variant.workload.name,
                'phase_seconds': row.seconds,
                'reported': row.reported,
                'reason': row.reason,
                'records': [run.id for run in row.valid],
            }
            for row in report.rows
        ],
        'claims': [
            {
                'text': result.claim.text,
                'variant': result.claim.variant,
                'against': result.claim.against,
                'phase': quantity.phase or 'whole run',
                'measure': result.claim.measure,
                'measured': result.measured,
                'rule': result.claim.rule.describe(),
                'verdict': result.verdict,
                'reason': result.reason,
                'published': result.published,
                'published_percent': result.published_percent,
                'percent': asdict(result.percent) if result.percent else None,
            }
            for result, quantity in zip(report.claims, quantities, strict=True)
        ],
        'comparison': paper_comparison.to_mapping(report.comparison),
        'map_tasks': [
            {
                'variant': item.variant,
                'published': item.source,
                'by_locality': dict(item.counts),
            }
            for item in map_locality.list_localities(study, report.rows)
        ],
        'blocks_after_losses': block_losses.build_mappings(
            block_losses.list_blocks(study, report.rows)
        ),
    }
