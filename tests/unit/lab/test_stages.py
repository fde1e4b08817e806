# SPDX-License-Identifier: Apache-2.0
"""Test the stages of bringing the lab up."""

import io
import signal
import time
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, processutils
from hvstack.lab import stages
from hvstack.lab.stages import Stage
from hvstack.progress import Progress


class RunTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.out = io.StringIO()
        self.progress = Progress(stream=self.out)
        self.done: list[str] = []

    def test_in_order_with_what_is_next(self) -> None:
        stages.run(
            [
                Stage('one', 5, lambda: self.done.append('one')),
                Stage('two', 5, lambda: self.done.append('two')),
            ],
            self.progress,
        )
        self.assertEqual(['one', 'two'], self.done)
        self.assertIn('1/2 one: 0 s, next: two', self.out.getvalue())

    def test_failure_stops_the_rest(self) -> None:
        def fail() -> None:
            raise errors.BusyError('in the way')

        self.assertRaises(
            errors.BusyError,
            stages.run,
            [
                Stage('one', 5, fail),
                Stage('two', 5, lambda: self.done.append('two')),
            ],
            self.progress,
        )
        self.assertEqual([], self.done)

    def test_deadline_ends_a_stage(self) -> None:
        def hang() -> None:
            with stages.deadline('hanging', 0.1):
                time.sleep(10)

        exc = self.assertRaises(errors.DeadlineExceededError, hang)
        self.assertIn("'hanging'", str(exc))

    def test_who_retries_does_not_catch_the_end_of_a_stage(self) -> None:
        """A build of a stage that was over began again, in silence."""
        tries: list[str] = []

        def build() -> None:
            tries.append('build')
            time.sleep(10)

        def hang() -> None:
            with stages.deadline('hanging', 0.1):
                processutils.retried(build, pauses=(0, 0))

        exc = self.assertRaises(errors.DeadlineExceededError, hang)
        self.assertIn("'hanging' timed out after 0 s", str(exc))
        self.assertEqual(['build'], tries)

    def test_who_waits_does_not_catch_the_end_of_a_stage(self) -> None:
        def hang() -> None:
            with stages.deadline('hanging', 0.1):
                processutils.wait_for(
                    lambda: bool(time.sleep(10)), 'nothing', timeout=60
                )

        self.assertRaises(errors.DeadlineExceededError, hang)

    def test_slow_machine_has_longer_deadlines(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.speed.factor', lambda: 30.0)
        )
        sleeper = Stage('slow', 0.01, lambda: time.sleep(0.1))
        stages.run([sleeper], self.progress)

    def test_deadline_leaves_no_alarm(self) -> None:
        before = signal.getsignal(signal.SIGALRM)
        with stages.deadline('quick', 5):
            pass
        self.assertEqual((0.0, 0.0), signal.getitimer(signal.ITIMER_REAL))
        self.assertEqual(before, signal.getsignal(signal.SIGALRM))


class MarksTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.lab.stages._MARKS', directory / 'marks.json'
            )
        )

    def test_damaged_marks_are_named(self) -> None:
        for text in ('', '[["a", "b"]]', '{"identity": 1}'):
            stages._MARKS.write_text(text)
            exc = self.assertRaises(errors.InputError, stages.marked, 'x')
            self.assertIn(str(stages._MARKS), str(exc))

    def test_marks_are_kept_and_forgotten(self) -> None:
        self.assertIsNone(stages.marked('schema:nova'))
        stages.mark('schema:nova', 'v1')
        stages.mark('identity')
        self.assertEqual('v1', stages.marked('schema:nova'))
        stages.unmark('schema:nova')
        self.assertIsNone(stages.marked('schema:nova'))
        self.assertEqual('done', stages.marked('identity'))
