# SPDX-License-Identifier: Apache-2.0
"""Nodes reached by the ssh program."""

import contextlib
import os
import re
import shlex
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from hvstack import errors, paths, processutils
from hvstack.cluster.base import ShellNode

_CONNECT_SECONDS = 10
#: Longest path of a socket (unix(7), without the final zero byte), and the
#: length of what ssh appends to the directory: a slash, a hash for %C, and a
#: suffix while it creates the socket.
_MAX_SOCKET_BYTES, _SOCKET_NAME_BYTES = 107, 1 + 40 + 17
#: Connections through other hosts that are opened at once. sshd there drops
#: some of more than ten whose users have not logged in yet (MaxStartups).
_MAX_CONNECTIONS_AT_ONCE = 8
_OPENING = threading.BoundedSemaphore(_MAX_CONNECTIONS_AT_ONCE)
#: Exit status of ssh, and the end of its message, when it refuses a host key.
_SSH_ERROR, _REFUSED = 255, 'Host key verification failed'
_UNKNOWN = 'host key is known for'
#: Host that ssh names when it refuses a key.
_REFUSED_HOST = re.compile(
    r'host key (?:is known )?for (\S+) (?:and you|has changed)',
    re.IGNORECASE,
)


@dataclass(frozen=True)
class SSHAccess:
    """What ssh needs to log in to the nodes of a cluster.

    :param key: private key file of root on the nodes.
    :param config: configuration file of ssh, for example with a ProxyJump;
        None reads no configuration, neither the user's nor the system's.
    """

    key: Path
    config: Path | None = None

    @classmethod
    def of(cls, key: Path, config: Path | str | None) -> Self:
        """Return the access with a configuration file that exists.

        :param key: private key file.
        :param config: configuration file; None or an empty text for none.
        :raises hvstack.errors.InputError: the file does not exist.
        """
        if not config:
            return cls(key)
        path = Path(config).expanduser().absolute()
        if not path.is_file():
            raise errors.InputError(
                f'Cannot use the ssh configuration {path}: it is not a file. '
                'Correct ssh_config in hvstack.conf or --ssh-config.'
            )
        return cls(key, path)


