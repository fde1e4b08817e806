# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import fixtures
import testtools

from hvstack.lab import packages


class PolicyTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = folder / 'policy-rc.d'
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.packages._POLICY', self.path)
        )

    def test_forbids_starts_and_goes_away(self) -> None:
        with packages.nothing_starts():
            self.assertIn('exit 101', self.path.read_text())
            self.assertTrue(self.path.stat().st_mode & 0o111)
        self.assertFalse(self.path.exists())

    def test_policy_of_the_users_comes_back(self) -> None:
        self.path.write_text('#!/bin/sh\nexit 0\n')
        self.path.chmod(0o755)
        with packages.nothing_starts():
            self.assertIn('exit 101', self.path.read_text())
        self.assertEqual('#!/bin/sh\nexit 0\n', self.path.read_text())
        self.assertEqual(0o755, self.path.stat().st_mode & 0o777)

    def test_comes_back_after_a_crash_in_between(self) -> None:
        self.path.write_text('user')
        crashed = packages.nothing_starts()
        crashed.__enter__()
        with packages.nothing_starts():
            pass
        self.assertEqual('user', self.path.read_text())


class MissingTest(testtools.TestCase):
    def test_tells_what_dpkg_does_not_have(self) -> None:
        names = ['dpkg', 'no-such-package-of-hvstack']
        self.assertEqual(names[1:], packages.missing(names))
