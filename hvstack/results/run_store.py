# SPDX-License-Identifier: Apache-2.0
"""Stores of run records: what scheduling, reports and commands need.

A store has an index for scheduling. The index contains which runs exist,
whether they are valid, and their time. Whatever is reported, approved or
exported is read from the records, and their digests and signatures are
checked.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hvstack import errors
from hvstack.model.target import parse_target
from hvstack.results.record import InvalidRecord
from hvstack.results.record_data import RunRecord
from hvstack.results.run_id import RunId
from hvstack.results.typed_json import Json, JsonObject

#: Function that decides by a record of a system under test whether records of
#: this system are read.
Selector = Callable[[RunRecord], bool]
#: Observation of the allocation ratios before, during and after the runs.
_RATIOS = 'allocation_ratio'


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
    :param system: digest of the facts that decide whether runs are comparable.
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
    system: str
    unverified: str = ''

    @property
    def run_id(self) -> RunId:
        """Identity of the run."""
        return RunId(self.sweep, parse_target(self.configuration), self.index)


@dataclass(frozen=True)
class CheckedSweep:
    """Records of a sweep, read and checked.

    :param sweep: name of the sweep.
    :param records: usable records, sorted by start time.
    :param invalid_records: what may be further records of the sweep.
    """

    sweep: str
    records: list[RunRecord]
    invalid_records: list[InvalidRecord]


class TextStore(Protocol):
    """Store of the text files that belong to run records."""

    def read_text(self, name: str, max_bytes: int) -> str:
        """Return the text of a file, such as telemetry.

        :param name: path of the file, relative to the records.
        :param max_bytes: maximum size of the file.
        :raises hvstack.textfile.MissingFileError: the file does not exist.
        :raises hvstack.errors.InputError: the file is not a text.
        """

    def has_text(self, name: str) -> bool:
        """Return whether a file exists."""

    def write_text(self, name: str, text: str) -> None:
        """Write a file whole.

        :raises OSError: no room, no rights.
        :raises hvstack.errors.MissingPrerequisiteError: no connection to the
            database.
        """

    def describe(self, name: str = '') -> str:
        """Return the location of the store, or of a file, for messages."""


class RunStore(TextStore, Protocol):
    """Store of run records."""

    def append(self, run_record: RunRecord) -> RunRecord:
        """Sign and store the record of a run that has ended.

        A record that the store already has under this id is replaced.
        """

    def add(
        self, records: Sequence[RunRecord], texts: Mapping[str, str]
    ) -> int:
        """Store records as they are, with the text files of these records.

        A stored record without the allocation ratios after its run is
        replaced by the same record with them.

        :param records: records, each with its digest and signature.
        :param texts: texts by name of the file.
        :returns: number of records that were stored.
        :raises hvstack.errors.InputError: the store has another record under
            the id of one of them.
        """

    def delete(self, record_id: str) -> None:
        """Delete a record with its telemetry.

        :raises hvstack.errors.InputError: the store does not have it.
        """

    def list_runs(self, sweep: str) -> list[IndexedRun]:
        """Return the runs of a sweep by start time, for scheduling alone."""

    def list_all_runs(self) -> list[IndexedRun]:
        """Return the runs of all usable records by start time."""

    def load_run(self, run: IndexedRun) -> RunRecord:
        """Read a record, and check its digest and signature."""

    def load_records(self, sweep: str) -> list[RunRecord]:
        """Read and check all records of a sweep, sorted by start time."""

    def read_sweep(
        self, sweep: str
    ) -> tuple[list[RunRecord], list[InvalidRecord]]:
        """Read and check the records of a sweep, sorted by start time.

        :returns: usable records, and what may be further records of the sweep.
        """

    def read_sweeps(self, sweeps: Iterable[str]) -> Iterator[CheckedSweep]:
        """Read and check the records of sweeps, one sweep after the other.

        It is :meth:`read_sweep` for many sweeps: the store is examined once.
        """

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

    def list_sweeps(self) -> list[str]:
        """Return the names of all sweeps, the last started run's first.

        They include the sweeps without a usable record.
        """

    def iter_sweeps(
        self, is_selected: Selector | None = None, ended_by: str = ''
    ) -> Iterator[list[RunRecord]]:
        """Read the usable records of sweeps, one sweep after the other.

        The sweep with the run that started last comes first. The records of
        a sweep are sorted by start time.

        :param is_selected: function that decides by a record of a system
            under test whether sweeps on this system are read; None reads all.
        :param ended_by: time by which such a run of a sweep must have ended,
            so that the sweep is read; empty for any time.
        """

    def find_last_sweep(self, *, is_configured: bool = False) -> str:
        """Return the sweep of the last usable run; empty without any.

        :param is_configured: ignore runs on bare metal.
        """


@dataclass(frozen=True)
class StoredSweeps:
    """Usable records of a store, by sweep, which are read when they are used.

    :param store: store of the run records.
    """

    store: RunStore

    def __iter__(self) -> Iterator[list[RunRecord]]:
        """Read one sweep after the other."""
        return self.store.iter_sweeps()


def iter_records(store: RunStore) -> Iterator[RunRecord]:
    """Read all usable records, one sweep after the other."""
    for records in store.iter_sweeps():
        yield from records


def list_newest_first(runs: Iterable[IndexedRun]) -> list[str]:
    """Return the names of sweeps, the last started run's first."""
    last: dict[str, str] = {}
    for run in runs:
        last[run.sweep] = max(run.started, last.get(run.sweep, ''))
    return sorted(last, key=lambda sweep: (last[sweep], sweep), reverse=True)


