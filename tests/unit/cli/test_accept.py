# SPDX-License-Identifier: Apache-2.0
"""What is refused before any cloud is asked, in one line."""

import configparser
import contextlib
import io
import json
import os
import re
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, ClassVar

import fixtures
import testtools

from hvstack import errors, paths, share
from hvstack.accept import power, runner
from hvstack.accept.tempest_conf import Workspace
from hvstack.cli import accept, accept_conf
from hvstack.cli.app import main
from hvstack.hadoop import site_files
from hvstack.progress import Progress
from tests.unit.cli.runner import run_command
from tests.unit.cloud import fake

CATALOGUES = share.CATALOGUES


class RefusalTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        for name in ('OS_CLOUD', 'OS_AUTH_URL'):
            self.useFixture(fixtures.EnvironmentVariable(name))
        for name in ('HOME', 'XDG_CONFIG_HOME'):
            self.useFixture(fixtures.EnvironmentVariable(name, directory))

    def refused(self, *args: str) -> str:
        status, _, err = run_command(*args)
        self.assertEqual(2, status)
        self.assertEqual(1, err.count('\n'), err)
        return err

    def test_no_cloud(self) -> None:
        for args in (('accept',), ('doctor', '--host', 'vsan')):
            self.assertIn(
                '--os-cloud', self.refused(*args, '--os-cloud', 'nowhere')
            )

    def test_unknown_host_profile(self) -> None:
        message = self.refused('doctor', '--host', 'unknown-1')
        self.assertIn("host profile 'unknown-1'", message)

    def test_bad_configuration(self) -> None:
        self.refused('doctor', '--host', 'vsan', '--configuration', 'x9')

    def test_no_workers(self) -> None:
        for count in ('0', '-3'):
            message = self.refused(
                'doctor', '--host', 'vsan', '--workers', count
            )
            self.assertIn('Use 1 or more', message)


class CloudTest(testtools.TestCase):
    """A cloud 'mine', an administrator's unless told otherwise."""

    #: Other fields of its network.
    network: ClassVar[dict[str, Any]] = {'shared': True}

    def cloud(self, **options: Any) -> fake.FakeCloud:
        """Have a cloud 'mine' in clouds.yaml."""
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.paths.STATE', self.directory)
        )
        self.useFixture(fake.CloudsFile('mine'))
        options.setdefault('roles', ('admin',))
        cloud: fake.FakeCloud = self.useFixture(
            fake.FakeCloud(
                services={
                    'image': 'http://glance.test/v2',
                    'network': 'http://neutron.test/v2.0',
                },
                **options,
            )
        )
        http = cloud.http
        http.get(f'{fake.KEYSTONE}/roles', json={'roles': []})
        for url, resource in (
            ('http://glance.test/v2', 'images'),
            ('http://neutron.test/v2.0', 'networks'),
        ):
            http.get(f'{url}/{resource}/provider', status_code=404)
            http.get(
                f'{url}/{resource}',
                json={
                    resource: [
                        {'id': 'i1', 'name': 'provider', **self.network}
                    ]
                },
            )
            http.get(f'{url}/{resource}/unknown-1', status_code=404)
        return cloud


