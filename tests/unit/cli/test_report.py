# SPDX-License-Identifier: Apache-2.0
"""Test the format and the file of a report."""

import argparse

import testtools

from hvstack import errors
from hvstack.cli import report


class OutputTest(testtools.TestCase):
    def form(self, *args: str) -> str:
        parser = argparse.ArgumentParser()
        report.add_output(parser, report.FORMS)
        return report.get_form(parser.parse_args(args))

    def test_formats(self) -> None:
        for args, form in (
            ((), 'table'),
            (('-f', 'csv', '-o', 'x'), 'csv'),
            (('--html', 'x'), 'html'),
            (('--html', 'x', '-f', 'html'), 'html'),
        ):
            self.assertEqual(form, self.form(*args))

    def test_two_files(self) -> None:
        """The second file was not written, without a message."""
        for args in (
            ('-f', 'table'),
            ('-f', 'json'),
            ('-o', 'y'),
            ('-f', 'json', '-o', 'y'),
        ):
            error = self.assertRaises(
                errors.InputError, self.form, '--html', 'x', *args
            )
            self.assertIn('once for each file', str(error))
