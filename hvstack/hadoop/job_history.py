# SPDX-License-Identifier: Apache-2.0
"""Statistics of finished jobs and their tasks.

Statistics of a job come from the JobHistory server through REST, those of its
tasks from the history file.
"""

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hvstack import errors, processutils, shell_scripts
from hvstack.hadoop import daemon_http
from hvstack.hadoop.daemon_http import Runner
from hvstack.hadoop.site_files import CLUSTER_DIRECTORY, CONF
from hvstack.results.observations import (
    LastTask,
    ReducerRecords,
    TaskFailure,
)
from hvstack.results.typed_json import JsonObject

_JOBS = '/ws/v1/history/mapreduce/jobs'
#: Directories of history files, before and after the server moves them
#: (mapred-default.xml: mapreduce.jobhistory.done-dir, intermediate-done-dir).
#: A compute cluster on the HDFS of another stack has directories of its own.
_PARENT = '/tmp/hadoop-yarn'  # noqa: S108, in HDFS
_FILES = tuple(
    f'{parent}/staging/history/{directory}/{{job}}-*.jhist'
    for parent in (_PARENT, CLUSTER_DIRECTORY.replace('%STACK%', '*'))
    for directory in ('done_intermediate/*', 'done/*/*/*/*')
)
_JOB = re.compile(r'"(?:appattempt|attempt|task|job)_(\d+_\d+)[_"]')
#: Maximum number of failures per job, and of characters per failure.
_FAILURES, _ERROR = 5, 300
#: Maximum number of seconds to read the history of a small job, that of all
#: jobs of a run, and of each task in addition: the JobHistory server parses
#: about ten events of a task. 112,000 tasks (vsphere6, Table 1) get 10
#: minutes.
_JOB_SECONDS, _LOAD_SECONDS = 60, 300
_TASK_SECONDS = 0.005
#: Distances between a map task and its data, the nearest first.
LOCALITY = ('node', 'node_group', 'rack', 'off_rack')


@dataclass(frozen=True)
class JobSummary:
    """Times and counters of a finished job.

    The map-shuffle stage lasts from the start of the job until its last map
    task has ended, the reduce-merge stage from then until the job has ended.

    :param job_id: ID of the job.
    :param state: state of the job, such as ``SUCCEEDED``.
    :param started_at: start time in seconds since 1970.
    :param seconds: duration in seconds.
    :param map_shuffle_seconds: duration of the map-shuffle stage in seconds.
    :param reduce_merge_seconds: duration of the reduce-merge stage in seconds.
    :param maps: number of map tasks.
    :param reduces: number of reduce tasks.
    :param failed_attempts: number of failed attempts of tasks.
    :param killed_attempts: number of killed attempts of tasks.
    :param counters: counters of the whole job by name; ``MAP.`` precedes
        those of its map tasks.
    """

    job_id: str
    state: str
    started_at: float
    seconds: float
    map_shuffle_seconds: float
    reduce_merge_seconds: float
    maps: int
    reduces: int
    failed_attempts: int
    killed_attempts: int
    counters: Mapping[str, int]

    def to_mapping(self) -> JsonObject:
        """Return the keys of a phase in the run record."""
        return {
            'job_id': self.job_id,
            'state': self.state,
            'job_began': self.started_at,
            'job_seconds': self.seconds,
            'map_shuffle_seconds': self.map_shuffle_seconds,
            'reduce_merge_seconds': self.reduce_merge_seconds,
            'maps': self.maps,
            'reduces': self.reduces,
            'failed_attempts': self.failed_attempts,
            'killed_attempts': self.killed_attempts,
            'counters': self.counters,
        }


