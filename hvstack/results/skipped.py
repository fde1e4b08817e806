# SPDX-License-Identifier: Apache-2.0
"""Configurations that a sweep skipped: beside its records, with the reason."""

import json
from pathlib import Path

from hvstack import errors, jsonfile, paths, textfile

#: In the directory of the run records.
DIRECTORY = 'skipped'


def save_skip(records: Path, sweep: str, name: str, reason: str) -> None:
    """Write down that a configuration was skipped.

    :param records: directory of the run records.
    :param name: name of the configuration in messages.
    :raises hvstack.errors.InputError: what is there is not an hvstack file.
    :raises hvstack.errors.MissingPrerequisiteError: no room, no rights.
    """
    # A reason may quote what a program or a service printed.
    reason = textfile.printable(reason)
    reasons = load_skips(records, sweep)
    if reasons.get(name) == reason:
        return
    path = _build_path(records, sweep)
    text = json.dumps(reasons | {name: reason}, indent=1) + '\n'
    try:
        paths.write_whole(path, text)
    except OSError as exc:
        raise errors.MissingPrerequisiteError(
            f'{path}: cannot be written ({exc.strerror}), make room there'
        ) from exc


def load_skips(records: Path, sweep: str) -> dict[str, str]:
    """Return the reasons by configuration.

    :raises hvstack.errors.InputError: what is there is not an hvstack file.
    """
    path = _build_path(records, sweep)
    try:
        return jsonfile.load_texts(path)
    except textfile.MissingFileError:
        return {}


def _build_path(records: Path, sweep: str) -> Path:
    return records / DIRECTORY / f'{sweep}.json'
