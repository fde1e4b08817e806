# SPDX-License-Identifier: Apache-2.0
"""Which of a cluster's nodes share a physical host: read, written, checked.

HDFS and YARN look a node up in ``topology.table`` of their own node, once
for each address. A DataNode that is not in it is refused and asks again, a
NodeManager comes into ``/default-rack`` until it registers again; a node that
has moved is seen by a NameNode and a ResourceManager that start again
(Hadoop 3.4: DatanodeManager, RackResolver, ScriptBasedMapping).
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from openstack.connection import Connection

from hvstack import errors, processutils, yamlfile
from hvstack.cloud import servers
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.hadoop import daemon_http, daemons, fsck, site_files
from hvstack.hadoop.daemon_http import HadoopNodes, Runner
from hvstack.model.strict_mapping import Fields
from hvstack.model.topology import (
    Mismatch,
    Topology,
    assign_racks,
    build_topology,
    derive_node_groups,
    find_mismatches,
    find_racks,
    parse_table,
)
from hvstack.nouns import format_noun
from hvstack.progress import Progress

#: Output of the nodes with a NodeManager alone.
_COMPUTE = 'compute'
#: Where YARN puts a node that it cannot look up.
_UNPLACED = '/default-rack'
#: Value of a mismatch of a node whose table is missing or empty.
NO_TABLE = 'no table'
_GROUPED = (
    '. /usr/lib/hvstack/hadoop-env; site_value core-site.xml '
    'net.topology.impl none'
)


@dataclass(frozen=True)
class StackNode:
    """A node of a stack, as its outputs and Nova have it.

    :param role: ``worker``, or the name of the output that has it.
    :param host: ``hostId``, or what a map says instead.
    :param zone: availability zone.
    :param rack: what a map says, else empty.
    :param on_volumes: whether its server has volumes.
    """

    name: str
    address: str
    role: str
    server_id: str
    host: str = ''
    zone: str = ''
    rack: str = ''
    on_volumes: bool = False


@dataclass(frozen=True)
class ReachableNodes:
    """Those nodes of a cluster that answer."""

    gateway: Runner
    manager: Runner
    workers: Sequence[Runner]


def nodes(
    conn: Connection, outputs: StackOutputs, map_file: Path | None = None
) -> list[StackNode]:
    """Return a stack's nodes with their places, the controllers first.

    :param conn: of the stack's project; no other rights are needed.
    :param outputs: of the stack: mappings, or lists of them, with ``name``,
        ``address`` and ``server_id``.
    :param map_file: file with the hosts and racks of the nodes; None uses the
        hosts in Nova.
    :raises hvstack.errors.InputError: the file is wrong, or a server is on
        no host.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    stack_nodes = sorted(set(_of_outputs(outputs)), key=lambda node: node.name)
    overrides = {} if map_file is None else _read_map(map_file, stack_nodes)
    server_locations = servers.locate_servers(conn)
    placed = []
    for node in stack_nodes:
        location = server_locations.get(
            node.server_id, servers.ServerLocation('', '', False)
        )
        override = overrides.get(node.name, {})
        placed.append(
            dataclasses.replace(
                node,
                host=override.get('host', location.host_id),
                zone=location.zone,
                rack=override.get('rack', ''),
                on_volumes=location.on_volumes,
            )
        )
    return sorted(placed, key=lambda node: node.role == 'worker')


def _of_outputs(outputs: StackOutputs) -> Iterator[StackNode]:
    for key, value in outputs.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict) and item.get('server_id'):
                role = 'worker' if key == 'workers' else key
                yield StackNode(
                    str(item['name']),
                    str(item['address']),
                    role,
                    str(item['server_id']),
                )


