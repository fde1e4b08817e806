# SPDX-License-Identifier: Apache-2.0
"""tempest.conf, hosts' looks, and the plugin that Tempest finds."""

import configparser
import contextlib
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import tempfile
import types
import unittest
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml
from keystoneauth1 import fixture as ksa
from openstack.image.v2.image import Image
from oslo_config import cfg
from tempest.config import CONF
from tempest.lib import auth
from tempest.lib.common import preprov_creds
from tempest.test_discover.plugins import TempestTestPluginManager

from hvstack import errors, processutils, shell_scripts
from hvstack.accept import (
    cleanup,
    host_inspection,
    libvirt_domain,
    report,
    runner,
    tempest_conf,
    test_results,
    visibility,
)
from hvstack.accept.host_inspection import Access
from hvstack.accept.tempest_conf import Workspace
from hvstack.cloud import connection
from hvstack.cluster.ssh import SSHNode
from hvstack.progress import Progress
from hvstack.tempest_plugin import stacks_client
from hvstack.tempest_plugin.config import OPTIONS
from hvstack.tempest_plugin.plugin import HVStackTempestPlugin
from tests.unit.accept import tempestconf
from tests.unit.cloud import fake

NEUTRON = 'http://neutron.test/v2.0'
VOLUME = 'http://cinder.test/v3'


def write_accounts(path: Path, conn: Any) -> None:
    """Write Tempest's accounts.yaml, in which a user has two entries."""
    (user, _) = yaml.safe_load(tempest_conf.render_accounts(conn, conn))
    accounts = [user, {**user, 'types': ['admin']}]
    path.write_text(json.dumps(accounts), encoding='utf-8')


class WorkspaceTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.workspace = Workspace(directory / 'cloud')

    def test_request_for_a_stack(self) -> None:
        good = {'template': {'resources': {}}, 'parameters': {'a': 1}}
        tempest_conf.write_request(self.workspace, good)
        path = self.workspace.stack_request
        self.assertEqual(good, tempest_conf.read_request(path))
        for text in (
            *('', '{', '[]', '7', '{"template": {}}', '{"parameters": {}}'),
            *('{"template": {}, "parameters": 7}', '{"template": []}'),
        ):
            path.write_text(text)
            error = self.assertRaises(
                errors.InputError, tempest_conf.read_request, path
            )
            self.assertIn(str(path), str(error))

    def test_files(self) -> None:
        self.workspace.write(
            {
                'auth': {'other': None},
                'hvstack': {'catalogues': [Path('/a'), '/b'], 'public': True},
            }
        )
        mode = stat.S_IMODE(self.workspace.conf.stat().st_mode)
        self.assertEqual(0o600, mode)
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(self.workspace.conf)
        self.assertNotIn('other', parser['auth'])
        self.assertEqual('/a,/b', parser['hvstack']['catalogues'])
        self.assertEqual('true', parser['hvstack']['public'])
        prefix = parser['DEFAULT']['resource_name_prefix']
        self.assertEqual(self.workspace.prefix, prefix)

    def test_passwords(self) -> None:
        """oslo.config replaces variables, and removes blanks and quotes."""
        for password in (
            *('50%$x', 'pa$$w0rd', '$', '${x}', ' x ', '"x"', "'x'", '"x'),
            *('x=y', '#x', '[x]', 'x;y', 'x:y', '\\n', 'a\\$b'),
        ):
            self.workspace.write({'auth': {'admin_password': password}})
            conf = cfg.ConfigOpts()
            conf.register_opt(cfg.StrOpt('admin_password'), 'auth')
            conf([], default_config_files=[str(self.workspace.conf)])
            self.assertEqual(password, conf.auth.admin_password)

    def test_names_of_another_workspace(self) -> None:
        """They began with 24 bits of a hash of the host name."""
        directories = [
            Path(self.useFixture(fixtures.TempDir()).path) for _ in range(2)
        ]
        first, other = (
            Workspace(directory).prefix for directory in directories
        )
        self.assertEqual(first, Workspace(directories[0]).prefix)
        self.assertRegex(first, '^hvaccept-[0-9a-f]{10}$')
        self.assertNotEqual(first, other)
        (directories[0] / 'id').write_text('\n')
        error = self.assertRaises(
            errors.InputError, getattr, Workspace(directories[0]), 'prefix'
        )
        self.assertIn(str(directories[0] / 'id'), str(error))

    def test_directory_of_another_program(self) -> None:
        """Its report.* and lock were deleted."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        workspace = Workspace(directory)
        files = (directory / 'report.odt', directory / 'lock' / 'text')
        files[1].parent.mkdir()
        for path in files:
            path.write_text('text')

        def prepare() -> None:
            """Do what the command does before the first test."""
            with runner.lock_workspace(workspace):
                workspace.write({})
                report.delete_report(directory)

        for call in (prepare, lambda: workspace.write({})):
            message = ''
            try:
                call()
            except errors.InputError as exc:
                message = str(exc)
            for path in files:
                self.assertTrue(path.exists(), path)
            self.assertIn(f'Cannot use {directory}: hvstack did not', message)

    def test_other_reports_stay(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('report.odt', 'report.html'):
            (directory / name).write_text('text')
        report.delete_report(directory)
        self.assertEqual(['report.odt'], [p.name for p in directory.iterdir()])

    def test_no_run_to_report(self) -> None:
        error = self.assertRaises(
            errors.RunFailedError, runner.load_last_results, self.workspace
        )
        self.assertIn('--workspace', str(error))

    def test_one_at_a_time(self) -> None:
        with runner.lock_workspace(self.workspace):
            error = self.assertRaises(
                errors.BusyError,
                runner.lock_workspace(self.workspace).__enter__,
            )
        self.assertIn('--workspace', str(error))
        with runner.lock_workspace(self.workspace):
            pass


class CredentialsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.conn: Any = self.cloud.connect()

    def test_no_administrator(self) -> None:
        error = self.assertRaises(
            errors.InputError,
            tempest_conf.credential_sections,
            self.conn,
            None,
        )
        self.assertIn('--accounts FILE', str(error))

    def test_entry_with_ids(self) -> None:
        """Tempest has no options for IDs of the project and its domain."""
        token = ksa.V3Token(
            user_name='operator',
            user_domain_name='corp',
            project_id='p1',
            project_name='cloud',
            project_domain_name='infra',
        )
        token.add_role(name='admin')
        identity = token.add_service('identity')
        identity.add_standard_endpoints(
            public=fake.KEYSTONE, region='RegionOne'
        )
        self.cloud.http.post(
            f'{fake.KEYSTONE}/auth/tokens',
            json=token,
            headers={'X-Subject-Token': 'x'},
        )
        self.cloud.http.get(f'{fake.KEYSTONE}/roles', json={'roles': []})
        self.conn.session.invalidate()
        self.conn.config.config['auth'] = {
            'auth_url': fake.KEYSTONE,
            'user_id': 'u1',
            'password': 'p',
            'project_id': 'p1',
        }
        auth = tempest_conf.credential_sections(self.conn, None)['auth']
        self.assertEqual(
            ('operator', 'p', 'cloud', 'corp', 'corp', 'infra'),
            tuple(
                auth[f'admin_{name}']
                for name in (
                    *('username', 'password', 'project_name', 'domain_name'),
                    *('user_domain_name', 'project_domain_name'),
                )
            ),
        )
        (user, _) = yaml.safe_load(
            tempest_conf.render_accounts(self.conn, self.conn)
        )
        self.assertEqual(
            ('operator', 'cloud', 'corp', 'infra'),
            (
                *(user['username'], user['project_name']),
                *(user['user_domain_name'], user['project_domain_name']),
            ),
        )

    def test_no_password(self) -> None:
        del self.conn.config.config['auth']['password']
        error = self.assertRaises(
            errors.InputError,
            tempest_conf.credential_sections,
            self.conn,
            None,
        )
        self.assertIn('password is missing', str(error))

    def test_accounts(self) -> None:
        sections = tempest_conf.credential_sections(
            self.conn, Path('/accounts.yaml')
        )
        self.assertFalse(sections['auth']['use_dynamic_credentials'])
        self.assertEqual(fake.KEYSTONE, sections['identity']['uri_v3'])
        self.assertNotIn('secret-of-test', str(sections))
        tenant, admin = yaml.safe_load(
            tempest_conf.render_accounts(self.conn, self.conn)
        )
        self.assertEqual('secret-of-test', tenant['password'])
        self.assertEqual(['admin'], admin['types'])
        # As Tempest's own provider reads it.
        hashes = preprov_creds.PreProvisionedCredentialProvider.get_hash_dict(
            [tenant, admin], 'admin'
        )
        self.assertEqual({'project_member'}, set(hashes['scoped_roles']))

    def test_one_user_is_member_and_administrator(self) -> None:
        """Tempest gave no test a member, whose user was an administrator."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        path = directory / 'accounts.yaml'
        path.write_text(tempest_conf.render_accounts(self.conn, self.conn))
        provider = preprov_creds.PreProvisionedCredentialProvider(
            'v3', str(path), str(directory / 'lock'), admin_role='admin'
        )
        (member,) = provider._get_match_hash_list(['member'], 'project')
        (admin,) = provider._get_match_hash_list(['admin'])
        users = provider.hash_dict['creds']
        self.assertIn('username', users[member])
        self.assertEqual('u1', users[admin]['user_id'])
        for user in users.values():
            credentials = auth.KeystoneV3Credentials(**user)
            self.assertTrue(credentials.is_valid(), user)

    def test_users_of_accounts(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'a.yaml'
        write_accounts(path, self.conn)
        connections = tempest_conf.connect_users(path, self.conn)
        self.assertEqual(
            ['p1', 'p1'], [x.current_project_id for x in connections]
        )
        for text in ('{}', '- username: u', '- u'):
            path.write_text(text)
            error = self.assertRaises(
                errors.InputError, tempest_conf.connect_users, path, self.conn
            )
            self.assertNotIn('\n', str(error))
            self.assertIn('a.yaml', str(error))


class EndpointsTest(testtools.TestCase):
    """Tempest uses the endpoints that the entry of clouds.yaml selects."""

    def test_interface(self) -> None:
        cloud = self.useFixture(
            fake.FakeCloud(
                services={'image': fake.GLANCE, 'network': NEUTRON},
                interfaces=('public', 'internal', 'admin'),
            )
        )
        cloud.resources()
        for interface, expected in (
            (None, 'public'),
            ('internal', 'internal'),
            ('adminURL', 'admin'),
        ):
            conn = connection.connect(
                credential={**fake.CREDENTIAL, 'endpoint_type': interface}
            )
            sections = tempest_conf.credential_sections(conn, Path('/a.yaml'))
            sections |= tempest_conf.service_sections(
                conn, image='hvstack-hadoop', network='provider'
            )
            del sections['hvstack']
            tempestconf.configure(self, sections)
            self.assertEqual(
                6 * [expected],
                [
                    CONF.identity.v3_endpoint_type,
                    CONF.compute.endpoint_type,
                    CONF.image.endpoint_type,
                    CONF.network.endpoint_type,
                    CONF.volume.endpoint_type,
                    CONF.placement.endpoint_type,
                ],
            )

    def test_region(self) -> None:
        """Tempest takes any endpoint for a region that is not in the catalog.

        This could be the administrative one, or that of another region.
        """
        cloud = self.useFixture(fake.FakeCloud(regions=('east', 'west')))
        conn = cloud.connect()
        for region, expected in (('west', 'west'), (None, 'east')):
            conn.config.config['region_name'] = region
            sections = tempest_conf.credential_sections(conn, Path('/a.yaml'))
            self.assertEqual(expected, sections['identity']['region'])

    def test_tls(self) -> None:
        """As openstacksdk reads the fields of clouds.yaml."""
        conn = self.useFixture(fake.FakeCloud()).connect()
        home = self.useFixture(fixtures.TempDir()).path
        self.useFixture(fixtures.EnvironmentVariable('HOME', home))
        path = Path(home) / 'accounts.yaml'
        write_accounts(path, conn)
        for fields, is_ignored, file in (
            ({'cacert': '~/ca.pem'}, False, f'{home}/ca.pem'),
            ({'cacert': 'ca.pem'}, False, str(Path.cwd() / 'ca.pem')),
            ({'insecure': True}, True, None),
            ({'verify': False}, True, None),
            ({}, False, None),
        ):
            conn.config.config = {
                'auth': conn.config.config['auth'],
                **fields,
            }
            sections = tempest_conf.credential_sections(conn, path)
            identity = sections['identity']
            self.assertEqual(
                (is_ignored, file),
                (
                    identity['disable_ssl_certificate_validation'],
                    identity.get('ca_certificates_file'),
                ),
            )
            if is_ignored or file is None:
                for user in tempest_conf.connect_users(path, conn):
                    self.assertEqual(not is_ignored, user.session.verify)

    def test_heat(self) -> None:
        tempestconf.configure(
            self,
            {
                'compute': {'endpoint_type': 'internal'},
                'identity': {'region': 'west', 'uri_v3': fake.KEYSTONE},
            },
        )
        provider = auth.KeystoneV3AuthProvider(
            auth.KeystoneV3Credentials(user_id='u1', password='p'),
            fake.KEYSTONE,
        )
        manager = types.SimpleNamespace(
            auth_provider=provider, default_params={}
        )
        client = stacks_client.create_stacks_client(manager)
        self.assertEqual(
            ('west', 'internal'), (client.region, client.endpoint_type)
        )


class ServicesTest(testtools.TestCase):
    def test_cinders_type_in_the_catalog(self) -> None:
        """Tempest asks for the new one, clouds may have the old one."""
        for without, endpoints, expected in (
            ((), {}, ('block-storage', True)),
            (('block-storage',), {'volumev3': VOLUME}, ('volumev3', True)),
            (('block-storage',), {}, ('block-storage', False)),
        ):
            endpoints = {'image': fake.GLANCE, 'network': NEUTRON, **endpoints}
            with fake.FakeCloud(without=without, services=endpoints) as cloud:
                cloud.http.get(f'{fake.GLANCE}/images/i', json={'id': 'i'})
                cloud.http.get(
                    f'{NEUTRON}/networks/n',
                    json={'network': {'id': 'n', 'name': 'n'}},
                )
                sections = tempest_conf.service_sections(
                    cloud.connect(), image='i', network='n'
                )
            catalog_type = sections['volume']['catalog_type']
            has_cinder = sections['service_available']['cinder']
            self.assertEqual(expected, (catalog_type, has_cinder))

    def test_what_new_projects_do_not_see(self) -> None:
        for is_shared, access, expected in (
            (True, 'public', ''),
            (True, 'community', ''),
            (False, 'public', "Cannot use the network 'n': the projects"),
            (True, 'private', "Cannot use the image 'i': the projects"),
            (True, 'shared', 'its visibility is shared'),
        ):
            services = {'image': fake.GLANCE, 'network': NEUTRON}
            with fake.FakeCloud(services=services) as cloud:
                cloud.http.get(
                    f'{fake.GLANCE}/images/i',
                    json={'id': 'i', 'visibility': access},
                )
                network = {'id': 'n', 'name': 'n', 'shared': is_shared}
                cloud.http.get(
                    f'{NEUTRON}/networks/n', json={'network': network}
                )
                message = ''
                for new_projects in (False, True):
                    self.assertEqual('', message)
                    try:
                        tempest_conf.service_sections(
                            cloud.connect(),
                            image='i',
                            network='n',
                            new_projects=new_projects,
                        )
                    except errors.InputError as exc:
                        message = str(exc)
            self.assertEqual(bool(expected), bool(message))
            self.assertIn(expected, message)

    def test_private_volume_types(self) -> None:
        """New projects do not see them, and Heat and the tests fail."""
        services = {'image': fake.GLANCE, 'network': NEUTRON}
        cloud = self.useFixture(fake.FakeCloud(services=services))
        cloud.http.get(
            f'{fake.GLANCE}/images/i',
            json={'id': 'i', 'visibility': 'public'},
        )
        network = {'id': 'n', 'name': 'n', 'shared': True}
        cloud.http.get(f'{NEUTRON}/networks/n', json={'network': network})
        cloud.http.get(
            f'{fake.CINDER}/types?is_public=None',
            json={
                'volume_types': [
                    {'name': 'slot-1', 'is_public': True},
                    {'name': 'slot-2', 'is_public': False},
                ]
            },
        )

        def render(*volume_types: str, new_projects: bool = True) -> None:
            tempest_conf.service_sections(
                cloud.connect(),
                image='i',
                network='n',
                volume_types=volume_types,
                new_projects=new_projects,
            )

        render('slot-1')
        render('slot-1', 'slot-2', new_projects=False)
        error = self.assertRaises(
            errors.InputError, render, 'slot-1', 'slot-2'
        )
        self.assertIn("volume type 'slot-2': the projects", str(error))

    def test_community_image_by_name(self) -> None:
        """Heat does not find the name of another project's image."""
        image = Image.new(id='i', name='hadoop', visibility='community')
        visibility.check_image(image, 'i')
        error = self.assertRaises(
            errors.InputError, visibility.check_image, image, 'hadoop'
        )
        self.assertIn("Set 'image' in hvstack.conf to i.", str(error))


class CleanupTest(testtools.TestCase):
    PREFIX = 'hvaccept-0123456789'
    MINE = f'{PREFIX}-x'
    #: Of another workspace.
    OTHERS = f'{PREFIX}2-x'

    def cloud(self, **kwargs: Any) -> fake.FakeCloud:
        """Return a cloud on which nothing is left."""
        kwargs = {
            'services': {'network': NEUTRON},
            'roles': ('admin',),
            **kwargs,
        }
        cloud: fake.FakeCloud = self.useFixture(fake.FakeCloud(**kwargs))
        for path, collection in (
            (f'{fake.HEAT}/stacks', 'stacks'),
            (f'{fake.NOVA}/flavors/detail', 'flavors'),
            (f'{fake.KEYSTONE}/projects', 'projects'),
            (f'{fake.KEYSTONE}/users', 'users'),
            (f'{NEUTRON}/ports', 'ports'),
            (f'{NEUTRON}/security-groups', 'security_groups'),
        ):
            cloud.http.get(path, json={collection: []})
        return cloud

    def has(self, cloud: fake.FakeCloud, path: str, collection: str) -> None:
        """Have a project of hvstack, of another machine, of another user."""
        cloud.http.get(
            path,
            json={
                collection: [
                    {'id': 'mine', 'name': self.MINE},
                    {'id': 'others', 'name': self.OTHERS},
                    {'id': 'strange', 'name': 'strange'},
                ]
            },
        )

    def leave_resources(self, cloud: fake.FakeCloud) -> list[Any]:
        """Have servers, volumes, ports, groups left; return their ends."""
        deleted = []
        for path, collection, suffix in (
            (f'{fake.NOVA}/servers', 'servers', '/detail'),
            (f'{NEUTRON}/ports', 'ports', ''),
            (f'{NEUTRON}/security-groups', 'security_groups', ''),
            (f'{fake.CINDER}/volumes', 'volumes', '/detail'),
        ):
            self.has(cloud, path + suffix, collection)
            deleted.append(cloud.http.delete(f'{path}/mine', status_code=204))
        cloud.http.get(f'{fake.NOVA}/servers/mine', status_code=404)
        return deleted

    def queries(self, cloud: fake.FakeCloud, path: str) -> str:
        """Return how a list was asked for."""
        return ' '.join(
            request.query
            for request in cloud.http.request_history
            if request.url.startswith(path) and request.method == 'GET'
        )

    def test_projects_that_are_gone(self) -> None:
        cloud = self.cloud()
        deleted = self.leave_resources(cloud)
        cleaned = self.clean(cloud)
        self.assertEqual(
            [
                f'{resource_type} {self.MINE}'
                for resource_type in (
                    'server',
                    'port',
                    'security group',
                    'volume',
                )
            ],
            cleaned,
        )
        self.assertTrue(all(matcher.called_once for matcher in deleted))
        for path in (
            f'{fake.NOVA}/servers/detail',
            f'{fake.CINDER}/volumes/detail',
        ):
            self.assertIn('all_tenants=true', self.queries(cloud, path))
        self.assertEqual('', self.queries(cloud, f'{NEUTRON}/ports'))

    def test_member_cleans_the_own_project(self) -> None:
        cloud = self.cloud(roles=('member',))
        for collection in ('projects', 'users'):
            cloud.http.get(f'{fake.KEYSTONE}/{collection}', status_code=403)
        deleted = self.leave_resources(cloud)
        self.assertEqual(4, len(self.clean(cloud)))
        self.assertTrue(all(matcher.called_once for matcher in deleted))
        for path in (
            f'{fake.NOVA}/servers/detail',
            f'{fake.CINDER}/volumes/detail',
            f'{fake.HEAT}/stacks',
        ):
            self.assertEqual('', self.queries(cloud, path))
        for collection in ('ports', 'security-groups'):
            self.assertEqual(
                'project_id=p1', self.queries(cloud, f'{NEUTRON}/{collection}')
            )

    def stacks(
        self, cloud: fake.FakeCloud, tries: int, **fields: str
    ) -> list[str]:
        """Have stacks; each is deleted after its number of tries."""
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks._INTERVAL', 0)
        )
        states = dict.fromkeys(
            (self.MINE, self.OTHERS, 'mine'), 'DELETE_FAILED'
        )
        deleted_names: list[str] = []

        def list_stacks(request: Any, _: Any) -> dict[str, Any]:
            return {
                'stacks': [
                    {
                        'id': f'id-{name}',
                        'stack_name': name,
                        'stack_status': state,
                        **fields,
                    }
                    for name, state in states.items()
                ]
            }

        def delete(request: Any, _: Any) -> str:
            name = request.path.split('/')[-2]
            deleted_names.append(name)
            if deleted_names.count(name) == tries:
                states.pop(name)
            return ''

        cloud.http.get(f'{fake.HEAT}/stacks', json=list_stacks)
        cloud.http.delete(
            re.compile(f'{fake.HEAT}/stacks/.*/id-'),
            text=delete,
            status_code=204,
        )
        return deleted_names

    def test_stack_that_could_not_be_deleted(self) -> None:
        cloud = self.cloud()
        deleted_names = self.stacks(cloud, 2)
        cloud.http.get(
            f'{fake.HEAT}/stacks?global_tenant=true', status_code=403
        )
        self.assertEqual([f'stack {self.MINE}'], self.clean(cloud))
        self.assertEqual(2 * [self.MINE], deleted_names)

    def test_rest_goes_where_one_cannot(self) -> None:
        cloud = self.cloud()
        self.stacks(cloud, 3)
        deleted = self.leave_resources(cloud)
        error = self.assertRaises(errors.CloudError, self.clean, cloud)
        self.assertIn(f"Cannot delete stack '{self.MINE}'", str(error))
        self.assertTrue(all(matcher.called_once for matcher in deleted))

    def test_others_of_a_kind_go_where_one_cannot(self) -> None:
        """A locked server, or a volume in use, stays with each clean-up."""
        cloud = self.cloud()
        expected, deleted = [], []
        for path, collection, suffix, kind in (
            (f'{fake.NOVA}/servers', 'servers', '/detail', 'server'),
            (f'{NEUTRON}/ports', 'ports', '', 'port'),
            (f'{fake.CINDER}/volumes', 'volumes', '/detail', 'volume'),
            (f'{fake.NOVA}/flavors', 'flavors', '/detail', 'flavor'),
        ):
            names = [f'{self.PREFIX}-{end}' for end in ('stuck', 'next')]
            items = [{'id': name, 'name': name} for name in names]
            cloud.http.get(path + suffix, json={collection: items})
            cloud.http.delete(f'{path}/{names[0]}', status_code=409)
            deleted.append(cloud.http.delete(f'{path}/{names[1]}'))
            expected.append(f"Cannot delete {kind} '{names[0]}': ")
        cloud.http.get(
            f'{fake.NOVA}/servers/{self.PREFIX}-next', status_code=404
        )
        self.has(cloud, f'{fake.KEYSTONE}/users', 'users')
        deleted.append(cloud.http.delete(f'{fake.KEYSTONE}/users/mine'))
        error = self.assertRaises(errors.CloudError, self.clean, cloud)
        for text in expected:
            self.assertIn(text, str(error))
        self.assertTrue(all(matcher.called_once for matcher in deleted))

    def test_others_stacks_stay(self) -> None:
        """To an administrator Heat lists those of all projects."""
        cloud = self.cloud(without=('block-storage',), services={})
        deleted_names = self.stacks(cloud, 1, project='another')
        self.project(cloud)
        self.assertEqual(
            [f'stack {self.MINE}', f'project {self.MINE}'], self.clean(cloud)
        )
        self.assertEqual([self.MINE], deleted_names)

    def clean(self, cloud: fake.FakeCloud) -> list[str]:
        return cleanup.delete_test_resources(
            cloud.connect(), Progress(), self.PREFIX
        )

    def test_only_what_tests_made(self) -> None:
        cloud = self.cloud()
        deleted = []
        for path, collection, suffix in (
            (f'{NEUTRON}/security-groups', 'security_groups', ''),
            (f'{fake.CINDER}/volumes', 'volumes', '/detail'),
            (f'{fake.NOVA}/flavors', 'flavors', '/detail'),
        ):
            self.has(cloud, path + suffix, collection)
            deleted.append(cloud.http.delete(f'{path}/mine'))
        self.assertEqual(
            [
                f'security group {self.MINE}',
                f'volume {self.MINE}',
                f'flavor {self.MINE}',
            ],
            self.clean(cloud),
        )
        for called in deleted:
            self.assertTrue(called.called_once)

    def test_cloud_with_nova_alone(self) -> None:
        """What a cloud does not have, tests cannot have left there."""
        cloud = self.cloud(
            services={}, without=('orchestration', 'block-storage')
        )
        self.has(cloud, f'{fake.NOVA}/flavors/detail', 'flavors')
        cloud.http.delete(f'{fake.NOVA}/flavors/mine')
        self.assertEqual([f'flavor {self.MINE}'], self.clean(cloud))

    def project(self, cloud: fake.FakeCloud) -> Any:
        """Have a project left; return its end."""
        self.has(cloud, f'{fake.KEYSTONE}/projects', 'projects')
        cloud.http.get(
            f'{fake.KEYSTONE}/roles',
            json={'roles': [{'id': 'r', 'name': 'admin'}]},
        )
        cloud.http.put(
            f'{fake.KEYSTONE}/projects/mine/users/u1/roles/r', status_code=204
        )
        cloud.http.get(
            f'{fake.NOVA}/os-server-groups', json={'server_groups': []}
        )
        cloud.http.get(f'{fake.KEYSTONE}/roles/admin', status_code=404)
        return cloud.http.delete(f'{fake.KEYSTONE}/projects/mine')

    def test_project_on_a_cloud_with_nova_alone(self) -> None:
        cloud = self.cloud(
            services={}, without=('orchestration', 'block-storage')
        )
        deletion = self.project(cloud)
        self.assertEqual([f'project {self.MINE}'], self.clean(cloud))
        self.assertTrue(deletion.called_once)


