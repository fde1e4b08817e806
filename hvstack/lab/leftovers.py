# SPDX-License-Identifier: Apache-2.0
"""Letting go of a folder before it is removed.

Removing a tree with something mounted in it would remove what is mounted.
"""

import json
from pathlib import Path

from hvstack import errors, shell


def mounts(folder: Path, table: str) -> list[str]:
    """Return the places below a folder where something is mounted.

    :param table: text of ``/proc/self/mounts``.
    :returns: the innermost first.
    """
    places = [
        # The kernel writes blanks and the like as octal escapes.
        line.split()[1].encode().decode('unicode_escape')
        for line in table.splitlines()
    ]
    inside = [p for p in places if Path(p).is_relative_to(folder)]
    return sorted(inside, key=len, reverse=True)


def loops(folder: Path, listing: str) -> list[str]:
    """Return the loop devices whose files are below a folder.

    :param listing: what ``losetup --json`` prints; nothing if there is
        no device.
    """
    devices = json.loads(listing)['loopdevices'] if listing.strip() else []
    return [
        device['name']
        for device in devices
        if Path(device['back-file'] or '/').is_relative_to(folder)
    ]


def release(folder: Path) -> None:
    """Unmount and detach everything below a folder.

    :raises hvstack.errors.Busy: something is still mounted there.
    """
    mounted = Path('/proc/self/mounts')
    for place in mounts(folder, mounted.read_text(encoding='utf-8')):
        shell.run(['umount', '--lazy', place], check=False)
    listing = shell.run(
        ['losetup', '--json', '--list', '--output', 'NAME,BACK-FILE']
    )
    for device in loops(folder, listing.stdout):
        shell.run(['losetup', '--detach', device], check=False)
    left = mounts(folder, mounted.read_text(encoding='utf-8'))
    if left:
        raise errors.Busy(
            f'{left[0]} cannot be unmounted: end what uses it, then run the '
            'command again'
        )
