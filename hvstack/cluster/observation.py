# SPDX-License-Identifier: Apache-2.0
"""What Nova, Placement and Cinder report while a cluster runs."""

from dataclasses import asdict
from importlib import metadata
from typing import Any

from openstack.connection import Connection

from hvstack.cloud import allocation_ratios, placement, servers, volumes
from hvstack.cluster import local_volumes
from hvstack.cluster.node_counts import PASSED_THROUGH
from hvstack.cluster.plan import ClusterPlan


def observe_cloud(
    admin: Connection, plan: ClusterPlan, outputs: dict[str, Any]
) -> dict[str, Any]:
    """Return the facts of Nova and Placement while the cluster exists.

    All workers have one flavor, and all controllers: the first stands for
    them.
    """
    controller, workers = outputs['controller'], outputs['workers']
    other = outputs.get('resourcemanager')
    nodes = [
        *(controller, *([other] if other else [])),
        *(*workers, *(outputs.get('compute') or [])),
    ]
    ids = {node['name']: node['server_id'] for node in nodes}
    on_ceph: dict[str, Any] = {}
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
        on_ceph['volume_backends'] = volumes.backends(
            admin, [worker['server_id'] for worker in workers]
        )
    return {
        **on_ceph,
        'hvstack': metadata.version('hvstack'),
        'host_profile': plan.hosts.profiles,
        'flavor': {
            'worker': servers.flavor(admin, workers[0]['server_id']),
            'controller': servers.flavor(admin, controller['server_id']),
        },
        'inventory': placement.seen_inventories(admin, plan.hosts.providers),
        'allocations': placement.allocations(admin, ids),
        'allocation_ratio': {
            'during': allocation_ratios.merge_equal(
                allocation_ratios.current(admin, plan.hosts.providers)
            )
        },
    }


def storage(plan: ClusterPlan, observed: dict[str, Any]) -> dict[str, Any]:
    """Return how data disks are reached that are none of the guest's own.

    :param observed: of :func:`observe_cloud` and
        :func:`hvstack.cluster.local_volumes.observe`.
    """
    if PASSED_THROUGH in plan.flavors.worker.extra_specs:
        return {'storage': 'PCI pass-through'}
    protocols = {
        backend['protocol'] for backend in observed.get('volume_backends', ())
    }
    local = observed.get(local_volumes.KEY, {})
    protocol = local.get('protocol') or ', '.join(sorted(protocols))
    if not protocol:
        return {}
    if local.get('host') == local_volumes.SAME_HOST:
        return {'storage': f'same host, by {protocol}'}
    return {'storage': protocol}
