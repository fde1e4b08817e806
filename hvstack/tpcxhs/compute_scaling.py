# SPDX-License-Identifier: Apache-2.0
"""Compute workers that are removed and added again while jobs run.

"Hadoop Virtualization Extensions" says that compute workers are "easily scaled
in and out across the physical infrastructure according to running workloads".
Sorts run one after the other while the number of compute workers changes, and
each of them must be correct.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace

from hvstack import errors, processutils
from hvstack.cluster.base import Cluster
from hvstack.hadoop import daemon_http, job_history
from hvstack.progress import Progress
from hvstack.results.observations import ComputeScaling
from hvstack.results.typed_json import JsonObject
from hvstack.results.workload_types import TPCX_HS
from hvstack.tpcxhs import phases
from hvstack.tpcxhs.deadlines import Limits, describe_hosts
from hvstack.tpcxhs.result import RunResult
from hvstack.tpcxhs.workload import Workload

#: For the deletion of two directories, and until YARN runs the job of a sort.
_DELETE_SECONDS = _START_SECONDS = 300


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
    count = len(_list_compute_addresses(cluster))
    if count <= spec.workers:
        raise errors.RunFailedError(
            f'Cannot remove {spec.workers} compute workers: the cluster has '
            f'{count}. Use more hosts or instances, or a smaller '
            "'scaled_compute'."
        )
    begin = time.monotonic()
    sorts = _Sorts(replace(workload, type=TPCX_HS), limits)
    output.say(f'compute workers: {count} to {count - spec.workers}')
    fewer = sorts.run_during(cluster, spec, count - spec.workers)
    kept_addresses = _list_compute_addresses(fewer)
    output.say(f'compute workers: {count - spec.workers} to {count}')
    first = len(sorts.jobs)
    more = sorts.run_during(fewer, spec, count)
    added_addresses = _list_compute_addresses(more) - kept_addresses
    during = sorts.jobs[first:]
    sorts.run(more)
    observed = ComputeScaling(
        removed=count - len(kept_addresses),
        added=len(added_addresses),
        sorts=len(sorts.jobs),
        tasks_during=_count_tasks(more, during, added_addresses, workload),
        tasks_after=_count_tasks(
            more, sorts.jobs[-1:], added_addresses, workload
        ),
        missing=_count_missing_blocks(more),
        seconds=round(time.monotonic() - begin, 1),
    )
    output.say(
        f'{observed.sorts} sorts were correct; the added compute workers had '
        f'{observed.tasks_during} tasks of those that ran, and '
        f'{observed.tasks_after} of the next one'
    )
    return {'compute_scaling': asdict(observed)}


class _Sorts:
    """Sorts of the same input, whose output must be the same.

    :param workload: workload of the sorts.
    :param limits: limits of the phases.
    """

    def __init__(self, workload: Workload, limits: Limits) -> None:
        self._workload = workload
        self._limits = limits
        self._checksum = ''
        #: IDs of the jobs that have sorted, in order.
        self.jobs: list[str] = []

    def run(self, cluster: Cluster) -> None:
        """Sort once, and check the output.

        :raises hvstack.errors.RunFailedError: the output is not sorted, or
            differs from that of the other sorts.
        """
        cluster.gateway.run(
            f'hdfs dfs -rm -r -f -skipTrash {phases.OUTPUT} {phases.REPORT}',
            timeout=_DELETE_SECONDS,
        )
        run_result = RunResult(self._workload)
        runner = phases.PhaseRunner(
            cluster, self._workload, run_result, None, self._limits
        )
        runner.sort()
        runner.validate()
        report = phases.read_report(cluster.gateway)
        parts = report.split()
        if len(parts) != 2 or parts[0] != 'checksum':
            text = ' '.join(parts)[:200] or 'nothing'
            raise errors.RunFailedError(
                'The output of a sort is not sorted: HSValidate reports '
                f'{text}.'
            )
        self._checksum = self._checksum or parts[1]
        if parts[1] != self._checksum:
            raise errors.RunFailedError(
                'The output of a sort differs from that of the first sort: '
                f'its checksum is {parts[1]}, not {self._checksum}.'
            )
        self.jobs += [
            phase.job_id
            for phase in run_result.phases[:1]
            if phase.job_id is not None
        ]

    def run_during(
        self, cluster: Cluster, spec: ComputeScalingSpec, count: int
    ) -> Cluster:
        """Sort again and again until the cluster has changed.

        :param cluster: cluster of the sorts.
        :param spec: functions that change the cluster.
        :param count: new number of compute workers.
        :returns: the changed cluster, when the last sort has ended.
        :raises hvstack.errors.HVStackError: the change or a sort failed.
        """
        stop = threading.Event()
        job_seconds = max(
            self._limits.deadlines(
                self._workload, describe_hosts(cluster, {})
            ).values()
        )

        def run_all() -> None:
            self.run(cluster)
            while not stop.is_set():
                self.run(cluster)

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


def _list_compute_addresses(cluster: Cluster) -> set[str]:
    """Return the addresses of the nodes with a NodeManager alone."""
    return {node.address for node in cluster.workers if node.role == 'compute'}


def _count_tasks(
    cluster: Cluster,
    jobs: Sequence[str],
    addresses: Collection[str],
    workload: Workload,
) -> int:
    """Return the number of tasks of jobs on some nodes.

    :raises hvstack.errors.RunFailedError: the history of a job is missing.
    """
    histories, _ = job_history.load_histories(
        cluster.manager,
        jobs,
        len(jobs) * (workload.maps + workload.reduces),
    )
    missing = [job for job in jobs if job not in histories]
    if missing:
        raise errors.RunFailedError(
            'Cannot count the tasks of the added compute workers: the '
            f'JobHistory server has no history of {", ".join(missing)}.'
        )
    return sum(
        task.host in addresses
        for history in histories.values()
        for task in history.tasks
    )


def _count_missing_blocks(cluster: Cluster) -> int:
    """Return the number of blocks without any replica."""
    info = daemon_http.get_namenode_bean(cluster.gateway, 'NameNodeInfo')
    return int(info['NumberOfMissingBlocks'])
