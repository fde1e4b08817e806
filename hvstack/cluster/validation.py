# SPDX-License-Identifier: Apache-2.0
"""What cannot work is refused before Heat is asked, with the remedy."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hvstack import errors
from hvstack.cloud.quotas import Need
from hvstack.cloud.volumes import Volumes
from hvstack.cluster.plan import ClusterPlan, ClusterSpec
from hvstack.hadoop import tuning_profiles
from hvstack.model import neutron_conf
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import count_classes
from hvstack.model.host import HostProfile
from hvstack.model.vnics import NORMAL
from hvstack.nouns import format_noun

#: Resources of a node in Heat's count: itself in its group, a port, its
#: script, a server.
_NODE_RESOURCES = 4
#: Disks of a node with volumes: themselves, their group; and of each volume:
#: itself in the group, volume, attachment.
_DISKS_RESOURCES, _VOLUME_RESOURCES = 2, 3
#: Wait condition and handle of a node that sends Heat its host key.
_HOST_KEY_RESOURCES = 2
#: Those of the cluster itself, no fewer.
_CLUSTER_RESOURCES = 40
_GIB = 2**30
#: What a worker's wish for dedicated CPUs looks like in its flavor (Nova,
#: "CPU topologies").
_DEDICATED = ('hw:cpu_policy', 'dedicated')


def security_group(spec: ClusterSpec) -> None:
    """Refuse a security group for ports on which none is in force.

    :raises hvstack.errors.InputError: the hosts would not use it.
    """
    if spec.stateless_security_group and spec.vnic != NORMAL:
        raise errors.InputError(
            'Cannot use a stateless security group with the VNIC '
            f"'{spec.vnic}': no security group is in force on its ports. Use "
            f"the VNIC '{NORMAL}', or no stateless security group."
        )


def workers(
    count: int, slots: int, configuration: Configuration, hosts: int
) -> None:
    """Refuse more workers than slots.

    :param slots: that neither controllers nor compute workers take.
    :param hosts: that workers may be on.
    :raises hvstack.errors.InputError: there are more, or none at all.
    """
    if 1 <= count <= slots:
        return
    if slots < 1:
        raise errors.InputError(
            'Cannot place workers: no slot remains for them next to the '
            f'controllers (hosts: {hosts}, slots of each host: '
            f'{configuration.instances}). Use more hosts.'
        )
    raise errors.InputError(
        f'Cannot place {format_noun(count, "worker")}: '
        f'{format_noun(hosts, "host")} with '
        f'{format_noun(configuration.instances, "slot")} each leave '
        f'{format_noun(slots, "slot")} for workers. Use 1 to {slots} workers, '
        'more hosts or more instances.'
    )


def replication(replicas: int, hosts: int, node_groups: bool = True) -> None:
    """Refuse more replicas than physical hosts that carry workers.

    :param node_groups: whether Hadoop keeps replicas on different hosts.
    :raises hvstack.errors.InputError: there are more, or none at all.
    """
    if replicas >= 1 and (replicas <= hosts or not node_groups):
        return
    raise errors.InputError(
        f'Cannot use replication {replicas}: two replicas never share one of '
        f'the {hosts} hosts that have workers. Use 1 to {hosts}.'
    )


def controllers(arrangement: str, hosts: int, profile: HostProfile) -> None:
    """Refuse separate controllers without a host for each.

    :param arrangement: ``combined`` or ``separate``.
    :param hosts: that are up and may carry controllers.
    :param profile: of these hosts.
    :raises hvstack.errors.InputError: there are too few.
    """
    if arrangement == 'combined' or hosts > 1:
        return
    trait = profile.traits.get('controller')
    raise errors.InputError(
        f'Cannot use separate controllers: they need 2 hosts, and {hosts} '
        f"host of '{profile.name}'{f' (trait {trait})' if trait else ''} is "
        'up. Use combined controllers, or more hosts.'
    )


def deployment(deployment_number: int, configuration: Configuration) -> None:
    """Refuse a deployment of the HVE paper that has no room on a host.

    :param deployment_number: 1 to 4.
    :raises hvstack.errors.InputError: the configuration has too few slots,
        or other ones than it needs.
    """
    min_slots = {1: 1, 2: 2, 3: 2, 4: 4}[deployment_number]
    count = configuration.instances
    if deployment_number == 1 and count > 1:
        raise errors.InputError(
            'Cannot use deployment 1: it has one worker per host, and '
            f'{configuration.label} has {count} instances. Use instances 1, '
            'or deployment 2.'
        )
    if count < min_slots:
        raise errors.InputError(
            f'Cannot use deployment {deployment_number}: it needs at least '
            f'{min_slots} slots per host, and {configuration.label} has '
            f'{count} instances. Use instances {min_slots} or more.'
        )
    if deployment_number > 2 and configuration.disk_pinning:
        raise errors.InputError(
            f'Cannot use deployment {deployment_number} with disk pinning, '
            'which gives every slot its share of the disks of a host. Use '
            'deployment 1 or 2, or no disk pinning.'
        )


def disks(profile: HostProfile, configuration: Configuration) -> None:
    """Refuse disk pinning where disks would be left over.

    :raises hvstack.errors.InputError: they do not divide.
    """
    if not configuration.disk_pinning or profile.disks is None:
        return
    count, instances = profile.disks.count, configuration.instances
    if count % instances:
        good = [str(i) for i in range(1, count + 1) if not count % i]
        raise errors.InputError(
            f'{configuration.label}: Cannot divide the {count} data disks of '
            f"'{profile.name}' equally among {instances} workers. Use "
            f'{", ".join(good)} instances.'
        )


def volumes(configuration: Configuration, requested: Volumes | None) -> None:
    """Refuse volumes on Ceph for a configuration without them.

    :raises hvstack.errors.InputError: its disks are not to be chosen.
    """
    if requested is None:
        return
    if configuration.disk_pinning and requested == Volumes(
        count=requested.count
    ):
        # As many of the worker's pinned disks.
        return
    if configuration.storage != 'ceph' or configuration.disk_pinning:
        raise errors.InputError(
            f'{configuration.label}: Cannot choose the type and the number of '
            'volumes, because the workers use the disks of the hosts. Use '
            "storage 'ceph' without disk pinning."
        )


def disk_size(plan: ClusterPlan) -> None:
    """Refuse volumes to which HDFS would not write a block.

    :raises hvstack.errors.InputError: they are too small.
    """
    if not plan.nodes.workers or not any(plan.disks.types):
        return
    tuning = plan.spec.tuning
    reserve = tuning_profiles.load(tuning).disk_reserve_bytes
    if plan.disks.size_gb * _GIB <= reserve:
        raise errors.InputError(
            f'Cannot use volumes of {plan.disks.size_gb} GB (tuning profile '
            f"'{tuning}'): HDFS leaves {reserve / _GIB:g} GiB of each disk "
            f'free. Use {reserve // _GIB + 1} GB or more.'
        )


def readiness(requested: bool, controllers_first: bool) -> None:
    """Refuse to wait for nodes that wait for the stack to be complete.

    :raises hvstack.errors.InputError: controllers come first, and get their
        topology afterwards.
    """
    if requested and controllers_first:
        raise errors.InputError(
            'Cannot signal to Heat that the nodes are ready: controllers are '
            'created before the workers (separate controllers, compute '
            'workers) and wait for their topology, which is known when the '
            'stack is complete. Omit --readiness.'
        )


def flavor(
    name: str,
    extra_specs: Mapping[str, str] | None,
    configuration: Configuration,
) -> None:
    """Refuse a worker's flavor with another CPU policy than is asked for.

    :param extra_specs: None where the cloud does not show them.
    :raises hvstack.errors.InputError: shared instead of dedicated, or the
        other way round.
    """
    if extra_specs is None:
        return
    key, value = _DEDICATED
    dedicated = extra_specs.get(key) == value
    if configuration.cpu_policy == 'dedicated' and not dedicated:
        raise errors.InputError(
            f"Cannot use flavor '{name}' for dedicated CPUs: it does not have "
            f"{key}={value}. Use a flavor that has it ('hvstack flavor "
            "publish' creates such flavors), or cpu_policy shared."
        )
    if configuration.cpu_policy == 'shared' and dedicated:
        raise errors.InputError(
            f"Cannot use flavor '{name}' for shared CPUs: it has "
            f'{key}={value}. Use cpu_policy dedicated, or a flavor without '
            'this extra spec.'
        )


def needs(plan: ClusterPlan) -> Need:
    """Return the resources that a cluster takes from the project's quota."""
    nodes, flavors = plan.nodes, plan.flavors
    counts = (
        (flavors.worker, nodes.workers + nodes.gateway),
        (flavors.compute or flavors.worker, nodes.compute_workers),
        (flavors.controller, plan.spec.controller_count),
    )
    pinning = plan.spec.configuration.disk_pinning
    slots = nodes.workers_per_host if pinning else 1
    types = list_volume_types(plan.disks.types, range(nodes.workers))
    volumes = len(types)
    instances = sum(count for _, count in counts)
    network_quotas = neutron_conf.count_quotas(instances)
    return Need(
        instances=instances,
        cores=sum(count * flavor.vcpus for flavor, count in counts),
        ram=sum(count * flavor.ram for flavor, count in counts),
        server_groups=(slots if nodes.workers else 0)
        + bool(nodes.compute_workers)
        + (plan.spec.controller_count > 1),
        server_group_members=max(
            math.ceil(nodes.workers / slots), nodes.compute_workers
        ),
        volumes=volumes,
        gigabytes=volumes * plan.disks.size_gb,
        volume_gb=plan.disks.size_gb if volumes else 0,
        volume_types=Counter(types),
        ports=network_quotas['port'],
        security_groups=network_quotas['security_group'],
        classes=count_classes(counts),
    )


