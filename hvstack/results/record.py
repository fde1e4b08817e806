# SPDX-License-Identifier: Apache-2.0
"""Run records: one JSON file for each benchmark run, never half-written."""

import hashlib
import json
import math
import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hvstack import errors, jsonfile, paths
from hvstack.results import selfcheck, signing
from hvstack.results.run_id import is_sweep

#: Format of the files that this release writes, and the newest it reads.
SCHEMA = 1

KINDS = ('configuration', 'baseline')

#: A part of file names, so that no other character may be in it.
_CONFIGURATION = re.compile(r'[A-Za-z0-9][A-Za-z0-9.-]{0,127}', re.ASCII)
_TIME = re.compile(
    r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)',
    re.ASCII,
)


def compute_rate(size_bytes: int, seconds: float) -> float:
    """Return the scale factor in TB over the elapsed hours.

    TPCx-HS: HSph@SF = SF / (T / 3600); called so only for TPC's own kit at
    one of its scale factors.

    :raises hvstack.errors.InputError: no time or no data.
    """
    if size_bytes <= 0 or not seconds > 0 or not math.isfinite(seconds):
        raise errors.InputError(
            f'no rate of {size_bytes} bytes in {seconds} s: both must be '
            'more than 0'
        )
    return size_bytes / 1e12 / (seconds / 3600)


def is_id(text: str) -> bool:
    """Tell whether a text is a UUID as Python writes it, as IDs are."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def compute_seconds_between(earlier: str, later: str) -> float:
    """Return seconds between two times of records."""
    first, last = map(datetime.fromisoformat, (earlier, later))
    return (last - first).total_seconds()


def number_phase_names(phases: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of phases; a second one of a name has a 2 behind it."""
    names: list[str] = []
    for phase in phases:
        name = phase['name']
        index = 1
        while name in names:
            index += 1
            name = f'{phase["name"]} {index}'
        names.append(name)
    return names


@dataclass
class Record:
    """One benchmark run.

    :param sweep: which sweep it belongs to.
    :param kind: one of :data:`KINDS`.
    :param configuration: full name; ``bare-metal`` for a baseline.
    :param index: which run of its configuration, from 0.
    :param started: ISO 8601 in UTC, such as ``2026-11-21T05:45:00Z``.
    :param ended: likewise.
    :param valid: all phases ended and both data checks passed.
    :param reason: why it is not valid, with the evidence.
    :param phases: in order, each with ``name`` and ``seconds`` and perhaps
        ``job_id``, ``counters``, ``map_shuffle_seconds``,
        ``reduce_merge_seconds``.
    :param total_seconds: elapsed time of the whole run.
    :param rate: TB per hour, see :func:`compute_rate`; 0 if the run is not
        valid.
    :param environment: what must agree between comparable runs.
    :param seen: what was observed, not what was asked for.
    :param derived: the stand-in ran, not TPC's kit.
    :param digest: SHA-256 over everything else, set by :func:`save`.
    :param signature: ``key`` and ``value``, set by :func:`save`; empty in
        the records of older releases.
    :param unverified: why the record counts only on request, set by
        :func:`load`; empty if a trusted key signed it. It is not stored.
    """

    sweep: str
    kind: str
    configuration: str
    index: int
    started: str
    ended: str
    valid: bool
    size_bytes: int
    replication: int
    maps: int
    reduces: int
    reason: str = ''
    phases: list[dict[str, Any]] = field(default_factory=list)
    total_seconds: float = 0.0
    rate: float = 0.0
    environment: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    derived: bool = True
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    schema: int = SCHEMA
    digest: str = ''
    signature: dict[str, str] = field(default_factory=dict)
    unverified: str = field(default='', compare=False)

    def phase_seconds(self) -> dict[str, float]:
        """Seconds by phase; a second one of a name has a 2 behind it."""
        return {
            name: float(phase['seconds'])
            for name, phase in zip(
                number_phase_names(self.phases), self.phases, strict=True
            )
        }

    def counters(self, phase: str) -> dict[str, Any]:
        """Counters of a phase's job; none if the record has none."""
        for run_phase in self.phases:
            if run_phase['name'] == phase and isinstance(
                run_phase.get('counters'), dict
            ):
                return dict(run_phase['counters'])
        return {}

    def canonical(self) -> str:
        """Return the text that the digest and the signature cover.

        It is JSON in ASCII with sorted keys and without blanks, of all that
        is stored except the digest and the signature.

        :raises ValueError: a number is not finite.
        """
        content = {
            name: value
            for name, value in vars(self).items()
            if name not in _NOT_COVERED
        }
        return json.dumps(
            content, sort_keys=True, separators=(',', ':'), allow_nan=False
        )

    def computed_digest(self) -> str:
        """Return the digest that the content has now."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


#: Stored fields that are no part of what the digest covers, and what is not
#: stored.
_NOT_COVERED = frozenset({'digest', 'signature', 'unverified'})
#: Fields that records of older releases lack.
_OPTIONAL = frozenset({'signature'})
#: A record has some 100 kB at most.
_MAX_FILE_BYTES = 16 * 1024 * 1024
#: Control characters, except tab and line feed, and halves of characters.
_UNPRINTABLE = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]')


def _replace_unprintable(value: Any) -> Any:
    """Return plain data without control characters.

    Reasons quote what programs printed, such as the colors of a terminal.
    """
    if isinstance(value, str):
        return _UNPRINTABLE.sub('\ufffd', value)
    if isinstance(value, list):
        return [_replace_unprintable(item) for item in value]
    if isinstance(value, dict):
        return {
            _replace_unprintable(key): _replace_unprintable(v)
            for key, v in value.items()
        }
    return value


def to_mapping(record: Record) -> dict[str, Any]:
    """Return the content of a record's file."""
    content = asdict(record)
    del content['unverified']
    if not record.signature:
        del content['signature']
    return content


