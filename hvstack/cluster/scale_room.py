# SPDX-License-Identifier: Apache-2.0
"""Room for more workers of a stack: slots, quotas and the limit of Heat."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from openstack.compute.v2.flavor import Flavor as NovaFlavor
from openstack.compute.v2.server import Server
from openstack.connection import Connection
from openstack.orchestration.v1.stack import Stack

from hvstack import errors
from hvstack.cloud import (
    nova_flavors,
    placement,
    quotas,
    stack_resources,
    stack_updates,
)
from hvstack.cloud.connection import refused
from hvstack.cloud.quotas import Need
from hvstack.cluster import topology_refresh, validation, worker_hosts
from hvstack.cluster.scale import GROUPS, count_slots, list_next_numbers
from hvstack.cluster.scale_plan import ScalePlan
from hvstack.model.flavor import count_classes
from hvstack.nouns import format_noun

#: Of the template: what a worker takes, and where.
_SIZES = (
    *('workers_per_host', 'anti_affinity', 'storage', 'disk_pinning'),
    *('volume_types', 'disk_gb', 'host_keys', 'compute_per_host'),
)


def refuse(
    conn: Connection,
    stack: Stack,
    change: ScalePlan,
    nodes: Sequence[topology_refresh.StackNode],
    max_resources: int,
) -> None:
    """Refuse more workers than there is room for, before anything changes.

    :param conn: of the stack's project; only an administrator's sees how
        many slots hosts have left.
    :param nodes: of :func:`hvstack.cluster.topology_refresh.nodes`.
    :param max_resources: Heat's ``max_resources_per_stack``; -1 is no limit.
    :raises hvstack.errors.InputError: slots, a quota or Heat's limit are not
        enough.
    :raises hvstack.errors.CloudError: a service refused.
    """
    added = {
        'workers': max(0, change.after - change.before),
        'compute': max(0, change.compute_after - change.compute_before),
    }
    if not any(added.values()):
        # All else is free before: hvstack deletes the servers, and Heat
        # deletes the ports after it has created those of the new workers.
        # After a failed check of the stack, it keeps the ports.
        ports = sum(not worker.member.unhealthy for worker in change.replace)
        if ports:
            quotas.check(conn, Need(ports=ports))
        return
    sizes = {
        name: yaml.safe_load(str(value))
        for name, value in stack.parameters.items()
        if name in _SIZES
    }
    names = {'workers': str(stack.parameters['worker_flavor'])}
    names['compute'] = (
        str(stack.parameters.get('compute_flavor') or '') or names['workers']
    )
    flavors = {
        group: nova_flavors.find_visible(conn, names[group])
        for group, count in added.items()
        if count
    }
    per_host = sizes['workers_per_host']
    members, numbers = _number_workers(conn, stack, change)
    if sizes['anti_affinity'] == 'strict':
        zone = str(stack.parameters.get('availability_zone') or '')
        _refuse_slots(
            conn,
            nodes,
            {group: (added[group], flavors[group]) for group in flavors},
            {'workers': per_host, 'compute': sizes.get('compute_per_host', 0)},
            zone,
        )
        if members:
            _refuse_numbers(
                _list_hosts(conn, flavors['workers'], zone),
                _list_servers(conn),
                *(members, numbers, count_slots(stack)),
            )
    types = (
        sizes['volume_types']
        if sizes['storage'] == 'ceph' or sizes['disk_pinning']
        else [[]]
    )
    volumes = [len(types[index % len(types)]) for index in numbers]
    validation.stack_of(
        change.after + change.compute_after,
        len(stack_resources.require_resources(conn, stack))
        + validation.resources(
            [*volumes, *([0] * added['compute'])],
            bool(sizes.get('host_keys')),
        ),
        max_resources,
    )
    volume_types = validation.list_volume_types(types, numbers)
    quotas.check(
        conn, _compute_need(change, added, sizes, flavors, volume_types)
    )


def _number_workers(
    conn: Connection, stack: Stack, change: ScalePlan
) -> tuple[list[stack_updates.Member], list[int]]:
    """Return the members of the group of workers, and the new numbers.

    Only with several slots does a number matter. Else there are no members,
    and the numbers are those of a group from which no worker was removed.
    """
    numbers = list(range(change.before, change.after))
    if count_slots(stack) == 1 or not numbers:
        return [], numbers
    members = stack_updates.members(conn, stack, 'workers')
    next_numbers = list_next_numbers(conn, stack, members)
    return members, list(itertools.islice(next_numbers, len(numbers)))


def _compute_need(
    change: ScalePlan,
    added: Mapping[str, int],
    sizes: Mapping[str, Any],
    flavors: Mapping[str, NovaFlavor],
    volume_types: Sequence[str],
) -> Need:
    """Return the need of the new workers for quotas of the project.

    :param added: number of new workers by group.
    :param sizes: parameters of :data:`_SIZES`.
    :param flavors: flavors of the groups with new workers.
    :param volume_types: volume type of each volume of the new workers.
    """
    groups = sizes['workers_per_host'] if sizes['disk_pinning'] else 1
    members = max(
        math.ceil(change.after / groups) if added['workers'] else 0,
        change.compute_after if added['compute'] else 0,
    )
    return Need(
        instances=sum(added.values()),
        cores=sum(
            added[group] * flavor.vcpus for group, flavor in flavors.items()
        ),
        ram=sum(
            added[group] * flavor.ram for group, flavor in flavors.items()
        ),
        server_group_members=members
        if sizes['anti_affinity'] != 'none'
        else 0,
        volumes=len(volume_types),
        gigabytes=len(volume_types) * sizes['disk_gb'],
        volume_gb=sizes['disk_gb'] if volume_types else 0,
        volume_types=Counter(volume_types),
        ports=sum(added.values()) + len(change.replace),
        classes=count_classes(
            (nova_flavors.to_flavor(flavor, group), added[group])
            for group, flavor in flavors.items()
        ),
    )


def _refuse_slots(
    conn: Connection,
    nodes: Sequence[topology_refresh.StackNode],
    added: Mapping[str, tuple[int, NovaFlavor]],
    per_host: Mapping[str, int],
    zone: str,
) -> None:
    """Refuse more workers than the server groups accept on these hosts.

    :param added: number and flavor of the new workers by group.
    :param per_host: most workers of a group on one host.
    :param zone: availability zone of the nodes; empty for any.
    """
    for group, (count, flavor) in added.items():
        role = GROUPS[group]
        free = _free(conn, flavor, per_host[group], nodes, role, zone)
        if free is not None and count > free:
            kind = 'compute workers' if role == 'compute' else 'workers'
            before = sum(node.role == role for node in nodes)
            raise errors.InputError(
                f'Cannot add {count} {kind}: the hosts that are up have '
                f'{free} free slots. Use up to {before + free} {kind}, or '
                'more hosts.'
            )


def _free(
    conn: Connection,
    flavor: NovaFlavor,
    per_host: int,
    nodes: Sequence[topology_refresh.StackNode],
    role: str,
    zone: str,
) -> int | None:
    """Return how many workers the hosts have room for, if we may know.

    :param role: role of the workers. A slot of workers can have a controller,
        and a slot of compute workers has nothing else.
    :param zone: availability zone of the nodes; empty for any.
    """
    hosts = _list_hosts(conn, flavor, zone)
    servers = _list_servers(conn)
    if hosts is None or servers is None:
        return None
    free_slots = dict.fromkeys(hosts, per_host)
    for node in nodes:
        server = servers.get(node.server_id)
        if server is None or server.hypervisor_hostname not in free_slots:
            continue
        if node.role == role:
            free_slots[server.hypervisor_hostname] -= 1
        elif 'compute' not in (node.role, role):
            free_slots[server.hypervisor_hostname] -= math.ceil(
                server.flavor.vcpus / flavor.vcpus
            )
    return sum(max(0, count) for count in free_slots.values())


def _list_hosts(
    conn: Connection, flavor: NovaFlavor, zone: str
) -> set[str] | None:
    """Return the hosts that are up and fit a flavor; None if not known."""
    traits = placement.join_required_traits(flavor.extra_specs or {})
    try:
        up = worker_hosts.list_up(conn, zone).keys()
        return up & set(placement.providers(conn, traits))
    except errors.CloudError:
        return None


def _list_servers(conn: Connection) -> dict[str, Server] | None:
    """Return the servers of the project by ID; None if not known."""
    try:
        with refused('Cannot list the servers'):
            return {server.id: server for server in conn.compute.servers()}
    except errors.CloudError:
        return None


def _refuse_numbers(
    hosts: set[str] | None,
    servers: Mapping[str, Server] | None,
    members: Sequence[stack_updates.Member],
    numbers: Sequence[int],
    slots: int,
) -> None:
    """Refuse new workers whose slot has a worker on each host.

    With disk pinning, the number of a worker determines its slot. Heat does
    not give the number of a removed worker to another one.

    :param hosts: hosts that are up; None if they are not known.
    :param members: current workers.
    :param numbers: numbers of the new workers.
    :param slots: number of slots of a host.
    """
    if hosts is None or servers is None:
        return
    free_hosts = {slot: set(hosts) for slot in range(slots)}
    for member in members:
        for server_id in member.server_ids:
            if server_id in servers:
                free_hosts[int(member.name) % slots].discard(
                    servers[server_id].hypervisor_hostname
                )
    counts = Counter(number % slots for number in numbers)
    for slot, count in sorted(counts.items()):
        free = len(free_hosts[slot])
        if count > free:
            raise errors.InputError(
                f'Cannot add {format_noun(len(numbers), "worker")}: '
                f'{count} of them would be in slot {slot}, because of their '
                f'numbers, and {format_noun(free, "host")} that are up have '
                'no worker in this slot. Use more hosts, or first remove '
                'workers, so that slots of the next numbers become free.'
            )
