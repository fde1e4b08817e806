# SPDX-License-Identifier: Apache-2.0
"""Run records: one JSON file for each benchmark run, never half-written."""

import hashlib
from collections.abc import (
    Collection,
    Iterable,
    Mapping,
)
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from hvstack import errors, jsonfile, paths, textfile
from hvstack.results import selfcheck, signing
from hvstack.results.record_data import (
    NOT_COVERED,
    RunRecord,
    from_document,
    sign,
)
from hvstack.results.run_id import ScheduledRun, is_sweep
from hvstack.results.typed_json import Json, encode_canonical


def compute_seconds_between(earlier: str, later: str) -> float:
    """Return seconds between two times of records."""
    first, last = map(datetime.fromisoformat, (earlier, later))
    return (last - first).total_seconds()


#: A record has some 100 kB at most.
_MAX_FILE_BYTES = 16 * 1024 * 1024


def save(record: RunRecord, records_dir: Path) -> Path:
    """Sign a record, write it whole, and return its file.

    :raises hvstack.errors.MissingPrerequisiteError: no room, no rights, or no
        key to sign with.
    """
    return store(sign(record), records_dir)


def store(record: RunRecord, records_dir: Path) -> Path:
    """Write a record as it is, with its digest and signature.

    :returns: its file.
    :raises hvstack.errors.MissingPrerequisiteError: no room, no rights.
    """
    path = records_dir / build_file_name(record)
    try:
        paths.write_whole(path, format_document(record))
    except OSError as exc:
        raise errors.MissingPrerequisiteError(
            f'Cannot write the run record ({path}): {exc.strerror}. Free disk '
            'space there, then continue; hvstack repeats the run.'
        ) from exc
    return path


def build_file_name(run: ScheduledRun) -> str:
    """Return the name of the file of a record."""
    started = run.started.replace(':', '').replace('-', '')
    return f'{started}-{run.configuration}-{run.id}.json'


def format_document(record: RunRecord) -> str:
    """Return the text of a record, as it is stored.

    Without digest and signature, it is the text that these cover, so that a
    reader need not encode the content again.
    """
    return encode_canonical(record.document) + '\n'


def load(path: Path, unsigned: bool | None = None) -> RunRecord:
    """Read a record, and prove that it is as it was written.

    :param unsigned: accept a record that is not signed by a trusted key;
        None uses ``[records] unsigned`` of ``hvstack.conf``.
    :raises hvstack.errors.InputError: half-written, edited, not signed by a
        trusted key, contradicting itself, of a newer release, or no record.
    """
    text, data = _read(path)
    return verify_record(data, text, str(path), signing.policy(unsigned))


