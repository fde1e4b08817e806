# SPDX-License-Identifier: Apache-2.0
"""What local volumes need of the machine's kernel.

Each part is a module, or built into the kernel. Modules that the lab loads
stay until the machine boots again, because other programs may use them, too.
"""

import os
from pathlib import Path

from hvstack import errors, processutils

#: Module, what it is for, and a file that exists where it is in the kernel.
PARTS = (
    ('loop', 'disks of files', '/dev/loop-control'),
    ('dm-mod', 'LVM', '/dev/mapper/control'),
    ('configfs', 'the NVMe target', '/sys/kernel/config'),
    ('nvmet', 'the NVMe target', '/sys/kernel/config/nvmet'),
    ('nvmet-tcp', 'the NVMe target over TCP', '/sys/module/nvmet_tcp'),
    ('nvme-tcp', 'the NVMe initiator over TCP', '/sys/module/nvme_tcp'),
)
_CONFIGFS = Path('/sys/kernel/config')
_MOUNTS = Path('/proc/self/mounts')
_ROOT = Path('/')


def _exists(file: str) -> bool:
    return (_ROOT / file[1:]).exists()


def _modprobe(name: str, *options: str) -> bool:
    """Return whether modprobe finds a module, or loads it."""
    try:
        done = processutils.run(
            ['modprobe', '--quiet', *options, name], check=False
        )
    except errors.CommandError:
        # A machine without kmod has no modules.
        return False
    return done.returncode == 0


def find_missing() -> str:
    """Return the first module that the kernel lacks, and what it is for.

    Nothing is loaded. The text is empty if the kernel lacks none.
    """
    for name, purpose, file in PARTS:
        if not _exists(file) and not _modprobe(name, '--dry-run'):
            return f'{name} ({purpose})'
    return ''


def check() -> None:
    """Refuse a kernel without what local volumes need.

    :raises hvstack.errors.MissingPrerequisiteError: with the module.
    """
    missing = find_missing()
    if missing:
        raise errors.MissingPrerequisiteError(
            f'Cannot use --with lvm: the kernel {os.uname().release} has no '
            f'module {missing}. Use a machine whose kernel has it, such as '
            'that of Debian, or --with ceph.'
        )


def load() -> None:
    """Load all modules, and mount configfs if it is not mounted.

    :raises hvstack.errors.MissingPrerequisiteError: a module cannot be
        loaded.
    """
    for name, purpose, file in PARTS:
        _modprobe(name)
        if name == 'configfs':
            _mount_configfs()
        if not _exists(file):
            raise errors.MissingPrerequisiteError(
                f'Cannot load the module {name} ({purpose}): {file} does not '
                f"exist. Run 'modprobe {name}' to see the reason."
            )


def _mount_configfs() -> None:
    lines = _MOUNTS.read_text(encoding='utf-8', errors='replace').splitlines()
    if not any(line.split(' ')[1:2] == [str(_CONFIGFS)] for line in lines):
        processutils.run(['mount', '-t', 'configfs', 'configfs', _CONFIGFS])
