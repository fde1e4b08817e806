# SPDX-License-Identifier: Apache-2.0
"""How the tasks of a run were split between hosts and workers.

With the same work, a run in which a host got more tasks than its share takes
longer, whatever the configuration.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hvstack.results.observations import HostTasks, Phase

#: Excess over the share of a host or worker, in tasks and as a fraction of the
#: share, from which on a split is uneven. With many waves, workers that are a
#: little faster get a few more tasks.
MIN_EXCESS_TASKS = 1.0
MIN_EXCESS_SHARE = 0.1
#: Hosts or workers whose numbers of tasks a text names one by one.
_MAX_NAMED = 40
#: Types of tasks by their names in the record.
_TYPES = ('maps', 'reduces')


@dataclass(frozen=True)
class UnevenSplit:
    """Tasks of a phase that were not split evenly.

    :param phase: name of the phase.
    :param task_type: ``maps`` or ``reduces``.
    :param name: host or worker with the largest excess.
    :param tasks: number of its tasks.
    :param share: number of its tasks in an even split.
    :param text: split by host or by worker.
    :param seconds: estimated seconds that the excess took; None if the times
        of the tasks are unknown.
    """

    phase: str
    task_type: str
    name: str
    tasks: float
    share: float
    text: str
    seconds: float | None

    def __str__(self) -> str:
        """Return the split and its effect as text."""
        effect = (
            ''
            if self.seconds is None
            else f', which took about {self.seconds:.1f} s more'
        )
        return (
            f'{self.task_type} of {self.phase}: {self.text}; {self.name} had '
            f'{self.tasks:g} instead of {self.share:.1f}{effect}'
        )


def count_by_host(
    nodes: Mapping[str, Mapping[str, float]], workers: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Return the numbers of workers and tasks of each host.

    :param nodes: statistics of the tasks of a job by node.
    :param workers: hosts of the workers by name; a worker without a task
        counts.
    """
    hosts: dict[str, dict[str, float]] = {}
    for worker, host in workers.items():
        counts = hosts.setdefault(
            host, {'workers': 0, 'maps': 0, 'reduces': 0}
        )
        counts['workers'] += 1
        for task_type in _TYPES:
            counts[task_type] += int(nodes.get(worker, {}).get(task_type, 0))
    return hosts


def list_uneven(phases: Iterable[Phase]) -> list[UnevenSplit]:
    """Return the uneven splits of a run, at most one per job and type."""
    return [
        split
        for phase in phases
        for task_type in _TYPES
        for split in _check(phase, task_type)
    ]


def format_split(hosts: Mapping[str, HostTasks], task_type: str) -> str:
    """Return the numbers of tasks by host, such as ``4 + 4``.

    More than 40 hosts have a range, such as ``4 to 6, median 5 of 64``.

    :param hosts: tasks by host.
    :param task_type: ``maps`` or ``reduces``.
    """
    return _format_counts(
        [_count(hosts[name], task_type) for name in sorted(hosts)]
    )


def _format_counts(counts: Sequence[float]) -> str:
    """Return numbers of tasks, or their range if there are too many.

    A text with the numbers of 640 workers would be in each record, and in a
    page for each configuration.
    """
    if len(counts) <= _MAX_NAMED:
        return ' + '.join(f'{count:g}' for count in counts)
    return (
        f'{min(counts):g} to {max(counts):g}, median '
        f'{statistics.median(counts):g} of {len(counts)}'
    )


def _count(host: HostTasks, task_type: str) -> float:
    return host.maps if task_type == 'maps' else host.reduces


def _check(phase: Phase, task_type: str) -> Iterator[UnevenSplit]:
    hosts, nodes = phase.job.hosts, phase.job.nodes
    workers = sum(host.workers for host in hosts.values())
    total = sum(_count(host, task_type) for host in hosts.values())
    if not workers or total <= 1:
        return
    each = total / workers
    by_host = {
        name: (_count(host, task_type), each * host.workers)
        for name, host in hosts.items()
    }
    counts = [int(node.get(task_type, 0)) for node in nodes.values()]
    by_worker = {
        name: (float(node.get(task_type, 0)), each)
        for name, node in nodes.items()
    }
    idle = int(workers) - len(counts)
    for rows in (by_host, by_worker):
        name = max(rows, key=lambda key: rows[key][0] - rows[key][1])
        tasks, share = rows[name]
        excess = tasks - share
        if excess >= MIN_EXCESS_TASKS and excess > MIN_EXCESS_SHARE * share:
            text = (
                f'{format_split(hosts, task_type)} by host'
                if rows is by_host
                else f'{_format_counts([*counts, *[0] * idle])} by worker'
            )
            yield UnevenSplit(
                *(phase.name, task_type, name, tasks, share, text),
                _estimate_seconds(phase, task_type, excess / tasks),
            )
            return


def _estimate_seconds(
    phase: Phase, task_type: str, share: float
) -> float | None:
    """Return the seconds of the longest worker for a share of its tasks."""
    key = f'{task_type.removesuffix("s")}_wall_seconds'
    seconds: Sequence[float] = [
        node[key] for node in phase.job.nodes.values() if key in node
    ]
    return share * max(seconds) if seconds else None
