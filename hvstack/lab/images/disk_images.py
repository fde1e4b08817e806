# SPDX-License-Identifier: Apache-2.0
"""File systems and disks made from a directory: no mount, no loop device."""

import os
import shutil
import stat
import struct
from pathlib import Path

from hvstack import errors, processutils
from hvstack.lab.images import kernel

MIB = 1024 * 1024
SECTOR = 512
#: Size of a block of the file systems.
BLOCK = 4096
#: Where the first partition begins, as every partitioner has it: GRUB's core
#: fits before it.
FIRST_SECTOR = MIB // SECTOR


def content_mib(root: Path) -> int:
    """Return the room that a directory's files take in ext4, in MiB.

    The blocks that they take here can be fewer, in a file system that
    compresses them. Other file systems below the directory do not count.
    """
    device = root.stat().st_dev
    pending = [str(root)]
    linked_inodes: set[int] = set()
    blocks = 0
    while pending:
        blocks += 1
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if status.st_dev != device:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    pending.append(entry.path)
                elif status.st_ino not in linked_inodes:
                    blocks += -(-status.st_size // BLOCK)
                    if status.st_nlink > 1:
                        linked_inodes.add(status.st_ino)
    return -(-blocks * BLOCK // MIB)


def make_ext4(
    root: Path,
    target: Path,
    *,
    size_mib: int,
    journal_mib: int,
    offset: int = 0,
) -> None:
    """Write a directory as an ext4 file system into a file.

    No block is reserved for root, who owns every process in a guest. Block
    size and inodes are fixed, as mke2fs takes others for small file systems,
    and they stay when Nova grows it.

    :param offset: bytes before the file system in the file.
    """
    argv = ['mke2fs', '-q', '-F', '-t', 'ext4', '-L', 'hvstack-root']
    argv += ['-b', str(BLOCK), '-i', '16384', '-I', '256', '-m', '0']
    argv += ['-J', f'size={journal_mib}', '-d', str(root)]
    extended = 'root_owner=0:0' + (f',offset={offset}' if offset else '')
    argv += ['-E', extended, str(target), f'{size_mib}M']
    processutils.run(argv)


def file_system_mib(root: Path, *, slack_mib: int, journal_mib: int) -> int:
    """Return the size that a directory's file system needs, in MiB."""
    # Inodes, bitmaps and directories take a few percent.
    return int(content_mib(root) * 1.06) + journal_mib + slack_mib + 4


def make_qcow2(
    root: Path,
    target: Path,
    boot: kernel.Kernel,
    *,
    slack_mib: int,
    journal_mib: int,
    work_dir: Path,
) -> None:
    """Write a directory as a disk that a PC's BIOS boots.

    :param root: the root file system; kernel and RAM disk are added to it.
    :param boot: kernel and boot loader.
    :param work_dir: a directory for the raw disk, which is removed.
    """
    (root / 'boot').mkdir(exist_ok=True)
    shutil.copyfile(boot.image, root / 'boot/vmlinuz')
    kernel.write_initramfs(boot, root / 'boot/initrd')
    size = file_system_mib(root, slack_mib=slack_mib, journal_mib=journal_mib)
    raw = work_dir / 'disk.raw'
    raw.unlink(missing_ok=True)
    with raw.open('wb') as stream:
        stream.truncate(FIRST_SECTOR * SECTOR + size * MIB)
    make_ext4(
        root,
        raw,
        size_mib=size,
        journal_mib=journal_mib,
        offset=FIRST_SECTOR * SECTOR,
    )
    write_boot(raw, *kernel.boot_sectors(boot), sectors=size * MIB // SECTOR)
    processutils.run(['qemu-img', 'convert', '-O', 'qcow2', raw, target])
    raw.unlink()


def write_boot(disk: Path, first: bytes, core: bytes, *, sectors: int) -> None:
    """Write boot loader and partition table of a disk with one partition.

    :param first: the boot loader's first sector, its code alone is taken.
    :param core: second part of the boot loader.
    :param sectors: size of the partition.
    :raises hvstack.errors.HVStackError: the boot loader is too long.
    """
    if len(core) > (FIRST_SECTOR - 1) * SECTOR:
        raise errors.HVStackError(
            f'Cannot write GRUB to the image: it needs {len(core)} bytes, '
            'more than the space before the first partition. Use fewer '
            'modules.'
        )
    entry = struct.pack(
        '<B3sB3sII',
        0x80,
        b'\xfe\xff\xff',
        0x83,
        b'\xfe\xff\xff',
        FIRST_SECTOR,
        sectors,
    )
    table = entry + bytes(48) + b'\x55\xaa'
    with disk.open('r+b') as stream:
        # Up to the disk's signature, which precedes the table.
        stream.write(first[:440].ljust(440, b'\0'))
        stream.write(struct.pack('<IH', 0x68767374, 0))
        stream.write(table)
        stream.write(core)
