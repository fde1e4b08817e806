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


#: Configuration of the cluster of the tests, and of that of --first-run. The
#: latter has dedicated CPUs, and a host has several guests of it.
DEFAULT_CONFIGURATION = 'i1'
FIRST_RUN_CONFIGURATION = 'i2-dedicated'

#: Options that select or change tests, which --first-run does not run.
_TEST_OPTIONS = (
    *('scope', 'smoke', 'destructive', 'test', 'catalogue', 'stack'),
    *('include_candidates', 'public', 'stack_request', 'no_hadoop'),
    *('placement_only', 'image', 'volume_backend', 'disk_pinning'),
    *('accounts', 'last', 'cleanup', 'power_off_command'),
    'power_on_command',
)


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
        help='Scope of the tests to run: tenant needs the rights of a '
        'member, operator those of an administrator, host needs '
        'access to the compute hosts. Can be repeated (default: '
        'all).',
    )
    parser.add_argument(
        '--smoke',
        action='store_true',
        help='Run only tests that start no server.',
    )
    parser.add_argument(
        '--destructive',
        action='store_true',
        help='Also run tests that turn off the power of a host.',
    )
    parser.add_argument(
        '--test',
        default='',
        metavar='REGEX',
        help='Run only tests whose name matches this regular '
        'expression, such as test_pins.',
    )


def _add_catalogues(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--catalogue',
        action='append',
        type=arguments.catalogue,
        metavar='FILE',
        help='Published catalogue, or the name of a catalogue of the '
        'package. Can be repeated (default, for the lab only: the '
        'catalogue of the lab).',
    )
    parser.add_argument(
        '--include-candidates',
        action='store_true',
        help='Expect flavors without approval as well.',
    )
    parser.add_argument(
        '--public',
        action='store_true',
        help='Expect flavors that are public.',
    )


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--configuration',
        metavar='NAME',
        help='Configuration of the cluster that is created (default: '
        f'{DEFAULT_CONFIGURATION}, or {FIRST_RUN_CONFIGURATION} with '
        '--first-run).',
    )
    parser.add_argument(
        '--stack-request',
        type=arguments.path,
        metavar='FILE',
        help='File stack.json that --dry-run of an administrator wrote, '
        'for a member, who cannot list hosts.',
    )
    parser.add_argument(
        '--stack',
        metavar='NAME',
        help="Existing cluster that 'hvstack cluster create' created. "
        'The tests check it instead of a new one.',
    )
    parser.add_argument(
        '--tenant-os-cloud',
        metavar='NAME',
        type=cloud_name,
        help='Name of the cloud in clouds.yaml whose project contains '
        'the --stack (default: that of --os-cloud).',
    )
    parser.add_argument(
        '--no-hadoop',
        action='store_true',
        help='Skip the tests of Hadoop, because the servers of the '
        'cluster do not run it.',
    )
    parser.add_argument(
        '--placement-only',
        action='store_true',
        help='Check only on which fake hosts Nova places the nodes of '
        '--configuration, by the flavors of the catalogues. '
        'Everything else is not checked.',
    )
    parser.add_argument(
        '--image',
        metavar='IMAGE',
        help='Image for servers that only have to start (default: image '
        'of hvstack.conf).',
    )


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--volume-backend',
        action='append',
        default=[],
        metavar='TYPE:NAME',
        help='Expected volume type with its volume_backend_name. Can be '
        'repeated.',
    )
    parser.add_argument(
        '--disk-pinning',
        action='store_true',
        help='Expect that each disk of these volume types belongs to '
        'one node only.',
    )
    parser.add_argument(
        '--host-access', choices=ACCESS, help='Access to the hosts.'
    )
    for option, text, argument_type in (
        ('--host-command', "program that enters '{host}'", str),
        (
            '--host-ssh-key',
            'private key of root on the hosts',
            arguments.path,
        ),
        (
            '--host-ssh-config',
            'configuration file of ssh for the hosts, such as with ProxyJump',
            arguments.path,
        ),
        ('--libvirt-uri', 'of the hosts (default: qemu:///system)', str),
        ('--power-off-command', "cuts the power of '{host}'", str),
        ('--power-on-command', "powers '{host}' on", str),
    ):
        parser.add_argument(option, help=text, type=argument_type)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--accounts',
        type=arguments.path,
        metavar='FILE',
        help='File accounts.yaml of Tempest (default: Tempest creates '
        'users with the rights of the administrator).',
    )
    parser.add_argument(
        '--concurrency', type=arguments.count, default=1, metavar='N'
    )
    parser.add_argument(
        '--allow-unchecked',
        action='store_true',
        help='Exit with status 0 even if something could not be checked.',
    )
    parser.add_argument(
        '--workspace',
        type=arguments.path,
        metavar='DIRECTORY',
        help='Directory for tempest.conf, results and reports.',
    )
    parser.add_argument(
        '--first-run',
        action='store_true',
        help='Do not run the tests, but the checklist for the first run on '
        'hosts with KVM: create a small cluster, check the hosts and '
        'guests, and delete the cluster.',
    )
    parser.add_argument(
        '--workers',
        type=arguments.count,
        metavar='N',
        help='Number of workers of the cluster of --first-run (default: 2, '
        'or 1 if the hosts have a single slot).',
    )
    mode_group = parser.add_mutually_exclusive_group()
    mode_group.add_argument(
        '--dry-run',
        action='store_true',
        help='Write tempest.conf and list the tests, but run none. With '
        '--first-run, list the items and what would be created.',
    )
    mode_group.add_argument(
        '--last',
        action='store_true',
        help='Only report the last run of the workspace, such as a run '
        "of 'tempest run'.",
    )
    mode_group.add_argument(
        '--cleanup',
        action='store_true',
        help='Only delete the resources that interrupted tests left.',
    )


