# SPDX-License-Identifier: Apache-2.0
"""Numbers of a job, held against what a real history server answered."""

import json
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, processutils, shell_scripts
from hvstack.hadoop import job_history
from hvstack.hadoop.job_history import (
    JobHistory,
    JobSummary,
    Task,
    TaskSummary,
)
from hvstack.results.observations import TaskFailure, read_phases

REAL = Path(__file__).parent / 'history'
#: Answers of Hadoop 3.5 about a TeraValidate of 100 rows.
REAL_3_5 = Path(__file__).parent / 'history-3.5'


def real(name: str) -> dict[str, Any]:
    """Return one of the recorded answers, of a TeraSort of 10 MB."""
    response: dict[str, Any] = json.loads((REAL / f'{name}.json').read_text())
    return response


JOB = 'job_1795264903056_0002'


class Gateway:
    """A controller whose history files have these lines."""

    name = address = 'c'

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.command = ''

    def run(self, command: str, **_options: Any) -> processutils.Result:
        self.command = command
        return processutils.Result(0, '\n'.join(self.lines), '')

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        raise NotImplementedError


class CountedTasks(list[Task]):
    """Tasks that count how often all of them are read."""

    read_count = 0

    def __iter__(self) -> Iterator[Task]:
        self.read_count += 1
        return super().__iter__()


class HistoryTest(testtools.TestCase):
    def summary(self, **job: Any) -> JobSummary:
        return job_history.summarize_job(
            {**real('job')['job'], **job},
            real('job-tasks'),
            real('job-counters'),
        )

    def test_times(self) -> None:
        summary = self.summary()
        self.assertEqual(22.303, summary.seconds)
        self.assertAlmostEqual(
            summary.seconds,
            summary.map_shuffle_seconds + summary.reduce_merge_seconds,
            places=3,
        )
        ends = [
            task['finishTime']
            for task in real('job-tasks')['tasks']['task']
            if task['type'] == 'MAP'
        ]
        self.assertEqual(
            (max(ends) - real('job')['job']['startTime']) / 1000,
            summary.map_shuffle_seconds,
        )

    def test_record(self) -> None:
        summary = self.summary()
        mapping = summary.to_mapping()
        self.assertEqual(
            (summary.started_at, summary.seconds),
            (mapping['job_began'], mapping['job_seconds']),
        )
        (phase,) = read_phases([{'name': 'HSSort', 'seconds': 30, **mapping}])
        for name in (
            *('job_id', 'state', 'started_at', 'seconds', 'maps', 'reduces'),
            *('map_shuffle_seconds', 'reduce_merge_seconds', 'counters'),
            'failed_attempts',
        ):
            self.assertEqual(getattr(summary, name), getattr(phase.job, name))

    def test_lists_of_one_element_in_hadoop_3_5(self) -> None:
        job, tasks, counters = (
            json.loads((REAL_3_5 / f'{name}.json').read_text(encoding='utf-8'))
            for name in ('job', 'job-tasks', 'job-counters')
        )
        groups = counters['jobCounters']['counterGroup']
        self.assertTrue(any(isinstance(g['counter'], dict) for g in groups))
        summary = job_history.summarize_job(job['job'], tasks, counters)
        self.assertEqual(100, summary.counters['MAP_INPUT_RECORDS'])
        # A group with a single counter.
        self.assertEqual(10_000, summary.counters['BYTES_READ'])
        only = {'tasks': {'task': tasks['tasks']['task'][1]}}
        self.assertEqual(
            12.297,
            job_history.summarize_job(
                job['job'], only, counters
            ).map_shuffle_seconds,
        )

    def test_counters(self) -> None:
        counters = self.summary().counters
        self.assertEqual(100_000, counters['MAP_INPUT_RECORDS'])
        self.assertEqual(100_000, counters['REDUCE_OUTPUT_RECORDS'])
        self.assertEqual(200_000, counters['SPILLED_RECORDS'])
        self.assertEqual(100_000, counters['MAP.SPILLED_RECORDS'])

    def test_attempts(self) -> None:
        summary = self.summary(failedMapAttempts=2, failedReduceAttempts=1)
        self.assertEqual(3, summary.failed_attempts)
        self.assertEqual(0, summary.killed_attempts)
        self.assertEqual((6, 6), (summary.maps, summary.reduces))

    def test_half_an_answer(self) -> None:
        self.assertRaises(
            errors.CommandError,
            job_history.summarize_job,
            {},
            real('job-tasks'),
            real('job-counters'),
        )


