# SPDX-License-Identifier: Apache-2.0
"""Checks of a run record against itself.

A signature proves who wrote a record. These checks find records whose
fields contradict each other, whoever wrote them: a total that is not the sum
of its phases, counters of another data set, a flavor of another
configuration. What a record must contain depends on its own workload: TPC's
kit writes no counters.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from hvstack import textfile
from hvstack.results import target_checks
from hvstack.results.benchmark import (
    KIT_PHASES,
    KIT_SIZES,
    PHASES,
    RECORD_BYTES,
)
from hvstack.results.observations import Phase
from hvstack.results.run_id import MAX_INDEX
from hvstack.results.workload_types import TESTDFSIO, TPCX_HS, TYPES

if TYPE_CHECKING:
    from hvstack.results.record_data import RunRecord

#: The name of a field, and what is wrong with its value.
Contradiction = tuple[str, str]

#: How far the clock of the machine that measured may be ahead of this one.
AHEAD = timedelta(minutes=5)
#: No run is older than TPCx-HS.
_EARLIEST = datetime(2014, 1, 1, tzinfo=UTC)
#: Times have whole seconds, and the clock may be adjusted during a run: the
#: seconds, and the share of the run, by which two clocks may disagree.
_CLOCK_SECONDS, _CLOCK_SHARE = 5.0, 0.01
#: Seconds, and share of the run, that may pass between the phases.
_BETWEEN_SECONDS, _BETWEEN_SHARE = 5.0, 0.05
#: Seconds of a phase are rounded to a thousandth.
_ROUNDING = 0.001
#: The kit prints its metric with few decimals.
_METRIC_SHARE, _METRIC_STEP = 0.01, 0.01
#: Most of whatever is counted: more is a mistyped unit.
_MAX_TASKS = 10**6
_MAX_REPLICATION = 512
_MAX_BYTES = 10**18
_MAX_SECONDS = 10 * 365 * 86400
#: HDFS's dfs.namenode.fs-limits.min-block-size (hdfs-default.xml).
_MIN_BLOCK_BYTES = 2**20
#: A checksum, the sum of 64-bit numbers, has the most digits.
_LONG_NUMBER = re.compile(r'(?<![\w.])-?\d{31,}')
#: Control characters as JSON escapes them, except tab and line feed.
_CONTROL = re.compile(
    r'(?<!\\)(?:\\\\)*\\(?:[bfr]|u00(?:0[0-8b-f]|1[0-9a-f]|7f|[89][0-9a-f]))'
)


def check_text(canonical: str) -> None:
    """Refuse characters and numbers that no program reads alike.

    :param canonical: a record as JSON in ASCII.
    :raises ValueError: a control character, half of a surrogate pair, or a
        number of more than 30 digits.
    """
    # Most records have none: a search for a character is much faster than
    # one for an expression.
    if '\\' in canonical:
        _check_escapes(canonical)
    if textfile.has_digits(canonical, 31) and _LONG_NUMBER.search(canonical):
        raise ValueError('a number has more than 30 digits')


def _check_escapes(canonical: str) -> None:
    if _CONTROL.search(canonical):
        raise ValueError('a text contains control characters')
    if '\\ud' in canonical:
        decoded = json.dumps(json.loads(canonical), ensure_ascii=False)
        try:
            decoded.encode()
        except UnicodeEncodeError:
            raise ValueError('a text contains half of a character') from None


def contradictions(
    record: 'RunRecord', now: datetime | None = None
) -> Iterator[Contradiction]:
    """Yield the fields of a record that contradict other fields.

    :param now: the present; None asks the clock.
    """
    for check in _CHECKS:
        yield from check(record)
    yield from _times(record, now or datetime.now(UTC))


def first_contradiction(
    record: 'RunRecord', now: datetime | None = None
) -> Contradiction | None:
    """Return the first contradiction of a record; None without any.

    :param now: the present; None asks the clock.
    """
    try:
        return next(contradictions(record, now), None)
    except (
        *(TypeError, ValueError, KeyError, AttributeError),
        *(OverflowError, IndexError),
    ):
        # A nested value of a type that no check expects.
        return 'content', 'has a value of a type that no release writes'


def _sizes(record: 'RunRecord') -> Iterator[Contradiction]:
    limits = (
        ('index', 0, MAX_INDEX),
        ('size_bytes', RECORD_BYTES, _MAX_BYTES),
        ('replication', 1, _MAX_REPLICATION),
        ('maps', 1, _MAX_TASKS),
        ('reduces', 1, _MAX_TASKS),
        ('total_seconds', 0, _MAX_SECONDS),
        ('rate', 0, _MAX_BYTES),
    )
    for name, low, high in limits:
        value = getattr(record, name)
        if not low <= value <= high:
            yield name, f'is {value!r:.40}, not {low} to {high}'
    if record.size_bytes % RECORD_BYTES:
        yield (
            'size_bytes',
            f'is {record.size_bytes}, not a multiple of {RECORD_BYTES}',
        )


def _verdict(record: 'RunRecord') -> Iterator[Contradiction]:
    if record.valid and record.reason:
        yield 'reason', 'is set although the run is valid'
    if record.valid and record.observations.killed:
        yield 'seen.killed', 'is set although the run is valid'
    if not record.valid and not record.reason:
        yield 'reason', 'is empty although the run is not valid'
    if not record.valid and record.rate != 0:
        yield 'rate', f'is {record.rate} although the run is not valid'


def _times(record: 'RunRecord', now: datetime) -> Iterator[Contradiction]:
    # Whoever reads a record refuses times without a zone.
    started = datetime.fromisoformat(record.started)
    ended = datetime.fromisoformat(record.ended)
    for name, moment in (('started', started), ('ended', ended)):
        if moment > now + AHEAD:
            yield name, f'is {moment:%Y-%m-%d %H:%M}, which is in the future'
        if moment < _EARLIEST:
            yield name, f'is in {moment.year}, before the benchmark existed'
    if ended < started:
        yield 'ended', 'is before the start of the run'
    if not record.valid:
        return
    elapsed = (ended - started).total_seconds()
    slack = _CLOCK_SECONDS + _CLOCK_SHARE * record.total_seconds
    if abs(elapsed - record.total_seconds) > slack:
        yield (
            'total_seconds',
            f'is {record.total_seconds:.6g}, but {elapsed:.0f} s lie '
            "between 'started' and 'ended'",
        )
    yield from _phase_times(record, started.timestamp(), ended.timestamp())


def _phase_times(
    record: 'RunRecord', started: float, ended: float
) -> Iterator[Contradiction]:
    """Yield phases that overlap or lie outside their run."""
    starts = [phase.started_at for phase in record.phases]
    if all(start is None for start in starts):
        return
    spans = [(started, started)]
    for index, (phase, start) in enumerate(
        zip(record.phases, starts, strict=True)
    ):
        if start is None:
            yield f'phases.{index}.began', 'is missing'
            return
        spans.append((start, start + phase.seconds))
    spans.append((ended, ended))
    for index, (span, following) in enumerate(pairwise(spans)):
        if following[0] < span[1] - _CLOCK_SECONDS:
            yield (
                f'phases.{min(index, len(starts) - 1)}.began',
                'does not follow the phase before it within the run',
            )


def _phases(record: 'RunRecord') -> Iterator[Contradiction]:
    names = tuple(phase.name for phase in record.phases)
    workload = TYPES.get(record.sut.workload)
    if workload is None or (workload is not TPCX_HS and not record.derived):
        yield 'environment.workload', f'is {record.sut.workload!r:.40}'
        return
    if record.derived and names != workload.phases[: len(names)]:
        yield (
            'phases',
            f'are {", ".join(names):.80}, not those of the benchmark',
        )
    elif not record.derived and not _is_in_order(names, PHASES):
        yield 'phases', f'are {", ".join(names):.80}, not those of the kit'
    if not record.valid:
        return
    required = workload.phases if record.derived else KIT_PHASES
    if not _is_in_order(required, names):
        missing = next((n for n in required if n not in names), required[-1])
        yield 'phases', f'lack {missing} although the run is valid'
        return
    if any(not phase.seconds < _MAX_SECONDS for phase in record.phases):
        yield 'phases', 'have a time that is not a number of seconds'
        return
    seconds = math.fsum(phase.seconds for phase in record.phases)
    total = record.total_seconds
    # The kit's total has whole seconds, and includes phases that its log
    # does not have.
    rounding = 1.0 if not record.derived else _ROUNDING * len(PHASES)
    if total < seconds - rounding:
        yield (
            'total_seconds',
            f'is {total:.6g}, but the phases took {seconds:.6g} s',
        )
    slack = _BETWEEN_SECONDS + _BETWEEN_SHARE * seconds
    if record.derived and total > seconds + slack:
        yield (
            'total_seconds',
            f'is {total:.6g}, but the phases took only {seconds:.6g} s',
        )


def _is_in_order(names: Sequence[str], reference: Sequence[str]) -> bool:
    """Return whether all names occur in the reference in this order."""
    remaining = iter(reference)
    return all(name in remaining for name in names)


def _work(record: 'RunRecord') -> Iterator[Contradiction]:
    """Yield counters and data checks that are not of the record's work."""
    if not record.valid or not record.derived:
        return
    phases = record.phases
    workload = TYPES.get(record.sut.workload)
    names = tuple(phase.name for phase in phases)
    if workload is None or names != workload.phases:
        return  # _phases reports it.
    if workload is not TPCX_HS:
        if workload.is_on_nodes:
            return (yield from _reported_values(record))
        if not workload.has_data:
            yield from _operations(record)
        elif workload is TESTDFSIO:
            yield from _files(record)
        else:
            yield from _sort(record)
        yield from _jobs(phases)
        return
    generated, checked_input, sorted_, checked_output, validated = phases
    for phase, files in (
        (checked_input, record.maps),
        (checked_output, record.reduces),
    ):
        yield from _data_check(record, phase, files)
    blocks = record.observations.blocks
    if blocks is not None and blocks != checked_output.data_check.blocks:
        yield 'seen.blocks', f'is {blocks}, not that of the data check'
    count = record.size_bytes // RECORD_BYTES
    jobs = (
        (generated, ('MAP_OUTPUT_RECORDS',), ()),
        (
            sorted_,
            ('MAP_INPUT_RECORDS', 'REDUCE_OUTPUT_RECORDS'),
            ('MAP_OUTPUT_RECORDS', 'REDUCE_INPUT_RECORDS'),
        ),
        (validated, ('MAP_INPUT_RECORDS',), ()),
    )
    for phase, required, optional in jobs:
        name = phase.name
        counters = phase.job.counters
        for counter in (*required, *optional):
            value = counters.get(counter)
            if value is None and counter in optional:
                continue
            if value != count:
                yield (
                    f'counters of {name}',
                    f'have {counter} {value}, but the data set has {count} '
                    'records',
                )
        yield from _job(phase)
    yield from _job_sizes(record, generated, sorted_, validated)
    yield from _job_ids((generated, sorted_, validated))


