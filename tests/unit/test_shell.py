# SPDX-License-Identifier: Apache-2.0
import testtools

from hvstack import errors, shell


class RunTest(testtools.TestCase):
    def test_output_is_text(self) -> None:
        result = shell.run(['sh', '-c', 'cat; echo err >&2'], stdin='in')
        self.assertEqual(
            (0, 'in', 'err\n'),
            (result.returncode, result.stdout, result.stderr),
        )

    def test_failure_carries_status_and_tail(self) -> None:
        exc = self.assertRaises(
            errors.CommandFailed,
            shell.run,
            ['sh', '-c', 'seq 30 >&2; exit 7'],
        )
        self.assertEqual(7, exc.returncode)
        self.assertEqual('16', exc.tail.splitlines()[0])

    def test_colours_do_not_hide_what_was_said(self) -> None:
        exc = self.assertRaises(
            errors.CommandFailed,
            shell.run,
            ['sh', '-c', r"printf '\033[0m\n' >&2; echo reason; exit 1"],
        )
        self.assertEqual('reason', exc.tail)

    def test_secret_is_not_shown(self) -> None:
        exc = self.assertRaises(
            errors.CommandFailed,
            shell.run,
            ['false', 'hunter2'],
            shown=['false', '***'],
        )
        self.assertNotIn('hunter2', str(exc))

    def test_deadline_ends_children_too(self) -> None:
        self.assertRaises(
            errors.DeadlineExceeded,
            shell.run,
            ['sh', '-c', 'sleep 60 & wait'],
            timeout=0.2,
        )

    def test_unknown_program(self) -> None:
        exc = self.assertRaises(
            errors.CommandFailed, shell.run, ['/nonexistent/program']
        )
        self.assertEqual(127, exc.returncode)


class WaitForTest(testtools.TestCase):
    def test_says_what_and_why(self) -> None:
        exc = self.assertRaises(
            errors.DeadlineExceeded,
            shell.wait_for,
            lambda: False,
            'the moon',
            timeout=0,
            interval=0,
            why=lambda: 'it is day',
        )
        self.assertIn('the moon: it is day', str(exc))

    def test_own_errors_mean_not_yet(self) -> None:
        answers = iter([errors.CloudError('not up'), True])

        def condition() -> bool:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        shell.wait_for(condition, 'it', timeout=1, interval=0)


class RetriedTest(testtools.TestCase):
    def test_until_it_works_but_not_for_ever(self) -> None:
        calls: list[int] = []

        def works_the_third_time() -> None:
            calls.append(1)
            if len(calls) < 3:
                raise errors.CommandFailed(['x'], 1, '')

        shell.retried(works_the_third_time, pause=0)
        self.assertEqual(3, len(calls))
        calls.clear()
        self.assertRaises(
            errors.CommandFailed,
            shell.retried,
            works_the_third_time,
            tries=2,
            pause=0,
        )
