# SPDX-License-Identifier: Apache-2.0
"""What tools/runtests.py starts, counts and prints."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import fixtures
import testtools

from hvstack import jsonfile, paths
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
        """Run what needs a lab, and return what the runner printed."""
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
