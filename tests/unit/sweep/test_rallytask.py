# SPDX-License-Identifier: Apache-2.0
"""What Rally's end is taken for, with a program in its place."""

import io
from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.progress import Progress
from hvstack.sweep import rallytask

LOCKED = """\
Task is: ...
[00:03] ours
sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) database is locked
[SQL: UPDATE tasks SET status=? WHERE tasks.uuid = ?]
(Background on this error at: https://sqlalche.me/e/20/e3q8)
"""


class RallyTaskTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name, value in (
            ('paths.STATE', self.directory),
            ('sweep.sweep_store.RECORDS_DIR', self.directory / 'records'),
            ('sweep.rallyenv.find_program', lambda: self.directory / 'rally'),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        self.stream = io.StringIO()

    def start(self, output: str, script: str = '') -> None:
        path = self.directory / 'rally'
        path.write_text(
            f"#!/bin/sh\ncat <<'EOF'\n{output}EOF\n{script}\nexit 1\n"
        )
        path.chmod(0o755)
        rallytask.run_task(
            *('sweep.yaml', {}, 'mine', Progress(stream=self.stream)),
            {'cloud': {'backend': 'qemu'}},
        )

    def test_a_database_that_is_locked_meanwhile(self) -> None:
        error = self.assertRaises(errors.Busy, self.start, LOCKED)
        self.assertIn('locked by another process', str(error))
        self.assertNotIn('\n', str(error))
        self.assertIn('ours', self.stream.getvalue())

    def test_one_of_before_is_over(self) -> None:
        self.assertRaises(errors.Busy, self.start, LOCKED)
        self.start('no such scenario\n')
        self.assertIn('no such scenario', self.stream.getvalue())
        self.assertNotIn('SQL', self.stream.getvalue())

    def test_it_takes_options_before_the_files(self) -> None:
        path = self.directory / 'seen'
        self.start('', f'echo $OS_CLOUD__BACKEND >{path}')
        self.assertEqual('qemu\n', path.read_text())

    def test_records_count_for_more_than_words(self) -> None:
        self.start(
            LOCKED,
            f'mkdir {self.directory}/records && '
            f'touch {self.directory}/records/one.json',
        )
        self.assertNotIn('without a run', self.stream.getvalue())
