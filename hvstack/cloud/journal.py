# SPDX-License-Identifier: Apache-2.0
"""The journal: what hvstack is about to change, written before it does.

A file below ``STATE/journal`` holds an entry, or all entries that a process
handed over to a cluster at once. An entry belongs to the process that wrote
it, until the change is undone or handed over to a cluster that stays.
Entries of a process that is dead are undone by whoever comes next.

A change of the journal is on the disk when the function that makes it
returns: the file and its directory are synced.
"""

import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hvstack import errors, jsonfile, paths, pid_files
from hvstack.model.strict_mapping import Fields, to_dataclass
from hvstack.results import typed_json
from hvstack.results.typed_json import Json, JsonObject

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DIRECTORY = paths.STATE / 'journal'
#: Names of fields in entries that older releases wrote.
_FORMER_NAMES = {'made': 'created_at'}
_Data = TypeVar('_Data', bound='DataclassInstance')


@dataclass(frozen=True)
class JournalEntry:
    """One change.

    :param kind: what was changed, such as ``flavor`` or ``stack``.
    :param data: what is needed to undo it; never a secret.
    :param scope: whose cloud, project and region; empty for this machine.
    :param owner: the cluster that keeps it, empty while a process does.
    :param pid: process that made it, with ``start`` (clock ticks since
        boot), ``boot``, ``namespace`` (inode of its pid namespace) and
        ``machine``, so that a later process of that number is none.
    :param created_at: time of the entry, for people: clocks go backwards.
    :param sequence: its position among the entries, which gives the order.
    """

    kind: str
    data: JsonObject
    scope: str
    owner: str
    pid: int
    start: int
    boot: str
    created_at: float
    id: str
    namespace: int = 0
    machine: str = ''
    sequence: int = 0

    @property
    def path(self) -> Path:
        """The entry's own file, which it has until it is handed over."""
        return DIRECTORY / f'{self.sequence:09d}-{self.kind}-{self.id}.json'

    @property
    def process(self) -> pid_files.Process:
        """The process that made it."""
        return pid_files.Process(
            *(self.pid, self.start, self.boot),
            *(self.namespace, self.machine),
        )

    @property
    def alive(self) -> bool:
        """Whether the process that made it may still run."""
        return self.process.is_alive() is not False

    @property
    def abandoned(self) -> bool:
        """Whether hvstack alone undoes it."""
        return not self.owner and not self.alive


def note(kind: str, data: Mapping[str, Json], scope: str = '') -> JournalEntry:
    """Write an entry before the change that it describes.

    :raises OSError: it cannot be written, so nothing may be changed.
    """
    process = pid_files.Process.current()
    with _locked(fcntl.LOCK_EX):
        entry = JournalEntry(
            kind=kind,
            data=dict(data),
            scope=scope,
            owner='',
            pid=process.pid,
            start=process.start,
            boot=process.boot,
            created_at=time.time(),
            id=str(uuid.uuid4()),
            namespace=process.namespace,
            machine=process.machine,
            sequence=_next_sequence(),
        )
        _write(entry.path, asdict(entry))
    return entry


def _write(path: Path, content: Json) -> None:
    paths.write_whole(path, json.dumps(content, indent=1) + '\n', mode=0o600)


def update(entry: JournalEntry, **data: Json) -> JournalEntry:
    """Add to an entry what the change returned, such as an ID.

    :param data: keys of :attr:`JournalEntry.data` with their new values.
    :returns: the new entry.
    :raises OSError: it cannot be written.
    """
    changed = replace(entry, data={**entry.data, **data})
    with _locked(fcntl.LOCK_EX):
        _write(changed.path, asdict(changed))
    return changed


def read_data(cls: type[_Data], data: Mapping[str, Json]) -> _Data:
    """Return the data of an entry as a dataclass.

    :param cls: dataclass with the keys of a kind.
    :param data: :attr:`JournalEntry.data`.
    :raises hvstack.errors.InputError: a key is missing, or its value has
        another type.
    """
    try:
        return typed_json.read(cls, dict(data))
    except typed_json.FieldTypeError as exc:
        raise errors.InputError(
            f'Cannot undo the change {data.get("name")!r:.60} ({DIRECTORY}): '
            f"'{exc.name}' of its entry {exc.reason}. Undo the change by "
            'hand, then delete the file of the entry.'
        ) from exc


def forget(entry: JournalEntry) -> None:
    """Drop an entry: its change is undone, or never happened.

    :raises OSError: the disk failed.
    """
    with _locked(fcntl.LOCK_EX):
        entry.path.unlink(missing_ok=True)
        for path, together in _handed_over():
            others = [item for item in together if item.id != entry.id]
            if not others:
                path.unlink()
            elif len(others) < len(together):
                _write(path, [asdict(item) for item in others])
        paths.sync_directory(DIRECTORY)


