# SPDX-License-Identifier: Apache-2.0
"""Compute clusters on the HDFS of another stack.

A compute cluster is a stack with a ResourceManager, a JobHistory server and
compute workers. Security group rules let its nodes reach the HDFS of the other
stack; each rule has the ID of the stack of the compute cluster in its
description, so that the other stack shows which compute clusters it has.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import orphans, servers, stack_lookup, stacks
from hvstack.cloud.connection import refused
from hvstack.cloud.stack_outputs import StackOutputs, read_nodes
from hvstack.cluster import topology_refresh
from hvstack.cluster.plan import SharedHDFS
from hvstack.cluster.stack import StackCluster
from hvstack.cluster.topology_refresh import StackNode
from hvstack.hadoop import daemon_http, daemons
from hvstack.model.topology import (
    NodeLocation,
    Topology,
    derive_node_groups,
    find_racks,
)

#: Output of a stack with an HDFS, and output of a compute cluster.
_HDFS, _HDFS_STACK = 'hdfs', 'hdfs_stack'
_REPLICATION = re.compile(
    r'<name>dfs\.replication</name>\s*<value>(\d+)</value>'
)


@dataclass(frozen=True)
class HDFSStack:
    """Stack whose HDFS a compute cluster uses.

    :param name: name of the stack.
    :param outputs: its outputs.
    """

    name: str
    outputs: StackOutputs


def is_compute_cluster(outputs: StackOutputs) -> bool:
    """Return whether a stack uses the HDFS of another stack.

    :param outputs: outputs of the stack.
    """
    return bool(outputs.get(_HDFS_STACK))


def refuse_compute_cluster(name: str, outputs: StackOutputs) -> None:
    """Refuse a command for a compute cluster that needs an HDFS of its own.

    :param name: name of the stack.
    :param outputs: outputs of the stack.
    :raises hvstack.errors.InputError: the stack is a compute cluster.
    """
    if is_compute_cluster(outputs):
        raise errors.InputError(
            f"Cannot measure cluster '{name}': it is a compute cluster, and "
            f'its HDFS belongs to the stack {outputs[_HDFS_STACK]}. Measure '
            'that stack.'
        )


def find_hdfs_stack(conn: Connection, outputs: StackOutputs) -> HDFSStack:
    """Return the stack whose HDFS a compute cluster uses.

    :param conn: connection of the project of both stacks.
    :param outputs: outputs of the compute cluster.
    :raises hvstack.errors.CloudError: Heat does not have the stack, or it is
        not complete.
    """
    stack_id = str(outputs[_HDFS_STACK])
    with refused(f"Cannot find stack '{stack_id}'"):
        stack = stack_lookup.find(conn, stack_id)
    if stack is None:
        raise errors.CloudError(
            f"Cannot use the HDFS of stack '{stack_id}': Heat does not have "
            'this stack. Delete the compute cluster, which has no HDFS any '
            "more, with 'openstack stack delete'."
        )
    return HDFSStack(str(stack.name), stacks.outputs(conn, str(stack.id)))


def list_compute_clusters(
    conn: Connection, outputs: StackOutputs
) -> list[str]:
    """Return the names of the compute clusters that use the HDFS of a stack.

    :param conn: connection of the project of the stack.
    :param outputs: outputs of the stack.
    :raises hvstack.errors.CloudError: Neutron or Heat refused.
    """
    hdfs = outputs.get(_HDFS)
    if not isinstance(hdfs, Mapping):
        return []
    group_id = str(hdfs['security_group'])
    prefix = orphans.mark('')
    with refused(f'Cannot list the rules of security group {group_id}'):
        stack_ids = {
            str(rule.description).removeprefix(prefix)
            for rule in conn.network.security_group_rules(
                security_group_id=group_id
            )
            if str(rule.description or '').startswith(prefix)
        }
        found_stacks = [
            stack_lookup.find(conn, stack_id) for stack_id in sorted(stack_ids)
        ]
    # A rule may remain after its stack.
    return sorted(str(stack.name) for stack in found_stacks if stack)


def refuse_deletion(conn: Connection, name: str) -> None:
    """Refuse to delete a stack whose HDFS compute clusters use.

    :param conn: connection of the project of the stack.
    :param name: name of the stack, which need not exist.
    :raises hvstack.errors.InputError: a compute cluster uses its HDFS.
    :raises hvstack.errors.CloudError: Neutron or Heat refused.
    """
    with refused(f"Cannot inspect stack '{name}'"):
        stack = conn.orchestration.find_stack(name, ignore_missing=True)
    outputs = {
        item['output_key']: item.get('output_value')
        for item in (stack.outputs if stack else None) or []
    }
    names = list_compute_clusters(conn, outputs)
    if names:
        raise errors.InputError(
            f"Cannot delete cluster '{name}': the compute clusters "
            f'{", ".join(names)} use its HDFS. Delete these first, with '
            f"'openstack stack delete {' '.join(names)}'."
        )


def combine(
    conn: Connection,
    outputs: StackOutputs,
    nodes: Sequence[StackNode],
    map_file: Path | None = None,
    table: Mapping[str, str] | None = None,
) -> Topology:
    """Return the topology of all stacks with the same HDFS.

    The topology of the stack with the HDFS does not depend on the compute
    clusters: HDFS never has to move a DataNode because of them.

    :param conn: connection of the project of the stacks.
    :param outputs: outputs of a stack.
    :param nodes: its nodes (:func:`hvstack.cluster.topology_refresh.nodes`).
    :param map_file: file with the hosts and racks of the nodes of all these
        stacks; None uses the hosts in Nova.
    :param table: paths in force, whose virtual racks stay; None assigns them.
    :raises hvstack.errors.InputError: the file is wrong, or a server is on no
        host.
    :raises hvstack.errors.CloudError: Nova, Neutron or Heat refused.
    """
    base_outputs, base_nodes = outputs, nodes
    others: dict[str, StackNode] = {}
    if is_compute_cluster(outputs):
        base_outputs = find_hdfs_stack(conn, outputs).outputs
        base_nodes = topology_refresh.nodes(conn, base_outputs, map_file)
    for name in list_compute_clusters(conn, base_outputs):
        try:
            compute_outputs = stacks.outputs(conn, name)
        except errors.CloudError:
            # Its nodes are in the topology once the stack is complete.
            continue
        compute_nodes = topology_refresh.nodes(conn, compute_outputs, map_file)
        others |= {node.name: node for node in compute_nodes}
    if base_nodes is not nodes:
        others |= {node.name: node for node in nodes}
    return _extend(
        topology_refresh.of_nodes(base_nodes, table),
        base_nodes,
        [others[name] for name in sorted(others)],
        table or {},
    )


def distribute_addresses(cluster: StackCluster) -> None:
    """Write the addresses of the nodes with data to a compute cluster.

    :param cluster: cluster; nothing is written if it has its own HDFS.
    """
    if daemon_http.has_own_hdfs(cluster) or cluster.hdfs is None:
        return
    reachable, _ = topology_refresh.answering(cluster)
    daemons.distribute_addresses(reachable, cluster.hdfs.nodes)


def _extend(
    base: Topology,
    base_nodes: Sequence[StackNode],
    others: Sequence[StackNode],
    table: Mapping[str, str],
) -> Topology:
    """Return a topology with the nodes of compute clusters.

    A host without a node of the stack with the HDFS stores no data. It is in
    the rack of its map or zone, in that of the table, or in the first rack.

    :param base: topology of the stack with the HDFS.
    :param base_nodes: nodes of that stack.
    :param others: nodes of the compute clusters.
    :param table: paths in force.
    """
    racks = {location.group: location.rack for location in base.locations}
    zones = {node.zone for node in base_nodes if node.role == 'worker'}
    first_rack = min(racks.values())
    groups = derive_node_groups({node.name: node.host for node in others})
    known_racks = find_racks(
        table, {node.address: groups[node.name] for node in others}
    )
    for node in others:
        # Hadoop's paths know neither blanks nor slashes in a name.
        zone = re.sub(r'[\s/]+', '-', node.zone) if len(zones) > 1 else ''
        group = groups[node.name]
        racks.setdefault(
            group,
            node.rack or zone or known_racks.get(group, first_rack),
        )
    return Topology(
        (
            *base.locations,
            *(
                NodeLocation(
                    node.name,
                    node.address,
                    racks[groups[node.name]],
                    groups[node.name],
                )
                for node in others
            ),
        )
    )


def read(
    conn: Connection,
    name: str,
    *,
    image: str | None,
    network: str | None,
    node_groups: bool,
) -> SharedHDFS:
    """Return the values that a compute cluster needs for the HDFS of a stack.

    :param conn: connection of the project of the stack.
    :param name: name or ID of the stack.
    :param image: requested image; None uses that of the stack.
    :param network: requested network; None uses that of the stack.
    :param node_groups: whether the compute cluster is to know node groups.
    :raises hvstack.errors.InputError: the stack is a compute cluster or is
        too old, or its image, network or node groups differ from the request.
    :raises hvstack.errors.CloudError: the stack does not exist or is not
        complete, or a service refused.
    """
    outputs = stacks.outputs(conn, name)
    failure = f"Cannot use the HDFS of stack '{name}'"
    if is_compute_cluster(outputs):
        raise errors.InputError(
            f'{failure}: it is a compute cluster itself. Use --hdfs-of '
            f'{outputs[_HDFS_STACK]}, the stack whose HDFS it uses.'
        )
    hdfs = outputs.get(_HDFS)
    if not isinstance(hdfs, Mapping):
        raise errors.InputError(
            f"{failure}: its outputs lack '{_HDFS}'. Create the stack with "
            'the heat-templates of this release.'
        )
    has_groups = str(hdfs['node_groups']).lower() == 'true'
    if node_groups != has_groups:
        option = '--node-groups' if has_groups else '--no-node-groups'
        raise errors.InputError(
            f'{failure}: both clusters must have node groups, or neither. Use '
            f'{option}.'
        )
    with refused(f"Cannot inspect stack '{name}'"):
        stack = stack_lookup.get(conn, str(hdfs['stack']))
    replication = _REPLICATION.search(str(stack.parameters.get('hdfs_site')))
    configuration = outputs.get('configuration')
    per_host = (
        configuration.get('workers_per_host')
        if isinstance(configuration, Mapping)
        else None
    )
    workers = read_nodes(outputs, 'workers')
    _check_image(conn, failure, outputs, image or str(hdfs['image']))
    _check_network(conn, failure, str(hdfs['network']), network)
    return SharedHDFS(
        stack_id=str(hdfs['stack']),
        address=str(hdfs['namenode_address']),
        port=int(str(hdfs['namenode_port'])),
        security_group=str(hdfs['security_group']),
        image=image or str(hdfs['image']),
        network=str(hdfs['network']),
        replication=int(replication[1]) if replication else 3,
        worker_hosts=len(
            {worker.host_id or worker.name for worker in workers}
        ),
        deployment=3 if per_host == 1 else 4,
    )


def _check_image(
    conn: Connection, failure: str, outputs: StackOutputs, image: str
) -> None:
    """Refuse another image than that of a stack's controller.

    Images of the same name may contain different releases of Hadoop.
    """
    (controller,) = read_nodes(outputs, 'controller')
    with refused(f'Cannot inspect server {controller.name}'):
        server = conn.compute.get_server(controller.server_id)
    # A server that boots from a volume has no image.
    used_id = getattr(server.image, 'id', None)
    image_id = servers.image(conn, image).id
    if used_id and image_id != used_id:
        raise errors.InputError(
            f"{failure}: its nodes have the image {used_id}, and '{image}' is "
            f'{image_id}, which may contain another release of Hadoop. Use '
            f'--image {used_id}.'
        )


def _check_network(
    conn: Connection, failure: str, network: str, requested: str | None
) -> None:
    """Refuse another network than that of a stack."""
    if requested in (None, network):
        return
    pair = [servers.find_network(conn, key) for key in (network, requested)]
    ids = {item.id if item is not None else None for item in pair}
    if len(ids) > 1 or None in ids:
        raise errors.InputError(
            f"{failure}: its nodes are in the network '{network}', not in "
            f"'{requested}'. Omit --network."
        )
