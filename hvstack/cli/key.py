# SPDX-License-Identifier: Apache-2.0
"""``hvstack key``: keys that sign run records and evidence."""

import argparse
import sys
from pathlib import Path

from cliff.command import Command
from cliff.lister import Lister

from hvstack import errors, textfile
from hvstack.results import signing

_COLUMNS = ('Fingerprint', 'Name', 'Status', 'File')


class List(Lister):
    """List the trusted and the revoked keys."""

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return a row per key."""
        own = signing.own_public()
        rows: list[tuple[str, ...]] = []
        for status, keys in (
            ('trusted', signing.trusted()),
            ('revoked', signing.revoked()),
        ):
            for key in keys:
                is_own = own is not None and own.text == key.text
                rows.append(
                    (
                        key.fingerprint,
                        key.comment,
                        f'{status}, of this machine' if is_own else status,
                        str(key.source or ''),
                    )
                )
        return _COLUMNS, rows


class Show(Command):
    """Print the public key of this machine, so that other machines trust it.

    The first call creates the key pair.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print the key as a line for 'hvstack key trust'."""
        signing.own_key()
        key = signing.own_public()
        assert key is not None
        self.app.stdout.write(f'{key.line}\n')


class Trust(Command):
    """Trust the key of another machine: this one accepts its signatures."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'file',
            metavar='FILE',
            help="File with the line that 'hvstack key show' prints on "
            'the other machine; - reads standard input.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Add the key to the list, and print its fingerprint."""
        name = parsed_args.file
        try:
            if name == '-':
                text = sys.stdin.readline()
            else:
                text = textfile.read(Path(name), 4096)
            key = signing.parse(text)
        except (OSError, ValueError) as exc:
            raise errors.InputError(
                f'Cannot read a public key ({name}): {exc}. Use the line '
                "that 'hvstack key show' prints on the other machine."
            ) from exc
        try:
            is_new = signing.trust(key)
        except OSError as exc:
            raise _unwritable(exc) from exc
        status = 'trusted' if is_new else 'trusted before'
        self.app.stdout.write(f'{key.fingerprint} {key.comment}: {status}\n')


class Revoke(Command):
    """Revoke a key: its signatures are no longer accepted.

    If it is the key of this machine, its private key is deleted, and the next
    run creates another key.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'fingerprint',
            metavar='FINGERPRINT',
            help="Fingerprint that 'hvstack key list' shows.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Move the key to the list of revoked ones."""
        fingerprint = parsed_args.fingerprint
        keys = {key.fingerprint: key for key in signing.trusted()}
        if fingerprint not in keys:
            raise errors.InputError(
                f"Cannot revoke '{fingerprint:.80}': no trusted key has this "
                "fingerprint. Use one of 'hvstack key list'."
            )
        try:
            signing.revoke(keys[fingerprint])
        except OSError as exc:
            raise _unwritable(exc) from exc
        self.app.stdout.write(f'{fingerprint}: revoked\n')


def _unwritable(exc: OSError) -> errors.MissingPrerequisiteError:
    return errors.MissingPrerequisiteError(
        f'Cannot change the lists of keys ({signing.KEYS}): {exc.strerror}. '
        'Run the command as the user who owns this directory.'
    )
