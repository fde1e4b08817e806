# SPDX-License-Identifier: Apache-2.0
"""Key pairs: ours are undone, the user's own stay."""

from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import journal, keypairs, undo
from tests.unit.cloud import fake

URL = f'{fake.NOVA}/os-keypairs'


class KeysTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.conn = self.cloud.connect()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.keypairs.DIRECTORY', self.directory
            )
        )
        self.deleted = self.cloud.http.delete(f'{URL}/mine', status_code=202)

    def set_keypairs(self, *names: str) -> None:
        self.cloud.http.get(
            URL, json={'keypairs': [{'keypair': {'name': n}} for n in names]}
        )

    def holds(self, public_key: str) -> None:
        """Have Nova return a key pair of our name."""
        pair = {'name': 'mine', 'public_key': public_key}
        self.cloud.http.get(f'{URL}/mine', json={'keypair': pair})

    def test_ours(self) -> None:
        self.set_keypairs('mine-too')
        creation = self.cloud.http.post(
            URL, json={'keypair': {'name': 'mine'}}
        )
        path = keypairs.create(self.conn, 'mine')
        self.holds(creation.last_request.json()['keypair']['public_key'])
        sent = creation.last_request.json()['keypair']
        self.assertTrue(sent['public_key'].startswith('ssh-ed25519 '))
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        undo.undo_own([self.conn])
        self.assertEqual(1, self.deleted.call_count)
        self.assertEqual([], list(self.directory.iterdir()))

    def test_without_ssh(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable('PATH', '/nowhere'))
        error = self.assertRaises(
            errors.MissingPrerequisiteError, keypairs.create, self.conn, 'mine'
        )
        self.assertIn('openssh-client', str(error))
        self.assertEqual([], journal.own())

    def test_name_was_used_by_another_process(self) -> None:
        """Its key pair was deleted when this one was undone."""
        self.set_keypairs()
        self.cloud.http.post(URL, status_code=409)
        self.holds('ssh-ed25519 AAAAother of another process')
        self.assertRaises(
            errors.CloudError, keypairs.create, self.conn, 'mine'
        )
        undo.undo_own([self.conn])
        self.assertEqual(0, self.deleted.call_count)
        self.assertEqual([], journal.own())
        self.assertEqual([], list(self.directory.iterdir()))

    def test_file_of_another_process(self) -> None:
        """Its private key was overwritten, and deleted afterwards."""
        self.set_keypairs()
        for names in (('mine',), ('mine.pub',), ('mine', 'mine.pub')):
            for name in names:
                (self.directory / name).write_text('ssh-ed25519 AAAAother')
            error = self.assertRaises(
                errors.InputError, keypairs.create, self.conn, 'mine'
            )
            self.assertIn(f'{self.directory / names[0]} exists', str(error))
            undo.undo_own([self.conn])
            self.assertEqual(
                set(names), {path.name for path in self.directory.iterdir()}
            )
            for name in names:
                path = self.directory / name
                self.assertEqual('ssh-ed25519 AAAAother', path.read_text())
                path.unlink()

    def test_file_that_was_replaced(self) -> None:
        self.set_keypairs()
        self.cloud.http.post(URL, json={'keypair': {'name': 'mine'}})
        self.cloud.http.get(f'{URL}/mine', status_code=404)
        self.cloud.http.get(f'{URL}?name=mine', json={'keypairs': []})
        path = keypairs.create(self.conn, 'mine')
        path.with_name('mine.pub').write_text('ssh-ed25519 AAAAother')
        undo.undo_own([self.conn])
        self.assertTrue(path.exists())

    def test_the_users_own(self) -> None:
        self.set_keypairs('mine')
        error = self.assertRaises(
            errors.InputError, keypairs.create, self.conn, 'mine'
        )
        self.assertIn("'openstack keypair delete mine'", str(error))
        self.assertEqual([], journal.own())
        undo.undo_own([self.conn])
        self.assertEqual(0, self.deleted.call_count)
