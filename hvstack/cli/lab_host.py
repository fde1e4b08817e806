# SPDX-License-Identifier: Apache-2.0
"""``hvstack lab host``: the lab's hosts one by one."""

import argparse
import os
import sys

from cliff.command import Command
from cliff.lister import Lister

from hvstack import errors, extras
from hvstack.cli import arguments
from hvstack.cli.tables import Table
from hvstack.lab import hosts, lock, requirements, settings
from hvstack.lab.hosts import bare_metal, host
from hvstack.lab.settings import LabSettings
from hvstack.progress import Progress


class _OnHost(Command):
    """Base class of the commands for one lab host."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the host's name."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'name', metavar='NAME', help='Name of the host, such as hv-host2.'
        )
        return parser


class List(Lister):
    """List the lab hosts with their compute backends and caps."""

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Look at them; change nothing."""
        requirements.check_root()
        statuses = hosts.status(settings.load() or LabSettings())
        rows = [
            (status.name, status.state, status.memory_mib, status.summary)
            for status in statuses
        ]
        return ('Name', 'State', 'Agents MiB', 'Detail'), rows


class Off(_OnHost):
    """Turn off a host: all its processes end at once, without a shutdown."""

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Cut it."""
        requirements.check_root()
        lab_host = hosts.find(parsed_args.name)
        with lock.exclusive():
            host.power_off(lab_host.name)


class On(_OnHost):
    """Turn on a host and wait until Nova reports it as up."""

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Start it; its servers come back with it."""
        requirements.check_root()
        lab_host = hosts.find(parsed_args.name)
        with lock.exclusive():
            hosts.power_on(lab_host, Progress())


class Shell(_OnHost):
    """Open a shell on a host, under its cap."""

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Become the shell."""
        requirements.check_root()
        _become(parsed_args.name, ['/bin/bash'])


class Exec(_OnHost):
    """Run a program on a host: hvstack lab host exec NAME -- PROGRAM ..."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the program."""
        parser = super().get_parser(prog_name)
        # Any -- in the arguments of the program remains.
        parser.add_argument(
            'argv', nargs=argparse.REMAINDER, metavar='PROGRAM'
        )
        return parser

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Become the program."""
        requirements.check_root()
        argv = parsed_args.argv
        if argv[:1] == ['--']:
            argv = argv[1:]
        if not argv:
            raise errors.InputError(
                f'Cannot run a program on {parsed_args.name}: none is named. '
                'Use hvstack lab host exec NAME -- PROGRAM ...'
            )
        _become(parsed_args.name, argv)


def _become(name: str, argv: list[str]) -> None:
    lab_host = hosts.find(name)
    if host.pid(lab_host.name) is None:
        raise errors.MissingPrerequisiteError(
            f"Cannot run a program on {name}: the host is off. Run 'hvstack "
            f"lab host on {name}'."
        )
    program = str(host.directory(lab_host.name) / 'enter')
    sys.stdout.flush()
    os.execv(program, [program, *argv])  # noqa: S606


class Prepare(_OnHost):
    """Remove Nova from a host and boot the guest file system as bare metal."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the image."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--image',
            type=arguments.path,
            help='Image with an ext4 file system (default: that of the '
            'Hadoop image).',
        )
        return parser

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Prepare it."""
        requirements.check_root()
        bare_metal.prepare(parsed_args.name, parsed_args.image)


class Release(_OnHost):
    """Return a bare-metal host to Nova."""

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Release it."""
        requirements.check_root()
        bare_metal.release(parsed_args.name)
