# SPDX-License-Identifier: Apache-2.0
"""Room that hosts have for the nodes of a cluster, beside other servers."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class FreeResource:
    """What a host has of a resource class, beside its servers.

    :param free: amount that is free, with the allocation ratio.
    :param max_unit: largest amount that one server can have; none for any.
    """

    free: int
    max_unit: int | None = None


#: Free resources of a host by resource class.
FreeResources = Mapping[str, FreeResource]


def room(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    """Check that the nodes of each role fit on the hosts, beside others.

    If they do, all roles are checked together: hosts can have room for the
    nodes of each role, and not for those of both.
    """
    free: dict[str, FreeResources] = {}
    names_by_role: list[set[str]] = []
    enough = True
    for number, (flavor, count) in enumerate(request.nodes):
        # Workers share a host; each controller is on a host of its own.
        max_servers = request.configuration.instances if number == 0 else 1
        traits = placement.join_required_traits(flavor.extra_specs)
        hosts = host_checks.list_zone_hosts(
            conn, f'{traits},{ENABLED}' if traits else ENABLED, request.zone
        )
        names_by_role.append(set(hosts))
        if not hosts:
            # The checks of traits and of services name the reason.
            enough = False
            continue
        free |= _query_free(
            conn,
            request.configuration,
            {name: uuid for name, uuid in hosts.items() if name not in free},
        )
        rooms = {
            name: count_servers(flavor, free[name], max_servers)
            for name in sorted(hosts)
        }
        total = sum(host.servers for host in rooms.values())
        shortages = '; '.join(
            f'{name}: {host.servers} fit, {host.shortage}'
            for name, host in rooms.items()
            if host.shortage
        )
        remedy = _explain_remedy(min(hosts))
        if 'DISK_GB' in shortages:
            remedy = (
                'put instances_path on a file system that spans all data '
                "disks of the host profile ('hvstack host nova-conf "
                f"{request.profile.name}'), or {remedy}"
            )
        enough = enough and total >= count
        yield build_finding(
            f'room for {flavor.role}s',
            total >= count,
            f'{min(total, count)} of {count}'
            + (f' ({shortages})' if total < count and shortages else ''),
            remedy,
        )
    if enough and len(request.nodes) == 2:
        yield _check_together(request, free, names_by_role)


def _query_free(
    conn: Connection, configuration: Configuration, hosts: Mapping[str, str]
) -> dict[str, FreeResources]:
    """Return the free resources of hosts by the name of the host."""
    uses = placement.list_other_consumers(conn, hosts, ())
    return {
        name: compute_free(
            configuration,
            placement.inventories(conn, uuid)['inventories'],
            uses.get(name, {}),
        )
        for name, uuid in sorted(hosts.items())
    }


def _explain_remedy(host: str) -> str:
    """Return the remedy if nodes have no room."""
    return (
        "delete or move servers ('openstack server list --all-projects "
        f"--host {host}'), add hosts, or plan fewer workers with --workers"
    )


def _check_together(
    request: CloudNeeds,
    free: Mapping[str, FreeResources],
    names_by_role: Sequence[Collection[str]],
) -> Diagnosis:
    """Check that the workers and the other nodes fit together."""
    (worker, workers), (other, others) = request.nodes
    worker_names, other_names = names_by_role
    fit = count_workers_beside(
        (worker, request.configuration.instances),
        (other, others),
        [
            (free[name], name in worker_names, name in other_names)
            for name in sorted(free)
        ],
    )
    return build_finding(
        'room for all nodes',
        fit >= workers,
        f'{min(fit, workers)} of {workers} {worker.role}s beside {others} '
        + (other.role if others == 1 else f'{other.role}s'),
        _explain_remedy(min(free)),
    )


def count_workers_beside(
    worker: tuple[Flavor, int],
    other: tuple[Flavor, int],
    hosts: Sequence[tuple[FreeResources, bool, bool]],
) -> int:
    """Return how many workers fit if the other nodes are placed best.

    :param worker: flavor of the workers, and their maximum number on a host.
    :param other: flavor of the other nodes, each on a host of its own, and
        their number, which fits.
    :param hosts: free resources of each host, and whether it takes workers,
        and other nodes.
    :returns: maximum number of workers.
    """
    flavor, per_host = worker
    other_flavor, others = other
    # Maximum of workers by the number of other nodes that are placed so far.
    max_workers = {0: 0}
    for free, takes_workers, takes_others in hosts:
        fit = (
            count_servers(other_flavor, free, 1).servers if takes_others else 0
        )
        fit_beside = [
            count_servers(
                flavor, _subtract(free, other_flavor, number), per_host
            ).servers
            if takes_workers
            else 0
            for number in range(fit + 1)
        ]
        after: dict[int, int] = {}
        for placed, workers in max_workers.items():
            for number, more in enumerate(fit_beside):
                total = min(others, placed + number)
                after[total] = max(after.get(total, 0), workers + more)
        max_workers = after
    return max_workers[others]


def _subtract(
    free: FreeResources, flavor: Flavor, number: int
) -> FreeResources:
    """Return the free resources of a host less those of servers."""
    amounts = count_classes([(flavor, number)])
    return {
        name: replace(resource, free=resource.free - amounts.get(name, 0))
        for name, resource in free.items()
    }


def compute_free(
    configuration: Configuration,
    inventories: HostInventories,
    use: Mapping[str, float],
) -> FreeResources:
    """Return the resources of a host less those of its servers.

    :param configuration: configuration whose over-subscription ratios a sweep
        sets before it creates the servers.
    :param inventories: inventory of the host by resource class.
    :param use: resources that servers use there, by class.
    """
    ratios = {
        'VCPU': configuration.cpu_ratio,
        'MEMORY_MB': configuration.ram_ratio,
    }
    free = {}
    for name, inventory in inventories.items():
        ratio = to_fraction(ratios.get(name, inventory['allocation_ratio']))
        capacity = int(inventory['total'] - inventory['reserved']) * ratio
        free[name] = FreeResource(
            int(capacity - int(use.get(name, 0))),
            int(inventory['max_unit']) if 'max_unit' in inventory else None,
        )
    return free


def count_servers(
    flavor: Flavor, free: FreeResources, max_servers: int
) -> HostRoom:
    """Return how many servers fit on a host.

    A class that the host has no inventory of is not counted: hosts can share
    storage, and :mod:`hvstack.cloud.host_checks` checks CPUs and memory.

    :param free: free resources of the host by class.
    :param max_servers: number of servers that are needed on the host at most.
    :returns: number of servers, and the class of which the host has least.
    """
    smallest = HostRoom(max_servers)
    for name, amount in count_classes([(flavor, 1)]).items():
        if name not in free:
            continue
        resource = free[name]
        amount_free = resource.free
        if resource.max_unit is not None and amount > resource.max_unit:
            amount_free = 0
        servers = max(0, amount_free // amount)
        if servers < smallest.servers:
            smallest = HostRoom(
                servers, f'{name} {amount_free} free, {amount} for each'
            )
    return smallest
