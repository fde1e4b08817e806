# SPDX-License-Identifier: Apache-2.0
"""Run records in a real PostgreSQL server, which the tests start themselves.

It needs the programs of PostgreSQL (apt install postgresql), but no lab and no
running server; without them, the tests are skipped. All tests together use
about 15 s of CPU time.
"""

import io
import multiprocessing
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import fixtures
from sqlalchemy import delete, insert, text

from hvstack import errors
from hvstack.cli.app import main
from hvstack.model.target import BARE_METAL
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore, iter_records
from hvstack.results.sql_database import FILES, RECORDS
from hvstack.results.sql_rows import build_row
from hvstack.results.sql_run_store import SqlRunStore
from tests.unit.results import factory, store_writers

PASSWORD = 'secret-of-the-database'
#: Maximum number of seconds until the server accepts connections.
START_SECONDS = 120


def find_programs() -> Path | None:
    """Return the directory with the programs of the server."""
    directories = sorted(Path('/usr/lib/postgresql').glob('*/bin'))
    for directory in reversed(directories):
        if (directory / 'initdb').exists():
            return directory
    program = shutil.which('initdb')
    return Path(program).resolve().parent if program else None


class PostgreSQLTest(store_writers.StoreWriters):
    def setUp(self) -> None:
        super().setUp()
        programs = find_programs()
        if programs is None:
            self.skipTest(
                'PostgreSQL is not installed. Run apt install postgresql.'
            )
        self.programs = programs
        # The server refuses to run as root, and needs a short socket path.
        # Not an account of the server, which refuses to run as root.
        unprivileged = pwd.getpwuid(65534).pw_name
        self.user = unprivileged if os.geteuid() == 0 else ''
        self.directory = Path(
            tempfile.mkdtemp(prefix='hvpg-', dir=Path('/tmp'))
        )
        self.addCleanup(shutil.rmtree, self.directory)
        self.keep_state()
        server_dir = self.directory / 'server'
        server_dir.mkdir()
        password_file = server_dir / 'password'
        password_file.write_text(f'{PASSWORD}\n')
        if self.user:
            self.directory.chmod(0o755)
            shutil.chown(server_dir, self.user)
            shutil.chown(password_file, self.user)
        self.server_dir = server_dir
        subprocess.run(
            [
                *self.build_argv('initdb', '-D', 'data', '-U', 'operator'),
                *('-A', 'scram-sha-256', f'--pwfile={password_file}'),
                *('-E', 'UTF8', '--no-sync'),
            ],
            cwd=server_dir,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.start()
        self.addCleanup(self.stop, signal.SIGINT)

    def keep_state(self) -> None:
        """Have records, keys and sweeps of the test only."""
        for name in ('RECORDS_DIR', 'SWEEPS_DIR'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.sweep.sweep_store.{name}', self.directory / name
                )
            )
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.results.signing.KEYS', self.directory / 'keys'
            )
        )

    def build_argv(self, program: str, *args: str) -> list[str]:
        argv = [str(self.programs / program), *args]
        if not self.user:
            return argv
        ids = ('--reuid', self.user, '--regid', 'nogroup', '--clear-groups')
        return ['setpriv', *ids, *argv]

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        self.server = subprocess.Popen(
            [
                *self.build_argv('postgres', '-D', 'data'),
                *('-k', str(self.server_dir), '-c', 'listen_addresses='),
            ],
            cwd=self.server_dir,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.store.list_sweeps()
            except errors.MissingPrerequisiteError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def stop(self, signal_number: int) -> None:
        self.server.send_signal(signal_number)
        self.server.wait(START_SECONDS)

    def build_url(self, *, password: str = PASSWORD, name: str = '') -> str:
        return (
            f'postgresql+psycopg://operator:{password}@/{name or "postgres"}'
            f'?host={self.server_dir}'
        )

    def open_store(self) -> RunStore:
        return self.store

    @property
    def store(self) -> SqlRunStore:
        return SqlRunStore(self.build_url(), self.directory / 'spare')

    def build_sweep(self, sweep: str, hour: int) -> list[RunRecord]:
        return [
            factory.run(
                *(name, index, seconds),
                sweep=sweep,
                started=f'2026-11-{index + 1}1T{hour:02}:{minute}0:00Z',
            )
            for index in range(2)
            for minute, (name, seconds) in enumerate(
                ((BARE_METAL, 100.0), ('i1', 110.0 + index))
            )
        ]

    def fork(self, function: Callable[..., object], *args: object) -> int:
        """Run a function in another process, and return its exit status."""
        process = multiprocessing.get_context('fork').Process(
            target=function, args=args
        )
        process.start()
        process.join(START_SECONDS)
        self.assertIsNotNone(process.exitcode)
        return int(process.exitcode or 0)

    def run_command(self, *argv: str) -> str:
        stdout, stderr = io.StringIO(), io.StringIO()
        with redirect_stdout(stdout), redirect_stderr(stderr):
            status = main(list(argv))
        self.assertEqual(0, status, stderr.getvalue())
        self.assertNotIn(PASSWORD, stdout.getvalue() + stderr.getvalue())
        return stdout.getvalue()

    def test_reports_are_the_same(self) -> None:
        directory = self.directory / 'RECORDS_DIR'
        file_store = FileRunStore(directory)
        for hour, sweep in enumerate(('first', 'second', 'third')):
            for run_record in self.build_sweep(sweep, hour):
                file_store.append(run_record)
        sqlite = f'sqlite:///{self.directory}/records.sqlite'
        texts = []
        for url in (None, sqlite, self.build_url()):
            if url:
                self.useFixture(
                    fixtures.EnvironmentVariable('OS_RECORDS__CONNECTION', url)
                )
                for count in (12, 0):
                    self.assertIn(
                        f'{count} records copied',
                        self.run_command('record', 'import', str(directory)),
                    )
            texts.append(
                [
                    self.run_command('report', '--details'),
                    self.run_command('report', 'first', '-f', 'json'),
                    self.run_command('baseline', 'list', '-f', 'json'),
                    self.run_command('sweep', 'list', '-f', 'json'),
                ]
            )
        self.assertIn('bare metal', texts[0][0])
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[0], texts[2])
        again = self.directory / 'again'
        self.run_command('record', 'export', str(again))
        self.assertEqual(
            sorted(path.name for path in directory.glob('*.json')),
            sorted(path.name for path in again.glob('*.json')),
        )

    def test_writers_at_once(self) -> None:
        def write(sweep: str, hour: int) -> None:
            for run_record in self.build_sweep(sweep, hour):
                self.store.append(run_record)

        shared = [
            self.store.append(run_record)
            for run_record in self.build_sweep('shared', 1)
        ]

        for run_record in shared:
            self.store.delete(run_record.id)
        context = multiprocessing.get_context('fork')
        is_stored = context.Event()

        def add() -> None:
            is_stored.wait(START_SECONDS)
            self.store.add(shared, {})

        writers = [
            *(
                context.Process(target=write, args=(f'sweep-{hour}', hour))
                for hour in (3, 5)
            ),
            context.Process(target=add),
        ]
        for writer in writers:
            writer.start()
        # Another process imports the same records at the same time.
        with self.store.database.write() as connection:
            connection.execute(insert(RECORDS), list(map(build_row, shared)))
            is_stored.set()
            time.sleep(1)
        for writer in writers:
            writer.join(START_SECONDS)
            self.assertEqual(0, writer.exitcode)
        self.assertEqual(12, len(list(self.store.list_all_runs())))

    def test_killed_writer(self) -> None:
        for run_record in self.build_sweep('first', 1):
            self.store.append(run_record)
        before = list(iter_records(self.store))

        def write() -> None:
            with self.store.database.write() as connection:
                connection.execute(delete(RECORDS))
                connection.execute(insert(FILES).values(name='x', content='y'))
                os.kill(os.getpid(), signal.SIGKILL)

        self.assertEqual(-signal.SIGKILL, self.fork(write))
        self.assertFalse(self.store.has_text('x'))
        self.assertEqual(before, list(iter_records(self.store)))
        self.store.append(self.build_sweep('second', 3)[0])
        self.assertEqual(['first', 'second'], self.store.list_sweeps())

    def test_lost_connection(self) -> None:
        store = self.store
        (first, second, *_) = self.build_sweep('first', 1)
        store.append(first)

        def write() -> None:
            with store.database.write() as connection:
                connection.execute(delete(RECORDS))
                self.stop(signal.SIGQUIT)
                connection.execute(text('SELECT 1'))

        for call in (write, lambda: store.append(second)):
            error = self.assertRaises(errors.MissingPrerequisiteError, call)
            self.assertNotIn('\n', str(error))
            self.assertIn('Check that the server runs', str(error))
            self.assertNotIn(PASSWORD, str(error))
        self.start()
        self.assertEqual(1, len(store.load_records('first')))
        # The record that the server did not take is in a file.
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_RECORDS__CONNECTION', self.build_url()
            )
        )
        self.run_command('record', 'import', str(self.directory / 'spare'))
        self.assertEqual(2, len(store.load_records('first')))

    def test_wrong_urls(self) -> None:
        for url, remedy in (
            (self.build_url(password='wrong-secret'), '~/.pgpass'),
            (
                f'postgresql://operator@/postgres?host={self.server_dir}'
                '&password=wrong-secret',
                '~/.pgpass',
            ),
            (self.build_url(name='absent'), 'Create the database'),
        ):
            store = SqlRunStore(url, self.directory)
            error = self.assertRaises(
                errors.MissingPrerequisiteError, store.list_sweeps
            )
            self.assertIn(remedy, str(error))
            self.assertNotIn('secret', str(error))
            self.assertNotIn('\n', str(error))
