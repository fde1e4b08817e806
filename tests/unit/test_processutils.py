# SPDX-License-Identifier: Apache-2.0
"""Tests of hvstack.processutils."""

import time

import fixtures
import testtools

from hvstack import errors, processutils


class PathTest(testtools.TestCase):
    """A shell of su or a job of cron has no programs of administrators."""

    def use(self, path: str | None) -> str:
        self.useFixture(fixtures.EnvironmentVariable('PATH', path))
        argv = ['/bin/sh', '-c', 'echo "$PATH"']
        return processutils.run(argv).stdout.strip()

    def test_missing_directories_come_last(self) -> None:
        for path, expected in (
            ('/a:/usr/bin', '/a:/usr/bin:/usr/local/sbin:/usr/sbin:/sbin'),
            ('/sbin:/usr/bin', '/sbin:/usr/bin:/usr/local/sbin:/usr/sbin'),
            (
                '/usr/local/sbin:/usr/sbin:/sbin:/bin',
                '/usr/local/sbin:/usr/sbin:/sbin:/bin',
            ),
        ):
            self.assertEqual(expected, self.use(path))
            self.assertEqual(expected, processutils.search_path())

    def test_no_path(self) -> None:
        """Without PATH, programs are searched where the system has them."""
        self.assertThat(
            self.use(None).split(':'),
            testtools.matchers.ContainsAll(['/usr/bin', '/usr/sbin']),
        )

    def test_another_path_of_a_program(self) -> None:
        argv = ['/bin/sh', '-c', 'echo "$PATH"']
        result = processutils.run(argv, env={'PATH': '/a'})
        self.assertEqual('/a\n', result.stdout)


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
