# SPDX-License-Identifier: Apache-2.0
"""What tools/runtests.py starts, counts and prints."""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, jsonfile, paths
from tools import runtests

TOP = Path(__file__).parents[2]
#: Writes an entry of the journal, says so, and keeps it until it is ended.
HOLDER = """
import sys
from hvstack.cloud import journal
journal.note('flavor', {'id': '1'})
print('noted', flush=True)
sys.stdin.read()
"""
#: Writes its arguments into a file, and does not fail.
PROGRAM = """#!/bin/sh
echo "$HVSTACK_STATE_DIR: $*" >>{log}
{commands}
"""


class RunnerTest(testtools.TestCase):
    """A runner whose programs are files in a temporary directory."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.log = self.directory / 'log'
        self.output = io.StringIO()
        self.state = self.directory / 'state'
        self.packages: list[str] = []
        for name, value in (
            ('tools.runtests.BIN', self.directory),
            ('tools.runtests.TEST_STATE', str(self.directory / 'test')),
            ('hvstack.lab.lifecycle._RUNNING', self.directory / 'lab.json'),
            # No test changes the packages of its machine.
            ('hvstack.lab.packages.install', self.packages.extend),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        self.write_program('hvstack')
        self.write_program('stestr')

    def write_program(self, name: str, commands: str = '') -> None:
        """Write a program that notes its calls, and runs commands of sh."""
        path = self.directory / name
        path.write_text(PROGRAM.format(log=self.log, commands=commands))
        path.chmod(0o755)

    def list_calls(self) -> list[str]:
        """Return the state directory and the arguments of each call."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def run_lab(self, suite: runtests.Suite, long: bool = False) -> str:
        """Run the tests that need a lab, and return the output."""
        with contextlib.redirect_stdout(self.output):
            suite.lab(long)
        return self.output.getvalue()


