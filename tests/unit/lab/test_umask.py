# SPDX-License-Identifier: Apache-2.0
"""Files of the lab and of images that are made under a private umask."""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack.lab import control_plane, lock
from hvstack.lab.images import store


class UmaskTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.addCleanup(os.umask, os.umask(0o077))
        for name, path in (
            ('hvstack.paths.RUN', self.directory / 'run'),
            ('hvstack.lab.lock._LOCK', self.directory / 'run/lab.lock'),
            ('hvstack.paths.CACHE', self.directory / 'cache'),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, path))

    def check(self, hold: AbstractContextManager[Any]) -> None:
        with hold:
            path = self.directory / 'made'
            path.mkdir()
        self.assertEqual(0o755, path.stat().st_mode & 0o777)
        self.assertEqual(0o077, os.umask(0o077))

    def test_lab(self) -> None:
        """Users such as mysql could not read the directory of the lab."""
        self.check(lock.exclusive())

    def test_images(self) -> None:
        """On bare metal, Hadoop's user could not read /opt/hadoop."""
        self.check(store.building())

    def test_directories_of_an_earlier_release(self) -> None:
        """They stay as private as they are, but can be entered."""
        state = self.directory / 'state'
        mysql = state / 'lab' / 'etc' / 'mysql'
        mysql.mkdir(parents=True)
        control_plane.let_users_enter([mysql], state)
        for path in (mysql, *mysql.parents[:3]):
            self.assertEqual(0o711, path.stat().st_mode & 0o777, path)
        self.assertEqual(0o700, self.directory.stat().st_mode & 0o777)
