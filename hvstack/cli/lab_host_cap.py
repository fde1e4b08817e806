# SPDX-License-Identifier: Apache-2.0
"""``hvstack lab host cap``: how much of its cores each worker host may use."""

import argparse
from collections.abc import Mapping

from cliff.command import Command

from hvstack import errors, extras
from hvstack.cli import arguments
from hvstack.lab import lifecycle, requirements
from hvstack.lab.hosts import sizes
from hvstack.lab.settings import LabSettings
from hvstack.model.plain_data import JsonObject
from hvstack.progress import Progress

_FIELD = 'cpu_cap'


class Cap(Command):
    """Set the caps of the worker hosts to a percentage of their default.

    Hosts whose cap changes are restarted. Their host profile and the flavors
    that are derived from it change accordingly. 100 restores the default.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'percent',
            type=arguments.number,
            metavar='PERCENT',
            help='Percentage of the default cap, such as 70.',
        )
        return parser

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Change the lab's settings and bring it up with them."""
        requirements.check_root()
        percent = parsed_args.percent
        if not 10 <= percent <= 100:
            raise errors.InputError(
                f'Cannot use PERCENT {percent:g}: it is not a share that a '
                'host can have. Use a number from 10 to 100.'
            )
        lifecycle.up(lambda before: capped(before, percent), Progress())


def capped(before: LabSettings, percent: float) -> LabSettings:
    """Return settings with the worker hosts' caps at a part of the usual.

    :param percent: of what the lab gives them by itself.
    """
    host_sizes: dict[str, JsonObject] = {
        name: {key: value for key, value in fields.items() if key != _FIELD}
        for name, fields in before.get_option('host_sizes').items()
        if isinstance(fields, Mapping)
    }
    default_settings = before.change(
        options={**before.options, 'host_sizes': host_sizes}
    )
    if percent < 100:
        host_sizes = host_sizes | {
            host.name: {
                **host_sizes.get(host.name, {}),
                _FIELD: round(host.cpu_cap * percent / 100, 3),
            }
            for host in sizes.plan(default_settings)
            if host.role == 'worker'
        }
    nonempty_sizes = {
        name: fields for name, fields in host_sizes.items() if fields
    }
    return before.change(
        options={**before.options, 'host_sizes': nonempty_sizes}
    )
