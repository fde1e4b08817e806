# SPDX-License-Identifier: Apache-2.0
"""Tests of hvstack.processutils."""

import time

import testtools

from hvstack import errors, processutils


class TimeoutTest(testtools.TestCase):
    """A program ends at its deadline, unless it gets more time."""

    def test_more_time(self) -> None:
        answers = [0.05, 0.05, 30.0]
        result = processutils.run(
            ['sh', '-c', 'sleep 0.3; echo end'],
            timeout=0.05,
            on_timeout=lambda: answers.pop(0),
        )
        self.assertEqual('end\n', result.stdout)
        self.assertEqual([], answers)

    def test_no_more_time(self) -> None:
        answers = [0.05, 0.0]
        exc = self.assertRaises(
            errors.DeadlineExceededError,
            processutils.run,
            ['sleep', '60'],
            timeout=0.05,
            on_timeout=lambda: answers.pop(0),
        )
        self.assertIn('did not end within 0 s', str(exc))
        self.assertEqual([], answers)

    def test_program_that_another_session_outlives(self) -> None:
        """It keeps the output open, and nothing may wait for its end."""
        begin = time.monotonic()
        exc = self.assertRaises(
            errors.DeadlineExceededError,
            processutils.run,
            ['sh', '-c', 'echo begun; setsid sleep 20 & wait'],
            timeout=0.2,
        )
        self.assertLess(time.monotonic() - begin, 15)
        self.assertIn('begun', str(exc))
