# SPDX-License-Identifier: Apache-2.0
"""Make the cache that was copied to a disk hvstack's own.

``python -m tests.machines.claim`` as root in a machine. The stamp of a
directory contains its inode number, which the copy does not have, so that
``hvstack lab destroy`` would refuse to delete the cache.
"""

import shutil

from hvstack import paths
from tests.machines import disk


def main() -> None:
    """Move the cache into a directory that hvstack created.

    Outside a machine that the tests built, the directory may be another
    program's: nothing is moved there.
    """
    disk.require_test_machine('move the cache')
    if paths.is_owned(paths.CACHE) or not paths.CACHE.exists():
        return
    copy = paths.CACHE.with_name('hvstack-copy')
    paths.CACHE.rename(copy)
    paths.make_directory(paths.CACHE)
    for entry in copy.iterdir():
        if entry.name != paths.STAMP:
            entry.rename(paths.CACHE / entry.name)
    shutil.rmtree(copy)


if __name__ == '__main__':
    main()
