# SPDX-License-Identifier: Apache-2.0
"""``hvstack flavor lint`` and ``catalogue``: sets of flavors in files."""

import argparse

import yaml
from cliff.command import Command

from hvstack import errors, host_profiles
from hvstack.cli import arguments, lint_output
from hvstack.cli.flavor import add_host
from hvstack.model import catalogue, lint
from hvstack.model.configuration import parse
from hvstack.nouns import format_noun
from hvstack.progress import Progress


class Catalogue(Command):
    """Print a catalogue of candidates for one host profile, as YAML."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_host(parser)
        parser.add_argument(
            'configurations',
            nargs='+',
            metavar='CONFIGURATION',
            help='Configuration, such as i2 or i4-dedicated.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Derive and print them."""
        profile = host_profiles.load(parsed_args.host)
        data = catalogue.build_catalogue(
            profile, [parse(text) for text in parsed_args.configurations]
        )
        if not host_profiles.is_in_search_path(profile):
            Progress().warn(
                f"The host profile '{profile.name}' is not in the search "
                f'path. Copy {parsed_args.host} to '
                f'{host_profiles.directories()[0]}/{profile.name}.yaml, or to '
                f'the directory of the catalogue as {profile.name}.yaml.'
            )
        self.app.stdout.write('# SPDX-License-Identifier: Apache-2.0\n')
        yaml.safe_dump(data, self.app.stdout, sort_keys=False, width=79)


class Lint(Command):
    """Check a catalogue of flavors before it is published.

    The exit status is 2 if there is an error.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_catalogue(parser)
        parser.add_argument(
            '--host',
            metavar='PROFILE',
            help="Host profile (default: the value of 'host' in the "
            'catalogue).',
        )
        parser.add_argument(
            '-f',
            '--format',
            choices=lint_output.FORMS,
            default='table',
            help='Format of the violations (default: table).',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Check it and print what was found."""
        path = parsed_args.catalogue
        checked, profile = host_profiles.read_catalogue(path, parsed_args.host)
        violations = lint.check_catalogue(
            profile, checked, host_profiles.load_extra_specs()
        )
        self.app.stdout.write(
            lint_output.render(parsed_args.format, checked, violations)
        )
        error_count = sum(
            violation.level == lint.ERROR for violation in violations
        )
        if error_count:
            warning_count = len(violations) - error_count
            raise errors.InputError(
                f'{path}: The catalogue has '
                f'{format_noun(error_count, "error")} and '
                f'{format_noun(warning_count, "warning")}. Correct the errors.'
            )
