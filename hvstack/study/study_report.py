# SPDX-License-Identifier: Apache-2.0
"""Results of a study: rates of the variants, and verdicts on the claims.

The estimator is that of a sweep: effects of variants and passes by least
squares on log rates, with the cluster as the unit. The intervals of all claims
hold together with a probability of 95 % (Bonferroni), because a study judges
all of its claims.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from hvstack.model import compute_backends
from hvstack.report import page_cache
from hvstack.report.provenance import list_provenance_notes
from hvstack.results import comparability, estimator, quantiles, stats
from hvstack.results.estimator import ClusterRate, SweepFit
from hvstack.results.passes import require_location
from hvstack.results.record_data import RunRecord
from hvstack.results.stats import Percent
from hvstack.study import paper_numbers, verdicts
from hvstack.study.definition import (
    LOCAL_MAPS,
    MISSING_BLOCKS,
    PHASES,
    SHARED_BLOCKS,
    Claim,
)
from hvstack.study.study_store import StartedStudy, StudyRecords
from hvstack.study.variants import Variant

FORMAT = 1
#: Facts of a record that a setting of a variant changes.
_FACTS_BY_SETTING = {
    'size_factor': ('size_bytes',),
    'replication': ('replication',),
    'output_replication': ('output_replication',),
    'tuning': ('tuning', 'hadoop_profile'),
    'os_profile': ('os_profile', 'thp'),
    'disks': ('data_disks', 'host_disks', 'storage'),
    'volume_type': ('data_disks', 'host_disks', 'storage', 'disk'),
    'copies': ('storage', 'disk'),
    'osd_groups': ('storage', 'disk'),
    'node_groups': ('node_groups', 'hadoop_profile'),
    'deployment': ('deployment',),
    'controllers': ('controllers',),
    'hadoop': ('job_settings',),
}


@dataclass(frozen=True)
class VariantRow:
    """Results of a variant.

    :param variant: the variant.
    :param size_bytes: size of the data in bytes.
    :param valid: valid runs.
    :param reason: why the variant was not measured or failed; empty if it was
        measured.
    """

    variant: Variant
    size_bytes: int
    valid: tuple[RunRecord, ...] = ()
    reason: str = ''

    @property
    def seconds(self) -> dict[str, float]:
        """Mean seconds of each phase that a claim can name."""
        return {
            name: math.fsum(map(_PhaseTime(name), self.valid))
            / len(self.valid)
            for name in PHASES
            if self.valid
        }

    @property
    def total_seconds(self) -> float | None:
        """Mean seconds of a run; None without a run."""
        if not self.valid:
            return None
        total = math.fsum(run.total_seconds for run in self.valid)
        return total / len(self.valid)


@dataclass(frozen=True)
class _PhaseTime:
    """Function that returns the seconds of a phase of a run.

    :param phase: name of the phase; empty for the whole run.
    """

    phase: str

    def __call__(self, run: RunRecord) -> float:
        if not self.phase:
            return run.total_seconds
        return math.fsum(
            phase.seconds for phase in run.phases if phase.name == self.phase
        )


@dataclass(frozen=True)
class ClaimResult:
    """Result of a claim.

    :param claim: the claim.
    :param verdict: one of :data:`hvstack.study.verdicts.VERDICTS`.
    :param percent: rate of the variant in percent of the other one; None
        without a comparison.
    :param reason: why a comparison is not possible; empty if it is.
    :param measured: value of another measure as text; empty without any.
    :param published: number of the paper as text; empty without any.
    """

    claim: Claim
    verdict: str
    percent: Percent | None = None
    reason: str = ''
    published: str = ''
    measured: str = ''


@dataclass(frozen=True)
class PlottedPoint:
    """Rate of a variant in percent of the first variant with a row.

    :param name: name of the variant.
    :param percent: measured rate; None without a comparison.
    :param published: rate of the paper; None without any.
    """

    name: str
    percent: Percent | None
    published: float | None


@dataclass(frozen=True)
class StudyReport:
    """Results of a study.

    :param started: the started study.
    :param rows: rows of the variants.
    :param claims: results of the claims.
    :param points: comparison with the table of the paper.
    :param reference: name of the variant that is 100 % in ``points``.
    :param pending: number of remaining runs.
    :param notes: limits of the verdicts, which every form must contain.
    """

    started: StartedStudy
    rows: tuple[VariantRow, ...]
    claims: tuple[ClaimResult, ...]
    points: tuple[PlottedPoint, ...]
    reference: str
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
        state = (
            f' {self.pending} runs remain, so the verdicts are preliminary.'
            if self.pending
            else ''
        )
        number = len(self.claims)
        return (
            f'Of {number} claim{"s" if number > 1 else ""}, '
            f'{", ".join(counts)}.{state}'
        )


def build_report(started: StartedStudy, stored: StudyRecords) -> StudyReport:
    """Return the results of a study so far.

    :param started: the study.
    :param stored: its records.
    :raises hvstack.errors.InputError: a record does not contain its cluster
        and its pass.
    """
    rows = tuple(
        _build_row(started, stored, variant)
        for variant in started.study.variants
    )
    by_name = {row.variant.name: row for row in rows}
    fits = {
        phase: _fit(rows, phase)
        for phase in {
            '',
            started.study.table.phase if started.study.table else '',
            *(claim.phase for claim in started.study.claims),
        }
    }
    claims = tuple(
        _judge(claim, by_name, fits[claim.phase], started)
        for claim in started.study.claims
    )
    points, reference = _compare_with_table(started, by_name, fits)
    return StudyReport(
        started,
        rows,
        claims,
        points,
        reference,
        len(stored.pending),
        tuple(_list_notes(started, rows)),
    )


def _build_row(
    started: StartedStudy, stored: StudyRecords, variant: Variant
) -> VariantRow:
    size = started.study.get_size(variant)
    reason = started.skipped.get(variant.name, '') or stored.failed.get(
        variant.name, ''
    )
    valid = [
        run
        for run in stored.records.get(variant.name, [])
        if run.valid and run.size_bytes == size
    ]
    for run in valid[1:]:
        lines = comparability.list_record_differences(run, valid[0])
        if lines and not reason:
            reason = f'Its runs are not comparable: {"; ".join(lines)}'
    return VariantRow(variant, size, tuple(valid), reason)


def _fit(rows: Sequence[VariantRow], phase: str) -> SweepFit | None:
    """Return the effects of the variants on the rate of a phase."""
    get_seconds = _PhaseTime(phase)
    clusters = [
        ClusterRate(
            row.variant.name,
            run.index,
            math.log(run.size_bytes / get_seconds(run)),
            datetime.fromisoformat(run.started).timestamp() / 3600,
        )
        for row in rows
        if not row.reason
        for run in row.valid
        # A cluster is a run: every run of a study has a new one.
        if require_location(run) and get_seconds(run) > 0
    ]
    return estimator.fit_sweep(clusters) if clusters else None


def list_varied_facts(first: Variant, second: Variant) -> set[str]:
    """Return the names of the facts that the settings of two variants vary."""
    first_settings, second_settings = (
        {
            'size_factor': variant.size_factor,
            'replication': variant.replication,
            **variant.setup.to_mapping(),
        }
        for variant in (first, second)
    )
    return {
        fact
        for setting, facts in _FACTS_BY_SETTING.items()
        if first_settings.get(setting) != second_settings.get(setting)
        for fact in facts
    }


def _judge(
    claim: Claim,
    rows: Mapping[str, VariantRow],
    fit: SweepFit | None,
    started: StartedStudy,
) -> ClaimResult:
    """Return the verdict on a claim."""
    number, paper = claim.published, started.study.paper
    published = (number and paper_numbers.format_number(paper, number)) or ''
    names = filter(None, (claim.variant, claim.against))
    pair = tuple(rows[name] for name in names)
    skipped = [
        f'{row.variant.name}: {reason}'
        for row in pair
        if (reason := started.skipped.get(row.variant.name, ''))
    ]
    if skipped:
        return ClaimResult(
            *(claim, verdicts.NOT_TESTABLE, None, '; '.join(skipped)),
            published,
        )
    reason = _find_obstacle(*pair)
    if not reason and claim.measure == SHARED_BLOCKS:
        return _judge_blocks(claim, pair[0].valid, published)
    if not reason and claim.measure == MISSING_BLOCKS:
        return _judge_losses(claim, pair[0].valid, published)
    if not reason and claim.measure == LOCAL_MAPS:
        return _judge_maps(
            *(claim, pair[0].valid, published),
            _compute_level(len(started.study.claims)),
        )
    if reason or fit is None:
        return ClaimResult(
            *(claim, verdicts.UNDECIDED, None, reason or 'no valid run'),
            published,
        )
    percent = _compare(
        fit, claim.variant, claim.against, rows, len(started.study.claims)
    )
    return ClaimResult(
        *(claim, claim.rule.judge(percent), percent),
        reason='too few runs for an interval' if percent.low is None else '',
        published=published,
    )


def _judge_blocks(
    claim: Claim, runs: Sequence[RunRecord], published: str
) -> ClaimResult:
    """Return the verdict on the number of blocks with replicas on one host."""
    checks = [
        phase.data_check
        for run in runs
        for phase in run.phases
        if phase.name == 'HSDataCheck'
    ]
    count = int(sum(check.blocks_on_one_host or 0 for check in checks))
    blocks = int(sum(check.blocks or 0 for check in checks))
    return ClaimResult(
        claim,
        verdicts.judge_count(claim.rule, count),
        published=published,
        measured=f'{count} of {blocks} blocks have two replicas on one host '
        f'({len(runs)} clusters)',
    )


def _judge_losses(
    claim: Claim, runs: Sequence[RunRecord], published: str
) -> ClaimResult:
    """Return the verdict on the number of blocks that losses destroyed."""
    losses = [loss for run in runs for loss in run.observations.host_losses]
    missing = sum(loss.missing for loss in losses)
    low = sum(loss.under_replicated for loss in losses)
    misplaced = sum(loss.misplaced for loss in losses)
    methods = {run.observations.host_loss_method for run in runs}
    return ClaimResult(
        claim,
        verdicts.judge_count(claim.rule, missing)
        if losses
        else verdicts.UNDECIDED,
        published=published,
        measured=f'{missing} of {sum(loss.blocks for loss in losses)} blocks '
        f'were missing, {low} under-replicated and {misplaced} '
        'mis-replicated after the loss of '
        f'{losses[0].hosts if losses else 0} hosts ({len(losses)} losses, '
        f'{len(runs)} clusters, {", ".join(sorted(methods))})',
    )


def _judge_maps(
    claim: Claim, runs: Sequence[RunRecord], published: str, level: float
) -> ClaimResult:
    """Return the verdict on the share of local maps.

    :param runs: runs of the variant, each on its own cluster.
    :param published: number of the paper as text.
    :param level: confidence level of the interval, from 0 to 1.
    """
    shares = []
    for run in runs:
        for phase in run.phases:
            locality = phase.job.locality if phase.name == 'HSSort' else {}
            if total := sum(locality.values()):
                local = locality.get('node', 0) + locality.get('node_group', 0)
                shares.append(100 * local / total)
    if len(shares) < 2:
        return ClaimResult(
            *(claim, verdicts.UNDECIDED, None),
            'too few runs for an interval',
            published,
        )
    mean = math.fsum(shares) / len(shares)
    error = statistics.stdev(shares) / math.sqrt(len(shares))
    half = error * quantiles.compute_t_quantile(len(shares) - 1, level)
    low, high = max(0.0, mean - half), min(100.0, mean + half)
    return ClaimResult(
        claim,
        claim.rule.judge_interval(low, high),
        published=published,
        measured=f"{mean:.1f} % of HSSort's maps are local ({low:.1f} to "
        f'{high:.1f}, {len(shares)} clusters)',
    )


def _find_obstacle(*pair: VariantRow) -> str:
    """Return why variants cannot be compared; empty if they can."""
    for row in pair:
        if row.reason:
            return f'{row.variant.name}: {row.reason}'
        if not row.valid:
            return f'{row.variant.name}: no valid run yet'
    if len(pair) == 1:
        return ''
    first, second = pair
    runs = first.valid[0], second.valid[0]
    emulated = [
        run.sut.backend
        for run in runs
        if compute_backends.is_emulated(run.sut.backend)
    ]
    if emulated:
        return f'backend {emulated[0]}: emulated CPUs are not compared'
    swept_facts = set().union(*map(comparability.list_swept_facts, runs))
    if swept_facts:
        swept_facts |= {'disk', 'host_disks'}
    lines = comparability.list_record_differences(
        *runs,
        swept_facts | list_varied_facts(first.variant, second.variant),
    )
    if lines:
        return f'Not comparable: {"; ".join(lines)}'
    return ''


def _compute_level(comparisons: int) -> float:
    """Return the confidence level of each of several intervals (Bonferroni).

    :param comparisons: number of intervals that hold together.
    """
    return 1 - (1 - quantiles.CONFIDENCE) / comparisons


def _compare(
    fit: SweepFit,
    name: str,
    other: str,
    rows: Mapping[str, VariantRow],
    comparisons: int,
) -> Percent:
    """Return the rate of a variant in percent of another one.

    :param fit: effects of the variants.
    :param name: name of the variant.
    :param other: name of the other variant.
    :param rows: rows by the names of the variants.
    :param comparisons: number of comparisons whose intervals hold together.
    """
    difference = fit.compare(name, other)
    half = row_half = None
    if difference.error is not None:
        row_half = difference.error * quantiles.compute_t_quantile(
            difference.degrees
        )
        half = difference.error * quantiles.compute_t_quantile(
            difference.degrees, _compute_level(comparisons)
        )
    return stats.build_percent(
        difference.log_ratio,
        half,
        difference.degrees,
        [run.rate for run in rows[name].valid],
        [run.rate for run in rows[other].valid],
        row_half,
    )


def _compare_with_table(
    started: StartedStudy,
    rows: Mapping[str, VariantRow],
    fits: Mapping[str, SweepFit | None],
) -> tuple[tuple[PlottedPoint, ...], str]:
    """Return each variant in percent of the first one, as the paper has it.

    :returns: points, and the name of the variant that is 100 %.
    """
    paper, reference = started.study.paper, started.study.table
    table = reference and paper_numbers.find_table(paper, reference)
    named = [item for item in rows.values() if item.variant.row or not table]
    if len(named) < 2:
        return (), ''
    base, fit = named[0], fits[reference.phase if reference else '']
    points = []
    for row in named:
        published = None
        if table and reference:
            published = paper_numbers.compute_percent(
                table, reference, row.variant.row, base.variant.row
            )
        percent = None
        is_comparable = row is not base and not _find_obstacle(row, base)
        if fit is not None and is_comparable:
            percent = _compare(
                fit,
                row.variant.name,
                base.variant.name,
                rows,
                len(named) - 1,
            )
        points.append(PlottedPoint(row.variant.name, percent, published))
    return tuple(points), base.variant.name


def _list_notes(
    started: StartedStudy, rows: Sequence[VariantRow]
) -> list[str]:
    """Return the limits of the verdicts, as a verdict must state them."""
    records = [run for row in rows for run in row.valid]
    notes = list_provenance_notes(records, {run.size_bytes for run in records})
    in_memory = [
        row.variant.name
        for row in rows
        for run in row.valid[:1]
        if row.size_bytes <= page_cache.sum_memory_mib(run) * 2**20
    ]
    if in_memory:
        notes.append(
            'The data is smaller than the memory of the hosts, so disks are '
            f'not measured: {", ".join(in_memory)}.'
        )
    if started.study.note:
        notes.append(started.study.note)
    return notes


def to_mapping(report: StudyReport) -> dict[str, Any]:
    """Return a report as plain data."""
    started, study = report.started, report.started.study
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
                'phase_seconds': row.seconds,
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
                'phase': result.claim.phase or 'whole run',
                'measure': result.claim.measure,
                'measured': result.measured,
                'rule': result.claim.rule.describe(),
                'verdict': result.verdict,
                'reason': result.reason,
                'published': result.published,
                'percent': asdict(result.percent) if result.percent else None,
            }
            for result in report.claims
        ],
    }
