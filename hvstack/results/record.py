# SPDX-License-Identifier: Apache-2.0
"""Run records: one JSON file for each benchmark run, never half-written."""

import hashlib
import json
import math
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from hvstack import errors, paths

#: Format of the files that this release writes, and the newest it reads.
SCHEMA = 1

KINDS = ('configuration', 'baseline')

#: What a baseline's records have for a configuration.
BARE_METAL = 'bare-metal'

#: These are parts of file names, so that no other character may be in them.
_SWEEP = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,63}', re.ASCII)
_CONFIGURATION = re.compile(r'[A-Za-z0-9][A-Za-z0-9.-]{0,127}', re.ASCII)
_TIME = re.compile(
    r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)',
    re.ASCII,
)


def rate(size_bytes: int, seconds: float) -> float:
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


def is_sweep(name: str) -> bool:
    """Tell whether a name can be that of a sweep.

    :param name: at most 64 letters, digits, dots, underscores and dashes,
        of which a letter or a digit comes first.
    """
    return _SWEEP.fullmatch(name) is not None


def is_id(text: str) -> bool:
    """Tell whether a text is a UUID as Python writes it, as IDs are."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def seconds_between(earlier: str, later: str) -> float:
    """Return seconds between two times of records."""
    first, last = map(datetime.fromisoformat, (earlier, later))
    return (last - first).total_seconds()


def phase_names(phases: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of phases; a second one of a name has a 2 behind it."""
    found: list[str] = []
    for phase in phases:
        name = phase['name']
        number = 1
        while name in found:
            number += 1
            name = f'{phase["name"]} {number}'
        found.append(name)
    return found


@dataclass
class Record:
    """One benchmark run.

    :param sweep: which sweep it belongs to.
    :param kind: one of :data:`KINDS`.
    :param configuration: full name; :data:`BARE_METAL` for a baseline.
    :param index: which run of its configuration, from 0.
    :param started: ISO 8601 in UTC, such as ``2026-11-21T05:45:00Z``.
    :param ended: likewise.
    :param valid: all phases ended and both data checks passed.
    :param reason: why it is not valid, with the evidence.
    :param phases: in order, each with ``name`` and ``seconds`` and perhaps
        ``job_id``, ``counters``, ``map_shuffle_seconds``,
        ``reduce_merge_seconds``.
    :param total_seconds: elapsed time of the whole run.
    :param rate: TB an hour, see :func:`rate`; 0 if the run is not valid.
    :param environment: what must agree between comparable runs.
    :param seen: what was observed, not what was asked for.
    :param derived: the stand-in ran, not TPC's kit.
    :param digest: SHA-256 over everything else, set by :func:`save`.
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

    def phase_seconds(self) -> dict[str, float]:
        """Seconds by phase; a second one of a name has a 2 behind it."""
        return {
            name: float(phase['seconds'])
            for name, phase in zip(
                phase_names(self.phases), self.phases, strict=True
            )
        }

    def counters(self, phase: str) -> dict[str, Any]:
        """Counters of a phase's job; none if the record has none."""
        for one in self.phases:
            if one['name'] == phase and isinstance(one.get('counters'), dict):
                return dict(one['counters'])
        return {}

    def computed_digest(self) -> str:
        """Return the digest that the content has now."""
        content = {**vars(self)}
        del content['digest']
        text = json.dumps(content, sort_keys=True, separators=(',', ':'))
        return hashlib.sha256(text.encode()).hexdigest()


def save(record: Record, folder: Path) -> Path:
    """Write a record whole, and return its file.

    :raises hvstack.errors.InputError: a field is not what it must be.
    :raises hvstack.errors.MissingPrerequisite: no room, no rights.
    """
    # What JSON turns into something else (tuples, int keys) must not make
    # the file's digest differ from the one computed here.
    try:
        plain = json.loads(json.dumps(asdict(record), allow_nan=False))
    except (TypeError, ValueError) as exc:
        raise errors.InputError(
            f'run record {record.id}: cannot be written as JSON ({exc}), '
            'keep plain finite values in it'
        ) from exc
    written = _checked(plain, f'run record {record.id}')
    record.digest = written.digest = written.computed_digest()
    started = record.started.replace(':', '').replace('-', '')
    path = folder / f'{started}-{record.configuration}-{record.id}.json'
    text = json.dumps(asdict(written), indent=1, sort_keys=True) + '\n'
    try:
        paths.write_whole(path, text)
    except OSError as exc:
        raise errors.MissingPrerequisite(
            f'{path}: the run record cannot be written ({exc.strerror}): make '
            'room there, then go on; the run is done again'
        ) from exc
    return path


