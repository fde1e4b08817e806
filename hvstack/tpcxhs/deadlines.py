# SPDX-License-Identifier: Apache-2.0
"""Deadlines of the phases of a run, computed from the data and the hosts.

A deadline alone ends no phase. A phase that is not complete at its deadline
continues as long as the progress of its jobs changes, and is stopped when the
progress has not changed for the stall limit.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hvstack import conf, errors, processutils, speed
from hvstack.cluster.base import Cluster, Fact
from hvstack.hadoop import job_progress
from hvstack.hadoop.daemon_http import Runner
from hvstack.results.run_store import RunStore
from hvstack.results.workload_types import TYPES
from hvstack.tpcxhs.result import RunSpec
from hvstack.tpcxhs.workload import Workload

#: Default of the stall limit in seconds. YARN gives up a NodeManager, and
#: MapReduce a task, after 600 s (yarn-default.xml,
#: yarn.nm.liveness-monitor.expiry-interval-ms; mapred-default.xml,
#: mapreduce.task.timeout). Their recovery comes first.
STALL_SECONDS = 900.0
#: Deadline of a job without data. On new nodes, the first JVMs of a job take
#: minutes to load their classes.
START_SECONDS = 900.0
#: How many times longer than estimated, or than before, a phase may take.
FACTOR = 2.0
#: Speeds in bytes per second of a disk with many concurrent streams, of a port
#: of 10 Gbit/s, and of one CPU. The last one is that of vsphere6, Table 2:
#: 30 TB in 3825 s on 1240 threads, disks included. On slower hosts a phase
#: continues after its deadline.
DISK_SPEED = 80e6
NETWORK_SPEED = 1e9
CPU_SPEED = 6e6
#: Phases of all workloads that are Hadoop jobs.
_JOBS = frozenset(name for item in TYPES.values() for name in item.jobs)
#: Seconds between two queries of the progress after the deadline.
_INTERVAL = 10.0


@dataclass(frozen=True)
class WorkerHosts:
    """Hardware of the worker hosts of a cluster.

    :param count: number of worker hosts.
    :param cpus: CPUs that the workers of a host have together.
    :param disks: data disks that the workers of a host use together.
    """

    count: int
    cpus: int
    disks: int


@dataclass(frozen=True)
class Limits:
    """Limits of the phases of a run, in seconds.

    :param phase_timeout: deadline of each phase; 0 computes it.
    :param stall_timeout: stall limit after a deadline.
    :param longest: longest duration so far of each phase in comparable runs;
        phases without a run are not in it.
    """

    phase_timeout: float = 0
    stall_timeout: float = STALL_SECONDS
    longest: Mapping[str, float] = field(default_factory=dict)

    def deadlines(
        self, workload: Workload, hosts: WorkerHosts
    ) -> dict[str, float]:
        """Return the deadline of each phase that is a job.

        :param workload: workload of the run.
        :param hosts: worker hosts of the cluster.
        """
        if self.phase_timeout:
            return dict.fromkeys(workload.type.jobs, self.phase_timeout)
        estimates = {**estimate_phases(workload, hosts), **self.longest}
        return {
            name: START_SECONDS + FACTOR * estimates[name]
            for name in workload.type.jobs
        }


#: Computed deadlines and the default stall limit.
DEFAULT_LIMITS = Limits()


def load_limits(spec: RunSpec, store: RunStore) -> Limits:
    """Return the limits of a run by the options and the sweep's runs so far.

    :param spec: specification of the run.
    :param store: store of the run records.
    :raises hvstack.errors.InputError: hvstack.conf is not valid.
    """
    options = conf.load().benchmark
    workload = spec.workload
    return Limits(
        options.phase_timeout
        if spec.phase_timeout is None
        else spec.phase_timeout,
        options.stall_timeout,
        find_longest(
            run_record.phase_seconds()
            for run_record in store.read_sweep(spec.run_id.sweep)[0]
            if run_record.valid
            and run_record.sut.workload == workload.type.name
            and run_record.size_bytes == workload.size_bytes
            and run_record.replication == workload.replication
        ),
    )


def estimate_phases(
    workload: Workload, hosts: WorkerHosts
) -> dict[str, float]:
    """Return the estimated seconds of each phase.

    Disks, network and CPUs are assumed to work one after the other. A sort
    reads the input, writes intermediate data, merges it once, and writes the
    output.

    :param workload: workload of the run.
    :param hosts: worker hosts of the cluster.
    """
    copies, output_copies = workload.replication, workload.output_copies
    # Bytes on disks and through network ports, per byte of the data set.
    writing, reading = (copies, copies - 1), (1, 1)
    sorting = 5 + output_copies, output_copies
    by_phase = {
        'HSGen': writing,
        'HSSort': sorting,
        'HSValidate': reading,
        'TeraGen': writing,
        'TeraSort': sorting,
        'TestDFSIO write': writing,
        'TestDFSIO read': reading,
    }
    # Other phases have no data.
    transfers = {
        name: by_phase.get(name, (0, 0)) for name in workload.type.jobs
    }
    each = workload.size_bytes / hosts.count
    return {
        name: each
        * (
            disk / (DISK_SPEED * hosts.disks)
            + network / NETWORK_SPEED
            + 1 / (CPU_SPEED * hosts.cpus)
        )
        for name, (disk, network) in transfers.items()
    }


def describe_hosts(cluster: Cluster, facts: Mapping[str, Fact]) -> WorkerHosts:
    """Return the hardware of the worker hosts of a running cluster.

    :param cluster: cluster that executes the run.
    :param facts: facts of the system under test; a worker without the fact
        ``data_disks`` is assumed to have a single one.
    """
    hosts = max(1, cluster.worker_hosts)
    each = max(1, len(cluster.workers) // hosts)
    data_disks = facts.get('data_disks')
    disks = data_disks if isinstance(data_disks, int) and data_disks else 1
    return WorkerHosts(hosts, each * cluster.processors, each * disks)


def find_longest(
    phases: Iterable[Mapping[str, float]],
) -> dict[str, float]:
    """Return the longest duration of each phase that is a job.

    :param phases: seconds of the phases of each run, by name.
    """
    longest: dict[str, float] = {}
    for seconds in phases:
        for name in _JOBS.intersection(seconds):
            longest[name] = max(longest.get(name, 0), seconds[name])
    return longest


@dataclass
class StallWatch:
    """Decides after a deadline how much longer a command may run.

    An instance is the argument ``on_timeout`` of
    :meth:`hvstack.hadoop.daemon_http.Runner.run`.

    :param manager: controller with the ResourceManager.
    :param stall_timeout: stall limit in seconds.
    :param on_deadline: function that is called once, at the deadline.
    """

    manager: Runner
    stall_timeout: float
    on_deadline: Callable[[], None]
    _progress: job_progress.Progress | None = None
    _changed_at: float = 0

    def __call__(self) -> float:
        """Return the seconds until the next call; 0 to stop the command."""
        now = processutils.clock()
        limit = self.stall_timeout * speed.factor()
        try:
            progress = job_progress.load_progress(self.manager)
        except errors.HVStackError:
            # A controller that does not answer reports no progress either.
            progress = self._progress or {}
        if self._progress is None:
            self.on_deadline()
            self._changed_at = now
        elif progress != self._progress:
            self._changed_at = now
        self._progress = progress
        remaining = self._changed_at + limit - now
        return max(0.0, min(_INTERVAL, remaining))

    def stop_jobs(self, deadline: float) -> str:
        """Stop the running applications, and return why they were stopped.

        Without this, their containers would disturb the next run.

        :param deadline: deadline that has passed, in seconds.
        """
        reason = (
            f'the deadline was {deadline * speed.factor():.0f} s, and its '
            'progress had not changed for '
            f'{self.stall_timeout * speed.factor():.0f} s'
        )
        try:
            job_progress.kill_applications(self.manager)
        except errors.HVStackError as exc:
            reason += f'; the ResourceManager does not answer: {exc}'
        return reason
