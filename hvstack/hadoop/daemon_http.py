# SPDX-License-Identifier: Apache-2.0
"""HTTP requests to Hadoop's daemons, sent from the nodes that run them.

The web interfaces of Hadoop need not be reachable from other machines.
"""

import json
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from hvstack import errors, processutils
from hvstack.hadoop.site_files import UI_PORTS

#: Port of each daemon on its own node.
PORTS = {**UI_PORTS, 'datanode': 9864, 'nodemanager': 8042}


#: Daemon of the worker roles with a single daemon. All other workers have
#: both.
SINGLE_DAEMON_ROLES = {'data': 'datanode', 'compute': 'nodemanager'}
#: Role of the NameNode's controller of another cluster, whose HDFS a compute
#: cluster uses.
SHARED_HDFS_ROLE = 'shared-hdfs'
#: Number of nodes on which :func:`run_on_nodes` runs a command at a time.
MAX_NODES_AT_ONCE = 32


class Runner(Protocol):
    """A node on which commands can be run."""

    @property
    def name(self) -> str:
        """Host name of the node."""

    @property
    def address(self) -> str:
        """Address of the node that the other nodes use."""

    @property
    def role(self) -> str:
        """``controller``, ``worker``, or a role in SINGLE_DAEMON_ROLES.

        The gateway of a compute cluster has :data:`SHARED_HDFS_ROLE`.
        """

    def run(
        self,
        command: str,
        *,
        timeout: float = 600,
        check: bool = True,
        stdin: str | None = None,
        on_timeout: Callable[[], float] | None = None,
    ) -> processutils.Result:
        """Run a shell command as root.

        :param command: command line for ``sh -c``.
        :param timeout: maximum number of seconds.
        :param check: whether a non-zero exit status raises an error.
        :param stdin: text for the standard input; None for no input.
        :param on_timeout: see :func:`hvstack.processutils.run`.
        :raises hvstack.errors.CommandError: the command failed and ``check``
            is set.
        :raises hvstack.errors.DeadlineExceededError: the command took too
            long.
        """

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        """Write a file atomically, and create its directory."""


class HadoopNodes(Protocol):
    """The nodes of a cluster that runs Hadoop."""

    @property
    def gateway(self) -> Runner:
        """The controller that runs the NameNode.

        That of a compute cluster belongs to another cluster.
        """

    @property
    def manager(self) -> Runner:
        """The controller with the ResourceManager and the JobHistory server.

        It is the NameNode's controller unless controllers are separate.
        """

    @property
    def workers(self) -> Sequence[Runner]:
        """Nodes with a DataNode, a NodeManager or both."""


def list_controllers(cluster: HadoopNodes) -> list[Runner]:
    """Return the controllers of a cluster, the NameNode's first."""
    apart = cluster.manager is not cluster.gateway
    return [cluster.gateway, *([cluster.manager] if apart else [])]


def has_own_hdfs(cluster: HadoopNodes) -> bool:
    """Return whether the HDFS of a cluster is not that of another cluster."""
    return cluster.gateway.role != SHARED_HDFS_ROLE


def list_own_controllers(cluster: HadoopNodes) -> list[Runner]:
    """Return the controllers of a cluster that do not belong to another one.

    A compute cluster has only the controller with the ResourceManager.
    """
    if has_own_hdfs(cluster):
        return list_controllers(cluster)
    return [cluster.manager]


def nodes_with_daemon(nodes: Sequence[Runner], daemon: str) -> list[Runner]:
    """Return the workers that run a daemon.

    :param nodes: workers.
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
) -> list[processutils.Result]:
    """Run a command on all nodes, on up to 32 nodes at the same time.

    :param nodes: nodes to run the command on.
    :param command: command line for ``sh -c``.
    :param timeout: maximum number of seconds per node.
    :param check: whether a non-zero exit status raises an error.
    :returns: results in the order of the nodes.
    :raises hvstack.errors.HVStackError: the command failed; the error is that
        of the first node where it failed.
    """
    with ThreadPoolExecutor(
        max_workers=min(MAX_NODES_AT_ONCE, len(nodes) or 1)
    ) as pool:
        return list(
            pool.map(
                lambda node: node.run(command, timeout=timeout, check=check),
                nodes,
            )
        )


def get_json(
    node: Runner, role: str, path: str, timeout: float = 60
) -> dict[str, Any]:
    """Return the JSON answer of a daemon.

    :param node: node that runs the daemon.
    :param role: daemon, a key of :data:`PORTS`.
    :param path: path of the URL, with the leading slash.
    :param timeout: maximum number of seconds.
    :raises hvstack.errors.CommandError: the daemon does not answer, or not
        with a JSON object.
    """
    url = f'http://{node.address}:{PORTS[role]}{path}'
    # Without this header, the configuration is sent as XML.
    command = (
        "busybox wget -q -O - --header 'Accept: application/json' "
        f'{shlex.quote(url)}'
    )
    result = node.run(command, timeout=timeout)
    try:
        answer = json.loads(result.stdout)
    except ValueError as exc:
        raise errors.CommandError(['wget', url], 0, result.stdout) from exc
    if not isinstance(answer, dict):
        raise errors.CommandError(['wget', url], 0, result.stdout)
    return answer


def list_elements(value: Any) -> list[Any]:
    """Return the elements of a list in the answer of a daemon.

    The JobHistory server of Hadoop 3.5 writes a list with a single element as
    this element, and an empty list as null or not at all.
    """
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def get_namenode_bean(controller: Runner, bean: str) -> dict[str, Any]:
    """Return a JMX bean of the NameNode.

    :param controller: controller that runs the NameNode.
    :param bean: name of the bean, such as ``FSNamesystemState``.
    :raises hvstack.errors.CommandError: the bean does not exist (yet).
    """
    path = f'/jmx?qry=Hadoop:service=NameNode,name={bean}'
    beans = get_json(controller, 'namenode', path).get('beans') or []
    if not beans:
        raise errors.CommandError(['jmx', bean], 0, 'no such bean')
    return dict(beans[0])
