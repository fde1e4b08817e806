# SPDX-License-Identifier: Apache-2.0
"""Test which program ``hvstack lab host exec`` runs on a host."""

from pathlib import Path
from types import SimpleNamespace

import fixtures
import testtools

from tests.unit.cli.runner import run_command


def find(name: str) -> SimpleNamespace:
    return SimpleNamespace(name=name)


class ExecTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.programs: list[list[str]] = []
        for name, value in (
            ('hvstack.lab.hosts.find', find),
            ('hvstack.lab.hosts.host.pid', lambda _: 1),
            ('hvstack.lab.hosts.host.directory', lambda _: directory),
            ('os.execv', self.execute),
            ('os.geteuid', lambda: 0),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))

    def execute(self, _: str, argv: list[str]) -> None:
        self.programs.append(argv[1:])

    def test_dashes_of_the_program(self) -> None:
        for args, program in (
            (('--', 'a', '--', 'b'), ['a', '--', 'b']),
            (('a', '--', 'b'), ['a', '--', 'b']),
            (('--', 'ls', '-l'), ['ls', '-l']),
        ):
            status, _, err = run_command('lab', 'host', 'exec', 'h', *args)
            self.assertEqual((0, ''), (status, err))
            self.assertEqual(program, self.programs.pop())

    def test_no_program(self) -> None:
        for args in ((), ('--',)):
            status, _, err = run_command('lab', 'host', 'exec', 'h', *args)
            self.assertEqual(2, status)
            self.assertIn('Cannot run a program on h', err)
        self.assertEqual([], self.programs)
