# SPDX-License-Identifier: Apache-2.0
"""Keys, lists of keys, and records that they sign."""

import json
import os
import subprocess
import sys
from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.results import record, record_data, signing
from tests.unit.cli.runner import run_command
from tests.unit.results import factory


class Machine(testtools.TestCase):
    """A machine with keys of its own."""

    def setUp(self) -> None:
        super().setUp()
        self.top = Path(self.useFixture(fixtures.TempDir()).path)
        self.machine('here')

    def machine(self, name: str) -> Path:
        """Continue as another machine."""
        keys = self.top / name / 'keys'
        for attribute, path in (
            ('KEYS', keys),
            ('ADMINISTRATOR', self.top / name / 'etc'),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.results.signing.{attribute}', path
                )
            )
        return keys

    def saved(self) -> Path:
        return record.save(factory.run('i2', 0, 100), self.top / 'records')


class SigningTest(Machine):
    """The key pair and the policy."""

    def test_key_is_created_once_and_private(self) -> None:
        old = os.umask(0)
        self.addCleanup(os.umask, old)
        first = signing.sign(signing.RECORD, 'x')
        self.assertEqual(first, signing.sign(signing.RECORD, 'x'))
        path = signing.KEYS / signing.PRIVATE
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.assertEqual([], list(signing.KEYS.glob('.new-key-*')))
        path.chmod(0o640)
        error = self.assertRaises(
            errors.MissingPrerequisiteError, signing.own_key
        )
        self.assertIn('other users can read it', str(error))

    def test_files_that_never_end(self) -> None:
        """A FIFO in place of a list of keys blocked every report."""
        signing.own_key()
        for name, read in (
            (signing.PRIVATE, signing.own_key),
            (signing.PUBLIC, signing.own_key),
            (signing.TRUSTED, signing.trusted),
            (signing.REVOKED, signing.own_key),
        ):
            path = signing.KEYS / name
            path.unlink(missing_ok=True)
            os.mkfifo(path, 0o600)
            error = self.assertRaises(errors.HVStackError, read)
            self.assertIn(str(path), str(error))
            path.unlink()

    def test_damaged_private_key(self) -> None:
        signing.own_key()
        path = signing.KEYS / signing.PRIVATE
        for text in ('x\n', path.read_text() + '\0' * 100):
            path.write_text(text)
            error = self.assertRaises(
                errors.MissingPrerequisiteError, signing.own_key
            )
            self.assertEqual(
                f'Cannot use the signing key ({path}): it is not a private '
                'key in PEM format without a passphrase. Restore it, or '
                'delete it to have another one created.',
                str(error),
            )
        path.unlink()
        path.symlink_to(path.name)
        error = self.assertRaises(
            errors.MissingPrerequisiteError, signing.own_key
        )
        self.assertIn('Too many levels of symbolic links. R', str(error))

    def test_the_first_of_two_processes_creates_the_key(self) -> None:
        program = (
            'import pathlib, sys\n'
            'from hvstack.results import signing\n'
            'signing.KEYS = pathlib.Path(sys.argv[1])\n'
            'signing.ADMINISTRATOR = signing.KEYS / "etc"\n'
            'print(signing.sign(signing.RECORD, "x")["key"])\n'
        )
        running = [
            subprocess.Popen(
                [sys.executable, '-c', program, str(signing.KEYS)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        keys = {process.communicate()[0] for process in running}
        self.assertEqual(1, len(keys), keys)

    def test_a_record_says_who_wrote_it(self) -> None:
        path = self.saved()
        loaded = record.load(path)
        own = signing.own_public()
        self.assertEqual('', loaded.unverified)
        self.assertEqual(own.text, loaded.signature['key'])
        self.assertEqual(
            own.text,
            signing.verify(
                signing.RECORD, loaded.canonical(), loaded.signature
            ).text,
        )
        # A signed record is no signed evidence.
        self.assertRaises(
            ValueError,
            signing.verify,
            *(signing.EVIDENCE, loaded.canonical(), loaded.signature),
        )

    def test_storing_signs_nothing_again(self) -> None:
        path = self.saved()
        loaded = record.load(path)
        self.machine('elsewhere')
        copy = record.store(loaded, self.top / 'copy')
        self.assertEqual(path.read_bytes(), copy.read_bytes())
        self.assertEqual(None, signing.own_public())

    def test_another_machine_trusts_and_revokes(self) -> None:
        path = self.saved()
        key = signing.own_public()
        self.machine('elsewhere')
        error = self.assertRaises(errors.InputError, record.load, path)
        self.assertIn(f'signed by {key.fingerprint}', str(error))
        self.assertIn('hvstack key trust', str(error))
        record_ = record.load(path, unsigned=True)
        self.assertIn('which is not trusted', record_.unverified)
        self.assertTrue(signing.trust(signing.parse(key.line)))
        self.assertFalse(signing.trust(key))
        self.assertEqual('', record.load(path).unverified)
        signing.revoke(key)
        for unsigned in (False, True):
            error = self.assertRaises(
                errors.InputError, record.load, path, unsigned
            )
            self.assertIn('revoked key', str(error))
        self.assertRaises(errors.InputError, signing.trust, key)

    def test_the_administrators_lists(self) -> None:
        path = self.saved()
        key = signing.own_public()
        self.machine('elsewhere')
        lists = signing.ADMINISTRATOR
        lists.mkdir(parents=True)
        (lists / signing.TRUSTED).write_text(f'# CI\n\n{key.line}\n')
        self.assertEqual('', record.load(path).unverified)
        (lists / signing.REVOKED).write_text(f'{key.text}\n')
        self.assertRaises(errors.InputError, record.load, path)
        (lists / signing.REVOKED).write_text('ssh-rsa AAAA me\n')
        error = self.assertRaises(errors.InputError, record.load, path)
        self.assertIn(f'{lists / signing.REVOKED}:1', str(error))

    def test_a_revoked_own_key_is_replaced(self) -> None:
        self.saved()
        key = signing.own_public()
        signing.revoke(key)
        records, invalid_records = record.load_usable(self.top / 'records')
        self.assertEqual(([], 1), (records, len(invalid_records)))
        self.assertNotEqual(key.text, signing.sign(signing.RECORD, 'x')['key'])

    def test_older_records_count_on_request(self) -> None:
        path = self.saved()
        data = json.loads(path.read_text())
        del data['signature']
        path.write_text(json.dumps(data))
        error = self.assertRaises(errors.InputError, record.load, path)
        self.assertIn('is not signed. Use --unsigned', str(error))
        self.assertEqual(
            'is not signed', record.load(path, unsigned=True).unverified
        )
        self.useFixture(
            fixtures.EnvironmentVariable('OS_RECORDS__UNSIGNED', 'true')
        )
        self.assertEqual('is not signed', record.load(path).unverified)

    def test_what_programs_printed_is_made_printable(self) -> None:
        record_ = factory.run('i2', 0, 100, reason='\x1b[31mkilled\x00 \ud800')
        path = record.save(record_, self.top / 'records')
        self.assertEqual(
            '\ufffd[31mkilled\ufffd \ufffd', record.load(path).reason
        )

    def test_name_of_a_sweep_that_is_not_valid(self) -> None:
        """Each report names such a record, for none can be its own."""
        path = self.saved()
        data = json.loads(path.read_text())
        for sweep in ('../../etc/x', 7, [], 'x' * 300):
            path.write_text(json.dumps({**data, 'sweep': sweep}))
            _, (invalid,) = record.load_usable(path.parent)
            self.assertEqual('', invalid.sweep)

    def test_the_signed_run_wins(self) -> None:
        """Who cannot sign cannot exclude a run either."""
        path = self.saved()
        data = json.loads(path.read_text())
        del data['signature']
        forged = factory.with_digest(
            factory.edit(
                record_data.from_document(data, 'forged'),
                'id',
                '00000000-0000-4000-8000-000000000000',
            )
        )
        record.store(forged, path.parent)
        records, (invalid,) = record.load_usable(path.parent, unsigned=True)
        self.assertEqual([data['id']], [record_.id for record_ in records])
        self.assertIn(forged.id, invalid.reason)


class KeyCommands(Machine):
    """``hvstack key``, and who imports what."""

    def test_trust_and_revoke(self) -> None:
        status, line, _ = run_command('key', 'show')
        self.assertEqual(0, status)
        file = self.top / 'here.pub'
        file.write_text(line)
        self.machine('elsewhere')
        run_command('key', 'show')
        status, out, _ = run_command('key', 'trust', str(file))
        self.assertEqual((0, ': trusted\n'), (status, out[-10:]))
        _, out, _ = run_command('key', 'list', '-f', 'json')
        rows = json.loads(out)
        self.assertEqual(
            ['trusted, of this machine', 'trusted'],
            [row['Status'] for row in rows],
        )
        fingerprint = rows[1]['Fingerprint']
        self.assertEqual(0, run_command('key', 'revoke', fingerprint)[0])
        _, out, _ = run_command('key', 'list', '-f', 'json')
        self.assertEqual('revoked', json.loads(out)[1]['Status'])
        for args in (('revoke', fingerprint), ('trust', str(self.top))):
            status, _, err = run_command('key', *args)
            self.assertEqual((2, 1), (status, err.count('\n')), err)

    def test_import_names_the_signer(self) -> None:
        record_ = factory.run('bare-metal', 0, 100)
        path = record.save(record_, self.top / 'sent')
        key = signing.own_public()
        self.machine('elsewhere')
        args = ('baseline', 'import', str(path))
        records_option = ('--records', str(self.top / 'records'))
        status, _, err = run_command(*args, *records_option)
        self.assertEqual((2, 1), (status, err.count('\n')), err)
        self.assertIn(key.fingerprint, err)
        signing.trust(key)
        status, _, err = run_command(*args, *records_option)
        self.assertEqual(0, status)
        self.assertIn(f'is signed by {key.fingerprint}', err)
        (copy,) = (self.top / 'records').glob('*.json')
        self.assertEqual(path.read_bytes(), copy.read_bytes())

    def test_reports_say_what_is_not_verified(self) -> None:
        path = self.saved()
        data = json.loads(path.read_text())
        del data['signature']
        path.write_text(json.dumps(data))
        args = ('report', 'quick', '--records', str(path.parent))
        status, _, err = run_command(*args)
        self.assertEqual(2, status)
        self.assertIn('is not signed', err)
        _, out, _ = run_command(*args, '--unsigned', '-f', 'json')
        self.assertIn(
            'Not verified: 1 of 1 records, each of which is not signed.',
            json.loads(out)['notes'],
        )
        _, out, _ = run_command(*args, '--unsigned')
        self.assertIn('Not verified: 1 of 1', out)
