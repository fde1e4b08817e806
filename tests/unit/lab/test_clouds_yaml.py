# SPDX-License-Identifier: Apache-2.0
"""The lab's clouds.yaml is separate from the user's."""

from pathlib import Path

import fixtures
import testtools
import yaml

from hvstack.lab import clouds_yaml, doctor, settings


class FilesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.own = self.directory / 'lab' / 'clouds.yaml'
        self.users = self.directory / 'users.yaml'
        for name, value in (
            ('hvstack.lab.clouds_yaml.OURS', self.own),
            ('hvstack.lab.settings.secret', lambda user: f'secret-of-{user}'),
            ('hvstack.lab.settings.load', settings.LabSettings),
            ('openstack.config.loader.CONFIG_FILES', [str(self.users)]),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        self.useFixture(fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE'))

    def test_only_the_labs_file_is_written(self) -> None:
        self.users.write_text('clouds: {mine: {}}  # comment')
        clouds_yaml.write()
        self.assertEqual(0o600, self.own.stat().st_mode & 0o777)
        self.assertEqual(
            ['hvstack-lab', 'hvstack-lab-member'],
            sorted(yaml.safe_load(self.own.read_text())['clouds']),
        )
        self.assertIn('# comment', self.users.read_text())
        self.assertIsNone(clouds_yaml.in_users_file())
        self.assertEqual(
            ['ok'], [finding.state for finding in doctor._clouds()]
        )

    def test_entries_of_an_older_release(self) -> None:
        clouds_yaml.write()
        text = 'clouds: {mine: {}, hvstack-lab-member: {}, hvstack-lab: {}}'
        self.users.write_text(text)
        self.assertEqual(
            (self.users, ['hvstack-lab', 'hvstack-lab-member']),
            clouds_yaml.in_users_file(),
        )
        (finding,) = doctor._clouds()
        self.assertEqual('fault', finding.state)
        self.assertIn(str(self.users), finding.remedy)
        self.assertEqual(text, self.users.read_text())

    def test_the_variable_names_the_labs_file(self) -> None:
        clouds_yaml.write()
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_CLIENT_CONFIG_FILE', str(self.own)
            )
        )
        self.assertIsNone(clouds_yaml.in_users_file())

    def test_a_users_file_that_is_not_yaml(self) -> None:
        self.users.write_text('clouds: [}')
        self.assertIsNone(clouds_yaml.in_users_file())