def _read_map(
    path: Path, nodes: Sequence[StackNode]
) -> dict[str, dict[str, str]]:
    """Return ``host`` and ``rack`` by node from a file.

    One field for each node: ``{host: NAME}``, perhaps with a ``rack``.
    """
    document = yamlfile.load(path)
    at = document.source_location()
    names = list(document.data) if isinstance(document.data, dict) else []
    data = {}
    top = Fields(document.data, at, names)
    for name in names:
        if not isinstance(top.raw(name), dict):
            raise top.error(
                str(name),
                "is not a mapping. Write one such as '{host: h7, rack: r1}'",
            )
        fields = Fields(top.raw(name), at, ('host', 'rack'), str(name))
        # Both become part of a path that Hadoop and a shell script read.
        data[name] = {'host': fields.identifier('host')}
        if fields.has('rack'):
            data[name]['rack'] = fields.identifier('rack')
    missing = [node.name for node in nodes if node.name not in data]
    if missing:
        raise errors.InputError(
            f"Cannot read the topology ({path}): node '{missing[0]}' is "
            'missing. Name every node of the cluster.'
        )
    return data


def of_nodes(
    nodes: Sequence[StackNode], table: Mapping[str, str] | None = None
) -> Topology:
    """Return the topology of nodes that have their places.

    :param table: paths in force, whose virtual racks stay; None assigns them.
    :raises hvstack.errors.InputError: a server is on no host, or one host is
        in two racks.
    """
    groups = derive_node_groups({node.name: node.host for node in nodes})
    mapped_racks = {node.name: node.rack for node in nodes if node.rack}
    # Compute workers beside data workers are no controllers: they do not
    # make theirs a group of another kind.
    non_compute_groups = {
        groups[node.name] for node in nodes if node.role != _COMPUTE
    }
    return build_topology(
        {node.name: node.address for node in nodes},
        groups,
        assign_racks(
            {
                node.name: groups[node.name]
                for node in nodes
                if mapped_racks
                or node.role != _COMPUTE
                or groups[node.name] not in non_compute_groups
            },
            [node.name for node in nodes if node.role == 'worker'],
            {node.name: node.zone for node in nodes},
            mapped_racks,
            find_racks(
                table or {},
                {node.address: groups[node.name] for node in nodes},
            ),
        ),
    )


def grouped(controller: Runner) -> bool:
    """Tell whether a cluster's Hadoop knows node groups."""
    return 'NodeGroup' in controller.run(_GROUPED, timeout=60).stdout


def hdfs_places(controller: Runner) -> dict[str, str]:
    """Return where HDFS has its live DataNodes, by address."""
    info = daemon_http.get_namenode_bean(controller, 'NameNodeInfo')
    return {
        str(datanode['xferaddr']).rpartition(':')[0]: str(datanode['location'])
        for datanode in json.loads(info['LiveNodes']).values()
    }


def yarn_places(controller: Runner) -> dict[str, str]:
    """Return where YARN has its running NodeManagers, by host name."""
    answer = daemon_http.get_json(
        controller, 'resourcemanager', '/ws/v1/cluster/nodes'
    )
    return {
        str(nodemanager['nodeHostName']): str(nodemanager['rack'])
        for nodemanager in (answer.get('nodes') or {}).get('node') or []
        if nodemanager.get('state') == 'RUNNING'
    }


def running_jobs(controller: Runner) -> int:
    """Return how many applications YARN runs, or will."""
    metrics = daemon_http.get_json(
        controller, 'resourcemanager', '/ws/v1/cluster/metrics'
    )['clusterMetrics']
    return int(metrics['appsRunning']) + int(metrics['appsPending'])


def answering(cluster: HadoopNodes) -> tuple[ReachableNodes, list[str]]:
    """Return the nodes that answer, and the names of the others.

    :raises hvstack.errors.HVStackError: a controller does not answer.
    """
    for node in daemon_http.list_controllers(cluster):
        node.run('true', timeout=60)

    def is_answering(node: Runner) -> bool:
        try:
            return node.run('true', timeout=60, check=False).returncode == 0
        except errors.DeadlineExceededError:
            return False

    with ThreadPoolExecutor(max_workers=32) as pool:
        alive = list(pool.map(is_answering, cluster.workers))
    pairs = list(zip(cluster.workers, alive, strict=True))
    return (
        ReachableNodes(
            cluster.gateway,
            cluster.manager,
            [node for node, is_alive in pairs if is_alive],
        ),
        [node.name for node, is_alive in pairs if not is_alive],
    )


