# SPDX-License-Identifier: Apache-2.0
"""List of the commands that ``hvstack --help`` prints.

Cliff's own list imports every command and reads the files of all installed
distributions.
"""

import argparse
from collections.abc import Iterator
from importlib import metadata

import autopage.argparse
from cliff import help as cliff_help
from cliff.app import App
from cliff.commandmanager import EntryPointWrapper

from hvstack import extras
from hvstack.cli import command_summaries


class HelpCommand(cliff_help.HelpCommand):
    """Print the list of the commands, or the help of a command."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.cmd:
            return int(super().take_action(parsed_args))
        print_help(self.app)
        return 0


def print_help(app: App) -> None:
    """Print the options of hvstack and a line about each command.

    :param app: application with its parser and its commands.
    """
    pager = autopage.argparse.help_pager(app.stdout)
    is_colored = pager.to_terminal()
    autopage.argparse.use_color_for_parser(app.parser, is_colored)
    underline, cyan, reset = (
        ('\033[4m', '\033[36m', '\033[0m') if is_colored else ('', '', '')
    )
    with pager as stream:
        app.parser.print_help(stream)
        stream.write(f'\n{underline}Commands{reset}:\n')
        for name, summary in list_summaries(app):
            stream.write(f'  {cyan}{name:<13}{reset}  {summary}\n')


def list_summaries(app: App) -> Iterator[tuple[str, str]]:
    """Yield the name of each command and a line about it, sorted by name.

    :param app: application with the commands.
    """
    for name, entry_point in sorted(app.command_manager):
        # A command of another distribution may replace one of hvstack.
        is_own = entry_point.value.startswith(('hvstack.', 'cliff.'))
        if is_own and name in command_summaries.SUMMARIES:
            summary = command_summaries.SUMMARIES[name].rstrip('.')
            yield name, summary + _format_missing_extras(name)
        elif summary := _import_summary(app, entry_point):
            yield name, summary


def _format_missing_extras(name: str) -> str:
    """Return which extras of a command are not installed; empty if all are.

    :param name: command of hvstack.
    """
    names = [
        extra
        for extra in command_summaries.EXTRAS.get(name, ())
        if extras.missing(extra)
    ]
    return f' (requires hvstack[{",".join(names)}])' if names else ''


def _import_summary(
    app: App, entry_point: EntryPointWrapper | metadata.EntryPoint
) -> str:
    """Return the line of a command of another distribution.

    :param app: application with the commands.
    :param entry_point: entry point of the command.
    :returns: first line of its description with the name of its distribution;
        empty if the command is deprecated.
    """
    # A command that fails must not hide those of hvstack.
    try:
        command = entry_point.load()(app, None)
        if command.deprecated:
            return ''
        summary: str = command.get_description().split('\n')[0].rstrip('.')
    except Exception as exc:
        return f'Cannot describe {entry_point.value}: {exc}'
    distribution = getattr(entry_point, 'distribution', '')
    if distribution in ('', 'hvstack'):
        return summary
    return f'{summary} ({distribution})'