class Tasks(testtools.TestCase):
    """Single tasks of a sort of 100 MB on four workers of two hosts."""

    def setUp(self) -> None:
        super().setUp()
        self.lines = (REAL / 'tasks.jhist').read_text().splitlines()
        self.histories, self.locations = job_history.load_histories(
            Gateway(self.lines), [JOB]
        )
        self.names = {
            line.split()[0]: f'w{index}'
            for index, line in enumerate(self.lines[:8:2])
        }

    def summarize(self) -> TaskSummary:
        return job_history.summarize_tasks(
            self.histories[JOB], self.locations, self.names
        )

    def test_nodes(self) -> None:
        nodes = self.summarize().nodes
        self.assertEqual({'w0', 'w1', 'w2', 'w3'}, set(nodes))
        self.assertEqual(6, sum(node['maps'] for node in nodes.values()))
        self.assertEqual(6, sum(node['reduces'] for node in nodes.values()))
        self.assertEqual(
            10**8, sum(node['reduce_bytes'] for node in nodes.values())
        )
        two = nodes['w0']
        self.assertEqual(2, two['maps'])
        self.assertLess(two['map_wall_seconds'], 0.6 * two['map_seconds'])

    def test_locality(self) -> None:
        self.assertEqual(
            {'node': 5, 'node_group': 1, 'rack': 0, 'off_rack': 0},
            self.summarize().locality,
        )

    def test_places(self) -> None:
        locations = {
            'a': '/r1/g1',
            'b': '/r1/g1',
            'c': '/r1/g2',
            'd': '/r2/g3',
            'e': '/r1',
            'f': '/r1',
        }
        for host, splits, expected in (
            ('a', ('a', 'd'), 'node'),
            ('b', ('a', 'd'), 'node_group'),
            ('c', ('a', 'd'), 'rack'),
            ('d', ('a', 'b'), 'off_rack'),
            ('e', ('f',), 'rack'),
            ('x', ('a',), None),
            ('a', ('x',), None),
            ('a', ('',), None),
        ):
            task = Task('t', 'map', host, 0, 1, 0, 0, splits)
            self.assertEqual(expected, job_history.locality(task, locations))

    def test_last_and_reducers(self) -> None:
        summary = self.summarize()
        self.assertEqual(0.154, summary.last['reduce'].alone_seconds)
        self.assertEqual('w0', summary.last['reduce'].node)
        assert summary.reducers is not None
        self.assertEqual(168082, summary.reducers.max_records)
        self.assertEqual((), summary.failures)

    def test_record(self) -> None:
        summary = self.summarize()
        mapping = summary.to_mapping()
        self.assertEqual(168082, mapping['reducers']['most'])
        self.assertEqual(0.154, mapping['last']['reduce']['alone_seconds'])
        (phase,) = read_phases([{'name': 'HSSort', 'seconds': 30, **mapping}])
        for name in ('nodes', 'last', 'locality', 'reducers', 'failures'):
            self.assertEqual(getattr(summary, name), getattr(phase.job, name))
        # A job of a single map has neither locality nor reducers.
        few = replace(summary, locality={}, reducers=None).to_mapping()
        self.assertEqual({'nodes', 'last', 'failures'}, few.keys())

    def test_nodes_of_the_master(self) -> None:
        """As Hadoop 3.5 writes the event, with a second attempt."""
        self.assertEqual((), self.summarize().master_nodes)
        host = self.lines[0].split()[0]
        lines = [master_event(1, '10.9.9.9'), master_event(2, host)]
        histories = job_history.parse_histories([*lines, *self.lines])
        self.assertEqual(['10.9.9.9', host], histories[JOB].masters)
        self.assertEqual(self.histories[JOB].tasks, histories[JOB].tasks)
        summary = job_history.summarize_tasks(histories[JOB], {}, self.names)
        self.assertEqual(('10.9.9.9', 'w0'), summary.master_nodes)
        (phase,) = read_phases(
            [{'name': 'HSSort', 'seconds': 30, **summary.to_mapping()}]
        )
        self.assertEqual(summary.master_nodes, phase.master_nodes)

    def test_failures(self) -> None:
        name = 'org.apache.hadoop.mapreduce.jobhistory.Unsuccessful'
        event = {
            'attemptId': f'attempt_{JOB[4:]}_m_000001_0',
            'hostname': self.lines[0].split()[0],
            'status': 'FAILED',
            'error': 'Exit code is 137\nKilled by external signal',
        }
        histories = job_history.parse_histories(
            [json.dumps({'event': {name: event}})]
        )
        self.histories[JOB].failures.extend(histories[JOB].failures)
        self.assertEqual(
            (TaskFailure('w0', 'Exit code is 137 Killed by external signal'),),
            self.summarize().failures,
        )

    def test_killed_attempts_are_no_tasks(self) -> None:
        """Hadoop kills the slower of two speculative attempts."""
        finished = next(
            line for line in self.lines if '"MAP_ATTEMPT_FINISHED"' in line
        )
        event = json.loads(finished)['event'].popitem()[1]
        lines = []
        for number, status in enumerate(('KILLED', 'FAILED'), 1):
            attempt = f'{event["taskid"].replace("task", "attempt")}_{number}'
            start = {
                **{'taskid': event['taskid'], 'attemptId': attempt},
                'startTime': 1795264974093,
            }
            end = event | {
                **{'attemptId': attempt, 'status': status, 'error': status},
                'counters': {'x.JhCounters': event['counters']},
            }
            lines += [
                json.dumps({'event': {'x.TaskAttemptStarted': start}}),
                json.dumps({'event': {'x.Unsuccessful': end}}),
            ]
        history = job_history.parse_histories([*self.lines, *lines])[JOB]
        self.assertEqual(self.histories[JOB].tasks, history.tasks)
        self.assertEqual([(event['hostname'], 'FAILED')], history.failures)

    def test_tasks_are_read_as_often_for_any_number_of_nodes(self) -> None:
        counts = []
        for node_count in (4, 64):
            tasks = CountedTasks(
                Task(f't{n}', kind, f'a{n % node_count}', n, n + 2, 0, 0)
                for n in range(128)
                for kind in ('map', 'reduce')
            )
            summary = job_history.summarize_tasks(JobHistory(tasks), {}, {})
            self.assertEqual(node_count, len(summary.nodes))
            counts.append(tasks.read_count)
        self.assertEqual(counts[0], counts[1])

    def test_seconds_with_a_task(self) -> None:
        """Gaps between tasks do not count, and reduces have their own."""
        tasks = [
            Task('t', kind, 'a', begin, end, 0, 0)
            for kind, begin, end in (
                *(('map', 0, 2), ('map', 1, 4), ('map', 6, 7)),
                ('reduce', 5, 9),
            )
        ]
        node = job_history.summarize_tasks(
            JobHistory(tasks), {}, {'a': 'w0'}
        ).nodes['w0']
        self.assertEqual(
            (5, 4, 6),
            (
                node['map_wall_seconds'],
                node['reduce_wall_seconds'],
                node['map_seconds'],
            ),
        )

    def test_files_of_all_clusters_of_an_hdfs(self) -> None:
        """A compute cluster on another HDFS has directories of its own."""
        gateway = Gateway(self.lines)
        job_history.load_histories(gateway, [JOB])
        for staging in (
            '/tmp/hadoop-yarn/staging',
            '/compute-clusters/*/staging',
        ):
            for directory in ('done_intermediate/*', 'done/*/*/*/*'):
                self.assertIn(
                    f'{staging}/history/{directory}/{JOB}-*.jhist',
                    gateway.command,
                )

    def test_what_cannot_be_read_is_missing(self) -> None:
        self.assertEqual(
            {}, job_history.parse_histories(['Avro-Json', '{"type":', '{}'])
        )
        half = [line.replace('hostname', 'x') for line in self.lines]
        self.assertEqual(
            ({}, {}), job_history.load_histories(Gateway(half), [JOB])
        )


