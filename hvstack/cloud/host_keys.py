# SPDX-License-Identifier: Apache-2.0
"""SSH host keys of a cluster's nodes, recorded when the nodes are created.

Each node sends its public key to Heat, or shows it on its console. hvstack
writes the keys to a file of the cluster, and connects to no node whose key
is not in this file.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from openstack.connection import Connection

from hvstack import errors, paths, processutils, textfile
from hvstack.cloud.connection import FAILURES
from hvstack.cloud.stack_outputs import StackOutputs

DIRECTORY = paths.STATE / 'known_hosts'
_ADDRESS = r'[0-9A-Fa-f.:]+'
#: The key that every node has: its type, and 51 bytes in base64 (RFC 8709).
_KEY = r'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI[A-Za-z0-9+/]{43}'
#: How cloud-init shows host keys on the console (module keys_to_console).
_CONSOLE_BLOCK = re.compile(
    r'-----BEGIN SSH HOST KEY KEYS-----(.*?)'
    r'-----END SSH HOST KEY KEYS-----',
    re.DOTALL,
)
_FIRST_LINE = '# ADDRESS KEY SERVER_ID NAME, written by hvstack'


@dataclass(frozen=True)
class _Guest:
    """A node of a stack's outputs.

    :param key: its public key as Heat has it; empty if Heat has none.
    """

    name: str
    address: str
    server_id: str
    key: str


def record(
    cluster: str,
    outputs: StackOutputs,
    console: Callable[[str], str] | None = None,
    timeout: float = 0,
) -> Path:
    """Write the host keys of a cluster's nodes; return the file (0600).

    The key that was recorded first for a server stays, and so does a line
    that a user wrote for an address. Lines of servers that the cluster no
    longer has are removed. A node without a key gets no line.

    :param cluster: name of the stack.
    :param outputs: outputs of the stack: mappings, or lists of them, with
        ``name``, ``address``, ``server_id`` and ``host_key``.
    :param console: returns a server's console log by its ID, for nodes
        whose key Heat does not have; None reads no console log.
    :param timeout: seconds to wait for the keys on the consoles.
    :raises hvstack.errors.InputError: the file cannot be read.
    """
    path = file_of(cluster)
    guests = list(_guests(outputs))
    lines = _recorded(path, guests)
    for guest in guests:
        if guest.address not in lines and guest.key:
            lines[guest.address] = [_line(guest, guest.key)]
    if console is not None:
        missing = [guest for guest in guests if guest.address not in lines]
        for guest, key in _on_consoles(missing, console, timeout):
            lines[guest.address] = [_line(guest, key)]
    _write(path, guests, lines)
    return path


def renew(cluster: str, outputs: StackOutputs) -> bool:
    """Record the keys that Heat has now instead of those it had before.

    Heat replaces a server that Nova could not finish. If the guest had sent
    its key before, Heat has this key until the next guest sends its own. Lines
    that a user wrote stay.

    :param cluster: name of the stack.
    :param outputs: outputs of the stack, as for :func:`record`.
    :returns: whether a key has changed.
    :raises hvstack.errors.InputError: the file cannot be read.
    """
    path = file_of(cluster)
    guests = list(_guests(outputs))
    lines = _recorded(path, guests)
    renewed = {
        guest.address: [
            _line(guest, guest.key)
            if guest.key and guest.server_id in line.split()[3:4]
            else line
            for line in lines.get(guest.address, ())
        ]
        for guest in guests
    }
    is_changed = any(lines.get(name, []) != renewed[name] for name in renewed)
    if is_changed:
        _write(path, guests, renewed)
    return is_changed


def _write(
    path: Path, guests: list[_Guest], lines: dict[str, list[str]]
) -> None:
    """Write the lines of all nodes by address."""
    paths.make_directory(DIRECTORY)
    DIRECTORY.chmod(0o700)
    text = [line for guest in guests for line in lines.get(guest.address, ())]
    paths.write_whole(path, '\n'.join([_FIRST_LINE, *text, '']), 0o600)


def file_of(cluster: str) -> Path:
    """Return the file with the host keys of a cluster's nodes."""
    return DIRECTORY / cluster


def forget(cluster: str) -> None:
    """Delete the host keys of a cluster that was deleted."""
    file_of(cluster).unlink(missing_ok=True)


def console_of(conn: Connection) -> Callable[[str], str]:
    """Return a function that reads the console log of a server.

    The log is empty if Nova or the server's host has none.
    """

    def read(server_id: str) -> str:
        try:
            answer = conn.compute.get_server_console_output(server_id)
        except FAILURES:
            return ''
        return str(answer.get('output') or '')

    return read


def on_console(text: str) -> str:
    """Return the public key that a console log shows last, or nothing."""
    blocks = _CONSOLE_BLOCK.findall(text)
    keys = re.findall(
        f'{_KEY}(?![A-Za-z0-9+/=])', blocks[-1] if blocks else ''
    )
    return str(keys[-1]) if keys else ''


def public_key(text: str) -> str:
    """Return a text if it is the public key of a host, else nothing.

    :param text: what a guest sent.
    """
    return text if re.fullmatch(_KEY, text) else ''


def _guests(outputs: StackOutputs) -> Iterator[_Guest]:
    for value in outputs.values():
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                continue
            address = str(item.get('address') or '')
            if not re.fullmatch(_ADDRESS, address):
                continue
            yield _Guest(
                str(item.get('name')),
                address,
                str(item.get('server_id') or ''),
                # What a guest sent to Heat must not become another line.
                public_key(str(item.get('host_key') or '')),
            )


def _recorded(path: Path, guests: list[_Guest]) -> dict[str, list[str]]:
    """Return the lines that stay, by address."""
    servers = {guest.address: guest.server_id for guest in guests}
    lines: dict[str, list[str]] = {}
    try:
        text = textfile.read(path)
    except textfile.MissingFileError:
        return lines
    for line in text.splitlines():
        address, *fields = line.split() or ['']
        # Without a server's ID, a user wrote the line.
        if address in servers and fields[2:3] in ([], [servers[address]]):
            lines.setdefault(address, []).append(line)
    return lines


def _line(guest: _Guest, key: str) -> str:
    return f'{guest.address} {key} {guest.server_id} {guest.name}'.rstrip()


def _on_consoles(
    guests: list[_Guest], console: Callable[[str], str], timeout: float
) -> Iterator[tuple[_Guest, str]]:
    """Yield nodes with the keys on their consoles, as they appear."""
    missing = {guest.server_id: guest for guest in guests if guest.server_id}
    keys: dict[str, str] = {}

    def complete() -> bool:
        for server_id in missing.keys() - keys.keys():
            if key := on_console(console(server_id)):
                keys[server_id] = key
        return missing.keys() == keys.keys()

    try:
        if not complete() and timeout:
            processutils.wait_for(
                complete,
                'the ssh host keys on the consoles',
                timeout=timeout,
                interval=2,
            )
    except errors.DeadlineExceededError:
        # A connection to a node without a key says what to do.
        pass
    yield from ((missing[server_id], key) for server_id, key in keys.items())
