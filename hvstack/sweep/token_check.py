# SPDX-License-Identifier: Apache-2.0
"""Whether a token outlasts the creation of the largest cluster of a sweep.

The plan of a cluster checks the same before its stack is created, which may be
hours after the start of the sweep.
"""

from collections.abc import Iterable

from openstack.connection import Connection

from hvstack import errors, host_profiles
from hvstack.cloud import credentials, hypervisors, placement
from hvstack.cluster import baseline_hosts, node_counts
from hvstack.cluster.plan import ClusterSpec
from hvstack.conf import CloudOptions
from hvstack.model.configuration import Configuration
from hvstack.model.flavor_specs import join_worker_traits
from hvstack.model.host import HostProfile
from hvstack.model.target import Target
from hvstack.sweep.node_setup import NodeSetup


def check_token(
    admin: Connection,
    tenant: Connection,
    targets: Iterable[tuple[Target, NodeSetup]],
    options: CloudOptions,
    host: str,
    backend: str | None,
) -> None:
    """Refuse a token that expires before the largest cluster may be ready.

    Other credentials get new tokens, and the cloud is not queried for them.

    :param admin: connection of an administrator.
    :param tenant: connection of the project of the stacks.
    :param targets: configurations and bare metal, with the settings of their
        nodes. The number of nodes follows from the hosts that are up.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :param host: name of the host profile of the workers.
    :param backend: compute backend of the workers; None uses that of the
        hosts.
    :raises hvstack.errors.InputError: the token expires earlier, or the host
        profile does not exist.
    :raises hvstack.errors.CloudError: a service does not answer, or the hosts
        have several backends.
    """
    if not credentials.is_token(tenant):
        return
    profile = host_profiles.load(host)
    hosts_up = [item for item in hypervisors.hypervisors(admin) if item.up]
    hosts_by_traits: dict[str, list[hypervisors.Hypervisor]] = {}
    node_count, hosts = 0, hosts_up
    for target, setup in targets:
        if not isinstance(target, Configuration):
            continue
        traits = join_worker_traits(profile, target)
        if traits not in hosts_by_traits:
            names = placement.providers(admin, traits)
            hosts_by_traits[traits] = [
                item for item in hosts_up if item.name in names
            ]
        worker_hosts = hosts_by_traits[traits]
        count = _count_nodes(target, setup, profile, len(worker_hosts))
        if count > node_count:
            node_count, hosts = count, worker_hosts
    if node_count:
        credentials.check(
            tenant,
            options,
            nodes=node_count,
            backend=hypervisors.backend(
                hosts, backend or baseline_hosts.lab_backend(profile)
            ),
        )


def _count_nodes(
    configuration: Configuration,
    setup: NodeSetup,
    profile: HostProfile,
    host_count: int,
) -> int:
    """Return the number of nodes of a cluster; 0 if it is not possible."""
    spec = ClusterSpec(
        configuration,
        deployment=setup.deployment,
        controllers=setup.controllers or ClusterSpec.controllers,
        node_groups=setup.node_groups is not False,
    )
    try:
        nodes = node_counts.count_nodes_on_hosts(spec, profile, host_count)
    except errors.InputError:
        return 0
    return (
        nodes.workers
        + nodes.compute_workers
        + nodes.gateway
        + spec.controller_count
    )
