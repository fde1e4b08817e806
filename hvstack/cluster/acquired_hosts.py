# SPDX-License-Identifier: Apache-2.0
"""Bare-metal hosts that a process has acquired, and their release."""

import contextlib
import fcntl
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hvstack import (
    errors,
    jsonfile,
    paths,
    pid_files,
    processutils,
    textfile,
)
from hvstack.cluster import actions, host_script
from hvstack.results.typed_json import Json

#: One file per process that has taken hosts, with the actions that release
#: them (:mod:`hvstack.cluster.actions`).
ACQUIRED_HOSTS_DIR = paths.STATE / 'journal' / 'hosts'

RELEASE_SECONDS = 300
_LOCK_INTERVAL = 0.5


def recover() -> list[str]:
    """Give back the hosts that dead processes had taken.

    Where a process has hosts, it did so before it took them.

    :returns: names of these hosts.
    :raises hvstack.errors.HVStackError: one cannot be released; the next
        start tries again.
    """
    deadline = time.monotonic() + RELEASE_SECONDS
    while True:
        with contextlib.ExitStack() as stack:
            lock = stack.enter_context(open_lock())
            if try_lock(lock):
                return recover_locked()
            if any(mark.is_alive for mark in _marks()):
                return []
            if time.monotonic() > deadline:
                raise get_busy_error(lock)
        # Another process is giving hosts back, or is about to take some.
        time.sleep(_LOCK_INTERVAL)


def recover_locked() -> list[str]:
    """Give back hosts, under the lock that taking hosts has.

    :raises hvstack.errors.HVStackError: the first error, when the hosts of
        all other processes are released.
    """
    names: list[str] = []
    error: errors.HVStackError | None = None
    for path in _list_marks():
        try:
            mark = _read_mark(path)
            if mark and not mark.is_alive:
                names += _release_mark(mark)
        except errors.HVStackError as exc:
            error = error or exc
    if error:
        raise error
    return names


def _release_mark(mark: '_Mark') -> list[str]:
    """Give back the hosts of a process that no longer runs.

    :returns: names of these hosts.
    """
    releases = [actions.load(data, mark.path) for data in mark.hosts]
    try:
        release(releases)
    except errors.HVStackError as exc:
        reason = str(getattr(exc, 'tail', '') or exc)
        raise errors.HVStackError(
            'Cannot release hosts '
            f'{", ".join(action.name for action in releases)} after a run '
            'on bare metal: '
            f'{" ".join(reason.split()).removesuffix(".")}. Run the '
            f'command again, or delete {mark.path} if the hosts no longer '
            'exist.'
        ) from exc
    mark.path.unlink(missing_ok=True)
    paths.sync_directory(ACQUIRED_HOSTS_DIR)
    return [action.name for action in releases]


def open_lock() -> IO[str]:
    """Open the lock that a process holds while it uses hosts."""
    paths.make_directory(ACQUIRED_HOSTS_DIR)
    return paths.open_lock(ACQUIRED_HOSTS_DIR / 'lock')


def try_lock(lock: IO[str]) -> bool:
    """Return whether this process gets the lock, and write its pid there.

    The first process that gets it also writes the random ID by which hosts
    recognize their user. Hosts with a mark recognize the user by the ID that
    was valid when they were taken, which is thus kept until their release.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    lock.truncate(0)
    lock.write(f'{os.getpid()}\n')
    lock.flush()
    path = ACQUIRED_HOSTS_DIR / host_script.HOLDER.name
    if not path.exists() and not _list_marks():
        paths.write_whole(path, f'{uuid.uuid4()}\n')
    return True


def get_busy_error(lock: IO[str]) -> errors.BusyError:
    """Return the error that names the process with the lock."""
    lock.seek(0)
    holder = lock.read(20).strip() or 'unknown'
    return errors.BusyError(
        f'Cannot measure bare metal: another process (pid {holder}) measures '
        'it. Wait until the process ends, or end it.'
    )


def holders() -> set[int]:
    """Return the other processes that have taken hosts.

    :raises hvstack.errors.InputError: a mark cannot be read.
    """
    return {mark.pid for mark in _marks() if mark.is_alive} - {os.getpid()}


@dataclass(frozen=True)
class _Mark:
    """A file that a process wrote before it took hosts.

    :param pid: the process.
    :param started: its start, in clock ticks since boot.
    :param boot: id of the boot.
    :param namespace: inode of the process' pid namespace.
    :param machine: ID of its machine.
    :param hosts: actions that release the hosts, as they were read.
    """

    path: Path
    pid: int
    started: int
    hosts: list[Json]
    boot: str
    namespace: int
    machine: str

    @property
    def is_alive(self) -> bool:
        """Whether the process may still run."""
        process = pid_files.Process(
            *(self.pid, self.started, self.boot),
            *(self.namespace, self.machine),
        )
        return process.is_alive() is not False


def _list_marks() -> list[Path]:
    return sorted(ACQUIRED_HOSTS_DIR.glob('*.json'))


def _marks() -> Iterator[_Mark]:
    """Yield the marks of all processes.

    :raises hvstack.errors.InputError: a file is not a mark.
    """
    for path in _list_marks():
        mark = _read_mark(path)
        if mark:
            yield mark


def _read_mark(path: Path) -> _Mark | None:
    """Return a mark; None if its file no longer exists.

    :raises hvstack.errors.InputError: the file is not a mark.
    """
    try:
        data = jsonfile.load(path).data
        mark = _Mark(
            path,
            data['pid'],
            data['started'],
            data['hosts'],
            # Marks of older releases have none of these.
            data.get('boot', pid_files.boot()),
            data.get('namespace', 0),
            data.get('machine', ''),
        )
        if not (
            type(mark.pid) is int
            and 0 < mark.pid <= 2**22
            and type(mark.started) is int
            and mark.started >= 0
            and isinstance(mark.namespace, int)
            and isinstance(mark.boot, str)
            and isinstance(mark.machine, str)
            and isinstance(mark.hosts, list)
        ):
            raise TypeError
        for item in mark.hosts:
            actions.check(item, path)
    except textfile.MissingFileError:
        return None
    except (
        errors.InputError,
        TypeError,
        KeyError,
        AttributeError,
    ) as exc:
        reason = (
            str(exc).removesuffix('.')
            if isinstance(exc, errors.InputError)
            else "'pid', 'started' or 'hosts' is missing or not valid"
        )
        raise errors.InputError(
            f'Cannot read which bare-metal hosts to release ({path}): '
            f'{reason}. Check the hosts that the file '
            f'names, then delete {path}.'
        ) from exc
    return mark


def release(releases: Iterable[actions.Action]) -> None:
    """Run all actions at once; raise the first error at the end."""

    def run(action: actions.Action) -> None:
        if (
            not isinstance(action, actions.ReleaseSSHHost)
            or not action.node.is_indirect
        ):
            processutils.run(action.argv(), timeout=RELEASE_SECONDS)
            return
        try:
            with action.node.limit_connections():
                processutils.run(action.argv(), timeout=RELEASE_SECONDS)
        finally:
            action.node.close()

    with ThreadPoolExecutor(max_workers=16) as pool:
        jobs = [pool.submit(run, action) for action in releases]
    for job in jobs:
        job.result()