def stack(plan: ClusterPlan, max_resources: int) -> None:
    """Refuse more resources than Heat takes in one stack.

    :param max_resources: its ``max_resources_per_stack``; -1 is no limit.
    :raises hvstack.errors.InputError: there are more.
    """
    nodes = plan.nodes
    stack_of(
        nodes.workers + nodes.compute_workers,
        count_resources(plan),
        max_resources,
    )


def count_resources(plan: ClusterPlan) -> int:
    """Return the number of resources of a stack, nested stacks included."""
    nodes, host_keys = plan.nodes, plan.stack.host_keys
    return (
        _CLUSTER_RESOURCES
        + len(plan.disks.types)
        + resources([0] * nodes.compute_workers, host_keys)
        + resources(_volumes(plan), host_keys)
    )


def resources(volumes: Sequence[int], host_keys: bool) -> int:
    """Return how many resources workers are in Heat's count.

    :param volumes: number of volumes of each worker.
    :param host_keys: whether the nodes send Heat their host keys.
    """
    node = _NODE_RESOURCES + _HOST_KEY_RESOURCES * host_keys
    return sum(
        node + _VOLUME_RESOURCES * count + _DISKS_RESOURCES * bool(count)
        for count in volumes
    )


def stack_of(count: int, needed: int, max_resources: int) -> None:
    """Refuse more resources than Heat takes in one stack.

    :param count: of workers.
    :param needed: resources.
    :param max_resources: its ``max_resources_per_stack``; -1 is no limit.
    :raises hvstack.errors.InputError: there are more.
    """
    if max_resources < 0 or needed <= max_resources:
        return
    raise errors.InputError(
        f'Cannot create a stack of {format_noun(count, "worker")}: it has '
        f'{needed} resources, and Heat accepts {max_resources}. Have an '
        'administrator set max_resources_per_stack in heat.conf, and set '
        f'[cloud] max_resources_per_stack in hvstack.conf, to {needed} '
        'or -1, or use a smaller cluster.'
    )


def list_volume_types(
    types: Sequence[Sequence[str]], workers: Iterable[int]
) -> list[str]:
    """Return the volume type of each volume of some workers.

    :param types: volume types of the disks of a worker, for each slot.
    :param workers: indexes of the workers.
    """
    return [
        volume_type
        for index in workers
        for volume_type in types[index % len(types)]
    ]


def _volumes(plan: ClusterPlan) -> list[int]:
    """Return the number of volumes of each worker."""
    types = plan.disks.types
    return [
        len(types[index % len(types)]) for index in range(plan.nodes.workers)
    ]