def _job_ids(phases: Sequence[Phase]) -> Iterator[Contradiction]:
    ids = [phase.job.job_id for phase in phases]
    if len(set(ids)) < len(ids):
        yield 'job_id', 'is the same in two phases'


def _jobs(phases: Sequence[Phase]) -> Iterator[Contradiction]:
    """Yield contradictions of a workload whose phases are jobs."""
    for phase in phases:
        yield from _job(phase)
    yield from _job_ids(phases)


def _sort(record: 'RunRecord') -> Iterator[Contradiction]:
    """Yield counters that are not those of TeraGen and TeraSort."""
    generated, sorted_ = record.phases
    count = record.size_bytes // RECORD_BYTES
    for phase, counter in (
        (generated, 'MAP_OUTPUT_RECORDS'),
        (sorted_, 'MAP_INPUT_RECORDS'),
        (sorted_, 'REDUCE_OUTPUT_RECORDS'),
    ):
        value = phase.job.counters.get(counter)
        if value != count:
            yield (
                f'counters of {phase.name}',
                f'have {counter} {value}, but the data set has {count} '
                'records',
            )
    for phase, name, expected in (
        (generated, 'maps', record.maps),
        (sorted_, 'reduces', record.reduces),
    ):
        value = getattr(phase.job, name)
        if value not in (None, expected):
            yield name, f'of {phase.name} is {value}, not {expected}'