def save(record: Record, records_dir: Path) -> Path:
    """Sign a record, write it whole, and return its file.

    Only the process that measured calls this. :func:`store` writes a record
    that another machine signed.

    :raises hvstack.errors.InputError: a field is not what it must be.
    :raises hvstack.errors.MissingPrerequisite: no room, no rights, or no key
        to sign with.
    """
    # What JSON turns into something else (tuples, int keys) must not make
    # the file's digest differ from the one computed here.
    try:
        plain = json.loads(json.dumps(to_mapping(record), allow_nan=False))
    except (TypeError, ValueError) as exc:
        raise errors.InputError(
            f'run record {record.id}: cannot be written as JSON ({exc}), '
            'keep plain finite values in it'
        ) from exc
    written = _parse_record(
        _replace_unprintable(plain), f'run record {record.id}'
    )
    record.digest = written.digest = written.computed_digest()
    record.signature = written.signature = signing.sign(
        signing.RECORD, written.canonical()
    )
    return store(written, records_dir)


def store(record: Record, records_dir: Path) -> Path:
    """Write a record as it is, with its digest and signature.

    :returns: its file.
    :raises hvstack.errors.MissingPrerequisite: no room, no rights.
    """
    started = record.started.replace(':', '').replace('-', '')
    path = records_dir / f'{started}-{record.configuration}-{record.id}.json'
    text = json.dumps(to_mapping(record), indent=1, sort_keys=True) + '\n'
    try:
        paths.write_whole(path, text)
    except OSError as exc:
        raise errors.MissingPrerequisite(
            f'{path}: the run record cannot be written ({exc.strerror}): make '
            'room there, then go on; the run is done again'
        ) from exc
    return path


def load(path: Path, unsigned: bool | None = None) -> Record:
    """Read a record, and prove that it is as it was written.

    :param unsigned: accept a record that is not signed by a trusted key;
        None uses ``[records] unsigned`` of ``hvstack.conf``.
    :raises hvstack.errors.InputError: half-written, edited, not signed by a
        trusted key, contradicting itself, of a newer release, or no record.
    """
    return _verify_record(_read(path), str(path), signing.policy(unsigned))


def load_all(
    records_dir: Path, sweep: str | None = None, unsigned: bool | None = None
) -> list[Record]:
    """Return the records of a folder by start time.

    :param sweep: only those of one sweep.
    :param unsigned: as in :func:`load`.
    :raises hvstack.errors.InputError: one of the files is not a usable
        record.
    """
    records, invalid_records = load_usable(records_dir, unsigned)
    for invalid in invalid_records:
        raise errors.InputError(invalid.reason)
    return [
        record for record in records if sweep is None or record.sweep == sweep
    ]


@dataclass(frozen=True)
class InvalidRecord:
    """A file that is no usable record.

    :param reason: one line with file, field and remedy.
    :param sweep: name of its sweep; empty if it has no valid name.
    """

    reason: str
    sweep: str


