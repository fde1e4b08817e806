# SPDX-License-Identifier: Apache-2.0
"""Test how programs are run, with their deadlines."""

import os
import time
from pathlib import Path

import fixtures
import testtools
from testtools import matchers

from hvstack import errors, processutils


class RunTest(testtools.TestCase):
    def test_output_is_text(self) -> None:
        result = processutils.run(
            ['sh', '-c', 'cat; echo err >&2'], stdin='in'
        )
        self.assertEqual(
            (0, 'in', 'err\n'),
            (result.returncode, result.stdout, result.stderr),
        )

    def test_failure_carries_status_and_tail(self) -> None:
        exc = self.assertRaises(
            errors.CommandError,
            processutils.run,
            ['sh', '-c', 'seq 30 >&2; exit 7'],
        )
        self.assertEqual(7, exc.returncode)
        self.assertEqual('16', exc.tail.splitlines()[0])

    def test_colours_do_not_hide_what_was_said(self) -> None:
        exc = self.assertRaises(
            errors.CommandError,
            processutils.run,
            ['sh', '-c', r"printf '\033[0m\n' >&2; echo reason; exit 1"],
        )
        self.assertEqual('reason', exc.tail)

    def test_secret_is_not_shown(self) -> None:
        exc = self.assertRaises(
            errors.CommandError,
            processutils.run,
            ['false', 'hunter2'],
            display_argv=['false', '***'],
        )
        self.assertNotIn('hunter2', str(exc))

    def test_deadline_ends_children_too(self) -> None:
        self.assertRaises(
            errors.DeadlineExceededError,
            processutils.run,
            ['sh', '-c', 'sleep 60 & wait'],
            timeout=0.2,
        )

    def test_unknown_program(self) -> None:
        exc = self.assertRaises(
            errors.CommandError, processutils.run, ['/nonexistent/program']
        )
        self.assertEqual(127, exc.returncode)


class ClockTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.stat = directory / 'stat'
        self.steal(0)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.processutils._STAT', self.stat)
        )

    def steal(self, seconds: float) -> None:
        """Say how long each of two CPUs was away."""
        ticks = int(seconds * os.sysconf('SC_CLK_TCK'))
        self.stat.write_text(
            f'cpu  5 0 5 90 0 0 0 {2 * ticks} 0 0\n'
            f'cpu0 5 0 5 40 0 0 0 {ticks} 0 0\n'
            f'cpu1 0 0 0 50 0 0 0 {ticks} 0 0\n'
            'intr 17\n'
        )

    def test_stolen_time_does_not_count(self) -> None:
        before = processutils.clock()
        self.steal(50)
        self.assertThat(processutils.clock() - before, matchers.LessThan(-49))

    def test_without_the_account(self) -> None:
        before = time.monotonic()
        for text in ('', 'cpu  1 2 3\ncpu0 1 2 3\n', 'intr 1\n'):
            self.stat.write_text(text)
            self.assertThat(
                processutils.clock() - before, matchers.LessThan(60)
            )
            self.assertThat(processutils.clock(), matchers.GreaterThan(before))

    def test_waits_longer(self) -> None:
        indexes = iter(range(10))

        def late() -> bool:
            index = next(indexes)
            self.steal(1 + index)
            time.sleep(0.002)
            return index == 5

        processutils.wait_for(late, 'it', timeout=0.001, interval=0)

    def test_runs_longer(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.processutils.clock', lambda: 0.0)
        )
        done = processutils.run(
            ['sh', '-c', 'read word; sleep 0.3; echo $word'],
            stdin='late\n',
            timeout=0.1,
        )
        self.assertEqual('late\n', done.stdout)


class WaitForTest(testtools.TestCase):
    def test_says_what_and_why(self) -> None:
        exc = self.assertRaises(
            errors.DeadlineExceededError,
            processutils.wait_for,
            lambda: False,
            'the moon',
            timeout=0,
            interval=0,
            get_reason=lambda: 'it is day',
        )
        self.assertIn('the moon: it is day', str(exc))

    def test_own_errors_mean_not_yet(self) -> None:
        answers = iter([errors.CloudError('not up'), True])

        def condition() -> bool:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        processutils.wait_for(condition, 'it', timeout=1, interval=0)


class RetriedTest(testtools.TestCase):
    def test_until_it_works_but_not_for_ever(self) -> None:
        calls: list[int] = []

        def works_the_third_time() -> None:
            calls.append(1)
            if len(calls) < 3:
                raise errors.CommandError(['x'], 1, '')

        processutils.retried(works_the_third_time, pauses=(0, 0))
        self.assertEqual(3, len(calls))
        calls.clear()
        self.assertRaises(
            errors.CommandError,
            processutils.retried,
            works_the_third_time,
            pauses=(0,),
        )
