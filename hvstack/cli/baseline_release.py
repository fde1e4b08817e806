# SPDX-License-Identifier: Apache-2.0
"""``hvstack baseline``: confirmation of erased disks, release of hosts."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cliff.lister import Lister

from hvstack import conf, errors
from hvstack.cli import arguments
from hvstack.cluster import (
    acquired_hosts,
    actions,
    baseline_hosts,
    host_inventory,
    host_script,
)
from hvstack.cluster.host_inventory import Host
from hvstack.progress import Progress

#: Seconds for reading what the disks of one host contain.
_DESCRIBE_SECONDS = 120
#: Help of the option for the inventory.
HOSTS_HELP = (
    'Inventory of the hosts (default: [sweep] baseline_hosts of hvstack.conf, '
    'else the file of the lab).'
)


def choose_hosts(path: Path | None) -> Path:
    """Return the inventory to use.

    :param path: value of ``--hosts``; None without the option.
    """
    return path or Path(conf.load().sweep.baseline_hosts)


def add_wipe(parser: argparse.ArgumentParser) -> None:
    """Add the options that erase disks."""
    parser.add_argument(
        '--wipe',
        action='append',
        default=[],
        metavar='HOST:DISK',
        help='Erase this disk of the inventory, which contains data, and '
        'use it. hvstack shows what it contains and asks first; it never '
        'erases a disk that is in use. Repeatable.',
    )
    parser.add_argument(
        '--yes',
        action='store_true',
        help='Erase the disks of --wipe without asking.',
    )


def confirm_wipe(hosts: Sequence[Host], yes: bool, progress: Progress) -> None:
    """Ask the user whether to erase the disks of ``--wipe``.

    :param hosts: hosts with the disks to erase.
    :param yes: whether the user has confirmed with ``--yes``.
    :raises hvstack.errors.InputError: hvstack has no terminal for the
        question, or the user does not confirm.
    :raises hvstack.errors.CommandError: a host does not answer.
    """
    chosen = [host for host in hosts if host.wiped]
    if not chosen:
        return
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise errors.InputError(
            'Cannot ask whether to erase the disks (--wipe): standard input '
            'or standard error is not a terminal. Use --yes to erase them '
            'without a question.'
        )
    for host in chosen:
        disks = sorted(host.wiped)
        contents = host_inventory.describe(host, disks, _DESCRIBE_SECONDS)
        for disk, content in zip(disks, contents, strict=True):
            progress.say(
                f'erase {host.name}:{disk}, which contains {content}',
                is_important=True,
            )
    if yes:
        return
    print('Erase all data on these disks? [y/N] ', end='', file=sys.stderr)
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ('y', 'yes'):
        raise errors.InputError(
            'Cannot measure bare metal (--wipe): the disks are not to be '
            'erased. Confirm with y, or name other disks.'
        )


class Release(Lister):
    """Release bare-metal hosts and restore what hvstack changed on them.

    hvstack ends Hadoop, unmounts what it mounted, and restores the settings
    that it recorded on each host. Use it if the machine that measured is lost,
    since the next command on that machine does the same. It also ends a run
    that another user or machine has there.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--hosts',
            type=arguments.path,
            metavar='FILE',
            help=HOSTS_HELP,
        )
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Print every command that would run on the hosts, and '
            'run none.',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Release all hosts; return a row for each."""
        hosts = baseline_hosts.read(choose_hosts(parsed_args.hosts))
        releases = [_of_host(host.release) for host in hosts if host.release]
        if parsed_args.dry_run:
            return ('Host', 'Command'), [
                (action.name, _command(action)) for action in releases
            ]
        with acquired_hosts.open_lock() as lock:
            if not acquired_hosts.try_lock(lock):
                raise acquired_hosts.get_busy_error(lock)
            actions.SSH.mkdir(parents=True, exist_ok=True)
            # Before the marks, whose release never ends the run of another.
            acquired_hosts.release(releases)
            acquired_hosts.recover_locked()
        return ('Host', 'Result'), [
            (action.name, 'released') for action in releases
        ]


def _of_host(action: actions.Action) -> actions.Action:
    """Return an action that undoes what the host itself has recorded."""
    if isinstance(action, actions.ReleaseSSHHost):
        return replace(action, disks={}, firewall='', is_forced=True)
    return action


def _command(action: actions.Action) -> str:
    return host_script.shortened(' '.join(action.argv()[-3:]))
