# SPDX-License-Identifier: Apache-2.0
"""Extras are read from the metadata of the installed distribution."""

import sys
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, extras

METADATA = """\
Metadata-Version: 2.4
Name: hvstack
Version: 9.9
Requires-Dist: cliff>=4.7.0
Requires-Dist: absent-load_tester>=5.0.0; extra == "rally"
Requires-Dist: cliff; extra == 'lab'
Requires-Dist: hvstack[lab,rally]; extra == "all"
"""


class Installed(fixtures.Fixture):
    """An installed distribution of its own, first on sys.path."""

    def _setUp(self) -> None:
        self.path = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch('sys.path', [str(self.path), *sys.path])
        )
        extras.packages.cache_clear()
        self.addCleanup(extras.packages.cache_clear)

    def add(self, name: str, version: str, **files: str) -> Path:
        """Write the metadata of a distribution; return its directory."""
        info = self.path / f'{name}-{version}.dist-info'
        info.mkdir()
        for file, text in files.items():
            (info / file.replace('__', '.')).write_text(text)
        return info


class ExtrasTest(testtools.TestCase):
    """What is missing, and which extra brings it."""

    def setUp(self) -> None:
        super().setUp()
        self.installed = self.useFixture(Installed())
        self.installed.add('hvstack', '9.9', METADATA=METADATA)

    def test_missing(self) -> None:
        self.assertEqual(['absent-load-tester'], extras.missing('rally'))
        self.assertEqual([], extras.missing('lab'))

    def test_extra_of_a_module(self) -> None:
        self.assertEqual('rally', extras.extra_of('absent_load_tester.task'))
        self.assertIsNone(extras.extra_of('numpy'))

    def test_require_names_package_and_extra(self) -> None:
        extras.require('lab')
        error = self.assertRaises(
            errors.MissingPrerequisiteError, extras.require, 'rally'
        )
        self.assertEqual(3, error.exit_code)
        self.assertIn('not installed: absent-load-tester.', str(error))
        self.assertIn("pip install 'hvstack[rally]'", str(error))

    def test_required_checks_before_the_call(self) -> None:
        calls = []

        @extras.required('rally')
        def measure() -> None:
            calls.append('measure')

        self.assertRaises(errors.MissingPrerequisiteError, measure)
        self.assertEqual([], calls)

    def test_program_is_where_its_distribution_put_it(self) -> None:
        # As 'pip install --user' does it: far from the interpreter.
        self.installed.add(
            'absent_load_tester',
            '5.0',
            METADATA='Name: absent-load-tester\nVersion: 5.0\n',
            RECORD='bin/load-tester,,\n',
        )
        program = self.installed.path / 'bin' / 'load-tester'
        program.parent.mkdir()
        program.touch()
        self.assertEqual(
            program.resolve(),
            extras.program('load-tester', 'absent-load-tester'),
        )

    def test_program_that_is_missing(self) -> None:
        error = self.assertRaises(
            errors.MissingPrerequisiteError,
            extras.program,
            'absent-load-tester',
        )
        self.assertIn("pip install 'hvstack[rally]'", str(error))
