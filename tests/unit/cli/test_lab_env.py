# SPDX-License-Identifier: Apache-2.0
"""``hvstack lab env``: what a shell reads."""

import subprocess
from pathlib import Path

import fixtures
import testtools
import yaml

from tests.unit.cli.runner import run_command

ENTRY = {
    'auth': {
        'auth_url': 'http://lab.test/v3',
        'username': 'admin',
        'password': 'secret-of-test',
        'project_name': 'admin',
    }
}


class EnvTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        # A blank, as in a home directory, must not break the lines.
        self.state = Path(self.useFixture(fixtures.TempDir()).path) / 'a b'
        clouds = self.state / 'lab' / 'clouds.yaml'
        clouds.parent.mkdir(parents=True)
        clouds.write_text(
            yaml.safe_dump(
                {'clouds': {'hvstack-lab': ENTRY, 'hvstack-lab-member': ENTRY}}
            )
        )
        self.rally = self.state / 'rally-program'
        self.rally.write_text('#!/bin/sh\nexit 0\n')
        self.rally.chmod(0o755)
        for name, value in (
            ('hvstack.paths.STATE', self.state),
            ('hvstack.lab.clouds_yaml.OURS', clouds),
            ('hvstack.sweep.rallyenv.VARIABLES', {}),
            ('hvstack.sweep.rallyenv._USERS_CONFIG', ()),
            ('hvstack.sweep.rallyenv.find_program', lambda: self.rally),
            ('openstack.config.loader.CONFIG_FILES', []),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        self.useFixture(fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE'))

    def shell(self, script: str, *args: str) -> list[str]:
        """Return the output of a shell that has read the lines."""
        status, out, err = run_command('lab', 'env', *args)
        self.assertEqual(0, status, err)
        self.assertNotIn('secret-of-test', out)
        done = subprocess.run(
            ['sh', '-c', f'{out}\n{script}'],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    def test_openstack(self) -> None:
        script = 'echo "$OS_CLIENT_CONFIG_FILE"; echo "$OS_CLOUD"'
        self.assertEqual(
            [f'{self.state}/lab/clouds.yaml', 'hvstack-lab-member'],
            self.shell(script, '--member'),
        )

    def test_rally(self) -> None:
        """Plain 'rally' uses hvstack's database in this shell."""
        bin_dir = self.state / 'bin'
        bin_dir.mkdir()
        program = bin_dir / 'rally'
        program.write_text(
            '#!/bin/sh\necho "$RALLY_ENV"\nprintf "%s\\n" "$@"\n'
        )
        program.chmod(0o755)
        self.assertEqual(
            [
                'hvstack-lab',
                '--config-file',
                f'{self.state}/rally/rally.conf',
                'task',
                'start',
                'a task.yaml',
            ],
            self.shell(
                f"PATH='{bin_dir}':$PATH; rally task start 'a task.yaml'",
                '--rally',
            ),
        )
        conf = self.state / 'rally' / 'rally.conf'
        self.assertEqual(0o600, conf.stat().st_mode & 0o777)
        self.assertEqual(0o700, conf.parent.stat().st_mode & 0o777)
        self.assertIn(
            f'connection = sqlite:///{self.state}/rally/rally.sqlite\n',
            conf.read_text(),
        )