class AcceptTest(CloudTest):
    """An administrator's cloud, and what is wrong with the options."""

    def build_args(self, *extra_args: str) -> tuple[str, ...]:
        return (
            *('accept', '--os-cloud', 'mine'),
            *('--workspace', str(self.directory / 'workspace'), *extra_args),
        )

    def refused(self, *args: str) -> str:
        """Return the one line that refuses options."""
        status, _, err = run_command(*self.build_args(*args))
        self.assertNotEqual(0, status)
        self.assertEqual(1, err.count('\n'), err)
        return err

    def test_refusals(self) -> None:
        self.cloud()
        path = str(CATALOGUES / 'vsan.yaml')
        for args, expected in (
            ((), 'no --catalogue'),
            (('--catalogue', '/nowhere'), '--catalogue /nowhere'),
            (
                ('--catalogue', path, '--image', 'unknown-1'),
                "image 'unknown-1'",
            ),
            (('--catalogue', path, '--configuration', 'x9'), "'x9'"),
            (('--last',), 'no test was run'),
        ):
            self.assertIn(expected, self.refused(*args))

    def test_options_that_cannot_work(self) -> None:
        """They are refused before any cloud is asked, with status 2."""
        for args, expected in (
            (('--concurrency', '-1'), '--concurrency -1'),
            (('--test', '('), "--test '('"),
            (('--volume-backend', 'foo'), "--volume-backend 'foo'"),
            (('--volume-backend', 'foo:'), 'such as disk-slot-1:slot1'),
            (('--volume-backend', ':b'), 'is not TYPE:NAME'),
            (('--volume-backend', 'a:b,c:d'), 'is not TYPE:NAME'),
            (2 * ('--volume-backend', 'a:b'), "'a' is duplicated"),
            (
                ('--host-command', "in '{host} --"),
                'no closing',
            ),
            (('--power-on-command', "o'n"), '--power-on-command: a shell'),
        ):
            status, _, err = run_command(
                *('accept', '--os-cloud', 'nowhere', *args)
            )
            self.assertEqual(2, status)
            self.assertEqual(1, err.count('\n'), err)
            self.assertIn(expected, err)

    def test_one_run_on_a_cloud(self) -> None:
        """Another workspace does not help: clean-ups are the cloud's."""
        self.cloud()
        other = Workspace(self.directory / 'other')
        with (
            runner.lock_workspace(other),
            runner.lock_cloud(other, f'{fake.KEYSTONE}/'),
        ):
            for args in ((), ('--cleanup',)):
                message = self.refused(*args)
                self.assertIn(f'use it from {other.directory}', message)
            self.assertIn('no test was run', self.refused('--last'))
        self.assertIn('no --catalogue', self.refused())

    def test_power_first(self) -> None:
        """Whatever else: a killed test's host gets its power back."""
        self.cloud()
        workspace = self.directory / 'workspace'
        paths.claim(workspace)
        done = self.directory / 'done'
        for args in ((), ('--cleanup',)):
            done.unlink(missing_ok=True)
            with contextlib.suppress(errors.CommandError):
                power.power_off(workspace, 'h1', 'false', f'touch {done}')
            with redirect_stderr(io.StringIO()):
                main(self.build_args(*args))
            self.assertTrue(done.exists())

    def test_no_administrator(self) -> None:
        self.cloud(roles=('member',))
        message = self.refused('--catalogue', str(CATALOGUES / 'vsan.yaml'))
        self.assertIn('--accounts FILE', message)

    def conf(self, cloud: fake.FakeCloud, *args: str) -> dict[str, str]:
        """Return the options of hvstack in tempest.conf."""
        workspace = Workspace(self.directory / 'workspace')
        conn = cloud.connect()
        parsed_args = (
            accept.Accept(None, None).get_parser('accept').parse_args(args)
        )
        accept_conf.prepare_workspace(
            conn, conn, 'mine', workspace, parsed_args, Progress()
        )
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(workspace.conf)
        return dict(parser['hvstack'])

    def test_cloud_without_heat(self) -> None:
        cloud = self.cloud(without=('orchestration',))
        path = str(CATALOGUES / 'vsan.yaml')
        args = ('--catalogue', path, '--image', 'provider')
        for extra_args in ((), ('--placement-only',)):
            options = self.conf(cloud, *args, *extra_args)
            self.assertEqual(
                'Cannot create a cluster: The cloud has no Heat. Use a cloud '
                'that has Heat.',
                options['no_cluster'],
            )
            self.assertNotIn('stack_request', options)

    def test_existing_cluster(self) -> None:
        """It needs no plan: its hosts may be others, or full."""
        cloud = self.cloud()
        cloud.http.get(f'{fake.NOVA}/os-services', status_code=403)
        cloud.http.get(f'{fake.NOVA}/os-hypervisors/detail', status_code=403)
        cloud.http.get(f'{fake.GLANCE}/images/hvstack-hadoop', status_code=404)
        args = [
            *('--catalogue', str(CATALOGUES / 'vsan.yaml')),
            *('--image', 'provider'),
        ]
        self.assertIn('no_cluster', self.conf(cloud, *args))
        options = self.conf(cloud, *args, '--stack', 'mine')
        self.assertEqual('mine', options['stack'])
        self.assertEqual('True', options['controllers_beside_workers'].title())
        for name in ('no_cluster', 'stack_request', 'replication'):
            self.assertNotIn(name, options)

    def test_numbers_of_a_request(self) -> None:
        cloud = self.cloud()
        path = self.directory / 'stack.json'
        args = [
            *('--catalogue', str(CATALOGUES / 'vsan.yaml')),
            *('--image', 'provider', '--stack-request', str(path)),
        ]
        for site, replication in (
            (site_files.render_property('dfs.replication', '3'), '3'),
            ('', None),
        ):
            parameters = {'workers_per_host': 4, 'hdfs_site': site}
            request = {'template': {}, 'parameters': parameters}
            path.write_text(json.dumps(request))
            options = self.conf(cloud, *args)
            self.assertEqual(replication, options.get('replication'))
            if replication:
                self.assertEqual('4', options['workers_per_host'])
            else:
                self.assertIn(str(path), options['no_cluster'])

    def test_availability_zone(self) -> None:
        cloud = self.cloud(without=('orchestration',))
        args = [
            *('--catalogue', str(CATALOGUES / 'vsan.yaml')),
            *('--image', 'provider'),
        ]
        self.assertNotIn('availability_zone', self.conf(cloud, *args))
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLOUD__AVAILABILITY_ZONE', 'az1')
        )
        for name in ('az1', 'nova'):
            cloud.http.get(
                f'{fake.CINDER}/os-availability-zone',
                json={'availabilityZoneInfo': [{'zoneName': name}]},
            )
            options = self.conf(cloud, *args)
            self.assertEqual('az1', options['availability_zone'])
            self.assertEqual(name == 'az1', 'volume_zone' in options)

    def test_network_of_a_project(self) -> None:
        """The projects that Tempest creates do not see it."""
        self.network = {'shared': False}
        cloud = self.cloud(without=('orchestration',))
        args = [
            *('--catalogue', str(CATALOGUES / 'vsan.yaml')),
            *('--image', 'provider'),
        ]
        error = self.assertRaises(errors.InputError, self.conf, cloud, *args)
        self.assertIn('--target-all-projects i1', str(error))
        self.assertFalse((self.directory / 'workspace/tempest.conf').exists())
        for extra_args in (
            ('--smoke',),
            ('--dry-run',),
            ('--accounts', str(self.directory / 'accounts.yaml')),
        ):
            options = self.conf(cloud, *args, *extra_args)
            self.assertEqual('i1', options['network'])

    def test_what_takes_hosts_away_must_be_asked_for(self) -> None:
        cloud = self.cloud(without=('orchestration',))
        args = [
            *('--catalogue', str(CATALOGUES / 'vsan.yaml')),
            *('--image', 'provider', '--host-access', 'local'),
            *('--power-off-command', 'off {host}'),
        ]
        options = self.conf(cloud, *args)
        self.assertEqual('local', options['host_access'])
        self.assertNotIn('power_off_command', options)
        options = self.conf(cloud, *args, '--destructive')
        self.assertEqual('off {host}', options['power_off_command'])

    def test_key_for_the_hosts(self) -> None:
        """Tempest runs in the workspace."""
        cloud = self.cloud(without=('orchestration',))
        args = [
            *('--catalogue', str(CATALOGUES / 'vsan.yaml')),
            *('--image', 'provider', '--host-access', 'ssh'),
            *('--host-ssh-key', 'key', '--host-ssh-config', 'config'),
        ]
        previous = Path.cwd()
        self.addCleanup(os.chdir, previous)
        os.chdir(self.directory)
        error = self.assertRaises(errors.InputError, self.conf, cloud, *args)
        self.assertIn('--host-ssh-key key', str(error))
        (self.directory / 'key').touch()
        error = self.assertRaises(errors.InputError, self.conf, cloud, *args)
        self.assertIn('--host-ssh-config config', str(error))
        (self.directory / 'config').touch()
        options = self.conf(cloud, *args)
        for name in ('key', 'config'):
            self.assertEqual(
                str(self.directory / name), options[f'host_ssh_{name}']
            )


