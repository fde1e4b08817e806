# SPDX-License-Identifier: Apache-2.0
"""Nodes that note the commands of a dry run."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from hvstack import processutils
from hvstack.cluster import host_inventory
from hvstack.cluster.base import Node, ShellNode
from hvstack.cluster.command_node import CommandNode


@dataclass(frozen=True)
class CommandRecorder(ShellNode):
    """A node that notes commands instead of running them.

    :param node: the node that they are for.
    :param rows: where they are noted: host, reason and command.
    """

    node: Node
    rows: list[tuple[str, str, str]]

    def argv(self, command: str) -> list[str]:
        """Return the command line on the host."""
        if isinstance(self.node, host_inventory.Reach):
            return [*self.node.inside, 'sh', '-c', command]
        if isinstance(self.node, CommandNode):
            return self.node.argv(command)
        return ['sh', '-c', command]

    def run(
        self,
        command: str,
        *,
        timeout: float = 600,
        check: bool = True,
        stdin: str | None = None,
        on_timeout: Callable[[], float] | None = None,
    ) -> processutils.Result:
        """Note a command; it returns as if it had failed in silence."""
        reason = 'Start, configure and stop Hadoop'
        self.rows.append((self.name, reason, shlex.join(self.argv(command))))
        return processutils.Result(1, '', '')
