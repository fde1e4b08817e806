# SPDX-License-Identifier: Apache-2.0
"""``hvstack record``, and the commands that read records from a database."""

import json
from pathlib import Path

import fixtures
import testtools

from hvstack.model.target import BARE_METAL
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.record_data import RunRecord
from hvstack.sweep import kept_records, sweep_store
from tests.unit.cli.runner import run_command
from tests.unit.results import factory


class RecordTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.url = f'sqlite:///{self.directory}/records.sqlite'
        self.records_dir = self.directory / 'records'
        for name in ('SWEEPS_DIR', 'RECORDS_DIR'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.sweep.sweep_store.{name}',
                    self.directory / name.removesuffix('_DIR').lower(),
                )
            )

    def save(self) -> list[RunRecord]:
        """Save a sweep with a run of each kind in the directory."""
        store = FileRunStore(self.records_dir)
        return [
            store.append(
                factory.run(
                    *(name, 0, 100),
                    started=f'2026-11-21T0{hour}:00:00Z',
                )
            )
            for hour, name in enumerate((BARE_METAL, 'i1'))
        ]

    def test_progress(self) -> None:
        self.save()
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.results.record_transfer._SAY_SECONDS', -1.0
            )
        )
        _, _, text = run_command(
            'record', 'import', '--records', self.url, str(self.records_dir)
        )
        self.assertIn('0 of 1 sweeps copied', text)

    def test_records_travel(self) -> None:
        first, second = self.save()
        for count in (2, 0):
            status, text, _ = run_command(
                *('record', 'import', '--records', self.url),
                str(self.records_dir),
            )
            self.assertEqual(0, status)
            self.assertIn(f'{count} records copied, {2 - count} ', text)
        other = self.directory / 'other'
        status, _, _ = run_command(
            'record', 'export', '--records', self.url, str(other)
        )
        self.assertEqual(0, status)
        self.assertEqual(
            [first, second], FileRunStore(other).load_records('quick')
        )
        status, _, _ = run_command(
            'record', 'delete', '--records', self.url, first.id
        )
        self.assertEqual(0, status)
        status, _, text = run_command(
            'record', 'delete', '--records', self.url, first.id
        )
        self.assertEqual(2, status)
        self.assertIn(first.id, text)

    def test_deleted_record_is_not_copied_again(self) -> None:
        """Its file remains where the database did not take it at first."""
        first, second = self.save()
        self.useFixture(
            fixtures.EnvironmentVariable('OS_RECORDS__CONNECTION', self.url)
        )
        kept_records.import_records('quick', lambda _: None)
        # The record of another store only.
        run_command('record', 'delete', '--records', self.url, second.id)
        status, _, error = run_command('record', 'delete', first.id)
        self.assertEqual(0, status, error)
        kept_records.import_records('quick', lambda _: None)
        self.assertEqual([second], sweep_store.load_records('quick'))

    def test_commands_show_the_same(self) -> None:
        self.save()
        run_command(
            'record', 'import', '--records', self.url, str(self.records_dir)
        )
        for command in (
            ('report', '--details'),
            ('report', 'quick', '-f', 'json'),
            ('report', '-f', 'html'),
            ('baseline', 'list'),
        ):
            expected = run_command(*command)
            self.assertEqual(0, expected[0], expected)
            self.assertEqual(
                expected, run_command(*command, '--records', self.url)
            )
        expected = run_command('sweep', 'list')
        self.assertIn('quick', expected[1])
        self.useFixture(
            fixtures.EnvironmentVariable('OS_RECORDS__CONNECTION', self.url)
        )
        FileRunStore(self.records_dir).delete(
            FileRunStore(self.records_dir).load_records('quick')[1].id
        )
        self.assertEqual(expected, run_command('sweep', 'list'))

    def test_record_that_is_not_usable(self) -> None:
        self.save()
        for path in self.records_dir.glob('*i1-*.json'):
            path.write_text(path.read_text().replace('"maps":6', '"maps":7'))
        status, text, message = run_command(
            'record', 'import', '--records', self.url, str(self.records_dir)
        )
        self.assertEqual(6, status)
        self.assertIn('1 record copied', text)
        self.assertIn('left out', message)

    def test_sweep_without_a_usable_record(self) -> None:
        self.save()
        run = factory.run('i1', 0, 100, sweep='other')
        FileRunStore(self.records_dir).append(run)
        for path in self.records_dir.glob(f'*{run.id}.json'):
            path.write_text(path.read_text().replace('"maps":6', '"maps":7'))
        for args, count in (
            (('import', '--records', self.url, str(self.records_dir)), 2),
            (('export', str(self.directory / 'all')), 2),
            (('export', '--sweep', 'other', str(self.directory / 'one')), 0),
        ):
            status, text, message = run_command('record', *args)
            self.assertEqual(6, status, message)
            self.assertIn(f'{count} records copied', text)
            self.assertIn('left out', message)
            self.assertIn(run.id, message)

    def test_files_that_are_no_records(self) -> None:
        self.records_dir.mkdir()
        (self.records_dir / 'damaged.json').write_text('{')
        status, _, message = run_command(
            'record', 'export', str(self.directory / 'other')
        )
        self.assertEqual(6, status)
        self.assertIn('damaged.json', message)

    def test_source_that_does_not_exist(self) -> None:
        status, _, text = run_command(
            'record', 'import', str(self.directory / 'absent')
        )
        self.assertEqual(2, status)
        self.assertIn('absent', text)

    def test_source_without_records(self) -> None:
        """A mistyped path of SQLite is an empty database."""
        url = f'sqlite:///{self.directory}/absent.sqlite'
        status, out, text = run_command('record', 'import', url)
        self.assertEqual((2, '', 1), (status, out, text.count('\n')))
        self.assertIn('absent.sqlite', text)

    def test_sweep_that_is_named_twice(self) -> None:
        self.save()
        status, out, _ = run_command(
            *('record', 'export', '--sweep', 'quick', '--sweep', 'quick'),
            str(self.directory / 'other'),
        )
        self.assertEqual(0, status)
        self.assertEqual('2 records copied, 0 copied before\n', out)

    def save_search(self, baseline: str) -> None:
        """Save a sweep with a search and a baseline, and another sweep.

        :param baseline: name of the baseline with which its task compared.
        """
        store = FileRunStore(self.records_dir)
        observations = {'compared_with': baseline} if baseline else {}
        for sweep, name, observed in (
            ('lent', BARE_METAL, {}),
            ('mine', 'i1', observations),
            ('mine-search', 'i1', {}),
            ('other', 'i1', {}),
        ):
            store.append(
                factory.run(name, 0, 100, sweep=sweep, observations=observed)
            )

    def export(self, name: str, sweep: str) -> tuple[list[str], str]:
        """Export a sweep; return the sweeps of the copy, and the messages."""
        directory = self.directory / name
        status, _, error = run_command(
            'record', 'export', '--sweep', sweep, str(directory)
        )
        self.assertEqual(0, status, error)
        return sorted(FileRunStore(directory).list_sweeps()), error

    def test_what_the_report_of_a_sweep_needs(self) -> None:
        for baseline, copied in (
            ('auto', ['lent', 'mine', 'mine-search']),
            ('lent', ['lent', 'mine', 'mine-search']),
            ('', ['mine', 'mine-search']),
            ('deleted', ['mine', 'mine-search']),
        ):
            self.records_dir = self.directory / f'records-{baseline}'
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.sweep.sweep_store.RECORDS_DIR', self.records_dir
                )
            )
            self.save_search(baseline)
            sweeps, error = self.export(f'copy-{baseline}', 'mine')
            self.assertEqual(copied, sweeps, error)
            self.assertEqual(
                baseline == 'deleted',
                "the baseline 'deleted' of sweep 'mine' is left out" in error,
            )
        sweeps, _ = self.export('copy', 'mine-search')
        self.assertEqual(['mine-search'], sweeps)

    def test_sweep_whose_search_is_not_finished(self) -> None:
        run = factory.run('i1', 0, 100, sweep='mine-search')
        FileRunStore(self.records_dir).append(run)
        self.assertEqual(['mine-search'], self.export('copy', 'mine')[0])

    def test_answer_of_a_search_on_another_machine(self) -> None:
        """The marker stays on the machine that measured the sweep."""
        self.save_search('lent')
        message = "the answer of the search of sweep 'mine', which only"
        status, text, error = run_command('report', 'mine')
        self.assertEqual(0, status, error)
        self.assertIn(message, ' '.join(text.split()))
        self.assertNotIn(message, run_command('report', 'other')[1])
        _, text, _ = run_command('report', 'mine', '-f', 'json')
        (reason,) = json.loads(text)['unreadable']
        self.assertIn(message, reason)

    def test_password_on_the_command_line(self) -> None:
        for url in (
            'postgresql://user:the-secret@host/name',
            'postgresql://user:the-secret/x@host/name',
            'postgresql+psycopg://user:x?the-secret@host/name',
            'postgresql://user:x#the-secret@host/name',
            'postgresql://[user:the-secret@host/name',
            'postgresql://host/name?password=the-secret',
            'postgresql://host/name?sslpassword=the-secret',
            'postgresql://host/name?sslmode=require#&password=the-secret',
        ):
            status, _, text = run_command('report', '--records', url)
            self.assertEqual(2, status)
            self.assertIn('.pgpass', text)
            self.assertNotIn('the-secret', text)
        path = self.directory / 'a:b@c'
        status, _, text = run_command(
            'report', '--records', f'sqlite:///{path}/x.sqlite'
        )
        self.assertNotIn('.pgpass', text)