def check_options(parsed_args: argparse.Namespace) -> None:
    """Refuse options that stestr or the tests would stumble over.

    :raises hvstack.errors.InputError: names the option and a remedy.
    """
    if parsed_args.concurrency < 0:
        raise errors.InputError(
            f'Cannot use --concurrency {parsed_args.concurrency}: it is '
            'negative. Use 1 or more, or 0 for the number of CPUs.'
        )
    _check_first_run(parsed_args)
    try:
        re.compile(parsed_args.test)
    except re.error as exc:
        raise errors.InputError(
            f"Cannot use --test '{parsed_args.test}': it is not a regular "
            f'expression ({exc}). Use a part of a name, such as test_pins.'
        ) from exc
    backends = [
        assignment.partition(':') for assignment in parsed_args.volume_backend
    ]
    for name, colon, backend in backends:
        if not (name and backend) or re.search('[:,]', backend):
            raise errors.InputError(
                f"Cannot use --volume-backend '{name}{colon}{backend}': it is "
                'not TYPE:NAME. Use a volume type and its '
                'volume_backend_name, such as disk-slot-1:slot1.'
            )
    names = [name for name, _, _ in backends]
    if twice := {name for name in names if names.count(name) > 1}:
        raise errors.InputError(
            f"Cannot use --volume-backend: '{min(twice)}' is duplicated. Use "
            'each volume type once.'
        )
    for name in _HOST_COMMANDS:
        try:
            shlex.split(getattr(parsed_args, name) or '')
        except ValueError as exc:
            raise errors.InputError(
                f'Cannot use --{name.replace("_", "-")}: a shell cannot read '
                f'it ({str(exc).lower()}). Close its quotes.'
            ) from exc


def _check_first_run(parsed_args: argparse.Namespace) -> None:
    """Refuse options without effect with or without ``--first-run``.

    :raises hvstack.errors.InputError: names the option and a remedy.
    """
    if not parsed_args.first_run:
        if parsed_args.workers is not None:
            raise errors.InputError(
                'Cannot use --workers: the cluster of the tests uses all '
                'slots. Use --workers with --first-run only.'
            )
        return
    for name in _TEST_OPTIONS:
        if getattr(parsed_args, name):
            raise errors.InputError(
                f'Cannot use --{name.replace("_", "-")} with --first-run, '
                'which runs no tests. Use one of them.'
            )
    if parsed_args.workers is not None and parsed_args.workers < 1:
        raise errors.InputError(
            f'Cannot use --workers {parsed_args.workers}: a cluster has at '
            'least 1 worker. Use 1 or more.'
        )
