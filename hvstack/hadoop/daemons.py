# SPDX-License-Identifier: Apache-2.0
"""Start, stop and check Hadoop's daemons on the nodes of a cluster."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from hvstack import errors, processutils, shell_scripts
from hvstack.hadoop import daemon_http, master_node
from hvstack.hadoop.daemon_http import HadoopNodes, Runner
from hvstack.hadoop.site_files import NAME_DIRECTORY, TABLE
from hvstack.model.topology import parse_table

#: Program in the guest image that controls the daemons.
NODE = '/usr/lib/hvstack/node'
#: Daemon of a worker that must register, by service.
_DAEMON_BY_SERVICE = {'HDFS': 'datanode', 'YARN': 'nodemanager'}
#: Number of unsuccessful polls after which the daemons are checked.
_POLLS_BEFORE_CHECK = 8
#: Seconds between two polls.
_INTERVAL_SECONDS = 1.5
#: Maximum number of seconds for a command on a node.
_COMMAND_SECONDS = 120


class _DeadDaemonError(Exception):
    """A daemon is dead, and will not start by itself."""


def start(nodes: Sequence[Runner], timeout: float = _COMMAND_SECONDS) -> None:
    """Start the daemons of all nodes. Daemons that run are not restarted.

    :param nodes: nodes of the cluster.
    :param timeout: maximum number of seconds for each node; a host creates
        its file systems first.
    :raises hvstack.errors.CommandError: a daemon does not start; the message
        names the node.
    """
    _run_on_nodes(nodes, f'{NODE} start', timeout, check=True)


def start_waiting_controllers(cluster: HadoopNodes) -> None:
    """Start controllers that have waited for their topology table.

    A controller that was rebooted no longer waits. A controller that is still
    booting refuses, and starts by itself.

    :param cluster: cluster whose controllers have their tables.
    """
    daemon_http.run_on_nodes(
        daemon_http.list_own_controllers(cluster),
        f'{NODE} start',
        timeout=_COMMAND_SECONDS,
        check=False,
    )


def stop(nodes: Sequence[Runner], condition: str = '') -> None:
    """Stop the daemons of all nodes. Nodes that do not answer are skipped.

    :param nodes: nodes of the cluster.
    :param condition: command line; the daemons of nodes on which it fails are
        not stopped. Empty stops those of all nodes.
    """
    command = f'{NODE} stop'
    if condition:
        command = f'{condition} && {command}'
    _run_on_nodes(nodes, command, _COMMAND_SECONDS, check=False)


def find_dead_daemons(
    nodes: Sequence[Runner], *, silent: bool = False
) -> list[str]:
    """Return the daemons that should run but do not, as "node: role".

    :param nodes: nodes to check.
    :param silent: whether a node that does not answer counts as dead. Such a
        node may also still be booting.
    """
    results = daemon_http.run_on_nodes(
        nodes, f'{NODE} status', check=False, timeout=60
    )
    dead_daemons = []
    for node, result in zip(nodes, results, strict=True):
        for line in result.stdout.split('\n'):
            role, _, state = line.partition(' ')
            if state.startswith('dead'):
                dead_daemons.append(f'{node.name}: {role}')
        if silent and result.returncode > 1:
            dead_daemons.append(f'{node.name}: every daemon')
    return dead_daemons


def find_unmet_conditions(cluster: HadoopNodes) -> list[str]:
    """Return the conditions that HDFS and YARN do not meet yet.

    :param cluster: cluster whose workers must be registered.
    :returns: short descriptions, such as "worker-1 in HDFS".
    :raises hvstack.errors.CommandError: a controller does not answer.
    """
    info = daemon_http.get_namenode_bean(cluster.gateway, 'NameNodeInfo')
    live = json.loads(info['LiveNodes']).values()
    # A DataNode reports its capacity one heartbeat after it registers. Until
    # then HDFS has no space on it.
    hdfs = {
        str(datanode.get('xferaddr', '')).split(':')[0]
        for datanode in live
        if datanode['capacity']
    }
    nodes = (
        daemon_http.get_json(
            cluster.manager, 'resourcemanager', '/ws/v1/cluster/nodes'
        ).get('nodes')
        or {}
    ).get('node') or []
    yarn = {n['nodeHostName'] for n in nodes if n.get('state') == 'RUNNING'}
    unmet_conditions = []
    manager = cluster.manager
    if not master_node.is_registered(manager, nodes) and master_node.is_used(
        manager
    ):
        # No job would start.
        unmet_conditions.append(f'{manager.name} in YARN')
    for worker in cluster.workers:
        for names, (service, daemon) in zip(
            (hdfs, yarn), _DAEMON_BY_SERVICE.items(), strict=True
        ):
            if (
                daemon_http.nodes_with_daemon([worker], daemon)
                and not {worker.name, worker.address} & names
            ):
                unmet_conditions.append(f'{worker.name} in {service}')
    if info.get('Safemode'):
        unmet_conditions.append('HDFS out of safe mode')
    daemon_http.get_json(
        cluster.manager, 'historyserver', '/ws/v1/history/info'
    )
    return unmet_conditions


def wait_ready(cluster: HadoopNodes, timeout: float = 300) -> float:
    """Wait until every worker is registered in HDFS and YARN.

    All nodes also get the topology table of the controller: an
    ApplicationMaster requests containers by the racks in this table. If the
    ResourceManager has other racks, it never assigns a local container.

    :param cluster: cluster whose workers must register.
    :param timeout: maximum number of seconds to wait.
    :returns: number of seconds waited.
    :raises hvstack.errors.DeadlineExceededError: workers are missing; the
        message names them and has the last lines of a log.
    :raises hvstack.errors.CommandError: a daemon has died.
    """
    last: list[str] = ['an answer of the controller']
    polls = 0
    dead_daemons: list[str] = []

    def ready() -> bool:
        nonlocal polls
        polls += 1
        try:
            last[:] = find_unmet_conditions(cluster)
        except errors.HVStackError as exc:
            last[:] = [str(exc)]
            # A daemon that died does not start by itself. On a slow node, a
            # daemon that has not started yet looks the same in one check.
            if polls % _POLLS_BEFORE_CHECK == 0:
                before = list(dead_daemons)
                dead_daemons[:] = find_dead_daemons(
                    daemon_http.list_controllers(cluster)
                )
                if dead_daemons and dead_daemons == before:
                    raise _DeadDaemonError(
                        _describe_dead_daemon(cluster)
                    ) from exc
        return not last

    try:
        waited = processutils.wait_for(
            ready,
            f'Hadoop on {cluster.gateway.name} to see every worker',
            timeout=timeout,
            interval=_INTERVAL_SECONDS,
            get_reason=lambda: (
                f'missing: {", ".join(last)}'
                + (
                    _describe_dead_daemon(cluster)
                    or _describe_unregistered_daemon(cluster, last)
                )
            ),
        )
    except _DeadDaemonError as exc:
        raise errors.CommandError(
            [NODE, 'start'], 1, str(exc).lstrip('; ')
        ) from exc
    distribute_addresses(cluster)
    return waited


def check_namenode(cluster: HadoopNodes) -> None:
    """Check that the NameNode that answers is that of the gateway.

    A run deletes data in HDFS, and kills jobs.

    :param cluster: cluster whose daemons are ready.
    :raises hvstack.errors.BusyError: the NameNode of another HDFS answers.
    :raises hvstack.errors.CommandError: no NameNode answers.
    """
    gateway = cluster.gateway
    info = daemon_http.get_namenode_bean(gateway, 'NameNodeInfo')
    answering_id = str(info.get('ClusterId'))
    command = f"sed -n 's/^clusterID=//p' {NAME_DIRECTORY}/current/VERSION"
    own_id = gateway.run(command, timeout=60).stdout.strip()
    if answering_id != own_id:
        raise errors.BusyError(
            f'Cannot use HDFS on {gateway.name} ({gateway.address}): another '
            f"NameNode answers there, with the cluster ID '{answering_id}' "
            f"instead of '{own_id}'. Stop the other Hadoop."
        )


def distribute_addresses(
    cluster: HadoopNodes, others: Sequence[Runner] = ()
) -> None:
    """Write the addresses of all nodes and the topology table to all nodes.

    Each address is also its own name in ``/etc/hosts``: Hadoop looks up the
    names of addresses, and without a resolver each query takes seconds.

    :param cluster: cluster whose nodes are written to.
    :param others: nodes whose addresses are written, too, such as those with
        the data of a compute cluster: an ApplicationMaster looks them up in
        the table by these names.
    """
    nodes = (*daemon_http.list_controllers(cluster), *cluster.workers)
    names = {node.name for node in nodes}
    lines = ''.join(
        f'{node.address} {node.address} {node.name}\n'
        for node in (*nodes, *(n for n in others if n.name not in names))
    )
    table = cluster.gateway.run(f'cat {TABLE}', check=False)

    def update(node: Runner) -> None:
        command = shell_scripts.render('hosts-file', node.address)
        node.run(command, stdin=lines, timeout=60)
        if table.returncode == 0 and node is not cluster.gateway:
            node.put(table.stdout, TABLE)

    with ThreadPoolExecutor(max_workers=min(32, len(nodes))) as pool:
        list(pool.map(update, nodes))


def read_topology(node: Runner) -> dict[str, str]:
    """Return the paths in the topology table of a node, if it has one."""
    result = node.run(f'cat {TABLE}', timeout=60, check=False)
    return parse_table(result.stdout)


def _describe_dead_daemon(cluster: HadoopNodes) -> str:
    """Return the dead daemons of a node, with the end of a log."""
    for node in (*daemon_http.list_controllers(cluster), *cluster.workers):
        try:
            dead_daemons = find_dead_daemons([node])
        except errors.HVStackError as exc:
            return f'; {exc}'[:400]
        if dead_daemons:
            role = dead_daemons[0].rpartition(' ')[2]
            return (
                f'; dead: {", ".join(dead_daemons)}: {_log_tail(node, role)}'
            )
    return ''


def _describe_unregistered_daemon(
    cluster: HadoopNodes, missed: Sequence[str]
) -> str:
    """Return the end of the log of a daemon that has not registered."""
    for worker in (*cluster.workers, cluster.manager):
        for service, role in _DAEMON_BY_SERVICE.items():
            if f'{worker.name} in {service}' in missed:
                return f'; {role} of {worker.name}: {_log_tail(worker, role)}'
    return ''


def _log_tail(node: Runner, role: str) -> str:
    """Return the end of the logs of a daemon as a single line."""
    logs = f'/var/log/hadoop/{role}.log /var/log/hadoop/{role}.out'
    try:
        text = node.run(f'tail -n 3 {logs}', check=False, timeout=60).stdout
    except errors.HVStackError as exc:
        text = str(exc)
    return ' '.join(text.split())[-400:]


def _run_on_nodes(
    nodes: Sequence[Runner], command: str, timeout: float, *, check: bool
) -> None:
    def run_command(node: Runner) -> None:
        try:
            node.run(command, timeout=timeout, check=check)
        except errors.HVStackError:
            if check:
                raise

    with ThreadPoolExecutor(max_workers=min(32, len(nodes) or 1)) as pool:
        list(pool.map(run_command, nodes))
