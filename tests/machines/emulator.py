# SPDX-License-Identifier: Apache-2.0
"""Boot a machine's disk under QEMU and run commands in it."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from hvstack import errors, pid_files, processutils

#: Kernel arguments that boot without systemd, see the file.
WITHOUT_SYSTEMD = 'init=/root/hvstack/tests/machines/init'
_KERNEL_ARGS = 'root=/dev/vda rw console=ttyS0 mitigations=off'


class Emulator:
    """One emulated machine.

    :param work_dir: directory with its disk, kernel and initrd.
    """

    def __init__(self, work_dir: Path) -> None:
        self.work_dir = work_dir
        self.pid_file = work_dir / 'qemu.json'
        self.port_file = work_dir / 'port'

    def boot(self, memory_mib: int, cpus: int, kernel_args: str = '') -> None:
        """Start the machine and wait until it answers.

        :param memory_mib: the machine's memory; a balloon returns what it
            does not use.
        :param cpus: number of CPUs.
        :param kernel_args: additional kernel arguments.
        :raises hvstack.errors.CommandFailed: QEMU does not start.
        :raises hvstack.errors.DeadlineExceeded: the machine does not answer.
        """
        self.power_off()
        with socket.create_server(('127.0.0.1', 0)) as free:
            port = free.getsockname()[1]
        self.port_file.write_text(str(port))
        disk = self.work_dir / 'disk.raw'
        process = subprocess.Popen(
            [
                *('nice', '-n', '10', 'qemu-system-x86_64', '-M', 'q35'),
                *('-cpu', 'max', '-accel', 'tcg,thread=multi,tb-size=512'),
                *('-smp', str(cpus), '-m', str(memory_mib)),
                *('-kernel', str(self.work_dir / 'vmlinuz')),
                *('-initrd', str(self.work_dir / 'initrd.img')),
                *('-append', f'{_KERNEL_ARGS} {kernel_args}'),
                '-drive',
                f'file={disk},if=virtio,format=raw,cache=unsafe,discard=unmap',
                '-netdev',
                f'user,id=lan,hostfwd=tcp:127.0.0.1:{port}-:22',
                *('-device', 'virtio-net-pci,netdev=lan'),
                *('-device', 'virtio-rng-pci'),
                '-device',
                'virtio-balloon-pci,deflate-on-oom=on,free-page-reporting=on',
                *('-display', 'none', '-monitor', 'none'),
                *('-serial', f'file:{self.work_dir / "serial.log"}'),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.work_dir / 'qemu.log').open('w'),
            start_new_session=True,
        )
        pid_files.write(self.pid_file, process.pid)

        def answers() -> bool:
            if process.poll() is not None:
                raise errors.CommandFailed(
                    ['qemu-system-x86_64'],
                    process.returncode,
                    (self.work_dir / 'qemu.log').read_text(),
                )
            return (
                processutils.run(self.ssh('true'), check=False).returncode == 0
            )

        processutils.wait_for(
            answers,
            f'the machine in {self.work_dir} to answer',
            timeout=900,
            interval=5,
            get_reason=self.console_tail,
        )

    def console_tail(self) -> str:
        """Return the last lines of the machine's console."""
        text = (self.work_dir / 'serial.log').read_text(errors='replace')
        return processutils.tail(text)

    def ssh(self, command: str) -> list[str]:
        """Return the command that runs a shell command in the machine."""
        return [
            *('ssh', '-i', str(self.work_dir / 'id_ed25519')),
            *('-p', self.port_file.read_text(), '-o', 'BatchMode=yes'),
            *('-o', 'ConnectTimeout=60', '-o', 'ServerAliveInterval=60'),
            # The machine is new, and reached on the loopback address.
            *('-o', 'StrictHostKeyChecking=no', '-o', 'LogLevel=ERROR'),
            *('-o', 'UserKnownHostsFile=/dev/null', 'root@127.0.0.1'),
            command,
        ]

    def run(self, command: str, timeout: float) -> None:
        """Run a shell command in the machine; its output is shown.

        :param timeout: seconds until the connection is closed.
        :raises hvstack.errors.CommandFailed: the command failed.
        :raises hvstack.errors.DeadlineExceeded: it took too long.
        """
        try:
            subprocess.run(self.ssh(command), timeout=timeout, check=True)
        except subprocess.CalledProcessError as exc:
            raise errors.CommandFailed(
                [command], exc.returncode, 'see above'
            ) from exc
        except subprocess.TimeoutExpired as exc:
            raise errors.DeadlineExceeded(
                f"'{command}' did not end within {timeout:.0f} s"
            ) from exc

    def power_off(self) -> None:
        """Shut the machine down; end QEMU if the machine does not."""
        pid = pid_files.read(self.pid_file)
        if pid is None:
            return
        processutils.run(
            self.ssh('sync; busybox poweroff -f'), check=False, timeout=120
        )
        limit = time.monotonic() + 60
        while pid_files.read(self.pid_file) and time.monotonic() < limit:
            time.sleep(1)
        if pid_files.read(self.pid_file):
            os.kill(pid, signal.SIGKILL)
        self.pid_file.unlink(missing_ok=True)
