# SPDX-License-Identifier: Apache-2.0
"""Checks of the jobs of a run: their counters, nodes, tasks and failures.

Every check yields the evidence of one finding as text.
"""

import bisect
import re
from collections.abc import Iterator, Mapping

from hvstack.results.record_data import RunRecord

#: More spilled records than records, beyond which a spill is extra.
MAX_SPILL_RATIO = 1.01
#: Bytes may differ by this part from what must have been written or sent.
MAX_BYTES_DEVIATION = 0.10
#: A node is slow whose tasks continue at less than this part of the median of
#: the other workers', in HSGen and in HSSort.
MIN_NODE_SPEED_RATIO = 2 / 3
#: Records of the largest reducer over the median's. A sample of 100,000 keys
#: gives 600 reducers 167 each, and so partitions that scatter by 8 % (one
#: over the root); with 2,000,000 the largest is about 6 % over the median.
MAX_REDUCER_RATIO = 1.2
#: Part of a job's time in which only one task of a kind still ran, and how
#: many times the median that task took.
MAX_ALONE_SHARE, MAX_DURATION_RATIO = 0.2, 1.5
#: Phases whose map tasks are compared.
_COMPARED_PHASES = ('HSGen', 'HSSort')
#: Exit codes of SIGKILL and SIGTERM, as YARN reports them.
_KILL_MESSAGES = (
    'exit code is 137',
    'Exit code is 137',
    'exitCode: 137',
    '[137]',
)


def check_map_spills(record: RunRecord) -> Iterator[str]:
    """Find maps that spilled records more than once."""
    counters = record.counters('HSSort')
    spilled = counters.get('MAP.SPILLED_RECORDS', 0)
    output_records = counters.get('MAP_OUTPUT_RECORDS', 0)
    if output_records and spilled > MAX_SPILL_RATIO * output_records:
        yield (
            f'{spilled} records spilled by maps that put out {output_records} '
            f'({spilled / output_records:.2f} times)'
        )


def check_reduce_spills(record: RunRecord) -> Iterator[str]:
    """Find reduces that spilled records more than once."""
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


def check_written_bytes(record: RunRecord) -> Iterator[str]:
    """Hold what was written against replication x data.

    HDFS's counter counts a byte once, whatever its replication.
    """
    for phase, name in (('HSGen', 'HSGen'), ('HSSort', 'reduce-merge')):
        counted = record.counters(phase).get('HDFS_BYTES_WRITTEN')
        if counted is None:
            continue
        copies = count_copies(record, name)
        expected = record.size_bytes * copies
        written = counted * copies
        if abs(written - expected) > MAX_BYTES_DEVIATION * expected:
            yield (
                f'{name} wrote {written} bytes (HDFS_BYTES_WRITTEN x '
                f'replication), replication x data is {expected}'
            )


def count_copies(record: RunRecord, part: str) -> int:
    """Return the number of replicas that a part of a run writes.

    :param record: record of the run.
    :param part: ``HSGen``, or ``reduce-merge`` for the output of HSSort.
    """
    copies = record.sut.facts.get('output_replication')
    if part != 'HSGen' and isinstance(copies, int):
        return copies
    return record.replication


#: Reasons of hvstack. Hadoop counts killed tasks of each failed job, too
#: ("killedMaps:0").
_KILLED = re.compile(r'\b(a task was killed:|killed because)')


def check_killed(record: RunRecord) -> Iterator[str]:
    """Find a run that the kernel killed because it ran out of memory."""
    if record.observations.killed:
        yield record.observations.killed[0]
    elif _KILLED.search(record.reason):
        yield record.reason


def check_attempts(record: RunRecord) -> Iterator[str]:
    """Find phases in which attempts of tasks failed."""
    for phase in record.phases:
        failed = phase.job.failed_attempts
        if failed:
            yield f'{failed} attempts of tasks of {phase.name} failed'


def check_containers(record: RunRecord) -> Iterator[str]:
    """Name containers that something outside of them ended."""
    for phase in record.phases:
        for failure in phase.job.failures:
            if any(sign in failure.error for sign in _KILL_MESSAGES):
                yield (
                    f'one of {phase.name} on {failure.node} '
                    f'({failure.error[:160]})'
                )


def check_node_speed(record: RunRecord) -> Iterator[str]:
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


def _find_slow_nodes(
    nodes: Mapping[str, Mapping[str, float]],
) -> dict[str, tuple[float, float]]:
    """Return the slow nodes of a phase: speed, and the others' median."""
    speeds_by_name = [
        {
            name: node['map_bytes'] / node[seconds]
            for name, node in nodes.items()
            if node.get(seconds) and node.get('map_bytes')
        }
        for seconds in ('map_wall_seconds', 'map_seconds')
    ]
    medians_by_name = [
        compute_medians_of_others(speeds) for speeds in speeds_by_name
    ]
    slow_nodes: dict[str, tuple[float, float]] = {}
    for name in nodes:
        pairs = [
            (speeds[name], medians[name])
            for speeds, medians in zip(
                speeds_by_name, medians_by_name, strict=True
            )
            if name in medians
            and speeds[name] < MIN_NODE_SPEED_RATIO * medians[name]
        ]
        if len(pairs) == 2:
            slow_nodes[name] = pairs[1]
    return slow_nodes


def compute_medians_of_others(values: Mapping[str, float]) -> dict[str, float]:
    """Return the median of the values of all others for each name.

    The values are sorted once: a median for each of 640 nodes would sort
    them 640 times.

    :param values: values by name.
    :returns: medians by name; empty if there are no others.
    """
    ordered = sorted(values.values())
    others = len(ordered) - 1
    if others < 1:
        return {}
    medians = {}
    for name, value in values.items():
        own = bisect.bisect_left(ordered, value)
        low, high = (
            ordered[index + (index >= own)]
            for index in ((others - 1) // 2, others // 2)
        )
        medians[name] = (low + high) / 2
    return medians


def check_reducers(record: RunRecord) -> Iterator[str]:
    """Find phases whose largest reducer took too many records."""
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


def check_last_tasks(record: RunRecord) -> Iterator[str]:
    """Find phases that waited long for their last task."""
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
