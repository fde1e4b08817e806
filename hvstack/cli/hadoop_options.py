# SPDX-License-Identifier: Apache-2.0
"""Options of every command that sets Hadoop up."""

import argparse

from hvstack import conf, errors
from hvstack.cli import arguments
from hvstack.cluster import baseline_hosts
from hvstack.hadoop import os_profiles, tuning_profiles


def add(parser: argparse.ArgumentParser) -> None:
    """Add the two profiles."""
    add_tuning(parser)
    parser.add_argument(
        '--os-profile',
        choices=os_profiles.list_names(),
        help='OS profile of the nodes (default: [hadoop] os_profile of '
        'hvstack.conf, else vsphere6).',
    )


def add_tuning(parser: argparse.ArgumentParser) -> None:
    """Add the profile of Hadoop's settings alone."""
    parser.add_argument(
        '--tuning',
        choices=tuning_profiles.list_names(),
        help='Tuning profile of Hadoop (default: [hadoop] tuning of '
        'hvstack.conf, else lab for the hosts of a lab and hvstack for '
        'others).',
    )


def add_handlers(parser: argparse.ArgumentParser) -> None:
    """Add the option that no profile sets."""
    parser.add_argument(
        '--namenode-handlers',
        type=arguments.count,
        metavar='N',
        help='Value of dfs.namenode.handler.count. vsphere6 used 1 as a '
        'workaround for HDFS-7122 (default: the value of the '
        'tuning profile, else that of Hadoop).',
    )


def handlers(parsed_args: argparse.Namespace) -> int | None:
    """Return the number of handlers that a command was given.

    :raises hvstack.errors.InputError: there is none.
    """
    handler_count: int | None = parsed_args.namenode_handlers
    if handler_count is not None and handler_count < 1:
        raise errors.InputError(
            f'Cannot use --namenode-handlers {handler_count}: the NameNode '
            'needs a handler. Use 1 or more.'
        )
    return handler_count


def chosen(
    parsed_args: argparse.Namespace, tuning: str | None = None
) -> dict[str, str]:
    """Return the profiles that a command was given, or the options'.

    :param tuning: default tuning profile; None is that of the workers' hosts.
    :raises hvstack.errors.InputError: hvstack.conf is wrong.
    """
    options = conf.load()
    return {
        'tuning': parsed_args.tuning
        or options.hadoop.tuning
        or tuning
        or baseline_hosts.default_tuning(options.cloud.host_profile),
        'os_profile': parsed_args.os_profile or options.hadoop.os_profile,
    }
