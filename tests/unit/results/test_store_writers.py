# SPDX-License-Identifier: Apache-2.0
"""A directory and SQLite have whole records, whoever writes and dies."""

from pathlib import Path

import fixtures

from hvstack.results.file_run_store import FileRunStore
from hvstack.results.run_store import RunStore
from hvstack.results.sql_run_store import SqlRunStore
from tests.unit.results import store_writers


class DirectoryWritersTest(store_writers.StoreWriters):
    has_transactions = False

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)

    def open_store(self) -> RunStore:
        return FileRunStore(self.directory / 'records')


class SqliteWritersTest(store_writers.StoreWriters):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)

    def open_store(self) -> RunStore:
        return SqlRunStore(
            f'sqlite:///{self.directory}/records.sqlite',
            self.directory / 'spare',
        )