@dataclass(frozen=True)
class TaskSummary:
    """Statistics of the tasks of a finished job.

    :param nodes: per node the number of tasks by type, the sum of their
        seconds, the seconds with at least one task, and bytes.
    :param last: task that ended last, by type.
    :param locality: number of map tasks by the distance to their data; empty
        if it is unknown.
    :param reducers: input records of the reducers; None for a single one.
    :param failures: failed attempts with their errors.
    :param master_nodes: node of each attempt of the ApplicationMaster, in
        order; empty if they are unknown.
    """

    nodes: Mapping[str, Mapping[str, float]]
    last: Mapping[str, LastTask]
    locality: Mapping[str, int]
    reducers: ReducerRecords | None
    failures: tuple[TaskFailure, ...]
    master_nodes: tuple[str, ...] = ()

    def to_mapping(self) -> JsonObject:
        """Return the keys of a phase in the run record."""
        mapping: JsonObject = {
            'nodes': self.nodes,
            'last': {
                task_type: asdict(task)
                for task_type, task in self.last.items()
            },
            'failures': [asdict(failure) for failure in self.failures],
        }
        if self.master_nodes:
            mapping['master_nodes'] = list(self.master_nodes)
        if self.locality:
            mapping['locality'] = self.locality
        if self.reducers is not None:
            mapping['reducers'] = {
                'least': self.reducers.min_records,
                'median': self.reducers.median,
                'most': self.reducers.max_records,
            }
        return mapping


def load_job(controller: Runner, job_id: str, tasks: int = 0) -> JobSummary:
    """Return the times and counters of a finished job.

    The server lists a job some seconds after its client has ended.

    :param controller: controller that runs the JobHistory server.
    :param job_id: job ID.
    :param tasks: expected number of tasks of the job.
    :raises hvstack.errors.DeadlineExceededError: the server does not list the
        job.
    """
    job_fields: dict[str, Any] = {}
    timeout = _JOB_SECONDS + tasks * _TASK_SECONDS

    def is_available() -> bool:
        job_fields.update(
            daemon_http.get_json(
                controller, 'historyserver', f'{_JOBS}/{job_id}', timeout
            )['job']
        )
        return True

    processutils.wait_for(
        is_available, f'the history of {job_id}', timeout=timeout, interval=1
    )
    base = f'{_JOBS}/{job_id}'
    return summarize_job(
        job_fields,
        *(
            daemon_http.get_json(
                controller, 'historyserver', f'{base}/{part}', timeout
            )
            for part in ('tasks', 'counters')
        ),
    )


def list_jobs(controller: Runner, begin: float, end: float) -> list[str]:
    """Return the IDs of the jobs that started in a period, in order.

    :param controller: controller that runs the JobHistory server.
    :param begin: Unix time of the begin of the period.
    :param end: Unix time of its end.
    :raises hvstack.errors.CommandError: the server does not answer.
    """
    query = (
        f'startedTimeBegin={int(begin * 1000)}&'
        f'startedTimeEnd={int(end * 1000)}'
    )
    answer = daemon_http.get_json(
        controller, 'historyserver', f'{_JOBS}?{query}'
    )
    jobs = daemon_http.list_elements((answer.get('jobs') or {}).get('job'))
    jobs.sort(key=lambda job: job['startTime'])
    return [str(job['id']) for job in jobs]