def load_all(
    records_dir: Path, sweep: str | None = None, unsigned: bool | None = None
) -> list[RunRecord]:
    """Return the records of a directory by start time.

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
) -> tuple[list[RunRecord], list[InvalidRecord]]:
    """Return a directory's records by start time, and what is none.

    Every reader of a directory goes through this function. A report is made of
    the usable records, and names what it leaves out.

    :param unsigned: as in :func:`load`.
    :raises hvstack.errors.InputError: a list of keys or ``hvstack.conf`` is
        not valid.
    """
    policy = signing.policy(unsigned)
    records: dict[Path, RunRecord] = {}
    invalid_records = []
    for path in list_files(records_dir):
        usable = read_usable(path, policy)
        if isinstance(usable, InvalidRecord):
            invalid_records.append(usable)
        else:
            records[path] = usable
    for path, reason in find_conflicts(records).items():
        text = f'{path}: {reason}'
        invalid_records.append(InvalidRecord(text, records.pop(path).sweep))
    return _sort_records(records.values()), invalid_records


def read_usable(
    path: Path, policy: signing.Policy
) -> RunRecord | InvalidRecord:
    """Read a file of a directory of records.

    :param path: file of the record.
    :param policy: signatures that count.
    :returns: the record, or why the file is not a usable record.
    """
    sweep = ''
    try:
        text, data = _read(path)
        name = data.get('sweep') if isinstance(data, dict) else None
        if isinstance(name, str) and is_sweep(name):
            sweep = name
        record = verify_record(data, text, str(path), policy)
        if not f'-{path.name}'.endswith(f'-{record.id}.json'):
            raise errors.InputError(
                f"Cannot use the record ({path}): the file's name does not "
                f"end with the record's id, {record.id}, because it is a copy "
                'or was renamed. Restore its name, or move it to another '
                'directory.'
            )
    except errors.InputError as exc:
        return InvalidRecord(str(exc), sweep)
    return record


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


def list_files(records_dir: Path) -> list[Path]:
    """Return the files of records in a directory."""
    # A comparison of names is faster than one of paths.
    return [
        path
        for path in sorted(
            records_dir.glob('*.json'), key=lambda path: path.name
        )
        if not path.name.startswith('.')
    ]


def _sort_records(records: Iterable[RunRecord]) -> list[RunRecord]:
    return sorted(records, key=lambda record: (record.started, record.index))


def _read(path: Path) -> tuple[str, Json]:
    """Return the text of a file, and its content.

    :raises hvstack.errors.InputError: it is not a file in JSON.
    """
    try:
        text = textfile.read(path, _MAX_FILE_BYTES)
        return text, jsonfile.parse(text, path).data
    except errors.InputError as exc:
        raise errors.InputError(
            f'{exc} Otherwise, move the file to another directory, because it '
            'is not a complete run record.'
        ) from exc


def verify_record(
    data: Json, text: str, source: str, policy: signing.Policy
) -> RunRecord:
    """Return the record that plain data make, if it can be believed.

    :param data: content of the record.
    :param text: the JSON text that has this content.
    :param source: file or row of the record, for messages.
    :param policy: signatures that count.
    :raises hvstack.errors.InputError: it cannot, with the reason.
    """
    try:
        record = from_document(data, source)
        canonical = _find_covered_text(record, text) or record.canonical()
        selfcheck.check_text(canonical)
    except (ValueError, OverflowError, RecursionError) as exc:
        raise errors.InputError(
            f'Cannot read the record ({source}): it is not a run record: '
            f'{exc}. Move it to another directory.'
        ) from exc
    if record.digest != hashlib.sha256(canonical.encode()).hexdigest():
        raise errors.InputError(
            f"Cannot use the record ({source}): 'digest' does not match the "
            'content, because the record was edited. Restore it, or move it '
            'to another directory.'
        )
    try:
        unverified = policy.assess(signing.RECORD, canonical, record.signature)
    except ValueError as exc:
        raise errors.InputError(
            f'Cannot use the record ({source}): it {exc}.'
        ) from None
    contradiction = selfcheck.first_contradiction(record)
    if contradiction:
        name, reason = contradiction
        raise errors.InputError(
            f'Cannot use the record ({source}): it contradicts itself: '
            f"'{name}' {reason}. Move it to another directory."
        )
    return replace(record, unverified=unverified) if unverified else record


def _find_covered_text(record: RunRecord, text: str) -> str:
    """Return the part of a stored text that the digest covers.

    The digest shows whether it is: a text with blanks, or one that another
    program wrote, has another digest, although the content may be the same.

    :returns: empty if the digest is not that of the text.
    """
    covered = text.removesuffix('\n')
    for name in NOT_COVERED:
        member = encode_canonical({name: record.document.get(name)})[1:-1]
        covered = covered.replace(f',{member}', '', 1)
    digest = hashlib.sha256(covered.encode()).hexdigest()
    return covered if digest == record.digest else ''


def find_conflicts(records: Mapping[Path, ScheduledRun]) -> dict[Path, str]:
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
    records: Mapping[Path, ScheduledRun], first: Path, second: Path
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
