# SPDX-License-Identifier: Apache-2.0
"""What runs show besides their time, in words, each with its evidence."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hvstack.report import run_conditions
from hvstack.report.formats import format_size
from hvstack.report.sweep_report import SweepReport
from hvstack.results import telemetry
from hvstack.results.observations import TelemetrySummary
from hvstack.results.record_data import RunRecord

#: More spilled records than records, beyond which a spill is extra.
MAX_SPILL_RATIO = 1.01
#: Bytes may differ by this part from what must have been written or sent.
MAX_BYTES_DEVIATION = 0.10
#: A node is slow whose tasks continue at less than this part of the median of
#: the other workers', in HSGen and in HSSort.
MIN_NODE_SPEED_RATIO = 2 / 3
#: A disk is slow that moves less than this part of the median of all disks
#: in a second in which it is busy.
MIN_DISK_SPEED_RATIO = 0.5
#: Part of the time that a disk must have been busy to be judged.
MIN_BUSY_SHARE = 0.05
#: Part of the CPU time that was stolen.
MAX_STEAL_SHARE = 0.05
#: Part of a node's TCP segments that it sent again. On bare metal and on a
#: switch that drops nothing it is below a thousandth.
MAX_RETRANSMITTED_SHARE = 0.01
#: Records of the largest reducer over the median's. A sample of 100,000 keys
#: gives 600 reducers 167 each, and so partitions that scatter by 8 % (one
#: over the root); with 2,000,000 the largest is about 6 % over the median.
MAX_REDUCER_RATIO = 1.2
#: Part of a job's time in which only one task of a kind still ran, and how
#: many times the median that task took.
MAX_ALONE_SHARE, MAX_DURATION_RATIO = 0.2, 1.5

_OWN_LIMIT = "hvstack's own limit"
#: Where each limit comes from.
SOURCES = {
    'extra spills by maps': 'more than once; amd, section 3.1.6',
    'extra spills by reduces': 'more than once; amd, section 3.1.6',
    'slow node': f'a third below the median of the others; {_OWN_LIMIT}',
    'slow disk': f'half of the median of all disks; {_OWN_LIMIT}',
    'steal': '5 %; vsphere6, "Single Replica", on ready time',
    'TCP segments retransmitted': f"1 % of a node's; {_OWN_LIMIT}",
    'uneven reducers': f'1.2 times the median; {_OWN_LIMIT}, between the '
    '100,000 keys and the 2,000,000 of vsphere6, "Hadoop Benchmarks"',
    'a phase waited for one task': f'a fifth of the job; {_OWN_LIMIT}, for '
    'the sudden drop at the end of each phase in vsphere6, figure 3',
    'memory swapped': 'none; vsphere6, appendix A: swappiness 0',
    'disk bytes differ from replication x data': '10 %; vsphere6, "Storage '
    'Throughput": very close to three times the data set',
    'bytes written differ from replication x data': '10 %; vsphere6, '
    '"Storage Throughput": very close to three times the data set',
    'network bytes differ from (replication - 1) x data': '10 %; vsphere6, '
    '"Network Throughput": twice the data set',
    'disk not measured': 'the memory of the hosts; vsphere6 sorts 30 TB on '
    '8 TiB of memory for this',
    'OOM-killed': 'none',
    'a container was killed': 'none',
    'task attempts failed': 'none',
    **run_conditions.SOURCES,
}


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

    @property
    def limit(self) -> str:
        """From where on it is one, and who says so."""
        return SOURCES[self.title]


def list_findings(report: SweepReport) -> list[Finding]:
    """Return everything that the records show, row by row."""
    findings = list(_check_page_cache(report))
    for row in report.rows:
        runs = row.valid + row.failed
        for title, check in _CHECKS:
            evidence_lines = [
                f'run {run.index}: {text}'
                for run in runs
                for text in check(run)
            ]
            if evidence_lines:
                suffix = (
                    f'; and {len(evidence_lines) - 3} more'
                    if evidence_lines[3:]
                    else ''
                )
                findings.append(
                    Finding(
                        title,
                        row.label,
                        '; '.join(evidence_lines[:3]) + suffix,
                    )
                )
    return findings


def list_unchecked(report: SweepReport) -> list[tuple[str, str]]:
    """Return the findings that could not be checked, with reasons."""
    records = report.records
    count = len(records)
    lines: list[tuple[str, str]] = []

    def count_missing(
        subject: str, has: Callable[[RunRecord], object], reason: str
    ) -> list[tuple[str, str]]:
        missing_count = sum(not has(record) for record in records)
        if not missing_count:
            return []
        return [(subject, f'{missing_count} of {count} runs {reason}')]

    if not any(map(sum_memory_mib, records)):
        lines.append(
            (
                'whether the data fits the page cache',
                "records hold no memory of the hosts ('caps')",
            )
        )
    lines += count_missing(
        'extra spills and bytes written',
        lambda record: record.counters('HSSort'),
        'have no counters of HSSort',
    )
    lines += count_missing(
        'a slow node, uneven reducers, or a phase that waited for one task',
        lambda record: any(phase.job.nodes for phase in record.phases),
        'hold no single tasks',
    )
    lines += count_missing(
        'a slow disk, steal, swapping, bytes on disks and networks',
        lambda record: record.observations.telemetry,
        'hold no telemetry',
    )
    lines += count_missing(
        'foreign CPU time of the machine',
        lambda record: any(phase.machine_cpu for phase in record.phases),
        'are older, or of hosts other than those of a lab',
    )
    shared = [
        record
        for record in records
        if _get_telemetry_summary(record).source == 'cgroup'
    ]
    if shared:
        lines.append(
            (
                'steal, a slow disk and bytes on disks',
                f'{len(shared)} of {count} runs are of nodes that share a '
                "kernel: its time is not stolen (a quota's throttling stands "
                "for the CPU's speed), and their disks share one below",
            )
        )
    emulated = [
        record
        for record in records
        if record.observations.telemetry and record.sut.backend == 'qemu'
    ]
    if emulated:
        lines.append(
            (
                'steal',
                f'{len(emulated)} of {count} runs are of emulated CPUs, '
                'which count none',
            )
        )
    gaps = [
        (record, gap)
        for record in records
        for gap in _get_telemetry_summary(record).gaps
    ]
    lines += [
        (f'telemetry of {record.configuration}, run {record.index}', gap)
        for record, gap in gaps[:_MAX_GAPS]
    ]
    if gaps[_MAX_GAPS:]:
        lines.append(('telemetry', f'{len(gaps) - _MAX_GAPS} more gaps'))
    return lines


#: Gaps that are named one by one.
_MAX_GAPS = 10


def _get_telemetry_summary(record: RunRecord) -> TelemetrySummary:
    return record.observations.telemetry or TelemetrySummary()


def _check_page_cache(report: SweepReport) -> Iterator[Finding]:
    """Say that disks were not measured if memory could hold the data.

    One copy is enough for all reads to come from memory; vsphere6 chose
    30 TB for 8 TiB of memory for this reason.
    """
    for record in report.records:
        memory = sum_memory_mib(record)
        if memory and record.size_bytes <= memory * 2**20:
            yield Finding(
                'disk not measured',
                'all rows',
                f'{format_size(record.size_bytes)} of data fit the page '
                f'cache: the hosts have {memory / 1024:.1f} GiB of memory '
                'together',
            )
            return


def sum_memory_mib(record: RunRecord) -> float:
    """Return the hosts' memory together; 0 if the record does not say."""
    caps = record.sut.caps or record.observations.caps
    return float(sum(cap.memory_mib or 0 for cap in caps.values()))