def summarize_job(
    job: Mapping[str, Any],
    tasks: Mapping[str, Any],
    counters: Mapping[str, Any],
) -> JobSummary:
    """Combine the three answers of the server about a job.

    :param job: answer about the job.
    :param tasks: answer about its tasks.
    :param counters: answer about its counters.
    :returns: the result of :func:`load_job`.
    :raises hvstack.errors.CommandError: a field is missing in an answer.
    """
    try:
        started_ms, ended_ms = int(job['startTime']), int(job['finishTime'])
        maps_ended_ms = max(
            (
                int(task['finishTime'])
                for task in daemon_http.list_elements(tasks['tasks']['task'])
                if task['type'] == 'MAP'
            ),
            default=started_ms,
        )
        values: dict[str, int] = {}
        for group in daemon_http.list_elements(
            counters['jobCounters'].get('counterGroup')
        ):
            for counter in daemon_http.list_elements(group['counter']):
                name, total = counter['name'], counter['totalCounterValue']
                values[name] = int(total)
                if group['counterGroupName'].endswith('.TaskCounter'):
                    values[f'MAP.{name}'] = int(counter['mapCounterValue'])
        return JobSummary(
            job_id=job['id'],
            state=job['state'],
            started_at=started_ms / 1000,
            seconds=round((ended_ms - started_ms) / 1000, 3),
            map_shuffle_seconds=round((maps_ended_ms - started_ms) / 1000, 3),
            reduce_merge_seconds=round((ended_ms - maps_ended_ms) / 1000, 3),
            maps=int(job['mapsTotal']),
            reduces=int(job['reducesTotal']),
            failed_attempts=int(job.get('failedMapAttempts', 0))
            + int(job.get('failedReduceAttempts', 0)),
            killed_attempts=int(job.get('killedMapAttempts', 0))
            + int(job.get('killedReduceAttempts', 0)),
            counters=values,
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise errors.CommandError(
            ['JobHistory'], 0, f'the answer has no field {exc}'
        ) from exc


@dataclass(frozen=True, slots=True)
class Task:
    """A successful attempt of a task.

    :param id: task ID.
    :param kind: ``map`` or ``reduce``.
    :param host: address of the node that ran it.
    :param started_at: start time in seconds since 1970.
    :param ended_at: end time in seconds since 1970.
    :param records: number of input records.
    :param bytes: number of bytes read from HDFS or written to it, whichever
        is larger.
    :param splits: addresses of the nodes that store its input.
    """

    id: str
    kind: str
    host: str
    started_at: float
    ended_at: float
    records: int
    bytes: int
    splits: tuple[str, ...] = ()


@dataclass
class JobHistory:
    """Attempts of a job, as its history file lists them.

    :param tasks: successful attempts of tasks.
    :param failures: node and error of each failed attempt of a task.
    :param masters: node of each attempt of the ApplicationMaster.
    """

    tasks: list[Task] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    masters: list[str] = field(default_factory=list)


def load_histories(
    controller: Runner, jobs: Sequence[str], tasks: int = 0
) -> tuple[dict[str, JobHistory], dict[str, str]]:
    """Return the task attempts of jobs, and the locations of the nodes.

    A history file that cannot be read is left out, so that no run fails
    because of it.

    :param controller: node with an HDFS client and the topology table.
    :param jobs: job IDs.
    :param tasks: number of tasks of all jobs.
    :returns: histories by job ID, and ``/rack/nodegroup`` by address.
    """
    files = [path.format(job=job) for job in jobs for path in _FILES]
    if not files:
        return {}, {}
    try:
        text = controller.run(
            shell_scripts.render(
                'task-events', f'{CONF}/topology.table', *files
            ),
            timeout=_LOAD_SECONDS + tasks * _TASK_SECONDS,
            check=False,
        ).stdout
        rows = [line.split() for line in _iter_lines(text) if line[0] != '{']
        return parse_histories(_iter_lines(text)), {
            row[0]: row[1] for row in rows if len(row) == 2
        }
    except (errors.HVStackError, LookupError, TypeError, ValueError):
        return {}, {}


def _iter_lines(text: str) -> Iterator[str]:
    """Yield lines without a second copy of a text of 100 MB."""
    return (match[0] for match in re.finditer('.+', text))


def parse_histories(lines: Iterable[str]) -> dict[str, JobHistory]:
    """Return the task attempts in lines of JSON history files, by job ID."""
    histories: dict[str, JobHistory] = {}
    start_times: dict[str, float] = {}
    splits: dict[str, tuple[str, ...]] = {}
    for line in lines:
        job = _JOB.search(line)
        try:
            (event,) = json.loads(line)['event'].values()
        except (ValueError, KeyError, AttributeError):
            continue
        event = {name: _unwrap_union(value) for name, value in event.items()}
        if not job:
            continue
        history = histories.setdefault(f'job_{job[1]}', JobHistory())
        if 'nodeManagerHost' in event:
            history.masters.append(event['nodeManagerHost'])
        elif 'splitLocations' in event:
            splits[event['taskid']] = tuple(event['splitLocations'].split(','))
        elif 'startTime' in event and 'attemptId' in event:
            start_times[event['attemptId']] = event['startTime'] / 1000
        elif 'error' in event:
            # A killed attempt, such as the slower of two speculative ones,
            # has counters as well, and is neither a task nor a failure.
            if event.get('status') == 'FAILED':
                error = ' '.join(event['error'].split())[:_ERROR]
                history.failures.append((event['hostname'], error))
        elif 'counters' in event and event.get('attemptId') in start_times:
            history.tasks.append(_task(event, start_times, splits))
    return histories


def _unwrap_union(value: Any) -> Any:
    """Return the value of an Avro union, whose JSON names the type."""
    if isinstance(value, dict) and len(value) == 1:
        return next(iter(value.values()))
    return value


def _task(
    event: Mapping[str, Any],
    start_times: Mapping[str, float],
    splits: Mapping[str, tuple[str, ...]],
) -> Task:
    counters = {
        counter['name']: int(counter['value'])
        for group in event['counters']['groups']
        for counter in group['counts']
    }
    task_type = event['taskType'].lower()
    return Task(
        id=event['taskid'],
        kind=task_type,
        host=event['hostname'],
        started_at=start_times[event['attemptId']],
        ended_at=event['finishTime'] / 1000,
        records=counters.get(f'{task_type.upper()}_INPUT_RECORDS', 0),
        bytes=max(
            counters.get('HDFS_BYTES_READ', 0),
            counters.get('HDFS_BYTES_WRITTEN', 0),
        ),
        splits=splits.get(event['taskid'], ()),
    )


def summarize_tasks(
    history: JobHistory, locations: Mapping[str, str], names: Mapping[str, str]
) -> TaskSummary:
    """Return the statistics of a job's tasks for the run record.

    :param history: task attempts of the job.
    :param locations: ``/rack/nodegroup`` by address.
    :param names: node names by address.
    """
    nodes: dict[str, dict[str, float]] = {}
    spans_by_node: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for task in history.tasks:
        node = nodes.setdefault(names.get(task.host, task.host), {})
        for name, value in (
            (f'{task.kind}s', 1),
            (f'{task.kind}_seconds', task.ended_at - task.started_at),
            (f'{task.kind}_bytes', task.bytes),
        ):
            node[name] = round(node.get(name, 0) + value, 3)
        spans_by_node.setdefault((task.host, task.kind), []).append(
            (task.started_at, task.ended_at)
        )
    for (address, task_type), spans in spans_by_node.items():
        node = nodes[names.get(address, address)]
        node[f'{task_type}_wall_seconds'] = round(_union_seconds(spans), 3)
    local = Counter(
        near
        for task in history.tasks
        if task.kind == 'map' and (near := locality(task, locations))
    )
    records = [task.records for task in history.tasks if task.kind == 'reduce']
    return TaskSummary(
        nodes=nodes,
        last={
            task_type: _summarize_last_task(tasks, names)
            for task_type in ('map', 'reduce')
            if len(tasks := [x for x in history.tasks if x.kind == task_type])
            > 1
        },
        locality={x: local[x] for x in LOCALITY} if local else {},
        reducers=ReducerRecords(
            min(records), statistics.median(records), max(records)
        )
        if len(records) > 1
        else None,
        failures=tuple(
            TaskFailure(names.get(host, host), error)
            for host, error in history.failures[:_FAILURES]
        ),
        master_nodes=tuple(names.get(host, host) for host in history.masters),
    )


def _union_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """Return the number of seconds that at least one of the spans covers."""
    total, reached = 0.0, float('-inf')
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def locality(task: Task, locations: Mapping[str, str]) -> str | None:
    """Return the distance between a map task and its data.

    :param task: map task.
    :param locations: ``/rack/nodegroup`` by address.
    :returns: a value of :data:`LOCALITY`; None for a task without input, or
        if a location is unknown.
    """
    splits = [split for split in task.splits if split]
    if not splits:
        return None
    if task.host in splits:
        return 'node'
    task_location = locations.get(task.host, '').strip('/').split('/')
    near = [locations.get(split, '').strip('/').split('/') for split in splits]
    if task_location == [''] or [''] in near:
        return None
    if len(task_location) > 1 and task_location in near:
        return 'node_group'
    return (
        'rack'
        if task_location[0] in [split_location[0] for split_location in near]
        else 'off_rack'
    )


def _summarize_last_task(
    tasks: Sequence[Task], names: Mapping[str, str]
) -> LastTask:
    ordered = sorted(tasks, key=lambda task: task.ended_at)
    before, last = ordered[-2:]
    return LastTask(
        task=last.id,
        node=names.get(last.host, last.host),
        seconds=round(last.ended_at - last.started_at, 3),
        median_seconds=round(
            statistics.median(
                task.ended_at - task.started_at for task in tasks
            ),
            3,
        ),
        alone_seconds=round(last.ended_at - before.ended_at, 3),
    )