def _files(record: 'RunRecord') -> Iterator[Contradiction]:
    """Yield values that are not those of the files of TestDFSIO."""
    # Each file has a whole number of bytes.
    size = record.size_bytes // record.maps * record.maps
    if record.sut.facts.get('files') != record.maps:
        yield 'environment.files', f'is not {record.maps}, the number of maps'
    for phase, counter in zip(
        record.phases, ('HDFS_BYTES_WRITTEN', 'HDFS_BYTES_READ'), strict=True
    ):
        value = phase.job.counters.get(counter)
        if value is None or value < size:
            yield (
                f'counters of {phase.name}',
                f'have {counter} {value}, less than the data set',
            )
    yield from _reported_values(record)


def _operations(record: 'RunRecord') -> Iterator[Contradiction]:
    """Yield values that are not those of NNBench or MRBench."""
    if record.sut.facts.get('map_tasks') != record.maps:
        yield 'environment.map_tasks', f'is not {record.maps}'
    for phase in record.phases:
        value = phase.job.counters.get('MAP_INPUT_RECORDS')
        if value != record.maps:
            yield (
                f'counters of {phase.name}',
                f'have MAP_INPUT_RECORDS {value}, not {record.maps}',
            )
    yield from _reported_values(record)


def _reported_values(record: 'RunRecord') -> Iterator[Contradiction]:
    """Yield contradictions of phases whose programs report a value."""
    for phase in record.phases:
        if phase.job.maps not in (None, record.maps):
            yield 'maps', f'of {phase.name} is {phase.job.maps}'
        rate = phase.reported
        if rate is None or not 0 < rate < math.inf:
            yield f'phases.{phase.name}', f'has reported {rate!r:.40}'


