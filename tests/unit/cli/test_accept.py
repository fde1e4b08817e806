# SPDX-License-Identifier: Apache-2.0
"""What is refused before any cloud is asked, in one line."""

import io
from contextlib import redirect_stderr, redirect_stdout

import fixtures
import testtools

from hvstack.cli.app import main


class RefusalTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = self.useFixture(fixtures.TempDir()).path
        for name in ('OS_CLOUD', 'OS_AUTH_URL'):
            self.useFixture(fixtures.EnvironmentVariable(name))
        for name in ('HOME', 'XDG_CONFIG_HOME'):
            self.useFixture(fixtures.EnvironmentVariable(name, folder))

    def refused(self, *words: str) -> str:
        err = io.StringIO()
        with redirect_stdout(io.StringIO()), redirect_stderr(err):
            self.assertEqual(2, main(words))
        self.assertEqual(1, err.getvalue().count('\n'), err.getvalue())
        return err.getvalue()

    def test_no_cloud(self) -> None:
        for words in (('accept',), ('doctor', '--host', 'vsan')):
            self.assertIn(
                '--os-cloud', self.refused(*words, '--os-cloud', 'nowhere')
            )

    def test_unknown_host_profile(self) -> None:
        told = self.refused('doctor', '--host', 'nobody')
        self.assertIn("'nobody' is unknown", told)

    def test_bad_configuration(self) -> None:
        self.refused('doctor', '--host', 'vsan', '--configuration', 'x9')

    def test_no_workers(self) -> None:
        for count in ('0', '-3'):
            told = self.refused('doctor', '--host', 'vsan', '--workers', count)
            self.assertIn('give 1 or more', told)