def is_replacement(
    run_record: RunRecord, stored: Mapping[str, Json], store: TextStore
) -> bool:
    """Return whether a record replaces the one stored under its ID.

    After the runs of a cluster, hvstack adds the restored allocation ratios
    to their records. One of two records may be a copy from before this.

    :param run_record: record to store.
    :param stored: document of the stored record.
    :param store: store of the stored record.
    :returns: False if the stored record is to be kept.
    :raises hvstack.errors.InputError: the stored record is another record.
    """
    if stored.get('digest') == run_record.digest:
        return False
    content, ratios = _split_restored_ratios(run_record.document)
    stored_content, stored_ratios = _split_restored_ratios(stored)
    if content != stored_content or (ratios is None) == (
        stored_ratios is None
    ):
        raise _build_conflict(run_record, store)
    return ratios is not None


def _split_restored_ratios(
    document: Mapping[str, Json],
) -> tuple[JsonObject, Json]:
    """Return the common content of copies of a record, and the ratios.

    :param document: document of a record.
    :returns: the content with the key of the signature, and the allocation
        ratios after the runs; None without them.
    """
    content: JsonObject = {**document, 'digest': None, 'signature': None}
    signature, observed = document.get('signature'), document.get('seen')
    if isinstance(signature, dict):
        content['signature'] = signature.get('key')
    if not isinstance(observed, dict):
        return content, None
    ratios = observed.get(_RATIOS, {})
    if not isinstance(ratios, dict):
        return content, None
    others = {name: value for name, value in ratios.items() if name != 'after'}
    content['seen'] = {**observed, _RATIOS: others}
    return content, ratios.get('after')


def _build_conflict(
    run_record: RunRecord, store: TextStore
) -> errors.InputError:
    """Return the error for another record under the id of a record."""
    # The command line must not contain a password, which is hidden here.
    location = shlex.quote(store.describe().replace(':***@', '@'))
    return errors.InputError(
        f'Cannot store record {run_record.id} of sweep '
        f"'{run_record.sweep}' ({store.describe()}): another record is stored "
        'under this ID. If the stored record is the wrong one, delete it with '
        f"'hvstack record delete --records {location} {run_record.id}'; "
        'otherwise, delete the other one.'
    )


def build_missing(record_id: str, source: str) -> errors.InputError:
    """Return the error for a record that does not exist."""
    return errors.InputError(
        f'Cannot find record {record_id} ({source}): no record has this ID. '
        'Use the whole ID, such as a report in JSON shows it.'
    )


def index_run(run_record: RunRecord) -> IndexedRun:
    """Return the entry of the index for a record."""
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
        system=run_record.system_digest,
        unverified=run_record.unverified,
    )
