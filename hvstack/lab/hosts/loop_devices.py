# SPDX-License-Identifier: Apache-2.0
"""The machine's loop devices on files of lab hosts."""

import json
import os
import re
from pathlib import Path

from hvstack import processutils

#: A guest's disk that was removed while a host without power still held it.
_LOST_DISK = re.compile(r'/([0-9a-f-]{36}/disk\S*|bare\.raw) \(deleted\)')


def detach(below: Path) -> None:
    """Detach the machine's loop devices whose files are below a directory.

    Found by file system and inode: of a mount namespace that is gone, the
    kernel shows paths without the directory they were in.
    """
    columns = 'NAME,BACK-MAJ:MIN,BACK-INO,BACK-FILE'
    listing = processutils.run(
        ['losetup', '--json', '-O', columns], check=False
    ).stdout
    if not listing.strip() or not below.exists():
        return
    files = {
        _file_identity(path)
        for pattern in ('**/bare.raw', '**/nova/instances/*/disk*')
        for path in below.glob(pattern)
    }
    file_system, _ = _file_identity(below)
    for entry in json.loads(listing)['loopdevices']:
        file = str(entry['back-file'])
        # losetup pads the number of the device with blanks.
        device = str(entry['back-maj:min']).strip()
        identity = device, str(entry['back-ino'])
        is_lost = device == file_system and _LOST_DISK.fullmatch(file)
        if identity in files or file.startswith(f'{below}/') or is_lost:
            processutils.run(
                ['losetup', '--detach', entry['name']], check=False
            )


def _file_identity(path: Path) -> tuple[str, str]:
    """Return file system and inode of a file, as losetup prints them."""
    status = path.stat()
    device = f'{os.major(status.st_dev)}:{os.minor(status.st_dev)}'
    return device, str(status.st_ino)
