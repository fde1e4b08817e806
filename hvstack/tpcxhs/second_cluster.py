# SPDX-License-Identifier: Apache-2.0
"""A second compute cluster on the HDFS of a cluster, and sorts on both.

"Hadoop Virtualization Extensions" lets several compute clusters share a data
service (option 4). The second cluster gets compute workers of the first, reads
the same input and writes an output of its own, while the first one sorts, too.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace

from hvstack import errors
from hvstack.cluster.base import Cluster
from hvstack.progress import Progress
from hvstack.results.later_changes import SecondCluster
from hvstack.results.typed_json import JsonObject
from hvstack.tpcxhs import sorts
from hvstack.tpcxhs.deadlines import Limits
from hvstack.tpcxhs.preparation import BASE
from hvstack.tpcxhs.sorts import Sort, Sorts
from hvstack.tpcxhs.workload import Workload

#: Directory of the outputs of the second cluster.
PARENT = f'{BASE}/second'


@dataclass(frozen=True)
class SecondClusterSpec:
    """Second compute cluster after a run.

    :param workers: number of compute workers that the first cluster gives.
    :param resize: function that gets the new number of compute workers of the
        first cluster and the maximum number of seconds of a job, and returns
        the changed cluster.
    :param release: function that gets a cluster that was changed.
    :param create: function that gets the first cluster, and creates the second
        one for the time of its context. Its gateway is its own controller.
    """

    workers: int
    resize: Callable[[int, float], Cluster]
    release: Callable[[Cluster], None]
    create: Callable[[Cluster], AbstractContextManager[Cluster]]


def share_hdfs(
    cluster: Cluster,
    spec: SecondClusterSpec,
    workload: Workload,
    limits: Limits,
    progress: Progress | None = None,
) -> JsonObject:
    """Sort on two compute clusters of an HDFS at the same time.

    :param cluster: cluster whose input of the last run still exists.
    :param spec: second cluster.
    :param workload: workload of the last run, which both sort.
    :param limits: limits of the phases.
    :param progress: where to report; None reports nothing.
    :returns: observations of the record.
    :raises hvstack.errors.RunFailedError: the cluster has too few compute
        workers, a sort was not correct, or the sorts did not overlap.
    :raises hvstack.errors.HVStackError: a service does not answer in time.
    """
    output = progress or Progress()
    count = sorts.require_compute_workers(
        cluster, spec.workers, 'second_cluster'
    )
    begin = time.monotonic()
    pair = Sorts(workload, limits), Sorts(workload, limits, PARENT)
    job_seconds = pair[0].compute_deadline(cluster)
    output.say(f'compute workers: {count} to {count - spec.workers}')
    first = spec.resize(count - spec.workers, job_seconds)
    spec.release(cluster)
    with spec.create(first) as second:
        output.say('both clusters sort ...')
        _sort_on_both(pair, first, second)
        addresses = sorts.list_compute_addresses(second)
        observed = SecondCluster(
            workers=len(addresses),
            first_workers=len(sorts.list_compute_addresses(first)),
            first_seconds=pair[0].done[0].seconds,
            second_seconds=pair[1].done[0].seconds,
            overlap_seconds=_compute_overlap(pair[0].done[0], pair[1].done[0]),
            tasks=pair[1].count_tasks(second, pair[1].done, addresses),
            missing=sorts.count_missing_blocks(first),
        )
    output.say(f'compute workers: {count - spec.workers} to {count}')
    spec.resize(count, job_seconds)
    spec.release(first)
    output.say(
        f'both sorts were correct; the second cluster ran {observed.tasks} '
        f'tasks, {observed.overlap_seconds:.0f} s at the same time'
    )
    observed = replace(observed, seconds=round(time.monotonic() - begin, 1))
    return {'second_cluster': asdict(observed)}


def _sort_on_both(
    pair: tuple[Sorts, Sorts], first: Cluster, second: Cluster
) -> None:
    """Sort on both clusters at the same time, and compare the outputs.

    :raises hvstack.errors.RunFailedError: the outputs differ, or a sort
        ended before the other began.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = [
            pool.submit(pair[0].run, first),
            pool.submit(pair[1].run, second, first.gateway),
        ]
    for future in futures:
        future.result()
    checksums = [runner.checksum for runner in pair]
    if checksums[0] != checksums[1]:
        raise errors.RunFailedError(
            'The output of the second cluster differs from that of the first '
            f'one: its checksum is {checksums[1]}, not {checksums[0]}.'
        )
    if not _compute_overlap(pair[0].done[0], pair[1].done[0]):
        raise errors.RunFailedError(
            'The sorts of the two clusters did not run at the same time. Use '
            'a larger data size.'
        )


def _compute_overlap(first: Sort, second: Sort) -> float:
    """Return the seconds in which two sorts ran at the same time."""
    end = min(sort.started_at + sort.seconds for sort in (first, second))
    return max(0.0, round(end - max(first.started_at, second.started_at), 3))
