# SPDX-License-Identifier: Apache-2.0
"""Nodes reached by the ssh program."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from hvstack import paths, shell
from hvstack.cluster.base import ShellNode

_CONNECT_SECONDS = 10


@dataclass(frozen=True)
class SSHNode(ShellNode):
    """A node reached by ssh as root with a key.

    :param key: private key file.
    :param folder: of the cluster: its known hosts and sockets. A new
        cluster takes a new one, since addresses come back with other host
        keys.
    :param known_hosts: file with the host keys; an unknown or another key is
        refused. None accepts the key of the first contact, and keeps it in
        ``folder``.
    """

    key: Path = Path()
    folder: Path = Path()
    known_hosts: Path | None = None

    def options(self) -> list[str]:
        """Return ssh's options: nothing is asked, nothing of a user's."""
        checking = 'yes' if self.known_hosts else 'accept-new'
        known_hosts = self.known_hosts or self.folder / 'known_hosts'
        return [
            *('-F', '/dev/null', '-i', str(self.key)),
            *('-o', 'IdentitiesOnly=yes', '-o', 'BatchMode=yes'),
            *('-o', f'StrictHostKeyChecking={checking}'),
            *('-o', f'UserKnownHostsFile={known_hosts}'),
            *('-o', 'GlobalKnownHostsFile=/dev/null'),
            *('-o', f'ConnectTimeout={_CONNECT_SECONDS}'),
            *('-o', 'ServerAliveInterval=10', '-o', 'ServerAliveCountMax=6'),
            *('-o', 'LogLevel=ERROR'),
            *('-o', f'ControlPath={self.folder}/%C'),
        ]

    def argv(self, command: str) -> list[str]:
        """Return the ssh command line; the first one opens a connection."""
        self._connect()
        return [
            *('ssh', *self.options(), '-o', 'ControlMaster=no'),
            *(f'root@{self.address}', command),
        ]

    def _connect(self) -> None:
        """Open the connection that all commands share, if it is not open.

        By itself and with its output elsewhere: a master that a command
        started would keep that command's pipes open.
        """
        target = f'root@{self.address}'
        check = ['ssh', *self.options(), '-O', 'check', target]
        if shell.run(check, check=False, timeout=30).returncode == 0:
            return
        paths.make_directory(self.folder)
        opened = ['ssh', *self.options(), '-M', '-N', '-f', target]
        shell.run(
            ['sh', '-c', f'{shlex.join(opened)} </dev/null >/dev/null 2>&1'],
            check=False,
            timeout=3 * _CONNECT_SECONDS,
        )

    def close(self) -> None:
        """Close the shared connection, if one was opened."""
        if not any(path.is_socket() for path in self.folder.glob('*')):
            return
        words = ['ssh', *self.options(), '-O', 'exit', f'root@{self.address}']
        shell.run(words, check=False, timeout=30)
