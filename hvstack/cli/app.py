# SPDX-License-Identifier: Apache-2.0
"""The ``hvstack`` command: cliff, with errors made for people."""

import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from cliff.app import App
from cliff.command import Command

from hvstack import errors
from hvstack.cli import commands

LOG = logging.getLogger(__name__)


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
        )

    def configure_logging(self) -> None:
        """Keep libraries quiet: their debug lines hold tokens."""
        super().configure_logging()
        for name in self.QUIET:
            logging.getLogger(name).setLevel(logging.WARNING)

    def run_subcommand(self, argv: list[str]) -> int:
        """Run one command; an error of ours is one line and a status."""
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

    def clean_up(
        self, cmd: Command, result: int, err: BaseException | None
    ) -> None:
        """Keep the error, which cliff prints, for its exit status."""
        self.failure = err


def handle_signals() -> None:
    """Clean up after SIGTERM and SIGHUP as after Ctrl-C.

    A SIGHUP that is ignored stays ignored: ``nohup hvstack sweep run``
    continues without its terminal.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.default_int_handler)


def main(argv: Sequence[str] | None = None) -> int:
    """Run hvstack and return its exit status."""
    handle_signals()
    words: list[Any] = list(sys.argv[1:] if argv is None else argv)
    return int(HVStack().run(words))
