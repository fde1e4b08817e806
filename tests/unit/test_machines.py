# SPDX-License-Identifier: Apache-2.0
"""Which stages of a test in an emulated machine are run again."""

import contextlib
import io
import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import fixtures
import testtools

from tests.machines import __main__ as machines

STAGES = ('packages', 'system', 'software', 'boot', 'up', 'off')


class FakeMachine(machines.Machine):
    """A machine whose stages do nothing."""

    def __init__(self) -> None:
        super().__init__('bookworm', 'uml')
        self.stages_run: list[str] = []

    def stages(self) -> dict[str, Callable[[], None]]:
        return {name: partial(self.stages_run.append, name) for name in STAGES}


class StagesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.top = Path(self.useFixture(fixtures.TempDir()).path)
        for name, value in (('TOP', self.top), ('WORK_DIR', self.top / 'w')):
            self.useFixture(
                fixtures.MonkeyPatch(f'tests.machines.__main__.{name}', value)
            )
        self.git('init', '-q')
        self.commit('one')

    def git(self, *args: str) -> None:
        user = ('-c', 'user.name=x', '-c', 'user.email=x@example.org')
        subprocess.run(['git', '-C', self.top, *user, *args], check=True)

    def commit(self, text: str) -> None:
        """Commit another content of the sources."""
        (self.top / 'file').write_text(text)
        self.git('add', 'file')
        self.git('commit', '-q', '-m', text)

    def run_stages(
        self, again: str | None = None, last: str | None = None
    ) -> list[str]:
        """Return the stages that a test runs."""
        machine = FakeMachine()
        with contextlib.redirect_stdout(io.StringIO()):
            machines.test(machine, again, last)
        return machine.stages_run

    def test_interrupted_test_continues(self) -> None:
        self.run_stages(last='software')
        self.assertEqual(['boot', 'up', 'off'], self.run_stages())

    def test_completed_test_starts_again(self) -> None:
        self.assertEqual(list(STAGES), self.run_stages())
        self.assertEqual(list(STAGES[2:]), self.run_stages())

    def test_other_sources(self) -> None:
        self.run_stages(last='boot')
        self.commit('two')
        self.assertEqual(list(STAGES[2:]), self.run_stages())
        self.run_stages(last='boot')
        (self.top / 'file').write_text('three')
        self.assertEqual(list(STAGES[2:]), self.run_stages())

    def test_stage_of_the_command_line(self) -> None:
        self.run_stages(last='boot')
        self.commit('two')
        self.assertEqual(['up', 'off'], self.run_stages(again='up'))

    def test_marks_of_older_releases(self) -> None:
        path = FakeMachine().marks
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(dict.fromkeys(STAGES, 7)))
        self.assertEqual(list(STAGES[2:]), self.run_stages())

    def test_stage_that_uses_the_sources(self) -> None:
        for kind in machines.EMULATORS:
            names = list(machines.Machine('bookworm', kind).stages())
            self.assertEqual('software', names[2])
