# SPDX-License-Identifier: Apache-2.0
"""Numbers of nodes, replicas and disks of a cluster."""

from collections.abc import Mapping

from hvstack import errors
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import validation
from hvstack.cluster.plan import (
    ClusterDisks,
    ClusterSpec,
    NodeCounts,
    ProjectResources,
    SharedHDFS,
)
from hvstack.hadoop.hdfs_heaps import HDFSCapacity
from hvstack.model import pinned_disks
from hvstack.model.cluster_size import compute_cluster_size
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor
from hvstack.model.host import HostProfile

#: Extra spec of a flavor whose disks are a host's own, passed through.
PASSED_THROUGH = 'pci_passthrough:alias'
_GIB = 1024**3


def count_nodes_on_hosts(
    spec: ClusterSpec, profile: HostProfile, host_count: int
) -> NodeCounts:
    """Count the nodes of a cluster on hosts of a profile.

    :param spec: requested cluster.
    :param profile: host profile of the workers.
    :param host_count: number of hosts for workers that are up.
    :raises hvstack.errors.InputError: there are more workers than slots, or
        more replicas than hosts.
    """
    configuration = spec.configuration
    per_host, compute_per_host = _split_slots(
        configuration.instances, spec.deployment
    )
    worker_hosts = host_count
    controller_slots = 0
    if profile.traits.get('worker') or compute_per_host:
        # Only the workers' own hosts have the trait. Without it, controllers
        # come first, and as many hosts' slots are left to them: in what is
        # left of these the scheduler may mix both kinds of workers. A trait
        # of the storage keeps no controller away from these hosts.
        if not profile.traits.get('worker'):
            worker_hosts = max(0, host_count - spec.controller_count)
        slots = per_host * worker_hosts
    else:
        size = compute_cluster_size(
            profile, configuration, host_count, controllers='combined'
        )
        controller_slots = size.slots_per_controller
        slots = size.workers - (spec.controller_count - 1) * controller_slots
        if controller_slots == configuration.instances:
            worker_hosts -= spec.controller_count
    compute_workers = compute_per_host * worker_hosts
    gateway = spec.gateway
    if gateway and profile.policy.spare_gateway:
        gateway = spec.workers is not None and spec.workers < slots
    workers, replication = _count_workers(
        spec, slots - gateway, host_count, worker_hosts, spec.node_groups
    )
    return NodeCounts(
        workers=workers,
        workers_per_host=per_host,
        replication=replication,
        compute_workers=compute_workers,
        compute_per_host=compute_per_host,
        controller_slots=controller_slots,
        gateway=gateway,
        # They may find no host otherwise, because workers leave single slots
        # on many hosts.
        controllers_first=spec.controllers == 'separate'
        or compute_workers > 0
        or controller_slots > 1,
    )


def count_nodes(spec: ClusterSpec, resources: ProjectResources) -> NodeCounts:
    """Count the nodes of a cluster on hosts that a user describes.

    :raises hvstack.errors.InputError: there are more workers than slots, more
        replicas than hosts, or the deployment or ``readiness`` is not
        possible.
    """
    instances = spec.configuration.instances
    slots = instances * resources.hosts
    slots -= resources.controller_slots + spec.gateway
    # A host that a controller fills carries no worker.
    filled = spec.controller_count * (
        resources.controller_slots // spec.controller_count // instances
    )
    workers, replication = _count_workers(
        spec,
        slots,
        resources.hosts,
        resources.hosts - filled,
        resources.node_groups and spec.node_groups,
    )
    deployment = spec.hve_deployment
    if deployment < 3 or spec.configuration.disk_pinning:
        # In 3 and 4 compute workers do not use these slots.
        validation.deployment(deployment, spec.configuration)
    validation.readiness(spec.readiness, spec.controllers == 'separate')
    has_compute = deployment > 2
    return NodeCounts(
        workers=workers,
        workers_per_host=instances,
        replication=replication,
        compute_workers=resources.hosts * resources.compute_per_host
        if has_compute
        else 0,
        compute_per_host=resources.compute_per_host,
        gateway=spec.gateway,
        # Workers leave single slots on many hosts.
        controllers_first=resources.controller_slots > 1,
    )


def count_compute_nodes(
    spec: ClusterSpec, resources: ProjectResources, hdfs: SharedHDFS
) -> NodeCounts:
    """Count the nodes of a compute cluster on the HDFS of another stack.

    :param spec: requested cluster, without a number of workers.
    :raises hvstack.errors.InputError: there are more replicas than hosts with
        data, or the compute cluster would have disks.
    """
    if spec.configuration.disk_pinning:
        raise errors.InputError(
            f'{spec.configuration.label}: Cannot pin disks to the workers of '
            'a compute cluster, which store no data. Use a configuration '
            'without disk pinning.'
        )
    replication = (
        hdfs.replication if spec.replication is None else spec.replication
    )
    validation.replication(
        replication, hdfs.worker_hosts, resources.node_groups
    )
    return NodeCounts(
        workers=0,
        workers_per_host=1,
        replication=replication,
        compute_workers=resources.hosts * resources.compute_per_host,
        compute_per_host=resources.compute_per_host,
        gateway=spec.gateway,
        # The topology contains the nodes of both stacks.
        controllers_first=True,
    )


