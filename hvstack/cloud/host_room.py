# SPDX-License-Identifier: Apache-2.0
"""Room that hosts have for the nodes of a cluster, beside other servers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from openstack.connection import Connection

from hvstack.cloud import host_checks, placement
from hvstack.cloud.diagnosis import CloudNeeds, Diagnosis, build_finding
from hvstack.cloud.placement import HostInventories
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor, count_classes
from hvstack.model.host_share import to_fraction

#: Hosts that take new servers. Nova gives the trait to all others.
ENABLED = '!COMPUTE_STATUS_DISABLED'


@dataclass(frozen=True)
class HostRoom:
    """Room of a host for servers of one flavor.

    :param servers: number of servers that fit.
    :param shortage: what is missing for one more; empty if enough of them fit.
    """

    servers: int
    shortage: str = ''


def room(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    """Check that the nodes of each role fit on the hosts, beside others.

    The roles are checked one by one: hosts for both can have room for each of
    them, and not for both.
    """
    for number, (flavor, count) in enumerate(request.nodes):
        # Workers fill a host together; a host can have all other nodes.
        max_servers = request.configuration.instances if number == 0 else count
        traits = placement.join_required_traits(flavor.extra_specs)
        hosts = host_checks.list_zone_hosts(
            conn, f'{traits},{ENABLED}' if traits else ENABLED, request.zone
        )
        if not hosts:
            # The checks of traits and of services name the reason.
            continue
        uses = placement.list_other_consumers(conn, hosts, ())
        rooms = {
            name: count_servers(
                flavor,
                request.configuration,
                placement.inventories(conn, uuid)['inventories'],
                uses.get(name, {}),
                max_servers,
            )
            for name, uuid in sorted(hosts.items())
        }
        total = sum(host.servers for host in rooms.values())
        shortages = '; '.join(
            f'{name}: {host.servers} fit, {host.shortage}'
            for name, host in rooms.items()
            if host.shortage
        )
        remedy = (
            "delete or move servers ('openstack server list --all-projects "
            f"--host {min(hosts)}'), add hosts, or plan fewer workers with "
            '--workers'
        )
        if 'DISK_GB' in shortages:
            remedy = (
                'put instances_path on a file system that spans all data '
                "disks of the host profile ('hvstack host nova-conf "
                f"{request.profile.name}'), or {remedy}"
            )
        yield build_finding(
            f'room for {flavor.role}s',
            total >= count,
            f'{min(total, count)} of {count}'
            + (f' ({shortages})' if total < count and shortages else ''),
            remedy,
        )


def count_servers(
    flavor: Flavor,
    configuration: Configuration,
    inventories: HostInventories,
    use: Mapping[str, float],
    max_servers: int,
) -> HostRoom:
    """Return how many servers fit on a host.

    A class that the host has no inventory of is not counted: hosts can share
    storage, and :mod:`hvstack.cloud.host_checks` checks CPUs and memory.

    :param configuration: configuration whose over-subscription ratios a sweep
        sets before it creates the servers.
    :param inventories: inventory of the host by resource class.
    :param use: resources that servers use there, by class.
    :param max_servers: number of servers that are needed on the host at most.
    :returns: number of servers, and the class of which the host has least.
    """
    ratios = {
        'VCPU': configuration.cpu_ratio,
        'MEMORY_MB': configuration.ram_ratio,
    }
    smallest = HostRoom(max_servers)
    for name, amount in count_classes([(flavor, 1)]).items():
        if name not in inventories:
            continue
        inventory = inventories[name]
        ratio = to_fraction(ratios.get(name, inventory['allocation_ratio']))
        capacity = int(inventory['total'] - inventory['reserved']) * ratio
        free = int(capacity - int(use.get(name, 0)))
        if amount > inventory.get('max_unit', amount):
            free = 0
        servers = max(0, free // amount)
        if servers < smallest.servers:
            smallest = HostRoom(
                servers, f'{name} {free} free, {amount} for each'
            )
    return smallest
