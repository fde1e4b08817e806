# SPDX-License-Identifier: Apache-2.0
"""Directories of root, of other users, and those that variables name."""

import sys
from pathlib import Path

import fixtures
import testtools

import hvstack
from hvstack import paths, processutils


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

    def test_state_directory_that_is_a_link_or_relative(self) -> None:
        """The kernel reports mounts and files of loop devices without links.

        Nova's loop devices were never detached in a lab behind a link.
        """
        directory = Path(self.useFixture(fixtures.TempDir()).path).resolve()
        (directory / 'large').mkdir()
        (directory / 'link').symlink_to('large')
        for name in ('link', f'{directory}/link', 'large/../large'):
            result = processutils.run(
                [
                    sys.executable,
                    '-c',
                    'from hvstack import paths; print(paths.STATE)',
                ],
                cwd=directory,
                env={
                    'HVSTACK_STATE_DIR': name,
                    'PYTHONPATH': str(Path(hvstack.__file__).parents[1]),
                },
            )
            self.assertEqual(f'{directory}/large\n', result.stdout)

    def test_hvstack_state_dir_wins(self) -> None:
        self.assertIsInstance(paths.STATE, Path)
        self.assertNotIn('.local', str(paths.STATE))
