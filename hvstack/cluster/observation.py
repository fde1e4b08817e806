# SPDX-License-Identifier: Apache-2.0
"""What Nova, Placement and Cinder report while a cluster runs."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from importlib import metadata

from openstack.connection import Connection

from hvstack.cloud import (
    allocation_ratios,
    connection,
    placement,
    qos,
    servers,
    volumes,
)
from hvstack.cloud.stack_outputs import (
    StackOutputs,
    read_nodes,
    require_nodes,
)
from hvstack.cluster import local_volumes
from hvstack.cluster.base import Fact
from hvstack.cluster.node_counts import PASSED_THROUGH
from hvstack.cluster.plan import ClusterPlan
from hvstack.results import cloud_identity
from hvstack.results.typed_json import Json, JsonObject


def observe_cloud(
    admin: Connection, plan: ClusterPlan, outputs: StackOutputs
) -> JsonObject:
    """Return the facts of Nova and Placement while the cluster exists.

    All workers have one flavor, and all controllers: the first stands for
    them.
    """
    controllers = require_nodes(outputs, 'controller')
    workers = require_nodes(outputs, 'workers')
    nodes = [
        *(*controllers, *read_nodes(outputs, 'resourcemanager')),
        *(*workers, *read_nodes(outputs, 'compute')),
    ]
    ids = {node.name: node.server_id for node in nodes}
    on_ceph: JsonObject = {}
    if volume_type := plan.disks.volume_type:
        on_ceph['volumes'] = {
            'of_a_worker': len(plan.disks.types[0]),
            **asdict(volume_type),
        }
        if volume_type.pools:
            on_ceph['ceph_pools'] = volume_type.pools
    configuration = plan.spec.configuration
    if PASSED_THROUGH not in plan.flavors.worker.extra_specs and (
        configuration.storage == 'ceph' or configuration.disk_pinning
    ):
        on_ceph['volume_backends'] = [
            asdict(backend)
            for backend in volumes.backends(
                admin, [worker.server_id for worker in workers]
            )
        ]
    limits: list[Json] = [
        *qos.list_port_limits(admin, workers[0].server_id),
        *qos.list_volume_limits(
            admin, {name for slot in plan.disks.types for name in slot}
        ),
    ]
    others = _list_other_servers(admin, plan.hosts.providers, ids.values())
    return {
        **on_ceph,
        **({'other_servers': others} if others else {}),
        **({'qos': limits} if limits else {}),
        'cloud': asdict(
            cloud_identity.parse_cloud(connection.format_cloud(admin))
        ),
        'hvstack': metadata.version('hvstack'),
        'host_profile': plan.hosts.profiles,
        'flavor': {
            'worker': asdict(servers.flavor(admin, workers[0].server_id)),
            'controller': asdict(
                servers.flavor(admin, controllers[0].server_id)
            ),
        },
        'inventory': placement.seen_inventories(admin, plan.hosts.providers),
        'allocations': placement.allocations(admin, ids),
        'allocation_ratio': {
            'during': allocation_ratios.merge_equal(
                allocation_ratios.current(admin, plan.hosts.providers)
            )
        },
    }


def _list_other_servers(
    admin: Connection, providers: Mapping[str, str], own_ids: Collection[str]
) -> JsonObject:
    """Return the use of the hosts by servers that are not of the cluster.

    :param providers: UUID of the resource provider by name of the host.
    """
    return {
        name: dict[str, Json](use)
        for name, use in placement.list_other_consumers(
            admin, providers, own_ids
        ).items()
    }


def storage(plan: ClusterPlan, observed: JsonObject) -> dict[str, Fact]:
    """Return how data disks are reached that are none of the guest's own.

    :param observed: of :func:`observe_cloud` and
        :func:`hvstack.cluster.local_volumes.observe`.
    """
    if PASSED_THROUGH in plan.flavors.worker.extra_specs:
        return {'storage': 'PCI pass-through'}
    backends = observed.get('volume_backends')
    protocols = {
        str(backend['protocol'])
        for backend in (backends if isinstance(backends, list) else ())
        if isinstance(backend, dict)
    }
    local = observed.get(local_volumes.KEY)
    fields: JsonObject = local if isinstance(local, dict) else {}
    protocol = fields.get('protocol') or ', '.join(sorted(protocols))
    if not protocol:
        return {}
    if fields.get('host') == local_volumes.SAME_HOST:
        return {'storage': f'same host, by {protocol}'}
    return {'storage': str(protocol)}


def list_moved(conn: Connection, outputs: StackOutputs) -> list[str]:
    """Return the nodes that are on other hosts than their outputs say.

    A server moves when it is migrated, evacuated or resized.

    :param conn: connection of the project of the stack.
    :param outputs: outputs of the stack, read when the cluster was complete.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    locations = servers.locate_servers(conn)
    unknown = servers.ServerLocation('', '', False)
    return sorted(
        node.name
        for name in ('controller', 'resourcemanager', 'workers', 'compute')
        for node in read_nodes(outputs, name)
        if node.host_id
        and locations.get(node.server_id, unknown).host_id
        not in ('', node.host_id)
    )
