# SPDX-License-Identifier: Apache-2.0
"""Accounts of the time of runs: each second belongs to exactly one cause.

The account of a phase follows from an identity of its seconds::

    phase = (CPU of tasks + displacing CPU) / parallel + unused

``parallel`` is the number of tasks that can compute at once: the mean number
of running tasks, at most the cores of the workers' hosts. A CPU second of a
task therefore takes 1 / ``parallel`` seconds of the phase. CPU time of other
processes displaces tasks where it exceeds the cores that running tasks leave
idle.

``unused`` are the seconds in which tasks could compute and did not: none ran,
or the running ones waited. Each of its causes explains at most the seconds
that its counter shows. If they exceed the unused seconds together, each gets
its share in proportion, so that no second counts twice. What no counter shows
is the remainder.
"""

import enum
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hvstack.results import time_counters
from hvstack.results.observations import JobStatistics, Phase
from hvstack.results.record_data import RunRecord

#: Minimum time that TCP waits before it sends a segment again after a
#: timeout: TCP_RTO_MIN in include/net/tcp.h of Linux.
MIN_RETRANSMISSION_SECONDS = 0.2
#: Phase without a job: clients of HDFS read the metadata of the data set.
_DATA_CHECK = 'HSDataCheck'


class Cause(enum.StrEnum):
    """Causes of the time of a run, in the order of a report."""

    TASKS = 'tasks'
    JVMS = 'jvms'
    AGENTS = 'agents'
    THROTTLING = 'throttling'
    STEAL = 'steal'
    DISK = 'disk'
    NETWORK = 'network'
    UNEVEN = 'uneven'
    STARTS = 'starts'
    REMAINDER = 'remainder'


#: Seconds by cause.
Account = dict[Cause, float]


@dataclass(frozen=True)
class Reference:
    """Quantities that the accounts of all compared runs share.

    :param cores: cores of all hosts with workers, by their caps or CPUs; None
        if bare metal does not show them.
    :param throttled_ratios: throttled seconds per CPU second of the nodes on
        bare metal by phase.
    :param observed: causes by phase whose counters all compared runs have.
    """

    cores: float | None
    throttled_ratios: Mapping[str, float] = field(default_factory=dict)
    observed: frozenset[tuple[str, Cause]] = frozenset()

    @functools.cached_property
    def causes_by_phase(self) -> Mapping[str, set[Cause]]:
        """Observed causes by phase, without phases that have none."""
        causes: dict[str, set[Cause]] = {}
        for name, cause in self.observed:
            causes.setdefault(name, set()).add(cause)
        return causes


def build_reference(
    records: Iterable[RunRecord], baseline: Sequence[RunRecord]
) -> Reference:
    """Return the quantities that the accounts of runs share.

    :param records: valid runs of a configuration.
    :param baseline: valid runs on bare metal, at least one.
    """
    observed = [list_observed(record) for record in (*records, *baseline)]
    cores = [time_counters.count_cores(record) for record in baseline]
    ratios = {}
    for name in baseline[0].phase_names:
        sums = [time_counters.get_sums(record, name) for record in baseline]
        cpu = math.fsum(values.get('cpu', 0.0) for values in sums)
        throttled = math.fsum(
            time_counters.get_throttled_seconds(record, name)
            for record in baseline
        )
        ratios[name] = throttled / cpu if cpu else 0.0
    return Reference(
        next((count for count in cores if count), None),
        ratios,
        frozenset.intersection(*observed),
    )


def account_run(record: RunRecord, reference: Reference) -> dict[str, Account]:
    """Return the seconds of a run by phase and cause.

    The causes of a phase add up to its seconds. A cause that is not observed
    in all compared runs is part of the remainder.

    :param record: valid run.
    :param reference: quantities that all compared runs share.
    """
    return {
        name: _account_phase(name, phase, record, reference)
        for name, phase in zip(record.phase_names, record.phases, strict=True)
    }


