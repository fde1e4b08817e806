# SPDX-License-Identifier: Apache-2.0
"""``hvstack task``: the Rally tasks of the package."""

import argparse
import re
import textwrap
from pathlib import Path

from cliff.command import Command
from cliff.lister import Lister
from cliff.show import ShowOne

from hvstack import errors, share

#: The comment at the start of each task, without the license's line.
_HEADER = re.compile(r'{#-[^\n]*\n(.*?)-#}', re.DOTALL)


def _find(name: str) -> Path:
    """Return the path of a task.

    :param name: with or without ``.yaml``.
    :raises hvstack.errors.InputError: no task has this name.
    """
    path = share.RALLY_TASKS / f'{name.removesuffix(".yaml")}.yaml'
    if path.parent != share.RALLY_TASKS or not path.is_file():
        raise errors.InputError(
            f"Cannot find the task '{name}' ({share.RALLY_TASKS}): the "
            "package has no such file. Use a name of 'hvstack task list'."
        )
    return path


def _describe(path: Path) -> tuple[str, str]:
    """Return the description of a task, and its usage with its arguments."""
    header = _HEADER.match(path.read_text(encoding='utf-8'))
    text = textwrap.dedent(header[1]).strip() if header else ''
    description, _, usage = text.partition('\n\n')
    return ' '.join(description.split()), usage


class List(Lister):
    """List the Rally tasks of the package."""

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, str], list[tuple[str, str]]]:
        """Return a row for each task."""
        paths = sorted(share.RALLY_TASKS.glob('*.yaml'))
        rows = [(path.stem, _describe(path)[0]) for path in paths]
        return ('Name', 'Description'), rows


class PathOf(Command):
    """Print the path of a Rally task, for 'rally task start PATH'."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'name',
            metavar='TASK',
            nargs='?',
            help="Name of the task, see 'hvstack task list' (default: the "
            'directory of all tasks).',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print the path."""
        name = parsed_args.name
        path = _find(name) if name else share.RALLY_TASKS
        self.app.stdout.write(f'{path}\n')


class Show(ShowOne):
    """Show the description, the arguments and the path of a Rally task."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'name',
            metavar='TASK',
            help="Name of the task, see 'hvstack task list'.",
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the fields of the task."""
        path = _find(parsed_args.name)
        columns = ('name', 'description', 'usage', 'path')
        return columns, (path.stem, *_describe(path), str(path))
