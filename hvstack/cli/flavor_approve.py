# SPDX-License-Identifier: Apache-2.0
"""``hvstack flavor approve``: measured flavors of a catalogue."""

import argparse

from cliff.command import Command

from hvstack import host_profiles, paths, yamlfile
from hvstack.cli import arguments, sweep_summary
from hvstack.cli.report import (
    RECORDS,
    add_baseline,
    add_unsigned,
    last_sweep,
)
from hvstack.progress import Progress
from hvstack.report import approval
from hvstack.results import baselines, record


class Approve(Command):
    """Approve flavors that a sweep measured, and write the evidence.

    The command approves all flavors or none. The user guide lists the
    conditions.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'catalogue',
            type=arguments.path,
            metavar='FILE',
            help='Catalogue in YAML.',
        )
        parser.add_argument(
            'flavors',
            nargs='*',
            metavar='FLAVOR',
            help='Name of a flavor (default: the worker of the '
            'configuration that wins the sweep, or of the cheapest '
            'configuration of a tie).',
        )
        parser.add_argument(
            '--sweep',
            metavar='ID',
            help='Sweep with the measurements (default: the last sweep).',
        )
        parser.add_argument(
            '--records',
            type=arguments.path,
            default=RECORDS,
            metavar='DIRECTORY',
            help=f'Directory of the run records (default: {RECORDS}).',
        )
        add_baseline(parser)
        add_unsigned(parser)
        parser.add_argument(
            '--min-percent',
            type=arguments.number,
            metavar='PERCENT',
            help='Minimum of the lower bound of the interval, in '
            'percent of bare metal (default: min_percent of the '
            'catalogue).',
        )
        parser.add_argument(
            '--dry-run', action='store_true', help='Change nothing.'
        )
        # Else names behind an option were refused: none is enough as well.
        parser.parse_args = parser.parse_intermixed_args  # type: ignore
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Judge them, then change the file."""
        path = parsed_args.catalogue
        catalogue, profile = host_profiles.read_catalogue(path)
        unsigned = parsed_args.unsigned
        stored_records, invalid_records = record.load_usable(
            parsed_args.records, unsigned
        )
        sweep = parsed_args.sweep or last_sweep(
            stored_records, parsed_args.baseline
        )
        record.require_usable(invalid_records, [sweep])
        records = [
            run_record
            for run_record in stored_records
            if run_record.sweep == sweep
        ]
        if parsed_args.baseline:
            records = baselines.replace_baseline(
                parsed_args.baseline,
                records,
                parsed_args.records,
                stored_records,
                unsigned=unsigned,
            )
            record.require_usable(
                invalid_records, {run_record.sweep for run_record in records}
            )
        unverified = [
            run_record for run_record in records if run_record.unverified
        ]
        if unverified:
            Progress().say(
                f'{len(unverified)} of {len(records)} records are not '
                f'verified: the first one {unverified[0].unverified}'
            )
        approvals = approval.approve(
            catalogue,
            parsed_args.flavors,
            profile,
            records,
            parsed_args.min_percent,
            stored_records,
            sweep_summary.of(records, parsed_args.records).decision,
        )
        changes = {
            f'flavors.{approved_flavor.index}': {
                'status': 'approved',
                'evidence': approved_flavor.evidence,
            }
            for approved_flavor in approvals
            if approved_flavor.changed
        }
        if changes and not parsed_args.dry_run:
            text = yamlfile.with_fields(
                path.read_text(encoding='utf-8'), changes
            )
            paths.write_output(path, text)
        for approved_flavor in approvals:
            done = 'approved' if approved_flavor.changed else 'approved before'
            if approved_flavor.changed and parsed_args.dry_run:
                done = 'would be approved'
            evidence = approved_flavor.evidence
            self.app.stdout.write(
                f'{approved_flavor.entry.flavor.name}: {done}, '
                f'{evidence["percent"]:.1f} % of bare metal ('
                f'{evidence["low"]:.1f} to {evidence["high"]:.1f}, at '
                f'least {evidence["min_percent"]:g} needed), '
                f'{evidence["runs"]} runs beside {evidence["baseline_runs"]}, '
                f'backend {evidence["backend"]}\n'
            )
