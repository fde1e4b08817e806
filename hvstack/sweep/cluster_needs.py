# SPDX-License-Identifier: Apache-2.0
"""What the clusters of a sweep need on a number of hosts, without a cloud."""

from dataclasses import asdict, dataclass

from hvstack.cloud.quotas import Need
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import node_counts, validation
from hvstack.cluster.plan import (
    ClusterFlavors,
    ClusterPlan,
    ClusterSpec,
    NodeCounts,
    StackResources,
)
from hvstack.hadoop import tuning_profiles
from hvstack.hadoop.sizing import (
    NodeSizing,
    add_hdfs_heaps,
    has_own_tasks,
    has_whole_waves,
    size_node,
)
from hvstack.model import compute_backends
from hvstack.model.cluster_size import ClusterSize, compute_cluster_size
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor, derive_flavor
from hvstack.model.guest_shape import parse_page_kib
from hvstack.model.host import HostProfile
from hvstack.model.target import BareMetal, Target
from hvstack.results.typed_json import JsonObject
from hvstack.sweep.search_space import Space
from hvstack.tpcxhs import deadlines, job_memory
from hvstack.tpcxhs.deadlines import Limits, WorkerHosts
from hvstack.tpcxhs.task_counts import (
    PlatformSlots,
    count_slots,
    count_tasks,
)
from hvstack.tpcxhs.workload import MIB, Workload


@dataclass(frozen=True)
class Hosts:
    """Hosts of a sweep, and its work.

    :param profile: host profile of all hosts.
    :param count: number of hosts, including those of controllers.
    :param size_bytes: size of the data set in bytes.
    :param tuning: tuning profile of Hadoop.
    :param limits: limits of the phases.
    :param backend: compute backend of the hosts; None if it is unknown.
    """

    profile: HostProfile
    count: int
    size_bytes: int
    tuning: str
    limits: Limits = deadlines.DEFAULT_LIMITS
    backend: str | None = None


@dataclass(frozen=True)
class ClusterNeeds:
    """What a configuration, or bare metal, needs for a run.

    :param name: short name of the configuration, or ``bare-metal``.
    :param workers: number of workers.
    :param controllers: number of controllers.
    :param tasks: number of map tasks of HSGen and of reduce tasks of HSSort.
    :param sort_maps: number of map tasks of HSSort.
    :param heaps_mib: Java heaps in MiB, by JVM; 0 is that of the guest image.
    :param deadlines: deadline of each phase in seconds.
    :param quota: what the project needs; None on bare metal.
    :param heat_resources: number of resources of the stack; 0 on bare metal.
    :param pages: number of large pages that the workers of a host use.
    :param estimates: estimated seconds of each phase, by the assumed speeds
        of :mod:`hvstack.tpcxhs.deadlines`.
    :param slots: number of tasks that run at the same time.
    :param is_filled: whether the tasks fill all containers in whole waves.
    :param hdfs_bytes: bytes in HDFS for input, output and intermediate data.
    :param disk_bytes: size in bytes of the data disks of all workers; None if
        it is unknown.
    """

    name: str
    workers: int
    controllers: int
    tasks: int
    sort_maps: int
    heaps_mib: dict[str, int]
    deadlines: dict[str, float]
    estimates: dict[str, float]
    quota: Need | None = None
    heat_resources: int = 0
    pages: int = 0
    slots: int = 0
    is_filled: bool = True
    hdfs_bytes: float = 0
    disk_bytes: int | None = None

    def to_mapping(self) -> JsonObject:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True)
class _Platform:
    """Bare metal or a configuration, with the sizes of its nodes."""

    target: Target
    size: ClusterSize
    sizing: NodeSizing
    vcpus: int
    plan: ClusterPlan | None = None

    @property
    def slots(self) -> PlatformSlots:
        """Containers of all workers."""
        return count_slots(self.sizing, self.size.workers)


def compute_needs(hosts: Hosts, area: Space) -> list[ClusterNeeds]:
    """Return the needs of bare metal and of each possible configuration.

    :param hosts: hosts of the sweep, and its work.
    :param area: search space with its possible configurations.
    :raises hvstack.errors.InputError: there are too few hosts.
    """
    targets: list[Target] = [BareMetal(), *area.possible]
    platforms = [_size_platform(hosts, target) for target in targets]
    slots = [platform.slots for platform in platforms]
    shared = not has_own_tasks(hosts.tuning)
    return [
        _compute(
            hosts, platform, slots if shared else [platform.slots], platforms
        )
        for platform in platforms
    ]


def _size_platform(hosts: Hosts, target: Target) -> _Platform:
    """Return bare metal or a configuration, with the sizes of its nodes."""
    profile = hosts.profile
    native = isinstance(target, BareMetal)
    configuration = target if isinstance(target, Configuration) else None
    size = compute_cluster_size(
        profile, configuration or Configuration(), hosts.count, native=native
    )
    if configuration:
        plan = _plan(hosts, configuration, size)
        vcpus = plan.flavors.worker.vcpus
        return _Platform(target, size, plan.sizing, vcpus, plan)
    sizing = size_node(
        profile.cpus,
        profile.memory_mib,
        tuning=hosts.tuning,
        native=True,
        controller_mib=profile.memory_mib,
    )
    return _Platform(target, size, sizing, profile.cpus)


