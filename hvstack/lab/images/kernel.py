# SPDX-License-Identifier: Apache-2.0
"""Kernel, initial RAM disk and boot loader of machines.

All come from Debian's packages in a tree of their own; their programs run in
that tree. The initial RAM disk of virtual machines is hvstack's. That of
physical machines is Debian's, with the drivers of all disks and networks.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hvstack import errors, processutils
from hvstack.lab.images import recipes, rootfs

#: Drivers that a guest may need, with what they depend on: disk, network,
#: random numbers, console, config drive, power button. Of virtual functions
#: (SR-IOV), the cloud kernel of Debian 12 has no more drivers than these, and
#: it has no ahci, on which a machine of the type q35 has its CD-ROMs by
#: default. A change needs another name of the disk in
#: :data:`hvstack.lab.images.store.OUTPUTS`.
MODULES = (
    'virtio_pci',
    'virtio_blk',
    'virtio_scsi',
    'virtio_net',
    'mlx5_core',
    'mlx4_en',
    'ixgbevf',
    'virtio_rng',
    'virtio_console',
    'virtio_balloon',
    'ext4',
    'xfs',
    'ata_piix',
    'ahci',
    'sd_mod',
    'sr_mod',
    'isofs',
    'vfat',
    'nls_ascii',
    'nls_cp437',
    'button',
    'evdev',
)
#: Modules of GRUB that starting a kernel from the first partition takes.
GRUB = ('biosdisk', 'part_msdos', 'ext2', 'linux', 'boot')
_GRUB_CONFIG = """\
set root=(hd0,msdos1)
linux /boot/vmlinuz {arguments}
initrd /boot/initrd
boot
"""
_ARGUMENTS = 'root=/dev/vda1 rw net.ifnames=0 quiet console=tty0 console=ttyS0'
#: A physical machine finds its root file system by the label: the name of the
#: disk depends on the controller, which needs time to find its disks. Debian's
#: initial RAM disk passes an unknown argument to init as a variable.
_HARDWARE_ARGUMENTS = (
    'root=LABEL=hvstack-root rw rootdelay=180 net.ifnames=0 quiet '
    'console=tty0 console=ttyS0,115200 HVSTACK_MACHINE=1'
)


@dataclass(frozen=True)
class Kernel:
    """A tree with Debian's kernel and boot loader, while it is unpacked.

    :param root: the tree.
    :param version: the kernel's, as ``uname -r`` says it.
    :param hardware: whether it is for physical machines, too.
    """

    root: Path
    version: str
    hardware: bool = False

    @property
    def image(self) -> Path:
        """The kernel itself."""
        return self.root / 'boot' / f'vmlinuz-{self.version}'


@contextmanager
def unpacked(
    work_dir: Path, base: recipes.Base = recipes.KERNEL
) -> Iterator[Kernel]:
    """Give kernel and boot loader; the tree is removed afterwards.

    :param work_dir: a directory to unpack in.
    :param base: packages with the kernel.
    :raises hvstack.errors.MissingPrerequisiteError: the packages hold no
        kernel.
    """
    root = work_dir / 'kernel'
    rootfs.unpack(rootfs.base(base, work_dir), root)
    try:
        images = sorted((root / 'boot').glob('vmlinuz-*'))
        if not images:
            raise errors.MissingPrerequisiteError(
                "Cannot build the kernel: Debian's "
                f'{base.packages[0]} contains no kernel. Run '
                "'apt-get update', then the command again."
            )
        version = images[-1].name.removeprefix('vmlinuz-')
        processutils.run(['chroot', root, 'depmod', version])
        yield Kernel(root, version, base == recipes.HARDWARE_KERNEL)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def modules(kernel: Kernel) -> list[Path]:
    """Return the files of :data:`MODULES` with what they need, in order.

    What the kernel has built in, or was built without, is left out.
    """
    directory = kernel.root / 'lib/modules' / kernel.version
    needs: dict[str, list[str]] = {}
    for line in (
        (directory / 'modules.dep').read_text(encoding='utf-8').splitlines()
    ):
        name, _, dependencies = line.partition(':')
        needs[name] = dependencies.split()
    by_name = {
        Path(name).name.partition('.')[0].replace('-', '_'): name
        for name in needs
    }
    order: list[str] = []
    for module in MODULES:
        module_path = by_name.get(module)
        if module_path:
            # modules.dep names the last to be loaded first.
            order += [*reversed(needs[module_path]), module_path]
    # dict.fromkeys keeps the first place of each.
    return [directory / name for name in dict.fromkeys(order)]


def write_initramfs(kernel: Kernel, target: Path) -> None:
    """Write an initial RAM disk.

    Its program mounts the root file system and hands over to it. That of a
    virtual machine uses the first disk. That of a physical machine loads the
    drivers of its devices first.
    """
    if kernel.hardware:
        _write_debian_initramfs(kernel, target)
        return
    tree = kernel.root / 'initramfs'
    shutil.rmtree(tree, ignore_errors=True)
    (tree / 'modules').mkdir(parents=True)
    (tree / 'bin').mkdir()
    shutil.copy2(kernel.root / 'bin/busybox', tree / 'bin/busybox')
    shutil.copy2(recipes.FILES / 'initramfs/init', tree / 'init')
    (tree / 'init').chmod(0o755)
    order = []
    for path in modules(kernel):
        shutil.copy2(path, tree / 'modules' / path.name)
        order.append(f'/modules/{path.name}\n')
    (tree / 'modules/order').write_text(''.join(order), encoding='utf-8')
    pack = (
        'b=/bin/busybox; cd /initramfs && '
        '$b find . | $b cpio -o -H newc 2>/dev/null | $b gzip -1 >/initrd'
    )
    processutils.run(['chroot', kernel.root, '/bin/busybox', 'sh', '-c', pack])
    shutil.copyfile(kernel.root / 'initrd', target)


def _write_debian_initramfs(kernel: Kernel, target: Path) -> None:
    """Write an initial RAM disk with the drivers of physical machines.

    These are the drivers of ``MODULES=most`` in initramfs-tools, its default,
    with their firmware. :data:`MODULES` are loaded also without a device that
    needs them, such as a file system.
    """
    (kernel.root / 'etc/initramfs-tools/modules').write_text(
        ''.join(f'{module}\n' for module in MODULES), encoding='utf-8'
    )
    processutils.run(
        [
            'chroot',
            kernel.root,
            'mkinitramfs',
            '-o',
            '/initrd',
            kernel.version,
        ],
        timeout=900,
    )
    shutil.copyfile(kernel.root / 'initrd', target)


def boot_sectors(kernel: Kernel) -> tuple[bytes, bytes]:
    """Return GRUB's first sector, and what goes into the sectors after it."""
    grub_dir = 'usr/lib/grub/i386-pc'
    arguments = _HARDWARE_ARGUMENTS if kernel.hardware else _ARGUMENTS
    (kernel.root / 'boot.cfg').write_text(
        _GRUB_CONFIG.format(arguments=arguments), encoding='utf-8'
    )
    processutils.run(
        [
            *('chroot', kernel.root, 'grub-mkimage', '-O', 'i386-pc'),
            *('-d', f'/{grub_dir}', '-p', '/boot/grub', '-c', '/boot.cfg'),
            *('-o', '/core.img', *GRUB),
        ]
    )
    first = (kernel.root / grub_dir / 'boot.img').read_bytes()
    return first, (kernel.root / 'core.img').read_bytes()
