# SPDX-License-Identifier: Apache-2.0
"""Options of ``hvstack accept``."""

import argparse
import re
import shlex

from hvstack import errors
from hvstack.accept.host_inspection import ACCESS
from hvstack.accept.test_results import (
    SCOPES,
)
from hvstack.cli import arguments
from hvstack.cli.options import cloud_name

#: What takes a host away, and is in tempest.conf only if that was asked for.
POWER_COMMANDS = ('power_off_command', 'power_on_command')

#: Split into words as a shell does.
_HOST_COMMANDS = ('host_command', *POWER_COMMANDS)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command, other than that of the cloud."""
    _add_selection(parser)
    _add_catalogues(parser)
    _add_cluster(parser)
    _add_hosts(parser)
    _add_run(parser)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--scope',
        action='append',
        choices=SCOPES,
        help="rights that tests need: tenant a member's, operator an "
        "administrator's, host access to compute hosts; may be repeated "
        '(default: all)',
    )
    parser.add_argument(
        '--smoke', action='store_true', help='only what starts nothing'
    )
    parser.add_argument(
        '--destructive',
        action='store_true',
        help="also what cuts a host's power",
    )
    parser.add_argument(
        '--test',
        default='',
        metavar='REGEX',
        help='only tests with this in their names, such as test_pins',
    )


def _add_catalogues(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--catalogue',
        action='append',
        type=arguments.catalogue,
        metavar='FILE',
        help='Published catalogue, or the name of a catalogue of the '
        'package; may be repeated (default, for the lab only: its own).',
    )
    parser.add_argument(
        '--include-candidates',
        action='store_true',
        help='flavors without approval are promised too',
    )
    parser.add_argument(
        '--public',
        action='store_true',
        help='flavors were published for everybody',
    )


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--configuration',
        default='i1',
        metavar='NAME',
        help='of the cluster that is created (default: i1)',
    )
    parser.add_argument(
        '--stack-request',
        type=arguments.path,
        metavar='FILE',
        help="stack.json that an administrator's --dry-run wrote, for a "
        'member, who cannot see hosts',
    )
    parser.add_argument(
        '--stack',
        metavar='NAME',
        help="a cluster that is there, made by 'hvstack cluster create': "
        'it is looked at instead of a new one',
    )
    parser.add_argument(
        '--tenant-os-cloud',
        metavar='NAME',
        type=cloud_name,
        help='entry of clouds.yaml whose project has the --stack '
        '(default: the same)',
    )
    parser.add_argument(
        '--no-hadoop',
        action='store_true',
        help="the cluster's servers do not run Hadoop",
    )
    parser.add_argument(
        '--placement-only',
        action='store_true',
        help='hosts are fake: only where Nova puts the nodes of '
        '--configuration is looked at, by flavors of the catalogues; all '
        'else is not checked',
    )
    parser.add_argument(
        '--image',
        metavar='IMAGE',
        help='for servers that only have to start (default: image of '
        'hvstack.conf)',
    )


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--volume-backend',
        action='append',
        default=[],
        metavar='TYPE:NAME',
        help='a promised volume type and its volume_backend_name; may be '
        'repeated',
    )
    parser.add_argument(
        '--disk-pinning',
        action='store_true',
        help='each disk of these types was promised to one node alone',
    )
    parser.add_argument(
        '--host-access', choices=ACCESS, help='how to reach hosts'
    )
    for option, text in (
        ('--host-command', "program that enters '{host}'"),
        ('--host-ssh-key', 'private key of root on the hosts'),
        ('--libvirt-uri', 'of the hosts (default: qemu:///system)'),
        ('--power-off-command', "cuts the power of '{host}'"),
        ('--power-on-command', "powers '{host}' on"),
    ):
        parser.add_argument(option, help=text)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--accounts',
        type=arguments.path,
        metavar='FILE',
        help="Tempest's accounts.yaml (default: users are made with the "
        "administrator's rights)",
    )
    parser.add_argument(
        '--concurrency', type=arguments.count, default=1, metavar='N'
    )
    parser.add_argument(
        '--allow-unchecked',
        action='store_true',
        help='status 0 although something could not be looked at',
    )
    parser.add_argument(
        '--workspace',
        type=arguments.path,
        metavar='FOLDER',
        help='for tempest.conf, results and reports',
    )
    mode_group = parser.add_mutually_exclusive_group()
    mode_group.add_argument(
        '--dry-run',
        action='store_true',
        help='write tempest.conf and list the tests, run none',
    )
    mode_group.add_argument(
        '--last',
        action='store_true',
        help="only report the workspace's last run, such as one of "
        "'tempest run'",
    )
    mode_group.add_argument(
        '--cleanup',
        action='store_true',
        help='only delete what interrupted tests left',
    )


def check_options(parsed_args: argparse.Namespace) -> None:
    """Refuse options that stestr or the tests would stumble over.

    :raises hvstack.errors.InputError: names the option and a remedy.
    """
    if parsed_args.concurrency < 0:
        raise errors.InputError(
            f'--concurrency is {parsed_args.concurrency}: give 1 or more, or '
            '0 for as many as there are CPUs'
        )
    try:
        re.compile(parsed_args.test)
    except re.error as exc:
        raise errors.InputError(
            f"--test '{parsed_args.test}' is no regular expression ({exc}): "
            'give a part of a name, such as test_pins'
        ) from exc
    backends = [
        assignment.partition(':') for assignment in parsed_args.volume_backend
    ]
    for name, colon, backend in backends:
        if not (name and backend) or re.search('[:,]', backend):
            raise errors.InputError(
                f"--volume-backend '{name}{colon}{backend}' is not TYPE:NAME: "
                'give a volume type and its volume_backend_name, such as '
                'disk-slot-1:slot1'
            )
    names = [name for name, _, _ in backends]
    if twice := {name for name in names if names.count(name) > 1}:
        raise errors.InputError(
            f"--volume-backend names '{min(twice)}' twice: give each type once"
        )
    for name in _HOST_COMMANDS:
        try:
            shlex.split(getattr(parsed_args, name) or '')
        except ValueError as exc:
            raise errors.InputError(
                f'--{name.replace("_", "-")}: {exc}: close its quotes, as '
                'for a shell'
            ) from exc