def list_observed(record: RunRecord) -> frozenset[tuple[str, Cause]]:
    """Return the causes whose counters a run has, by phase."""
    workers = time_counters.list_workers(record)
    has_all = time_counters.has_all_workers(record)
    by_run = {
        Cause.DISK: has_all
        and all(
            time_counters.get_busy_seconds(node) is not None
            for node in workers
        ),
        Cause.NETWORK: has_all
        and all('retransmission_timeouts' in n.network for n in workers),
    }
    observed = set()
    for name, phase in zip(record.phase_names, record.phases, strict=True):
        if phase.name == _DATA_CHECK:
            observed.add((name, Cause.STARTS))
            continue
        job, sums = phase.job, time_counters.get_sums(record, name)
        has_tasks = 'CPU_MILLISECONDS' in job.counters
        is_observed = {
            Cause.TASKS: has_tasks,
            Cause.JVMS: has_tasks and 'cpu' in sums,
            Cause.AGENTS: 'cpu' in sums and phase.machine_cpu is not None,
            Cause.THROTTLING: 'cpu' in sums and 'throttled' in sums,
            Cause.STEAL: 'steal' in sums,
            Cause.DISK: by_run[Cause.DISK],
            Cause.NETWORK: by_run[Cause.NETWORK],
            Cause.UNEVEN: any(
                'map_wall_seconds' in node for node in job.nodes.values()
            ),
            Cause.STARTS: job.seconds is not None,
        }
        observed |= {
            (name, cause) for cause in is_observed if is_observed[cause]
        }
    return frozenset(observed)


def _account_phase(
    name: str, phase: Phase, record: RunRecord, reference: Reference
) -> Account:
    """Return the seconds of a phase by cause."""
    causes = reference.causes_by_phase.get(name, set())
    if phase.name == _DATA_CHECK:
        return {Cause.STARTS: phase.seconds, Cause.REMAINDER: 0.0}
    stages = _measure_stages(phase, record, causes)
    even_seconds = max(0.0, phase.seconds - math.fsum(stages.values()))
    parallel = _count_parallel(phase.job, even_seconds, reference.cores)
    account = dict.fromkeys(causes, 0.0)
    waits = stages
    if parallel:
        cores = reference.cores
        account |= _convert_spent(
            _compute_spent(name, phase, record, causes),
            even_seconds * (cores - parallel) if cores else 0.0,
            parallel,
        )
        waits |= _compute_waits(name, record, reference, causes, parallel)
    unused = phase.seconds - math.fsum(account.values())
    account |= _share_unused(
        {
            cause: min(seconds, phase.seconds)
            for cause, seconds in waits.items()
        },
        unused,
    )
    account[Cause.REMAINDER] = phase.seconds - math.fsum(account.values())
    return account


def _measure_stages(
    phase: Phase, record: RunRecord, causes: set[Cause]
) -> Account:
    """Return the seconds without a task, and those of the uneven end."""
    stages: Account = {}
    if Cause.STARTS in causes:
        stages[Cause.STARTS] = phase.seconds - (phase.job.seconds or 0.0)
    if Cause.UNEVEN in causes:
        stages[Cause.UNEVEN] = _compute_uneven_seconds(phase.job, record)
        if Cause.STARTS in causes:
            stages[Cause.STARTS] += _compute_idle_seconds(phase.job)
    return {cause: max(0.0, seconds) for cause, seconds in stages.items()}


def _share_unused(waits: Mapping[Cause, float], unused: float) -> Account:
    """Return the seconds of each wait, together at most the unused ones.

    :param waits: seconds that the counters show by cause.
    :param unused: seconds in which tasks could compute and did not.
    """
    total = math.fsum(waits.values())
    factor = min(1.0, max(0.0, unused) / total) if total else 0.0
    return {cause: seconds * factor for cause, seconds in waits.items()}


def _convert_spent(
    spent: Mapping[Cause, float], spare: float, parallel: float
) -> Account:
    """Return the seconds of a phase that CPU time took.

    :param spent: CPU seconds by cause.
    :param spare: CPU seconds of the cores that running tasks left idle.
    :param parallel: number of tasks that can compute at once.
    """
    others = math.fsum(spent.values()) - spent.get(Cause.TASKS, 0.0)
    displacing = max(0.0, others - spare) / others if others > 0 else 1.0
    return {
        cause: seconds
        * (1.0 if cause == Cause.TASKS else displacing)
        / parallel
        for cause, seconds in spent.items()
    }