def load_usable(
    records_dir: Path, unsigned: bool | None = None
) -> tuple[list[Record], list[InvalidRecord]]:
    """Return a folder's records by start time, and what is none.

    Every reader of a folder goes through this function. A report is made of
    the usable records, and names what it leaves out.

    :param unsigned: as in :func:`load`.
    :raises hvstack.errors.InputError: a list of keys or ``hvstack.conf`` is
        not valid.
    """
    policy = signing.policy(unsigned)
    records: dict[Path, Record] = {}
    invalid_records = []
    for path in _list_files(records_dir):
        sweep = ''
        try:
            data = _read(path)
            name = data.get('sweep') if isinstance(data, dict) else None
            if isinstance(name, str) and is_sweep(name):
                sweep = name
            record = _verify_record(data, str(path), policy)
            if not f'-{path.name}'.endswith(f'-{record.id}.json'):
                raise errors.InputError(
                    f"{path}: the name does not end with the record's id, "
                    f'{record.id}: it is a copy, or was renamed. Restore its '
                    'name or move it away'
                )
        except errors.InputError as exc:
            invalid_records.append(InvalidRecord(str(exc), sweep))
        else:
            records[path] = record
    for path, reason in _find_conflicts(records).items():
        text = f'{path}: {reason}'
        invalid_records.append(InvalidRecord(text, records.pop(path).sweep))
    return _sort_records(records.values()), invalid_records


def require_usable(
    invalid_records: Iterable[InvalidRecord], sweeps: Collection[str]
) -> None:
    """Refuse to continue without records that sweeps may need.

    :param sweeps: names of sweeps.
    :raises hvstack.errors.InputError: a record of them is not usable.
    """
    for invalid in invalid_records:
        if invalid.sweep in sweeps:
            raise errors.InputError(invalid.reason)


def _list_files(records_dir: Path) -> list[Path]:
    return [
        path
        for path in sorted(records_dir.glob('*.json'))
        if not path.name.startswith('.')
    ]


def _sort_records(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (record.started, record.index))


def _read(path: Path) -> Any:
    """Return the content of a file.

    :raises hvstack.errors.InputError: it is not a file in JSON.
    """
    try:
        return jsonfile.load(path, _MAX_FILE_BYTES).data
    except errors.InputError as exc:
        raise errors.InputError(
            f'{str(exc).removesuffix(".")}. Or move the file away: it is no '
            'whole run record'
        ) from exc


def _verify_record(data: Any, source: str, policy: signing.Policy) -> Record:
    """Return the record that plain data make, if it can be believed.

    :raises hvstack.errors.InputError: it cannot, with the reason.
    """
    try:
        record = _parse_record(data, source)
        canonical = record.canonical()
        selfcheck.check_text(canonical)
    except (ValueError, OverflowError, RecursionError) as exc:
        raise errors.InputError(
            f'{source}: no run record ({exc}), move it away'
        ) from exc
    if record.digest != hashlib.sha256(canonical.encode()).hexdigest():
        raise errors.InputError(
            f"{source}: 'digest' does not fit the content, the record was "
            'edited: restore it or move it away'
        )
    try:
        record.unverified = policy.assess(
            signing.RECORD, canonical, record.signature
        )
    except ValueError as exc:
        raise errors.InputError(f'{source}: the record {exc}') from None
    contradiction = selfcheck.first_contradiction(record)
    if contradiction:
        name, reason = contradiction
        raise errors.InputError(
            f"{source}: the record contradicts itself: '{name}' {reason}. "
            'Move it away'
        )
    return record


def _find_conflicts(records: Mapping[Path, Record]) -> dict[Path, str]:
    """Return why records cannot be true together, by file.

    On one machine a sweep does one run after the other, and never repeats a
    run that is valid.
    """
    reasons: dict[Path, str] = {}
    by_id: dict[str, Path] = {}
    by_run: dict[tuple[str, str, int, int], Path] = {}
    by_sweep: dict[str, list[tuple[datetime, datetime, Path]]] = {}
    for path, record in records.items():
        first = by_id.setdefault(record.id, path)
        if first != path:
            reasons[path] = (
                f"'id' is that of {first.name}: it is the same run. Delete "
                'the copy'
            )
            continue
        started, ended = map(
            datetime.fromisoformat, (record.started, record.ended)
        )
        by_sweep.setdefault(record.sweep, []).append((started, ended, path))
        if not record.valid:
            continue
        run = (
            record.sweep,
            record.configuration,
            record.index,
            record.size_bytes,
        )
        first = by_run.setdefault(run, path)
        if first != path:
            for suspect, other in _list_suspects(records, path, first):
                reasons[suspect] = (
                    f'sweep, configuration and index are those of '
                    f'{other.name}: a valid run is never repeated. Move the '
                    'forged record away'
                )
    for spans in by_sweep.values():
        spans.sort()
        _, last_end, last_path = spans[0]
        for started, ended, path in spans[1:]:
            if started < last_end - _OVERLAP:
                for suspect, other in _list_suspects(records, path, last_path):
                    reasons.setdefault(
                        suspect,
                        "'started' and 'ended' overlap with the run in "
                        f'{other.name}: a sweep does one run after the '
                        'other. Move the forged record away',
                    )
            if ended > last_end:
                last_end, last_path = ended, path
    return reasons


