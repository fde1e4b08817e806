# SPDX-License-Identifier: Apache-2.0
"""A database has the same records as a directory, and checks them alike."""

import logging
import multiprocessing
import os
import signal
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import fixtures
import testtools
from sqlalchemy import delete, event, insert

from hvstack import errors, textfile
from hvstack.model.target import BARE_METAL
from hvstack.results import record, skipped, stores, telemetry, telemetry_files
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.history import collect_earlier
from hvstack.results.record_data import RunRecord
from hvstack.results.record_transfer import transfer_records
from hvstack.results.run_store import RunStore, StoredSweeps, iter_records
from hvstack.results.sql_database import FILES, RECORDS
from hvstack.results.sql_run_store import SqlRunStore
from tests.unit.results import factory


def run_bare_metal(index: int, sweep: str = 'quick') -> RunRecord:
    return factory.run(
        *(BARE_METAL, index, 100),
        sweep=sweep,
        started=f'2026-11-21T0{index}:00:00Z',
    )


class SqlStoreTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.file = self.directory / 'deep' / 'records.sqlite'
        self.url = f'sqlite:///{self.file}'
        self.spare_dir = self.directory / 'spare'

    @property
    def store(self) -> SqlRunStore:
        """A store as another process would open it."""
        return SqlRunStore(self.url, self.spare_dir)

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            yield connection

    def execute(self, statement: str, *values: object) -> None:
        """Change the database without hvstack."""
        with self.connect() as connection:
            connection.execute(statement, values)

    def append(self, index: int, sweep: str = 'quick') -> RunRecord:
        return self.store.append(run_bare_metal(index, sweep))

    def test_nothing_is_created_to_read(self) -> None:
        store: RunStore = self.store
        self.assertEqual([], store.list_runs('quick'))
        self.assertEqual([], store.list_all_runs())
        self.assertEqual([], store.list_sweeps())
        self.assertEqual([], store.load_records('quick'))
        self.assertEqual(([], []), store.read_baselines())
        self.assertEqual('', store.find_last_sweep())
        self.assertRaises(
            textfile.MissingFileError, store.read_text, 'skipped/x.json', 9
        )
        self.assertFalse(self.file.exists())

    def test_records_are_those_of_a_directory(self) -> None:
        file_store: RunStore = FileRunStore(self.directory / 'records')
        runs = [
            *(run_bare_metal(index) for index in range(3)),
            factory.run(
                'i1', 0, 60, sweep='other', started='2026-11-21T09:00:00Z'
            ),
            factory.run('i2', 0, 60, reason='killed', sweep='third'),
        ]
        for run_record in runs:
            signed = self.store.append(run_record)
            file_store.add([signed], {})
        store: RunStore = self.store
        for item in (store, file_store):
            self.assertEqual(['other', 'third', 'quick'], item.list_sweeps())
            self.assertEqual('other', item.find_last_sweep())
        for sweep in ('quick', 'other', 'third'):
            self.assertEqual(
                file_store.read_sweep(sweep), store.read_sweep(sweep)
            )
            self.assertEqual(
                file_store.list_runs(sweep), store.list_runs(sweep)
            )
        self.assertEqual(file_store.list_all_runs(), store.list_all_runs())
        self.assertEqual(
            list(iter_records(file_store)), list(iter_records(store))
        )
        self.assertEqual(file_store.read_baselines(), store.read_baselines())
        for name, count in (('quick', 3), (runs[0].id, 1), ('other', 0)):
            self.assertEqual(count, len(store.read_baselines(name)[0]))
        for run in store.list_all_runs():
            self.assertEqual(file_store.load_run(run), store.load_run(run))
        with self.connect() as connection:
            documents = connection.execute(
                'SELECT document FROM hvstack_records ORDER BY document'
            ).fetchall()
        self.assertEqual(
            sorted(
                path.read_text()
                for path in record.list_files(self.directory / 'records')
            ),
            [document for (document,) in documents],
        )

    def test_last_usable_sweep(self) -> None:
        self.append(0)
        last = self.append(1, 'last')
        self.assertEqual('last', self.store.find_last_sweep())
        self.assertEqual('', self.store.find_last_sweep(is_configured=True))
        self.execute(
            'UPDATE hvstack_records SET document = ? WHERE id = ?',
            *('{}', last.id),
        )
        self.assertEqual('quick', self.store.find_last_sweep())

    def test_runs_are_listed_without_reading_records(self) -> None:
        self.append(0)
        store = self.store
        (run,) = store.list_runs('quick')
        self.assertEqual([run], store.list_all_runs())
        self.assertEqual(0, store.read_count)

    def test_a_slow_reader_does_not_stop_writers(self) -> None:
        self.append(0)
        self.append(1)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.results.sql_database._LOCK_SECONDS', 0
            )
        )
        written: list[RunRecord] = []
        verify = record.verify_record

        def verify_slowly(*args: object) -> object:
            # Another process stores a record while this one is checked.
            written.append(self.append(2 + len(written)))
            return verify(*args)

        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.results.record.verify_record', verify_slowly
            )
        )
        self.assertEqual(2, len(self.store.read_baselines()[0]))
        self.assertEqual(2, len(written))

    def test_last_of_many_records(self) -> None:
        self.append(0, 'usable')
        for index in range(1, 10):
            self.append(index, f'sweep-{index % 3}')
        self.execute(
            "UPDATE hvstack_records SET document = '{}' "
            "WHERE sweep != 'usable'"
        )
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.results.sql_run_store._CHUNK', 2)
        )
        store = self.store
        self.assertEqual('usable', store.find_last_sweep())
        # Each sweep is read once.
        self.assertEqual(10, store.read_count)
        store.delete(store.read_sweep('usable')[0][0].id)
        self.assertEqual('', store.find_last_sweep())

    def test_selected_systems(self) -> None:
        for index, sweep in enumerate(('first', 'second', 'third')):
            self.store.append(
                factory.run(
                    *(BARE_METAL, 0, 100),
                    sweep=sweep,
                    started=f'2026-11-21T0{index}:00:00Z',
                    cpu_model=sweep,
                )
            )
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.results.sql_run_store._CHUNK', 2)
        )
        sweeps = self.store.iter_sweeps(
            lambda run_record: run_record.sweep != 'second'
        )
        self.assertEqual(
            ['third', 'first'], [records[0].sweep for records in sweeps]
        )

    def test_later_sweeps_are_not_read_for_the_history(self) -> None:
        factory.append_sweeps(self.store, 52)
        own = self.store.read_sweep('sweep-1')[0]
        store = self.store
        collect_earlier(StoredSweeps(store), own, own[0].size_bytes)
        # The earlier sweep, the own one, and an example of the system.
        self.assertGreaterEqual(4, store.read_count)
        sweeps = self.store.iter_sweeps(ended_by=own[0].ended)
        self.assertEqual(
            ['sweep-1', 'sweep-0'], [records[0].sweep for records in sweeps]
        )

    def test_edited_records_are_refused(self) -> None:
        first, second = self.append(0), self.append(1)
        for statement, reason in (
            ("document = replace(document, '6,', '7,')", 'edited'),
            ("document = '{'", 'JSON'),
            ('rate = rate * 2', "'rate'"),
            ('valid = 0', "'valid'"),
            ('digest = 0', "'digest'"),
        ):
            self.execute(' '.join(['UPDATE hvstack_records SET', statement]))
            records, invalid_records = self.store.read_sweep('quick')
            self.assertEqual([], records, statement)
            self.assertEqual(2, len(invalid_records))
            self.assertIn(reason, invalid_records[0].reason)
            self.assertIn('hvstack record delete', invalid_records[0].reason)
            self.assertRaises(
                errors.InputError, self.store.load_records, 'quick'
            )
            self.assertEqual([], list(iter_records(self.store)))
            self.assertEqual([], self.store.read_baselines()[0])
            for run_record in (first, second):
                self.store.delete(run_record.id)
            self.store.add([first, second], {})

    def test_repeated_run_is_refused(self) -> None:
        self.append(0)
        self.store.append(
            factory.run(BARE_METAL, 0, 100, started='2026-11-21T05:00:00Z')
        )
        for call in (self.store.list_runs, self.store.load_records):
            error = self.assertRaises(errors.InputError, call, 'quick')
            self.assertIn('never repeated', str(error))
        self.assertEqual([], self.store.read_baselines()[0])

    def test_other_keys(self) -> None:
        run_record = self.append(0)
        keys = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.results.signing.KEYS', keys)
        )
        for call in (self.store.list_runs, self.store.load_records):
            error = self.assertRaises(errors.InputError, call, 'quick')
            self.assertIn('not trusted', str(error))
        self.assertEqual([], self.store.list_all_runs())
        store = SqlRunStore(self.url, self.spare_dir, unsigned=True)
        (unverified,) = store.load_records('quick')
        self.assertEqual(run_record.id, unverified.id)
        (run,) = store.list_all_runs()
        self.assertIn('not trusted', run.unverified)

    def test_record_is_replaced_and_deleted(self) -> None:
        first = self.append(0)
        changed = self.store.append(factory.tell(first, pass_=1))
        self.assertEqual([changed], self.store.load_records('quick'))
        name = telemetry_files.build_name(first)
        self.store.write_text(name, '{}')
        self.store.delete(first.id)
        self.assertEqual([], self.store.load_records('quick'))
        self.assertFalse(self.store.has_text(name))
        self.assertRaises(errors.InputError, self.store.delete, first.id)

    def transfer(self, source: RunStore, target: RunStore) -> tuple[int, ...]:
        result = transfer_records(source, target, [], self.lines.append)
        return result.stored, result.existing, result.invalid

    def test_transfer(self) -> None:
        self.lines: list[str] = []
        source = FileRunStore(self.directory / 'records')
        node_telemetry = telemetry.Telemetry('sysstat', 5.0, [], [])
        run_record = run_bare_metal(0)
        summary = telemetry_files.save(node_telemetry, source, run_record.id)
        first = source.append(factory.tell(run_record, telemetry=summary))
        second = source.append(run_bare_metal(1, 'other'))
        skipped.save_skip(source, 'quick', 'i9', 'no room')
        other = FileRunStore(self.directory / 'again')
        for count in (0, 2):
            expected = (2 - count, count, 0)
            self.assertEqual(expected, self.transfer(source, self.store))
            self.assertEqual(expected, self.transfer(self.store, other))
        for store in (self.store, other):
            self.assertEqual([second, first], list(iter_records(store)))
            self.assertEqual(
                node_telemetry, telemetry_files.load(first, store)
            )
            self.assertEqual(
                {'i9': 'no room'}, skipped.load_skips(store, 'quick')
            )
        self.assertRaises(
            errors.InputError,
            *(transfer_records, source, other, ['absent'], self.lines.append),
        )
        self.assertEqual([], self.lines)

    def test_transfer_of_large_telemetry(self) -> None:
        """The texts of all records would not fit in memory."""
        self.lines = []
        self.useFixture(
            fixtures.MockPatch(
                'hvstack.results.record_transfer._CHUNK_BYTES', 1
            )
        )
        source = FileRunStore(self.directory / 'records')
        node_telemetry = telemetry.Telemetry('sysstat', 5.0, [], [])
        for index in range(3):
            run_record = run_bare_metal(index)
            summary = telemetry_files.save(
                node_telemetry, source, run_record.id
            )
            source.append(factory.tell(run_record, telemetry=summary))
        counts: list[int] = []
        add = SqlRunStore.add

        def count_texts(store, records, texts):
            counts.append(len(texts))
            return add(store, records, texts)

        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.results.sql_run_store.SqlRunStore.add', count_texts
            )
        )
        self.assertEqual((3, 0, 0), self.transfer(source, self.store))
        self.assertEqual([1, 1, 1], counts)

    def test_transfer_examines_a_directory_once(self) -> None:
        self.lines = []
        source = FileRunStore(self.directory / 'records')
        for index in range(3):
            source.append(run_bare_metal(index, f'sweep-{index}'))
        calls: list[Path] = []
        list_files = record.list_files

        def count(records_dir: Path) -> list[Path]:
            calls.append(records_dir)
            return list_files(records_dir)

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.results.record.list_files', count)
        )
        self.assertEqual((3, 0, 0), self.transfer(source, self.store))
        # For the names of the sweeps, and for all records.
        self.assertEqual(2, len(calls))

    def test_transfer_refuses_another_record(self) -> None:
        self.lines = []
        source = FileRunStore(self.directory / 'records')
        first = source.append(run_bare_metal(0))
        source.append(run_bare_metal(1))
        other = FileRunStore(self.directory / 'other')
        for store in (self.store, other):
            changed = store.append(factory.tell(first, pass_=7))
            error = self.assertRaises(
                errors.InputError, self.transfer, source, store
            )
            self.assertIn(
                'hvstack record delete --records '
                f'{store.describe()} {first.id}',
                str(error),
            )
            self.assertEqual([changed], store.load_records('quick'))

    def test_transfer_of_restored_ratios(self) -> None:
        """The clean-up of a cluster adds them to records that were copied."""
        self.lines = []
        after = {'hv-host1': {'VCPU': 1.0, 'MEMORY_MB': 1.0}}
        for during in ({}, {'allocation_ratio': {'during': after}}):
            source = FileRunStore(self.directory / f'source-{len(during)}')
            before = source.append(
                factory.run(
                    *('i1', len(during), 100),
                    started=f'2026-11-21T0{len(during)}:00:00Z',
                    observations=during,
                )
            )
            copies = [
                self.store,
                FileRunStore(self.directory / f'copy-{len(during)}'),
            ]
            for store in copies:
                store.add([before], {})
            ratios = {**during.get('allocation_ratio', {}), 'after': after}
            changed = source.append(
                factory.tell(before, allocation_ratio=ratios)
            )
            for store in copies:
                for count in (1, 0):
                    self.assertEqual(count, store.add([changed], {}))
                # A copy from before does not take them away.
                self.assertEqual(0, store.add([before], {}))
                self.assertIn(changed, store.load_records('quick'))
                self.assertNotIn(before, store.load_records('quick'))
                other = source.append(
                    factory.tell(before, allocation_ratio={'after': {}})
                )
                self.assertRaises(errors.InputError, store.add, [other], {})

    def test_file_of_another_name_is_replaced(self) -> None:
        source = FileRunStore(self.directory / 'records')
        before = source.append(factory.run('i1', 0, 100))
        (path,) = record.list_files(source.records_dir)
        path.rename(path.with_name(f'{before.id}.json'))
        changed = FileRunStore(self.directory / 'other').append(
            factory.tell(before, allocation_ratio={'after': {}})
        )
        self.assertEqual(1, source.add([changed], {}))
        self.assertEqual([changed], source.load_records('quick'))

    def test_transfer_names_what_it_leaves_out(self) -> None:
        self.lines = []
        self.append(0)
        self.append(1)
        self.execute('UPDATE hvstack_records SET rate = 1 WHERE number = 1')
        target = FileRunStore(self.directory / 'records')
        self.assertEqual((1, 0, 1), self.transfer(self.store, target))
        (line,) = self.lines
        self.assertIn('left out', line)

    def fork(self, function: Callable[[], object]) -> int:
        """Run a function in another process, and return its exit status."""
        process = multiprocessing.get_context('fork').Process(target=function)
        process.start()
        self.addCleanup(process.kill)
        process.join(60)
        assert process.exitcode is not None
        return process.exitcode

    def test_killed_writer(self) -> None:
        first = self.append(0)

        def write() -> None:
            with self.store.database.write() as connection:
                connection.execute(delete(RECORDS))
                # More than the cache of SQLite, which writes to the file.
                connection.execute(
                    insert(FILES).values(name='x', content='y' * 10**7)
                )
                os.kill(os.getpid(), signal.SIGKILL)

        self.assertEqual(-signal.SIGKILL, self.fork(write))
        self.assertGreater(self.file.stat().st_size, 10**6)
        self.assertFalse(self.store.has_text('x'))
        self.assertEqual([first], self.store.load_records('quick'))
        second = self.append(1)
        self.assertEqual([first, second], self.store.load_records('quick'))

    def test_writers_at_once(self) -> None:
        def write(number: int) -> None:
            for index in range(number, 8, 2):
                self.append(index)

        context = multiprocessing.get_context('fork')
        writers = [
            context.Process(target=write, args=(number,)) for number in (0, 1)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
            self.assertEqual(0, writer.exitcode)
        self.assertEqual(8, len(self.store.load_records('quick')))

    def test_other_schema(self) -> None:
        self.append(0)
        for version, remedy in ((2, 'Update'), (0, 'Export')):
            self.execute(
                'UPDATE hvstack_schema_version SET version = ?', version
            )
            for call in (
                lambda: self.store.load_records('quick'),
                lambda: self.store.write_text('x', 'y'),
            ):
                error = self.assertRaises(errors.InputError, call)
                self.assertIn(f'version {version}', str(error))
                self.assertIn(remedy, str(error))

    def test_urls(self) -> None:
        for url in (
            *('nothing', 'sqlite://', 'sqlite:///:memory:', '://'),
            'mysql://user:secret@host/name',
            'postgresql://user:secret@host:port/name',
        ):
            error = self.assertRaises(
                errors.InputError, SqlRunStore, url, self.spare_dir
            )
            self.assertNotIn('secret', str(error))
            self.assertIn('Use sqlite:', str(error))
        store = SqlRunStore(
            'postgresql://user:secret@host/name', self.spare_dir
        )
        self.assertEqual(
            'postgresql+psycopg://user:***@host/name', store.describe()
        )
        store = SqlRunStore(
            'postgresql://user@host/name?sslmode=require&password=secret'
            '&sslpassword=secret',
            self.spare_dir,
        )
        self.assertEqual(
            'postgresql+psycopg://user@host/name?sslmode=require',
            store.describe(),
        )

    def test_server_that_does_not_answer(self) -> None:
        logged = self.useFixture(fixtures.FakeLogger(level=logging.DEBUG))
        for index, url in enumerate(
            (
                'postgresql://user@127.0.0.1:1/name?password=secret',
                'postgresql://user:secret@127.0.0.1:1/name',
            )
        ):
            store = SqlRunStore(url, self.spare_dir)
            for call, argument in (
                (store.load_records, 'quick'),
                (store.append, run_bare_metal(index)),
            ):
                error = self.assertRaises(
                    errors.MissingPrerequisiteError, call, argument
                )
                self.assertEqual(
                    call == store.append,
                    isinstance(error, errors.RecordNotStoredError),
                )
                text = ''.join(traceback.format_exception(error))
                self.assertNotIn('secret', text + logged.output)
                self.assertNotIn('\n', str(error))
                self.assertIn('Check that the server runs', str(error))
        # The record of the run is not lost.
        spare = FileRunStore(self.spare_dir)
        self.assertEqual(2, len(spare.load_records('quick')))
        self.assertIn('hvstack record import', str(error))

    def test_message_that_quotes_the_password(self) -> None:
        for url in (
            'postgresql://user:the-secret@/name?host=/the-secret',
            'postgresql://user@/name?host=/the-secret&password=the-secret',
        ):
            store = SqlRunStore(url, self.spare_dir)
            error = self.assertRaises(
                errors.MissingPrerequisiteError, store.list_sweeps
            )
            _, _, reason = str(error).partition('): ')
            self.assertIn('/***', reason)
            self.assertNotIn('the-secret', reason)

    def test_files_that_are_no_database(self) -> None:
        self.file.parent.mkdir()
        self.file.write_text('no database ' * 100)
        for call in (
            lambda: self.store.load_records('quick'),
            lambda: self.append(0),
        ):
            error = self.assertRaises(errors.MissingPrerequisiteError, call)
            self.assertIn('Use a file of SQLite', str(error))
        self.url = f'sqlite:///{self.file}/deeper/records.sqlite'
        self.assertRaises(errors.MissingPrerequisiteError, self.append, 0)

    def test_full_disk(self) -> None:
        first = self.append(0)
        store = self.store

        def limit(connection: sqlite3.Connection, _: object) -> None:
            pages = connection.execute('PRAGMA page_count').fetchone()[0]
            connection.execute(f'PRAGMA max_page_count = {pages}')

        event.listen(store.database.engine, 'connect', limit)
        error = self.assertRaises(
            errors.MissingPrerequisiteError,
            *(store.write_text, 'telemetry/x.json', 'y' * 10**6),
        )
        self.assertIn('Make room', str(error))
        self.assertEqual([first], self.store.load_records('quick'))

    def test_option(self) -> None:
        self.assertIsInstance(stores.open_store(), FileRunStore)
        self.useFixture(
            fixtures.EnvironmentVariable('OS_RECORDS__CONNECTION', self.url)
        )
        store = stores.open_store()
        self.assertEqual(self.url, store.describe())
        self.assertIsInstance(stores.open_store(self.directory), FileRunStore)

    def test_option_with_a_relative_path(self) -> None:
        """Each working directory would have a database of its own."""
        url = 'sqlite:///records.sqlite'
        self.useFixture(
            fixtures.EnvironmentVariable('OS_RECORDS__CONNECTION', url)
        )
        error = self.assertRaises(errors.InputError, stores.open_store)
        self.assertIn('[records] connection', str(error))
        self.assertIn('sqlite:////PATH', str(error))
        # On the command line, it is a path like any other.
        self.assertIsInstance(stores.open_store(url), SqlRunStore)

    def test_without_the_extra(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.extras.missing', lambda extra: [f'of {extra}']
            )
        )
        error = self.assertRaises(
            errors.MissingPrerequisiteError, stores.open_store, self.url
        )
        self.assertIn('hvstack[sql]', str(error))
