# SPDX-License-Identifier: Apache-2.0
"""Number of tasks and replicas of the runs of a workload."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hvstack import errors, host_profiles
from hvstack.cluster import baseline_hosts
from hvstack.cluster.bare_metal import Host
from hvstack.cluster.plan import ClusterPlan
from hvstack.conf import ConfOptions
from hvstack.hadoop.sizing import has_own_tasks
from hvstack.model import compute_backends
from hvstack.model.target import BareMetal
from hvstack.rally_plugins.workload_args import WorkloadArgs
from hvstack.results.record_data import RunRecord
from hvstack.results.run_id import RunId
from hvstack.sweep import platform_slots, sweep_store
from hvstack.tpcxhs.task_counts import (
    PlatformSlots,
    count_slots,
    count_tasks,
)
from hvstack.tpcxhs.workload import Workload


@dataclass(frozen=True)
class WorkloadPlanner:
    """Planner of the runs of a workload.

    :param options: options of :mod:`hvstack.conf`.
    :param args: arguments of the workload.
    :param tuning: tuning profile of Hadoop.
    :param plan: cluster plan; None on bare metal.
    :param load_baseline: function that loads the newest comparable run on
        bare metal, if the workload names a baseline.
    :param find_run: function that returns the identity of a run of the
        workload in its sweep.
    """

    options: ConfOptions
    args: WorkloadArgs
    tuning: str
    plan: ClusterPlan | None
    load_baseline: Callable[[], RunRecord]
    find_run: Callable[[], RunId]

    def plan_workload(self, size_bytes: int) -> Workload:
        """Return the workload of a run, with the tasks of the whole sweep.

        The number of tasks fills the bare-metal hosts, and if possible all
        configurations of the sweep. Without an inventory of these hosts, it is
        the number in the record of the baseline, that of the earlier runs of
        the configuration in the sweep, or the number that fills the clusters.
        On emulated CPUs, it is 1, because such a run only shows that a job
        succeeds.

        :param size_bytes: size of the data set in bytes; the default of the
            replication is the minimum of 3 and the number of worker hosts, in
            each configuration of the sweep.
        :raises hvstack.errors.InputError: the number of tasks is unknown.
        """
        args = self.args
        if self.plan is not None and compute_backends.is_emulated(
            self.plan.hosts.backend
        ):
            copies = args.replication or self.plan.nodes.replication
            return Workload(size_bytes, copies, 1, 1, one_jvm=True)
        path = Path(self.options.sweep.baseline_hosts)
        if not path.exists() and not isinstance(args.target, BareMetal):
            return self._plan_without_hosts(size_bytes)
        bare_hosts = baseline_hosts.read(path)
        workers = [host for host in bare_hosts if host.role == 'worker']
        copies = args.replication or min(3, len(workers))
        if self.plan is not None and has_own_tasks(self.tuning):
            parts = self._count_own_tasks()
            return Workload(size_bytes, copies, parts, parts)
        platforms = [
            platform_slots.count_bare_metal(bare_hosts, self.tuning),
            *self._list_configurations(bare_hosts),
        ]
        # The warm-up job and the run with half of the data have as many.
        parts = count_tasks(
            args.sizes[0], platforms, len(workers), self.tuning
        )
        return Workload(size_bytes, copies, parts, parts)

    def _list_configurations(
        self, bare_hosts: Sequence[Host]
    ) -> list[PlatformSlots]:
        """Return the containers of the configurations of the sweep.

        A recorded baseline did not know of the configurations.
        """
        if not self.args.tasks.compared or self.args.baseline:
            return []
        profile = host_profiles.load(self.options.cloud.host_profile)
        return platform_slots.list_configurations(
            profile,
            self.args.tasks.compared,
            platform_slots.count_hosts(profile, bare_hosts),
            self.tuning,
        )

    def _plan_without_hosts(self, size_bytes: int) -> Workload:
        args = self.args
        own_tasks = has_own_tasks(self.tuning)
        if args.baseline:
            baseline_record = self.load_baseline()
            if own_tasks and self.plan is not None:
                parts = self._count_own_tasks()
                return Workload(
                    size_bytes, baseline_record.replication, parts, parts
                )
            return Workload(
                size_bytes,
                baseline_record.replication,
                baseline_record.maps,
                baseline_record.reduces,
            )
        if self.plan is None:
            raise errors.InputError(
                'Cannot compute the number of tasks: '
                f'{self.options.sweep.baseline_hosts} does not exist, and the '
                "workload has no cluster plan. Set 'baseline_hosts' in "
                'hvstack.conf, or add the context hvstack_flavors.'
            )
        # The release that began the sweep may have had other numbers.
        recorded = self._find_recorded()
        if recorded is not None:
            return Workload(
                size_bytes,
                args.replication or recorded.replication,
                recorded.maps,
                recorded.reduces,
            )
        parts, copies = self._count_own_tasks(), self.plan.nodes.replication
        if args.tasks.compared:
            compared = (
                host_profiles.load(self.options.cloud.host_profile),
                args.tasks.compared,
                len(self.plan.hosts.providers),
                self.tuning,
            )
            copies = min(
                copies, platform_slots.find_replication(*compared) or copies
            )
            platforms = platform_slots.list_configurations(*compared)
            if platforms and not own_tasks:
                parts = count_tasks(
                    args.sizes[0],
                    platforms,
                    len(self.plan.hosts.providers),
                    self.tuning,
                )
        return Workload(size_bytes, args.replication or copies, parts, parts)

    def _find_recorded(self) -> RunRecord | None:
        """Return the last valid run of the configuration in the sweep."""
        run, store = self.find_run(), sweep_store.open_store()
        earlier = [
            item
            for item in store.list_runs(run.sweep)
            if item.valid
            and item.configuration == run.target.name
            and item.size_bytes == self.args.sizes[0]
        ]
        return store.load_run(earlier[-1]) if earlier else None

    def _count_own_tasks(self) -> int:
        """Return the number of map tasks that fills the planned cluster."""
        assert self.plan is not None
        return count_tasks(
            self.args.sizes[0],
            [count_slots(self.plan.sizing, self.plan.nodes.workers)],
            len(self.plan.hosts.providers),
            self.plan.spec.tuning,
        )