def _list_suspects(
    records: Mapping[Path, Record], first: Path, second: Path
) -> list[tuple[Path, Path]]:
    """Return which of two records must be wrong, each with the other one.

    A record that no trusted key signed does not exclude a signed one.
    """
    pairs = [(first, second), (second, first)]
    return [
        (suspect, other)
        for suspect, other in pairs
        if records[suspect].unverified or not records[other].unverified
    ]


#: How much runs of a sweep may overlap: times have whole seconds.
_OVERLAP = timedelta(seconds=2)

_TYPES: dict[str, type | tuple[type, ...]] = {
    'sweep': str,
    'kind': str,
    'configuration': str,
    'index': int,
    'started': str,
    'ended': str,
    'valid': bool,
    'size_bytes': int,
    'replication': int,
    'maps': int,
    'reduces': int,
    'reason': str,
    'phases': list,
    'total_seconds': (int, float),
    'rate': (int, float),
    'environment': dict,
    'seen': dict,
    'derived': bool,
    'id': str,
    'schema': int,
    'digest': str,
    'signature': dict,
}


def _parse_record(data: Any, source: str) -> Record:
    """Check plain data field by field and make a record of it."""

    def build_error(name: str, problem: str) -> errors.InputError:
        return errors.InputError(
            f"{source}: '{name}' {problem}, move it away or restore it"
        )

    if not isinstance(data, dict):
        raise build_error('content', 'is no mapping')
    schema = data.get('schema')
    if not isinstance(schema, int) or schema < 1:
        raise build_error('schema', f'is {schema!r}, not a run record')
    if schema > SCHEMA:
        raise errors.InputError(
            f"{source}: 'schema' is {schema}, written by a newer release "
            f'than this one ({SCHEMA}): update hvstack'
        )
    names = {record_field.name for record_field in fields(Record)} - {
        'unverified'
    }
    for name in sorted(names - _OPTIONAL - set(data)):
        raise build_error(name, 'is missing')
    for name in sorted(set(data) - names):
        raise build_error(name, 'is unknown')
    for name, field_type in _TYPES.items():
        if name in _OPTIONAL and name not in data:
            continue
        value = data[name]
        is_flag = isinstance(value, bool)
        if not isinstance(value, field_type) or is_flag != (
            field_type is bool
        ):
            raise build_error(name, f'is {value!r:.60}')
    if data['kind'] not in KINDS:
        raise build_error('kind', f'is none of {", ".join(KINDS)}')
    if not is_id(data['id']):
        raise build_error('id', f'is {data["id"]!r:.60}, not a UUID')
    if not is_sweep(data['sweep']):
        raise build_error('sweep', f'is {data["sweep"]!r:.60}, not a name')
    if not _CONFIGURATION.fullmatch(data['configuration']):
        raise build_error('configuration', 'is no name')
    for name in ('started', 'ended'):
        if not _TIME.fullmatch(data[name]):
            raise build_error(
                name, 'is not a time such as 2026-11-21T05:45:00Z'
            )
        try:
            datetime.fromisoformat(data[name])
        except ValueError as exc:
            raise build_error(name, 'is no ISO 8601 time') from exc
    for index, phase in enumerate(data['phases']):
        seconds = phase.get('seconds') if isinstance(phase, dict) else None
        if (
            not isinstance(seconds, int | float)
            or isinstance(seconds, bool)
            or seconds < 0
            or not isinstance(phase.get('name'), str)
        ):
            raise build_error(f'phases.{index}', 'has no name or no seconds')
    if data['valid']:
        for name in ('size_bytes', 'total_seconds', 'rate'):
            if not 0 < data[name] < math.inf:
                raise build_error(name, 'is not more than 0, or not finite')
        expected = compute_rate(data['size_bytes'], data['total_seconds'])
        if not math.isclose(expected, data['rate'], rel_tol=1e-6):
            raise build_error(
                'rate',
                f'is {data["rate"]}, but size and time make {expected:.6g}',
            )
    return Record(**data)