def _check_map_spills(record: RunRecord) -> Iterator[str]:
    counters = record.counters('HSSort')
    spilled = counters.get('MAP.SPILLED_RECORDS', 0)
    output_records = counters.get('MAP_OUTPUT_RECORDS', 0)
    if output_records and spilled > MAX_SPILL_RATIO * output_records:
        yield (
            f'{spilled} records spilled by maps that put out {output_records} '
            f'({spilled / output_records:.2f} times)'
        )


def _check_reduce_spills(record: RunRecord) -> Iterator[str]:
    counters = record.counters('HSSort')
    if 'MAP.SPILLED_RECORDS' not in counters:
        return
    spilled = (
        counters.get('SPILLED_RECORDS', 0) - counters['MAP.SPILLED_RECORDS']
    )
    input_records = counters.get('REDUCE_INPUT_RECORDS', 0)
    if input_records and spilled > MAX_SPILL_RATIO * input_records:
        yield (
            f'{spilled} records spilled by reduces that took in '
            f'{input_records} ({spilled / input_records:.2f} times)'
        )


def _check_written_bytes(record: RunRecord) -> Iterator[str]:
    """Hold what was written against replication x data.

    HDFS's counter counts a byte once, whatever its replication.
    """
    for phase, name in (('HSGen', 'HSGen'), ('HSSort', 'reduce-merge')):
        counted = record.counters(phase).get('HDFS_BYTES_WRITTEN')
        if counted is None:
            continue
        copies = _count_copies(record, name)
        expected = record.size_bytes * copies
        written = counted * copies
        if abs(written - expected) > MAX_BYTES_DEVIATION * expected:
            yield (
                f'{name} wrote {written} bytes (HDFS_BYTES_WRITTEN x '
                f'replication), replication x data is {expected}'
            )