def load(path: Path) -> Record:
    """Read a record and prove that it is as it was written.

    :raises hvstack.errors.InputError: half-written, edited, of a newer
        release, or no record.
    """
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as exc:
        raise errors.InputError(
            f'{path}: no whole run record ({exc}), move it away'
        ) from exc
    record = _checked(data, str(path))
    if record.digest != record.computed_digest():
        raise errors.InputError(
            f"{path}: 'digest' does not fit the content, the record was "
            'edited: restore it or move it away'
        )
    return record


def load_all(folder: Path, sweep: str | None = None) -> list[Record]:
    """Return the records of a folder by start time.

    :param sweep: only those of one sweep.
    :raises hvstack.errors.InputError: one of the files is no whole record.
    """
    return _ordered(
        one
        for one in map(load, _files(folder))
        if sweep is None or one.sweep == sweep
    )


@dataclass(frozen=True)
class LeftOut:
    """A file that is no usable record.

    :param reason: one line with file, field and remedy.
    :param sweep: which sweep it says it is of; empty if it does not.
    """

    reason: str
    sweep: str


def load_usable(folder: Path) -> tuple[list[Record], list[LeftOut]]:
    """Return a folder's records by start time, and what is none.

    A report is made of what is there, and names what it leaves out.
    """
    records, left_out = [], []
    for path in _files(folder):
        try:
            records.append(load(path))
        except errors.InputError as exc:
            left_out.append(LeftOut(str(exc), _said_sweep(path)))
    return _ordered(records), left_out


def _files(folder: Path) -> list[Path]:
    return [
        path
        for path in sorted(folder.glob('*.json'))
        if not path.name.startswith('.')
    ]


def _ordered(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda one: (one.started, one.index))


def _said_sweep(path: Path) -> str:
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError):
        return ''
    return str(data.get('sweep', '')) if isinstance(data, dict) else ''


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
}


def _checked(data: Any, source: str) -> Record:
    """Check plain data field by field and make a record of it."""

    def wrong(name: str, what: str) -> errors.InputError:
        return errors.InputError(
            f"{source}: '{name}' {what}, move it away or restore it"
        )

    if not isinstance(data, dict):
        raise wrong('content', 'is no mapping')
    schema = data.get('schema')
    if not isinstance(schema, int) or schema < 1:
        raise wrong('schema', f'is {schema!r}, not a run record')
    if schema > SCHEMA:
        raise errors.InputError(
            f"{source}: 'schema' is {schema}, written by a newer release "
            f'than this one ({SCHEMA}): update hvstack'
        )
    names = {one.name for one in fields(Record)}
    for name in sorted(names - set(data)):
        raise wrong(name, 'is missing')
    for name in sorted(set(data) - names):
        raise wrong(name, 'is unknown')
    for name, kind in _TYPES.items():
        value = data[name]
        is_flag = isinstance(value, bool)
        if not isinstance(value, kind) or is_flag != (kind is bool):
            raise wrong(name, f'is {value!r:.60}')
    if data['kind'] not in KINDS:
        raise wrong('kind', f'is none of {", ".join(KINDS)}')
    if not is_id(data['id']):
        raise wrong('id', f'is {data["id"]!r:.60}, not a UUID')
    if not is_sweep(data['sweep']):
        raise wrong('sweep', f'is {data["sweep"]!r:.60}, not a name')
    if not _CONFIGURATION.fullmatch(data['configuration']):
        raise wrong('configuration', 'is no name')
    for name in ('started', 'ended'):
        if not _TIME.fullmatch(data[name]):
            raise wrong(name, 'is not a time such as 2026-11-21T05:45:00Z')
        try:
            datetime.fromisoformat(data[name])
        except ValueError as exc:
            raise wrong(name, 'is no ISO 8601 time') from exc
    for number, phase in enumerate(data['phases']):
        seconds = phase.get('seconds') if isinstance(phase, dict) else None
        if (
            not isinstance(seconds, int | float)
            or isinstance(seconds, bool)
            or seconds < 0
            or not isinstance(phase.get('name'), str)
        ):
            raise wrong(f'phases.{number}', 'has no name or no seconds')
    if data['valid']:
        if not data['total_seconds'] > 0 or not data['rate'] > 0:
            raise wrong('rate', 'or total_seconds is not more than 0')
        expected = rate(data['size_bytes'], data['total_seconds'])
        if not math.isclose(expected, data['rate'], rel_tol=1e-6):
            raise wrong(
                'rate',
                f'is {data["rate"]}, but size and time make {expected:.6g}',
            )
    return Record(**data)