class HostLookTest(testtools.TestCase):
    def test_access(self) -> None:
        access = Access('command', 'enter {host} --')
        self.assertEqual(
            ['enter', 'h1', '--', 'sh', '-c', 'true'],
            access.node('h1').argv('true'),
        )
        for invalid_access in (
            Access(),
            Access('command', 'enter'),
            Access('ssh'),
        ):
            error = self.assertRaises(
                errors.InputError, invalid_access.node, 'h1'
            )
            self.assertNotIn('\n', str(error))

    def test_nothing_of_that_name_runs_here(self) -> None:
        access = Access('local')
        error = self.assertRaises(
            errors.CloudError,
            host_inspection.read_threads,
            *(access, 'h1', 'instance-unknown'),
        )
        self.assertIn('runs here', str(error))
        self.assertNotIsInstance(error, errors.HostAccessError)

    def program(self, name: str, script: str) -> Path:
        """Put a program first in the path; return its directory."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        (directory / name).write_text(f'#!/bin/sh\n{script}')
        (directory / name).chmod(0o755)
        path = f'{directory}:{os.environ["PATH"]}'
        self.useFixture(fixtures.EnvironmentVariable('PATH', path))
        return directory

    def test_program_that_joins_its_arguments(self) -> None:
        """Ssh does: the shell of the host would split commands into words."""
        self.program('enter', 'shift; exec sh -c "$*"\n')
        error = self.assertRaises(
            errors.HostAccessError,
            host_inspection.read_nova_conf,
            *(Access('command', 'enter {host}'), 'h1'),
        )
        self.assertIn('Cannot inspect the host h1', str(error))

    def test_ssh_configuration(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        for path, expected in (('/c', '/c'), ('', '/dev/null')):
            access = Access(
                'ssh', key='/key', ssh_config=path, directory=directory
            )
            node = access.node('h1')
            assert isinstance(node, SSHNode)
            self.assertEqual(['-F', expected], node.options()[:2])

    def test_ssh_connections_end(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path) / 'own'
        access = Access('ssh', key='/key', directory=directory)
        log = self.program('ssh', 'echo "$*" >>"${0%/*}/log"\n') / 'log'
        with contextlib.suppress(errors.HVStackError):
            host_inspection.read_nova_conf(access, 'h1')
        # The master's, which this ssh does not make.
        with socket.socket(socket.AF_UNIX) as held:
            node = access.node('h1')
            assert isinstance(node, SSHNode)
            node.directory.mkdir(exist_ok=True, parents=True)
            held.bind(str(node.directory / 's'))
            access.close()
        self.assertIn('-O exit root@h1', log.read_text())
        self.assertFalse(directory.exists())

    @testtools.skipUnless(shutil.which('ssh'), 'needs ssh')
    def test_long_host_names(self) -> None:
        """A name of Nova has up to 255 characters, a path of a socket 107."""
        with tempfile.TemporaryDirectory(prefix='hv') as directory:
            access = Access('ssh', key='/key', directory=Path(directory))
            nodes = []
            for number in range(2):
                name = f'compute{number}.' + 4 * 'rack12.datacenter1.'
                node = access.node(f'{name}invalid')
                assert isinstance(node, SSHNode)
                nodes.append(node)
                node.directory.mkdir()
                done = processutils.run(
                    ['ssh', *node.options(), '-O', 'check', 'root@h'],
                    check=False,
                )
                self.assertNotIn('too long', done.stderr)
                self.assertIs(node, access.node(f'{name}invalid'))
            self.assertNotEqual(nodes[0].directory, nodes[1].directory)
            access.close()

    def test_all_guests(self) -> None:
        # The second ends before it is inspected.
        directory = self.program(
            'virsh',
            """case "$*" in
            *list*) cat "${0%/*}/names"; echo guest-1 >"${0%/*}/names";;
            *guest-1) echo "<domain><name>guest-1</name></domain>";;
            *) echo gone >&2; exit 1;;
            esac""",
        )
        (directory / 'names').write_text('guest-1\nguest-2\n')
        guests = host_inspection.list_domains(Access('local'), 'h1')
        self.assertEqual(['guest-1'], [guest.name for guest in guests])

    def test_names_of_guests_reach_no_shell(self) -> None:
        """Other users of a host name their guests as they like."""
        directory = self.program(
            'virsh',
            """case "$*" in
            *list*) printf '%s\n' '--x; touch "${0%/*}/harm"' "a b";;
            *) printf '%s\n' "$@" >>"${0%/*}/log"
               echo "<domain><name>x</name></domain>";;
            esac""",
        )
        domains = host_inspection.list_domains(Access('local'), 'h1')
        self.assertEqual(2, len(domains))
        log = (directory / 'log').read_text()
        self.assertIn('--domain=--x; touch "${0%/*}/harm"\n', log)
        self.assertIn('--domain=a b\n', log)
        harm = directory / 'harm'
        self.assertRaises(
            errors.CloudError,
            host_inspection.read_threads,
            *(Access('local'), 'h1', f"'; touch {harm}; '"),
        )
        self.assertFalse(harm.exists())

    def test_file_systems(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        types_by_path = host_inspection.file_systems(
            Access('local'), 'h1', ['/proc/version', str(directory)]
        )
        self.assertEqual('proc', types_by_path['/proc/version'])
        self.assertTrue(types_by_path[str(directory)])
        self.assertEqual(
            {}, host_inspection.file_systems(Access('local'), 'h1', [])
        )
        self.program('findmnt', 'exit 1\n')
        types_by_path = host_inspection.file_systems(
            Access('local'), 'h1', ['/proc/version']
        )
        self.assertEqual({'/proc/version': 'proc'}, types_by_path)
        self.assertRaises(
            errors.CloudError,
            host_inspection.file_systems,
            *(Access('local'), 'h1', [str(directory / 'none' / 'none')]),
        )

    def read(self, command: str, **files: str) -> dict[str, str]:
        """Return the files that a nova-compute with this command line reads.

        :param command: ``{directory}`` stands for the directory of the files.
        :param files: text by name, ``__`` for a slash.
        """
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        args = command.format(directory=directory).split()
        for name, text in {
            **files,
            'proc__1__cmdline': 'grep\0nova-compute.conf\0',
            # An operator follows its log.
            'proc__11__cmdline': 'journalctl\0-fu\0nova-compute\0',
            'proc__12__cmdline': 'python3\0/usr/bin/ansible\0nova-compute\0',
            'proc__2__cmdline': '\0'.join(['python3', *args, '']),
        }.items():
            path = directory / name.replace('__', '/')
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (directory / 'proc' / '2' / 'root').symlink_to('/')
        script = shell_scripts.load('nova-options')
        for top in ('/proc/', '/etc'):
            script = script.replace(f' {top}', f' {directory}{top}')
        done = processutils.run(['sh', '-c', script])
        self.assertNotIn('password', done.stdout)
        return {
            name.rpartition('.')[2]: value
            for name, value in libvirt_domain.parse_nova_conf(
                done.stdout
            ).items()
        }

    def test_files_of_nova_compute(self) -> None:
        def ratio(value: int) -> str:
            # The last line has no end.
            return f'[DEFAULT]\npassword = x\ncpu_allocation_ratio = {value}'

        files = {
            'etc__nova__nova.conf': ratio(1),
            'etc__nova__nova-compute.conf': ratio(2),
            'etc__nova__nova.conf.d__1.conf': ratio(3),
            'etc__nova__nova.conf.d__2.conf': ratio(4),
            'etc__nova__nova.conf.d__2.conf.old': ratio(5),
            'own.conf': ratio(6),
            'dir__a.conf': '[compute]\ncpu_dedicated_set = 1\n',
            'dir__b.conf': ratio(7),
            'empty__none': '',
        }
        own, directory_option = (
            '--config-file {directory}/own.conf',
            '--config-dir={directory}/dir',
        )
        for options, expected in (
            ('', '4'),
            (own, '6'),
            ('--config-dir {directory}/empty', '2'),
            (directory_option, '7'),
            (f'{directory_option} {own}', '6'),
            (f'{own} {directory_option}', '7'),
        ):
            # Scripts can begin with "#!/usr/bin/python3 -s".
            command = f'-s /usr/bin/nova-compute {options}'
            nova_conf = self.read(command, **files)
            self.assertEqual(
                expected, nova_conf['cpu_allocation_ratio'], options
            )
            self.assertEqual(
                directory_option in options, 'cpu_dedicated_set' in nova_conf
            )

    def in_namespace(self, setup: str) -> int:
        """Start a nova-compute in a mount namespace; return its process.

        :param setup: shell commands in the namespace.
        """
        process = subprocess.Popen(
            [
                *('unshare', '--user', '--map-root-user', '--mount', '--'),
                *('sh', '-c', f'{setup} && echo done && exec sleep 60'),
                '/usr/bin/nova-compute',
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        if process.stdout.readline() != 'done\n':
            self.skipTest('no mount namespaces on this machine')
        return process.pid

    def test_nova_compute_in_a_container(self) -> None:
        """As with kolla: the host has other files, or none."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        pid = self.in_namespace(
            f'mount -t tmpfs none {directory} && '
            f'mkdir {directory}/nova && '
            'echo "cpu_allocation_ratio = 16" '
            f'>{directory}/nova/nova.conf && touch {directory}/disk'
        )
        (directory / 'nova').mkdir()
        (directory / 'nova' / 'nova.conf').write_text(
            'cpu_allocation_ratio = 1'
        )
        # sleep has replaced the shell and its name.
        processes = directory / 'processes'
        (processes / '7').mkdir(parents=True)
        for name in ('root', 'cwd'):
            (processes / '7' / name).symlink_to(f'/proc/{pid}/{name}')
        (processes / '7' / 'cmdline').write_text('nova-compute\0')
        script = shell_scripts.load('nova-options')
        script = script.replace('/etc/nova', f'{directory}/nova').replace(
            ' /proc/', f' {processes}/'
        )
        done = processutils.run(['sh', '-c', script])
        self.assertEqual('cpu_allocation_ratio = 16\n', done.stdout)
        disk = f'{directory}/disk'
        script = shell_scripts.render('file-systems', disk).replace(
            ' /proc/', f' {processes}/'
        )
        done = processutils.run(['sh', '-c', script])
        self.assertEqual(f'tmpfs\t{disk}\n', done.stdout)

    def test_virsh_in_a_container(self) -> None:
        directory = self.program(
            'podman',
            """case $1-$4 in
            inspect-nova_libvirt) echo true;;
            inspect-*) exit 1;;
            *) shift; echo "$@" >"${0%/*}/log"
               echo "<domain><name>x</name></domain>";;
            esac""",
        )
        host_inspection.read_domain(Access('local'), 'h1', 'instance-1')
        self.assertEqual(
            'nova_libvirt virsh -c qemu:///system dumpxml '
            '--domain=instance-1\n',
            (directory / 'log').read_text(),
        )

    def test_addresses_of_hosts(self) -> None:
        addresses = host_inspection.map_addresses(
            [
                {
                    'hypervisor_hostname': 'h1.example.org',
                    'host_ip': '192.0.2.1',
                    'service': {'host': 'h1'},
                },
                {'hypervisor_hostname': 'h2', 'host_ip': '127.0.0.1'},
                {'hypervisor_hostname': 'h3', 'host_ip': None},
            ]
        )
        self.assertEqual(
            {'h1.example.org': '192.0.2.1', 'h1': '192.0.2.1'}, addresses
        )
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        access = Access(
            'ssh', key='/key', directory=directory, addresses=addresses
        )
        self.assertEqual('192.0.2.1', access.node('h1').address)
        self.assertEqual('h3', access.node('h3').address)

    def test_files_that_cannot_be_read(self) -> None:
        error = self.assertRaises(
            errors.CommandError,
            self.read,
            'nova-compute --config-file {directory}/none',
        )
        self.assertIn('No such file', str(error))

    def test_unreachable_host(self) -> None:
        command = 'sh -c \'printf "no\\nroute" >&2; exit 4\' {host}'
        for look, args in (
            (host_inspection.read_nova_conf, ()),
            (host_inspection.read_cells, ()),
            (host_inspection.read_domain, ('instance-1',)),
        ):
            error = self.assertRaises(
                errors.CloudError,
                look,
                *(Access('command', command), 'h1', *args),
            )
            self.assertIsInstance(error, errors.HostAccessError)
            self.assertIn('the host h1: no route', str(error))
            self.assertIn('host_access none', str(error))
            self.assertNotIn('\n', str(error))


