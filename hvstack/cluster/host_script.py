# SPDX-License-Identifier: Apache-2.0
"""The shell program that prepares and releases a host that ssh reaches.

It runs in the host's own namespaces, outside the root file system that
Hadoop is entered by. What it creates it marks with a stamp, and it changes,
empties or unmounts nothing without one.
"""

import contextlib
import hashlib
import os
import shlex
import socket
from pathlib import Path

from hvstack import paths, pid_files, shell_scripts

#: On hosts whose root has a private umask, such as 027 or 077, Hadoop's user
#: could not read what root writes.
UMASK = 'umask 022'
#: File with a random ID, which exists before a host is taken: cloned machines
#: can have the same machine ID.
HOLDER = paths.STATE / 'journal' / 'hosts' / 'holder'


def program() -> str:
    """Return the program; its first argument is the function to call."""
    functions = shell_scripts.load('end-inside')
    functions += shell_scripts.load('prepare-host')
    functions += shell_scripts.load('host-disks')
    return f'{functions}\n{UMASK}\nverb=$1\nshift\n"$verb" "$@"\n'


def build_holder() -> str:
    """Return who uses a host: an ID, and a description after a space.

    Processes with the same state directory exclude each other by its lock.
    Without the file :data:`HOLDER`, the ID is that of older releases, by which
    their crashed runs hold hosts.
    """
    machine = pid_files.machine() or socket.gethostname()
    random_id = ''
    with contextlib.suppress(OSError):
        random_id = HOLDER.read_text(encoding='utf-8', errors='replace')
    text = f'{machine} {paths.STATE.absolute()}'
    if random_id:
        text += f' {random_id}'
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f'{digest} user {os.getuid()} on {socket.gethostname()}'


def build_holder_test() -> str:
    """Return a command line that succeeds on a host that this user holds.

    It runs in the root file system that Hadoop is entered by.
    """
    holder = build_holder().partition(' ')[0]
    return f"grep -qs '^{holder} ' /.hvstack-holder"


def command(verb: str, *args: str) -> str:
    """Return the command line for the host's shell.

    :param verb: a function in ``prepare-host.sh``, such as ``release``.
    :param args: its arguments.
    """
    return shlex.join(['sh', '-c', program(), 'hvstack', verb, *args])


def shortened(text: str) -> str:
    """Return a command line with ``"$SCRIPT"`` for the program, for people."""
    return text.replace(shlex.quote(program()), '"$SCRIPT"')


def kill(root: str) -> list[str]:
    """Return a program that kills what runs in a root file system.

    Its content is lost: no process gets the time to write to it.

    :param root: the directory, which is then unmounted.
    """
    functions = shell_scripts.load('end-inside')
    return ['sh', '-c', f'{functions}\nend_inside "$1" KILL\n', 'kill', root]


def stamp(path: Path) -> str:
    """Return the size and time of an archive, which is slow to read."""
    status = path.stat()
    return f'{status.st_size}-{status.st_mtime_ns}'
