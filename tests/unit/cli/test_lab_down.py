# SPDX-License-Identifier: Apache-2.0
"""Test who may stop the lab, and whose use of it ends."""

import io
import json
import os
from pathlib import Path

import fixtures
import testtools

from hvstack import pid_files
from hvstack.cli import lab
from hvstack.progress import Progress
from tests.unit.cli.runner import run_command


class UserTest(testtools.TestCase):
    def test_user_who_is_not_root(self) -> None:
        """Reports were about the empty directories of this user."""
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 1000))
        for args in (
            *(('down',), ('destroy',), ('status',), ('host', 'list')),
            *(('host', verb, 'hv-host2') for verb in ('off', 'on', 'shell')),
            ('host', 'exec', 'hv-host2', '--', 'true'),
            *(('host', verb, 'hv-host2') for verb in ('prepare', 'release')),
            ('host', 'cap', '70'),
        ):
            status, output, error = run_command('lab', *args)
            self.assertEqual((3, ''), (status, output), args)
            self.assertIn('Cannot use the lab: it needs root.', error)


class HoldersTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.acquired_dir = self.directory / 'hosts'
        self.acquired_dir.mkdir()
        for name, directory in (
            ('cloud.journal.DIRECTORY', self.directory),
            ('cluster.acquired_hosts.ACQUIRED_HOSTS_DIR', self.acquired_dir),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', directory))

    def name_holders(self) -> str:
        stream = io.StringIO()
        lab.name_holders(Progress(stream=stream))
        return stream.getvalue()

    def take(self, started: int | None) -> None:
        entry = {'pid': os.getppid(), 'started': started, 'hosts': []}
        (self.acquired_dir / 'a.json').write_text(json.dumps(entry))

    def test_process_that_measures_bare_metal(self) -> None:
        self.take(started=1)
        self.assertEqual('', self.name_holders())
        self.take(started=pid_files.start_time(os.getppid()))
        self.assertIn(f'process {os.getppid()}, ', self.name_holders())
        self.assertIn(
            pid_files.command(os.getppid())[:100], self.name_holders()
        )

    def test_broken_journal_keeps_no_lab(self) -> None:
        (self.directory / '1-stack-x.json').write_text('{"kind": ')
        self.assertEqual('', self.name_holders())
