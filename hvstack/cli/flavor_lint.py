# SPDX-License-Identifier: Apache-2.0
"""``hvstack flavor lint`` and ``catalogue``: sets of flavors in files."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from cliff.command import Command

from hvstack import errors, profiles, yamlfile
from hvstack.model import catalogue, lint
from hvstack.model.configuration import parse


class Catalogue(Command):
    """Print a catalogue of candidates for one host profile, as YAML."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--host', required=True, metavar='PROFILE', help='host profile'
        )
        parser.add_argument(
            'configurations',
            nargs='+',
            metavar='CONFIGURATION',
            help='such as i2 or i4-dedicated',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Derive and print them."""
        data = catalogue.build(
            profiles.load(parsed_args.host),
            [parse(text) for text in parsed_args.configurations],
        )
        self.app.stdout.write('# SPDX-License-Identifier: Apache-2.0\n')
        yaml.safe_dump(data, self.app.stdout, sort_keys=False, width=79)


class Lint(Command):
    """Check a catalogue of flavors before anything is published.

    Ends with status 2 if there is an error.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'catalogue', type=Path, metavar='FILE', help='catalogue in YAML'
        )
        parser.add_argument(
            '--host',
            metavar='PROFILE',
            help="host profile (default: what the file names as 'host')",
        )
        parser.add_argument(
            '-f',
            '--format',
            choices=('table', 'json', 'sarif'),
            default='table',
            help='form of the findings (default: table)',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Check it and print what was found."""
        document = yamlfile.load(parsed_args.catalogue)
        checked = catalogue.from_mapping(document.data, document.place())
        profile = profiles.load(parsed_args.host or checked.host)
        found = lint.lint(profile, checked)
        if parsed_args.format == 'json':
            text = json.dumps([asdict(one) for one in found], indent=1) + '\n'
        elif parsed_args.format == 'sarif':
            text = json.dumps(sarif(found), indent=1) + '\n'
        else:
            text = ''.join(f'{one}\n' for one in found)
        self.app.stdout.write(text)
        wrong = sum(one.level == lint.ERROR for one in found)
        if wrong:
            raise errors.InputError(
                f'{parsed_args.catalogue}: {wrong} error(s) and '
                f'{len(found) - wrong} warning(s), correct the errors'
            )


def sarif(findings: list[lint.Finding]) -> dict[str, Any]:
    """Return findings in SARIF 2.1.0, which CI systems read."""
    rules = [(rule, title) for rule, _, title, _ in lint.RULES]
    rules.append((lint.SET_RULE[0], lint.SET_RULE[2]))
    results = []
    for one in findings:
        path, _, line = one.where.rpartition(':')
        results.append(
            {
                'ruleId': one.rule,
                'level': one.level,
                'message': {
                    'text': f'{one.flavor}, {one.field}: {one.message}'
                },
                'locations': [
                    {
                        'physicalLocation': {
                            'artifactLocation': {'uri': path},
                            'region': {'startLine': int(line)},
                        }
                    }
                ],
            }
        )
    return {
        'version': '2.1.0',
        '$schema': 'https://json.schemastore.org/sarif-2.1.0.json',
        'runs': [
            {
                'tool': {
                    'driver': {
                        'name': 'hvstack flavor lint',
                        'rules': [
                            {'id': rule, 'shortDescription': {'text': title}}
                            for rule, title in rules
                        ],
                    }
                },
                'results': results,
            }
        ],
    }
