# SPDX-License-Identifier: Apache-2.0
"""Whoever takes the lab away says from whom."""

import io
import json
import os
from pathlib import Path

import fixtures
import testtools

from hvstack import pids
from hvstack.cli import lab
from hvstack.progress import Progress


class HoldersTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.useFixture(fixtures.TempDir()).path)
        self.taken = self.folder / 'hosts'
        self.taken.mkdir()
        for name, folder in (
            ('cloud.journal.FOLDER', self.folder),
            ('cluster.hosts.TAKEN', self.taken),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', folder))

    def said(self) -> str:
        stream = io.StringIO()
        lab.name_holders(Progress(stream=stream))
        return stream.getvalue()

    def take(self, started: int | None) -> None:
        entry = {'pid': os.getppid(), 'started': started, 'hosts': []}
        (self.taken / 'a.json').write_text(json.dumps(entry))

    def test_process_that_measures_bare_metal(self) -> None:
        self.take(started=1)
        self.assertEqual('', self.said())
        self.take(started=pids.start_time(os.getppid()))
        self.assertIn(f'process {os.getppid()}, ', self.said())
        self.assertIn(pids.command(os.getppid())[:100], self.said())

    def test_broken_journal_keeps_no_lab(self) -> None:
        (self.folder / '1-stack-x.json').write_text('{"kind": ')
        self.assertEqual('', self.said())
