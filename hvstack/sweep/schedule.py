# SPDX-License-Identifier: Apache-2.0
"""Next workloads of a sweep by its strategy and its runs so far."""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from hvstack.model.configuration import Configuration, parse
from hvstack.model.target import BareMetal, Target, parse_target
from hvstack.results import percentages
from hvstack.results.record_data import RunRecord
from hvstack.results.run_id import ScheduledRun
from hvstack.sweep.run_order import (
    Step,
    build_workload,
    count_between_baselines,
    insert_baselines,
    rank,
)
from hvstack.sweep.strategies import MeasuredRates, RunRequest, Strategy


def collect_rates(
    records: Iterable[ScheduledRun], size_bytes: int
) -> MeasuredRates:
    """Return the rates of a sweep for its strategy.

    :param records: records of the sweep.
    :param size_bytes: size of the data of the sweep in bytes; runs of other
        sizes are ignored.
    """
    rates: dict[Target, list[float]] = {}
    excluded: set[Configuration] = set()
    failed_baselines = 0
    settled = percentages.list_settled(records, size_bytes)
    for record in sorted(settled, key=lambda record: record.index):
        target = parse_target(record.configuration)
        if record.valid:
            rates.setdefault(target, []).append(record.rate)
        elif isinstance(target, BareMetal):
            failed_baselines += 1
        else:
            excluded.add(target)
    return MeasuredRates(rates, frozenset(excluded), failed_baselines)


def add_search(
    measured: MeasuredRates, records: Sequence[RunRecord], size_bytes: int
) -> MeasuredRates:
    """Return the rates of a sweep with those of its search.

    :param measured: rates of the confirmation.
    :param records: records of the search.
    :param size_bytes: size of the data of the sweep in bytes.
    :raises hvstack.errors.InputError: a record does not contain its cluster
        and its pass.
    """
    rows: dict[str, list[RunRecord]] = {}
    for record in percentages.list_settled(records, size_bytes):
        if record.valid:
            rows.setdefault(record.configuration, []).append(record)
    clusters = percentages.list_clusters(rows)
    return replace(
        measured,
        excluded=measured.excluded.union(
            map(parse, percentages.list_excluded(records, size_bytes))
        ),
        search=sorted(clusters, key=lambda cluster: cluster.hour),
    )


def plan_search(
    configuration: Configuration,
    records: Sequence[ScheduledRun],
    size_bytes: int,
    runs_per_cluster: int,
) -> list[list[Step]]:
    """Return the next workload of a search.

    A pair of runs that was interrupted is completed first.

    :param configuration: configuration to measure.
    :param records: records of the search.
    :param size_bytes: size of the data of the sweep in bytes.
    :param runs_per_cluster: number of runs on a cluster.
    """
    settled = percentages.list_settled(records, size_bytes)
    done = _collect_indexes(settled)
    for target, indexes in done.items():
        counts = Counter(index // runs_per_cluster for index in indexes)
        if isinstance(target, Configuration) and any(
            count < runs_per_cluster for count in counts.values()
        ):
            configuration = target
    next_indexes, *_ = _list_next_indexes(
        done.get(configuration, ()), runs_per_cluster, runs_per_cluster
    )
    return [[Step(configuration, index, size_bytes) for index in next_indexes]]


def _collect_indexes(
    settled: Iterable[ScheduledRun],
) -> dict[Target, set[int]]:
    """Return the indexes of the runs that need no other try, by target."""
    indexes: dict[Target, set[int]] = {}
    for record in settled:
        indexes.setdefault(parse_target(record.configuration), set()).add(
            record.index
        )
    return indexes


def _list_next_indexes(
    done: Collection[int], runs: int, runs_per_cluster: int
) -> list[list[int]]:
    """Return the indexes of the next runs of a configuration, by cluster.

    A run that failed and is to be tried again has a smaller index than runs
    that were measured after it.

    :param done: indexes of the runs that need no other try.
    :param runs: number of runs.
    """
    indexes = itertools.islice(
        (index for index in itertools.count() if index not in done), runs
    )
    return [
        list(group)
        for _, group in itertools.groupby(
            indexes, lambda index: index // runs_per_cluster
        )
    ]


def plan_workloads(
    strategy: Strategy,
    records: Sequence[ScheduledRun],
    size_bytes: int,
    *,
    sweep: str = '',
    measure_baseline: bool = True,
    runs_per_cluster: int = 1,
    measured: MeasuredRates | None = None,
) -> list[list[Step]]:
    """Return the next workloads; the runs of a workload share a cluster.

    The requested runs are executed in passes, each run on a new cluster, as
    :mod:`hvstack.sweep.run_order` describes. The sweep begins and ends with
    bare metal. The order depends only on the sweep and on the runs so far, so
    that it is the same after a crash.

    :param strategy: strategy of the sweep.
    :param records: all records of the sweep.
    :param size_bytes: size of the data of the sweep in bytes.
    :param sweep: sweep ID.
    :param measure_baseline: measure bare metal; False if the sweep has a
        recorded baseline.
    :param runs_per_cluster: number of runs of a configuration on a cluster: 2
        for TPC's kit, which executes runs in pairs.
    :param measured: rates of the sweep with those of its search; None uses
        the records alone.
    :returns: an empty list if the sweep is finished.
    """
    settled = percentages.list_settled(records, size_bytes)
    requests = strategy.request_runs(
        measured or collect_rates(records, size_bytes)
    )
    order = [parse_target(record.configuration) for record in settled]
    workloads = _arrange_requests(
        requests,
        _collect_indexes(settled),
        size_bytes,
        sweep,
        runs_per_cluster,
    )
    if not measure_baseline:
        return workloads
    baseline = BareMetal()
    next_index = 1 + max(
        (
            record.index
            for record, target in zip(settled, order, strict=True)
            if target == baseline
        ),
        default=-1,
    )
    if requests:
        return insert_baselines(
            workloads,
            runs_per_cluster * count_between_baselines(strategy.row_count),
            next_index,
            order[::-1].index(baseline) if baseline in order else math.inf,
            runs_per_cluster,
        )
    if order and order[-1] != baseline:
        runs = runs_per_cluster - next_index % runs_per_cluster
        return [build_workload(baseline, next_index, [size_bytes] * runs)]
    return []


def _arrange_requests(
    requests: Iterable[RunRequest],
    done: Mapping[Target, Collection[int]],
    size_bytes: int,
    sweep: str,
    runs_per_cluster: int,
) -> list[list[Step]]:
    """Return the workloads of requests in passes, without bare metal.

    :param done: indexes of the runs that need no other try, by configuration.
    """
    workloads = [
        [Step(request.configuration, index, size_bytes) for index in indexes]
        for request in requests
        for indexes in _list_next_indexes(
            done.get(request.configuration, ()), request.runs, runs_per_cluster
        )
    ]
    return sorted(
        workloads,
        key=lambda steps: rank(steps[0].target, steps[0].index, sweep),
    )


def count_progress(
    records: Iterable[ScheduledRun], workloads: Iterable[Iterable[Step]]
) -> int:
    """Return the number of records that count as progress.

    Bare metal is measured between configurations, also if none of them can
    be measured.

    :param records: records of a sweep and of its search.
    :param workloads: workloads that were to be executed; with
        configurations, only their records count.
    """
    steps = itertools.chain.from_iterable(workloads)
    only_baselines = not any(
        isinstance(step.target, Configuration) for step in steps
    )
    return sum(
        only_baselines
        or not isinstance(parse_target(record.configuration), BareMetal)
        for record in records
    )