def hand_over(journal_entries: Iterable[JournalEntry], owner: str) -> None:
    """Give entries to a cluster that stays when this process ends.

    All of them go at once, by one new file: a crash in between leaves the
    process' own files as they were, which that file then overrides.

    :raises OSError: the new file cannot be written; nothing was handed over.
    """
    together = [replace(entry, owner=owner) for entry in journal_entries]
    if not together:
        return
    with _locked(fcntl.LOCK_EX):
        path = (
            DIRECTORY / f'{together[0].sequence:09d}-together-{uuid.uuid4()}'
        )
        _write(
            path.with_suffix('.json'), [asdict(entry) for entry in together]
        )
        for entry in together:
            entry.path.unlink(missing_ok=True)
        paths.sync_directory(DIRECTORY)


def entries() -> list[JournalEntry]:
    """Return all entries, oldest first.

    :raises hvstack.errors.InputError: a file there is not an hvstack file.
    """
    if not DIRECTORY.is_dir():
        return []
    with _locked(fcntl.LOCK_SH):
        files = [_read(path) for path in _files()]
    by_id: dict[str, JournalEntry] = {}
    for entry in (entry for together in files for entry in together):
        # After a crash in a hand-over, the entry with an owner counts.
        if entry.owner or entry.id not in by_id:
            by_id[entry.id] = entry
    return sorted(by_id.values(), key=_order)


def newest_first(unsorted: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Return entries in the order in which they are undone."""
    return sorted(unsorted, key=_order, reverse=True)


def _order(entry: JournalEntry) -> tuple[int, float]:
    # Entries of releases without a sequence are older than all others.
    return entry.sequence, entry.created_at


def _files() -> list[Path]:
    return sorted(DIRECTORY.glob('[!.]*.json'))


def _handed_over() -> list[tuple[Path, list[JournalEntry]]]:
    """Return the files that may hold several entries."""
    return [
        (path, _read(path))
        for path in _files()
        if path.name.split('-')[1:2] == ['together']
    ]


def _read(path: Path) -> list[JournalEntry]:
    """Return the entries of a file.

    Fields of a newer release are left alone: what is needed to undo a
    change is in fields that every release has.

    :raises hvstack.errors.InputError: it is not a file of the journal.
    """
    names = {field.name for field in fields(JournalEntry)}
    try:
        document = jsonfile.load(path)
        source_location = document.source_location()
        content = document.data
        items = content if isinstance(content, list) else [content]
        if not items:
            raise errors.InputError(
                f"{source_location('')}: 'content' has no entry."
            )
        entries = []
        for index, item in enumerate(items):
            prefix = str(index) if isinstance(content, list) else ''
            stored_fields = item
            if isinstance(item, dict):
                stored_fields = {
                    name: value
                    for key, value in item.items()
                    if (name := _FORMER_NAMES.get(key, key)) in names
                }
            entries.append(
                to_dataclass(
                    JournalEntry, stored_fields, source_location, prefix
                )
            )
            if isinstance(item, dict):
                _check(Fields(item, source_location, list(item), prefix))
        return entries
    except errors.InputError as exc:
        reason = str(exc).removesuffix('.')
        raise type(exc)(
            f'Cannot read the journal: {reason}. Check the resources '
            'in the file, then move it to another directory.'
        ) from exc


def _check(fields: Fields) -> None:
    """Refuse an entry whose names no release writes."""
    fields.identifier('kind')
    fields.identifier('id')
    fields.integer('pid', 1, 2**22)


def _next_sequence() -> int:
    """Return the number after that of every entry.

    A counter and not the time: a clock that was set back would have the
    undo begin with the wrong end.
    """
    numbers = [path.name.partition('-')[0] for path in _files()]
    # Older releases began their files' names with a time, such as 1.5.
    return 1 + max(
        (int(digits) for digits in numbers if digits.isdecimal()), default=0
    )


def own() -> list[JournalEntry]:
    """Return this process' entries, oldest first."""
    process = pid_files.Process.current()
    return [
        entry
        for entry in entries()
        if not entry.owner
        and entry.process
        == replace(process, namespace=entry.namespace, machine=entry.machine)
        and entry.namespace in (0, process.namespace)
        and entry.machine in ('', process.machine)
    ]


def holders() -> set[int]:
    """Return the other processes that have changes to undo."""
    return {
        entry.pid for entry in entries() if not entry.owner and entry.alive
    } - {os.getpid()}


def owned(owner: str) -> list[JournalEntry]:
    """Return the entries that a cluster keeps, oldest first."""
    return [entry for entry in entries() if entry.owner == owner]


@contextmanager
def recovering() -> Iterator[None]:
    """Let only one process at a time undo what dead ones left."""
    paths.make_directory(DIRECTORY)
    with paths.open_lock(DIRECTORY / '.lock') as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextmanager
def _locked(operation: int) -> Iterator[None]:
    """Keep a hand-over apart from readers and writers of the files.

    Not the lock of :func:`recovering`, which is held for as long as an undo
    takes.

    :param operation: of :func:`fcntl.flock`.
    """
    paths.make_directory(DIRECTORY)
    handle = os.open(DIRECTORY, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, operation)
        yield
    finally:
        os.close(handle)
