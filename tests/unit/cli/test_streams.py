# SPDX-License-Identifier: Apache-2.0
"""Output that cannot control a terminal, and values of options."""

import argparse
import io
from pathlib import Path

import testtools

from hvstack.cli import arguments
from hvstack.cli.streams import PrintableStream


class StreamTest(testtools.TestCase):
    def test_control_characters_are_escaped(self) -> None:
        raw = io.StringIO()
        PrintableStream(raw).write('\x1b]0;title\x07ü\n')
        self.assertEqual('\\x1b]0;title\\x07ü\n', raw.getvalue())

    def test_characters_that_the_encoding_lacks(self) -> None:
        content = io.BytesIO()
        stream = PrintableStream(io.TextIOWrapper(content, 'ascii'))
        stream.write('ü\ud800\n')
        stream.flush()
        self.assertEqual(b'\\xfc\\ud800\n', content.getvalue())


class ArgumentsTest(testtools.TestCase):
    def test_counts(self) -> None:
        self.assertEqual(12, arguments.count('12'))
        for text in ('', '--1', '1.5', 'nan', '1_0', ' 1', '\u0663', '9' * 50):
            self.assertRaises(
                argparse.ArgumentTypeError, arguments.count, text
            )

    def test_numbers(self) -> None:
        self.assertEqual(1.5, arguments.number('1.5'))
        for text in ('', '--1', 'nan', 'inf', '1e3', '1.', '\u0663', '9' * 50):
            self.assertRaises(
                argparse.ArgumentTypeError, arguments.number, text
            )

    def test_paths(self) -> None:
        self.assertEqual(Path('x'), arguments.path('x'))
        for read in (arguments.path, arguments.catalogue):
            self.assertRaises(argparse.ArgumentTypeError, read, '')
