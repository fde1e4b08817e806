# SPDX-License-Identifier: Apache-2.0
"""Command line options that several commands share."""

import argparse
from collections.abc import Sequence

CLOUD_HELP = (
    'Name of the cloud in clouds.yaml, or envvars for the cloud of the OS_* '
    'variables (default: OS_CLOUD, else the OS_* variables, else os_cloud of '
    'hvstack.conf)'
)


def cloud_name(text: str) -> str:
    """Return the name of a cloud.

    :raises argparse.ArgumentTypeError: it is empty.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError(
            'The name of the cloud is empty. Use the name of an entry of '
            'clouds.yaml, or envvars for the OS_* variables.'
        )
    return text


class _CloudAction(argparse.Action):
    """Store the name of a cloud, unless the command line has another."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[str] | None,
        option_string: str | None = None,
    ) -> None:
        """Store it."""
        first = getattr(namespace, self.dest, None)
        if first not in (None, values):
            parser.error(
                f"Cannot use two clouds: --os-cloud names '{first}' and "
                f"'{values}'. Use it once, before or after the command."
            )
        setattr(namespace, self.dest, values)


def add_cloud(
    parser: argparse.ArgumentParser, help_text: str = CLOUD_HELP
) -> None:
    """Add the option that names a cloud.

    :param parser: parser of a command.
    :param help_text: help of the option.
    """
    parser.add_argument(
        '--os-cloud',
        metavar='NAME',
        type=cloud_name,
        action=_CloudAction,
        help=help_text,
    )


def add_zone(parser: argparse.ArgumentParser) -> None:
    """Add the availability zone of the nodes."""
    parser.add_argument(
        '--availability-zone',
        default='',
        metavar='ZONE',
        help='Availability zone of all nodes (default: that of hvstack.conf, '
        'otherwise any).',
    )
