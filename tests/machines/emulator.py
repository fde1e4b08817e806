# SPDX-License-Identifier: Apache-2.0
"""Boot a machine's disk and run commands in it."""

import abc
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from hvstack import errors, pid_files, processutils

#: Kernel arguments that boot without systemd, see the file.
WITHOUT_SYSTEMD = 'init=/root/hvstack/tests/machines/init'


class Emulator(abc.ABC):
    """One machine that boots for real.

    :param work_dir: directory with its disk and its kernel.
    """

    #: Debian packages of this machine that the test needs.
    PACKAGES: tuple[str, ...]

    def __init__(self, work_dir: Path) -> None:
        self.work_dir = work_dir
        self.pid_file = work_dir / 'machine.json'
        self.port_file = work_dir / 'port'
        self.log = work_dir / 'emulator.log'
        self.console = work_dir / 'serial.log'

    @abc.abstractmethod
    def prepare(self) -> None:
        """Put the kernel into the work directory.

        The root directory of the machine is already there.
        """

    @abc.abstractmethod
    def start(
        self, memory_mib: int, kernel_args: str, port: int
    ) -> subprocess.Popen[bytes]:
        """Start the machine's process.

        :param memory_mib: the machine's memory.
        :param kernel_args: additional kernel arguments.
        :param port: port on the loopback address that leads to the machine's
            SSH server.
        :returns: a process that runs as long as the machine.
        """

    def boot(self, memory_mib: int, kernel_args: str = '') -> None:
        """Start the machine and wait until it answers.

        :param memory_mib: the machine's memory.
        :param kernel_args: additional kernel arguments.
        :raises hvstack.errors.CommandError: the machine does not start.
        :raises hvstack.errors.DeadlineExceededError: the machine does not
            answer.
        """
        self.power_off()
        with socket.create_server(('127.0.0.1', 0)) as free:
            port = free.getsockname()[1]
        self.port_file.write_text(str(port))
        process = self.start(memory_mib, kernel_args, port)
        pid_files.write(self.pid_file, process.pid)
        processutils.wait_for(
            lambda: (
                process.poll() is not None
                or processutils.run(self.ssh('true'), check=False).returncode
                == 0
            ),
            f'the machine in {self.work_dir} to answer',
            timeout=900,
            interval=5,
            get_reason=self.console_tail,
        )
        if process.poll() is not None:
            raise errors.CommandError(
                [type(self).__name__],
                process.returncode,
                self.log.read_text() + self.console_tail(),
            )

    def console_tail(self) -> str:
        """Return the last lines of the machine's console."""
        text = self.console.read_text(errors='replace')
        return processutils.tail(text)

    def ssh(self, command: str) -> list[str]:
        """Return the command that runs a shell command in the machine."""
        return [
            *('ssh', '-i', str(self.work_dir / 'id_ed25519')),
            *('-p', self.port_file.read_text(), '-o', 'BatchMode=yes'),
            *('-o', 'ConnectTimeout=60', '-o', 'ServerAliveInterval=60'),
            # A machine that is silent for minutes still executes the command.
            *('-o', 'ServerAliveCountMax=30'),
            # The machine is new, and reached on the loopback address.
            *('-o', 'StrictHostKeyChecking=no', '-o', 'LogLevel=ERROR'),
            *('-o', 'UserKnownHostsFile=/dev/null', 'root@127.0.0.1'),
            command,
        ]

    def run(self, command: str, timeout: float) -> None:
        """Run a shell command in the machine; its output is shown.

        :param timeout: seconds until the connection is closed.
        :raises hvstack.errors.CommandError: the command failed.
        :raises hvstack.errors.DeadlineExceededError: it took too long.
        """
        try:
            subprocess.run(self.ssh(command), timeout=timeout, check=True)
        except subprocess.CalledProcessError as exc:
            raise errors.CommandError(
                [command], exc.returncode, 'see above'
            ) from exc
        except subprocess.TimeoutExpired as exc:
            raise errors.DeadlineExceededError(
                f"'{command}' did not end within {timeout:.0f} s"
            ) from exc

    def power_off(self) -> None:
        """Shut the machine down; kill its process if that does not."""
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
