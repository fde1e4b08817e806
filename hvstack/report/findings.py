# SPDX-License-Identifier: Apache-2.0
"""What runs show besides their time, in words, each with its evidence."""

from collections.abc import Iterator
from dataclasses import dataclass

from hvstack.report.answer import Answer, size_text
from hvstack.results.record import Record

#: More spilled records than records, beyond which a spill is extra. A record
#: is spilled once in any case (amd, section 3.1.6).
EXTRA_SPILL = 1.01
#: Bytes written may differ by this part from what must have been written.
BYTES_OFF = 0.10

#: What a record does not hold, and so cannot show.
NOT_JUDGED = (
    (
        'a slow node or disk',
        'records hold no throughput of nodes (no telemetry)',
    ),
    ('steal over 5 %', 'records hold no CPU times (no telemetry)'),
    (
        'uneven reducers, or a phase that waited for one task',
        'records hold no times and bytes of single tasks',
    ),
    ('memory swapped', 'records hold no swap counters (no telemetry)'),
    (
        'network bytes beside (replication - 1) x data',
        'records hold no network counters (no telemetry)',
    ),
)


@dataclass(frozen=True)
class Finding:
    """One finding.

    :param title: what was found, in a few words.
    :param row: label of the configuration.
    :param evidence: the numbers that show it, and in which runs.
    """

    title: str
    row: str
    evidence: str


def find(answer: Answer) -> list[Finding]:
    """Return everything that the records show, row by row."""
    found = list(_disk(answer))
    for row in answer.rows:
        runs = row.valid + row.failed
        for title, judge in _JUDGES:
            shown = [
                f'run {run.index}: {text}'
                for run in runs
                for text in judge(run)
            ]
            if shown:
                more = f'; and {len(shown) - 3} more' if shown[3:] else ''
                found.append(
                    Finding(title, row.label, '; '.join(shown[:3]) + more)
                )
    return found


def not_judged(answer: Answer) -> list[tuple[str, str]]:
    """Return what could not be looked for, and why."""
    lines = list(NOT_JUDGED)
    if not any(map(_memory_mib, answer.records)):
        lines.append(
            (
                'whether the data fits the page cache',
                "records hold no memory of the hosts ('caps')",
            )
        )
    without = sum(not record.counters('HSSort') for record in answer.records)
    if without:
        lines.append(
            (
                'extra spills and bytes written',
                f'{without} of {len(answer.records)} runs have no counters '
                'of HSSort',
            )
        )
    return lines


def _disk(answer: Answer) -> Iterator[Finding]:
    """Say that disks were not measured if memory could hold the data.

    One copy is enough for all reads to come from memory; vsphere6 chose
    30 TB for 8 TiB of memory for this reason.
    """
    for record in answer.records:
        memory = _memory_mib(record)
        if memory and record.size_bytes <= memory * 2**20:
            yield Finding(
                'disk not measured',
                'all rows',
                f'{size_text(record.size_bytes)} of data fit the page cache: '
                f'the hosts have {memory / 1024:.1f} GiB of memory together',
            )
            return


def _memory_mib(record: Record) -> float:
    """Return the hosts' memory together; 0 if the record does not say."""
    caps = record.environment.get('caps') or record.seen.get('caps')
    if not isinstance(caps, dict):
        return 0.0
    return float(
        sum(
            cap.get('memory_mib') or 0
            for cap in caps.values()
            if isinstance(cap, dict)
        )
    )


def _map_spills(record: Record) -> Iterator[str]:
    counters = record.counters('HSSort')
    spilled = counters.get('MAP.SPILLED_RECORDS', 0)
    made = counters.get('MAP_OUTPUT_RECORDS', 0)
    if made and spilled > EXTRA_SPILL * made:
        yield (
            f'{spilled} records spilled by maps that put out {made} '
            f'({spilled / made:.2f} times)'
        )


def _reduce_spills(record: Record) -> Iterator[str]:
    counters = record.counters('HSSort')
    if 'MAP.SPILLED_RECORDS' not in counters:
        return
    spilled = (
        counters.get('SPILLED_RECORDS', 0) - counters['MAP.SPILLED_RECORDS']
    )
    taken = counters.get('REDUCE_INPUT_RECORDS', 0)
    if taken and spilled > EXTRA_SPILL * taken:
        yield (
            f'{spilled} records spilled by reduces that took in {taken} '
            f'({spilled / taken:.2f} times)'
        )


def _bytes(record: Record) -> Iterator[str]:
    """Hold what was written against replication x data.

    HDFS's counter counts a byte once, whatever its replication.
    """
    expected = record.size_bytes * record.replication
    for phase, name in (('HSGen', 'HSGen'), ('HSSort', 'reduce-merge')):
        counted = record.counters(phase).get('HDFS_BYTES_WRITTEN')
        if counted is None:
            continue
        written = counted * record.replication
        if abs(written - expected) > BYTES_OFF * expected:
            yield (
                f'{name} wrote {written} bytes (HDFS_BYTES_WRITTEN x '
                f'replication), replication x data is {expected}'
            )


def _killed(record: Record) -> Iterator[str]:
    killed = record.seen.get('killed')
    if killed:
        lines = killed if isinstance(killed, list) else [killed]
        yield str(lines[0])
    elif 'killed' in record.reason.lower():
        yield record.reason


def _attempts(record: Record) -> Iterator[str]:
    for phase in record.phases:
        failed = phase.get('failed_attempts') or 0
        if failed:
            yield f'{failed} attempts of tasks of {phase["name"]} failed'


_JUDGES = (
    ('extra spills by maps', _map_spills),
    ('extra spills by reduces', _reduce_spills),
    ('bytes written differ from replication x data', _bytes),
    ('killed for want of memory', _killed),
    ('task attempts failed', _attempts),
)
