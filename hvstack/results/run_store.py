# SPDX-License-Identifier: Apache-2.0
"""Store of run records, with an index for scheduling.

The index contains which runs exist, whether they are valid, and their time.
Whatever is reported, approved or exported is read from the records, and their
digests and signatures are checked.
"""

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from hvstack import errors, jsonfile, paths
from hvstack.model.target import parse_target
from hvstack.results import record, record_data, signing
from hvstack.results.record import InvalidRecord
from hvstack.results.record_data import RunRecord
from hvstack.results.run_id import RunId
from hvstack.results.typed_json import FieldTypeError, Json, read

#: Format of the index: an index of another format is built again.
FORMAT = 1
#: File of the index, in the directory of the records.
INDEX = 'index/runs.json'


@dataclass(frozen=True)
class IndexedRun:
    """Entry of the index: what scheduling needs of a record.

    :param sweep: name of the sweep.
    :param configuration: full name, or that of bare metal.
    :param index: index of the run within its configuration.
    :param id: UUID of the record.
    :param started: start time, as in the record.
    :param ended: end time, likewise.
    :param size_bytes: size of the data in bytes.
    :param valid: whether the run is valid.
    :param rate: rate in TB per hour; 0 if the run is not valid.
    :param seconds: elapsed time of the run in seconds.
    :param is_killed: whether a process was killed in the run.
    :param unverified: why the record counts only on request.
    """

    sweep: str
    configuration: str
    index: int
    id: str
    started: str
    ended: str
    size_bytes: int
    valid: bool
    rate: float
    seconds: float
    is_killed: bool
    unverified: str = ''

    @property
    def run_id(self) -> RunId:
        """Identity of the run."""
        return RunId(self.sweep, parse_target(self.configuration), self.index)


@dataclass(frozen=True)
class _Entry:
    """Entry of the index with the identity of its file.

    :param identity: inode, size, and times of the last changes in ns.
    """

    identity: tuple[int, ...]
    run: IndexedRun


class RunStore(Protocol):
    """Store of run records."""

    def append(self, run_record: RunRecord) -> RunRecord:
        """Sign and store the record of a run that has ended."""

    def list_runs(self, sweep: str) -> list[IndexedRun]:
        """Return the runs of a sweep by start time, for scheduling alone."""

    def load_run(self, run: IndexedRun) -> RunRecord:
        """Read a record, and check its digest and signature."""

    def load_records(self, sweep: str) -> list[RunRecord]:
        """Read and check all records of a sweep, sorted by start time."""

    def load_usable(self, sweep: str | None = None) -> list[RunRecord]:
        """Read and check records, and leave out those that are not usable."""


