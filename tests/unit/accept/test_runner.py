# SPDX-License-Identifier: Apache-2.0
"""stestr's own end: no run is reported by the results of another."""

import io
import stat
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path

import fixtures
import testtools

import hvstack
from hvstack import errors, paths, pid_files, processutils
from hvstack.accept import runner
from hvstack.accept.runner import Selection
from hvstack.accept.tempest_conf import Workspace

PYTHON = sys.executable
#: Stands for 'python -m stestr': has run once, and now ends as it is told.
STESTR = """#!/bin/sh
case "$3" in
list) echo hvstack.tempest_plugin.tests.host.test_x.XTest.test_x ;;
last) echo last >>calls ;;
run)
    %s
    ;;
esac
"""


class RunTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path) / 'work'
        self.workspace = Workspace(directory)
        paths.claim(directory)
        (directory / '.stestr').mkdir()
        self.next_stream = directory / '.stestr' / 'next-stream'
        self.next_stream.write_text('1\n')
        self.program = directory / 'python'
        self.useFixture(
            fixtures.MonkeyPatch('sys.executable', str(self.program))
        )
        for name, value in (('_LOOK_SECONDS', 0.01), ('_END_SECONDS', 0.2)):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.accept.runner.{name}', value)
            )

    def stestr(self, run: str) -> str:
        """Run tests by a substitute for stestr; return the output."""
        self.program.write_text(STESTR % run)
        self.program.chmod(stat.S_IRWXU)
        err = io.StringIO()
        with redirect_stderr(err):
            runner.run_tests(self.workspace, Selection(('host',)), 1)
        return err.getvalue()

    def test_end(self) -> None:
        output = self.stestr(
            'echo passed; echo 2 >.stestr/next-stream; exit 1'
        )
        self.assertEqual('passed\n', output)
        self.assertTrue((self.workspace.directory / 'calls').exists())

    def test_refusal_or_death(self) -> None:
        """Results of the run before are not this one's."""
        for run, status, reason in (
            ('echo no such option >&2; exit 2', 2, 'no such option'),
            ('kill -KILL $$', -9, 'printed nothing'),
        ):
            error = self.assertRaises(errors.RunFailedError, self.stestr, run)
            self.assertIn(f'status {status} ', str(error))
            self.assertIn(reason, str(error))
            self.assertNotIn('\n', str(error))
            self.assertFalse((self.workspace.directory / 'calls').exists())

    def test_workers_of_a_dead_one_end(self) -> None:
        self.assertRaises(
            errors.RunFailedError,
            self.stestr,
            'sleep 60 & echo $! >worker; kill -KILL $$',
        )
        worker = int((self.workspace.directory / 'worker').read_text())
        self.assertFalse(_runs(worker))

    def killed(self) -> 'subprocess.Popen[bytes]':
        """Leave tests running as a killed command does, the cloud held."""
        self.program.write_text(STESTR % 'exec sleep 60')
        self.program.chmod(stat.S_IRWXU)
        code = (
            'import sys; from pathlib import Path; '
            'from hvstack import paths; from hvstack.accept import runner; '
            'from hvstack.accept.tempest_conf import Workspace; '
            'work = Workspace(Path(sys.argv[1])); '
            'paths.STATE = work.directory.parent; '
            'sys.executable = sys.argv[2]\n'
            'with runner.lock_workspace(work), '
            'runner.lock_cloud(work, "http://c") as h: '
            'runner.run_tests(work, runner.Selection(("host",)), 1, [h])'
        )
        process = subprocess.Popen(
            [
                *(PYTHON, '-c', code),
                *(str(self.workspace.directory), str(self.program)),
            ],
            cwd=Path(hvstack.__file__).parent.parent,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        processutils.wait_for(
            lambda: bool(runner._find_orphans(self.workspace)),
            'tests',
            timeout=20,
            interval=0.02,
        )
        process.kill()
        process.wait()
        return process

    def test_tests_of_a_killed_command(self) -> None:
        directory = self.workspace.directory.parent
        self.useFixture(fixtures.MonkeyPatch('hvstack.paths.STATE', directory))
        self.killed()
        (orphan,) = runner._find_orphans(self.workspace)
        self.addCleanup(runner._end_session, orphan)
        with runner.lock_workspace(self.workspace):
            error = self.assertRaises(
                errors.BusyError,
                runner.handle_orphans,
                self.workspace,
                end=False,
            )
            self.assertIn(f'(process {orphan})', str(error))
            # From another workspace, which does not see them.
            error = self.assertRaises(
                errors.BusyError,
                runner.lock_cloud(self.workspace, 'http://c').__enter__,
            )
            self.assertIn(str(self.workspace.directory), str(error))
            runner.handle_orphans(self.workspace, end=True)
            self.assertFalse(_runs(orphan))
            with runner.lock_cloud(self.workspace, 'http://c'):
                pass

    def test_strangers_stay(self) -> None:
        """A session of the noted number that is not of the workspace."""
        with subprocess.Popen(
            ['sleep', '60'], start_new_session=True
        ) as process:
            self.addCleanup(process.kill)
            pid_files.write(self.workspace.pid, process.pid)
            runner.handle_orphans(self.workspace, end=True)
            self.assertTrue(_runs(process.pid))
            process.kill()


def _runs(pid: int) -> bool:
    """Tell whether a process is there, and no zombie."""
    try:
        text = Path(f'/proc/{pid}/stat').read_text(encoding='utf-8')
    except FileNotFoundError:
        return False
    return not text.rpartition(')')[2].startswith(' Z')