def _count_copies(record: RunRecord, part: str) -> int:
    """Return the number of replicas that a part of a run writes.

    :param record: record of the run.
    :param part: ``HSGen``, or ``reduce-merge`` for the output of HSSort.
    """
    copies = record.sut.facts.get('output_replication')
    if part != 'HSGen' and isinstance(copies, int):
        return copies
    return record.replication


def _check_killed(record: RunRecord) -> Iterator[str]:
    if record.observations.killed:
        yield record.observations.killed[0]
    elif 'killed' in record.reason.lower():
        yield record.reason


def _check_attempts(record: RunRecord) -> Iterator[str]:
    for phase in record.phases:
        failed = phase.job.failed_attempts
        if failed:
            yield f'{failed} attempts of tasks of {phase.name} failed'


def _check_containers(record: RunRecord) -> Iterator[str]:
    """Name containers that something outside of them ended."""
    for phase in record.phases:
        for failure in phase.job.failures:
            if any(sign in failure.error for sign in _KILL_MESSAGES):
                yield (
                    f'one of {phase.name} on {failure.node} '
                    f'({failure.error[:160]})'
                )


#: Exit codes of SIGKILL and SIGTERM, as YARN reports them.
_KILL_MESSAGES = (
    'exit code is 137',
    'Exit code is 137',
    'exitCode: 137',
    '[137]',
)


def _check_node_speed(record: RunRecord) -> Iterator[str]:
    """Compare the speed of map tasks between nodes.

    Only a node that is slow in HSGen and in HSSort: where the
    ApplicationMaster runs, tasks of a job are slower as well. And only one
    that is slow by the seconds of its tasks and by those in which it had any:
    tasks beside each other are slower, and one alone does not fill a node.
    """
    slow = [
        _find_slow_nodes(phase.job.nodes)
        for phase in record.phases
        if phase.name in _COMPARED_PHASES
    ]
    if len(slow) != len(_COMPARED_PHASES):
        return
    for name in sorted(set(slow[0]) & set(slow[1])):
        text = ' and '.join(
            f'{slow_nodes[name][0] / 1e6:.2f} MB a second of its tasks in '
            f'{phase} (the others {slow_nodes[name][1] / 1e6:.2f})'
            for phase, slow_nodes in zip(_COMPARED_PHASES, slow, strict=True)
        )
        yield f'{name} made {text}'


