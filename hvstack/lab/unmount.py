# SPDX-License-Identifier: Apache-2.0
"""Letting go of a directory before it is removed.

Removing a tree with something mounted in it would remove what is mounted.
"""

import json
import re
from pathlib import Path

from hvstack import errors, processutils

_OCTAL = re.compile(r'\\([0-7]{3})')
_MOUNTS = Path('/proc/self/mounts')


def mounts(directory: Path, table: str) -> list[str]:
    """Return the places below a directory where something is mounted.

    A directory that is a mount point itself is on a disk of the user's.

    :param table: text of ``/proc/self/mounts``.
    :returns: the innermost first.
    """
    mount_points = [
        # The kernel writes blanks and the like as octal escapes.
        _OCTAL.sub(lambda match: chr(int(match[1], 8)), line.split(' ')[1])
        for line in table.split('\n')
        if line
    ]
    inside = [
        mount_point
        for mount_point in mount_points
        if directory in Path(mount_point).parents
    ]
    return sorted(inside, key=len, reverse=True)


def loops(directory: Path, listing: str) -> list[str]:
    """Return the loop devices whose files are below a directory.

    :param listing: what ``losetup --json`` prints; empty without a
        device.
    """
    devices = json.loads(listing)['loopdevices'] if listing.strip() else []
    return [
        device['name']
        for device in devices
        if Path(device['back-file'] or '/').is_relative_to(directory)
    ]


def _read_mounts() -> str:
    """Return the mounts of this machine, whatever bytes their names have."""
    return _MOUNTS.read_text(encoding='utf-8', errors='surrogateescape')


def release(directory: Path) -> None:
    """Unmount and detach everything below a directory.

    :raises hvstack.errors.BusyError: something is still mounted there.
    """
    for mount_point in mounts(directory, _read_mounts()):
        processutils.run(['umount', '--lazy', mount_point], check=False)
    listing = processutils.run(
        ['losetup', '--json', '--list', '--output', 'NAME,BACK-FILE']
    )
    for device in loops(directory, listing.stdout):
        processutils.run(['losetup', '--detach', device], check=False)
    remaining = mounts(directory, _read_mounts())
    if remaining:
        raise errors.BusyError(
            f'Cannot unmount {remaining[0]}: a process uses it. End the '
            'process, then run the command again.'
        )
