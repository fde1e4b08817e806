# SPDX-License-Identifier: Apache-2.0
"""Configurations that a sweep skipped: beside its records, with the reason."""

import json
from pathlib import Path

from hvstack import errors, jsonfile, textfile
from hvstack.results.run_store import TextStore

#: In the directory of the run records.
DIRECTORY = 'skipped'


def save_skip(store: TextStore, sweep: str, name: str, reason: str) -> None:
    """Write down that a configuration was skipped.

    :param store: store of the run records.
    :param name: of the configuration, as human-readable text.
    :raises hvstack.errors.InputError: what is there is not an hvstack file.
    :raises hvstack.errors.MissingPrerequisiteError: no room, no rights.
    """
    # A reason may quote what a program or a service printed.
    reason = textfile.printable(reason)
    reasons = load_skips(store, sweep)
    if reasons.get(name) == reason:
        return
    file_name = build_name(sweep)
    text = json.dumps(reasons | {name: reason}, indent=1) + '\n'
    try:
        store.write_text(file_name, text)
    except OSError as exc:
        raise errors.MissingPrerequisiteError(
            f'Cannot write {store.describe(file_name)}: {exc.strerror}. Free '
            'disk space there.'
        ) from exc


def load_skips(store: TextStore, sweep: str) -> dict[str, str]:
    """Return the reasons by configuration.

    :param store: store of the run records.
    :raises hvstack.errors.InputError: what is there is not an hvstack file.
    """
    name = build_name(sweep)
    try:
        text = store.read_text(name, textfile.MAX_BYTES)
    except textfile.MissingFileError:
        return {}
    return jsonfile.parse_texts(text, Path(store.describe(name)))


def build_name(sweep: str) -> str:
    """Return the name of a sweep's file in the store."""
    return f'{DIRECTORY}/{sweep}.json'
