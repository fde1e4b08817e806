# SPDX-License-Identifier: Apache-2.0
"""Tests of hvstack.tpcxhs.deadlines."""

import json
from dataclasses import dataclass, field
from typing import Any

import fixtures
from testtools import TestCase

from hvstack import errors, processutils
from hvstack.tpcxhs import deadlines
from hvstack.tpcxhs.deadlines import Limits, StallWatch, WorkerHosts
from hvstack.tpcxhs.workload import Workload

#: Hosts and runs of vsphere6, "Hardware Overview" and Table 2.
VSPHERE6 = WorkerHosts(31, 40, 20)
#: Hosts of vsan, "Hardware Overview".
VSAN = WorkerHosts(8, 24, 4)


class DeadlinesTest(TestCase):
    """Deadlines are longer than the papers' phases, and follow the sizes."""

    def test_papers(self) -> None:
        data = Workload(30 * 10**12, 3, 682, 682)
        seconds = Limits().deadlines(data, VSPHERE6)
        # vsphere6, Table 2: TeraSort took 3825 s natively, 4292 s in one VM.
        self.assertGreater(seconds['HSSort'], 2 * 4292)
        self.assertLess(seconds['HSSort'], 24 * 3600)
        # vsan: 84 minutes for 3 TB.
        data = Workload(3 * 10**12, 2, 377, 377)
        seconds = Limits().deadlines(data, VSAN)
        self.assertGreater(seconds['HSSort'], 2 * 84 * 60)
        self.assertEqual({'HSGen', 'HSSort', 'HSValidate'}, set(seconds))

    def test_sizes(self) -> None:
        small = deadlines.estimate_phases(
            Workload(10**9, 3, 8, 8), WorkerHosts(4, 4, 1)
        )
        for name, data, hosts, factor in (
            ('twice the data', 2, WorkerHosts(4, 4, 1), 2),
            ('twice the hosts', 1, WorkerHosts(8, 4, 1), 0.5),
        ):
            seconds = deadlines.estimate_phases(
                Workload(data * 10**9, 3, 8, 8), hosts
            )
            for phase, value in small.items():
                self.assertAlmostEqual(
                    factor, seconds[phase] / value, 6, f'{name}, {phase}'
                )

    def test_no_data(self) -> None:
        seconds = Limits().deadlines(Workload(100, 1, 1, 1), VSAN)
        for value in seconds.values():
            self.assertAlmostEqual(deadlines.START_SECONDS, value, 0)

    def test_earlier_runs(self) -> None:
        longest = deadlines.find_longest(
            [{'HSSort': 700.0, 'HSDataCheck': 1.0}, {'HSSort': 900.0}]
        )
        self.assertEqual({'HSSort': 900.0}, longest)
        seconds = Limits(longest=longest).deadlines(
            Workload(10**9, 3, 8, 8), VSAN
        )
        self.assertEqual(
            deadlines.START_SECONDS + deadlines.FACTOR * 900,
            seconds['HSSort'],
        )

    def test_given(self) -> None:
        seconds = Limits(60).deadlines(Workload(10**13, 3, 8, 8), VSAN)
        self.assertEqual({60}, set(seconds.values()))


@dataclass
class Manager:
    """A ResourceManager whose answers are given.

    :param progress: fraction and counter of each answer; the last one stays,
        and None is no answer.
    """

    progress: list[tuple[float, int] | None]
    name: str = 'c'
    address: str = '10.0.0.1'
    role: str = 'controller'
    commands: list[str] = field(default_factory=list)

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        raise NotImplementedError

    def run(self, command: str, **_: Any) -> processutils.Result:
        self.commands.append(command)
        answer = self.progress[0]
        if answer is None:
            if 'wget' in command and len(self.progress) > 1:
                self.progress.pop(0)
            raise errors.CommandError(['wget'], 1, 'timed out')
        fraction, counted = answer
        if '/counters' in command:
            if len(self.progress) > 1:
                self.progress.pop(0)
            counters = [
                {'name': name, 'totalCounterValue': value}
                for name, value in (
                    ('REDUCE_SHUFFLE_BYTES', counted),
                    ('CPU_MILLISECONDS', len(self.commands)),
                    ('PHYSICAL_MEMORY_BYTES', len(self.commands)),
                )
            ]
            group = [{'counterGroupName': 'g', 'counter': counters}]
            answered = {'jobCounters': {'counterGroup': group}}
        else:
            app = {
                'id': 'application_1_0007',
                'state': 'RUNNING',
                'progress': fraction,
            }
            answered = {'apps': {'app': [app]}}
        return processutils.Result(0, json.dumps(answered), '')


class StallWatchTest(TestCase):
    """A phase continues after its deadline while its progress changes."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.processutils.clock', lambda: self.now
            )
        )
        self.reports: list[float] = []

    def seconds_until_stop(self, manager: Manager, limit: float) -> float:
        """Return how long a command ran after its deadline.

        :param limit: where to give up.
        """
        self.watch = StallWatch(
            manager, 30, lambda: self.reports.append(self.now)
        )
        start = self.now
        while self.now < start + limit:
            more = self.watch()
            if not more:
                break
            self.now += more
        return self.now - start

    def test_stalled(self) -> None:
        manager = Manager([(50, 7)])
        self.assertEqual(30, self.seconds_until_stop(manager, 500))
        self.assertEqual([1000.0], self.reports)

    def test_moving_counter(self) -> None:
        manager = Manager([(50, number) for number in range(60)])
        self.assertEqual(500, self.seconds_until_stop(manager, 500))

    def test_moving_fraction(self) -> None:
        manager = Manager([(number, 7) for number in range(60)])
        self.assertEqual(500, self.seconds_until_stop(manager, 500))

    def test_stops_after_progress(self) -> None:
        manager = Manager([(50, 7), (51, 7), (51, 8), (51, 8)])
        self.assertEqual(20 + 30, self.seconds_until_stop(manager, 500))

    def test_no_answer(self) -> None:
        manager = Manager([(50, 7), None])
        self.assertEqual(30, self.seconds_until_stop(manager, 500))
        reason = self.watch.stop_jobs(60)
        self.assertIn('the deadline was 60 s', reason)
        self.assertIn('had not changed for 30 s', reason)
        self.assertIn('the ResourceManager does not answer', reason)

    def test_stop_jobs(self) -> None:
        manager = Manager([(50, 7)])
        self.seconds_until_stop(manager, 500)
        reason = self.watch.stop_jobs(60)
        self.assertNotIn('answer', reason)
        self.assertEqual(
            'yarn application -kill application_1_0007', manager.commands[-1]
        )
