# SPDX-License-Identifier: Apache-2.0
"""Clusters that are only scheduled, for example on fake hosts.

Flavors, hosts and numbers come from a catalogue and from Placement. No
hypervisor has to run the servers that Nova places.
"""

from collections.abc import Sequence

from openstack.connection import Connection

from hvstack import errors
from hvstack.accept import flavor_checks
from hvstack.cloud import hypervisors, placement
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import node_counts
from hvstack.cluster.plan import (
    ClusterFlavors,
    ClusterHosts,
    ClusterPlan,
    ClusterSpec,
    NodeCounts,
    StackResources,
)
from hvstack.hadoop import os_profiles
from hvstack.hadoop.sizing import size_node
from hvstack.model.catalogue import Catalogue
from hvstack.model.cluster_size import ClusterSize, compute_cluster_size
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor
from hvstack.model.host import HostProfile

#: Roles of controllers; separate controllers have the same flavor size.
_CONTROLLERS = ('controller', 'namenode')


def plan_cluster(
    conn: Connection,
    catalogues: Sequence[tuple[Catalogue, HostProfile]],
    configuration: Configuration,
    *,
    image: str,
    network: str,
) -> tuple[ClusterPlan, ClusterSize]:
    """Plan a cluster that fills all hosts that can run its flavor.

    :param conn: connection of an administrator.
    :param catalogues: published catalogues, each with its host profile.
    :param configuration: configuration of the cluster.
    :param image: image of the servers.
    :param network: network of the servers.
    :raises hvstack.errors.InputError: no catalogue has the flavors, or there
        are too few hosts.
    :raises hvstack.errors.CloudError: no host can run the flavors, or hosts of
        several hypervisor types can.
    """
    worker, profile = _find_flavor(catalogues, configuration, ('worker',))
    controller, _ = _find_flavor(catalogues, configuration, _CONTROLLERS)
    providers = _find_hosts(conn, worker)
    size = compute_cluster_size(profile, configuration, len(providers))
    cluster_plan = ClusterPlan(
        ClusterSpec(
            configuration,
            controllers='separate' if size.controllers > 1 else 'combined',
        ),
        NodeCounts(
            size.workers,
            configuration.instances,
            replication=min(3, len(providers), size.workers),
            # Otherwise, workers would leave single slots on many hosts.
            controllers_first=size.slots_per_controller > 1,
        ),
        ClusterFlavors(worker, controller),
        size_node(
            worker.vcpus,
            worker.ram,
            controller_mib=controller.ram,
            namenode=size.controllers < 2,
        ),
        # Hosts may be fake: their servers send no host keys.
        StackResources(image, network, host_keys=False),
        node_counts.plan_disks(configuration, worker, Volumes()),
        ClusterHosts(providers, 'none'),
        node_setup=os_profiles.fragment(os_profiles.DEFAULT),
    )
    return cluster_plan, size


def _find_flavor(
    catalogues: Sequence[tuple[Catalogue, HostProfile]],
    configuration: Configuration,
    roles: Sequence[str],
) -> tuple[Flavor, HostProfile]:
    for catalogue, profile in catalogues:
        for entry in catalogue.entries:
            if (
                entry.configuration == configuration
                and entry.flavor.role in roles
            ):
                return entry.flavor, profile
    raise errors.InputError(
        f'Cannot plan the cluster: no catalogue has a {roles[0]} flavor of '
        f'{configuration.label}. Use another --catalogue or another '
        '--configuration.'
    )


def _find_hosts(conn: Connection, worker: Flavor) -> dict[str, str]:
    """Return the hosts that can run a flavor, UUIDs by name."""
    traits = placement.join_required_traits(worker.extra_specs)
    hosts_by_name = {
        hypervisor.name: hypervisor
        for hypervisor in hypervisors.hypervisors(conn)
        if hypervisor.up
    }
    providers = {
        name: uuid
        for name, uuid in sorted(placement.providers(conn, traits).items())
        if name in hosts_by_name
        and flavor_checks.can_hold(
            placement.inventories(conn, uuid)['inventories'],
            flavor_checks.required_resources(worker),
        )
    }
    kinds = sorted({hosts_by_name[name].hypervisor_type for name in providers})
    if not providers:
        raise errors.CloudError(
            f'Cannot plan the cluster: no host that is up can run '
            f"{worker.name}. Check 'openstack hypervisor list' and 'hvstack "
            "doctor'."
        )
    if len(kinds) > 1:
        raise errors.CloudError(
            f'Cannot plan the cluster: hosts of several hypervisor types '
            f'({", ".join(kinds)}) can run {worker.name}. Use a flavor with '
            'CPUs or a trait of a single type.'
        )
    return providers
