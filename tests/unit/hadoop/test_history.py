# SPDX-License-Identifier: Apache-2.0
"""Numbers of a job, held against what a real history server answered."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import testtools

from hvstack import errors, processutils
from hvstack.hadoop import job_history
from hvstack.hadoop.job_history import JobSummary, TaskSummary
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

    def run(self, *_args: Any, **_kwargs: Any) -> processutils.Result:
        return processutils.Result(0, '\n'.join(self.lines), '')

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        raise NotImplementedError


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
            task = job_history.Task('t', 'map', host, 0, 1, 0, 0, splits)
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

    def test_what_cannot_be_read_is_missing(self) -> None:
        self.assertEqual(
            {}, job_history.parse_histories(['Avro-Json', '{"type":', '{}'])
        )
        half = [line.replace('hostname', 'x') for line in self.lines]
        self.assertEqual(
            ({}, {}), job_history.load_histories(Gateway(half), [JOB])
        )
