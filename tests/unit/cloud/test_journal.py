# SPDX-License-Identifier: Apache-2.0
"""The journal knows dead processes from live ones."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, pid_files
from hvstack.cloud import journal


class JournalTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.journal.DIRECTORY', self.directory
            )
        )

    def rewrite(self, entry: journal.JournalEntry, **changes: object) -> None:
        changed = replace(entry, **changes)
        entry.path.write_text(json.dumps(asdict(changed)))

    def test_own(self) -> None:
        entry = journal.note('stack', {'name': 'a'}, 'here')
        self.assertEqual([entry], journal.own())
        self.assertTrue(entry.alive)
        self.assertFalse(entry.abandoned)
        self.assertEqual(0o600, entry.path.stat().st_mode & 0o777)
        journal.forget(entry)
        self.assertEqual([], journal.entries())

    def test_order(self) -> None:
        entries = [journal.note('stack', {'name': n}) for n in 'abc']
        self.assertEqual(entries, journal.entries())

    def test_file_without_entries(self) -> None:
        path = journal.note('stack', {'name': 'a'}).path
        path.write_text('[]\n')
        error = self.assertRaises(errors.InputError, journal.entries)
        self.assertEqual(
            f"Cannot read the journal: {path}:1: 'content' has no entry. "
            'Check the resources in the file, then move it to another '
            'directory.',
            str(error),
        )

    def test_dead_process(self) -> None:
        done = subprocess.run(
            [sys.executable, '-c', 'import os; print(os.getpid())'],
            capture_output=True,
            text=True,
            check=True,
        )
        entry = journal.note('stack', {'name': 'a'})
        self.rewrite(entry, pid=int(done.stdout))
        self.assertTrue(journal.entries()[0].abandoned)
        self.assertEqual([], journal.own())

    def test_another_process_of_that_number(self) -> None:
        entry = journal.note('stack', {'name': 'a'})
        self.rewrite(entry, start=entry.start - 1)
        self.assertTrue(journal.entries()[0].abandoned)

    def test_another_boot(self) -> None:
        entry = journal.note('stack', {'name': 'a'})
        self.rewrite(entry, boot='of yesterday')
        self.assertTrue(journal.entries()[0].abandoned)
        self.assertEqual([], journal.own())

    def test_holders_are_others_that_live(self) -> None:
        first = os.getppid()
        start = pid_files.start_time(first)
        assert start is not None
        for change in (
            {},
            {'pid': first, 'start': start - 1},
            {'pid': first, 'start': start, 'owner': 'cluster a'},
        ):
            self.rewrite(journal.note('stack', {}), **change)
            self.assertEqual(set(), journal.holders(), change)
        self.rewrite(journal.note('stack', {}), pid=first, start=start)
        self.assertEqual({first}, journal.holders())

    def test_handed_over(self) -> None:
        entry = journal.note('stack', {'name': 'a'})
        journal.hand_over([entry], 'cluster a')
        self.assertEqual([], journal.own())
        owned_entries = journal.owned('cluster a')
        self.assertEqual(
            ['a'], [owned_entry.data['name'] for owned_entry in owned_entries]
        )
        self.assertFalse(replace(owned_entries[0], start=1).abandoned)

    def test_order_is_not_the_clocks(self) -> None:
        first = journal.note('stack', {'name': 'a'})
        self.rewrite(first, created_at=first.created_at + 86_400)
        second = journal.note('stack', {'name': 'b'})
        names = [entry.data['name'] for entry in journal.entries()]
        self.assertEqual(['a', 'b'], names)
        self.assertEqual(
            ['b', 'a'],
            [
                entry.data['name']
                for entry in journal.newest_first(journal.entries())
            ],
        )
        self.assertLess(first.sequence, second.sequence)

    def test_entry_of_an_older_release(self) -> None:
        entry = asdict(journal.note('stack', {'name': 'new'}))
        for name in ('sequence', 'namespace'):
            del entry[name]
        entry['made'] = entry.pop('created_at')
        entry['id'], entry['data'] = 'old', {'name': 'old'}
        path = self.directory / '1700000000.123456-stack-old.json'
        path.write_text(json.dumps(entry))
        entries = journal.own()
        names = [entry.data['name'] for entry in entries]
        self.assertEqual(['old', 'new'], names)

    def test_field_of_a_newer_release(self) -> None:
        entry = journal.note('stack', {'name': 'a'})
        content = {**asdict(entry), 'reason': 'of a newer release'}
        entry.path.write_text(json.dumps(content))
        self.assertEqual([entry], journal.entries())

    def test_several_are_handed_over_by_one_rename(self) -> None:
        """Whatever rename a crash comes before, it is all or nothing."""
        noted = [journal.note('stack', {'name': n}) for n in 'abc']
        renames: list[str] = []

        def crash(path: Path, target: Path) -> None:
            renames.append(str(target))
            raise OSError('crash')

        with fixtures.MonkeyPatch('pathlib.Path.replace', crash):
            self.assertRaises(OSError, journal.hand_over, noted, 'cluster a')
        self.assertEqual(1, len(renames))
        self.assertEqual(noted, journal.own())
        journal.hand_over(noted, 'cluster a')
        self.assertEqual(3, len(journal.owned('cluster a')))
        self.assertEqual(1, len(list(self.directory.glob('*.json'))))

    def test_crash_after_the_hand_over(self) -> None:
        """Files of the process that stayed do not bring it back."""
        noted = [journal.note('stack', {'name': n}) for n in 'ab']
        stale = {entry.path: entry.path.read_text() for entry in noted}
        journal.hand_over(noted, 'cluster a')
        for path, text in stale.items():
            path.write_text(text)
        self.assertEqual([], journal.own())
        self.assertEqual(2, len(journal.owned('cluster a')))
        journal.forget(noted[0])
        self.assertEqual(
            ['b'],
            [entry.data['name'] for entry in journal.owned('cluster a')],
        )
        journal.forget(noted[1])
        self.assertEqual([], list(self.directory.glob('*.json')))

    def test_half_written(self) -> None:
        path = self.directory / '1-stack-x.json'
        path.write_text('{"kind": ')
        error = self.assertRaises(errors.InputError, journal.entries)
        self.assertIn(str(path), str(error))
