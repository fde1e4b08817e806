# SPDX-License-Identifier: Apache-2.0
"""Rally's platform of a cloud by its name, at the HTTP boundary."""

import copy
import json
from pathlib import Path
from typing import Any

import fixtures
import jsonschema
import testtools
import yaml
from rally.common import opts
from rally.env import platform
from rally_openstack.common import credential, osclients
from rally_openstack.environment.platforms import existing

from hvstack import errors
from hvstack.cloud import connection, named
from hvstack.rally_plugins import platforms
from tests.unit.cloud import fake

AUTH = {**fake.CREDENTIAL, 'user_domain_name': 'Default'}
APPLICATION = {
    'auth_type': 'v3applicationcredential',
    'auth': {
        'auth_url': fake.KEYSTONE,
        'application_credential_id': 'a1',
        'application_credential_secret': 'secret-of-test',
    },
    'region_name': 'RegionOne',
}


class PlatformTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        opts.register_options_from_path(
            'rally_openstack.common.cfg.opts:list_opts'
        )
        self.path = Path(self.useFixture(fixtures.TempDir()).path) / 'c.yaml'
        self.clouds = {
            'password': {'auth': AUTH, 'region_name': 'RegionOne'},
            'application': APPLICATION,
            'token': {
                'auth_type': 'token',
                'auth': {
                    'auth_url': fake.KEYSTONE,
                    'token': 'secret-of-test',
                    'project_id': 'p1',
                },
                'region_name': 'RegionOne',
            },
        }
        self.write()
        for name in ('OS_CLIENT_CONFIG_FILE', 'OS_CLOUD', 'OS_AUTH_URL'):
            self.useFixture(fixtures.EnvironmentVariable(name))
        self.useFixture(
            fixtures.MonkeyPatch(
                'openstack.config.loader.CONFIG_FILES', [str(self.path)]
            )
        )
        self.cloud = self.useFixture(fake.FakeCloud())

    def write(self) -> None:
        self.path.write_text(yaml.safe_dump({'clouds': self.clouds}))

    def created(self, **spec: str) -> dict[str, Any]:
        """Return the stored data of Rally as Rally reads them again."""
        platform_class = platform.Platform.get('hvstack@openstack')
        self.assertIs(platforms.NamedCloud, platform_class)
        jsonschema.validate(spec, platform_class.CONFIG_SCHEMA)
        data, _ = platforms.NamedCloud(spec).create()
        text = json.dumps(data)
        self.assertNotIn('secret-of-test', text)
        loaded: dict[str, Any] = json.loads(text)
        return loaded

    def methods(self) -> list[str]:
        """Return the methods by which sessions logged in."""
        return [
            request.json()['auth']['identity']['methods'][0]
            for request in self.cloud.http.request_history
            if request.method == 'POST'
        ]

    def test_each_kind_of_credential(self) -> None:
        for name, method in (
            ('password', 'password'),
            ('application', 'application_credential'),
            ('token', 'token'),
        ):
            data = self.created(cloud=name)
            connection.connect(credential=data['admin'])
            self.assertEqual(method, self.methods()[-1])

    def test_rallys_own_clients(self) -> None:
        """The context users@openstack logs in with these."""
        data = self.created(cloud='application')
        user = credential.OpenStackCredential(**copy.deepcopy(data['admin']))
        clients = osclients.Clients(user)
        self.assertEqual('p1', clients.keystone.auth_ref.project_id)
        self.assertEqual('u1', clients.keystone.auth_ref.user_id)
        self.assertEqual(['application_credential'], self.methods())
        self.assertIn('compute', clients.services())
        clients.keystone()

    def test_users_whom_rally_creates_keep_their_password(self) -> None:
        data = self.created(cloud='application')['admin']
        user = {**data, 'username': 'c_rally_1', 'password': 'generated'}
        self.assertIsNone(named.region_of(user))
        user = credential.OpenStackCredential(**user)
        self.assertTrue(osclients.Clients(user).keystone.auth_ref.project_id)
        self.assertEqual(['password'], self.methods())

    def test_existing_openstack_goes_on_working(self) -> None:
        user = credential.OpenStackCredential(
            auth_url=fake.KEYSTONE,
            username='admin',
            password='secret-of-test',
            tenant_name='admin',
            user_domain_name='Default',
            project_domain_name='Default',
        )
        self.assertEqual(
            'p1', osclients.Clients(user).keystone.auth_ref.project_id
        )
        connection.connect(credential=user)
        self.assertEqual(['password', 'password'], self.methods())

    def test_health(self) -> None:
        data = self.created(cloud='password', user_cloud='token')
        rally = platforms.NamedCloud({}, platform_data=data)
        self.assertEqual({'available': True}, rally.check_health())
        self.assertEqual(['password', 'token'], self.methods())
        self.assertIn(
            {'type': 'compute', 'name': 'compute'},
            rally.info()['info']['services'],
        )
        del self.clouds['token']
        self.write()
        health = rally.check_health()
        self.assertFalse(health['available'])
        self.assertIn("Cannot use the cloud 'token'", health['message'])

    def test_tasks_are_validated_as_on_rallys_own_platform(self) -> None:
        data = self.created(cloud='password')
        own = platforms.NamedCloud({}, platform_data=data)
        rallys = existing.OpenStack({}, platform_data=data)
        self.assertEqual(
            rallys._get_validation_context(), own._get_validation_context()
        )

    def test_another_address_is_refused(self) -> None:
        """The variables of another openrc must not lead elsewhere."""
        data = self.created(cloud='password')['admin']
        self.clouds['password']['auth'] = {
            **AUTH,
            'auth_url': 'http://other.test/v3',
        }
        self.write()
        error = self.assertRaises(
            errors.InputError, connection.connect, credential=data
        )
        self.assertIn('is http://other.test/v3 now', str(error))
        self.assertEqual([], self.methods())

    def test_a_wrong_specification(self) -> None:
        spec = {'cloud': 'password', 'password': 'x'}
        self.assertRaises(
            jsonschema.ValidationError,
            jsonschema.validate,
            *(spec, platforms.NamedCloud.CONFIG_SCHEMA),
        )
