# SPDX-License-Identifier: Apache-2.0
"""Sorts of the same input after a run, whose output must be the same."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from hvstack import errors
from hvstack.cluster.base import Cluster, Node
from hvstack.hadoop import daemon_http, job_history
from hvstack.results.workload_types import TPCX_HS
from hvstack.tpcxhs import job_results, phases
from hvstack.tpcxhs.deadlines import Limits, describe_hosts
from hvstack.tpcxhs.preparation import BASE
from hvstack.tpcxhs.result import RunResult
from hvstack.tpcxhs.workload import Workload

#: For the deletion of two directories.
_DELETE_SECONDS = 300


@dataclass(frozen=True)
class Sort:
    """A sort whose output was correct.

    :param job_id: ID of its job; empty if its client did not print it.
    :param started_at: start time in seconds since 1970.
    :param seconds: duration in seconds.
    """

    job_id: str
    started_at: float
    seconds: float


class Sorts:
    """Sorts of the same input, each of which is checked.

    :param workload: workload of the sorts.
    :param limits: limits of the phases.
    :param parent: directory of the outputs.
    """

    def __init__(
        self, workload: Workload, limits: Limits, parent: str = BASE
    ) -> None:
        self.workload = replace(workload, type=TPCX_HS)
        self._limits = limits
        self._parent = parent
        #: Checksum of the output of each sort; empty before the first one.
        self.checksum = ''
        #: Sorts in order.
        self.done: list[Sort] = []

    def run(self, cluster: Cluster, namenode: Node | None = None) -> None:
        """Sort once, and check the output.

        :param cluster: cluster that sorts.
        :param namenode: controller with the NameNode; None for the gateway of
            the cluster.
        :raises hvstack.errors.RunFailedError: the output is not sorted, or
            differs from that of the other sorts.
        """
        run_result = RunResult(self.workload)
        runner = phases.PhaseRunner(
            *(cluster, self.workload, run_result, None, self._limits),
            parent=self._parent,
        )
        cluster.gateway.run(
            f'hdfs dfs -rm -r -f -skipTrash {runner.output} {runner.report}',
            timeout=_DELETE_SECONDS,
        )
        runner.sort()
        runner.validate()
        report = job_results.read_report(
            namenode or cluster.gateway, runner.report
        )
        parts = report.split()
        if len(parts) != 2 or parts[0] != 'checksum':
            text = ' '.join(parts)[:200] or 'nothing'
            raise errors.RunFailedError(
                'The output of a sort is not sorted: HSValidate reports '
                f'{text}.'
            )
        self.checksum = self.checksum or parts[1]
        if parts[1] != self.checksum:
            raise errors.RunFailedError(
                'The output of a sort differs from that of the first sort: '
                f'its checksum is {parts[1]}, not {self.checksum}.'
            )
        phase = run_result.phases[0]
        self.done.append(
            Sort(phase.job_id or '', phase.started_at or 0.0, phase.seconds)
        )

    def compute_deadline(self, cluster: Cluster) -> float:
        """Return the maximum number of seconds of a job.

        :param cluster: cluster of the sorts.
        """
        return max(
            self._limits.deadlines(
                self.workload, describe_hosts(cluster, {})
            ).values()
        )

    def count_tasks(
        self,
        cluster: Cluster,
        sorts: Sequence[Sort],
        addresses: Collection[str],
    ) -> int:
        """Return the number of tasks of sorts on some nodes.

        :param cluster: cluster with the JobHistory server.
        :param sorts: sorts of the cluster.
        :param addresses: addresses of the nodes.
        :raises hvstack.errors.RunFailedError: the history of a job is missing.
        """
        jobs = [sort.job_id for sort in sorts if sort.job_id]
        histories, _ = job_history.load_histories(
            cluster.manager,
            jobs,
            len(jobs) * (self.workload.maps + self.workload.reduces),
        )
        missing = [job for job in jobs if job not in histories]
        if missing:
            raise errors.RunFailedError(
                'Cannot count the tasks of the compute workers: the '
                f'JobHistory server has no history of {", ".join(missing)}.'
            )
        return sum(
            task.host in addresses
            for history in histories.values()
            for task in history.tasks
        )


def list_compute_addresses(cluster: Cluster) -> set[str]:
    """Return the addresses of the nodes with a NodeManager alone."""
    return {node.address for node in cluster.workers if node.role == 'compute'}


def require_compute_workers(cluster: Cluster, count: int, setting: str) -> int:
    """Return the number of compute workers, if some may go.

    :param count: number of compute workers that go.
    :param setting: name of the setting that has this number.
    :raises hvstack.errors.RunFailedError: none would remain.
    """
    present = len(list_compute_addresses(cluster))
    if present <= count:
        raise errors.RunFailedError(
            f'Cannot remove {count} compute workers: the cluster has '
            f'{present}. Use more hosts or instances, or a smaller '
            f"'{setting}'."
        )
    return present


def count_missing_blocks(cluster: Cluster) -> int:
    """Return the number of blocks without any replica.

    :param cluster: cluster with the NameNode.
    """
    info = daemon_http.get_namenode_bean(cluster.gateway, 'NameNodeInfo')
    return int(info['NumberOfMissingBlocks'])