def _split_slots(instances: int, deployment: int | None) -> tuple[int, int]:
    """Return the slots of a host for workers and for compute workers."""
    if deployment == 3:
        return 1, instances - 1
    if deployment == 4:
        return instances - instances // 2, instances // 2
    return instances, 0


def _count_workers(
    spec: ClusterSpec,
    slots: int,
    host_count: int,
    worker_hosts: int,
    node_groups: bool,
) -> tuple[int, int]:
    """Return the numbers of workers and of HDFS replicas.

    :param slots: number of slots for workers.
    :param host_count: number of hosts, for errors.
    :param worker_hosts: number of hosts that can have workers.
    :param node_groups: whether Hadoop keeps replicas on different hosts.
    """
    workers = slots if spec.workers is None else spec.workers
    validation.workers(workers, slots, spec.configuration, host_count)
    hosts = min(worker_hosts, workers)
    replication = (
        min(3, hosts) if spec.replication is None else spec.replication
    )
    validation.replication(replication, hosts, node_groups)
    return workers, replication


def plan_disks(
    configuration: Configuration, worker: Flavor, requested: Volumes
) -> ClusterDisks:
    """Plan the volumes of workers with a derived flavor.

    :param configuration: configuration of the workers.
    :param worker: derived flavor of the workers.
    :param requested: volumes on Ceph, or a number of pinned disks.
    :raises hvstack.errors.InputError: the worker has fewer pinned disks, or
        they come with its flavor.
    """
    disks, disk_gb = worker.disks, worker.disk_size_gb
    if requested.count is not None and configuration.disk_pinning:
        _check_pinned_disks(configuration, worker, requested.count)
    elif requested.count is not None:
        # As much room, on more or fewer volumes.
        disk_gb = disks * disk_gb // requested.count
        disks = requested.count
    # Disks that are passed through come with the flavor, not as volumes.
    passed = PASSED_THROUGH in worker.extra_specs
    fill_disks = has_local_volumes(configuration, worker.extra_specs)
    return ClusterDisks(
        get_disk_types(
            *(configuration, 0 if passed else disks, requested.type),
            used=requested.count,
        ),
        pinned_disks.compute_volume_gib(disk_gb)
        if fill_disks
        else disk_gb or 1,
        local=fill_disks or requested.host_affinity,
    )


def measure_hdfs(
    nodes: NodeCounts, worker: Flavor, disks: ClusterDisks
) -> HDFSCapacity | None:
    """Return the disks for HDFS of a cluster.

    :param nodes: numbers of nodes.
    :param worker: flavor of the workers with a DataNode.
    :param disks: volumes of these workers.
    :returns: None if the size of the disks is unknown.
    """
    if disks.types[0]:
        worker_bytes = len(disks.types[0]) * disks.size_gb * _GIB
    elif worker.disks:
        worker_bytes = worker.disks * worker.disk_size_gb * 10**9
    else:
        worker_bytes = worker.ephemeral * _GIB
    if not worker_bytes:
        return None
    return HDFSCapacity(nodes.workers, worker_bytes, nodes.replication)


def _check_pinned_disks(
    configuration: Configuration, worker: Flavor, count: int
) -> None:
    """Refuse a number of pinned disks that a worker cannot have.

    :raises hvstack.errors.InputError: see :func:`plan_disks`.
    """
    if PASSED_THROUGH in worker.extra_specs:
        raise errors.InputError(
            f'{configuration.label}: Cannot use {count} disks: all disks of a '
            'worker come with its flavor, by PCI passthrough. Omit the number '
            'of disks.'
        )
    if count > worker.disks:
        raise errors.InputError(
            f'{configuration.label}: Cannot use {count} disks: a worker has '
            f'{worker.disks} pinned disks. Use {worker.disks} or fewer.'
        )


def has_local_volumes(
    configuration: Configuration, extra_specs: Mapping[str, str] | None
) -> bool:
    """Return whether workers have volumes on their own host.

    :param extra_specs: extra specs of the workers' flavor; None if the cloud
        does not show them.
    """
    return (
        configuration.disk_pinning
        and configuration.storage == 'local'
        and PASSED_THROUGH not in (extra_specs or {})
    )


def get_disk_types(
    configuration: Configuration,
    disks: int,
    volume_type: str = 'ceph',
    *,
    used: int | None = None,
) -> tuple[tuple[str, ...], ...]:
    """Return the volume type of each of a worker's disks, for each slot.

    With disk pinning, volume types name a host's disks, ``disk-slot-1`` and
    so on, and each slot has as many as a worker.

    :param disks: number of disks of a worker.
    :param volume_type: type of all disks without disk pinning.
    :param used: number of these disks that are used with disk pinning; None
        uses all.
    """
    if not configuration.disk_pinning:
        ceph = configuration.storage == 'ceph'
        return ((volume_type,) * disks if ceph else (),)
    return tuple(
        tuple(
            f'disk-slot-{slot * disks + disk + 1}'
            for disk in range(disks if used is None else used)
        )
        for slot in range(configuration.instances)
    )
