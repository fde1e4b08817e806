# SPDX-License-Identifier: Apache-2.0
"""Hosts' power, of which a note stays until it is back.

Who kills a test while a host is without power leaves a host that no clean-up
would know of.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from hvstack import errors, jsonfile, paths
from hvstack.accept import hostlook
from hvstack.model.fields import Fields


def _note_path(directory: Path, host: str) -> Path:
    return directory / f'without-power-{host}.json'


def power_off(directory: Path, host: str, off: str, on: str) -> None:
    """Cut a host's power, once it is noted how it gets it back.

    :param directory: the workspace.
    :param off: command that cuts the power of ``{host}``.
    :param on: command that powers it on again.
    :raises hvstack.errors.CommandFailed: it failed.
    :raises OSError: there is no room for the note; the power is not cut.
    """
    note = json.dumps({'host': host, 'command': on}) + '\n'
    paths.write_whole(_note_path(directory, host), note, 0o600)
    hostlook.run_power_command(off, host)


def power_on(directory: Path, host: str, on: str) -> None:
    """Power a host on, and forget that it had to be.

    :raises hvstack.errors.CommandFailed: it failed; the note stays.
    """
    hostlook.run_power_command(on, host)
    _note_path(directory, host).unlink(missing_ok=True)


def restore_power(directory: Path) -> Iterator[str]:
    """Power on what killed tests left without power; yield the hosts.

    :raises hvstack.errors.CloudError: one cannot be powered on.
    """
    for path in sorted(directory.glob('without-power-*.json')):
        try:
            document = jsonfile.load(path)
            fields = Fields(
                document.data, document.place(), ('host', 'command')
            )
            host = fields.host_name('host')
            power_on(directory, host, fields.text('command'))
        except errors.HVStackError as exc:
            raise errors.CloudError(
                'a test was killed while a host had no power, and it cannot '
                f'be powered on ({exc}): do so, then delete {path}'
            ) from exc
        yield host
