# SPDX-License-Identifier: Apache-2.0
"""Local volumes of a cluster: required before, checked after boot.

They are pinned disks of the host, or have their first copy in Ceph there.
"""

from openstack.connection import Connection

from hvstack.cloud import hypervisors, volume_locality
from hvstack.cloud.stack_outputs import StackOutputs, require_nodes
from hvstack.cluster.plan import ClusterPlan
from hvstack.results.typed_json import JsonObject

#: Key of the observation, and its values.
KEY = 'local_volumes'
SAME_HOST, NOT_CHECKED = 'same host', 'not checked'


def check_hosts(admin: Connection, plan: ClusterPlan) -> None:
    """Reject hosts that cannot have the local volumes of a plan.

    :param admin: connection of an administrator.
    :raises hvstack.errors.InputError: a host has too few backends.
    :raises hvstack.errors.CloudError: a service refused.
    """
    if not plan.disks.local:
        return
    names = [
        hypervisor.host
        for hypervisor in hypervisors.hypervisors(admin)
        if hypervisor.name in plan.hosts.providers
    ]
    # Pinned disks have a volume type each.
    volume_types = {name for slot in plan.disks.types for name in slot}
    volume_locality.check_backends(admin, names, len(volume_types))


def observe(
    admin: Connection, plan: ClusterPlan, outputs: StackOutputs
) -> JsonObject:
    """Return whether volumes are on the hosts of their workers, and how.

    :param admin: connection of an administrator.
    :param outputs: outputs of the stack.
    :returns: observation with ``host``, and ``protocol`` if it is visible;
        empty without local volumes.
    :raises hvstack.errors.CloudError: a volume is on another host.
    """
    if not plan.disks.local:
        return {}
    workers = {
        worker.name: worker.server_id
        for worker in require_nodes(outputs, 'workers')
    }
    is_visible = volume_locality.check_volumes(
        admin, workers, len(plan.disks.types[0])
    )
    # All workers have volumes of one driver: the first stands for them.
    protocol = volume_locality.find_protocol(
        admin, next(iter(workers.values()))
    )
    return {
        KEY: {
            'host': SAME_HOST if is_visible else NOT_CHECKED,
            **({'protocol': protocol} if protocol else {}),
        }
    }
