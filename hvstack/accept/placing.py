# SPDX-License-Identifier: Apache-2.0
"""A cluster that is only placed: on hosts without guests, for instance.

Flavors, hosts and numbers come from a catalogue and from Placement; no
hypervisor has to run what Nova puts there.
"""

from collections.abc import Sequence
from typing import Any

from openstack.connection import Connection

from hvstack import errors
from hvstack.accept import judge, settings
from hvstack.cloud import hosts, placement
from hvstack.cluster.launch import Plan
from hvstack.hadoop.sizing import size_node
from hvstack.model.catalogue import Catalogue
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor
from hvstack.model.host import HostProfile
from hvstack.model.slots import ClusterSize, compute_cluster_size

#: Where a host's controllers are told from each other, they have one shape.
_CONTROLLERS = ('controller', 'namenode')


def plan_cluster(
    conn: Connection,
    catalogues: Sequence[tuple[Catalogue, HostProfile]],
    configuration: Configuration,
) -> tuple[Plan, ClusterSize]:
    """Plan a cluster that fills all hosts that its flavor can land on.

    :param conn: an administrator's.
    :param catalogues: published ones, each with the profile of its hosts.
    :raises hvstack.errors.InputError: no such flavors, or too few hosts.
    :raises hvstack.errors.CloudError: no host takes them, or hosts of
        several kinds do.
    """
    worker, profile = _find_flavor(catalogues, configuration, ('worker',))
    controller, _ = _find_flavor(catalogues, configuration, _CONTROLLERS)
    providers = _find_hosts(conn, worker)
    size = compute_cluster_size(profile, configuration, len(providers))
    cluster_plan = Plan(
        configuration=configuration,
        worker=worker,
        controller=controller,
        providers=providers,
        workers=size.workers,
        replication=min(3, len(providers), size.workers),
        backend='none',
        sizing=size_node(worker.vcpus, worker.ram),
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
        f'no catalogue has a {roles[0]} of {configuration.label}: give one '
        'that has with --catalogue, or another --configuration'
    )


def _find_hosts(conn: Connection, worker: Flavor) -> dict[str, str]:
    """Return the hosts that a flavor can land on: UUID by name."""
    traits = ','.join(
        name.removeprefix('trait:')
        for name in sorted(worker.extra_specs)
        if name.startswith('trait:')
    )
    hosts_by_name = {
        hypervisor.name: hypervisor
        for hypervisor in hosts.hypervisors(conn)
        if hypervisor.up
    }
    providers = {
        name: uuid
        for name, uuid in sorted(placement.providers(conn, traits).items())
        if name in hosts_by_name
        and judge.can_hold(
            placement.inventories(conn, uuid)['inventories'],
            judge.required_resources(worker),
        )
    }
    kinds = sorted({hosts_by_name[name].kind for name in providers})
    if not providers:
        raise errors.CloudError(
            f"no host that is up takes {worker.name}: see 'openstack "
            "hypervisor list' and 'hvstack doctor'"
        )
    if len(kinds) > 1:
        raise errors.CloudError(
            f'{worker.name} can land on hosts of several kinds '
            f'({", ".join(kinds)}): take a flavor that only one of them has '
            'CPUs or a trait for'
        )
    return providers


def build_request(
    conn: Connection,
    cluster_plan: Plan,
    size: ClusterSize,
    *,
    image: str,
    network: str,
) -> dict[str, Any]:
    """Return the body of Heat's request for such a cluster.

    :raises hvstack.errors.CloudError: a template cannot be read.
    """
    body = settings.build_stack_request(
        cluster_plan,
        conn,
        image=image,
        network=network,
        controllers='separate' if size.controllers > 1 else 'combined',
        # Hosts may be fake: their servers send nothing.
        host_keys=False,
    )
    if size.slots_per_controller > 1:
        # Workers would leave single slots on many hosts.
        body['parameters']['controllers_first'] = True
    return body
