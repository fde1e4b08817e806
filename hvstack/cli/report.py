# SPDX-License-Identifier: Apache-2.0
"""``hvstack report``: the answer of a sweep from its run records."""

import argparse
import json
from collections.abc import Collection
from pathlib import Path

from cliff.command import Command

from hvstack import errors, paths, report
from hvstack.results import record

#: Where runs leave their records.
RECORDS = paths.STATE / 'records'


def render(
    records: list[record.Record], form: str, allow: Collection[str] = ()
) -> str:
    """Return the answer in one of the forms ``table``, ``json``, ``html``.

    :param allow: facts that may differ between runs.
    """
    if form == 'json':
        data = report.results_json(records, allow)
        return json.dumps(data, indent=1) + '\n'
    if form == 'html':
        return report.page(records, allow)
    return report.table(records, allow)


class Report(Command):
    """Show percent of bare metal, with what it was measured on.

    Everything is computed from the run records.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--sweep', metavar='ID', help='which sweep (default: the last)'
        )
        parser.add_argument(
            '-f',
            '--format',
            choices=('table', 'json', 'html'),
            default='table',
            help='form of the answer (default: table)',
        )
        parser.add_argument(
            '-o',
            '--output',
            type=Path,
            metavar='FILE',
            help='write it to a file (default: standard output)',
        )
        parser.add_argument(
            '--records',
            type=Path,
            default=RECORDS,
            metavar='FOLDER',
            help=f'folder of the run records (default: {RECORDS})',
        )
        parser.add_argument(
            '--allow',
            action='append',
            default=[],
            metavar='NAME',
            help='a fact that may differ between runs, such as caps; the '
            'difference is said beside the figures (can be repeated)',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Compute and show it."""
        records = record.load_all(parsed_args.records, parsed_args.sweep)
        if records and parsed_args.sweep is None:
            last = records[-1].sweep
            records = [one for one in records if one.sweep == last]
        text = render(records, parsed_args.format, parsed_args.allow)
        if parsed_args.output is None:
            self.app.stdout.write(text)
            return
        try:
            paths.write_whole(parsed_args.output, text)
        except OSError as exc:
            raise errors.InputError(
                f'{parsed_args.output}: cannot be written ({exc.strerror}), '
                'give another --output'
            ) from exc
