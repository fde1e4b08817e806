# SPDX-License-Identifier: Apache-2.0
"""Nodes reached by the ssh program."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hvstack import errors, paths, processutils
from hvstack.cluster.base import ShellNode

_CONNECT_SECONDS = 10
#: Exit status of ssh, and the end of its message, when it refuses a host key.
_SSH_ERROR, _REFUSED = 255, 'Host key verification failed'
_UNKNOWN = 'host key is known for'


@dataclass(frozen=True)
class SSHNode(ShellNode):
    """A node reached by ssh as root with a key.

    :param key: private key file.
    :param directory: of the cluster: its known hosts and sockets. A new
        cluster takes a new one, since addresses come back with other host
        keys.
    :param known_hosts: file with the host keys; an unknown or another key is
        refused. None accepts the key of the first contact, and stores it in
        ``directory``; another key is refused afterwards.
    """

    key: Path = Path()
    directory: Path = Path()
    known_hosts: Path | None = None

    def options(self) -> list[str]:
        """Return ssh's options: nothing is asked, nothing of a user's."""
        checking = 'yes' if self.known_hosts else 'accept-new'
        return [
            *('-F', '/dev/null', '-i', str(self.key)),
            *('-o', 'IdentitiesOnly=yes', '-o', 'BatchMode=yes'),
            *('-o', f'StrictHostKeyChecking={checking}'),
            *('-o', f'UserKnownHostsFile={self.host_key_file}'),
            *('-o', 'GlobalKnownHostsFile=/dev/null'),
            *('-o', f'ConnectTimeout={_CONNECT_SECONDS}'),
            *('-o', 'ServerAliveInterval=10', '-o', 'ServerAliveCountMax=6'),
            *('-o', 'LogLevel=ERROR'),
            *('-o', f'ControlPath={self.directory}/%C'),
        ]

    @property
    def host_key_file(self) -> Path:
        """File with the host keys that ssh accepts."""
        return self.known_hosts or self.directory / 'known_hosts'

    def run(
        self,
        command: str,
        *,
        timeout: float = 600,
        check: bool = True,
        stdin: str | None = None,
        on_timeout: Callable[[], float] | None = None,
    ) -> processutils.Result:
        """Run a shell command as root; errors name the node.

        :param command: command line for the node's shell.
        :param timeout: seconds, see :func:`hvstack.processutils.run`.
        :param check: raise if the command fails. A refused host key raises
            in any case.
        :param stdin: text for the command's standard input.
        :param on_timeout: see :func:`hvstack.processutils.run`.
        :returns: the command's result.
        :raises hvstack.errors.HostKeyError: the node's host key is unknown,
            or not the recorded one.
        :raises hvstack.errors.CommandError: the command failed, or ssh
            cannot connect.
        """
        result = super().run(
            command,
            timeout=timeout,
            check=False,
            stdin=stdin,
            on_timeout=on_timeout,
        )
        if result.returncode == _SSH_ERROR and _REFUSED in result.stderr:
            raise errors.HostKeyError(self._refusal(result.stderr))
        if check and result.returncode != 0:
            raise self.failure(command, result)
        return result

    def _refusal(self, message: str) -> str:
        """Return why ssh refused the node's host key, and what to do."""
        line = f"'{self.address} ssh-ed25519 ...'"
        prefix = f'Cannot connect to {self.name} ({self.address}): '
        if _UNKNOWN in message:
            return (
                f'{prefix}{self.host_key_file} has no ssh host key of the '
                f'node. Add the line {line} with the key that the console of '
                'the node shows.'
            )
        return (
            f'{prefix}its ssh host key is not the one in '
            f'{self.host_key_file}. Replace the node, because another '
            'machine may answer for it. If you changed its key yourself, '
            f'replace its line with {line}.'
        )

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
        if processutils.run(check, check=False, timeout=30).returncode == 0:
            return
        paths.make_directory(self.directory)
        opened = ['ssh', *self.options(), '-M', '-N', '-f', target]
        processutils.run(
            ['sh', '-c', f'{shlex.join(opened)} </dev/null >/dev/null 2>&1'],
            check=False,
            timeout=3 * _CONNECT_SECONDS,
        )

    def close(self) -> None:
        """Close the shared connection, if one was opened."""
        if not any(path.is_socket() for path in self.directory.glob('*')):
            return
        args = ['ssh', *self.options(), '-O', 'exit', f'root@{self.address}']
        processutils.run(args, check=False, timeout=30)
