# SPDX-License-Identifier: Apache-2.0
"""``hvstack flavor approve``: measured flavors of a catalogue."""

import argparse
from collections.abc import Sequence

from cliff.command import Command

from hvstack import errors, host_profiles, paths, yamlfile
from hvstack.cli import arguments, sweep_summary
from hvstack.cli.report import add_baseline, add_unsigned, find_last_sweep
from hvstack.progress import Progress
from hvstack.report import approval
from hvstack.results import baselines, record
from hvstack.results.run_store import RunStore, StoredSweeps
from hvstack.sweep import sweep_store


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
        arguments.add_records(parser)
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
        store = sweep_store.open_store(parsed_args.records, unsigned)
        sweep = parsed_args.sweep or find_last_sweep(
            store, parsed_args.baseline
        )
        records, invalid_records = store.read_sweep(sweep)
        record.require_usable(invalid_records, [sweep])
        baseline = parsed_args.baseline or baselines.find_name(records)
        if baseline:
            records = baselines.replace_baseline(
                *(baseline, records, store),
                unsigned=unsigned,
                is_recorded=not parsed_args.baseline,
            )
            for name in {run_record.sweep for run_record in records}:
                record.require_usable(store.read_sweep(name)[1], [name])
        unverified = [
            run_record for run_record in records if run_record.unverified
        ]
        if unverified:
            Progress().warn(
                f'{len(unverified)} of {len(records)} records are not '
                f'verified: the first one {unverified[0].unverified}'
            )
        summary = sweep_summary.of(records, store)
        if not parsed_args.flavors and summary.decision is None:
            _require_no_search(sweep, store, summary.unreadable)
        approvals = approval.approve(
            catalogue,
            parsed_args.flavors,
            profile,
            records,
            parsed_args.min_percent,
            StoredSweeps(store),
            summary.decision,
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


def _require_no_search(
    sweep: str, store: RunStore, reasons: Sequence[str]
) -> None:
    """Refuse to select a flavor without the answer of a search.

    The cheapest configuration of a tie can be another one than the search
    selected.

    :param sweep: ID of the sweep.
    :param store: store of the records.
    :param reasons: why the answer is not known.
    :raises hvstack.errors.InputError: the sweep has a search.
    """
    if not sweep_summary.has_search(sweep, store):
        return
    reason = f' ({"; ".join(reasons).removesuffix(".")})' if reasons else ''
    raise errors.InputError(
        f"Cannot select a flavor of sweep '{sweep}': the answer of its search "
        f'is not known{reason}. Name a FLAVOR, or run the command on the '
        'machine that measured the sweep.'
    )
