# SPDX-License-Identifier: Apache-2.0
"""Lookup of the commands; a command that cannot be imported says why.

Cliff's own lookup imports every command when hvstack starts, and drops those
that it cannot import.
"""

import argparse
from importlib import metadata
from typing import cast

from cliff.command import Command
from cliff.commandmanager import CommandManager, EntryPointWrapper

from hvstack import errors, extras


class CommandEntryPoint:
    """An entry point of a command that always loads.

    :param entry_point: the entry point in the installed distribution.
    """

    def __init__(self, entry_point: metadata.EntryPoint) -> None:
        self.name = entry_point.name
        self.value = entry_point.value
        self._entry_point = entry_point

    @property
    def distribution(self) -> str:
        """Name of the distribution; empty if it is not installed."""
        distribution = self._entry_point.dist
        return distribution.name if distribution else ''

    def load(self) -> type[Command]:
        """Return the command's class, or a command that raises the reason."""
        try:
            command: type[Command] = self._entry_point.load()
        except Exception as exc:
            return _unavailable(self.value, exc)
        return command


def _unavailable(value: str, cause: Exception) -> type[Command]:
    """Return a command that explains why another one cannot be imported.

    :param value: module and class of the command.
    :param cause: exception that its import raised.
    """
    module = getattr(cause, 'name', None)
    missing = isinstance(cause, ModuleNotFoundError) and module is not None
    extra = extras.extra_of(str(module)) if missing else None
    reason = f'{type(cause).__name__}: {cause}'
    if extra:
        remedy = f"Run pip install 'hvstack[{extra}]'."
    else:
        remedy = 'Reinstall hvstack and its dependencies.'
    message = f'Cannot import {value.partition(":")[0]}: {reason}. {remedy}'

    class Unavailable(Command):
        def get_description(self) -> str:
            return message

        def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
            # Whatever the command line says, --help included, the reason
            # is the answer.
            parser = argparse.ArgumentParser(
                prog=prog_name, prefix_chars='\0', add_help=False
            )
            parser.add_argument('arguments', nargs='*')
            return parser

        def take_action(self, parsed_args: argparse.Namespace) -> None:
            raise errors.MissingPrerequisiteError(message) from cause

    return Unavailable


class Commands(CommandManager):
    """Commands by name, each imported when it is needed."""

    def load_commands(self, namespace: str) -> None:
        """Add the commands of an entry point group without importing them.

        :param namespace: name of the group.
        """
        self.group_list.append(namespace)
        for entry_point in metadata.entry_points(group=namespace):
            name = entry_point.name.replace('_', ' ')
            self.commands[name] = cast(
                EntryPointWrapper, CommandEntryPoint(entry_point)
            )