#: Phases whose map tasks are compared.
_COMPARED_PHASES = ('HSGen', 'HSSort')


def _find_slow_nodes(
    nodes: Mapping[str, Mapping[str, float]],
) -> dict[str, tuple[float, float]]:
    """Return the slow nodes of a phase: speed, and the others' median."""
    slow_nodes: dict[str, tuple[float, float]] = {}
    for name in nodes:
        pairs = []
        for seconds in ('map_wall_seconds', 'map_seconds'):
            speeds = {
                node_name: node['map_bytes'] / node[seconds]
                for node_name, node in nodes.items()
                if node.get(seconds) and node.get('map_bytes')
            }
            median = _median_of_others(speeds, name)
            if (
                median
                and speeds.get(name, median) < MIN_NODE_SPEED_RATIO * median
            ):
                pairs.append((speeds[name], median))
        if len(pairs) == 2:
            slow_nodes[name] = pairs[1]
    return slow_nodes


def _median_of_others(values: dict[str, float], name: str) -> float | None:
    """Return the median of all others' values."""
    others = [value for other, value in values.items() if other != name]
    return statistics.median(others) if others else None


def _check_disk_speed(record: RunRecord) -> Iterator[str]:
    summary = _get_telemetry_summary(record)
    if summary.source != 'sysstat':
        return
    speeds = {
        f'{disk} of {name}': (disk_usage['read'] + disk_usage['write'])
        / disk_usage['busy']
        for name, node in summary.nodes.items()
        if node.role == 'worker'
        for disk, disk_usage in node.disks.items()
        if {'read', 'write', 'busy'} <= set(disk_usage)
        and disk_usage['busy'] > MIN_BUSY_SHARE * node.seconds
    }
    for name, speed in speeds.items():
        median = _median_of_others(speeds, name)
        if median and speed < MIN_DISK_SPEED_RATIO * median:
            yield (
                f'{name} moved {speed / 1e6:.1f} MB in a second in which it '
                f'was busy (the others {median / 1e6:.1f})'
            )


def _check_steal(record: RunRecord) -> Iterator[str]:
    for name, part in (telemetry.compute_steal_shares(record) or {}).items():
        if part > MAX_STEAL_SHARE:
            yield f'{100 * part:.1f} % of the CPU time of {name}'


def _check_retransmissions(record: RunRecord) -> Iterator[str]:
    nodes = _get_telemetry_summary(record).nodes
    shares = telemetry.compute_retransmitted_shares(record)
    for name, share in shares.items():
        if share > MAX_RETRANSMITTED_SHARE:
            counters = nodes[name].network
            dropped_count = counters.get(
                'dropped_rx_packets', 0
            ) + counters.get('dropped_tx_packets', 0)
            yield (
                f'{name} sent {100 * share:.1f} % of its '
                f'{counters["segments"]} TCP segments again, after '
                f'{counters.get("retransmission_timeouts", 0)} timeouts; its '
                f'interface dropped {dropped_count} packets'
            )


def _check_swap(record: RunRecord) -> Iterator[str]:
    summary = _get_telemetry_summary(record)
    scope_note = ' (all of its machine)' if summary.source == 'cgroup' else ''
    for name, node in summary.nodes.items():
        if node.swap:
            yield f'{node.swap:.0f} pages on {name}{scope_note}'


def _check_reducers(record: RunRecord) -> Iterator[str]:
    for phase in record.phases:
        reducers = phase.job.reducers
        if (
            reducers
            and reducers.max_records > MAX_REDUCER_RATIO * reducers.median
        ):
            yield (
                f'of {phase.name} the largest took {reducers.max_records} '
                f'records, the median {reducers.median:.0f} '
                f'({reducers.max_records / max(reducers.median, 1):.2f} '
                'times): let it sample more keys '
                '(mapreduce.terasort.partitions.sample)'
            )


