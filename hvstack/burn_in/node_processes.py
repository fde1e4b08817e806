# SPDX-License-Identifier: Apache-2.0
"""Programs of one measurement on its nodes, and their end."""

import secrets
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from hvstack import errors, shell_scripts
from hvstack.burn_in import measures
from hvstack.burn_in.measures import NodeParts
from hvstack.cluster.base import Node
from hvstack.hadoop import os_profiles
from hvstack.hadoop.daemon_http import MAX_NODES_AT_ONCE
from hvstack.progress import Progress

#: Port of the server of iperf3, its default.
IPERF3_PORT = 5201
#: Maximum seconds of a short program on a node, such as the end of the others.
SHORT_SECONDS = 60


class NodeProcesses:
    """Programs on nodes, whose processes and files contain the same token.

    :param progress: receives a line if files may remain on a node.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        #: Name of the files and of the processes.
        self.token = secrets.token_hex(8)
        #: Parts of the inspected nodes by the name of the node.
        self.parts: dict[str, NodeParts] = {}

    def inspect(self, node: Node) -> NodeParts:
        """Return the disks, NUMA cells and programs of a node.

        :raises hvstack.errors.HVStackError: the node did not answer.
        :raises ValueError: the answer is not that of the program.
        """
        script = shell_scripts.render('burn-in-node', os_profiles.DATA)
        result = node.run(script, timeout=SHORT_SECONDS)
        self.parts[node.name] = measures.parse_node(result.stdout)
        return self.parts[node.name]

    def wrap(self, script: str, *args: str | int) -> str:
        """Return the command of a program whose processes have the token.

        :param script: name of the shell program.
        :param args: its arguments.
        """
        program = shell_scripts.render(script, *args)
        return shlex.join(
            ['env', f'HVSTACK_BURN_IN={self.token}', 'sh', '-c', program]
        )

    def end(self, nodes: Sequence[Node]) -> None:
        """End the programs on inspected nodes, and delete their files."""

        def end(node: Node) -> None:
            parts = self.parts.get(node.name)
            if parts is None:
                return
            script = shell_scripts.render(
                'burn-in-end', self.token, *parts.disks
            )
            try:
                node.run(script, timeout=SHORT_SECONDS)
            except errors.HVStackError as exc:
                self.progress.say(
                    f'{node.name}: the files .hvstack-burn-in-{self.token} '
                    f'may remain on its data disks ({shorten(exc)})'
                )

        with ThreadPoolExecutor(max_workers=MAX_NODES_AT_ONCE) as pool:
            list(pool.map(end, nodes))


def shorten(exc: Exception) -> str:
    """Return the message of an error in a line."""
    if isinstance(exc, errors.CommandError):
        return ' '.join(exc.tail.split())[:200] or 'no answer'
    if isinstance(exc, errors.DeadlineExceededError):
        # Its message contains the program.
        return 'the program did not end in time'
    return ' '.join(str(exc).split()).removesuffix('.')[:200]