def _data_check(
    record: 'RunRecord', phase: Phase, files: int
) -> Iterator[Contradiction]:
    check = phase.data_check
    for name, value, expected in (
        ('bytes', check.bytes, record.size_bytes),
        ('files', check.files, files),
    ):
        if value != expected:
            yield (
                'phases.HSDataCheck',
                f'has {name} {value!r:.40}, not {expected}',
            )
    blocks, on_one_host = check.blocks, check.blocks_on_one_host
    # A reducer without data leaves a file without blocks. Other files end
    # with a block that need not be full.
    max_blocks = files + record.size_bytes // _MIN_BLOCK_BYTES
    if blocks is None or blocks < 1:
        yield 'phases.HSDataCheck', 'has no blocks'
    elif blocks != int(blocks) or blocks > max_blocks:
        yield (
            'phases.HSDataCheck',
            f'has {blocks:.6g} blocks, but the data set has at most '
            f'{max_blocks}',
        )
    elif on_one_host is None or not 0 <= on_one_host <= blocks:
        yield 'phases.HSDataCheck', "has no valid 'blocks_on_one_host'"


def _job(phase: Phase) -> Iterator[Contradiction]:
    name, job = phase.name, phase.job
    if not job.job_id:
        yield 'job_id', f'of {name} is missing'
    if job.state != 'SUCCEEDED':
        yield (
            'state',
            f'of {name} is {job.state!r:.40} although the run is valid',
        )
    if job.seconds is None:
        return
    slack = _CLOCK_SECONDS + _CLOCK_SHARE * phase.seconds
    if not 0 <= job.seconds <= phase.seconds + slack:
        yield (
            'job_seconds',
            f'of {name} is {job.seconds:.6g}, but the phase took '
            f'{phase.seconds:.6g} s',
        )
    parts = [job.map_shuffle_seconds, job.reduce_merge_seconds]
    finite_parts = [part for part in parts if part is not None]
    if len(finite_parts) == len(parts) and (
        min(finite_parts) < 0
        or abs(math.fsum(finite_parts) - job.seconds) > 2 * _ROUNDING
    ):
        yield 'job_seconds', f'of {name} is not the sum of its two parts'


def _job_sizes(
    record: 'RunRecord',
    generated: Phase,
    sorted_: Phase,
    validated: Phase,
) -> Iterator[Contradiction]:
    """Yield numbers of tasks and bytes that are not those of the work."""
    for phase, name, value, expected in (
        (generated, 'maps', generated.job.maps, record.maps),
        (sorted_, 'reduces', sorted_.job.reduces, record.reduces),
    ):
        if value not in (None, expected):
            yield name, f'of {phase.name} is {value}, not {expected}'
    for phase, counter in (
        (generated, 'HDFS_BYTES_WRITTEN'),
        (sorted_, 'HDFS_BYTES_READ'),
        (sorted_, 'HDFS_BYTES_WRITTEN'),
        (validated, 'HDFS_BYTES_READ'),
    ):
        value = phase.job.counters.get(counter)
        if value is not None and value < record.size_bytes:
            yield (
                f'counters of {phase.name}',
                f'have {counter} {value}, less than the data set',
            )


def _kit(record: 'RunRecord') -> Iterator[Contradiction]:
    kit = record.observations.kit
    if record.derived:
        if kit is not None:
            yield 'derived', "is true although TPC's kit made the run"
        return
    if kit is None:
        yield 'derived', "is false, but no run of TPC's kit is recorded"
        return
    if kit.run not in (1, 2):
        yield 'seen.kit.run', f'is {kit.run!r:.40}, not 1 or 2'
    if not kit.version:
        yield 'seen.kit.version', 'is missing'
    if not record.valid:
        return
    if record.size_bytes not in KIT_SIZES:
        yield 'size_bytes', f"is {record.size_bytes}, not a size of TPC's kit"
    slack = _METRIC_SHARE * record.rate + _METRIC_STEP
    if kit.metric is None or abs(kit.metric - record.rate) > slack:
        yield (
            'seen.kit.metric',
            f'is {kit.metric!r:.40}, but size and time make {record.rate:.4g}',
        )


_CHECKS: tuple[Callable[['RunRecord'], Iterator[Contradiction]], ...] = (
    _sizes,
    _verdict,
    _phases,
    _work,
    _kit,
    target_checks.check_target,
    target_checks.check_hosts,
)
