# SPDX-License-Identifier: Apache-2.0
"""Percent of bare metal from run records: the same in report and evidence.

The unit is the cluster, not the run. Two clusters of one configuration differ
by more than two runs on one of them, so an interval from runs of one cluster
would be too narrow. The geometric mean of the runs of a cluster counts as one
value.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from hvstack.results import stats
from hvstack.results.record_data import RunRecord
from hvstack.results.run_id import ScheduledRun
from hvstack.results.stats import Drift, DriftCorrectedRates, Percent

#: Maximum number of attempts of a run. A run that was killed because it ran
#: out of memory is not repeated: it would be killed again.
MAX_TRIES = 2


_Run = TypeVar('_Run', bound=ScheduledRun)


@dataclass(frozen=True)
class Percents:
    """Percent of bare metal of a sweep.

    :param corrected_rates: rates, corrected for the drift where possible.
    :param drift: drift of bare metal, even if it is not corrected; None with
        too few runs.
    :param rows: percentages by configuration; empty without a baseline.
    """

    corrected_rates: DriftCorrectedRates
    drift: Drift | None
    rows: dict[str, Percent]


def compute_percents(
    rows: Mapping[str, Sequence[RunRecord]], base: Sequence[RunRecord]
) -> Percents:
    """Compute the percentages of configurations.

    :param rows: records of the valid runs by configuration.
    :param base: records of the valid runs on bare metal.
    """
    rates = {name: list_cluster_rates(runs) for name, runs in rows.items()}
    hours = {name: _list_start_hours(runs) for name, runs in rows.items()}
    base_rates = list_cluster_rates(base)
    drift = stats.fit_drift(_list_start_hours(base), base_rates)
    percents = (
        stats.compute_percents(rates, base_rates, drift, hours) if base else {}
    )
    return Percents(
        stats.correct_drift(rates, base_rates, drift, hours),
        drift,
        {
            name: replace(
                percent,
                runs=len(rows[name]),
                baseline_runs=len(base),
                # A performance run is a measured run without correction.
                performance_ratio=stats.compute_performance_ratio(
                    [run.rate for run in rows[name]],
                    [run.rate for run in base],
                ),
            )
            for name, percent in percents.items()
        },
    )


def group_by_cluster(runs: Iterable[RunRecord]) -> list[list[RunRecord]]:
    """Return the runs of each cluster, in the order of the first runs.

    Records of older releases do not name their cluster: each of them counts
    as a cluster of its own.
    """
    clusters: dict[str, list[RunRecord]] = {}
    for run in runs:
        name = run.observations.cluster or run.id
        clusters.setdefault(name, []).append(run)
    return list(clusters.values())


def list_cluster_rates(runs: Iterable[RunRecord]) -> list[float]:
    """Return the geometric mean of the rates of each cluster."""
    return [
        math.exp(math.fsum(math.log(run.rate) for run in group) / len(group))
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


def _list_start_hours(runs: Iterable[RunRecord]) -> list[float]:
    """Return the mean start time of the runs of each cluster in hours."""
    return [
        math.fsum(
            datetime.fromisoformat(run.started).timestamp() / 3600
            for run in group
        )
        / len(group)
        for group in group_by_cluster(runs)
    ]
