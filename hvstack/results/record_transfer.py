# SPDX-License-Identifier: Apache-2.0
"""Transfer of run records between two stores."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from hvstack import errors
from hvstack.results import baselines, run_id, skipped, telemetry_files
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore

#: Maximum number of records that are stored at once, with their telemetry.
_CHUNK = 100
#: Size of the telemetry from which records are stored without waiting for
#: others. The telemetry of 640 nodes in a run has 60 MB.
_CHUNK_BYTES = 64 * 1024**2
#: Seconds between two messages about the progress.
_SAY_SECONDS = 5.0


@dataclass
class Transfer:
    """Result of a transfer.

    :param stored: number of records that were stored.
    :param existing: number of records that the other store had.
    :param invalid: number of records that are not usable.
    """

    stored: int = 0
    existing: int = 0
    invalid: int = 0


def transfer_records(
    source: RunStore,
    target: RunStore,
    sweeps: Collection[str],
    say: Callable[[str], None],
) -> Transfer:
    """Copy records as they are, with telemetry and skipped configurations.

    What the target has already is not copied again: an interrupted transfer
    is continued by another one.

    :param source: store to read from.
    :param target: store to write to.
    :param sweeps: names of the sweeps; empty for all.
    :param say: receives a line about each record that is not usable, and the
        progress.
    :raises hvstack.errors.InputError: a sweep does not exist, or the target
        has another record under the id of a record.
    :raises hvstack.errors.MissingPrerequisiteError: a store cannot be used.
    """
    existing_sweeps = source.list_sweeps()
    for sweep in sweeps:
        if sweep not in existing_sweeps:
            raise errors.InputError(
                f"Cannot find sweep '{sweep}' ({source.describe()}): it has "
                'no run record. Correct the name.'
            )
    result = Transfer()
    reasons = set()
    # Also without a sweep, files that are no records are reported.
    names = list(sweeps) or existing_sweeps or ['']
    said_at = time.monotonic()
    for number, checked in enumerate(source.read_sweeps(names)):
        if time.monotonic() - said_at > _SAY_SECONDS:
            said_at = time.monotonic()
            say(f'{number} of {len(names)} sweeps copied')
        for invalid in checked.invalid_records:
            if invalid.reason not in reasons:
                say(f'left out: {invalid.reason}')
            reasons.add(invalid.reason)
        for chunk, texts in _split(checked.records, source, target, say):
            count = target.add(chunk, texts)
            result.stored += count
            result.existing += len(chunk) - count
        for name, reason in skipped.load_skips(source, checked.sweep).items():
            skipped.save_skip(target, checked.sweep, name, reason)
    result.invalid = len(reasons)
    return result


def add_related_sweeps(
    source: RunStore,
    sweeps: Iterable[str],
    say: Callable[[str], None],
    unsigned: bool | None = None,
) -> list[str]:
    """Return the names of sweeps with those that their reports need.

    A report needs the search of its sweep, and the runs on bare metal of
    another sweep with which the task compared.

    :param source: store of the sweeps.
    :param sweeps: names of sweeps, which need not exist.
    :param say: receives a line about each baseline that cannot be used.
    :param unsigned: as in :func:`hvstack.results.record.load`.
    """
    existing_sweeps = set(source.list_sweeps())
    names: list[str] = []
    for sweep in sweeps:
        search = run_id.format_search_name(sweep)
        # Until the confirmation begins, only the search has records.
        if sweep in existing_sweeps or search not in existing_sweeps:
            names.append(sweep)
        if search in existing_sweeps:
            names.append(search)
        if sweep in existing_sweeps:
            baseline_sweeps = _find_baseline_sweeps(
                source, sweep, say, unsigned
            )
            names += sorted(baseline_sweeps & existing_sweeps)
    return list(dict.fromkeys(names))


def _find_baseline_sweeps(
    source: RunStore,
    sweep: str,
    say: Callable[[str], None],
    unsigned: bool | None,
) -> set[str]:
    """Return the other sweeps whose runs on bare metal a report uses."""
    records, _ = source.read_sweep(sweep)
    name = baselines.find_name(records)
    if not name:
        return set()
    try:
        if name == baselines.AUTO:
            runs = baselines.replace_baseline(
                *(name, records, source),
                unsigned=unsigned,
                is_recorded=True,
            )
        else:
            runs = baselines.list_candidates(name, source, unsigned)
    except errors.HVStackError as exc:
        say(f"the baseline '{name}' of sweep '{sweep}' is left out: {exc}")
        return set()
    return {run.sweep for run in runs if run.kind == 'baseline'}


def _split(
    records: Iterable[RunRecord],
    source: RunStore,
    target: RunStore,
    say: Callable[[str], None],
) -> Iterator[tuple[list[RunRecord], dict[str, str]]]:
    """Yield records that are stored at once, with their telemetry."""
    chunk: list[RunRecord] = []
    texts: dict[str, str] = {}
    size = 0
    for run_record in records:
        chunk.append(run_record)
        for name, text in _read_texts(run_record, source, target, say).items():
            texts[name] = text
            size += len(text)
        if len(chunk) >= _CHUNK or size >= _CHUNK_BYTES:
            yield chunk, texts
            chunk, texts, size = [], {}, 0
    if chunk:
        yield chunk, texts


def _read_texts(
    run_record: RunRecord,
    source: RunStore,
    target: RunStore,
    say: Callable[[str], None],
) -> dict[str, str]:
    """Return the telemetry of a run that the target does not have yet."""
    summary = run_record.observations.telemetry
    if (
        summary is None
        or not summary.sha256
        or target.has_text(telemetry_files.build_name(run_record))
    ):
        return {}
    try:
        return dict(telemetry_files.read_if_stored(run_record, source))
    except errors.InputError as exc:
        say(f'left out: {exc}')
        return {}