def _check_last_tasks(record: RunRecord) -> Iterator[str]:
    for phase in record.phases:
        job_seconds = phase.job.seconds or phase.seconds
        for task_type, task in phase.job.last.items():
            if (
                task.alone_seconds > MAX_ALONE_SHARE * job_seconds
                and task.seconds > MAX_DURATION_RATIO * task.median_seconds
            ):
                yield (
                    f'{phase.name} waited {task.alone_seconds:.1f} s of '
                    f'{job_seconds:.1f} for {task_type} {task.task} on '
                    f'{task.node} ({task.seconds:.1f} s, the median '
                    f'{task.median_seconds:.1f})'
                )


def _is_deviating(
    phase: Mapping[str, float], name: str, expected: float
) -> bool:
    """Return whether no reading of the samples comes near what must be."""
    if name not in phase:
        return False
    min_bytes = phase.get(f'{name}_least', phase[name])
    max_bytes = phase.get(f'{name}_most', phase[name])
    return (
        max_bytes < (1 - MAX_BYTES_DEVIATION) * expected
        or min_bytes > (1 + MAX_BYTES_DEVIATION) * expected
    )


def _format_bytes(phase: Mapping[str, float], name: str) -> str:
    """Return bytes, and what samples leave open, as words."""

    def size(value: float) -> str:
        return format_size(int(float(f'{value:.3g}')))

    text = size(phase[name])
    if f'{name}_most' not in phase:
        return text
    min_size, max_size = (
        size(phase[f'{name}_{end}']) for end in ('least', 'most')
    )
    return f'{text} (by its samples {min_size} to {max_size})'


def _check_disk_bytes(record: RunRecord) -> Iterator[str]:
    """Hold the disks' bytes against what replicas there must be.

    Not where the page cache takes the data: it writes when it likes.
    """
    summary = _get_telemetry_summary(record)
    if summary.source != 'sysstat' or (
        record.size_bytes <= sum_memory_mib(record) * 2**20
    ):
        return
    for name in ('HSGen', 'reduce-merge'):
        expected = record.size_bytes * _count_copies(record, name)
        phase = summary.phases.get(name, {})
        if _is_deviating(phase, 'write', expected):
            yield (
                f'the disks wrote {_format_bytes(phase, "write")} in {name}, '
                f'replication x data is {format_size(expected)}'
            )


def _check_network_bytes(record: RunRecord) -> Iterator[str]:
    """Hold what workers received against the replicas on other nodes.

    In HSGen alone: in reduce-merge the last shuffle may still continue.
    """
    expected = record.size_bytes * (record.replication - 1)
    phase = _get_telemetry_summary(record).phases.get('HSGen', {})
    if expected and _is_deviating(phase, 'rx', expected):
        yield (
            f'the workers received {_format_bytes(phase, "rx")} in HSGen, '
            f'(replication - 1) x data is {format_size(expected)}'
        )


_CHECKS = (
    ('extra spills by maps', _check_map_spills),
    ('extra spills by reduces', _check_reduce_spills),
    ('bytes written differ from replication x data', _check_written_bytes),
    ('disk bytes differ from replication x data', _check_disk_bytes),
    (
        'network bytes differ from (replication - 1) x data',
        _check_network_bytes,
    ),
    ('slow node', _check_node_speed),
    ('slow disk', _check_disk_speed),
    ('steal', _check_steal),
    ('TCP segments retransmitted', _check_retransmissions),
    *run_conditions.CHECKS,
    ('uneven reducers', _check_reducers),
    ('a phase waited for one task', _check_last_tasks),
    ('memory swapped', _check_swap),
    ('OOM-killed', _check_killed),
    ('a container was killed', _check_containers),
    ('task attempts failed', _check_attempts),
)