def provide_topology(
    cluster: HadoopNodes, topology: Topology, timeout: float
) -> None:
    """Give a topology to controllers that wait for one to start.

    They come before the workers (``controllers_first``), and may still boot.

    :param timeout: seconds until each of them answers.
    :raises hvstack.errors.DeadlineExceededError: one did not answer.
    """
    # The node's own files may not be there yet: they are with node groups.
    table = topology.format_table(node_groups=True)
    for node in daemon_http.list_controllers(cluster):

        def answers(node: Runner = node) -> bool:
            return not node.run('true', timeout=60, check=False).returncode

        processutils.wait_for(
            answers, f'{node.name} to answer', timeout=timeout, interval=2
        )
        node.put(table, site_files.TABLE)
    daemons.start_waiting_controllers(cluster)


def refresh(
    cluster: HadoopNodes,
    topology: Topology,
    *,
    others: Sequence[Runner] = (),
    timeout: float,
    progress: Progress | None = None,
) -> list[str]:
    """Write a topology to all nodes, and make HDFS and YARN see it.

    New DataNodes come in as soon as the table has them. NodeManagers that
    came too early register again. Where a node has moved, NameNode and
    ResourceManager start again, which no job would survive.

    :param others: nodes of the cluster beside its controller and workers.
    :param timeout: seconds until HDFS and YARN have the workers.
    :returns: nodes that did not answer, hence have the old table.
    :raises hvstack.errors.BusyError: a node has moved, and jobs run.
    :raises hvstack.errors.DeadlineExceededError: a worker that answers did not
        come into HDFS and YARN, or into its place.
    """
    notify: Callable[[str], None] = (
        progress.say if progress else lambda _text: None
    )
    gateway = cluster.gateway
    reachable, away = answering(
        ReachableNodes(gateway, cluster.manager, (*cluster.workers, *others))
    )
    names = {node.name for node in cluster.workers}
    part = ReachableNodes(
        gateway,
        cluster.manager,
        [worker for worker in reachable.workers if worker.name in names],
    )
    with_groups = grouped(gateway)
    lines = topology.map_paths(node_groups=with_groups)
    table = topology.format_table(node_groups=with_groups)
    for node in daemon_http.list_controllers(cluster):
        node.put(table, site_files.TABLE)
    daemons.start_waiting_controllers(cluster)
    for node in reachable.workers:
        if node.name not in names:
            node.put(table, site_files.TABLE)
    notify(
        'topology: written, waiting for '
        f'{format_noun(len(part.workers), "worker")}'
    )
    daemons.wait_ready(part, timeout)

    def stale() -> tuple[set[str], set[str]]:
        return _find_stale(reachable, lines)

    moved, unplaced = stale()
    if moved:
        _restart_controllers(cluster, moved, notify)
    elif unplaced:
        notify(f'topology: {len(unplaced)} NodeManagers register again')
        for node in reachable.workers:
            if node.name in unplaced:
                _restart(node, 'nodemanager')
    if moved or unplaced:
        daemons.wait_ready(part, timeout)
        processutils.wait_for(
            lambda: stale() == (set(), set()),
            f'HDFS and YARN to see the places in {site_files.TABLE}',
            timeout=timeout,
            get_reason=lambda: (
                f'still elsewhere: {sorted(set().union(*stale()))}'
            ),
        )
    return away


def _find_stale(
    cluster: HadoopNodes, paths: Mapping[str, str]
) -> tuple[set[str], set[str]]:
    """Return names of nodes in a wrong place: moved ones, unplaced ones.

    :param paths: expected paths by address.
    """
    moved, unplaced = set(), set()
    for service, controller in (
        (hdfs_places, cluster.gateway),
        (yarn_places, cluster.manager),
    ):
        locations = _by_address(service(controller), cluster)
        for node in cluster.workers:
            location, path = locations[node.address], paths[node.address]
            if service is yarn_places and location == _UNPLACED != path:
                unplaced.add(node.name)
            elif location not in ('', path):
                moved.add(node.name)
    return moved, unplaced


