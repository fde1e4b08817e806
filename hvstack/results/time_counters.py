# SPDX-License-Identifier: Apache-2.0
"""Counters of runs from which their time is accounted."""

import math
from collections.abc import Mapping

from hvstack.results.observations import (
    JobStatistics,
    NodeSummary,
    TelemetrySummary,
)
from hvstack.results.record_data import RunRecord

#: Extra spec of a flavor whose servers have a CPU quota of their own.
_QUOTA_SPEC = 'quota:cpu_quota'


def compute_share(
    record: RunRecord, name: str, series: tuple[str, str]
) -> float:
    """Return the part of the bytes of a run that a phase moved."""
    sums = get_summary(record).phases
    by_phase = {
        phase: math.fsum(
            [sums[phase].get(key, 0.0) for key in series]
            if phase in sums
            else ()
        )
        for phase in record.phase_names
    }
    total = math.fsum(by_phase.values())
    return by_phase[name] / total if total else 0.0


def list_walls(job: JobStatistics, task_type: str) -> list[float]:
    """Return the seconds in which each node had tasks of a type."""
    key = f'{task_type}_wall_seconds'
    return [node[key] for node in job.nodes.values() if key in node]


def count_cores(record: RunRecord) -> float | None:
    """Return the cores of all hosts with workers; None if unknown.

    They are the caps of these hosts, the mean cap of all hosts if the record
    does not name them, or the CPUs of the workers' kernels.
    """
    hosts = record.sut.worker_hosts or record.observations.worker_hosts
    probe = record.observations.probe
    probed = [host.cap for host in probe.hosts.values()] if probe else []
    if probed and all(probed):
        return math.fsum(probed)
    caps = record.sut.caps or record.observations.caps
    names = {name for phase in record.phases for name in phase.job.hosts}
    named = [caps[name].cpu for name in names if name in caps]
    cpus = [cpu for cpu in named if cpu]
    if names and len(cpus) == len(names):
        return math.fsum(cpus)
    cpus = [cap.cpu for cap in caps.values() if cap.cpu]
    if cpus and hosts:
        return math.fsum(cpus) / len(cpus) * hosts
    if not has_all_workers(record):
        return None
    counts = [node.cpus for node in list_workers(record)]
    positive = [count for count in counts if count]
    return math.fsum(positive) if len(positive) == len(counts) > 0 else None


def estimate_controller_cpu(record: RunRecord) -> float:
    """Return the CPU seconds per second of the nodes that are no workers.

    The record contains their CPU time of the whole run, not of a phase.
    """
    return math.fsum(
        node.cpu / node.seconds
        for node in get_summary(record).nodes.values()
        if node.role != 'worker' and node.cpu and node.seconds
    )


def compute_worker_share(record: RunRecord) -> float:
    """Return the part of the lab hosts that has workers."""
    hosts = record.sut.worker_hosts or record.observations.worker_hosts
    caps = record.sut.caps or record.observations.caps
    return min(1.0, hosts / len(caps)) if hosts and caps else 1.0


def get_throttled_seconds(record: RunRecord, name: str) -> float:
    """Return the throttled seconds of the hosts with workers in a phase.

    Workers without a quota of their own report the time of the cap of their
    host, each of them the same.
    """
    throttled = get_sums(record, name).get('throttled', 0.0)
    flavor = record.observations.cloud.flavor.get('worker')
    workers, hosts = record.observations.workers, record.sut.worker_hosts
    if (flavor and _QUOTA_SPEC in flavor.extra_specs) or not workers:
        return throttled
    return throttled / max(1.0, workers / hosts) if hosts else throttled


def get_busy_seconds(node: NodeSummary) -> float | None:
    """Return the seconds in which the busiest disk of a node was busy."""
    return max(
        (disk['busy'] for disk in node.disks.values() if 'busy' in disk),
        default=None,
    )


def compute_busy_seconds(record: RunRecord, name: str) -> float:
    """Return the seconds in which the disks of a worker were busy in a phase.

    It is the mean over the workers, each with its busiest disk. Records of
    older releases have the seconds of the whole run alone, which are split by
    the bytes of the phases.
    """
    workers = list_workers(record)
    count = max(1, len(workers))
    busy = get_sums(record, name).get('busy')
    if busy is not None:
        return busy / count
    total = math.fsum(get_busy_seconds(node) or 0.0 for node in workers)
    return compute_share(record, name, ('read', 'write')) * total / count


def get_summary(record: RunRecord) -> TelemetrySummary:
    """Return the telemetry of a run; an empty summary without telemetry."""
    return record.observations.telemetry or TelemetrySummary()


def has_all_workers(record: RunRecord) -> bool:
    """Return whether all workers of a run have telemetry.

    The sums over the workers say nothing otherwise.
    """
    summary = record.observations.telemetry
    if summary is None:
        return False
    count = sum(node.role == 'worker' for node in summary.nodes.values())
    return count >= (record.observations.workers or 1)


def get_sums(record: RunRecord, name: str) -> Mapping[str, float]:
    """Return the sums over the workers in a phase.

    They are empty if a worker has no telemetry.
    """
    if not has_all_workers(record):
        return {}
    return get_summary(record).phases.get(name, {})


def list_workers(record: RunRecord) -> list[NodeSummary]:
    """Return the telemetry of the workers over the whole run."""
    nodes = get_summary(record).nodes.values()
    return [node for node in nodes if node.role == 'worker']
