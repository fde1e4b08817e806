# SPDX-License-Identifier: Apache-2.0
"""Undoing what dead processes left, whatever else is in the journal."""

import contextlib
import io
import json
import os
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import cluster_flavors, connection, journal, undo
from hvstack.progress import Progress
from tests.unit.cli.runner import run_command
from tests.unit.cloud import fake


class UndoTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.conn = self.cloud.connect()
        self.stream = io.StringIO()
        self.progress = Progress(stream=self.stream)

    def note(
        self, kind: str, name: str, **changes: object
    ) -> journal.JournalEntry:
        """Write an entry of a dead process."""
        entry = journal.note(
            kind, {'name': name, 'id': name}, connection.scope(self.conn)
        )
        # An earlier process had the number of this one.
        dead = replace(entry, **{'start': entry.start - 1, **changes})
        entry.path.write_text(json.dumps(asdict(dead)))
        return dead

    def recover(self) -> list[str]:
        return undo.recover([self.conn], self.progress)

    def test_type_of_a_newer_release(self) -> None:
        newer = self.note('of-a-newer-release', 'a')
        self.note(cluster_flavors.KIND, 'f1')
        deleted = self.cloud.http.delete(
            f'{fake.NOVA}/flavors/f1', status_code=202
        )
        self.assertEqual(['flavor f1'], self.recover())
        self.assertEqual(1, deleted.call_count)
        self.assertEqual([newer], journal.entries())
        self.assertIn('does not know its type', self.stream.getvalue())
        # Where it is asked for, it is an error.
        error = self.assertRaises(
            errors.CloudError, undo.undo, [newer], [self.conn]
        )
        self.assertIn('newer release', str(error))
        self.assertEqual([newer], journal.entries())

    def test_damaged_entry(self) -> None:
        """Other entries are undone, and the error names the key."""
        damaged = self.note(cluster_flavors.KIND, 'f1', data={'name': 'f1'})
        self.note(cluster_flavors.KIND, 'f2')
        self.cloud.http.delete(f'{fake.NOVA}/flavors/f2', status_code=202)
        error = self.assertRaises(errors.CloudError, self.recover)
        self.assertIn("'id' of its entry is missing", str(error))
        self.assertEqual([damaged], journal.entries())

    def test_process_of_another_pid_namespace(self) -> None:
        """What cannot be seen to be dead is not undone."""
        entry = self.note(cluster_flavors.KIND, 'f1', namespace=1)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.pid_files._FIRST_NAMESPACE', 1)
        )
        self.assertEqual([], self.recover())
        self.assertEqual([entry], journal.entries())
        self.assertIn('another pid namespace', self.stream.getvalue())

    def test_process_of_another_machine(self) -> None:
        """Both have the same home directory."""
        entry = self.note(
            cluster_flavors.KIND, 'f1', boot='other', machine='other'
        )
        machine_id = Path(self.useFixture(fixtures.TempDir()).path) / 'id'
        machine_id.write_text('own\n')
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.pid_files._MACHINE', machine_id)
        )
        self.assertEqual([], self.recover())
        self.assertEqual([entry], journal.entries())
        self.assertIn('on another machine', self.stream.getvalue())
        # A machine without an ID cannot tell.
        machine_id.write_text('')
        self.cloud.http.delete(f'{fake.NOVA}/flavors/f1', status_code=202)
        self.assertEqual(['flavor f1'], self.recover())

    def test_other_region(self) -> None:
        """Regions share Keystone: its URL and the project do not differ."""
        regions = ('RegionOne', 'RegionTwo')
        self.cloud = self.useFixture(fake.FakeCloud(regions=regions))
        first, second = (
            connection.connect(
                credential={**fake.CREDENTIAL, 'region_name': name}
            )
            for name in regions
        )
        entry = journal.note(
            cluster_flavors.KIND,
            {'name': 'f1', 'id': 'f1'},
            connection.scope(first),
        )
        deleted = self.cloud.http.delete(
            f'{fake.NOVA}/flavors/f1', status_code=202
        )
        self.assertEqual([], undo.undo([entry], [second]))
        self.assertEqual([entry], journal.entries())
        self.assertEqual(['flavor f1'], undo.undo([entry], [second, first]))
        self.assertEqual(1, deleted.call_count)
        self.assertEqual([], journal.entries())

    def test_region_that_is_not_known(self) -> None:
        """Entries of older releases, and connections, may have no region."""
        url, project, user = connection.scope(self.conn).split(' ')
        region = f'{url} {project} {user} RegionOne'
        for scope, is_own in (
            (region, True),
            (f'{url} {project} other', False),
            (f'{url} {project} other RegionOne', False),
            ('', False),
        ):
            self.assertEqual(
                self.conn if is_own else None,
                connection.find_in_scope(scope, [self.conn]),
                scope,
            )
        conn = connection.connect(
            credential={**fake.CREDENTIAL, 'region_name': 'RegionOne'}
        )
        self.assertEqual(region, connection.scope(conn))
        older = f'{url} {project} {user}'
        self.assertIs(conn, connection.find_in_scope(older, [conn]))

    def test_two_regions_without_region_name(self) -> None:
        """Keystoneauth takes the endpoint of the first region."""
        before = connection.scope(self.conn)
        regions = ('RegionOne', 'RegionTwo')
        cloud = self.useFixture(fake.FakeCloud(regions=regions))
        conn = cloud.connect()
        self.assertEqual(f'{before} RegionOne', connection.scope(conn))
        self.assertTrue(connection.format_cloud(conn).endswith(' RegionOne'))
        # Older releases wrote no region.
        self.assertIs(conn, connection.find_in_scope(before, [conn]))
        other = f'{before} RegionTwo'
        self.assertIsNone(connection.find_in_scope(other, [conn]))

    def test_entry_of_a_user_that_no_longer_exists(self) -> None:
        """Only 'sweep recover' names it: other clouds are the usual reason."""
        scope = connection.scope(self.conn)
        other = self.note(cluster_flavors.KIND, 'f1', scope=f'{scope}x')
        owned = self.note(
            cluster_flavors.KIND, 'f2', scope=f'{scope}x', owner='cluster a'
        )
        self.assertEqual([], self.recover())
        self.assertEqual('', self.stream.getvalue())
        self.assertEqual('', undo.explain_other_scope(owned, [self.conn]))
        for name, function in (
            ('cloud.connection.connect', lambda _: self.conn),
            ('sweep.recovery.recover', self.recover_all),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', function))
        status, output, error = run_command('sweep', 'recover')
        self.assertEqual(0, status, error)
        self.assertEqual(2, output.count('kept: '))
        self.assertEqual(1, error.count('Cannot undo the change'))
        self.assertIn(f"'flavor f1' ({other.path})", error)
        self.assertIn(f'({scope}x)', error)

    def recover_all(self, conns: Any) -> list[str]:
        return undo.recover(conns, self.progress)

    def test_ctrl_c_during_an_undo(self) -> None:
        for name in ('f1', 'f2', 'f3'):
            self.note(cluster_flavors.KIND, name)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        deleted = []

        def delete(request: Any, context: Any) -> str:
            deleted.append(request.path)
            os.kill(os.getpid(), signal.SIGINT)
            context.status_code = 202
            return ''

        for name in ('f1', 'f2', 'f3'):
            self.cloud.http.delete(f'{fake.NOVA}/flavors/{name}', text=delete)
        message = io.StringIO()
        with contextlib.redirect_stderr(message):
            self.assertRaises(KeyboardInterrupt, self.recover)
        self.assertEqual(3, len(deleted))
        self.assertEqual([], journal.entries())
        self.assertIn('hvstack is undoing its changes', message.getvalue())

    def test_ctrl_c_does_not_hide_what_is_not_undone(self) -> None:
        entry = self.note(cluster_flavors.KIND, 'f1')
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

        def delete(request: Any, context: Any) -> str:
            os.kill(os.getpid(), signal.SIGINT)
            context.status_code = 500
            return ''

        self.cloud.http.delete(f'{fake.NOVA}/flavors/f1', text=delete)
        output = io.StringIO()
        with contextlib.redirect_stderr(output):
            self.assertRaises(KeyboardInterrupt, self.recover)
        self.assertIn('Cannot undo changes: flavor f1', output.getvalue())
        self.assertEqual([entry], journal.entries())
