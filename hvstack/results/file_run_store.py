# SPDX-License-Identifier: Apache-2.0
"""Store of run records in a directory, with a file for each run."""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hvstack import errors, jsonfile, paths, textfile
from hvstack.model.target import BARE_METAL
from hvstack.results import record, record_data, signing, telemetry_files
from hvstack.results.record import InvalidRecord
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import (
    CheckedSweep,
    IndexedRun,
    Selector,
    build_missing,
    index_run,
    is_replacement,
    list_newest_first,
)
from hvstack.results.typed_json import FieldTypeError, Json, read

#: Format of the index: an index of another format is built again.
FORMAT = 2
#: File of the index, in the directory of the records.
INDEX = 'index/runs.json'
#: A record has some 450 bytes in the index.
_MAX_INDEX_BYTES = 256 * 1024 * 1024
#: Number of checked records that a store holds in memory.
_MAX_CHECKED = 1000
#: Number of characters of a UUID.
_ID_LENGTH = 36


@dataclass(frozen=True)
class _Entry:
    """Entry of the index with the identity of its file.

    :param identity: inode, size, and times of the last changes in ns.
    """

    identity: tuple[int, ...]
    run: IndexedRun


class FileRunStore:
    """Records in a directory, a file for each run.

    A file that the index does not contain, or that has another identity than
    in the index, is read again. An index that is missing, damaged, of another
    format or of other keys is built again.

    :param records_dir: directory of the records.
    :param keep_index: whether to write the index; False for a directory that
        the user only wants to read.
    :param unsigned: accept records that are not signed by a trusted key;
        None uses ``[records] unsigned`` of ``hvstack.conf``.
    """

    def __init__(
        self,
        records_dir: Path,
        *,
        keep_index: bool = True,
        unsigned: bool | None = None,
    ) -> None:
        self.records_dir = records_dir
        # The index of other signatures would be built again.
        self.keep_index = keep_index and unsigned is None
        self.unsigned = unsigned
        #: Number of records that were read.
        self.read_count = 0
        self._checked: dict[Path, tuple[tuple[int, ...], RunRecord]] = {}
        self._stored: dict[str, _Entry] = {}
        self._stored_policy = ''
        self._paths_by_id: dict[str, Path] = {}

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
            self._update_index(self._load_policy())
        return signed

    def add(
        self, records: Sequence[RunRecord], texts: Mapping[str, str]
    ) -> int:
        """Store records as they are, with the text files of these records.

        :raises hvstack.errors.InputError: another record has the same id.
        :raises hvstack.errors.MissingPrerequisiteError: no room, no rights.
        """
        if not self._paths_by_id:
            self._paths_by_id = {
                path.stem[-_ID_LENGTH:]: path
                for path in record.list_files(self.records_dir)
            }
        new_records = []
        for run_record in records:
            path = self._paths_by_id.get(run_record.id)
            if path is None or is_replacement(
                run_record, jsonfile.load_if_whole(path), self
            ):
                new_records.append(run_record)
        for name, text in texts.items():
            try:
                self.write_text(name, text)
            except OSError as exc:
                raise errors.MissingPrerequisiteError(
                    f'Cannot write {self.describe(name)}: {exc.strerror}. '
                    'Make room, then run the command again.'
                ) from exc
        for run_record in new_records:
            replaced_path = self._paths_by_id.get(run_record.id)
            path = record.store(run_record, self.records_dir)
            if replaced_path and replaced_path != path:
                replaced_path.unlink()
            self._paths_by_id[run_record.id] = path
        return len(new_records)

    def delete(self, record_id: str) -> None:
        """Delete a record with its telemetry.

        :raises hvstack.errors.InputError: the store does not have it.
        """
        for path in record.list_files(self.records_dir):
            if path.stem[-_ID_LENGTH:] == record_id:
                (
                    self.records_dir
                    / telemetry_files.DIRECTORY
                    / f'{record_id}.json'
                ).unlink(missing_ok=True)
                path.unlink()
                self._paths_by_id.clear()
                return
        raise build_missing(record_id, self.describe())

    def read_text(self, name: str, max_bytes: int) -> str:
        """Return the text of a file.

        :raises hvstack.textfile.MissingFileError: the file does not exist.
        :raises hvstack.errors.InputError: the file is not a text.
        """
        return textfile.read(self.records_dir / name, max_bytes)

    def has_text(self, name: str) -> bool:
        """Return whether a file exists."""
        return (self.records_dir / name).exists()

    def write_text(self, name: str, text: str) -> None:
        """Write a file whole.

        :raises OSError: no room, no rights.
        """
        paths.write_whole(self.records_dir / name, text)

    def describe(self, name: str = '') -> str:
        """Return the location of the store, or of a file, for messages."""
        return str(self.records_dir / name)

    def list_runs(self, sweep: str) -> list[IndexedRun]:
        """Return the runs of a sweep by start time, for scheduling alone.

        :raises hvstack.errors.InputError: a record of the sweep is not
            usable.
        """
        entries = self._list_entries(sweep, self._load_policy())
        runs = [entry.run for entry in entries.values()]
        return sorted(runs, key=lambda run: (run.started, run.index))

    def list_all_runs(self) -> list[IndexedRun]:
        """Return the runs of all usable records by start time."""
        entries, _ = self._update_index(self._load_policy())
        runs = [entry.run for entry in entries.values()]
        return sorted(runs, key=lambda run: (run.started, run.index))

    def load_run(self, run: IndexedRun) -> RunRecord:
        """Read a record, and check its digest and signature.

        :raises hvstack.errors.InputError: the record is not usable.
        """
        policy = self._load_policy()
        for path, entry in self._list_entries(run.sweep, policy).items():
            if entry.run == run:
                return self._require(path, entry, policy)
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
        policy = self._load_policy()
        records = [
            self._require(path, entry, policy)
            for path, entry in self._list_entries(sweep, policy).items()
        ]
        return sorted(records, key=lambda item: (item.started, item.index))

    def read_sweep(
        self, sweep: str
    ) -> tuple[list[RunRecord], list[InvalidRecord]]:
        """Read and check the records of a sweep, sorted by start time.

        A record that this object has checked before is read again only if
        its file has changed.

        :returns: usable records, and what may be further records of the sweep.
        :raises hvstack.errors.InputError: a list of keys or ``hvstack.conf``
            is not valid.
        """
        (checked,) = self.read_sweeps([sweep])
        return checked.records, checked.invalid_records

    def read_sweeps(self, sweeps: Iterable[str]) -> Iterator[CheckedSweep]:
        """Read and check the records of sweeps, one sweep after the other.

        :raises hvstack.errors.InputError: a list of keys or ``hvstack.conf``
            is not valid.
        """
        policy = self._load_policy()
        entries, invalid_records = self._update_index(policy)
        entries_by_sweep = _group_by_sweep(entries)
        for sweep in sweeps:
            records, invalid = self._read_entries(
                entries_by_sweep.get(sweep, {}), policy
            )
            suspects = [
                item for item in invalid_records if item.sweep in ('', sweep)
            ]
            yield CheckedSweep(sweep, records, suspects + invalid)

    def read_baselines(
        self, name: str | None = None, is_selected: Selector | None = None
    ) -> tuple[list[RunRecord], list[InvalidRecord]]:
        """Read and check records of bare metal, sorted by start time.

        :param name: id of a record or name of a sweep; None reads all.
        :param is_selected: function that decides by a record of bare metal of
            a system under test whether those of this system are read; None
            reads all.
        :returns: usable records, and why further records are not usable.
        """
        policy = self._load_policy()
        entries, invalid_records = self._update_index(policy)
        entries = {
            path: entry
            for path, entry in entries.items()
            if entry.run.configuration == BARE_METAL
            and name in (None, entry.run.id, entry.run.sweep)
        }
        systems = self._select_systems(entries, is_selected, policy)
        records, invalid = self._read_entries(
            {
                path: entry
                for path, entry in entries.items()
                if entry.run.system in systems
            },
            policy,
        )
        return records, invalid_records + invalid

    def list_sweeps(self) -> list[str]:
        """Return the names of all sweeps, the last started run's first."""
        entries, invalid_records = self._update_index(self._load_policy())
        names = list_newest_first(entry.run for entry in entries.values())
        others = {item.sweep for item in invalid_records} - {'', *names}
        return [*names, *sorted(others)]

    def iter_sweeps(
        self, is_selected: Selector | None = None, ended_by: str = ''
    ) -> Iterator[list[RunRecord]]:
        """Read the usable records of sweeps, one sweep after the other."""
        policy = self._load_policy()
        entries, _ = self._update_index(policy)
        entries_by_sweep = _group_by_sweep(entries)
        systems = self._select_systems(entries, is_selected, policy)
        runs = [entry.run for entry in entries.values()]
        sweeps = {
            run.sweep
            for run in runs
            if run.system in systems and run.ended <= (ended_by or run.ended)
        }
        for sweep in list_newest_first(
            run for run in runs if run.sweep in sweeps
        ):
            records, _ = self._read_entries(entries_by_sweep[sweep], policy)
            if records:
                yield records

    def _select_systems(
        self,
        entries: Mapping[Path, _Entry],
        is_selected: Selector | None,
        policy: signing.Policy,
    ) -> set[str]:
        """Return the systems under test that a function selects.

        It gets one record of each. An unusable record says nothing about the
        other records.
        """
        by_system: dict[str, dict[Path, _Entry]] = {}
        for path, entry in entries.items():
            by_system.setdefault(entry.run.system, {path: entry})
        return {
            system
            for system, example in by_system.items()
            if is_selected is None
            or all(map(is_selected, self._read_entries(example, policy)[0]))
        }

    def find_last_sweep(self, *, is_configured: bool = False) -> str:
        """Return the sweep of the last usable run; empty without any."""
        for run in reversed(self.list_all_runs()):
            if not is_configured or run.configuration != BARE_METAL:
                return run.sweep
        return ''

    def _load_policy(self) -> signing.Policy:
        """Return the signatures that count; a list of keys can change."""
        return signing.policy(self.unsigned)

    def _read_entries(
        self, entries: Mapping[Path, _Entry], policy: signing.Policy
    ) -> tuple[list[RunRecord], list[InvalidRecord]]:
        records, invalid_records = [], []
        for path, entry in entries.items():
            usable = self._load(path, entry, policy)
            if isinstance(usable, InvalidRecord):
                invalid_records.append(usable)
            else:
                records.append(usable)
        records.sort(key=lambda item: (item.started, item.index))
        return records, invalid_records

    def _require(
        self, path: Path, entry: _Entry, policy: signing.Policy
    ) -> RunRecord:
        usable = self._load(path, entry, policy)
        if isinstance(usable, InvalidRecord):
            raise errors.InputError(usable.reason)
        return usable

    def _load(
        self, path: Path, entry: _Entry, policy: signing.Policy
    ) -> RunRecord | InvalidRecord:
        checked = self._checked.get(path)
        if checked and checked[0] == entry.identity == _identify(path):
            return checked[1]
        usable = self._read(path, entry.identity, policy)
        if isinstance(usable, RunRecord) and usable.sweep != entry.run.sweep:
            return InvalidRecord(
                f"{self.index_path}: the sweep of '{path.name}' is not that "
                'of the record. Delete the index, which is built again',
                entry.run.sweep,
            )
        return usable

    def _read(
        self, path: Path, identity: tuple[int, ...], policy: signing.Policy
    ) -> RunRecord | InvalidRecord:
        usable = record.read_usable(path, policy)
        self.read_count += 1
        if isinstance(usable, RunRecord):
            # The oldest makes room: a report needs one sweep at a time.
            if len(self._checked) >= _MAX_CHECKED:
                self._checked.pop(next(iter(self._checked)))
            self._checked[path] = identity, usable
        return usable

    def _list_entries(
        self, sweep: str, policy: signing.Policy
    ) -> dict[Path, _Entry]:
        entries, invalid_records = self._update_index(policy)
        record.require_usable(invalid_records, [sweep])
        return {
            path: entry
            for path, entry in entries.items()
            if entry.run.sweep == sweep
        }

    def _update_index(
        self, policy: signing.Policy
    ) -> tuple[dict[Path, _Entry], list[InvalidRecord]]:
        """Return the entries of usable records, and the other records."""
        if self._stored_policy != _describe_policy(policy):
            self._stored = self._read_index(policy)
            self._stored_policy = _describe_policy(policy)
        stored = self._stored
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
                entry = _Entry(identity, index_run(usable))
            entries[path] = entry
        by_name = {path.name: entry for path, entry in entries.items()}
        if self.keep_index and by_name != stored:
            self._write_index(policy, by_name)
        self._stored = by_name
        runs = {path: entry.run for path, entry in entries.items()}
        for path, reason in record.find_conflicts(runs).items():
            sweep = entries.pop(path).run.sweep
            invalid_records.append(InvalidRecord(f'{path}: {reason}', sweep))
        return entries, invalid_records

    def _read_index(self, policy: signing.Policy) -> dict[str, _Entry]:
        content: dict[str, Json] = jsonfile.load_if_whole(
            self.index_path, _MAX_INDEX_BYTES
        )
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


def _group_by_sweep(
    entries: Mapping[Path, _Entry],
) -> dict[str, dict[Path, _Entry]]:
    """Return the entries of the index by name of the sweep."""
    groups: dict[str, dict[Path, _Entry]] = {}
    for path, entry in entries.items():
        groups.setdefault(entry.run.sweep, {})[path] = entry
    return groups


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
