# SPDX-License-Identifier: Apache-2.0
"""Power of hosts, with a note on disk until a host is powered on again.

If a test is killed while a host is powered off, the next command reads the
note and powers the host on.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from hvstack import errors, jsonfile, paths
from hvstack.accept import host_inspection
from hvstack.model.strict_mapping import Fields


def _note_path(directory: Path, host: str) -> Path:
    return directory / f'without-power-{host}.json'


def power_off(directory: Path, host: str, off: str, on: str) -> None:
    """Power a host off, after writing a note with the command that undoes it.

    :param directory: directory of the workspace.
    :param host: host name.
    :param off: command that powers ``{host}`` off.
    :param on: command that powers ``{host}`` on.
    :raises hvstack.errors.CommandError: the command failed.
    :raises OSError: the note cannot be written; the host is still on.
    """
    note = json.dumps({'host': host, 'command': on}) + '\n'
    paths.write_whole(_note_path(directory, host), note, 0o600)
    host_inspection.run_power_command(off, host)


def power_on(directory: Path, host: str, on: str) -> None:
    """Power a host on, and delete its note.

    :raises hvstack.errors.CommandError: the command failed; the note remains.
    """
    host_inspection.run_power_command(on, host)
    _note_path(directory, host).unlink(missing_ok=True)


def restore_power(directory: Path) -> Iterator[str]:
    """Power on the hosts that killed tests left off; yield their names.

    :param directory: directory of the workspace.
    :raises hvstack.errors.CloudError: a host cannot be powered on.
    """
    for path in sorted(directory.glob('without-power-*.json')):
        try:
            document = jsonfile.load(path)
            fields = Fields(
                document.data, document.source_location(), ('host', 'command')
            )
            host = fields.host_name('host')
            power_on(directory, host, fields.text('command'))
        except errors.HVStackError as exc:
            reason = str(exc).removesuffix('.')
            raise errors.CloudError(
                'Cannot power on a host that a killed test left powered off '
                f'({path}): {reason}. Power the host on, then delete {path}.'
            ) from exc
        yield host
