# SPDX-License-Identifier: Apache-2.0
"""``hvstack record``: run records between directories and databases."""

import argparse
import contextlib
from pathlib import Path

from cliff.command import Command

from hvstack import errors
from hvstack.cli import arguments
from hvstack.cli.report import add_unsigned
from hvstack.nouns import format_noun
from hvstack.progress import Progress
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.record_transfer import (
    add_related_sweeps,
    transfer_records,
)
from hvstack.results.run_store import RunStore
from hvstack.sweep import sweep_store


class _Transfer(Command):
    """Copy run records between two stores."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_records(parser)
        add_unsigned(parser)
        parser.add_argument(
            '--sweep',
            action='append',
            default=[],
            metavar='ID',
            help='Sweep to copy (default: all sweeps). Can be repeated.',
        )
        parser.add_argument(
            'other',
            type=arguments.records,
            metavar='STORE',
            help='The other directory, or the URL of its database.',
        )
        return parser

    def transfer(
        self,
        source: RunStore,
        target: RunStore,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Copy the records, and say how many.

        :raises hvstack.errors.PartlyFailedError: a record is not usable.
        """
        say = Progress().say
        sweeps = add_related_sweeps(
            source, parsed_args.sweep, say, parsed_args.unsigned
        )
        result = transfer_records(source, target, sweeps, say)
        self.app.stdout.write(
            f'{format_noun(result.stored, "record")} copied, '
            f'{result.existing} copied before\n'
        )
        if result.invalid:
            raise errors.PartlyFailedError(
                f'Cannot copy {result.invalid} records '
                f'({source.describe()}): they are not usable. Correct them, '
                'then run the command again.'
            )


def _open(
    parsed_args: argparse.Namespace, location: Path | str | None
) -> RunStore:
    return sweep_store.open_store(location, parsed_args.unsigned)


class Import(_Transfer):
    """Import run records from another directory or database.

    The command checks each record, and copies it with its telemetry. It adds
    restored allocation ratios to records that exist, does not change them
    otherwise, and refuses another record with the same ID.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Copy from the other store."""
        source = parsed_args.other
        if isinstance(source, Path) and not source.is_dir():
            raise errors.InputError(
                f'Cannot import records ({source}): it is not a directory. '
                'Use the directory of the records.'
            )
        store = _open(parsed_args, source)
        if not store.list_sweeps():
            # A mistyped path of SQLite is that of an empty database.
            raise errors.InputError(
                f'Cannot import records ({store.describe()}): it contains no '
                'usable run record. Correct the name of the store.'
            )
        self.transfer(
            store,
            _open(parsed_args, parsed_args.records),
            parsed_args,
        )


class Export(_Transfer):
    """Export run records to another directory or database.

    The command checks each record, and copies it with its telemetry. It adds
    restored allocation ratios to records that exist, does not change them
    otherwise, and refuses another record with the same ID.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Copy to the other store."""
        self.transfer(
            _open(parsed_args, parsed_args.records),
            _open(parsed_args, parsed_args.other),
            parsed_args,
        )


class Delete(Command):
    """Delete run records with their telemetry, such as forged records."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_records(parser)
        parser.add_argument(
            'ids', nargs='+', metavar='ID', help='ID of a record.'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Delete one after the other."""
        store = sweep_store.open_store(parsed_args.records)
        for record_id in parsed_args.ids:
            store.delete(record_id)
            if parsed_args.records is None:
                # The next run of its sweep would copy such a file again.
                with contextlib.suppress(errors.InputError):
                    FileRunStore(sweep_store.RECORDS_DIR).delete(record_id)
            self.app.stdout.write(f'{record_id}: deleted\n')
