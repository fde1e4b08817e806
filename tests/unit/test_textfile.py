# SPDX-License-Identifier: Apache-2.0
"""Text files of others: only regular ones, of a sane size, in UTF-8."""

import os
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, textfile


class TextFileTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.top = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.top / 'file'

    def refused(self, path: Path) -> str:
        exc = self.assertRaises(errors.InputError, textfile.read, path, 100)
        return str(exc)

    def test_text(self) -> None:
        self.path.write_text('ü\n', encoding='utf-8')
        self.assertEqual('ü\n', textfile.read(self.path))

    def test_a_fifo_does_not_block(self) -> None:
        os.mkfifo(self.path)
        self.assertIn('FIFO', self.refused(self.path))

    def test_types_that_have_no_end(self) -> None:
        for path in (Path('/dev/zero'), self.top):
            self.assertIn('not a regular file', self.refused(path))

    def test_large_files(self) -> None:
        with self.path.open('wb') as stream:
            stream.truncate(2**40)
        self.assertIn('larger than 100 bytes', self.refused(self.path))

    def test_large_files_that_claim_to_be_empty(self) -> None:
        path = Path('/proc/self/smaps')
        self.assertEqual(0, path.stat().st_size)
        self.assertIn('larger', self.refused(path))

    def test_bytes_that_are_not_text(self) -> None:
        self.path.write_bytes(b'a\nb\xff')
        self.assertIn(f'{self.path}:2: ', self.refused(self.path))

    def test_names_that_cannot_be_files(self) -> None:
        for name in ('x' * 300, 'a\0b'):
            path = self.top / name
            self.assertFalse(textfile.is_regular(path))
            self.assertIn('Cannot read', self.refused(path))
        self.path.symlink_to('file')
        self.assertIn('symbolic links', self.refused(self.path))

    def test_a_missing_file_has_its_own_error(self) -> None:
        self.assertRaises(textfile.MissingFileError, textfile.read, self.path)

    def test_printable(self) -> None:
        self.assertEqual(
            '\\x1b[31mü\\x9b\\u202e\\ud800\t\n',
            textfile.printable('\x1b[31mü\x9b\u202e\ud800\t\n'),
        )
