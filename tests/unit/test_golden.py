# SPDX-License-Identifier: Apache-2.0
"""The comparison of stored output with today's."""

from pathlib import Path

import fixtures
import testtools

from tests.golden import compare
from tests.golden.compare import Rename


class GoldenTest(testtools.TestCase):
    def test_names_are_whole_words_and_can_be_exchanged(self) -> None:
        renames = [
            Rename('a', 'b', '*'),
            Rename('b', 'a', '*'),
            Rename('a b', 'phrase', '*'),
            Rename('--most', '--max-trials', '*'),
        ]
        for old, new in (
            ('a: b', 'b: a'),
            ('(a b)', '(phrase)'),
            ('ab a_b', 'ab a_b'),
            ('--most N', '--max-trials N'),
            ('--mostly', '--mostly'),
        ):
            self.assertEqual(new, compare.apply_renames(old, 'x', renames))

    def test_a_scope_is_preferred_to_all(self) -> None:
        renames = [Rename('a', 'one', 'tests.txt'), Rename('a', 'all', '*')]
        for name, new in (('tests.txt', 'one'), ('commands.yaml', 'all')):
            self.assertEqual(new, compare.apply_renames('a', name, renames))

    def test_differences(self) -> None:
        before = {'a': 'old\n', 'gone': 'x\n', 'words/a': 'a phrase\n'}
        after = {'a': 'new\n', 'words/a': 'a sentence\n'}
        renames = [Rename('old', 'new', 'a')]
        lines = list(compare.differences(before, after, renames))
        self.assertEqual(['-x'], lines[3:])
        after['gone'] = 'x\n'
        self.assertEqual([], [*compare.differences(before, after, renames)])
        lines = list(compare.differences(before, after, renames, wording=True))
        self.assertEqual(['-a phrase', '+a sentence'], lines[3:])

    def test_tests_may_be_added_but_not_lost(self) -> None:
        before = {'tests.txt': '# 2 tests\nt.one\nt.two\n'}
        after = {'tests.txt': '# 2 tests\nt.one\nt.three\n'}
        self.assertEqual(
            ['tests.txt: missing: t.two'],
            list(compare.differences(before, after, [])),
        )
        renames = [Rename('t.two', 't.three', 'tests.txt')]
        self.assertEqual([], [*compare.differences(before, after, renames)])

    def test_table_of_renames(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'renames.tsv'
        path.write_text('# comment\n\na\tb c\t*\n')
        self.assertEqual([Rename('a', 'b c', '*')], compare.read_renames(path))
        for text in ('a\tb\n', 'a\t\t*\n', 'a\tb\t*\na\tc\t*\n'):
            path.write_text(text)
            self.assertRaises(ValueError, compare.read_renames, path)
        compare.read_renames()

    def test_stored_output_is_replaced(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        compare.write({'a': '1\n', 'words/b': '2\n'}, directory)
        compare.write({'words/b': '3\n'}, directory)
        self.assertEqual({'words/b': '3\n'}, compare.stored(directory))