@dataclass(frozen=True)
class SSHNode(ShellNode):
    """A node reached by ssh with a key, whose commands root runs.

    :param key: private key file.
    :param directory: of the cluster: its known hosts and sockets. A new
        cluster takes a new one, since addresses come back with other host
        keys.
    :param known_hosts: file with the host keys; an unknown or another key is
        refused. None accepts the key of the first contact, and stores it in
        ``directory``; another key is refused afterwards.
    :param config: configuration file of ssh, see :class:`SSHAccess`.
    :param login_address: address to which ssh connects, such as a floating
        IP; empty for ``address``. The host key is that of ``address``.
    :param jump: node through which ssh connects; None connects directly.
    :param user: user that logs in. Users other than root need the right to
        run sh by sudo without a password.
    """

    key: Path = Path()
    directory: Path = Path()
    known_hosts: Path | None = None
    config: Path | None = None
    login_address: str = ''
    jump: 'SSHNode | None' = None
    user: str = 'root'
    # Nodes that dataclasses.replace() makes of this one share the lock.
    _lock: threading.Lock = field(
        default_factory=threading.Lock, repr=False, compare=False
    )

    @property
    def _target(self) -> str:
        return f'{self.user}@{self.login_address or self.address}'

    def build_remote_args(self, command: str) -> list[str]:
        """Return the last arguments of ssh: where root runs a command.

        :param command: command line for root's shell.
        """
        if self.user != 'root':
            command = shlex.join(['sudo', '-n', '--', 'sh', '-c', command])
        return [self._target, command]

    def options(self) -> list[str]:
        """Return ssh's options: ssh asks nothing, and reads no other file."""
        checking = 'yes' if self.known_hosts else 'accept-new'
        return [
            *('-F', str(self.config or '/dev/null'), '-i', str(self.key)),
            *('-o', 'IdentitiesOnly=yes', '-o', 'BatchMode=yes'),
            *('-o', f'StrictHostKeyChecking={checking}'),
            *('-o', f'UserKnownHostsFile={self.host_key_file}'),
            *('-o', 'GlobalKnownHostsFile=/dev/null'),
            *('-o', f'ConnectTimeout={_CONNECT_SECONDS}'),
            *('-o', 'ServerAliveInterval=10', '-o', 'ServerAliveCountMax=6'),
            *('-o', 'LogLevel=ERROR'),
            *('-o', f'ControlPath={self._control_path}'),
            *self._route_options(),
        ]

    @property
    def _control_path(self) -> str:
        """Socket of the shared connection; ``none`` for a connection each.

        ssh ends at once if the path of the socket is too long.
        """
        length = len(os.fsencode(self.directory)) + _SOCKET_NAME_BYTES
        return 'none' if length > _MAX_SOCKET_BYTES else f'{self.directory}/%C'

    def _route_options(self) -> list[str]:
        """Return ssh's options for a node behind another address."""
        options = []
        if self.login_address:
            options += ['-o', f'HostKeyAlias={self.address}']
        if self.jump is not None:
            # Not ProxyJump, which passes on neither the key nor the host
            # keys. ssh replaces %h and %p itself.
            command = shlex.join(
                ['ssh', *self.jump.options(), '-o', 'ControlMaster=no']
            ).replace('%', '%%')
            target = shlex.quote(self.jump._target)
            options += ['-o', f'ProxyCommand={command} -W [%h]:%p {target}']
        return options

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
        refused = _REFUSED_HOST.search(message)
        if self.jump and refused and refused[1] == self.jump.address:
            return self.jump._refusal(message)
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
            *self.build_remote_args(command),
        ]

    def build_own_argv(self, command: str) -> list[str]:
        """Return the ssh command line for a connection of its own.

        The connection ends with the command, and the command gets the end of
        its input if this process ends in any way. A shared connection stays.

        :param command: command line for the login shell of the node.
        """
        paths.make_directory(self.directory)
        # ssh uses the first value of an option.
        return [
            *('ssh', '-T', '-o', 'ControlPath=none', *self.options()),
            *self.build_remote_args(command),
        ]

    def _connect(self) -> None:
        """Open the connection that all commands share, if it is not open.

        By itself and with its output elsewhere: a master that a command
        started would keep that command's pipes open.
        """
        if self._control_path == 'none':
            return
        # Threads share the connection through which other nodes are reached.
        # One connection in all, or sshd would drop some of those that are
        # opened at once (MaxStartups).
        with self._lock if self.login_address else contextlib.nullcontext():
            check = ['ssh', *self.options(), '-O', 'check', self._target]
            if not processutils.run(check, check=False, timeout=30).returncode:
                return
            if self.jump is not None:
                self.jump._connect()
            self._open()

    def _open(self) -> None:
        paths.make_directory(self.directory)
        args = ['ssh', *self.options(), '-M', '-N', '-f', self._target]
        limit: AbstractContextManager[bool | None] = contextlib.nullcontext()
        if self.is_indirect:
            limit = _OPENING
        with limit:
            processutils.run(
                ['sh', '-c', f'{shlex.join(args)} </dev/null >/dev/null 2>&1'],
                check=False,
                timeout=3 * _CONNECT_SECONDS,
            )

    @property
    def is_indirect(self) -> bool:
        """Whether ssh may connect through another host."""
        return self.config is not None or self.jump is not None

    def limit_connections(self) -> AbstractContextManager[bool | None]:
        """Return a context for an ssh command with :meth:`options`.

        If ssh may connect through another host, the command uses the shared
        connection, which is opened first, or is one of few at once.
        """
        if not self.is_indirect:
            return contextlib.nullcontext()
        if self._control_path == 'none':
            return _OPENING
        self._connect()
        return contextlib.nullcontext()

    def close(self) -> None:
        """Close the shared connection, if one was opened."""
        if not any(path.is_socket() for path in self.directory.glob('*')):
            return
        args = ['ssh', *self.options(), '-O', 'exit', self._target]
        processutils.run(args, check=False, timeout=30)
