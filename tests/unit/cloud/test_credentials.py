# SPDX-License-Identifier: Apache-2.0
"""Credentials with which no stack can be created are refused."""

import datetime
from types import SimpleNamespace
from typing import Any

import fixtures
import testtools
from keystoneauth1 import fixture as ksa
from keystoneauth1.identity import v3
from openstack.config.loader import OpenStackConfig
from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import credentials
from tests.unit.cloud import fake

TRUSTS = f'{fake.KEYSTONE}/OS-TRUST/trusts'
OPTIONS = SimpleNamespace(
    stack_timeout=900, ready_timeout=300, try_trust=False
)


class CheckTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud(roles=('member',)))
        self.useFixture(
            fixtures.MonkeyPatch('openstack.config.loader.CONFIG_FILES', [])
        )

    def connect(self, auth_type: str, **auth: str) -> Connection:
        config = OpenStackConfig(load_envvars=False)
        config.cloud_config['clouds'] = {
            'mine': {
                'auth_type': auth_type,
                'auth': {'auth_url': fake.KEYSTONE, **auth},
                'region_name': 'RegionOne',
            }
        }
        return Connection(config=config.get_one('mine'))

    def token(self, **fields: Any) -> ksa.V3Token:
        """Have Keystone give this token."""
        token = ksa.V3Token(user_id='u1', **fields)
        token.add_role(name='member')
        token.add_service('identity').add_standard_endpoints(
            public=fake.KEYSTONE, region='RegionOne'
        )
        self.cloud.http.post(
            f'{fake.KEYSTONE}/auth/tokens',
            json=token,
            headers={'X-Subject-Token': 'token-of-test'},
        )
        return token

    def application(self, status: int, **answer: Any) -> Connection:
        self.token(project_id='p1', application_credential_id='a1')
        self.cloud.http.post(TRUSTS, status_code=status, **answer)
        return self.connect(
            'v3applicationcredential',
            application_credential_id='a1',
            application_credential_secret='secret-of-test',
        )

    def refused(self, *args: Any) -> str:
        error = self.assertRaises(errors.InputError, credentials.check, *args)
        self.assertNotIn('\n', str(error))
        return str(error)

    def test_password(self) -> None:
        conn = self.cloud.connect()
        # A password gets a new token when one expires.
        credentials.check(conn, OPTIONS, 1e6)

    def test_application_credential(self) -> None:
        message = 'Delegated tokens cannot manage trusts.'
        conn = self.application(403, json={'error': {'message': message}})
        error = self.refused(conn, OPTIONS)
        self.assertIn(f'(403 {message.rstrip(".")})', error)
        self.assertIn("(cloud 'mine')", error)
        anyhow = SimpleNamespace(**{**vars(OPTIONS), 'try_trust': True})
        credentials.check(conn, anyhow)

    def test_cloud_that_allows_application_credentials(self) -> None:
        """Keystone looks for the trustee, who does not exist."""
        credentials.check(self.application(404), OPTIONS)
        sent = self.cloud.http.last_request.json()['trust']
        self.assertEqual('u1', sent['trustor_user_id'])
        self.assertEqual([{'name': 'member'}], sent['roles'])

    def test_a_trust_that_was_created_is_deleted(self) -> None:
        conn = self.application(201, json={'trust': {'id': 't1'}})
        deleted = self.cloud.http.delete(f'{TRUSTS}/t1', status_code=204)
        credentials.check(conn, OPTIONS)
        self.assertTrue(deleted.called)

    def test_system_scope(self) -> None:
        self.token().set_system_scope()
        conn = self.connect(
            'password',
            username='admin',
            password='secret-of-test',
            user_domain_name='Default',
            system_scope='all',
        )
        self.assertIn(
            'Use a credential of a project', self.refused(conn, OPTIONS)
        )

    def by_token(self, minutes: int) -> Connection:
        now = datetime.datetime.now(datetime.UTC)
        self.token(
            project_id='p1', expires=now + datetime.timedelta(minutes=minutes)
        )
        return self.connect('token', token='secret-of-test', project_id='p1')

    def test_token_that_expires_too_early(self) -> None:
        error = self.refused(self.by_token(15), OPTIONS)
        self.assertIn('creating a stack may take until', error)
        error = self.refused(self.by_token(60), OPTIONS, 2 * 3600.0)
        self.assertIn('the sweep may take until', error)

    def test_token_of_a_large_stack(self) -> None:
        """Each node adds 7 s, an emulated one 42 s: 638 nodes need 94 min."""
        for nodes, backend, minutes in (
            (638, '', 94),
            (638, 'kvm', 94),
            (3, 'qemu', 122),
        ):
            arguments = {'nodes': nodes, 'backend': backend}
            credentials.check(self.by_token(minutes + 2), OPTIONS, **arguments)
            error = self.assertRaises(
                errors.InputError,
                credentials.check,
                self.by_token(minutes - 2),
                OPTIONS,
                **arguments,
            )
            self.assertIn('creating a stack may take until', str(error))

    def test_token_on_a_slow_machine(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.speed.factor', lambda: 20.0)
        )
        self.refused(self.by_token(20 * 20 - 2), OPTIONS)
        credentials.check(self.by_token(20 * 20 + 2), OPTIONS)

    def test_credentials_that_get_one_token(self) -> None:
        provider = (fake.KEYSTONE, 'idp', 'openid')
        user = {'username': 'u', 'user_domain_name': 'd'}
        conn = self.cloud.connect()
        code = v3.OidcAuthorizationCode(*provider, 'c', 's', code='x')
        for auth, is_token, is_single_login in (
            (v3.Password(fake.KEYSTONE, password='p', **user), False, False),
            (v3.Token(fake.KEYSTONE, 't'), True, False),
            (v3.TOTP(fake.KEYSTONE, '123456', **user), True, True),
            (v3.OidcAccessToken(*provider, access_token='t'), True, False),
            (code, True, True),
            (
                v3.MultiFactor(
                    fake.KEYSTONE,
                    ['v3password', 'v3totp'],
                    password='p',
                    passcode='123456',
                    **user,
                ),
                True,
                True,
            ),
        ):
            conn.session.auth = auth
            self.assertEqual(is_token, credentials.is_token(conn), auth)
            if not is_single_login:
                credentials.check_logins(conn)
                continue
            error = self.assertRaises(
                errors.InputError, credentials.check_logins, conn
            )
            self.assertIn('logs in only once', str(error))

    def test_token_that_expires_later(self) -> None:
        credentials.check(self.by_token(60), OPTIONS)
        credentials.check(self.by_token(180), OPTIONS, 2 * 3600.0)
