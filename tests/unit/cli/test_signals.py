# SPDX-License-Identifier: Apache-2.0
"""Signals that end a command, in processes of their own."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import fixtures
import testtools

from hvstack import processutils

#: Stands for a command that undoes its changes when it is interrupted. Its
#: undo prints lines, which a terminal that is gone does not take.
_COMMAND = """
import sys, time
from pathlib import Path
from hvstack import interrupts
from hvstack.progress import Progress
directory = Path(sys.argv[1])
interrupts.handle_signals()
progress = Progress()
try:
    (directory / 'begun').touch()
    for _ in range(600):
        time.sleep(0.05)
        if (directory / 'go').exists():
            break
    (directory / 'complete').touch()
finally:
    progress.say('undoing')
    with progress.stage('flavor'):
        (directory / 'undone').touch()
"""
#: The command itself.
_PROGRAM = 'import sys; from hvstack.cli.app import main; sys.exit(main())'


class SignalTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)

    def start(self, *before: str, terminal: int) -> subprocess.Popen[bytes]:
        argv = [sys.executable, '-c', _COMMAND, str(self.directory)]
        process = subprocess.Popen(
            [*before, *argv],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait('begun')
        return process

    def wait(self, name: str) -> None:
        processutils.wait_for(
            (self.directory / name).exists, name, timeout=30, interval=0.02
        )

    def test_terminal_goes_away(self) -> None:
        controller, terminal = pty.openpty()
        # A session whose terminal sends SIGHUP when it goes away; the tests
        # themselves may run under nohup.
        process = self.start(
            *('setsid', '--ctty', 'env', '--default-signal=HUP'),
            terminal=terminal,
        )
        os.close(terminal)
        os.close(controller)
        process.wait(30)
        self.assertTrue((self.directory / 'undone').exists())
        self.assertFalse((self.directory / 'complete').exists())

    def test_nohup_continues(self) -> None:
        process = self.start('nohup', terminal=subprocess.DEVNULL)
        process.send_signal(signal.SIGHUP)
        (self.directory / 'go').touch()
        self.assertEqual(0, process.wait(30))
        self.assertTrue((self.directory / 'complete').exists())

    def test_output_that_cannot_be_written(self) -> None:
        """Python would warn when it exits, with status 120."""
        self.useFixture(fixtures.EnvironmentVariable('PYTHONUNBUFFERED'))
        reader, pipe = os.pipe()
        os.close(reader)
        full = os.open('/dev/full', os.O_WRONLY)
        for stdout, status, message in (
            (pipe, 141, b''),
            (full, 1, b'Cannot write standard output: No space left'),
        ):
            for args in (('--version',), ('task', 'list'), ('help',)):
                if args == ('help',) and stdout == full:
                    continue
                done = subprocess.run(
                    [sys.executable, '-c', _PROGRAM, *args],
                    check=False,
                    stdout=stdout,
                    stderr=subprocess.PIPE,
                )
                self.assertTrue(
                    done.stderr.startswith(message), (args, done.stderr)
                )
                self.assertEqual(bool(message), bool(done.stderr), args)
                if args != ('help',):
                    self.assertEqual(status, done.returncode, args)
            os.close(stdout)

    def test_sigterm(self) -> None:
        process = self.start(terminal=subprocess.DEVNULL)
        process.terminate()
        process.wait(30)
        self.assertTrue((self.directory / 'undone').exists())
