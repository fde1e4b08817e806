# SPDX-License-Identifier: Apache-2.0
"""Parts of a run record: phases, system under test and observations.

Each class names all keys that hvstack reads. A record may contain further
keys, which the report shows and compares, and which the digest covers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvstack import errors
from hvstack.results import workload_types
from hvstack.results.cloud_identity import CloudIdentity
from hvstack.results.compute_hosts import ComputeHosts
from hvstack.results.later_changes import (
    ComputeScaling,
    HostLoss,
    LaterChange,
    SecondCluster,
)
from hvstack.results.typed_json import (
    FieldTypeError,
    Json,
    JsonObject,
    inlined,
    named,
    read,
)


@dataclass(frozen=True)
class DataCheck:
    """Result of HSDataCheck.

    :param bytes: length of the data set in bytes.
    :param files: number of its files.
    :param blocks: number of its blocks.
    :param blocks_on_one_host: number of blocks with two replicas on one host.
    """

    bytes: int | None = None
    files: int | None = None
    blocks: float | None = None
    blocks_on_one_host: float | None = None


@dataclass(frozen=True)
class LastTask:
    """Task of a job that ended last.

    :param task: ID of the task.
    :param node: name of its node.
    :param seconds: duration of the task in seconds.
    :param median_seconds: median duration of the tasks of its type.
    :param alone_seconds: seconds in which only this task ran.
    """

    task: str
    node: str
    seconds: float
    median_seconds: float
    alone_seconds: float


@dataclass(frozen=True)
class ReducerRecords:
    """Numbers of input records of the reducers of a job."""

    min_records: float = field(metadata=named('least'))
    median: float
    max_records: float = field(metadata=named('most'))


@dataclass(frozen=True)
class TaskFailure:
    """Failed attempt of a task.

    :param node: name of the node.
    :param error: message of YARN or of the task.
    """

    node: str
    error: str


@dataclass(frozen=True)
class HostTasks:
    """Numbers of workers of a host, and of the tasks of a job on them."""

    workers: float = 0
    maps: float = 0
    reduces: float = 0


@dataclass(frozen=True)
class JobStatistics:
    """Statistics of the Hadoop job of a phase.

    :param job_id: ID of the job.
    :param started_at: start time in seconds since 1970.
    :param counters: counters of the job; ``MAP.`` precedes those of its maps.
    :param nodes: numbers, seconds and bytes of the tasks by node.
    :param hosts: numbers of tasks by host; empty in older records.
    :param last: last task by type.
    :param locality: number of map tasks by the distance to their data.
    :param failures: failed attempts with their errors.
    """

    job_id: str = ''
    state: str = 'SUCCEEDED'
    started_at: float | None = field(default=None, metadata=named('job_began'))
    seconds: float | None = field(default=None, metadata=named('job_seconds'))
    map_shuffle_seconds: float | None = None
    reduce_merge_seconds: float | None = None
    maps: int | None = None
    reduces: int | None = None
    failed_attempts: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    hosts: Mapping[str, HostTasks] = field(default_factory=dict)
    last: Mapping[str, LastTask] = field(default_factory=dict)
    locality: Mapping[str, int] = field(default_factory=dict)
    reducers: ReducerRecords | None = None
    failures: tuple[TaskFailure, ...] = ()


@dataclass(frozen=True)
class MachineCpu:
    """CPU seconds of the machine below a lab during a phase.

    :param seconds: duration in seconds.
    :param busy: busy time of all CPUs.
    :param hosts: time of the lab hosts, with their agents and guests.
    :param control_plane: time of the control plane of the lab.
    :param hvstack: time of the process that measured.
    :param foreign: time of everything else.
    """

    seconds: float = 0
    busy: float = 0
    hosts: float = 0
    control_plane: float = 0
    hvstack: float = 0
    foreign: float = 0


@dataclass(frozen=True)
class Phase:
    """Phase of a run.

    :param name: name of the phase in its workload.
    :param seconds: duration in seconds.
    :param started_at: start time in seconds since 1970; None with the kit.
    :param job: statistics of its job, which HSDataCheck does not have.
    :param data_check: result of HSDataCheck, which other phases lack.
    :param machine_cpu: CPU time of the machine; None on other clouds than a
        lab, and in older records.
    :param reported: value that the program of the phase reports, such as the
        MB/s of a map task of TestDFSIO; None if it reports none.
    :param master_nodes: node of each attempt of the ApplicationMaster of its
        job; empty in older records.
    """

    name: str
    seconds: float
    started_at: float | None = field(default=None, metadata=named('began'))
    job: JobStatistics = field(
        default_factory=JobStatistics, metadata=inlined()
    )
    data_check: DataCheck = field(
        default_factory=DataCheck, metadata=inlined()
    )
    machine_cpu: MachineCpu | None = None
    reported: float | None = None
    master_nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostCap:
    """Limits of a lab host.

    :param cpu: number of CPUs.
    :param memory_mib: memory in MiB.
    """

    cpu: float | None = None
    memory_mib: float | None = None


@dataclass(frozen=True)
class SystemUnderTest:
    """Facts that must agree between comparable runs.

    :param facts: all facts by name, as the record contains them.
    :param backend: compute backend; None on bare metal.
    :param storage: type of storage of the volumes; None without volumes.
    :param nova: release of Nova, or the microversion of its API.
    :param hadoop: version of Hadoop.
    :param caps: limits of the lab hosts by name.
    :param workload: name of the workload, see
        :mod:`hvstack.results.workload_types`.
    """

    backend: str | None = None
    storage: str | None = None
    nova: str | None = None
    hadoop: str | None = None
    worker_hosts: float | None = None
    caps: Mapping[str, HostCap] = field(default_factory=dict)
    workload: str = workload_types.TPCX_HS.name
    facts: Mapping[str, Json] = field(default_factory=dict, metadata=inlined())


@dataclass(frozen=True)
class HostProfileDigest:
    """Host profile of a role, as it was during the run."""

    name: str
    digest: str


@dataclass(frozen=True)
class ObservedFlavor:
    """Flavor of a role, as Nova reported it for a server.

    The units are those of Nova: MiB of RAM and GiB of disks.
    """

    name: str = ''
    vcpus: float | None = None
    ram: float | None = None
    disk: float | None = None
    ephemeral: float | None = None
    extra_specs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ObservedInventory:
    """Inventory of a resource class in Placement."""

    total: float | None = None
    reserved: float | None = None
    allocation_ratio: float | None = None


@dataclass(frozen=True)
class ProbedHost:
    """Cap of a lab host, and the cores that it used during the probe."""

    cap: float = 0
    cores: float = 0


@dataclass(frozen=True)
class ProbeGate:
    """Probe before a run.

    :param tries: number of probes.
    :param is_passed: whether each host used its cap in the last probe; None
        without caps of a lab.
    :param hosts: lab hosts with workers by name.
    :param agents_cores: cores that agents and switches used besides.
    :param hashed_per_cpu_second: bytes that a CPU second hashed, the pace of
        the machine.
    """

    tries: int = 1
    is_passed: bool | None = field(default=None, metadata=named('passed'))
    hosts: Mapping[str, ProbedHost] = field(default_factory=dict)
    agents_cores: float | None = None
    hashed_per_cpu_second: float | None = None


@dataclass(frozen=True)
class KitObservation:
    """Run of TPC's kit.

    :param version: version of the kit.
    :param metric: metric that the kit printed.
    :param run: 1 or 2.
    :param role: performance run, repeatability run, or why none of them.
    """

    version: str = ''
    metric: float | None = None
    run: int | None = None
    role: str = ''


@dataclass(frozen=True)
class NodeSummary:
    """Sums over the run of the samples of a node.

    :param role: role of the node.
    :param cpus: number of CPUs of its kernel; None if it shares a kernel.
    :param seconds: seconds between its first and its last sample.
    :param cpu: CPU seconds, as are ``steal`` and ``throttled``.
    :param rx: received bytes; ``tx`` are sent bytes.
    :param swap: number of pages swapped.
    :param network: counters of its network.
    :param disks: bytes read and written and seconds busy by disk.
    """

    role: str = ''
    cpus: float | None = None
    seconds: float = 0
    cpu: float | None = None
    steal: float | None = None
    throttled: float | None = None
    rx: float | None = None
    tx: float | None = None
    swap: float | None = None
    network: Mapping[str, int] = field(default_factory=dict)
    disks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class TelemetrySummary:
    """Telemetry of a run as its record contains it.

    :param file: path of the samples below the directory of the records.
    :param sha256: digest of this file; empty if it could not be written.
    :param source: ``sysstat``, or ``cgroup`` if nodes share a kernel.
    :param interval: seconds between samples.
    :param gaps: samples that are missing, with the reasons.
    :param phases: sums over the workers by phase.
    :param nodes: sums over the run by node.
    """

    file: str = ''
    sha256: str = ''
    source: str = ''
    interval: float | None = None
    gaps: tuple[str, ...] = ()
    phases: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    nodes: Mapping[str, NodeSummary] = field(default_factory=dict)


@dataclass(frozen=True)
class CloudObservations:
    """What Nova, Placement and Cinder reported during a run.

    :param flavor: flavors by role.
    :param host_profile: host profiles by role.
    :param inventory: inventories by host and resource class.
    :param allocations: resources of each server by resource class.
    :param ceph_pools: number of copies by Ceph pool.
    :param other_servers: number of the ``servers`` that were not of the
        cluster, and what they used by resource class, by worker host; absent
        without any, and in older records.
    :param qos: limits of QoS on the ports of a worker and its volumes, and
        the encryption of the volumes; absent without any, and in older
        records.
    :param identity: the cloud; unknown in older records.
    """

    flavor: Mapping[str, ObservedFlavor] = field(default_factory=dict)
    host_profile: Mapping[str, HostProfileDigest] = field(default_factory=dict)
    inventory: Mapping[str, Mapping[str, ObservedInventory]] = field(
        default_factory=dict
    )
    allocations: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )
    ceph_pools: Mapping[str, int] = field(default_factory=dict)
    other_servers: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )
    qos: tuple[str, ...] = ()
    identity: CloudIdentity = field(
        default_factory=CloudIdentity, metadata=named('cloud')
    )


@dataclass(frozen=True)
class Observations:
    """What was observed in a run, not what was asked for.

    :param cloud: observations of the cloud; empty on bare metal.
    :param hvstack: version of hvstack.
    :param cluster: ID of the cluster; empty in older records.
    :param pass_number: number of the pass of the sweep, from 0; None in older
        records.
    :param position: number of runs before in this pass; None in older
        records.
    :param workers: number of workers.
    :param worker_hosts: number of hosts with workers.
    :param host_vcpus: number of CPUs of a host, on bare metal only.
    :param host_memory_mib: memory of a host in MiB, on bare metal only.
    :param blocks: number of blocks of the sorted data.
    :param caps: limits of the lab hosts by name.
    :param before_run: preparations of the run that were not possible.
    :param without_effect: settings of the tuning profile that have no effect.
    :param compared_with: name of the recorded runs on bare metal with which
        the task compared this run; empty for those of its sweep.
    :param killed: evidence of processes that were killed.
    :param uneven_tasks: splits of tasks that were not even, with their
        estimated effect; absent in older records.
    :param probe: probe before the run; None in older records.
    :param kit: run of TPC's kit; None for the substitute workload.
    :param host_losses: provoked losses of hosts after the run.
    :param host_loss_method: how hosts were lost; empty without losses.
    :param compute_scaling: compute workers that were removed and added after
        the run; None without any.
    :param second_cluster: second compute cluster on the same HDFS after the
        run; None without any.
    :param telemetry: summary of the samples; None without telemetry.
    :param compute_hosts: use of the compute hosts; None on bare metal,
        without sampling, and in older records.
    :param facts: all observations by key, as the record contains them.
    """

    cloud: CloudObservations = field(
        default_factory=CloudObservations, metadata=inlined()
    )
    hvstack: str = ''
    cluster: str = ''
    pass_number: int | None = field(default=None, metadata=named('pass'))
    position: int | None = None
    workers: float | None = None
    worker_hosts: float | None = None
    host_vcpus: float | None = None
    host_memory_mib: float | None = None
    blocks: float | None = None
    caps: Mapping[str, HostCap] = field(default_factory=dict)
    before_run: tuple[str, ...] = ()
    without_effect: tuple[str, ...] = ()
    compared_with: str = ''
    killed: tuple[str, ...] = ()
    uneven_tasks: tuple[str, ...] = ()
    probe: ProbeGate | None = None
    kit: KitObservation | None = None
    host_losses: tuple[HostLoss, ...] = ()
    host_loss_method: str = ''
    compute_scaling: ComputeScaling | None = None
    second_cluster: SecondCluster | None = None
    telemetry: TelemetrySummary | None = None
    compute_hosts: ComputeHosts | None = None
    facts: Mapping[str, Json] = field(default_factory=dict, metadata=inlined())

    @property
    def later_changes(self) -> tuple[LaterChange, ...]:
        """Changes of the cluster after the run."""
        single = (self.compute_scaling, self.second_cluster)
        return (
            *self.host_losses,
            *(change for change in single if change is not None),
        )


def read_phases(phases: Sequence[JsonObject]) -> list[Phase]:
    """Return phases from plain data.

    :raises hvstack.errors.InputError: a value is not what it must be.
    """
    try:
        return [read(Phase, phase) for phase in phases]
    except FieldTypeError as exc:
        raise errors.InputError(
            f'Cannot record a phase of the run: {exc}. Report this error.'
        ) from exc
