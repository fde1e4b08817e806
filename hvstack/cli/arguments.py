# SPDX-License-Identifier: Apache-2.0
"""Types of command-line arguments: numbers in ASCII digits, and paths.

Options that several commands have are here, too.
"""

import argparse
import re
from pathlib import Path
from urllib import parse

from hvstack import host_profiles
from hvstack.results import stores

#: More of anything is a mistake.
MAX_COUNT = 1_000_000_000


def count(text: str) -> int:
    """Return a whole number.

    ``int`` would also accept digits of other scripts, underscores, blanks
    and any length.

    Each command refuses the numbers that are too small for it.

    :raises argparse.ArgumentTypeError: it is not a whole number of at most
        :data:`MAX_COUNT`.
    """
    if not re.fullmatch('-?[0-9]{1,10}', text) or int(text) > MAX_COUNT:
        raise argparse.ArgumentTypeError(
            f"'{text[:60]}' is not a whole number of at most {MAX_COUNT}."
        )
    return int(text)


def number(text: str) -> float:
    """Return a number.

    ``float`` would also accept NaN, infinity and digits of other scripts.

    :raises argparse.ArgumentTypeError: it is not a number of at most
        :data:`MAX_COUNT`.
    """
    if not re.fullmatch(r'-?[0-9]{1,10}(\.[0-9]{1,10})?', text) or (
        float(text) > MAX_COUNT
    ):
        raise argparse.ArgumentTypeError(
            f"'{text[:60]}' is not a number of at most {MAX_COUNT}."
        )
    return float(text)


def path(text: str) -> Path:
    """Return a path.

    ``Path`` would read an empty text, such as that of a shell variable that
    is not set, as the current directory.

    :raises argparse.ArgumentTypeError: the text is empty.
    """
    if not text:
        raise argparse.ArgumentTypeError(
            'The path is empty. Name a file or a directory.'
        )
    return Path(text)


def records(text: str) -> Path | str:
    """Return the directory of run records, or the URL of their database.

    :raises argparse.ArgumentTypeError: the text is empty, or the URL contains
        a password, which every user of this machine could see.
    """
    if '://' not in text:
        return path(text)
    if _has_password(text):
        raise argparse.ArgumentTypeError(
            'The URL contains a password, which other users of this machine '
            'can see. Set [records] connection in hvstack.conf, or write the '
            'password to ~/.pgpass.'
        )
    return text


def _has_password(url: str) -> bool:
    """Return whether the URL of a database contains a password.

    It is split as by SQLAlchemy: a password can contain slashes, question
    marks and number signs, at which other programs split a URL.
    """
    if re.match(r'[^:/]*://[^:/]*:[^@]*@', url):
        return True
    options = parse.parse_qs(url.partition('?')[2])
    # Options of libpq: passwords of the role and of the client's key.
    return not options.keys().isdisjoint(('password', 'sslpassword'))


def add_records(
    parser: argparse.ArgumentParser, subject: str = 'the run records'
) -> None:
    """Add the option that names the store of run records.

    :param subject: the records, for the help.
    """
    parser.add_argument(
        '--records',
        type=records,
        metavar='STORE',
        help=f'Directory or URL of the database of {subject} (default: '
        '[records] connection of hvstack.conf, otherwise '
        f'{stores.RECORDS_DIR}).',
    )


def catalogue(text: str) -> Path:
    """Return the path of a catalogue, which can be one of the package.

    :raises argparse.ArgumentTypeError: the text is empty.
    """
    return host_profiles.catalogue_path(str(path(text)))


def add_catalogue(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a catalogue."""
    parser.add_argument(
        'catalogue',
        type=catalogue,
        metavar='FILE',
        help='Catalogue in YAML, or the name of a catalogue of the '
        'package such as vsphere6.',
    )


def add_allow(parser: argparse.ArgumentParser) -> None:
    """Add the option for facts that may differ between runs."""
    parser.add_argument(
        '--allow',
        action='append',
        default=[],
        metavar='NAME',
        help='Fact that may differ between runs, such as caps. The '
        'difference is reported with the results. Can be repeated.',
    )


def add_kit(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the directory of the TPC kit."""
    parser.add_argument(
        '--kit',
        type=path,
        metavar='PATH',
        help='Directory of the TPCx-HS kit of TPC, which executes '
        'pairs of runs (default: the substitute workload).',
    )
