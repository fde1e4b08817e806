# SPDX-License-Identifier: Apache-2.0
"""Is this a machine that can carry a lab?"""

import os
import shutil
from pathlib import Path

from hvstack import errors, paths
from hvstack.lab import packages

#: Free disk space that a lab and its guests need, in GiB.
DISK_GIB = 15
#: Memory of the smallest machine that a lab makes sense on, in GiB.
MEMORY_GIB = 7
_HINT = "or use a cloud of your own with '--os-cloud NAME'"


def check() -> None:
    """Refuse a machine that cannot carry a lab, before anything is changed.

    :raises hvstack.errors.MissingPrerequisite: with the remedy.
    """
    if os.geteuid() != 0:
        raise errors.MissingPrerequisite(
            f'the lab needs root: run the command with sudo, {_HINT}'
        )
    if packages.distribution() is None:
        raise errors.MissingPrerequisite(
            'the lab needs Debian or Ubuntu (apt, dpkg): take such a '
            f'machine, {_HINT}'
        )
    memory = memory_gib()
    if memory < MEMORY_GIB:
        raise errors.MissingPrerequisite(
            f'the lab needs {MEMORY_GIB} GiB of memory, this machine has '
            f'{memory:.1f}: take a larger one, {_HINT}'
        )
    check_disk()


def check_disk() -> None:
    """Refuse to go on where the disk is nearly full.

    :raises hvstack.errors.MissingPrerequisite: with the folder and sizes.
    """
    for folder in (paths.STATE, paths.CACHE):
        free = free_gib(folder)
        if free < DISK_GIB:
            raise errors.MissingPrerequisite(
                f'{folder} has {free:.1f} GiB of free disk space and the lab '
                f'needs {DISK_GIB}: free some, or mount a larger disk there'
            )


def free_gib(folder: Path) -> float:
    """Return the free space, in GiB, where a folder is or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free / 2**30


def memory_gib() -> float:
    """Return the machine's memory in GiB."""
    pages = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    return pages / 2**30
