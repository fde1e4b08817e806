# SPDX-License-Identifier: Apache-2.0
"""Test the clean-up after processes that no longer run."""

import io
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import cluster_flavors, connection, journal
from hvstack.progress import Progress
from hvstack.sweep import recovery
from tests.unit.cloud import fake

#: Does not reach the first host.
SSH = """#!/bin/sh
case "$*" in
*192.0.2.1*) echo no route >&2; exit 255 ;;
esac
"""


class RecoveryTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.conn = self.cloud.connect()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.acquired_dir = directory / 'taken'
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.acquired_hosts.ACQUIRED_HOSTS_DIR',
                self.acquired_dir,
            )
        )
        programs = directory / 'bin'
        programs.mkdir()
        ssh = programs / 'ssh'
        ssh.write_text(SSH)
        ssh.chmod(0o755)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PATH', f'{programs}:{os.environ["PATH"]}'
            )
        )

    def mark(self, name: str, text: str = '') -> Path:
        """Write the mark of a process that no longer runs."""
        host = {
            'action': 'release-ssh-host',
            'name': name,
            'address': f'192.0.2.{name[-1]}',
            'root': '/var/lib/x/root',
            'key': '/key',
        }
        path = self.acquired_dir / f'{name}.json'
        path.parent.mkdir(exist_ok=True)
        data = {'pid': 1, 'started': 0, 'hosts': [host]}
        path.write_text(text or json.dumps(data))
        return path

    def note_flavor(self) -> None:
        """Write the journal entry of a process that no longer runs."""
        entry = journal.note(
            cluster_flavors.KIND,
            {'name': 'f1', 'id': 'f1'},
            connection.scope(self.conn),
        )
        dead = replace(entry, start=entry.start - 1)
        entry.path.write_text(json.dumps(asdict(dead)))

    def test_host_that_does_not_answer(self) -> None:
        """The flavors, quotas and servers of the cloud stayed as they were."""
        unreachable, reachable = self.mark('node1'), self.mark('node2')
        self.note_flavor()
        self.cloud.http.delete(f'{fake.NOVA}/flavors/f1', status_code=202)
        error = self.assertRaises(
            errors.HVStackError, recovery.recover, [self.conn]
        )
        self.assertIn('Cannot release hosts node1', str(error))
        self.assertTrue(unreachable.exists())
        self.assertFalse(reachable.exists())
        self.assertEqual([], journal.entries())
        unreachable.unlink()
        self.mark('node2')
        self.note_flavor()
        self.assertEqual(
            ['bare-metal host node2', 'flavor f1'],
            recovery.recover([self.conn]),
        )

    def test_progress(self) -> None:
        """Changes are named before the time that it takes to undo them."""
        stream = io.StringIO()

        def delete(_request: Any, context: Any) -> str:
            self.assertIn('no longer run: flavor f1\n', stream.getvalue())
            self.assertNotIn('restored: flavor', stream.getvalue())
            context.status_code = 202
            return ''

        self.mark('node2')
        self.note_flavor()
        self.cloud.http.delete(f'{fake.NOVA}/flavors/f1', text=delete)
        recovery.recover([self.conn], Progress(stream=stream))
        self.assertEqual(
            [
                'restored: bare-metal host node2',
                'restoring changes of processes that no longer run: flavor f1',
                'restored: flavor f1',
            ],
            [line[8:] for line in stream.getvalue().splitlines()],
        )

    def test_mark_that_is_not_valid(self) -> None:
        self.mark('node1', '[]')
        reachable = self.mark('node2')
        error = self.assertRaises(errors.InputError, recovery.recover, [])
        self.assertIn('Cannot read which bare-metal hosts', str(error))
        self.assertFalse(reachable.exists())