def _compute(
    hosts: Hosts,
    platform: _Platform,
    slots: list[PlatformSlots],
    platforms: list[_Platform],
) -> ClusterNeeds:
    """Return the needs of one platform.

    :param slots: containers of the platforms with the same number of tasks.
    :param platforms: all platforms, bare metal first.
    """
    plan, size, target = platform.plan, platform.size, platform.target
    configuration = target if isinstance(target, Configuration) else None
    worker_hosts = min(hosts.count, size.workers)
    wave_hosts = min(hosts.count, platforms[0].size.workers)
    tasks = count_tasks(
        hosts.size_bytes,
        slots,
        worker_hosts if len(slots) == 1 else wave_hosts,
        hosts.tuning,
    )
    workload = Workload(hosts.size_bytes, min(3, worker_hosts), tasks, tasks)
    tuning_profile = tuning_profiles.load(hosts.tuning)
    splits = workload.count_splits(tuning_profile.max_block_mib * MIB)
    instances = configuration.instances if configuration else 1
    hardware = WorkerHosts(
        worker_hosts,
        platform.vcpus * instances,
        _count_disks(hosts.profile, plan, instances),
    )
    return ClusterNeeds(
        configuration.label if configuration else target.name,
        size.workers,
        size.controllers,
        tasks,
        splits,
        _heaps(platform.sizing, splits, tasks, tuning_profile.sampled_keys),
        hosts.limits.deadlines(workload, hardware),
        deadlines.estimate_phases(workload, hardware),
        validation.needs(plan) if plan else None,
        validation.count_resources(plan) if plan else 0,
        _count_pages(plan.flavors.worker, instances) if plan else 0,
        platform.slots.slots,
        not has_whole_waves(hosts.tuning)
        or platform.slots.is_filled_by(tasks),
        workload.needed_bytes,
        _measure_disks(hosts, platform),
    )


def _measure_disks(hosts: Hosts, platform: _Platform) -> int | None:
    """Return the bytes of all data disks of a cluster; None if unknown."""
    if not compute_backends.has_data_disks(hosts.backend):
        return None
    if plan := platform.plan:
        capacity = node_counts.measure_hdfs(
            plan.nodes, plan.flavors.worker, plan.disks
        )
        return capacity.total_bytes if capacity else None
    if disks := hosts.profile.disks:
        return platform.size.workers * disks.count * disks.size_gb * 10**9
    return None


def _plan(
    hosts: Hosts, configuration: Configuration, size: ClusterSize
) -> ClusterPlan:
    """Return the plan of a cluster that uses every host."""
    worker, controller = (
        derive_flavor(hosts.profile, configuration, role)
        for role in ('worker', 'controller')
    )
    nodes = NodeCounts(
        size.workers,
        configuration.instances,
        replication=min(3, hosts.count, size.workers),
    )
    disks = node_counts.plan_disks(configuration, worker, Volumes())
    sizing = size_node(
        worker.vcpus,
        worker.ram,
        tuning=hosts.tuning,
        controller_mib=controller.ram,
        namenode=size.controllers < 2,
    )
    return ClusterPlan(
        ClusterSpec(
            configuration,
            controllers='separate' if size.controllers > 1 else 'combined',
            tuning=hosts.tuning,
        ),
        nodes,
        ClusterFlavors(worker, controller),
        add_hdfs_heaps(
            *(sizing, node_counts.measure_hdfs(nodes, worker, disks)),
            tuning=hosts.tuning,
            memory_mib=worker.ram,
            controller_mib=controller.ram,
            namenode=size.controllers < 2,
        ),
        StackResources('', ''),
        disks,
    )


def _count_disks(
    profile: HostProfile, plan: ClusterPlan | None, instances: int
) -> int:
    """Return the number of data disks of a host that its workers use."""
    if plan is None:
        return profile.disks.count if profile.disks else 1
    return max(1, plan.flavors.worker.disks * instances)


def _count_pages(worker: Flavor, instances: int) -> int:
    """Return the number of large pages of a host that its workers use."""
    page = parse_page_kib(worker)
    return -(-worker.ram * 1024 // page) * instances if page else 0


def _heaps(
    sizing: NodeSizing, splits: int, tasks: int, keys: int
) -> dict[str, int]:
    """Return the Java heaps in MiB of HSSort, by JVM."""
    master = job_memory.master_mib(
        splits + tasks, sizing.master_room_mib, sizing.master_heap_mib
    )
    return {
        'daemon': sizing.daemon_mib or 0,
        'namenode': sizing.namenode_mib or 0,
        'map': sizing.map_heap_mib,
        'reduce': sizing.heap_mib,
        'master': master[1] if master else sizing.master_heap_mib,
        'client': job_memory.client_mib(splits, keys),
    }
