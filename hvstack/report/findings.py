# SPDX-License-Identifier: Apache-2.0
"""What runs show besides their time, in words, each with its evidence."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hvstack.report import (
    compute_hosts,
    job_checks,
    run_conditions,
    telemetry_checks,
)
from hvstack.report.formats import format_size
from hvstack.report.page_cache import fits_page_cache, sum_memory_mib
from hvstack.report.sweep_report import SweepReport
from hvstack.results.record_data import RunRecord

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
                'records hold no memory of the hosts',
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
        if telemetry_checks.get_summary(record).source == 'cgroup'
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
        for gap in telemetry_checks.get_summary(record).gaps
    ]
    lines += [
        (f'telemetry of {record.configuration}, run {record.index}', gap)
        for record, gap in gaps[:_MAX_GAPS]
    ]
    if gaps[_MAX_GAPS:]:
        lines.append(('telemetry', f'{len(gaps) - _MAX_GAPS} more gaps'))
    return lines + compute_hosts.list_unmeasured(report)


#: Gaps that are named one by one.
_MAX_GAPS = 10


def _check_page_cache(report: SweepReport) -> Iterator[Finding]:
    """Say that disks were not measured if memory could hold the data."""
    for record in report.records:
        if fits_page_cache(record):
            yield Finding(
                'disk not measured',
                'all rows',
                f'{format_size(record.size_bytes)} of data fit the page '
                f'cache: the hosts have {sum_memory_mib(record) / 1024:.1f} '
                'GiB of memory together',
            )
            return


_CHECKS = (
    ('extra spills by maps', job_checks.check_map_spills),
    ('extra spills by reduces', job_checks.check_reduce_spills),
    (
        'bytes written differ from replication x data',
        job_checks.check_written_bytes,
    ),
    (
        'disk bytes differ from replication x data',
        telemetry_checks.check_disk_bytes,
    ),
    (
        'network bytes differ from (replication - 1) x data',
        telemetry_checks.check_network_bytes,
    ),
    ('slow node', job_checks.check_node_speed),
    ('slow disk', telemetry_checks.check_disk_speed),
    ('steal', telemetry_checks.check_steal),
    ('TCP segments retransmitted', telemetry_checks.check_retransmissions),
    *run_conditions.CHECKS,
    ('uneven reducers', job_checks.check_reducers),
    ('a phase waited for one task', job_checks.check_last_tasks),
    ('memory swapped', telemetry_checks.check_swap),
    ('OOM-killed', job_checks.check_killed),
    ('a container was killed', job_checks.check_containers),
    ('task attempts failed', job_checks.check_attempts),
)
