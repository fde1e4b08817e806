# SPDX-License-Identifier: Apache-2.0
"""Machines under User Mode Linux: a kernel that is an ordinary process.

Programs run at native speed; only system calls and page faults are slow.
The kernel is built from Debian's source, because Debian's own package lacks
the cgroup controller cpuset, which is only in a kernel for several CPUs. The
machine has one: with two, system calls and page faults are slower still.
"""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

from hvstack import processutils
from tests.machines import disk, emulator

#: Release with a kernel of version 6.19 or later.
SUITE = 'sid'
OPTIONS = Path(__file__).parent / 'uml.config'
_HOUR = 3600
_KERNEL_ARGS = (
    *('root=/dev/ubda', 'rw', 'seccomp=on', 'noreboot'),
    *('con=null', 'con0=null,fd:1', 'ssl=null'),
    *('systemd.getty_auto=no', 'systemd.mask=getty@tty1.service'),
)
#: The namespace ends with the kernel, and the network with the namespace.
_START = """
slirp4netns --target-type=bess --disable-host-loopback \\
    --api-socket=api.sock net.sock &
"$@"
"""


class UserMode(emulator.Emulator):
    """One machine under User Mode Linux."""

    PACKAGES = (
        *('mmdebstrap', 'slirp4netns', 'e2fsprogs', 'openssh-client'),
        *('build-essential', 'flex', 'bison', 'bc'),
    )

    def prepare(self) -> None:
        """Build the kernel, unless it was built with the same options."""
        work_dir = self.work_dir.parent / 'uml-kernel'
        kernel, built = work_dir / 'linux', work_dir / 'built.config'
        if not built.exists() or built.read_text() != OPTIONS.read_text():
            shutil.rmtree(work_dir, ignore_errors=True)
            work_dir.mkdir(parents=True)
            build(work_dir)
            shutil.copy(OPTIONS, built)
        shutil.copy(kernel, self.work_dir / 'linux')

    def start(
        self, memory_mib: int, kernel_args: str, port: int
    ) -> subprocess.Popen[bytes]:
        """Start the kernel; its memory is a deleted file next to the disk."""
        api = self.work_dir / 'api.sock'
        for path in (api, self.work_dir / 'net.sock'):
            path.unlink(missing_ok=True)
        with self.log.open('w') as log, self.console.open('w') as console:
            process = subprocess.Popen(
                [
                    *('nice', '-n', '10', 'unshare', '--pid', '--fork'),
                    *('--kill-child', '--mount-proc', 'sh', '-c', _START),
                    *('sh', './linux', f'mem={memory_mib}M', 'ncpus=1'),
                    *('ubd0=disk.raw', 'vec0:transport=bess,dst=net.sock'),
                    *(*_KERNEL_ARGS, *kernel_args.split()),
                ],
                cwd=self.work_dir,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=log,
                start_new_session=True,
                env={
                    'PATH': os.environ['PATH'],
                    'HOME': str(self.work_dir),
                    'TMPDIR': str(self.work_dir),
                },
            )
        try:
            processutils.wait_for(
                lambda: process.poll() is not None or forward(api, port),
                'slirp4netns to forward a port',
                timeout=60,
                interval=0.2,
            )
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process


def forward(api: Path, port: int) -> bool:
    """Forward a port of the loopback address to the machine's SSH server.

    :param api: socket of slirp4netns.
    :returns: whether slirp4netns answers and accepts it.
    """
    request = {
        'execute': 'add_hostfwd',
        'arguments': {
            'proto': 'tcp',
            'host_addr': '127.0.0.1',
            'host_port': port,
            'guest_addr': disk.UML_ADDRESS,
            'guest_port': 22,
        },
    }
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(api))
        except OSError:
            return False
        client.sendall(json.dumps(request).encode())
        client.shutdown(socket.SHUT_WR)
        return 'return' in json.loads(client.recv(4096))


def build(work_dir: Path) -> None:
    """Build the kernel from Debian's source package.

    :param work_dir: empty directory.
    """
    package, source = work_dir / 'package', work_dir / 'source'
    processutils.run(
        [
            *('unshare', '-m', 'mmdebstrap', '--quiet', '--mode=root'),
            *('--variant=extract', '--include=linux-source'),
            # A mirror of unstable may be older than its lists are valid.
            '--aptopt=Acquire::Check-Valid-Until "false"',
            *(SUITE, package),
        ]
    )
    [archive] = package.glob('usr/src/linux-source-*.tar.xz')
    source.mkdir()
    processutils.run(
        ['tar', '-xJf', archive, '-C', source, '--strip-components=1']
    )
    shutil.rmtree(package)
    make = ('nice', '-n', '10', 'make', '-s', 'ARCH=um', '-C', str(source))
    processutils.run([*make, 'x86_64_defconfig'])
    with (source / '.config').open('a') as config:
        config.write(OPTIONS.read_text())
    processutils.run([*make, 'olddefconfig'])
    processutils.run(
        [*make, f'-j{os.cpu_count()}', 'linux'], timeout=4 * _HOUR
    )
    processutils.run(['strip', '-o', work_dir / 'linux', source / 'linux'])
    shutil.rmtree(source)
