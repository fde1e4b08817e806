# SPDX-License-Identifier: Apache-2.0
"""``hvstack cluster size``: how many workers a number of hosts holds."""

import argparse

from cliff.show import ShowOne

from hvstack import host_profiles
from hvstack.cli import arguments
from hvstack.cli.flavor import add_configuration, configuration
from hvstack.cli.tables import Details
from hvstack.model.cluster_size import compute_cluster_size
from hvstack.model.host import CONTROLLER_RULES


class Size(ShowOne):
    """Compute the number of workers and controllers on a number of hosts."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_configuration(parser)
        parser.add_argument(
            '--hosts',
            type=arguments.count,
            required=True,
            metavar='N',
            help='Total number of compute hosts.',
        )
        parser.add_argument(
            '--controllers',
            choices=CONTROLLER_RULES,
            help='Placement of the controllers (default: the rule of '
            'the host profile).',
        )
        parser.add_argument(
            '--native',
            action='store_true',
            help='Compute the size for bare metal: one node per host.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Details:
        """Count them."""
        size = compute_cluster_size(
            host_profiles.load(parsed_args.host),
            configuration(parsed_args),
            parsed_args.hosts,
            controllers=parsed_args.controllers,
            native=parsed_args.native,
        ).to_mapping()
        return tuple(size), tuple(size.values())
