# SPDX-License-Identifier: Apache-2.0
"""The journal: what hvstack is about to change, written before it does.

One file an entry below ``STATE/journal``. An entry belongs to the process
that wrote it, until the change is undone or handed over to a cluster that
stays. Entries of a process that is dead are undone by whoever comes next.
"""

import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hvstack import errors, paths, pids

FOLDER = paths.STATE / 'journal'


@dataclass(frozen=True)
class Entry:
    """One change.

    :param kind: what was changed, such as ``flavor`` or ``stack``.
    :param data: what is needed to undo it; never a secret.
    :param scope: whose cloud and project; empty for this machine.
    :param owner: the cluster that keeps it, empty while a process does.
    :param pid: process that made it, with ``start`` (clock ticks since
        boot) and ``boot``, so that a later process of that number is none.
    """

    kind: str
    data: dict[str, Any]
    scope: str
    owner: str
    pid: int
    start: int
    boot: str
    made: float
    id: str

    @property
    def path(self) -> Path:
        """The entry's file."""
        return FOLDER / f'{self.made:.6f}-{self.kind}-{self.id}.json'

    @property
    def alive(self) -> bool:
        """Whether the process that made it still runs."""
        return (
            self.boot == pids.boot()
            and pids.start_time(self.pid) == self.start
        )

    @property
    def abandoned(self) -> bool:
        """Whether nobody will undo it but us."""
        return not self.owner and not self.alive


def note(kind: str, data: dict[str, Any], scope: str = '') -> Entry:
    """Write an entry, before the change that it tells of.

    :raises OSError: it cannot be written, so nothing may be changed.
    """
    start = pids.start_time(os.getpid())
    assert start is not None
    entry = Entry(
        kind=kind,
        data=data,
        scope=scope,
        owner='',
        pid=os.getpid(),
        start=start,
        boot=pids.boot(),
        made=time.time(),
        id=str(uuid.uuid4()),
    )
    _write(entry)
    return entry


def _write(entry: Entry) -> None:
    text = json.dumps(asdict(entry), indent=1) + '\n'
    paths.write_whole(entry.path, text, mode=0o600)


def forget(entry: Entry) -> None:
    """Drop an entry: its change is undone, or never happened."""
    entry.path.unlink(missing_ok=True)


def hand_over(found: Iterable[Entry], owner: str) -> None:
    """Give entries to a cluster that stays when this process ends."""
    for entry in found:
        _write(replace(entry, owner=owner))


def entries() -> list[Entry]:
    """Return all entries, oldest first.

    :raises hvstack.errors.InputError: a file there is none of ours.
    """
    found = []
    for path in sorted(FOLDER.glob('[!.]*.json')):
        try:
            found.append(Entry(**json.loads(path.read_text())))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError) as exc:
            raise errors.InputError(
                f'{path}: no whole journal entry ({exc}), look at what it '
                'names, then move it away'
            ) from exc
    return sorted(found, key=lambda entry: entry.made)


def own() -> list[Entry]:
    """Return this process' entries, oldest first."""
    start = pids.start_time(os.getpid())
    return [
        entry
        for entry in entries()
        if not entry.owner
        and (entry.pid, entry.start) == (os.getpid(), start)
        and entry.boot == pids.boot()
    ]


def holders() -> set[int]:
    """Return the other processes that have changes to undo."""
    return {
        entry.pid for entry in entries() if not entry.owner and entry.alive
    } - {os.getpid()}


def owned(owner: str) -> list[Entry]:
    """Return the entries that a cluster keeps, oldest first."""
    return [entry for entry in entries() if entry.owner == owner]


@contextmanager
def recovering() -> Iterator[None]:
    """Let only one process at a time undo what dead ones left."""
    paths.make_directory(FOLDER)
    with (FOLDER / '.lock').open('w') as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
