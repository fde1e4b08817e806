# SPDX-License-Identifier: Apache-2.0
"""Percent of bare metal from run records: the same in report and evidence.

The unit is the cluster, not the run. Two clusters of one configuration differ
by more than two runs on one of them, so an interval from runs of one cluster
would be too narrow. The geometric mean of the runs of a cluster counts as one
value.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from hvstack.model.target import BARE_METAL
from hvstack.results import estimator, stats
from hvstack.results.estimator import ClusterRate, History
from hvstack.results.passes import require_location
from hvstack.results.record_data import RunRecord
from hvstack.results.run_id import ScheduledRun
from hvstack.results.stats import CorrectedRates, Drift, Percent

#: Maximum number of attempts of a run. A run that was killed because it ran
#: out of memory is not repeated: it would be killed again.
MAX_TRIES = 2


_Run = TypeVar('_Run', bound=ScheduledRun)


@dataclass(frozen=True)
class Percents:
    """Percent of bare metal of a sweep.

    :param corrected_rates: rates, corrected for passes and drift.
    :param drift: drift of bare metal, even if it is not significant; None with
        too few runs.
    :param rows: percentages by configuration; empty without a baseline.
    """

    corrected_rates: CorrectedRates
    drift: Drift | None
    rows: dict[str, Percent]


def compute_percents(
    rows: Mapping[str, Sequence[RunRecord]],
    base: Sequence[RunRecord],
    history: History | None = None,
) -> Percents:
    """Compute the percentages of configurations.

    :param rows: records of the valid runs by configuration.
    :param base: records of the valid runs on bare metal.
    :param history: residuals of earlier sweeps; None without them.
    :raises hvstack.errors.InputError: a record does not contain its cluster
        and its pass.
    """
    rows = {name: runs for name, runs in rows.items() if runs}
    corrected_rates, drift = correct_rates(
        list_clusters({**rows, BARE_METAL: base}), history
    )
    return Percents(
        corrected_rates,
        drift,
        {
            name: replace(
                corrected_rates.compute_ratio(name),
                runs=len(runs),
                baseline_runs=len(base),
                # A performance run is a measured run without correction.
                performance_ratio=stats.compute_performance_ratio(
                    [run.rate for run in runs], [run.rate for run in base]
                ),
            )
            for name, runs in rows.items()
        }
        if base
        else {},
    )


def correct_rates(
    clusters: Sequence[ClusterRate], history: History | None = None
) -> tuple[CorrectedRates, Drift | None]:
    """Return the rates of a sweep, corrected for passes and drift.

    A significant drift of bare metal corrects the differences of the start
    times within a pass; the effects of the passes contain the remainder.

    :param clusters: clusters of the sweep.
    :param history: residuals of earlier sweeps; None without them.
    :returns: the rates, and the drift of bare metal; None with too few runs.
    """
    rows: dict[str, list[float]] = {}
    for cluster in clusters:
        rows.setdefault(cluster.row, []).append(math.exp(cluster.log_rate))
    base = rows.pop(BARE_METAL, [])
    drift = stats.fit_drift(
        [cluster.hour for cluster in clusters if cluster.row == BARE_METAL],
        base,
    )
    fit = (
        estimator.fit_sweep(clusters, BARE_METAL, history)
        if clusters
        else None
    )
    if fit is None or fit.is_merged or drift is None or not drift.applied:
        return CorrectedRates(rows, base, fit), drift
    hours: dict[Hashable, list[float]] = {}
    for cluster in clusters:
        hours.setdefault(cluster.pass_id, []).append(cluster.hour)
    centers = {pass_id: _mean(values) for pass_id, values in hours.items()}
    corrected_clusters = [
        replace(
            cluster,
            log_rate=cluster.log_rate
            - drift.slope * (cluster.hour - centers[cluster.pass_id]),
        )
        for cluster in clusters
    ]
    fit = estimator.fit_sweep(corrected_clusters, BARE_METAL, history)
    return CorrectedRates(rows, base, fit, drift), drift


def fit_rates(
    rates: Mapping[str, Sequence[float]], base: Sequence[float]
) -> CorrectedRates:
    """Return rates that are not part of passes.

    :param rates: rates of the clusters of each configuration.
    :param base: rates of the clusters on bare metal.
    :raises hvstack.errors.InputError: a rate is not a positive number.
    """
    return correct_rates(
        [
            ClusterRate(name, None, log)
            for name, row in {**rates, BARE_METAL: base}.items()
            for log in stats.compute_logs(row)
        ]
    )[0]


def get_sweep_pass(record: RunRecord) -> Hashable:
    """Return a pass; those of different sweeps have nothing in common."""
    return record.sweep, require_location(record).pass_number


def list_clusters(
    rows: Mapping[str, Sequence[RunRecord]],
    get_pass: Callable[[RunRecord], Hashable] = get_sweep_pass,
) -> list[ClusterRate]:
    """Return the clusters of rows with their log rates.

    :param rows: records of the valid runs by row.
    :param get_pass: function that returns the pass of a run.
    :raises hvstack.errors.InputError: a record does not contain its cluster
        and its pass, or a rate is not a positive number.
    """
    return [
        ClusterRate(
            name,
            get_pass(group[0]),
            _mean(stats.compute_logs([run.rate for run in group])),
            _mean([_get_start_hour(run) for run in group]),
        )
        for name, runs in rows.items()
        for group in group_by_cluster(runs)
    ]


def group_by_cluster(runs: Iterable[RunRecord]) -> list[list[RunRecord]]:
    """Return the runs of each cluster, in the order of the first runs.

    :raises hvstack.errors.InputError: a record does not contain its cluster
        and its pass.
    """
    clusters: dict[str, list[RunRecord]] = {}
    for run in runs:
        clusters.setdefault(require_location(run).cluster, []).append(run)
    return list(clusters.values())


def list_cluster_rates(runs: Iterable[RunRecord]) -> list[float]:
    """Return the geometric mean of the rates of each cluster."""
    return [
        math.exp(_mean([math.log(run.rate) for run in group]))
        if len(group) > 1
        else group[0].rate
        for group in group_by_cluster(runs)
    ]


def list_settled(records: Iterable[_Run], size_bytes: int) -> list[_Run]:
    """Return a record for each run that is valid or failed for good."""
    runs: dict[tuple[str, int], list[_Run]] = {}
    for record in records:
        if record.size_bytes == size_bytes:
            runs.setdefault((record.configuration, record.index), []).append(
                record
            )
    settled_records = []
    for tries in runs.values():
        valid = [attempt for attempt in tries if attempt.valid]
        if valid:
            settled_records.append(valid[0])
        elif len(tries) >= MAX_TRIES or tries[-1].is_killed:
            settled_records.append(tries[-1])
    return sorted(
        settled_records, key=lambda record: (record.started, record.index)
    )


def list_excluded(
    records: Iterable[RunRecord], size_bytes: int
) -> frozenset[str]:
    """Return the names of configurations with a run that failed for good."""
    return frozenset(
        record.configuration
        for record in list_settled(records, size_bytes)
        if not record.valid and record.kind != 'baseline'
    )


def _get_start_hour(run: RunRecord) -> float:
    return datetime.fromisoformat(run.started).timestamp() / 3600


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
