# SPDX-License-Identifier: Apache-2.0
"""Records that a database did not take for a moment."""

from pathlib import Path

import fixtures
import testtools

from hvstack.results.file_run_store import FileRunStore
from hvstack.results.run_id import format_search_name
from hvstack.sweep import kept_records, sweep_store
from tests.unit.results import factory
from tests.unit.sweep.directories import SweepDirectories


class KeptRecordsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = self.useFixture(SweepDirectories()).path
        self.files = FileRunStore(sweep_store.RECORDS_DIR)
        self.lines: list[str] = []

    def import_records(self) -> None:
        kept_records.import_records('s', self.lines.append)

    def count_records(self) -> int:
        return len(sweep_store.open_store().list_all_runs())

    def set_database(self, path: Path) -> None:
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_RECORDS__CONNECTION', f'sqlite:///{path}'
            )
        )

    def test_records_of_the_sweep_alone(self) -> None:
        self.set_database(self.directory / 'x.sqlite')
        for index, sweep in enumerate(('s', format_search_name('s'), 'other')):
            self.files.append(factory.run('i1', index, 50, sweep=sweep))
        for _ in range(2):
            self.import_records()
            self.assertEqual(2, self.count_records())
        (line,) = self.lines
        self.assertIn('2 records copied', line)

    def test_record_that_the_database_has(self) -> None:
        """The clean-up of the cluster had more to say about it."""
        self.set_database(self.directory / 'x.sqlite')
        first = sweep_store.open_store().append(
            factory.run('i1', 0, 50, sweep='s')
        )
        self.files.append(factory.tell(first, allocation_ratio={}))
        later = '2026-11-22T05:45:00Z'
        self.files.append(factory.run('i1', 1, 50, sweep='s', started=later))
        self.import_records()
        records = sweep_store.open_store().load_records('s')
        self.assertEqual({0, 1}, {record.index for record in records})
        self.assertIn(first, records)

    def test_no_database(self) -> None:
        self.files.append(factory.run('i1', 0, 50, sweep='s'))
        self.import_records()
        self.assertEqual([], self.lines)
        self.assertEqual(1, self.count_records())

    def test_no_file(self) -> None:
        self.set_database(self.directory / 'x.sqlite')
        self.import_records()
        self.assertEqual(0, self.count_records())
