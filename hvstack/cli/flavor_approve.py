# SPDX-License-Identifier: Apache-2.0
"""``hvstack flavor approve``: measured flavors of a catalogue."""

import argparse

from cliff.command import Command

from hvstack import paths, profiles, yamlfile
from hvstack.cli import arguments
from hvstack.cli.report import (
    RECORDS,
    add_baseline,
    add_unsigned,
    last_sweep,
)
from hvstack.progress import Progress
from hvstack.report import earned
from hvstack.results import record, reference


class Approve(Command):
    """Approve flavors that a sweep measured, and write its evidence.

    All that are named are approved, or none. The user guide lists the
    conditions.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'catalogue',
            type=arguments.path,
            metavar='FILE',
            help='catalogue in YAML',
        )
        parser.add_argument(
            'flavors',
            nargs='*',
            metavar='FLAVOR',
            help='name of a flavor (default: the worker of the configuration '
            'that wins the sweep, or of the cheapest one of a tie)',
        )
        parser.add_argument(
            '--sweep', metavar='ID', help='which sweep (default: the last)'
        )
        parser.add_argument(
            '--records',
            type=arguments.path,
            default=RECORDS,
            metavar='FOLDER',
            help=f'folder of the run records (default: {RECORDS})',
        )
        add_baseline(parser)
        add_unsigned(parser)
        parser.add_argument(
            '--min-percent',
            type=arguments.number,
            metavar='PERCENT',
            help="what the interval's lower bound must reach (default: the "
            "catalogue's min_percent)",
        )
        parser.add_argument(
            '--dry-run', action='store_true', help='change nothing'
        )
        # Else names behind an option were refused: none is enough as well.
        parser.parse_args = parser.parse_intermixed_args  # type: ignore
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Judge them, then change the file."""
        path = parsed_args.catalogue
        listed, profile = profiles.read_catalogue(path)
        unsigned = parsed_args.unsigned
        known, invalid_records = record.load_usable(
            parsed_args.records, unsigned
        )
        sweep = parsed_args.sweep or last_sweep(known, parsed_args.baseline)
        record.require_usable(invalid_records, [sweep])
        records = [one for one in known if one.sweep == sweep]
        if parsed_args.baseline:
            records = reference.replace_baseline(
                parsed_args.baseline,
                records,
                parsed_args.records,
                known,
                unsigned=unsigned,
            )
            record.require_usable(
                invalid_records, {one.sweep for one in records}
            )
        unverified = [one for one in records if one.unverified]
        if unverified:
            Progress().say(
                f'{len(unverified)} of {len(records)} records are not '
                f'verified: the first one {unverified[0].unverified}'
            )
        found = earned.approve(
            listed,
            parsed_args.flavors,
            profile,
            records,
            parsed_args.min_percent,
        )
        changes = {
            f'flavors.{one.index}': {
                'status': 'approved',
                'evidence': one.evidence,
            }
            for one in found
            if one.changed
        }
        if changes and not parsed_args.dry_run:
            text = yamlfile.with_fields(
                path.read_text(encoding='utf-8'), changes
            )
            paths.write_output(path, text)
        for one in found:
            done = 'approved' if one.changed else 'approved before'
            if one.changed and parsed_args.dry_run:
                done = 'would be approved'
            told = one.evidence
            self.app.stdout.write(
                f'{one.entry.flavor.name}: {done}, {told["percent"]:.1f} % of '
                f'bare metal ({told["low"]:.1f} to {told["high"]:.1f}, at '
                f'least {told["min_percent"]:g} needed), {told["runs"]} runs '
                f'beside {told["baseline_runs"]}, backend {told["backend"]}\n'
            )
