# SPDX-License-Identifier: Apache-2.0
"""Store of run records in a database: SQLite, or PostgreSQL for a team.

The database contains the same signed documents as the files of a directory.
The other columns of a record select rows and serve scheduling. A record that
is reported is read from its document and checked like a file.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import sqlalchemy
from sqlalchemy import ColumnElement, Connection, Row

from hvstack import errors, jsonfile, textfile
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
)
from hvstack.results.sql_database import FILES, RECORDS, Database
from hvstack.results.sql_rows import (
    INDEX,
    build_columns,
    build_row,
    read_document,
    read_index_row,
    write_text,
)

#: Number of rows that are read or written at once.
_CHUNK = 100


class SqlRunStore:
    """Records in a database.

    :param url: URL of the database.
    :param spare_dir: directory for a record that the database did not take.
    :param unsigned: accept records that are not signed by a trusted key;
        None uses ``[records] unsigned`` of ``hvstack.conf``.
    :raises hvstack.errors.InputError: the URL is not valid.
    """

    def __init__(
        self, url: str, spare_dir: Path, *, unsigned: bool | None = None
    ) -> None:
        self.database = Database(url)
        self.spare_dir = spare_dir
        self.unsigned = unsigned
        #: Number of records that were read.
        self.read_count = 0

    def describe(self, name: str = '') -> str:
        """Return the location of the store, or of a file, for messages."""
        return f'{self.database.label}{": " * bool(name)}{name}'

    def append(self, run_record: RunRecord) -> RunRecord:
        """Sign and store the record of a run that has ended.

        If the database does not take it, hours of measurement would be lost:
        the record is stored as a file.

        :raises hvstack.errors.MissingPrerequisiteError: no key to sign with.
        :raises hvstack.errors.RecordNotStoredError: the database cannot be
            used.
        """
        signed = record_data.sign(run_record)
        try:
            with self.database.write() as connection:
                connection.execute(
                    sqlalchemy.delete(RECORDS).where(RECORDS.c.id == signed.id)
                )
                connection.execute(
                    sqlalchemy.insert(RECORDS), [build_row(signed)]
                )
        except errors.MissingPrerequisiteError as error:
            path = record.store(signed, self.spare_dir)
            raise errors.RecordNotStoredError(
                f"{error} The record is in {path}. Run 'hvstack record import "
                f"{self.spare_dir}' when the database can be used."
            ) from error
        return signed

    def add(
        self, records: Sequence[RunRecord], texts: Mapping[str, str]
    ) -> int:
        """Store records as they are, with the text files of these records.

        :raises hvstack.errors.InputError: another record has the same id.
        :raises hvstack.errors.MissingPrerequisiteError: the database cannot
            be used.
        """
        count = 0
        for start in range(0, len(records), _CHUNK):
            chunk = records[start : start + _CHUNK]
            with self.database.write() as connection:
                count += self._add(connection, chunk)
                if start == 0:
                    for name, text in texts.items():
                        write_text(connection, name, text)
        return count

    def _add(
        self, connection: Connection, records: Sequence[RunRecord]
    ) -> int:
        """Store the records that the database does not have.

        :returns: number of these records.
        :raises hvstack.errors.InputError: another record has the same id.
        """
        ids = [run_record.id for run_record in records]
        existing = {
            row.id: row.digest
            for row in connection.execute(
                sqlalchemy.select(RECORDS.c.id, RECORDS.c.digest).where(
                    RECORDS.c.id.in_(ids)
                )
            )
        }
        rows, replaced_ids = [], []
        for run_record in records:
            digest = existing.get(run_record.id)
            if digest is None:
                rows.append(build_row(run_record))
            elif digest != run_record.digest and is_replacement(
                run_record, read_document(connection, run_record.id), self
            ):
                replaced_ids.append(run_record.id)
                rows.append(build_row(run_record))
        if replaced_ids:
            connection.execute(
                sqlalchemy.delete(RECORDS).where(
                    RECORDS.c.id.in_(replaced_ids)
                )
            )
        if rows:
            connection.execute(sqlalchemy.insert(RECORDS), rows)
        return len(rows)

    def delete(self, record_id: str) -> None:
        """Delete a record with its telemetry.

        :raises hvstack.errors.InputError: the database does not have it.
        :raises hvstack.errors.MissingPrerequisiteError: the database cannot
            be used.
        """
        name = f'{telemetry_files.DIRECTORY}/{record_id}.json'
        with self.database.write() as connection:
            result = connection.execute(
                sqlalchemy.delete(RECORDS).where(RECORDS.c.id == record_id)
            )
            if not result.rowcount:
                raise build_missing(record_id, self.describe())
            connection.execute(
                sqlalchemy.delete(FILES).where(FILES.c.name == name)
            )

    def has_text(self, name: str) -> bool:
        """Return whether a file exists."""
        query = sqlalchemy.select(FILES.c.name).where(FILES.c.name == name)
        with self.database.read() as connection:
            return bool(connection and connection.scalar(query))

    def read_text(self, name: str, max_bytes: int) -> str:
        """Return the text of a file.

        :raises hvstack.textfile.MissingFileError: the file does not exist.
        :raises hvstack.errors.InputError: the file is too large.
        """
        query = sqlalchemy.select(FILES.c.content).where(FILES.c.name == name)
        with self.database.read() as connection:
            text = connection.scalar(query) if connection else None
        if text is None:
            raise textfile.MissingFileError(
                f'Cannot read {self.describe(name)}: the file does not exist. '
                'Import it again.'
            )
        if len(text) > max_bytes:
            raise errors.InputError(
                f'Cannot read {self.describe(name)}: the text has more than '
                f'{max_bytes} characters. Import it again.'
            )
        return str(text)

    def write_text(self, name: str, text: str) -> None:
        """Write a file whole.

        :raises hvstack.errors.MissingPrerequisiteError: the database cannot
            be used.
        """
        with self.database.write() as connection:
            write_text(connection, name, text)

    def list_runs(self, sweep: str) -> list[IndexedRun]:
        """Return the runs of a sweep by start time, for scheduling alone.

        :raises hvstack.errors.InputError: a record of the sweep is not
            usable.
        """
        runs, unusable = self._read_index(RECORDS.c.sweep == sweep)
        record.require_usable(unusable.values(), [sweep])
        return runs

    def list_all_runs(self) -> list[IndexedRun]:
        """Return the runs of all usable records by start time."""
        return self._read_index(sqlalchemy.true())[0]

    def load_run(self, run: IndexedRun) -> RunRecord:
        """Read a record, and check its digest and signature.

        :raises hvstack.errors.InputError: the record is not usable.
        """
        for _, usable in self._read(RECORDS.c.id == run.id):
            if isinstance(usable, InvalidRecord):
                raise errors.InputError(usable.reason)
            if index_run(usable) == run:
                return usable
        raise errors.InputError(
            f'Cannot read the record of {run.run_id} ({self.describe()}): it '
            'is not there any more. Run the command again.'
        )

    def load_records(self, sweep: str) -> list[RunRecord]:
        """Read and check all records of a sweep, sorted by start time.

        :raises hvstack.errors.InputError: a record of the sweep is not
            usable.
        """
        records, invalid_records = self.read_sweep(sweep)
        record.require_usable(invalid_records, [sweep])
        return records

    def read_sweep(
        self, sweep: str
    ) -> tuple[list[RunRecord], list[InvalidRecord]]:
        """Read and check the records of a sweep, sorted by start time.

        :returns: usable records, and further records of the sweep.
        """
        return self._split(
            usable for _, usable in self._read(RECORDS.c.sweep == sweep)
        )

    def read_sweeps(self, sweeps: Iterable[str]) -> Iterator[CheckedSweep]:
        """Read and check the records of sweeps, one sweep after the other."""
        for sweep in sweeps:
            yield CheckedSweep(sweep, *self.read_sweep(sweep))

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
        condition = RECORDS.c.configuration == BARE_METAL
        if name is not None:
            condition &= (RECORDS.c.id == name) | (RECORDS.c.sweep == name)
        if is_selected is not None:
            systems = self._select_systems(is_selected, condition)
            condition &= RECORDS.c.system.in_(systems)
        # A baseline may contradict a run of a configuration of its sweep.
        sweeps = sqlalchemy.select(RECORDS.c.sweep).where(condition)
        _, unusable = self._read_index(RECORDS.c.sweep.in_(sweeps))
        records, invalid_records = [], list(unusable.values())
        for record_id, usable in self._read(condition):
            if isinstance(usable, InvalidRecord):
                if usable != unusable.get(record_id):
                    invalid_records.append(usable)
            elif record_id not in unusable:
                records.append(usable)
        return _sort(records), invalid_records

    def list_sweeps(self) -> list[str]:
        """Return the names of all sweeps, the last started run's first."""
        return self._list_sweeps(sqlalchemy.true())

    def _list_sweeps(self, condition: ColumnElement[bool]) -> list[str]:
        last = sqlalchemy.func.max(RECORDS.c.started)
        query = (
            sqlalchemy.select(RECORDS.c.sweep)
            .where(condition)
            .group_by(RECORDS.c.sweep)
            .order_by(last.desc(), RECORDS.c.sweep.desc())
        )
        with self.database.read() as connection:
            if connection is None:
                return []
            return list(connection.scalars(query))

    def iter_sweeps(
        self, is_selected: Selector | None = None, ended_by: str = ''
    ) -> Iterator[list[RunRecord]]:
        """Read the usable records of sweeps, one sweep after the other."""
        condition: ColumnElement[bool] = sqlalchemy.true()
        if is_selected is not None:
            systems = self._select_systems(is_selected, condition)
            condition &= RECORDS.c.system.in_(systems)
        if ended_by:
            condition &= RECORDS.c.ended <= ended_by
        sweeps = sqlalchemy.select(RECORDS.c.sweep).where(condition)
        for sweep in self._list_sweeps(RECORDS.c.sweep.in_(sweeps)):
            records, _ = self.read_sweep(sweep)
            if records:
                yield records

    def _select_systems(
        self, is_selected: Selector, condition: ColumnElement[bool]
    ) -> list[str]:
        """Return the systems under test that a function selects.

        It gets one record of each. An unusable record says nothing about the
        other records.
        """
        example = sqlalchemy.func.min(RECORDS.c.id)
        query = (
            sqlalchemy.select(RECORDS.c.system, example)
            .where(condition)
            .group_by(RECORDS.c.system)
        )
        with self.database.read() as connection:
            examples = connection.execute(query).all() if connection else []
        systems = {record_id: system for system, record_id in examples}
        for record_ids in _split_ids(systems):
            for record_id, usable in self._read(RECORDS.c.id.in_(record_ids)):
                if not isinstance(usable, InvalidRecord) and not is_selected(
                    usable
                ):
                    del systems[record_id]
        return list(systems.values())

    def find_last_sweep(self, *, is_configured: bool = False) -> str:
        """Return the sweep of the last usable run; empty without any."""
        query = sqlalchemy.select(RECORDS.c.id, RECORDS.c.sweep).order_by(
            RECORDS.c.started.desc(), RECORDS.c.number.desc()
        )
        if is_configured:
            query = query.where(RECORDS.c.configuration != BARE_METAL)
        usable_ids: dict[str, set[str]] = {}
        for offset in itertools.count(0, _CHUNK):
            with self.database.read() as connection:
                rows = (
                    connection.execute(query.limit(_CHUNK).offset(offset))
                    if connection
                    else ()
                )
                newest = [(str(row.id), str(row.sweep)) for row in rows]
            for record_id, sweep in newest:
                if sweep not in usable_ids:
                    records, _ = self.read_sweep(sweep)
                    usable_ids[sweep] = {item.id for item in records}
                if record_id in usable_ids[sweep]:
                    return sweep
            if len(newest) < _CHUNK:
                break
        return ''

    def _read(
        self, condition: ColumnElement[bool]
    ) -> Iterator[tuple[str, RunRecord | InvalidRecord]]:
        """Read and check records.

        No transaction is open while a record is checked and used: in SQLite,
        it would keep other processes from writing for all that time.

        :returns: each record with its ID.
        """
        policy = signing.policy(self.unsigned)
        query = sqlalchemy.select(RECORDS.c.id).where(condition)
        with self.database.read() as connection:
            if connection is None:
                return
            ids = list(connection.scalars(query))
            for chunk in _split_ids(ids):
                rows = connection.execute(
                    sqlalchemy.select(RECORDS).where(RECORDS.c.id.in_(chunk))
                ).all()
                connection.rollback()
                for row in rows:
                    yield row.id, self._check(row, policy)

    def _check(
        self, row: Row[tuple[object, ...]], policy: signing.Policy
    ) -> RunRecord | InvalidRecord:
        """Return the record of a row, or why it is not usable."""
        self.read_count += 1
        source = f'record {row.id}'
        try:
            data = jsonfile.parse(row.document, Path(source)).data
            usable = record.verify_record(data, row.document, source, policy)
            expected = build_columns(usable)
            for column in INDEX:
                if row._mapping[column] != expected[column.name]:
                    raise errors.InputError(
                        f"Cannot use {source}: its column '{column.name}' "
                        'does not match the document, because the row was '
                        'edited. Restore the row.'
                    )
        except errors.InputError as error:
            return InvalidRecord(
                f"{self.describe()}: {error} ('hvstack record delete "
                f"{row.id}')",
                row.sweep,
            )
        return usable

    def _split(
        self, checked: Iterable[RunRecord | InvalidRecord]
    ) -> tuple[list[RunRecord], list[InvalidRecord]]:
        """Separate usable records from others, and from contradictions."""
        records: dict[Path, RunRecord] = {}
        invalid_records = []
        for usable in checked:
            if isinstance(usable, InvalidRecord):
                invalid_records.append(usable)
            else:
                records[Path(record.build_file_name(usable))] = usable
        records = {path: records[path] for path in sorted(records)}
        for path, reason in record.find_conflicts(records).items():
            run_record = records.pop(path)
            invalid_records.append(self._build_invalid(run_record, reason))
        return _sort(records.values()), invalid_records

    def _read_index(
        self, condition: ColumnElement[bool]
    ) -> tuple[list[IndexedRun], dict[str, InvalidRecord]]:
        """Read the index of records, by start time.

        Only the records that no trusted key signed are read themselves.

        :returns: runs, and the other records by their ID.
        """
        policy = signing.policy(self.unsigned)
        query = sqlalchemy.select(*INDEX).where(condition)
        runs: dict[Path, IndexedRun] = {}
        suspect_ids: list[str] = []
        with self.database.read() as connection:
            for row in connection.execute(query) if connection else ():
                if row.signer in policy.trusted:
                    run = read_index_row(row)
                    runs[Path(record.build_file_name(run))] = run
                else:
                    suspect_ids.append(row.id)
        invalid_records = {}
        for ids in _split_ids(suspect_ids):
            for record_id, usable in self._read(RECORDS.c.id.in_(ids)):
                if isinstance(usable, InvalidRecord):
                    invalid_records[record_id] = usable
                else:
                    run = index_run(usable)
                    runs[Path(record.build_file_name(run))] = run
        runs = {path: runs[path] for path in sorted(runs)}
        for path, reason in record.find_conflicts(runs).items():
            run = runs.pop(path)
            invalid_records[run.id] = self._build_invalid(run, reason)
        ordered = sorted(
            runs.values(), key=lambda run: (run.started, run.index)
        )
        return ordered, invalid_records

    def _build_invalid(
        self, run: RunRecord | IndexedRun, reason: str
    ) -> InvalidRecord:
        return InvalidRecord(
            f'{self.describe()}: record {run.id}: {reason} '
            f"('hvstack record delete {run.id}')",
            run.sweep,
        )


def _sort(records: Iterable[RunRecord]) -> list[RunRecord]:
    return sorted(records, key=lambda item: (item.started, item.index))


def _split_ids(ids: Iterable[str]) -> Iterator[list[str]]:
    """Return IDs in lists that one query can contain."""
    iterator = iter(list(ids))
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        yield chunk