class PluginTest(testtools.TestCase):
    def chosen(self, **options: Any) -> set[str]:
        """Return the rings of the tests that stestr would take."""
        directory, top = HVStackTempestPlugin().load_tests()
        loaded = unittest.TestLoader().discover(directory, top_level_dir=top)
        names = [test.id() for test in testtools.iterate_tests(loaded)]
        chosen = runner.Selection(test_results.SCOPES, **options)
        pattern, *without = chosen.stestr_args
        return {
            test_results.parse_test_id(name)[0]
            + ' destructive' * ('destructive' in name)
            for name in names
            if re.search(pattern, name)
            and not (without and re.search(without[-1], name))
        }

    def test_tags(self) -> None:
        self.assertEqual({'tenant', 'operator', 'host'}, self.chosen())
        self.assertEqual({'operator', 'host'}, self.chosen(smoke=True))
        self.assertEqual(
            {'tenant', 'operator', 'host', 'host destructive'},
            self.chosen(destructive=True),
        )
        self.assertEqual({'host'}, self.chosen(only='PinsTest|unknown'))

    def test_entry_point_and_options(self) -> None:
        manager = TempestTestPluginManager()
        test_dir, _ = manager.get_plugin_load_tests_tuple()['hvstack']
        self.assertTrue((Path(test_dir) / 'tenant').is_dir())
        self.assertIn('hvstack', dict(manager.get_plugin_options_list()))
        conf = cfg.ConfigOpts()
        HVStackTempestPlugin().register_opts(conf)
        conf([], default_config_files=[])
        self.assertEqual('none', conf.hvstack.host_access)
        for option in OPTIONS:
            self.assertTrue(option.help, option.name)