def _compute_spent(
    name: str, phase: Phase, record: RunRecord, causes: set[Cause]
) -> Account:
    """Return the CPU seconds of a phase on the hosts with workers.

    Hadoop counts the CPU time of a task from the moment when its JVM has
    started. What else the nodes used are starts of JVMs, and daemons. What
    else the hosts used are agents; those on hosts without workers do not
    displace tasks, and each host counts alike.
    """
    tasks = phase.job.counters.get('CPU_MILLISECONDS', 0) / 1000
    nodes = time_counters.get_sums(record, name).get('cpu', 0.0)
    spent: Account = {}
    if Cause.TASKS in causes:
        spent[Cause.TASKS] = tasks
    if Cause.JVMS in causes:
        spent[Cause.JVMS] = nodes - tasks
    if Cause.AGENTS in causes and phase.machine_cpu is not None:
        agents = (
            phase.machine_cpu.hosts
            - nodes
            - time_counters.estimate_controller_cpu(record) * phase.seconds
        )
        share = time_counters.compute_worker_share(record)
        spent[Cause.AGENTS] = agents * share
    return spent


def _compute_waits(
    name: str,
    record: RunRecord,
    reference: Reference,
    causes: set[Cause],
    parallel: float,
) -> Account:
    """Return the seconds of a phase that counters of waits show.

    The counters of the network are those of the whole run, and are split by
    the bytes of the phases. Throttled seconds count as far as they exceed
    those of the same CPU time on bare metal: under the same cap, CPU time
    explains the others. CPU and throttled seconds together are those of the
    CPUs that a host wants to use.

    :param parallel: number of tasks that can compute at once.
    """
    sums = time_counters.get_sums(record, name)
    waits: Account = {}
    if Cause.THROTTLING in causes:
        ratio = reference.throttled_ratios.get(name, 0.0)
        throttled = time_counters.get_throttled_seconds(record, name)
        excess = max(0.0, throttled - ratio * sums.get('cpu', 0.0))
        waits[Cause.THROTTLING] = excess / (1 + ratio) / parallel
    if Cause.STEAL in causes:
        waits[Cause.STEAL] = sums.get('steal', 0.0) / parallel
    if Cause.DISK in causes:
        waits[Cause.DISK] = time_counters.compute_busy_seconds(record, name)
    if Cause.NETWORK in causes:
        stopped = MIN_RETRANSMISSION_SECONDS * sum(
            node.network.get('retransmission_timeouts', 0)
            for node in time_counters.list_workers(record)
        )
        share = time_counters.compute_share(record, name, ('rx', 'tx'))
        waits[Cause.NETWORK] = share * stopped / parallel
    return waits


def _compute_idle_seconds(job: JobStatistics) -> float:
    """Return the seconds of a job before its first tasks of each type.

    The node that had tasks for the longest time shows the part of a stage
    with tasks.
    """
    stages = (
        ('map', job.map_shuffle_seconds),
        ('reduce', job.reduce_merge_seconds),
    )
    return math.fsum(
        max(
            0.0,
            seconds
            - max(time_counters.list_walls(job, task_type), default=0.0),
        )
        for task_type, seconds in stages
        if seconds is not None
    )


def _compute_uneven_seconds(job: JobStatistics, record: RunRecord) -> float:
    """Return the seconds that the last worker had tasks beyond the mean.

    Fewer tasks than workers cannot be split evenly among all.
    """
    # Nodes that store alone have no tasks.
    workers = int(
        sum(host.workers for host in job.hosts.values())
        or record.observations.workers
        or len(job.nodes)
    )
    total = 0.0
    for task_type, limit in (
        ('map', job.map_shuffle_seconds),
        ('reduce', job.reduce_merge_seconds),
    ):
        walls = time_counters.list_walls(job, task_type)
        count = math.fsum(
            node.get(f'{task_type}s', 0.0) for node in job.nodes.values()
        )
        if not walls:
            continue
        mean = math.fsum(walls) / max(len(walls), min(workers, count))
        excess = max(walls) - mean
        total += excess if limit is None else min(excess, limit)
    return total


def _count_parallel(
    job: JobStatistics, seconds: float, cores: float | None
) -> float | None:
    """Return the number of tasks that can compute at once.

    :param seconds: seconds in which tasks ran, without an uneven end.
    :param cores: cores of the workers' hosts; None if they are unknown.
    :returns: None if neither tasks nor cores are known.
    """
    counters = job.counters
    task_seconds = (
        counters.get('MILLIS_MAPS', 0) + counters.get('MILLIS_REDUCES', 0)
    ) / 1000
    running = task_seconds / seconds if seconds > 0 else 0.0
    limits = [count for count in (running, cores) if count]
    return min(limits, default=None)
