# SPDX-License-Identifier: Apache-2.0
"""``hvstack flavor``: flavors derived from hardware."""

import argparse
import sys

from cliff.show import ShowOne

from hvstack import host_profiles
from hvstack.cli import arguments
from hvstack.cli.tables import Details
from hvstack.model.configuration import Configuration, parse
from hvstack.model.flavor import compute_remainder, derive_flavor
from hvstack.model.host_share import ROLES


def add_host(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a host profile."""
    parser.add_argument(
        '--host',
        required=True,
        metavar='PROFILE',
        help='Host profile: its name (vsphere6, vsan, amd, lab-worker) '
        'or its YAML file.',
    )


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a host profile and a configuration."""
    add_host(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        '--instances',
        type=arguments.count,
        metavar='N',
        help='Number of instances per host, with the defaults of all '
        'other parameters (default: 1).',
    )
    which.add_argument(
        '--configuration',
        metavar='NAME',
        help='Full or short name, such as i4-dedicated-pinned or i2-c2.',
    )


def configuration(parsed_args: argparse.Namespace) -> Configuration:
    """Return the configuration that the options name.

    :raises hvstack.errors.InputError: it is not valid.
    """
    if parsed_args.configuration is not None:
        return parse(parsed_args.configuration)
    if parsed_args.instances is not None:
        return Configuration(parsed_args.instances)
    return Configuration()


class Derive(ShowOne):
    """Derive the flavor of one role from a host profile.

    The part of a host that remains after the division into equal shares is
    printed as 'rest'; no instance gets it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_configuration(parser)
        parser.add_argument(
            '--role',
            choices=ROLES,
            default='worker',
            help='Role of the nodes with the flavor (default: worker).',
        )
        parser.add_argument(
            '--cpu-quota',
            choices=('guest', 'vcpu'),
            help='Limit the CPU time of the guest: guest for lxc, vcpu '
            'for QEMU, as libvirt applies it.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Details:
        """Derive it and show it."""
        profile = host_profiles.load(parsed_args.host)
        chosen = configuration(parsed_args)
        flavor = derive_flavor(
            profile,
            chosen,
            parsed_args.role,
            cpu_quota=parsed_args.cpu_quota,
        )
        remainder = compute_remainder(profile, chosen)
        if any((remainder.vcpus, remainder.ram, remainder.disks)):
            print(
                f'{chosen.label} leaves of each host: {remainder}',
                file=sys.stderr,
            )
        fields = flavor.to_mapping() | {
            'rest': {
                'vcpus': remainder.vcpus,
                'ram': remainder.ram,
                'disks': remainder.disks,
            }
        }
        return tuple(fields), tuple(fields.values())
