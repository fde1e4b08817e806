# SPDX-License-Identifier: Apache-2.0
"""All checks of the first run that need the small cluster."""

from hvstack.accept import first_run_pins
from hvstack.accept.first_run import GUEST_ITEMS, FirstRun
from hvstack.cloud import servers
from hvstack.cloud.stack_outputs import StackOutputs, read_nodes
from hvstack.cluster.base import Cluster

_OUTPUTS = ('controller', 'resourcemanager', 'gateway', 'workers', 'compute')
#: Items that the guests report without Nova's help.
_OWN_ITEMS = ('guest-thp', 'guest-clocksource', 'guest-sort')
_NEED = 'Use the credentials of an administrator of the cloud.'


def check_cluster(
    first_run: FirstRun, cluster: Cluster, outputs: StackOutputs
) -> None:
    """Check the guests of a cluster, and their hosts while they run.

    :param first_run: receives the checks.
    :param cluster: the cluster.
    :param outputs: outputs of its stack.
    """
    ids = {
        node.server_id: node.name
        for name in _OUTPUTS
        for node in read_nodes(outputs, name)
        if node.server_id
    }
    workers = [node.name for node in read_nodes(outputs, 'workers')]
    cluster_servers = []
    needing_servers = [item for item in GUEST_ITEMS if item not in _OWN_ITEMS]
    with first_run.reading(needing_servers, 'servers of the cluster', _NEED):
        cluster_servers = first_run.read_servers(list(ids))
    guests = first_run.read_guests(cluster_servers)
    first_run.check_domains(guests)
    first_run_pins.check_pins(first_run, guests)
    first_run.check_used_pages(
        sorted({server.host for server in cluster_servers})
    )
    first_run_pins.check_volumes(first_run, cluster_servers, workers)
    distributions = first_run.check_nodes(cluster.nodes, guests)
    image_items = (
        *('image-rng', 'image-disk-bus', 'image-multiqueue'),
        'image-os-distro',
    )
    with first_run.reading(image_items, 'image of the cluster', _NEED):
        image = servers.image(first_run.admin, first_run.plan.stack.image)
        first_run.check_images(str(image.id), cluster_servers, distributions)
    first_run.check_sort(cluster)