class HoldersTest(RunnerTest):
    """The lab that runs is stopped unless a process uses it."""

    def start_lab(self) -> None:
        """Write down that a lab runs."""
        path = self.directory / 'lab.json'
        path.write_text(f'{{"state": "{self.state}"}}\n')
        self.assertEqual(
            {'state': str(self.state)}, dict(jsonfile.load(path).data)
        )

    def hold(self) -> int:
        """Start a process with a change to undo, and return its number."""
        process = subprocess.Popen(
            [sys.executable, '-c', HOLDER],
            cwd=TOP,
            env={**os.environ, 'HVSTACK_STATE_DIR': str(self.state)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.addCleanup(process.communicate)
        assert process.stdout
        self.assertEqual(b'noted\n', process.stdout.readline())
        return process.pid

    def test_lab_in_use(self) -> None:
        self.assertNotEqual(self.state, paths.STATE)
        self.start_lab()
        pid = self.hold()
        suite = runtests.Suite(long=False)
        output = self.run_lab(suite)
        self.assertIn(
            f'Cannot stop the lab of {self.state}: it is in use by process '
            f'{pid}. ',
            output,
        )
        self.assertEqual(1, suite.counts['failed'])
        self.assertEqual([], self.list_calls())

    def test_lab_of_no_process(self) -> None:
        self.start_lab()
        self.run_lab(runtests.Suite(long=False))
        self.assertEqual(': lab down', self.list_calls()[0])

    def test_no_lab(self) -> None:
        """A process that uses another cloud keeps no tests."""
        self.hold()
        self.run_lab(runtests.Suite(long=False))
        self.assertEqual(': lab down', self.list_calls()[0])


class CountTest(RunnerTest):
    """The runner always ends with its counts, and leaves no lab."""

    DESTROY = 'lab destroy --keep-cache --records'

    def setUp(self) -> None:
        super().setUp()
        self.tests = self.directory / 'tests'
        self.tests.mkdir()
        (self.tests / '__init__.py').touch()
        self.useFixture(
            fixtures.MonkeyPatch('tools.runtests.TOP', self.directory)
        )
        self.suite = runtests.Suite(long=False)

    def run_stestr(self, *args: str, module: str = '') -> str:
        """Run the tests in a temporary directory with the real stestr."""
        program = Path(sys.executable).with_name('stestr')
        (self.directory / 'stestr').unlink()
        (self.directory / 'stestr').symlink_to(program)
        with contextlib.redirect_stdout(self.output):
            self.suite.stestr('unit', './tests', *args, module=module)
        return self.output.getvalue()

    def run_main(self, *args: str) -> tuple[int, str]:
        """Return the status and the last line of the runner."""
        self.useFixture(
            fixtures.MonkeyPatch('sys.argv', ['runtests.py', *args])
        )
        self.addCleanup(os.chdir, Path.cwd())
        with contextlib.redirect_stdout(self.output):
            status = runtests.main()
        return status, self.output.getvalue().splitlines()[-1]

    def test_reason_of_a_module_that_cannot_be_imported(self) -> None:
        (self.tests / 'test_x.py').write_text('import no_such_module\n')
        output = self.run_stestr()
        self.assertIn('unit tests: no test was run (status ', output)
        self.assertIn("No module named 'no_such_module'", output)
        self.assertEqual({'failed': 1}, dict(self.suite.counts))

    def test_a_test_that_fails_is_counted_once(self) -> None:
        (self.tests / 'test_x.py').write_text(
            'import unittest\n'
            'class X(unittest.TestCase):\n'
            '    def test_a(self): pass\n'
            '    def test_b(self): self.fail()\n'
        )
        self.run_stestr('--serial')
        self.assertEqual({'passed': 1, 'failed': 1}, dict(self.suite.counts))

    def test_status_of_stestr(self) -> None:
        """It says that results are missing, whatever tests passed."""
        self.write_program(
            'stestr',
            f'{sys.executable} -c "import subunit, sys\n'
            'stream = subunit.StreamResultToBytes(sys.stdout.buffer)\n'
            "stream.status(test_id='a', test_status='inprogress')\n"
            "stream.status(test_id='a', test_status='success')\"\n"
            'echo no room; exit 3',
        )
        with contextlib.redirect_stdout(self.output):
            self.suite.stestr('unit', './tests')
        self.assertIn(
            'FAIL unit tests: stestr exited with status 3\nno room',
            self.output.getvalue(),
        )
        self.assertEqual({'passed': 1, 'failed': 1}, dict(self.suite.counts))

    def test_packages_that_cannot_be_installed(self) -> None:
        def fail(_: object) -> None:
            raise errors.MissingPrerequisiteError('Cannot install: no mirror.')

        for name, value in (
            ('hvstack.lab.packages.install', fail),
            ('os.geteuid', lambda: 0),
            ('shutil.which', lambda name: f'/usr/bin/{name}'),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        status, line = self.run_main('--release', '2025.1')
        self.assertEqual(1, status)
        self.assertRegex(line, '^[0-9]+ passed, [0-9]+ failed, 0 skipped$')
        self.assertIn(
            'FAIL Cannot install: no mirror.', self.output.getvalue()
        )
        self.assertEqual(self.DESTROY, self.list_calls()[-2].split(': ')[1])

    def test_interrupt_while_the_lab_starts(self) -> None:
        # A shell starts programs in the background without this signal.
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, handler)
        self.write_program(
            'hvstack',
            f'[ "$2" != up ] || {{ kill -INT {os.getpid()}; sleep 60; }}',
        )
        status, line = self.run_main('--release', '2025.1')
        self.assertEqual(130, status)
        self.assertRegex(line, '^5 passed, 1 failed, 0 skipped$')
        self.assertTrue(
            re.search(f'lab up .*\n.*{self.DESTROY}', self.log.read_text())
        )

    def test_program_that_is_missing(self) -> None:
        (self.directory / 'stestr').unlink()
        status, line = self.run_main('--package')
        self.assertEqual((1, '0 passed, 1 failed, 0 skipped'), (status, line))

    def test_module_whose_tests_are_skipped(self) -> None:
        (self.tests / 'test_x.py').write_text(
            'import unittest\n'
            'class X(unittest.TestCase):\n'
            '    def test_a(self): self.skipTest("no image")\n'
        )
        (self.tests / 'test_y.py').write_text('import no_such_module\n')
        output = self.run_stestr(module='tests.test_x')
        self.assertIn('skip tests.test_x.X.test_a', output)
        self.assertEqual({'skipped': 1}, dict(self.suite.counts))

    def test_each_long_module_has_its_own_limit(self) -> None:
        long_tests = self.tests / 'long'
        long_tests.mkdir()
        for name in ('test_b.py', 'labs.py', 'test_a.py'):
            (long_tests / name).touch()
        self.run_lab(runtests.Suite(long=True), long=True)
        self.assertEqual(
            [f'tests.long.test_{name}' for name in 'ab'],
            [
                call.split()[-1]
                for call in self.list_calls()
                if '--no-discover' in call
            ],
        )

    def test_limits_of_a_slow_machine(self) -> None:
        self.write_program('hvstack', 'sleep 1.5')
        limits = {**runtests.LIMITS, 'lint': 0.2}
        self.useFixture(fixtures.MonkeyPatch('tools.runtests.LIMITS', limits))
        program = str(self.directory / 'hvstack')
        for slowness, is_passed in ((1.0, False), (20.0, True)):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.speed.measure', lambda slowness=slowness: slowness
                )
            )
            suite = runtests.Suite(long=False)
            with contextlib.redirect_stdout(self.output):
                self.assertEqual(is_passed, suite.check('lint', program))
        self.assertIn('0 s without stolen time', self.output.getvalue())