def _restart_controllers(
    cluster: HadoopNodes, moved: set[str], notify: Callable[[str], None]
) -> None:
    """Restart NameNode and ResourceManager, which then look up all nodes.

    The NameNode of another cluster is not restarted: it stores nothing on the
    nodes of a compute cluster.

    :raises hvstack.errors.BusyError: jobs run.
    """
    names = ', '.join(sorted(moved))
    jobs = running_jobs(cluster.manager)
    if jobs:
        raise errors.BusyError(
            'Cannot restart the NameNode and the ResourceManager, which must '
            f'read the new locations of {names}: {jobs} jobs run. Refresh the '
            'topology again when the jobs have ended.'
        )
    notify(f'topology: {names} moved, the controllers restart')
    if cluster.manager is cluster.gateway:
        _restart(cluster.gateway, 'namenode', 'resourcemanager')
    else:
        if daemon_http.has_own_hdfs(cluster):
            _restart(cluster.gateway, 'namenode')
        _restart(cluster.manager, 'resourcemanager')


def _restart(node: Runner, *roles: str) -> None:
    daemon_names = ' '.join(roles)
    node.run(
        f'{daemons.NODE} stop {daemon_names}; '
        f'{daemons.NODE} start {daemon_names}',
        timeout=120,
    )


def _by_address(
    locations: Mapping[str, str], cluster: HadoopNodes
) -> dict[str, str]:
    """Return places by the nodes' addresses: a service may use names."""
    return {
        node.address: locations.get(node.address)
        or locations.get(node.name)
        or ''
        for node in cluster.workers
    }


def check(
    cluster: HadoopNodes, topology: Topology, *, tables_only: bool = False
) -> list[Mismatch]:
    """Return where what is in force is not what the topology says.

    The tables of all nodes that answer, HDFS' and YARN's own view, and the
    physical hosts of every block's replicas. A controller counts only where
    its host has workers: no block would be there otherwise.

    :param tables_only: look at nothing else, since daemons may still wait
        for them.
    :raises hvstack.errors.HVStackError: a controller does not answer.
    """
    gateway, manager = cluster.gateway, cluster.manager
    part, away = answering(cluster)
    lines = topology.map_paths(node_groups=grouped(gateway))
    workers = {node.address for node in cluster.workers}
    group = {
        location.address: location.group for location in topology.locations
    }
    # Jobs of a compute cluster read from all nodes of the other cluster.
    holding = (
        {group[address] for address in workers}
        if daemon_http.has_own_hdfs(cluster)
        else set(group.values())
    )
    expected = {
        key: lines[key]
        for location in topology.locations
        if location.group in holding
        for key in (location.address, location.node)
    }
    mismatches = [
        Mismatch('node', name, 'does not answer', 'its table') for name in away
    ]
    with_tables = (*daemon_http.list_controllers(cluster), *part.workers)
    tables = daemon_http.run_on_nodes(
        with_tables, f'cat {site_files.TABLE}', check=False, timeout=60
    )
    for node, result in zip(with_tables, tables, strict=True):
        paths_by_node = parse_table(result.stdout)
        source = f'table on {node.name}'
        mismatches += (
            find_mismatches(source, paths_by_node, expected)
            if paths_by_node
            else [Mismatch(source, 'all nodes', NO_TABLE, 'their paths')]
        )
    if tables_only:
        return mismatches
    for service, daemon, locations in (
        ('HDFS', 'datanode', hdfs_places(gateway)),
        ('YARN', 'nodemanager', yarn_places(manager)),
    ):
        observed = _by_address(locations, cluster)
        nodes = daemon_http.nodes_with_daemon(cluster.workers, daemon)
        mismatches += find_mismatches(
            service,
            {node.name: observed[node.address] or 'none' for node in nodes},
            {node.name: expected[node.address] for node in nodes},
        )
    names = {
        location.address: location.node for location in topology.locations
    }
    mismatches += [
        Mismatch(
            'block',
            f'{shared.path} {shared.block}',
            f'{" and ".join(names.get(p, p) for p in shared.addresses)} on '
            f'{shared.host}',
            'hosts of their own',
        )
        for shared in fsck.find_shared_blocks(fsck.run(gateway), group)
    ]
    return mismatches
