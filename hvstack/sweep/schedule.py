# SPDX-License-Identifier: Apache-2.0
"""Next workloads of a sweep by its strategy and its runs so far."""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    counts = Counter(parse(record.configuration) for record in settled)
    for measured, count in counts.items():
        if count % runs_per_cluster:
            configuration = measured
    count = counts[configuration]
    runs = runs_per_cluster - count % runs_per_cluster
    return [build_workload(configuration, count, [size_bytes] * runs)]


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
        requests, Counter(order), size_bytes, sweep, runs_per_cluster
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
        )
    if order and order[-1] != baseline:
        return [build_workload(baseline, next_index, [size_bytes])]
    return []


def _arrange_requests(
    requests: Iterable[RunRequest],
    done_counts: Mapping[Target, int],
    size_bytes: int,
    sweep: str,
    runs_per_cluster: int,
) -> list[list[Step]]:
    """Return the workloads of requests in passes, without bare metal.

    :param done_counts: number of runs so far by configuration.
    """
    done = {
        request.configuration: done_counts.get(request.configuration, 0)
        for request in requests
    }
    targets = {
        request.configuration: done[request.configuration] + request.runs
        for request in requests
    }
    workloads = []
    # A heap: a search for the next run among all configurations would take
    # quadratic time.
    queue = [
        (*rank(configuration, count, sweep), configuration)
        for configuration, count in done.items()
    ]
    heapq.heapify(queue)
    while queue:
        count, _, configuration = heapq.heappop(queue)
        # The second run of a pair that was interrupted stands alone.
        end = min(
            count + runs_per_cluster - count % runs_per_cluster,
            targets[configuration],
        )
        workloads.append(
            build_workload(configuration, count, [size_bytes] * (end - count))
        )
        if end < targets[configuration]:
            heapq.heappush(
                queue, (*rank(configuration, end, sweep), configuration)
            )
    return workloads
