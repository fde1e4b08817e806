# SPDX-License-Identifier: Apache-2.0
"""``hvstack template``: the Heat templates of the package."""

import argparse

from cliff.command import Command

from hvstack import errors, share


class PathOf(Command):
    """Print the path of a Heat template, for 'openstack stack create -t'."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'name',
            metavar='TEMPLATE',
            nargs='?',
            help='Name of the template or environment, such as '
            "'hadoop-cluster' or 'environments/lab' (default: the directory "
            'of all templates).',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print the path."""
        root = share.HEAT_TEMPLATES
        if parsed_args.name is None:
            self.app.stdout.write(f'{root}\n')
            return
        paths = {
            str(path.relative_to(root).with_suffix('')): path
            for path in sorted(root.rglob('*.yaml'))
        }
        path = paths.get(parsed_args.name.removesuffix('.yaml'))
        if path is None:
            raise errors.InputError(
                f"Cannot find the template '{parsed_args.name}' ({root}): the "
                f'package has no such file. Use one of: {", ".join(paths)}.'
            )
        self.app.stdout.write(f'{path}\n')
