# SPDX-License-Identifier: Apache-2.0
"""Questions to Hadoop's daemons, asked on their own nodes.

Its web interfaces need not be reachable from elsewhere.
"""

import json
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from hvstack import errors, shell
from hvstack.hadoop.sites import UI_PORTS

#: Where each daemon answers on its own node.
PORTS = {**UI_PORTS, 'datanode': 9864, 'nodemanager': 8042}


#: Workers with one daemon alone, by their role; all others have both.
SINGLE_DAEMON_ROLES = {'data': 'datanode', 'compute': 'nodemanager'}


class Runner(Protocol):
    """What this room needs of a node."""

    @property
    def name(self) -> str:
        """Its host name."""

    @property
    def address(self) -> str:
        """The address that other nodes use."""

    @property
    def role(self) -> str:
        """``controller``, ``worker``, or one of :data:`ALONE`."""

    def run(
        self,
        command: str,
        *,
        timeout: float = 600,
        check: bool = True,
        stdin: str | None = None,
    ) -> shell.Result:
        """Run a shell command as root.

        :param command: for ``sh -c``.
        :raises hvstack.errors.CommandFailed: it failed and ``check`` is set.
        :raises hvstack.errors.DeadlineExceeded: it took too long.
        """

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        """Write a file whole, and make its folder."""


class HadoopNodes(Protocol):
    """What this room needs of a cluster."""

    @property
    def gateway(self) -> Runner:
        """The controller with the NameNode."""

    @property
    def manager(self) -> Runner:
        """The controller with ResourceManager and JobHistory.

        The gateway, unless controllers are separate.
        """

    @property
    def workers(self) -> Sequence[Runner]:
        """The workers."""


def list_controllers(cluster: HadoopNodes) -> list[Runner]:
    """Return the nodes of a cluster's controllers, the gateway first."""
    apart = cluster.manager is not cluster.gateway
    return [cluster.gateway, *([cluster.manager] if apart else [])]


def nodes_with_daemon(nodes: Sequence[Runner], daemon: str) -> list[Runner]:
    """Return those workers that have a daemon.

    :param daemon: ``datanode`` or ``nodemanager``.
    """
    return [
        node
        for node in nodes
        if SINGLE_DAEMON_ROLES.get(node.role, daemon) == daemon
    ]


def run_on_nodes(
    nodes: Sequence[Runner],
    command: str,
    *,
    timeout: float = 600,
    check: bool = True,
) -> list[shell.Result]:
    """Run one command on all nodes at the same time.

    :param timeout: seconds on each.
    :param check: one that fails is an error.
    :returns: results in the nodes' order.
    :raises hvstack.errors.HVStackError: of the first node where it failed.
    """
    with ThreadPoolExecutor(max_workers=min(32, len(nodes) or 1)) as pool:
        return list(
            pool.map(
                lambda node: node.run(command, timeout=timeout, check=check),
                nodes,
            )
        )


def get_json(node: Runner, role: str, path: str) -> dict[str, Any]:
    """Return a daemon's JSON answer.

    :param node: that the daemon runs on.
    :param role: its daemon, one of :data:`PORTS`.
    :param path: with the leading slash.
    :raises hvstack.errors.CommandFailed: no answer, or not JSON.
    """
    url = f'http://{node.address}:{PORTS[role]}{path}'
    # Configurations come as XML unless they are asked for otherwise.
    command = (
        "busybox wget -q -O - --header 'Accept: application/json' "
        f'{shlex.quote(url)}'
    )
    result = node.run(command, timeout=60)
    try:
        answer = json.loads(result.stdout)
    except ValueError as exc:
        raise errors.CommandFailed(['wget', url], 0, result.stdout) from exc
    if not isinstance(answer, dict):
        raise errors.CommandFailed(['wget', url], 0, result.stdout)
    return answer


def list_elements(value: Any) -> list[Any]:
    """Return the elements of a list in a daemon's answer.

    The JobHistory server of Hadoop 3.5 writes a list with one element as
    this element, and an empty one as null or not at all.
    """
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def get_namenode_bean(controller: Runner, bean: str) -> dict[str, Any]:
    """Return one of the NameNode's JMX beans.

    :param bean: such as ``FSNamesystemState``.
    :raises hvstack.errors.CommandFailed: there is none (yet).
    """
    path = f'/jmx?qry=Hadoop:service=NameNode,name={bean}'
    beans = get_json(controller, 'namenode', path).get('beans') or []
    if not beans:
        raise errors.CommandFailed(['jmx', bean], 0, 'no such bean')
    return dict(beans[0])
