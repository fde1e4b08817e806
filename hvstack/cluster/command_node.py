# SPDX-License-Identifier: Apache-2.0
"""Nodes that a given program enters, such as hosts of a lab."""

from dataclasses import dataclass

from hvstack.cluster.base import ShellNode


@dataclass(frozen=True)
class CommandNode(ShellNode):
    """A node that a program enters.

    :param enter: the program and its first arguments; what is to be run
        follows them.
    """

    enter: tuple[str, ...] = ()

    def argv(self, command: str) -> list[str]:
        """Return the program that runs a command there."""
        return [*self.enter, 'sh', '-c', command]
