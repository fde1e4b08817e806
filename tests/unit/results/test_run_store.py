# SPDX-License-Identifier: Apache-2.0
"""The index of run records serves scheduling, and is never believed alone."""

import json
from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.model.target import BARE_METAL
from hvstack.results import record, signing
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.history import collect_earlier
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import (
    IndexedRun,
    RunStore,
    StoredSweeps,
    iter_records,
)
from tests.unit.results import factory


class StoreTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.records_dir = self.directory / 'records'
        self.reads: list[str] = []
        read_usable = record.read_usable

        def count(path: Path, policy: signing.Policy) -> object:
            self.reads.append(path.name)
            return read_usable(path, policy)

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.results.record.read_usable', count)
        )

    @property
    def store(self) -> FileRunStore:
        """A store as another process would open it."""
        return FileRunStore(self.records_dir)

    def append(self, index: int, *, reason: str = '') -> RunRecord:
        return self.store.append(
            factory.run(
                *(BARE_METAL, index, 100),
                started=f'2026-11-21T0{index}:00:00Z',
                reason=reason,
            )
        )

    def list_runs(self) -> list[IndexedRun]:
        self.reads.clear()
        return self.store.list_runs('quick')

    def path(self, run_record: RunRecord) -> Path:
        (path,) = self.records_dir.glob(f'*{run_record.id}.json')
        return path

    def test_runs_are_listed_without_reading_records(self) -> None:
        store: RunStore = self.store
        self.assertEqual([], store.list_runs('quick'))
        first, second = self.append(0), self.append(1, reason='killed')
        runs = self.list_runs()
        self.assertEqual([], self.reads)
        self.assertEqual([first.run, second.run], [r.run_id for r in runs])
        self.assertEqual([True, False], [run.valid for run in runs])
        self.assertEqual([first.rate, 0.0], [run.rate for run in runs])
        self.assertEqual([], self.store.list_runs('other'))

    def test_only_the_new_record_is_read(self) -> None:
        for index in range(3):
            self.append(index)
        factory.save(
            factory.run(BARE_METAL, 3, 100, started='2026-11-21T03:00:00Z'),
            self.records_dir,
        )
        self.assertEqual(4, len(self.list_runs()))
        self.assertEqual(1, len(self.reads))
        self.list_runs()
        self.assertEqual([], self.reads)

    def test_index_that_is_not_usable_is_built_again(self) -> None:
        self.append(0)
        expected = self.list_runs()
        index = self.store.index_path
        whole = json.loads(index.read_text())
        (name,) = whole['entries']
        for text in (
            None,
            '',
            '{',
            '[]',
            json.dumps({**whole, 'policy': 'another'}),
            json.dumps({**whole, 'entries': {name: {'run': 1}}}),
            json.dumps({**whole, 'entries': []}),
        ):
            index.unlink()
            if text is not None:
                index.write_text(text)
            self.assertEqual(expected, self.list_runs())
            self.assertEqual([name], self.reads, text)
            self.assertEqual(whole, json.loads(index.read_text()))

    def test_directory_is_right(self) -> None:
        first, second = self.append(0), self.append(1)
        self.path(first).unlink()
        self.assertEqual([second.run], [r.run_id for r in self.list_runs()])
        self.assertEqual([], self.reads)
        path = self.path(second)
        path.write_text(path.read_text().replace('"maps":6', '"maps":7'))
        error = self.assertRaises(errors.InputError, self.list_runs)
        self.assertIn('edited', str(error))
        # A record that is not usable is read each time.
        self.assertRaises(errors.InputError, self.list_runs)
        self.assertEqual([path.name], self.reads)

    def test_usable_records_are_read_once(self) -> None:
        first, second = self.append(0), self.append(1)
        store = self.store
        self.assertEqual([first, second], list(iter_records(store)))
        count = store.read_count
        self.assertEqual([first, second], store.read_sweep('quick')[0])
        self.assertEqual([], store.read_sweep('other')[0])
        self.assertEqual(count, store.read_count)
        path = self.path(second)
        path.write_text(path.read_text().replace('"maps":6', '"maps":7'))
        self.assertEqual([first], list(iter_records(store)))

    def test_repeated_run_is_refused(self) -> None:
        self.append(0)
        other = factory.run(BARE_METAL, 0, 100, started='2026-11-21T05:00:00Z')
        self.store.append(other)
        for _ in range(2):
            error = self.assertRaises(errors.InputError, self.list_runs)
            self.assertIn('never repeated', str(error))

    def test_other_keys(self) -> None:
        self.append(0)
        keys = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.results.signing.KEYS', keys)
        )
        error = self.assertRaises(errors.InputError, self.list_runs)
        self.assertIn('not trusted', str(error))

    def test_reported_records_are_checked(self) -> None:
        first = self.append(0)
        (run,) = self.list_runs()
        self.assertEqual(first, self.store.load_run(run))
        self.assertEqual([first], self.store.load_records('quick'))
        index = self.store.index_path
        forged = index.read_text().replace('"valid": true', '"valid": false')
        index.write_text(forged)
        self.assertEqual([first], self.store.load_records('quick'))
        path = self.path(first)
        path.write_text(path.read_text().replace('"maps":6', '"maps":7'))
        for call in (
            lambda: self.store.load_run(run),
            lambda: self.store.load_records('quick'),
        ):
            self.assertIn(
                'edited', str(self.assertRaises(errors.InputError, call))
            )

    def test_a_store_reads_a_record_once(self) -> None:
        self.append(0)
        store = self.store
        self.reads.clear()
        for _ in range(2):
            store.load_records('quick')
        self.assertEqual(1, len(self.reads))
        path = self.path(store.load_records('quick')[0])
        path.write_text(path.read_text().replace('"maps":6', '"maps":7'))
        self.assertRaises(errors.InputError, store.load_records, 'quick')

    def test_later_sweeps_are_not_read_for_the_history(self) -> None:
        factory.append_sweeps(self.store, 52)
        own = self.store.read_sweep('sweep-1')[0]
        store = self.store
        self.reads.clear()
        collect_earlier(StoredSweeps(store), own, own[0].size_bytes)
        # The earlier sweep, the own one, and an example of the system.
        self.assertGreaterEqual(4, len(self.reads))
        sweeps = self.store.iter_sweeps(ended_by=own[0].ended)
        self.assertEqual(
            ['sweep-1', 'sweep-0'], [records[0].sweep for records in sweeps]
        )

    def test_lists_of_keys_are_read_once_for_all_records(self) -> None:
        for index in range(3):
            self.append(index)
        policies: list[signing.Policy] = []
        load_policy = signing.policy

        def count(unsigned: bool | None = None) -> signing.Policy:
            policies.append(load_policy(unsigned))
            return policies[-1]

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.results.signing.policy', count)
        )
        for read in (
            lambda: self.store.load_records('quick'),
            lambda: self.store.read_sweep('quick')[0],
            lambda: next(self.store.iter_sweeps()),
            lambda: self.store.read_baselines('quick')[0],
        ):
            policies.clear()
            self.assertEqual(3, len(read()))
            self.assertEqual(1, len(policies))

    def test_index_that_cannot_be_written(self) -> None:
        self.records_dir.mkdir()
        self.store.index_path.parent.write_text('a file')
        run_record = self.append(0)
        self.assertEqual(
            [run_record.run], [run.run_id for run in self.list_runs()]
        )

    def test_directory_that_is_only_read(self) -> None:
        run_record = self.append(0)
        self.store.index_path.unlink()
        store = FileRunStore(self.records_dir, keep_index=False)
        for _ in range(2):
            (run,) = store.list_runs('quick')
            self.assertEqual(run_record.run, run.run_id)
        self.assertFalse(self.store.index_path.exists())

    def test_index_of_many_records(self) -> None:
        self.append(0)
        index = self.store.index_path
        # As large as the index of 40,000 records.
        index.write_text(index.read_text() + ' ' * (17 * 1024 * 1024))
        self.assertEqual(1, len(self.list_runs()))
        self.assertEqual([], self.reads)

    def test_deletion_takes_a_whole_id(self) -> None:
        first, second = self.append(0), self.append(1)
        for record_id in (first.id[-4:], '', f'../{first.id}'):
            self.assertRaises(errors.InputError, self.store.delete, record_id)
        self.store.delete(first.id)
        self.assertEqual([second], self.store.load_records('quick'))
        self.assertEqual([second.run], [r.run_id for r in self.list_runs()])
