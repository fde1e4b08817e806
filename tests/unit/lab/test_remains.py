# SPDX-License-Identifier: Apache-2.0
"""A lab's end deletes the lab, and nothing of another cloud."""

import json
import shutil
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, paths
from hvstack.cloud import journal
from hvstack.cluster import cpu_weights
from hvstack.lab import constants, lifecycle, remains, settings
from hvstack.lab.settings import LabSettings
from tests.unit.cli.runner import run_command

OTHER = 'https://cloud.example.org:5000 project user'
LAB = f'{constants.url("keystone")} project user'


class StateTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.top = Path(self.useFixture(fixtures.TempDir()).path)
        self.state = self.top / 'state'
        lab = self.state / 'lab'
        for name, path in (
            ('paths.STATE', self.state),
            ('paths.RUN', self.top / 'run'),
            ('paths.CACHE', self.top / 'cache'),
            ('cloud.journal.DIRECTORY', self.state / 'journal'),
            ('cloud.keypairs.DIRECTORY', self.state / 'keys'),
            (
                'cluster.acquired_hosts.ACQUIRED_HOSTS_DIR',
                self.state / 'journal' / 'hosts',
            ),
            ('lab.settings.LAB', lab),
            ('lab.settings._SETTINGS', lab / 'settings.json'),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', path))


class WeightsTest(StateTest):
    def test_weights_of_a_killed_run_do_not_keep_the_state(self) -> None:
        settings.save(LabSettings())
        entry = journal.note(
            cpu_weights.KIND, {'boot': 'other', 'weights': {}, 'inodes': {}}
        )
        # The process of the entry still runs.
        error = self.assertRaises(errors.InputError, remains.check_records)
        self.assertIn(
            f'CPU caps or weights of lab hosts ({entry.path})', str(error)
        )
        for name, function in (
            ('cloud.connection.connect', lambda _: None),
            ('sweep.recovery.recover', lambda _: []),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', function))
        status, output, error = run_command('sweep', 'recover')
        self.assertEqual(0, status, error)
        self.assertIn('kept: cpu_weight of lab hosts', output)
        data = json.loads(entry.path.read_text('utf-8'))
        entry.path.write_text(json.dumps({**data, 'start': 1}), 'utf-8')
        remains.check_records()
        self.assertEqual([], journal.entries())


class DirectoryTest(StateTest):
    def test_created_directories_are_owned(self) -> None:
        settings.save(LabSettings())
        for path in (self.state, settings.LAB):
            self.assertTrue(paths.is_owned(path), path)
        paths.remove_owned(self.state)
        self.assertFalse(self.state.exists())

    def test_empty_directory_is_adopted(self) -> None:
        self.state.mkdir()
        paths.make_directory(self.state / 'records')
        self.assertTrue(paths.is_owned(self.state))

    def test_directory_of_another_program(self) -> None:
        """As HVSTACK_STATE_DIR=/home, which a destroy deleted."""
        self.state.mkdir()
        (self.state / 'alice').mkdir()
        (self.state / 'alice' / 'thesis').write_text('text')
        settings.save(LabSettings())
        self.assertFalse(paths.is_owned(self.state))
        error = self.assertRaises(
            errors.InputError, paths.remove_owned, self.state
        )
        self.assertIn(f'Cannot delete {self.state}: ', str(error))
        self.assertRaises(errors.InputError, remains.check_records)
        # The lab in it is hvstack's.
        paths.remove_owned(settings.LAB)
        self.assertEqual(
            ['alice'], [path.name for path in self.state.iterdir()]
        )

    def test_copied_stamp(self) -> None:
        settings.save(LabSettings())
        copy = self.top / 'copy'
        shutil.copytree(self.state, copy)
        self.assertFalse(paths.is_owned(copy))
        moved = self.top / 'moved'
        self.state.rename(moved)
        self.assertFalse(paths.is_owned(moved))
        for text in ('', '[]', '{"created_by": "hvstack"}'):
            (moved / paths.STAMP).write_text(text)
            self.assertFalse(paths.is_owned(moved), text)

    def test_stamp_with_a_key_twice(self) -> None:
        settings.save(LabSettings())
        path = self.state / paths.STAMP
        text = path.read_text()
        path.write_text('{"inode": 1, ' + text.removeprefix('{'))
        self.assertFalse(paths.is_owned(self.state))
        path.write_text(text)
        self.assertTrue(paths.is_owned(self.state))

    def test_damaged_file_of_the_running_lab(self) -> None:
        path = self.top / 'lab.json'
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.lifecycle._RUNNING', path)
        )
        self.assertIsNone(lifecycle.owner())
        path.write_text('{"state": "/x"}')
        self.assertEqual(Path('/x'), lifecycle.owner())
        # An earlier release wrote a path with a symbolic link.
        link = path.with_name('link')
        link.symlink_to('/x')
        path.write_text(json.dumps({'state': str(link)}))
        self.assertEqual(Path('/x'), lifecycle.owner())
        for text in ('', '[]', '{"state": 1}', '{"zzz": 1}'):
            path.write_text(text)
            error = self.assertRaises(errors.InputError, lifecycle.owner)
            self.assertIn(f'Delete {path}', str(error))

    def test_links_are_not_followed(self) -> None:
        settings.save(LabSettings())
        other = self.top / 'other'
        other.mkdir()
        (other / 'file').write_text('text')
        (settings.LAB / 'link').symlink_to(other)
        paths.remove_owned(self.state)
        self.assertEqual(['file'], [path.name for path in other.iterdir()])

    def test_lab_directory_of_another_program(self) -> None:
        settings.LAB.mkdir(parents=True)
        (settings.LAB / 'results.csv').write_text('text')
        error = self.assertRaises(
            errors.InputError, lifecycle._check_lab_directory
        )
        self.assertIn(f'Cannot use {settings.LAB} for the lab', str(error))
        # A lab of an older release has no stamp.
        settings.save(LabSettings())
        lifecycle._check_lab_directory()


class RecordsTest(StateTest):
    def setUp(self) -> None:
        super().setUp()
        settings.save(LabSettings())

    def note(self, kind: str, scope: str, **data: str) -> journal.JournalEntry:
        return journal.note(kind, {'name': 'hv-x', **data}, scope)

    def mark(self, action: str) -> Path:
        path = self.state / 'journal' / 'hosts' / 'a.json'
        host = {'action': action, 'name': 'hv-host2'}
        paths.write_whole(path, json.dumps({'hosts': [host]}))
        return path

    def test_only_the_lab_is_forgotten(self) -> None:
        key = self.state / 'keys' / 'hv-key'
        for path in (key, key.with_name('hv-key.pub')):
            paths.write_whole(path, 'ssh-ed25519 AAAA hv-key')
        other = self.note('allocation_ratio', OTHER)
        self.note('flavor', LAB)
        public = 'ssh-ed25519 AAAA'
        self.note('keypair', LAB, path=str(key), public_key=public)
        path = self.mark('release-lab-host')
        remains.forget_lab()
        self.assertEqual([other], journal.entries())
        self.assertEqual([], list(key.parent.iterdir()))
        self.assertFalse(path.exists())

    def test_path_of_a_key_is_not_believed(self) -> None:
        file = self.top / 'id_rsa'
        file.write_text('private')
        public = 'ssh-ed25519 AAAA'
        file.with_name('id_rsa.pub').write_text(public)
        self.note('keypair', LAB, path=str(file), public_key=public)
        remains.forget_lab()
        self.assertTrue(file.exists())

    def test_no_lab_in_this_directory(self) -> None:
        """A lab of another directory has the same address."""
        paths.remove_owned(settings.LAB)
        entry = self.note('flavor', LAB)
        remains.forget_lab()
        self.assertEqual([entry], journal.entries())
        self.assertRaises(errors.InputError, remains.check_records)

    def test_records_stay_while_another_cloud_is_changed(self) -> None:
        self.note('flavor', LAB)
        self.mark('release-lab-host')
        remains.check_records()
        entry = self.note('allocation_ratio', OTHER)
        error = self.assertRaises(errors.InputError, remains.check_records)
        self.assertIn(str(entry.path), str(error))
        self.assertIn('https://cloud.example.org:5000', str(error))
        journal.forget(entry)
        remains.check_records()

    def test_records_stay_while_hosts_are_in_use(self) -> None:
        path = self.mark('release-ssh-host')
        error = self.assertRaises(errors.InputError, remains.check_records)
        self.assertIn(str(path), str(error))
        remains.forget_lab()
        self.assertTrue(path.exists())
