# SPDX-License-Identifier: Apache-2.0
"""Containers of bare metal and of the configurations of a sweep."""

from collections.abc import Iterable, Iterator, Sequence

from hvstack import errors
from hvstack.cluster import host_inventory, node_counts
from hvstack.cluster.bare_metal import Host
from hvstack.cluster.plan import ClusterSpec, NodeCounts
from hvstack.hadoop.sizing import NodeSizing, size_node
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import derive_flavor
from hvstack.model.host import HostProfile
from hvstack.tpcxhs import task_counts
from hvstack.tpcxhs.task_counts import PlatformSlots


def count_hosts(profile: HostProfile, bare_hosts: Sequence[Host]) -> int:
    """Return the number of hosts on which Nova places workers.

    :param profile: host profile of the workers.
    :param bare_hosts: hosts of bare metal, including its controller.
    """
    if not profile.traits.get('worker'):
        return len(bare_hosts)
    return sum(host.role == 'worker' for host in bare_hosts)


def count_bare_metal(bare_hosts: Iterable[Host], tuning: str) -> PlatformSlots:
    """Return the containers of bare metal.

    :param bare_hosts: hosts of bare metal; those of workers count.
    :param tuning: tuning profile.
    """
    hosts = list(bare_hosts)
    sizing = size_node(
        *host_inventory.find_worker_size(hosts), tuning=tuning, native=True
    )
    workers = sum(host.role == 'worker' for host in hosts)
    return task_counts.count_slots(sizing, workers)


def list_configurations(
    profile: HostProfile,
    configurations: Iterable[Configuration],
    host_count: int,
    tuning: str,
) -> list[PlatformSlots]:
    """Return the containers of each configuration that can exist.

    :param profile: host profile of the workers.
    :param configurations: configurations of a sweep.
    :param host_count: number of hosts on which Nova places workers.
    :param tuning: tuning profile.
    """
    return [
        task_counts.count_slots(sizing, nodes.workers)
        for nodes, sizing in _plan_nodes(
            profile, configurations, host_count, tuning
        )
    ]


def find_replication(
    profile: HostProfile,
    configurations: Iterable[Configuration],
    host_count: int,
    tuning: str,
) -> int | None:
    """Return the replication that each configuration that can exist can have.

    :param profile: host profile of the workers.
    :param configurations: configurations of a sweep.
    :param host_count: number of hosts on which Nova places workers.
    :param tuning: tuning profile.
    :returns: smallest default of a configuration; None if none can exist.
    """
    plans = _plan_nodes(profile, configurations, host_count, tuning)
    return min((nodes.replication for nodes, _ in plans), default=None)


def _plan_nodes(
    profile: HostProfile,
    configurations: Iterable[Configuration],
    host_count: int,
    tuning: str,
) -> Iterator[tuple[NodeCounts, NodeSizing]]:
    """Yield the nodes of each configuration that can exist."""
    for configuration in configurations:
        try:
            flavor = derive_flavor(profile, configuration, 'worker')
            sizing = size_node(flavor.vcpus, flavor.ram, tuning=tuning)
            nodes = node_counts.count_nodes_on_hosts(
                ClusterSpec(configuration, tuning=tuning), profile, host_count
            )
        except errors.InputError:
            # The sweep skips this configuration with the reason.
            continue
        yield nodes, sizing
