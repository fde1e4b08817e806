# SPDX-License-Identifier: Apache-2.0
"""JSON, strictly: errors name file, line and field."""

import json
import os
from functools import partial
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, jsonfile
from tests.unit.call_count import count_calls


class JSONFileTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = directory / 'file.json'

    def load(self, text: str) -> jsonfile.Document:
        self.path.write_text(text, encoding='utf-8')
        return jsonfile.load(self.path)

    def refused(self, text: str, line: int) -> str:
        message = str(self.assertRaises(errors.InputError, self.load, text))
        self.assertIn(f'{self.path}:{line}: ', message)
        return message

    def test_data_and_lines(self) -> None:
        document = self.load('{"a": {"b": 1},\n "c": [1,\n 2.5]}')
        self.assertEqual({'a': {'b': 1}, 'c': [1, 2.5]}, document.data)
        locate = document.source_location()
        self.assertEqual(f'{self.path}:2', locate('c.0'))
        self.assertEqual(f'{self.path}:3', locate('c.1'))

    def test_single_line(self) -> None:
        """The lines of 80 MB of samples would take hours to count."""
        text = json.dumps({'a': list(range(1000))})
        for end in ('', '\n'):
            locate = self.load(f'{text}{end}').source_location()
            self.assertLess(count_calls(partial(locate, 'a.8')), 20)
            self.assertEqual(f'{self.path}:1', locate('a.7'))
        self.assertEqual(
            f'{self.path}:2', self.load(f'\n{text}').source_location()('a.7')
        )

    def test_text_that_is_not_json(self) -> None:
        self.assertIn('column 6', self.refused('{\n"a": x}', 2))
        self.refused('', 1)
        self.refused('{}{}', 1)

    def test_duplicate_keys(self) -> None:
        self.assertIn("'a'", self.refused('{"a": 1,\n"a": 2}', 2))

    def test_numbers_that_are_not_finite(self) -> None:
        for literal in ('NaN', '-Infinity', '1e999', '9' * 5000):
            self.refused(f'{{"b": 1,\n"a": {literal}}}', 2)

    def test_long_numbers(self) -> None:
        for number in ('9' * 21, '-' + '9' * 20):
            self.refused(f'{{"b": 1,\n"a": {number}}}', 2)
        for number in ('9' * 20, '-' + '9' * 19):
            text = f'{{"b": 1,\n"a": {number}}}'
            self.assertEqual(json.loads(text), self.load(text).data)

    def test_depth(self) -> None:
        for depth in (30, 100_000):
            text = '[' * depth + ']' * depth
            exc = self.assertRaises(errors.InputError, self.load, text)
            self.assertIn('nested', str(exc))

    def test_characters(self) -> None:
        for text in ('\\u0000', '\\u001b[31m', '\\ud800', '\\u202e'):
            message = self.refused(f'{{"b": 1,\n"a": "{text}"}}', 2)
            self.assertIn("'a'", message)
            self.assertTrue(message.isprintable(), message)

    def test_quick_look(self) -> None:
        """What the quick look at a document lets pass is valid."""
        for text in ('\x7f', '\x85', '\u2066', '\\u007f', '\\b', '\\\\\\f'):
            for content in (f'{{"a": ["{text}"]}}', f'{{"{text}": 1}}'):
                message = self.refused(content, 1)
                self.assertIn('control character', message)
        for number in ('9' * 310 + '.0', '9' * 299 + 'e99', '-1e309'):
            self.refused(f'{{"a": [[0,\n{number}]]}}', 2)
        many = ', '.join(f'"{index}": {index}' for index in range(100))
        for deep in (
            '1e999',
            '[' * 30 + ']' * 30,
            '{"a":' * 30 + '1' + '}' * 30,
        ):
            self.assertRaises(
                errors.InputError, self.load, f'{{{many}, "a": {deep}}}'
            )
        deepest = '[' * 20 + '1' + ']' * 20
        self.load(deepest)
        self.assertRaises(errors.InputError, self.load, f'[{deepest}]')
        for text in ('1', '"a\\n\\t\\"/"', '[]', '{"\\\\u": {"e999": 1e99}}'):
            self.assertEqual(json.loads(text), self.load(text).data)

    def test_mapping_of_texts(self) -> None:
        self.path.write_text('{"a": "x"}')
        self.assertEqual({'a': 'x'}, jsonfile.load_texts(self.path))
        for text in ('[]', 'null', '{"a": 1}', '{"a": ""}', '{"a": [""]}'):
            self.path.write_text(text)
            exc = self.assertRaises(
                errors.InputError, jsonfile.load_texts, self.path
            )
            self.assertIn(f'{self.path}:1', str(exc))

    def test_file_that_can_be_written_again(self) -> None:
        self.assertEqual({}, jsonfile.load_if_whole(self.path))
        for text in ('', '{', '[]', '{"a": NaN}', '{"a": 1, "a": 2}'):
            self.path.write_text(text)
            self.assertEqual({}, jsonfile.load_if_whole(self.path))
        self.path.unlink()
        os.mkfifo(self.path)
        self.assertEqual({}, jsonfile.load_if_whole(self.path))
