# SPDX-License-Identifier: Apache-2.0
"""Compute workers that are removed and added again while jobs run.

"Hadoop Virtualization Extensions" says that compute workers are "easily scaled
in and out across the physical infrastructure according to running workloads".
Sorts run one after the other while the number of compute workers changes, and
each of them must be correct.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass

from hvstack import processutils
from hvstack.cluster.base import Cluster
from hvstack.hadoop import daemon_http
from hvstack.progress import Progress
from hvstack.results.later_changes import ComputeScaling
from hvstack.results.typed_json import JsonObject
from hvstack.tpcxhs import sorts
from hvstack.tpcxhs.deadlines import Limits
from hvstack.tpcxhs.sorts import Sorts
from hvstack.tpcxhs.workload import Workload

#: Until YARN runs the job of a sort.
_START_SECONDS = 300


@dataclass(frozen=True)
class ComputeScalingSpec:
    """Change of the number of compute workers after a run.

    :param workers: number of compute workers to remove and to add again.
    :param resize: function that gets the new number of compute workers and
        the maximum number of seconds of a job, and returns the changed
        cluster. Sorts still run on the old one.
    :param release: function that gets a changed cluster on which no sort runs
        any more.
    """

    workers: int
    resize: Callable[[int, float], Cluster]
    release: Callable[[Cluster], None]


def scale(
    cluster: Cluster,
    spec: ComputeScalingSpec,
    workload: Workload,
    limits: Limits,
    progress: Progress | None = None,
) -> JsonObject:
    """Remove compute workers and add others, each while sorts run.

    :param cluster: cluster whose input of the last run still exists.
    :param spec: change to make.
    :param workload: workload of the last run, which sorts.
    :param limits: limits of the phases.
    :param progress: where to report; None reports nothing.
    :returns: observations of the record.
    :raises hvstack.errors.RunFailedError: the cluster has too few compute
        workers, or a sort was not correct.
    :raises hvstack.errors.HVStackError: a service does not answer in time.
    """
    output = progress or Progress()
    count = sorts.require_compute_workers(
        cluster, spec.workers, 'scaled_compute'
    )
    begin = time.monotonic()
    runner = Sorts(workload, limits)
    output.say(f'compute workers: {count} to {count - spec.workers}')
    fewer = _run_during(runner, cluster, spec, count - spec.workers)
    kept_addresses = sorts.list_compute_addresses(fewer)
    output.say(f'compute workers: {count - spec.workers} to {count}')
    first = len(runner.done)
    more = _run_during(runner, fewer, spec, count)
    added_addresses = sorts.list_compute_addresses(more) - kept_addresses
    during = runner.done[first:]
    runner.run(more)
    observed = ComputeScaling(
        removed=count - len(kept_addresses),
        added=len(added_addresses),
        sorts=len(runner.done),
        tasks_during=runner.count_tasks(more, during, added_addresses),
        tasks_after=runner.count_tasks(
            more, runner.done[-1:], added_addresses
        ),
        missing=sorts.count_missing_blocks(more),
        seconds=round(time.monotonic() - begin, 1),
    )
    output.say(
        f'{observed.sorts} sorts were correct; the added compute workers had '
        f'{observed.tasks_during} tasks of those that ran, and '
        f'{observed.tasks_after} of the next one'
    )
    return {'compute_scaling': asdict(observed)}


def _run_during(
    runner: Sorts, cluster: Cluster, spec: ComputeScalingSpec, count: int
) -> Cluster:
    """Sort again and again until the cluster has changed.

    :param runner: sorts to run.
    :param cluster: cluster of the sorts.
    :param spec: functions that change the cluster.
    :param count: new number of compute workers.
    :returns: the changed cluster, when the last sort has ended.
    :raises hvstack.errors.HVStackError: the change or a sort failed.
    """
    stop = threading.Event()
    job_seconds = runner.compute_deadline(cluster)

    def run_all() -> None:
        runner.run(cluster)
        while not stop.is_set():
            runner.run(cluster)

    with ThreadPoolExecutor(max_workers=1) as pool:
        sorting = pool.submit(run_all)
        try:
            _wait_for_job(cluster, sorting)
            changed = spec.resize(count, job_seconds)
        finally:
            stop.set()
        try:
            sorting.result()
        finally:
            spec.release(cluster)
    return changed


def _wait_for_job(cluster: Cluster, sorting: Future[None]) -> None:
    """Wait until YARN runs a job, or the sorts have failed."""

    def is_running() -> bool:
        answer = daemon_http.get_json(
            cluster.manager, 'resourcemanager', '/ws/v1/cluster/metrics'
        )
        return sorting.done() or answer['clusterMetrics']['appsRunning'] > 0

    processutils.wait_for(
        is_running, 'YARN to run the sort', timeout=_START_SECONDS
    )