class FileRunStore:
    """Records in a directory, a file for each run.

    A file that the index does not contain, or that has another identity than
    in the index, is read again. An index that is missing, damaged, of another
    format or of other keys is built again.

    :param records_dir: directory of the records.
    :param keep_index: whether to write the index; False for a directory that
        the user only wants to read.
    """

    def __init__(self, records_dir: Path, *, keep_index: bool = True) -> None:
        self.records_dir = records_dir
        self.keep_index = keep_index
        #: Number of records that were read.
        self.read_count = 0
        self._checked: dict[Path, tuple[tuple[int, ...], RunRecord]] = {}

    @property
    def index_path(self) -> Path:
        """File of the index."""
        return self.records_dir / INDEX

    def append(self, run_record: RunRecord) -> RunRecord:
        """Sign and store the record of a run that has ended.

        :raises hvstack.errors.MissingPrerequisiteError: no room, no rights, or
            no key to sign with.
        """
        signed = record_data.sign(run_record)
        record.store(signed, self.records_dir)
        # The record is stored; the next reader reports what is not valid.
        with contextlib.suppress(errors.InputError):
            self._update_index()
        return signed

    def list_runs(self, sweep: str) -> list[IndexedRun]:
        """Return the runs of a sweep by start time, for scheduling alone.

        :raises hvstack.errors.InputError: a record of the sweep is not
            usable.
        """
        runs = [entry.run for entry in self._list_entries(sweep).values()]
        return sorted(runs, key=lambda run: (run.started, run.index))

    def list_all_runs(self) -> list[IndexedRun]:
        """Return the runs of all usable records by start time."""
        entries, _ = self._update_index()
        runs = [entry.run for entry in entries.values()]
        return sorted(runs, key=lambda run: (run.started, run.index))

    def load_run(self, run: IndexedRun) -> RunRecord:
        """Read a record, and check its digest and signature.

        :raises hvstack.errors.InputError: the record is not usable.
        """
        for path, entry in self._list_entries(run.sweep).items():
            if entry.run == run:
                return self._load(path, entry.identity)
        raise errors.InputError(
            f'Cannot read the record of {run.run_id} ({self.records_dir}): it '
            'is not there any more. Run the command again.'
        )

    def load_records(self, sweep: str) -> list[RunRecord]:
        """Read and check all records of a sweep, sorted by start time.

        A record that this object has checked before is read again only if
        its file has changed.

        :raises hvstack.errors.InputError: a record of the sweep is not
            usable.
        """
        records = [
            self._load(path, entry.identity)
            for path, entry in self._list_entries(sweep).items()
        ]
        return sorted(records, key=lambda item: (item.started, item.index))

    def load_usable(self, sweep: str | None = None) -> list[RunRecord]:
        """Read and check records, sorted by start time.

        A record that is not usable is left out. One that this object has
        checked before is read again only if its file has changed.

        :param sweep: name of the sweep; None uses all sweeps.
        :raises hvstack.errors.InputError: a list of keys or ``hvstack.conf``
            is not valid.
        """
        entries, _ = self._update_index()
        records = []
        for path, entry in entries.items():
            if sweep in (None, entry.run.sweep):
                with contextlib.suppress(errors.InputError):
                    records.append(self._load(path, entry.identity))
        return sorted(records, key=lambda item: (item.started, item.index))

    def _load(self, path: Path, identity: tuple[int, ...]) -> RunRecord:
        checked = self._checked.get(path)
        if checked and checked[0] == identity == _identify(path):
            return checked[1]
        usable = self._read(path, identity, signing.policy())
        if isinstance(usable, InvalidRecord):
            raise errors.InputError(usable.reason)
        return usable

    def _read(
        self, path: Path, identity: tuple[int, ...], policy: signing.Policy
    ) -> RunRecord | InvalidRecord:
        usable = record.read_usable(path, policy)
        self.read_count += 1
        if isinstance(usable, RunRecord):
            self._checked[path] = identity, usable
        return usable

    def _list_entries(self, sweep: str) -> dict[Path, _Entry]:
        entries, invalid_records = self._update_index()
        record.require_usable(invalid_records, [sweep])
        return {
            path: entry
            for path, entry in entries.items()
            if entry.run.sweep == sweep
        }

    def _update_index(
        self,
    ) -> tuple[dict[Path, _Entry], list[InvalidRecord]]:
        """Return the entries of usable records, and the other records."""
        policy = signing.policy()
        stored = self._read_index(policy)
        entries: dict[Path, _Entry] = {}
        invalid_records = []
        for path in record.list_files(self.records_dir):
            identity = _identify(path)
            entry = stored.get(path.name)
            if entry is None or entry.identity != identity:
                usable = self._read(path, identity, policy)
                if isinstance(usable, InvalidRecord):
                    invalid_records.append(usable)
                    continue
                entry = _Entry(identity, _index_run(usable))
            entries[path] = entry
        by_name = {path.name: entry for path, entry in entries.items()}
        if self.keep_index and by_name != stored:
            self._write_index(policy, by_name)
        runs = {path: entry.run for path, entry in entries.items()}
        for path, reason in record.find_conflicts(runs).items():
            sweep = entries.pop(path).run.sweep
            invalid_records.append(InvalidRecord(f'{path}: {reason}', sweep))
        return entries, invalid_records

    def _read_index(self, policy: signing.Policy) -> dict[str, _Entry]:
        content: dict[str, Json] = jsonfile.load_if_whole(self.index_path)
        entries = content.get('entries')
        if content.get('policy') != _describe_policy(policy):
            return {}
        try:
            return {
                name: read(_Entry, entry)
                for name, entry in (
                    entries.items() if isinstance(entries, dict) else ()
                )
            }
        except FieldTypeError:
            return {}

    def _write_index(
        self, policy: signing.Policy, entries: Mapping[str, _Entry]
    ) -> None:
        content = {
            'policy': _describe_policy(policy),
            'entries': {
                name: asdict(entry) for name, entry in entries.items()
            },
        }
        # Without an index, the next start reads the records again.
        with contextlib.suppress(OSError):
            paths.write_whole(self.index_path, json.dumps(content) + '\n')


def _identify(path: Path) -> tuple[int, ...]:
    """Return the identity of a file; empty if it cannot be examined."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return (
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _index_run(run_record: RunRecord) -> IndexedRun:
    return IndexedRun(
        sweep=run_record.sweep,
        configuration=run_record.configuration,
        index=run_record.index,
        id=run_record.id,
        started=run_record.started,
        ended=run_record.ended,
        size_bytes=run_record.size_bytes,
        valid=run_record.valid,
        rate=run_record.rate,
        seconds=run_record.total_seconds,
        is_killed=run_record.is_killed,
        unverified=run_record.unverified,
    )


def _describe_policy(policy: signing.Policy) -> str:
    """Return a digest of the format and of the keys that count."""
    text = json.dumps(
        [
            FORMAT,
            sorted(policy.trusted),
            sorted(policy.revoked),
            policy.unsigned,
        ]
    )
    return hashlib.sha256(text.encode()).hexdigest()
