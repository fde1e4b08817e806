# SPDX-License-Identifier: Apache-2.0
"""stestr's own end: no run is reported by the results of another."""

import io
import stat
from contextlib import redirect_stderr
from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.accept import runner
from hvstack.accept.runner import Selection
from hvstack.accept.settings import Workspace

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
        folder = Path(self.useFixture(fixtures.TempDir()).path)
        self.workspace = Workspace(folder)
        (folder / '.stestr').mkdir()
        self.number = folder / '.stestr' / 'next-stream'
        self.number.write_text('1\n')
        self.program = folder / 'python'
        self.useFixture(
            fixtures.MonkeyPatch('sys.executable', str(self.program))
        )
        for name, value in (('_LOOK_SECONDS', 0.01), ('_END_SECONDS', 0.2)):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.accept.runner.{name}', value)
            )

    def stestr(self, run: str) -> str:
        """Run tests by a stestr that does this; return what was shown."""
        self.program.write_text(STESTR % run)
        self.program.chmod(stat.S_IRWXU)
        err = io.StringIO()
        with redirect_stderr(err):
            runner.run(self.workspace, Selection(('host',)), 1)
        return err.getvalue()

    def test_end(self) -> None:
        shown = self.stestr('echo passed; echo 2 >.stestr/next-stream; exit 1')
        self.assertEqual('passed\n', shown)
        self.assertTrue((self.workspace.folder / 'calls').exists())

    def test_refusal_or_death(self) -> None:
        """Results of the run before are not this one's."""
        for run, status, why in (
            ('echo no such option >&2; exit 2', 2, 'no such option'),
            ('kill -KILL $$', -9, 'printed nothing'),
        ):
            error = self.assertRaises(errors.RunFailed, self.stestr, run)
            self.assertIn(f'status {status} ', str(error))
            self.assertIn(why, str(error))
            self.assertNotIn('\n', str(error))
            self.assertFalse((self.workspace.folder / 'calls').exists())

    def test_workers_of_a_dead_one_end(self) -> None:
        self.assertRaises(
            errors.RunFailed,
            self.stestr,
            'sleep 60 & echo $! >worker; kill -KILL $$',
        )
        worker = int((self.workspace.folder / 'worker').read_text())
        self.assertFalse(_runs(worker))


def _runs(pid: int) -> bool:
    """Tell whether a process is there, and no zombie."""
    try:
        text = Path(f'/proc/{pid}/stat').read_text()
    except FileNotFoundError:
        return False
    return not text.rpartition(')')[2].startswith(' Z')
