# SPDX-License-Identifier: Apache-2.0
"""The ``hvstack`` command: cliff, with errors made for people."""

import argparse
import contextlib
import gc
import logging
import os
import re
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any, TextIO, cast

from cliff.app import App
from cliff.command import Command
from cliff.help import HelpExit

from hvstack import errors, interrupts, progress
from hvstack.cli import command_list, commands, options
from hvstack.cli.streams import PrintableStream

#: New objects after which the garbage collector runs.
_NEW_OBJECTS = 1_000_000
#: Exit status of a command whose output is not read, as of a shell command
#: that SIGPIPE ended.
_BROKEN_PIPE = 141


class HVStack(App):
    """Flavors, stacks and a percent of bare metal for virtualized Hadoop."""

    NAME = 'hvstack'
    #: Third-party loggers that would print requests, and with them tokens,
    #: or each command that there is.
    QUIET = (
        *('keystoneauth', 'urllib3', 'stevedore', 'openstack', 'heatclient'),
        'cliff.commandmanager',
    )

    def __init__(self) -> None:
        super().__init__(
            description=self.__doc__,
            version=metadata.version('hvstack'),
            command_manager=commands.Commands('hvstack.cli'),
            deferred_help=True,
            stdout=cast(TextIO, PrintableStream(sys.stdout)),
            stderr=cast(TextIO, PrintableStream(sys.stderr)),
        )
        self.command_manager.add_command('help', command_list.HelpCommand)

    def run(self, argv: list[str]) -> int:
        """Run with all output through streams that escape."""
        with (
            contextlib.redirect_stdout(self.stdout),
            contextlib.redirect_stderr(self.stderr),
        ):
            return int(super().run(argv))

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """Add the options that stand before the command."""
        parser: argparse.ArgumentParser = super().build_option_parser(
            description, version, argparse_kwargs
        )
        options.add_cloud(parser)
        return parser

    def configure_logging(self) -> None:
        """Keep libraries quiet: their debug lines hold tokens.

        Stages of commands go to the log file alone: the console has them
        already.
        """
        super().configure_logging()
        progress.Progress.is_quiet = self.options.verbose_level == 0
        for handler in logging.getLogger().handlers:
            if not isinstance(handler, logging.FileHandler):
                handler.addFilter(_is_not_progress)
        for name in self.QUIET:
            logging.getLogger(name).setLevel(logging.WARNING)
        logging.getLogger('openstack.config').addFilter(_is_not_catalog)
        logging.getLogger('keystoneauth.identity.generic.base').addFilter(
            _is_not_discovery
        )

    def print_help_if_requested(self) -> None:
        """Print the list of the commands and exit, if --help is alone."""
        if self.options.deferred_help:
            command_list.print_help(self)
            raise HelpExit

    def run_subcommand(self, argv: list[str]) -> int:
        """Run one command; an error of hvstack is one line and a status."""
        self.failure: BaseException | None = None
        try:
            status = int(super().run_subcommand(argv) or 0)
        except KeyboardInterrupt:
            # After a hangup the terminal takes no more lines.
            with contextlib.suppress(OSError):
                print('hvstack: interrupted', file=sys.stderr)
            return 130
        if isinstance(self.failure, errors.HVStackError):
            return self.failure.exit_code
        return status

    def prepare_to_run_command(self, cmd: Command) -> None:
        """Check the environment, apply --os-cloud, and name files in errors.

        :raises hvstack.errors.InputError: a variable is not a number.
        """
        for name in ('CLIFF_FIT_WIDTH', 'CLIFF_MAX_TERM_WIDTH'):
            value = os.environ.get(name, '0')
            if not re.fullmatch('[0-9]{1,6}', value):
                raise errors.InputError(
                    f"Cannot read environment variable {name}: '{value[:60]}' "
                    'is not a whole number. Set a number or unset it.'
                )
        if type(cmd).__module__.startswith('hvstack.') and not [*cmd._hooks]:
            # It would name the distribution of a plugin, for which cliff
            # reads the files of all distributions.
            cmd.get_epilog = lambda: ''  # type: ignore[method-assign]
        get_parser, run = cmd.get_parser, cmd.run

        def get_parser_with_cloud(prog_name: str) -> argparse.ArgumentParser:
            parser: argparse.ArgumentParser = get_parser(prog_name)
            # --os-cloud before the command acts as if it were after it. A
            # command without the option ignores it, as with 'openstack'.
            parser.set_defaults(os_cloud=self.options.os_cloud)
            return parser

        def run_with_names(parsed_args: argparse.Namespace) -> int:
            try:
                return int(run(parsed_args) or 0)
            except OSError as exc:
                if not isinstance(exc.filename, str):
                    raise
                raise errors.MissingPrerequisiteError(
                    f"Cannot use '{exc.filename[:200]}': {exc.strerror}. Use "
                    'another file or directory.'
                ) from exc

        cmd.get_parser = get_parser_with_cloud  # type: ignore[method-assign]
        cmd.run = run_with_names  # type: ignore[method-assign]

    def clean_up(
        self, cmd: Command, result: int, err: BaseException | None
    ) -> None:
        """Keep the error, which cliff prints, for its exit status."""
        self.failure = err


def _is_not_catalog(record: logging.LogRecord) -> bool:
    """Return whether a line is not about a service that a cloud does not have.

    openstacksdk warns when hvstack asks whether the cloud has the service.
    """
    return not str(record.msg).startswith('Keystone catalog entry not found')


def _is_not_discovery(record: logging.LogRecord) -> bool:
    """Return whether a line is not about the versions of Keystone.

    keystoneauth warns before it raises the error, which hvstack reports.
    """
    return not str(record.msg).startswith('Failed to discover available')


def _is_not_progress(record: logging.LogRecord) -> bool:
    return record.name != progress.__name__


def main(argv: Sequence[str] | None = None) -> int:
    """Run hvstack and return its exit status."""
    # Neither modules nor run records are garbage. With Python's default of
    # 700 new objects, the collector inspects them again and again.
    gc.set_threshold(_NEW_OBJECTS)
    interrupts.handle_signals()
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        status = int(HVStack().run(args))
    except SystemExit as exc:
        # argparse has printed the help or an error.
        raise SystemExit(_flush_output(int(exc.code or 0))) from None
    return _flush_output(status)


def _flush_output(status: int) -> int:
    """Write the remaining standard output.

    Python does so when it exits, but prints a warning where it cannot.

    :param status: exit status of the command.
    :returns: exit status, which is another one if the output was not written.
    """
    # cliff closes it if the pager has ended, and Python has none after '>&-'.
    if sys.stdout is None or sys.stdout.closed:
        return status
    try:
        sys.stdout.flush()
    except OSError as exc:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        if isinstance(exc, BrokenPipeError):
            return _BROKEN_PIPE
        print(
            f'Cannot write standard output: {exc.strerror}. Use another file.',
            file=sys.stderr,
        )
        return status or 1
    return status
