# SPDX-License-Identifier: Apache-2.0
"""Plan of a study: its runs, their sizes and their duration."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypedDict

from hvstack.model.host import HostProfile
from hvstack.report.formats import format_size
from hvstack.results import quantiles
from hvstack.results.later_changes import (
    ComputeScaling,
    HostLoss,
    LaterChange,
    SecondCluster,
)
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore, StoredSweeps
from hvstack.results.workload_types import TYPES
from hvstack.study.claims import Claim
from hvstack.study.study_store import StartedStudy, StudyRecords
from hvstack.study.variants import Variant
from hvstack.sweep import forecast, run_times
from hvstack.sweep.node_setup import LaterChanges


class PlannedVariant(TypedDict):
    """Variant in the plan of a study.

    ``run_seconds`` is None without runs of its size, and ``run_seconds_range``
    without runs of its workload.
    """

    name: str
    workload: str
    settings: str
    size_bytes: int
    run_seconds: float | None
    run_seconds_range: tuple[float, float] | None
    setup_seconds: float | None
    loss_seconds: float | None
    scaling_seconds: float | None
    skipped: str


class StudyPlan(TypedDict):
    """Plan of a study, as ``--format json`` prints it."""

    study: str
    id: str
    question: str
    host: str
    backend: str
    passes: int
    runs: int
    seconds: float | None
    seconds_range: tuple[float, float] | None
    variants: list[PlannedVariant]
    claims: list[str]
    in_memory: list[str]
    interval_factor: float | None
    max_deviation_percent: float | None
    note: str


class RemainingTime(NamedTuple):
    """Time of the remaining runs of a study.

    The lowest and the highest number of seconds differ if no run had the data
    of a remaining one.
    """

    lowest: float
    highest: float
    #: Whether the time between two clusters is known and contained.
    has_setup: bool


def build_plan(
    started: StartedStudy, profile: HostProfile, store: RunStore
) -> StudyPlan:
    """Return the plan of a study as plain data.

    :param started: the study, which may have no ID yet.
    :param profile: host profile of the workers.
    :param store: store of the run records.
    """
    study = started.study
    factor = _compute_interval_factor(started)
    times = _Times(
        started,
        lambda: run_times.iter_records_of_cloud(
            StoredSweeps(store), started.cloud
        ),
    )
    variants = [
        times.plan_variant(variant, started.skipped.get(variant.name, ''))
        for variant in study.variants
    ]
    measured = [item for item in variants if not item['skipped']]
    seconds_range = _sum_seconds(study.passes, measured)
    is_known = all(item['run_seconds'] is not None for item in measured)
    return {
        'study': study.name,
        'id': started.id,
        'question': study.question,
        'host': started.host,
        'backend': started.backend,
        'passes': study.passes,
        'runs': len(started.list_steps()),
        'seconds': seconds_range[0] if seconds_range and is_known else None,
        'seconds_range': seconds_range,
        'variants': variants,
        'claims': [
            f'{claim.text} {claim.condition}'
            + _explain_untestable(claim, started.skipped)
            for claim in study.claims
        ],
        'in_memory': [
            variant.name
            for variant in started.measured_variants
            if variant.workload.uses_page_cache
            and study.get_size(variant) <= profile.memory_mib * 2**20
        ],
        'interval_factor': factor and round(factor, 2),
        'max_deviation_percent': _find_max_deviation(started, factor),
        'note': study.note,
    }


def estimate_remaining(
    started: StartedStudy, stored: StudyRecords
) -> RemainingTime | None:
    """Return the time of the remaining runs by those of the study so far.

    :param started: the study.
    :param stored: its records and its remaining runs.
    :returns: None if no run had the workload of a remaining one.
    """
    times = _Times(
        started,
        lambda: itertools.chain.from_iterable(stored.records.values()),
    )
    planned = [times.plan_variant(step.variant, '') for step in stored.pending]
    seconds_range = _sum_seconds(1, planned)
    if seconds_range is None:
        return None
    return RemainingTime(
        *seconds_range,
        all(item['setup_seconds'] is not None for item in planned),
    )


def _list_comparisons(started: StartedStudy) -> list[Claim]:
    """Return the claims about two measured variants."""
    return [
        claim
        for claim in started.study.claims
        if claim.against
        and not {claim.variant, claim.against} & started.skipped.keys()
    ]


def _compute_interval_factor(started: StartedStudy) -> float | None:
    """Return how wide the intervals of the claims will be.

    :returns: half of the widest interval of a difference, in multiples of the
        standard deviation between clusters of a variant; None without such a
        claim, or with too few passes for an interval.
    """
    study = started.study
    workloads = {item.name: item.workload for item in study.variants}
    compared = {
        workloads[claim.variant].name for claim in _list_comparisons(started)
    }
    counts = Counter(item.workload.name for item in started.measured_variants)
    degrees = min(
        ((counts[name] - 1) * (study.passes - 1) for name in compared),
        default=0,
    )
    if degrees < 1:
        return None
    quantile = quantiles.compute_t_quantile(
        degrees, quantiles.compute_joint_level(len(study.claims))
    )
    return quantile * math.sqrt(2 / study.passes)


def _find_max_deviation(
    started: StartedStudy, factor: float | None
) -> float | None:
    """Return the deviation in percent with which all claims can hold.

    :param factor: result of :func:`_compute_interval_factor`.
    :returns: None without a claim that has both a lower and an upper limit.
    """
    widths = [
        claim.rule.high - claim.rule.low
        for claim in _list_comparisons(started)
        if claim.rule.low is not None and claim.rule.high is not None
    ]
    if not widths or factor is None:
        return None
    return round(min(widths) / 2 / factor, 2)


def _explain_untestable(claim: Claim, skipped: Mapping[str, str]) -> str:
    """Return a sentence about skipped variants; empty without any."""
    names = [
        f"'{name}'"
        for name in (claim.variant, claim.against)
        if name in skipped
    ]
    if not names:
        return ''
    verb = 'are' if len(names) > 1 else 'is'
    return f' Cannot be tested here: {" and ".join(names)} {verb} skipped.'


class _Times:
    """Times of runs with the sizes and the backend of a study.

    :param started: the study.
    :param read: function that reads the records, sweep by sweep.
    """

    def __init__(
        self, started: StartedStudy, read: Callable[[], Iterator[RunRecord]]
    ) -> None:
        self._study = study = started.study
        self._backend = backend = started.backend
        self._times = {
            (size, name): run_times.compute_median_times(
                read(),
                *(size, run_times.MAX_TIMED_RUNS, name, backend),
            )
            for size, name in {
                (study.get_size(variant), variant.workload.name)
                for variant in study.variants
            }
        }
        self._ranges = {
            (size, name): (run, run)
            if run is not None
            else self._bound_run(read(), size, name)
            for (size, name), (run, _) in self._times.items()
        }
        #: Median seconds by kind of change after a run.
        self._change_seconds: dict[type[LaterChange], float | None] = {}
        setups = [variant.setup.later for variant in study.variants]
        if any(setup != LaterChanges() for setup in setups):
            records = list(_select_runs(read(), backend))
            self._change_seconds = {
                kind: run_times.compute_median_change_seconds(records, kind)
                for kind in (HostLoss, ComputeScaling, SecondCluster)
            }

    def _bound_run(
        self, records: Iterable[RunRecord], size: int, workload: str
    ) -> tuple[float, float] | None:
        """Return the seconds of a run by those with other data."""
        return run_times.compute_time_bounds(
            *(records, size, run_times.MAX_TIMED_RUNS, workload),
            self._backend,
        )

    def plan_variant(self, variant: Variant, skipped: str) -> PlannedVariant:
        """Return a variant with the times of a run.

        :param skipped: why the variant is not measured; empty if it is.
        """
        size = self._study.get_size(variant)
        key = size, variant.workload.name
        run, setup = self._times[key]
        losses = 0
        if variant.setup.later.lost_hosts:
            losses = variant.setup.later.loss_rounds or 1
        return {
            'name': variant.name,
            'workload': variant.workload.name,
            'settings': variant.describe(),
            'size_bytes': size,
            'run_seconds': run,
            'run_seconds_range': self._ranges[key],
            'setup_seconds': setup,
            'loss_seconds': None
            if losses and self._change_seconds[HostLoss] is None
            else losses * (self._change_seconds.get(HostLoss) or 0.0),
            'scaling_seconds': self._get_scaling_seconds(variant),
            'skipped': skipped,
        }

    def _get_scaling_seconds(self, variant: Variant) -> float | None:
        """Return the seconds of the changes of compute workers after a run."""
        if variant.setup.later.scaled_compute:
            return self._change_seconds[ComputeScaling]
        if variant.setup.later.second_cluster:
            return self._change_seconds[SecondCluster]
        return 0.0


def _select_runs(
    records: Iterable[RunRecord], backend: str
) -> Iterable[RunRecord]:
    """Yield records with changes of the cluster after the run.

    :param records: records of any sweeps.
    :param backend: name of the compute backend of these records.
    """
    return itertools.islice(
        (
            record
            for record in records
            if run_times.is_of_backend(record, backend)
            and record.observations.later_changes
        ),
        run_times.MAX_TIMED_RUNS,
    )


def _sum_seconds(
    passes: int, variants: Iterable[PlannedVariant]
) -> tuple[float, float] | None:
    """Return the lowest and the highest duration of a study.

    :returns: None if the time of a run is unknown.
    """
    lowest = highest = 0.0
    for item in variants:
        bounds = item['run_seconds_range']
        if bounds is None:
            return None
        other = (
            (item['setup_seconds'] or 0.0)
            + (item['loss_seconds'] or 0.0)
            + (item['scaling_seconds'] or 0.0)
        )
        lowest += passes * (bounds[0] + other)
        highest += passes * (bounds[1] + other)
    return lowest, highest


def format_plan(plan: StudyPlan) -> list[str]:
    """Return the lines of a plan for a terminal."""
    lines = [plan['question']]
    if plan['id']:
        lines.append(f'ID: {plan["id"]}')
    lines.append(f'Hosts: {plan["host"]}, backend {plan["backend"]}')
    lines.append('Variants:')
    for variant in plan['variants']:
        state = (
            f'skipped: {variant["skipped"]}'
            if variant['skipped']
            else _format_data(variant)
        )
        lines.append(f'- {variant["name"]}: {variant["settings"]}; {state}')
    lines.append('Claims:')
    lines += [f'- {claim}' for claim in plan['claims']]
    lines.append(
        f'{plan["runs"]} runs on new clusters in {plan["passes"]} passes: '
        f'{_format_duration(plan)}'
    )
    lines += _format_intervals(plan)
    if plan['in_memory']:
        count = sum(not variant['skipped'] for variant in plan['variants'])
        names = ', '.join(plan['in_memory'])
        lines.append(
            'The memory of a single host can hold the data'
            + ('' if len(plan['in_memory']) == count else f' of {names}')
            + ', so disks are not measured.'
        )
    if plan['note']:
        lines.append(plan['note'])
    return lines


def _format_data(variant: PlannedVariant, prefix: str = '') -> str:
    """Return the size of the data of a variant as text.

    :param prefix: words before the size.
    """
    if not TYPES[variant['workload']].has_data:
        return 'no data'
    return f'{prefix}{format_size(variant["size_bytes"])}'


def _format_intervals(plan: StudyPlan) -> list[str]:
    """Return a line about the width of the intervals, if there are any."""
    factor, deviation = plan['interval_factor'], plan['max_deviation_percent']
    if plan['passes'] == 1:
        return [
            'A single pass gives no intervals: only claims about counts are '
            'decided.'
        ]
    if factor is None:
        return []
    line = (
        f'The intervals of differences will be about ±{factor:.1f} times the '
        'standard deviation between clusters of a variant'
    )
    if deviation is not None:
        line += (
            '. The claim with the narrowest range can hold if this deviation '
            f'is less than {deviation:.1f} %'
        )
    return [f'{line}.']


def _format_duration(plan: StudyPlan) -> str:
    """Return the duration of a plan as the end of a sentence."""
    measured = [item for item in plan['variants'] if not item['skipped']]
    sizes = ', '.join(
        dict.fromkeys(
            f'{_format_data(item, "data of ")} ({item["workload"]})'
            for item in measured
            if item['run_seconds'] is None
        )
    )
    seconds_range = plan['seconds_range']
    if seconds_range is None:
        return (
            f'the duration is unknown until runs with '
            f'{sizes} were measured with the backend {plan["backend"]}.'
        )
    span = forecast.format_span(*seconds_range)
    text = f'about {span} by the records of runs with '
    if sizes:
        text += (
            f'other data: no record contains {sizes}, and the time of a run '
            'is assumed to grow at most in proportion to its data'
        )
    else:
        text += 'data of the same size'
    parts = [
        part
        for part, key in (
            ('clusters', 'setup_seconds'),
            ('losses of hosts', 'loss_seconds'),
            ('changes of compute workers', 'scaling_seconds'),
        )
        if any(item[key] is None for item in measured)  # type: ignore[literal-required]
    ]
    if parts:
        text += (
            f', without the time for {" and ".join(parts)}, which no record '
            'contains'
        )
    return f'{text}.'
