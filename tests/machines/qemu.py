# SPDX-License-Identifier: Apache-2.0
"""Machines under QEMU's emulation, with the kernel of their release.

They have the modules of this kernel and, with AMD's SVM emulated, /dev/kvm.
"""

import shutil
import subprocess

from tests.machines import emulator

_KERNEL_ARGS = 'root=/dev/vda rw console=ttyS0 mitigations=off'


class Qemu(emulator.Emulator):
    """One machine under QEMU, about 20 times slower."""

    PACKAGES = ('mmdebstrap', 'qemu-system-x86', 'e2fsprogs', 'openssh-client')
    #: Arguments for the machine's CPUs.
    CPUS: tuple[str, ...] = ('-smp', '2')

    def prepare(self) -> None:
        """Copy the kernel of the machine's release."""
        for name in ('vmlinuz', 'initrd.img'):
            newest = sorted(self.work_dir.glob(f'root/boot/{name}-*'))[-1]
            shutil.copy(newest, self.work_dir / name)

    def start(
        self, memory_mib: int, kernel_args: str, port: int
    ) -> subprocess.Popen[bytes]:
        """Start QEMU; a balloon returns memory that the machine frees."""
        disk = self.work_dir / 'disk.raw'
        with self.log.open('w') as log:
            return subprocess.Popen(
                [
                    *('nice', '-n', '10', 'qemu-system-x86_64', '-M', 'q35'),
                    # With five levels of page tables, QEMU 7.2 and Linux
                    # 6.1.176 show paths in /proc as 'xxx'.
                    *('-cpu', 'max,la57=off'),
                    *('-accel', 'tcg,thread=multi,tb-size=512'),
                    *(*self.CPUS, '-m', str(memory_mib)),
                    *('-kernel', str(self.work_dir / 'vmlinuz')),
                    *('-initrd', str(self.work_dir / 'initrd.img')),
                    *('-append', f'{_KERNEL_ARGS} {kernel_args}'),
                    '-drive',
                    f'file={disk},if=virtio,format=raw,cache=unsafe,'
                    'discard=unmap',
                    '-netdev',
                    f'user,id=lan,hostfwd=tcp:127.0.0.1:{port}-:22',
                    *('-device', 'virtio-net-pci,netdev=lan'),
                    *('-device', 'virtio-rng-pci'),
                    '-device',
                    'virtio-balloon-pci,deflate-on-oom=on,'
                    'free-page-reporting=on',
                    *('-display', 'none', '-monitor', 'none'),
                    *('-serial', f'file:{self.console}'),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )


class Kvm(Qemu):
    """One machine under QEMU with eight CPUs in two NUMA cells."""

    CPUS = (
        *('-smp', '8,sockets=2,cores=4,threads=1'),
        *('-object', 'memory-backend-memfd,id=cell0,size=8G'),
        *('-object', 'memory-backend-memfd,id=cell1,size=8G'),
        *('-numa', 'node,cpus=0-3,memdev=cell0'),
        *('-numa', 'node,cpus=4-7,memdev=cell1'),
    )
