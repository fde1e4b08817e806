# SPDX-License-Identifier: Apache-2.0
"""Checks of the telemetry of a run: CPUs, memory, disks and networks.

Every check yields the evidence of one finding as text.
"""

from collections.abc import Iterator, Mapping

from hvstack.report.formats import format_size
from hvstack.report.job_checks import (
    MAX_BYTES_DEVIATION,
    compute_medians_of_others,
    count_copies,
)
from hvstack.report.page_cache import fits_page_cache
from hvstack.results import telemetry, time_counters
from hvstack.results.observations import TelemetrySummary
from hvstack.results.record_data import RunRecord

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


#: Deployments of HVE from this one on have nodes that store alone.
_SEPARATE_STORAGE = 3


def get_summary(record: RunRecord) -> TelemetrySummary:
    """Return the telemetry of a run; empty without telemetry."""
    return record.observations.telemetry or TelemetrySummary()


def check_disk_speed(record: RunRecord) -> Iterator[str]:
    """Find disks of workers that are slower than the others."""
    summary = get_summary(record)
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
    medians = compute_medians_of_others(speeds)
    for name, speed in speeds.items():
        median = medians.get(name, 0.0)
        if speed < MIN_DISK_SPEED_RATIO * median:
            yield (
                f'{name} moved {speed / 1e6:.1f} MB in a second in which it '
                f'was busy (the others {median / 1e6:.1f})'
            )


def check_steal(record: RunRecord) -> Iterator[str]:
    """Find nodes whose CPU time the hypervisor stole."""
    for name, part in (telemetry.compute_steal_shares(record) or {}).items():
        if part > MAX_STEAL_SHARE:
            yield f'{100 * part:.1f} % of the CPU time of {name}'


def check_retransmissions(record: RunRecord) -> Iterator[str]:
    """Find nodes that sent TCP segments again."""
    nodes = get_summary(record).nodes
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


def check_swap(record: RunRecord) -> Iterator[str]:
    """Find nodes that swapped memory."""
    summary = get_summary(record)
    scope_note = ' (all of its machine)' if summary.source == 'cgroup' else ''
    for name, node in summary.nodes.items():
        if node.swap:
            yield f'{node.swap:.0f} pages on {name}{scope_note}'


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


def _has_failed_in(record: RunRecord, name: str) -> bool:
    """Return whether a run ended within a phase, or within a part of it."""
    phase = 'HSSort' if name == 'reduce-merge' else name
    return not record.valid and record.phase_names[-1:] == [phase]


def check_disk_bytes(record: RunRecord) -> Iterator[str]:
    """Hold the disks' bytes against what replicas there must be.

    Not where the page cache takes the data: it writes when it likes.
    """
    summary = get_summary(record)
    if summary.source != 'sysstat' or fits_page_cache(record):
        return
    for name in ('HSGen', 'reduce-merge'):
        if _has_failed_in(record, name):
            continue
        expected = record.size_bytes * count_copies(record, name)
        phase = time_counters.get_sums(record, name)
        if _is_deviating(phase, 'write', expected):
            yield (
                f'the disks wrote {_format_bytes(phase, "write")} in {name}, '
                f'replication x data is {format_size(expected)}'
            )


def check_network_bytes(record: RunRecord) -> Iterator[str]:
    """Hold what workers received against the replicas on other nodes.

    In HSGen alone: in reduce-merge the last shuffle may still continue. Where
    nodes for tasks store nothing, the first replica is on another node, too.
    """
    copies = record.replication
    deployment = record.sut.facts.get('deployment')
    if not isinstance(deployment, int) or deployment < _SEPARATE_STORAGE:
        copies -= 1
    expected = record.size_bytes * copies
    phase = time_counters.get_sums(record, 'HSGen')
    if _has_failed_in(record, 'HSGen'):
        return
    if expected and _is_deviating(phase, 'rx', expected):
        yield (
            f'the workers received {_format_bytes(phase, "rx")} in HSGen, '
            f'{copies} x data is {format_size(expected)}'
        )