class DoctorTest(CloudTest):
    """Who cannot see hosts still gets the table, and no status 0."""

    def table(
        self, cloud: fake.FakeCloud
    ) -> tuple[int, dict[str, dict[str, str]]]:
        """Return the status and the findings by check."""
        cloud.http.get(
            re.compile(r'(heat|nova|placement|neutron|glance)\.test/.*\w/\w'),
            status_code=403,
        )
        status, out, _ = run_command(
            *('doctor', '--os-cloud', 'mine', '--host', 'vsan', '-f', 'json'),
            *('--configuration', 'i4-ceph'),
        )
        return status, {
            finding['Check']: finding for finding in json.loads(out)
        }

    def test_member(self) -> None:
        cloud = self.cloud(roles=('member',))
        cloud.http.get(f'{fake.PLACEMENT}/resource_providers', status_code=403)
        status, findings = self.table(cloud)
        self.assertEqual(1, status)
        self.assertIn('admin', findings["number of workers' hosts"]['Remedy'])
        self.assertEqual('fault', findings['rights']['State'])
        self.assertEqual('ok', findings['service nova']['State'])
        # Volumes on Ceph are not disks of the host.
        disks = findings['disks of the baseline']
        self.assertEqual('note', disks['State'])
        self.assertIn('under Ceph are not known', disks['Detail'])
        self.assertIn("'disks' of the inventory", disks['Remedy'])

    def test_cloud_without_placement(self) -> None:
        cloud = self.cloud(without=('placement',))
        status, findings = self.table(cloud)
        self.assertEqual(1, status)
        self.assertEqual('fault', findings['service placement']['State'])
        finding = findings["number of workers' hosts"]
        self.assertEqual('not checked', finding['State'])
        self.assertIn('registered', finding['Remedy'])
        self.assertEqual('ok', findings['rights']['State'])
