# SPDX-License-Identifier: Apache-2.0
"""Rally's environment is made of an entry of clouds.yaml."""

from pathlib import Path

import fixtures
import testtools
import yaml

from hvstack import errors
from hvstack.sweep import rallyenv

CLOUDS = {
    'clouds': {
        'here': {
            'auth': {
                'auth_url': 'http://keystone.test/v3',
                'username': 'admin',
                'password': 'secret-of-test',
                'project_name': 'admin',
                'user_domain_name': 'Default',
                'project_domain_name': 'Default',
            },
            'region_name': 'RegionOne',
            'verify': False,
        }
    }
}


class SpecTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'clouds.yaml'
        path.write_text(yaml.safe_dump(CLOUDS))
        self.useFixture(
            fixtures.MonkeyPatch(
                'openstack.config.loader.CONFIG_FILES', [str(path)]
            )
        )

    def test_spec(self) -> None:
        found = rallyenv.spec('here')['existing@openstack']
        self.assertEqual('http://keystone.test/v3', found['auth_url'])
        self.assertEqual('secret-of-test', found['admin']['password'])
        # The stacks are where 'openstack stack list' looks for them.
        self.assertEqual([found['admin']], found['users'])
        self.assertTrue(found['https_insecure'])

    def test_unknown(self) -> None:
        error = self.assertRaises(errors.InputError, rallyenv.spec, 'there')
        self.assertIn('there', str(error))

    def test_a_secret_is_not_in_errors(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallyenv.program', lambda: Path('/bin/false')
            )
        )
        error = self.assertRaises(
            errors.CommandFailed, rallyenv.ensure, 'here'
        )
        self.assertNotIn('secret-of-test', str(error))
