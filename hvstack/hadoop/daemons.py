# SPDX-License-Identifier: Apache-2.0
"""Control of Hadoop's daemons on a cluster's nodes."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from hvstack import errors, shell
from hvstack.hadoop import rest
from hvstack.hadoop.rest import HadoopNodes, Runner
from hvstack.hadoop.sites import TABLE

#: The guest image's program for its daemons.
NODE = '/usr/lib/hvstack/node'
#: Puts the lines of its input first, since the first name of an address is
#: what it resolves to; in place, since /etc/hosts of a container may be a
#: mount.
_HOSTS = """
lines=$(cat)
own="$ADDRESS $ADDRESS $(hostname)"
rest=$(grep -vxF -e "$lines" -e "$own" /etc/hosts)
printf '%s\\n' "$lines" "$rest" >/etc/hosts
getent hosts "$(hostname)" >/dev/null || echo "$own" >>/etc/hosts
"""
#: Where a worker's daemons must be seen.
_DAEMON_BY_SERVICE = {'HDFS': 'datanode', 'YARN': 'nodemanager'}
#: So many polls in vain, and the daemons themselves are looked at.
_POLLS_BEFORE_CHECK = 8
#: Seconds between two polls.
_INTERVAL_SECONDS = 1.5


class _DeadDaemonError(Exception):
    """A daemon that waiting does not bring back."""


def start(nodes: Sequence[Runner]) -> None:
    """Start every node's daemons; harmless where they run.

    :raises hvstack.errors.CommandFailed: names the node.
    """
    _run_on_nodes(nodes, f'{NODE} start', check=True)


def stop(nodes: Sequence[Runner]) -> None:
    """End every node's daemons; a node that is gone is passed over."""
    _run_on_nodes(nodes, f'{NODE} stop', check=False)


def find_dead_daemons(
    nodes: Sequence[Runner], *, silent: bool = False
) -> list[str]:
    """Return daemons that should run and do not, as "node: role".

    :param silent: a node that does not answer counts too; it may as well
        still be on its way.
    """
    results = rest.run_on_nodes(
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
    """Return what HDFS and YARN do not have yet, a word or two each.

    :raises hvstack.errors.CommandFailed: a controller does not answer.
    """
    info = rest.get_namenode_bean(cluster.gateway, 'NameNodeInfo')
    live = json.loads(info['LiveNodes']).values()
    # One that has just registered tells its capacity a heartbeat later: until
    # then HDFS would have no room.
    hdfs = {
        str(datanode.get('xferaddr', '')).split(':')[0]
        for datanode in live
        if datanode['capacity']
    }
    nodes = (
        rest.get_json(
            cluster.manager, 'resourcemanager', '/ws/v1/cluster/nodes'
        ).get('nodes')
        or {}
    ).get('node') or []
    yarn = {n['nodeHostName'] for n in nodes if n.get('state') == 'RUNNING'}
    unmet_conditions = []
    for worker in cluster.workers:
        for names, (service, daemon) in zip(
            (hdfs, yarn), _DAEMON_BY_SERVICE.items(), strict=True
        ):
            if (
                rest.nodes_with_daemon([worker], daemon)
                and not {worker.name, worker.address} & names
            ):
                unmet_conditions.append(f'{worker.name} in {service}')
    if info.get('Safemode'):
        unmet_conditions.append('HDFS out of safe mode')
    rest.get_json(cluster.manager, 'historyserver', '/ws/v1/history/info')
    return unmet_conditions


def wait_ready(cluster: HadoopNodes, timeout: float = 300) -> float:
    """Wait until HDFS and YARN see every worker.

    All nodes also get the controller's table of nodes: an ApplicationMaster
    asks for containers by the racks that it finds there, and one that knows
    other racks than the ResourceManager never gets a local container.

    :returns: seconds waited.
    :raises hvstack.errors.DeadlineExceeded: names the workers that are
        missing, with the last lines of one's log.
    :raises hvstack.errors.CommandFailed: a daemon has died.
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
            # A controller that died will not be there later either. On a
            # slow node one that was not started yet polls the same, once.
            if polls % _POLLS_BEFORE_CHECK == 0:
                before = list(dead_daemons)
                dead_daemons[:] = find_dead_daemons(
                    rest.list_controllers(cluster)
                )
                if dead_daemons and dead_daemons == before:
                    raise _DeadDaemonError(
                        _describe_dead_daemon(cluster)
                    ) from exc
        return not last

    try:
        waited = shell.wait_for(
            ready,
            f'Hadoop on {cluster.gateway.name} to see every worker',
            timeout=timeout,
            interval=_INTERVAL_SECONDS,
            why=lambda: (
                f'missing: {", ".join(last)}'
                + (
                    _describe_dead_daemon(cluster)
                    or _describe_unregistered_daemon(cluster, last)
                )
            ),
        )
    except _DeadDaemonError as exc:
        raise errors.CommandFailed(
            [NODE, 'start'], 1, str(exc).lstrip('; ')
        ) from exc
    distribute_addresses(cluster)
    return waited


def distribute_addresses(cluster: HadoopNodes) -> None:
    """Tell all nodes the others' addresses and the controller's table.

    An address stands for itself in ``/etc/hosts``: Hadoop polls up names of
    addresses, and where no resolver answers each look-up waits for seconds.
    """
    nodes = (*rest.list_controllers(cluster), *cluster.workers)
    lines = ''.join(
        f'{node.address} {node.address} {node.name}\n' for node in nodes
    )
    table = cluster.gateway.run(f'cat {TABLE}', check=False)

    def update(node: Runner) -> None:
        node.run(f'ADDRESS={node.address}\n{_HOSTS}', stdin=lines, timeout=60)
        if table.returncode == 0 and node is not cluster.gateway:
            node.put(table.stdout, TABLE)

    with ThreadPoolExecutor(max_workers=min(32, len(nodes))) as pool:
        list(pool.map(update, nodes))


def _describe_dead_daemon(cluster: HadoopNodes) -> str:
    """Return dead daemons with their last words."""
    for node in (*rest.list_controllers(cluster), *cluster.workers):
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
    """Return the last words of the first daemon that runs, but unseen."""
    for worker in cluster.workers:
        for service, role in _DAEMON_BY_SERVICE.items():
            if f'{worker.name} in {service}' in missed:
                return f'; {role} of {worker.name}: {_log_tail(worker, role)}'
    return ''


def _log_tail(node: Runner, role: str) -> str:
    """Return the end of a daemon's logs, on one line."""
    logs = f'/var/log/hadoop/{role}.log /var/log/hadoop/{role}.out'
    try:
        text = node.run(f'tail -n 3 {logs}', check=False, timeout=60).stdout
    except errors.HVStackError as exc:
        text = str(exc)
    return ' '.join(text.split())[-400:]


def _run_on_nodes(
    nodes: Sequence[Runner], command: str, *, check: bool
) -> None:
    def run_command(node: Runner) -> None:
        try:
            node.run(command, timeout=120, check=check)
        except errors.HVStackError:
            if check:
                raise

    with ThreadPoolExecutor(max_workers=min(32, len(nodes) or 1)) as pool:
        list(pool.map(run_command, nodes))
