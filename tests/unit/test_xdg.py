# SPDX-License-Identifier: Apache-2.0
"""Directories of root, of other users, and those that variables name."""

from pathlib import Path

import fixtures
import testtools

from hvstack import paths


class DefaultsTest(testtools.TestCase):
    def defaults(self, user_id: int, **variables: str) -> list[str]:
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: user_id))
        for name in ('XDG_STATE_HOME', 'XDG_CACHE_HOME', 'XDG_RUNTIME_DIR'):
            self.useFixture(
                fixtures.EnvironmentVariable(name, variables.get(name))
            )
        self.useFixture(fixtures.EnvironmentVariable('HOME', '/home/ann'))
        return [str(path) for path in paths._defaults()]

    def test_root(self) -> None:
        self.assertEqual(
            ['/var/lib/hvstack', '/var/cache/hvstack', '/run/hvstack'],
            self.defaults(0, XDG_STATE_HOME='/root/state'),
        )

    def test_another_user(self) -> None:
        self.assertEqual(
            [
                '/home/ann/.local/state/hvstack',
                '/home/ann/.cache/hvstack',
                '/home/ann/.local/state/hvstack/run/hvstack',
            ],
            # The specification ignores relative paths.
            self.defaults(1000, XDG_STATE_HOME='state'),
        )

    def test_variables_of_another_user(self) -> None:
        self.assertEqual(
            ['/s/hvstack', '/c/hvstack', '/run/user/1000/hvstack'],
            self.defaults(
                1000,
                XDG_STATE_HOME='/s',
                XDG_CACHE_HOME='/c',
                XDG_RUNTIME_DIR='/run/user/1000',
            ),
        )

    def test_hvstack_state_dir_wins(self) -> None:
        self.assertIsInstance(paths.STATE, Path)
        self.assertNotIn('.local', str(paths.STATE))