def master_event(attempt: int, host: str) -> str:
    """Return the event of an attempt of the ApplicationMaster."""
    job = JOB.removeprefix('job_')
    event = {
        'applicationAttemptId': f'appattempt_{job}_{attempt:06}',
        'startTime': 1795264974000,
        'containerId': f'container_{job}_{attempt:02}_000001',
        'nodeManagerHost': host,
        **{'nodeManagerPort': 42865, 'nodeManagerHttpPort': 8042},
    }
    kind = 'org.apache.hadoop.mapreduce.jobhistory.AMStarted'
    return json.dumps(
        {'type': 'AM_STARTED', 'event': {kind: event}}, separators=(',', ':')
    )


#: Counters of a map task in Hadoop 3.4 that hvstack does not read.
_OTHER_COUNTERS = (
    *('FILE_BYTES_READ', 'FILE_BYTES_WRITTEN', 'HDFS_READ_OPS'),
    *('MAP_OUTPUT_RECORDS', 'SPILLED_RECORDS', 'CPU_MILLISECONDS'),
    *('PHYSICAL_MEMORY_BYTES', 'MAP_PHYSICAL_MEMORY_BYTES_MAX'),
)


class TaskEventsTest(testtools.TestCase):
    """The shell program leaves out what hvstack does not read."""

    def setUp(self) -> None:
        super().setUp()
        self.lines = (REAL / 'tasks.jhist').read_text().splitlines()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)

    def filter_events(self, lines: Sequence[str]) -> list[str]:
        """Return the lines that the program prints of a history file."""
        table, history = self.directory / 'table', self.directory / 'x.jhist'
        table.write_text(f'{self.lines[0]}\n')
        history.write_text('\n\n'.join(['Avro-Json', '{"x":"y"}', *lines]))
        command = self.directory / 'hdfs'
        command.write_text('#!/bin/sh\nshift 2\ncat "$@"\n')
        command.chmod(0o755)
        path = f'PATH={shlex.quote(str(self.directory))}:$PATH'
        program = shell_scripts.render('task-events', table, history, 'none')
        result = subprocess.run(
            ['sh', '-c', f'{path}\n{program}'],
            capture_output=True,
            text=True,
            check=True,
        )
        return result.stdout.splitlines()

    def test_the_tasks_are_the_same(self) -> None:
        """Also those of events with all counters."""
        lines = [line for line in self.lines if line[0] == '{']
        large = list(map(enlarge, lines))
        table, *filtered = self.filter_events(large)
        self.assertEqual(self.lines[0], table)
        self.assertEqual(len(lines), len(filtered))
        self.assertEqual(
            job_history.parse_histories(large),
            job_history.parse_histories(filtered),
        )
        self.assertEqual(
            12, len(job_history.parse_histories(filtered)[JOB].tasks)
        )
        sizes = [
            sum(map(len, some)) / len(lines) for some in (large, filtered)
        ]
        self.assertLess(sizes[1], 500)
        self.assertLess(500, sizes[0])

    def test_other_events_stay(self) -> None:
        event = {
            'attemptId': f'attempt_{JOB[4:]}_m_000001_0',
            **{'hostname': 'a', 'status': 'FAILED'},
            'error': 'x [,] "displayName":"x",{"name":"x","value":1},',
        }
        kind = 'org.apache.hadoop.mapreduce.jobhistory.Unsuccessful'
        line = json.dumps(
            {'type': 'MAP_ATTEMPT_FAILED', 'event': {kind: event}},
            separators=(',', ':'),
        )
        lines = [master_event(1, 'a'), line]
        self.assertEqual([self.lines[0], *lines], self.filter_events(lines))


def enlarge(line: str) -> str:
    """Return an event of an attempt with the counters that real ones have."""
    document = json.loads(line)
    (event,) = document['event'].values()
    if 'counters' in event:
        files, tasks = event['counters']['groups']
        for name in _OTHER_COUNTERS:
            text = name.capitalize().replace('_', ' ')
            counter = {'name': name, 'displayName': text, 'value': -12}
            (files if 'OPS' in name else tasks)['counts'].append(counter)
        event['counters']['groups'] += [
            {
                'name': 'Shuffle Errors',
                'displayName': 'Shuffle "Errors"',
                'counts': [{**counter, 'name': 'BAD_ID'}],
            },
            {'name': 'Empty', 'displayName': 'Empty', 'counts': []},
        ]
        for name in (
            'clockSplits',
            'cpuUsages',
            'vMemKbytes',
            'physMemKbytes',
        ):
            event[name] = list(range(12))
    return json.dumps(document, separators=(',', ':'))
