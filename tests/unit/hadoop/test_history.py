# SPDX-License-Identifier: Apache-2.0
"""Numbers of a job, held against what a real history server answered."""

import json
from pathlib import Path
from typing import Any

import testtools

from hvstack import errors
from hvstack.hadoop import history

REAL = Path(__file__).parent / 'history'


def real(name: str) -> dict[str, Any]:
    """Return one of the recorded answers, of a TeraSort of 10 MB."""
    found: dict[str, Any] = json.loads((REAL / f'{name}.json').read_text())
    return found


class HistoryTest(testtools.TestCase):
    def summary(self, **job: Any) -> dict[str, Any]:
        return history.summary(
            {**real('job')['job'], **job},
            real('job-tasks'),
            real('job-counters'),
        )

    def test_times(self) -> None:
        found = self.summary()
        self.assertEqual(22.303, found['job_seconds'])
        self.assertAlmostEqual(
            found['job_seconds'],
            found['map_shuffle_seconds'] + found['reduce_merge_seconds'],
            places=3,
        )
        ends = [
            task['finishTime']
            for task in real('job-tasks')['tasks']['task']
            if task['type'] == 'MAP'
        ]
        self.assertEqual(
            (max(ends) - real('job')['job']['startTime']) / 1000,
            found['map_shuffle_seconds'],
        )

    def test_counters(self) -> None:
        counters = self.summary()['counters']
        self.assertEqual(100_000, counters['MAP_INPUT_RECORDS'])
        self.assertEqual(100_000, counters['REDUCE_OUTPUT_RECORDS'])
        self.assertEqual(200_000, counters['SPILLED_RECORDS'])
        self.assertEqual(100_000, counters['MAP.SPILLED_RECORDS'])

    def test_attempts(self) -> None:
        found = self.summary(failedMapAttempts=2, failedReduceAttempts=1)
        self.assertEqual(3, found['failed_attempts'])
        self.assertEqual(0, found['killed_attempts'])
        self.assertEqual((6, 6), (found['maps'], found['reduces']))

    def test_half_an_answer(self) -> None:
        self.assertRaises(
            errors.CommandFailed,
            history.summary,
            {},
            real('job-tasks'),
            real('job-counters'),
        )
