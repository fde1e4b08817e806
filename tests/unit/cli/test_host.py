# SPDX-License-Identifier: Apache-2.0
"""``hvstack host``: what it prints is a profile."""

import json
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import host_profiles
from hvstack.model.host import HostDisks
from tests.unit.cli.runner import run_command
from tests.unit.cloud import fake
from tests.unit.model.test_host_detection import CLOUD, SAMPLES

#: The options that name a host of the cloud.
HOST = ('--os-cloud', 'test', '--from-cloud', 'compute1.example')


class Commands(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)

    def call(self, *args: str) -> tuple[int, str, str]:
        return run_command('host', *args)

    def detect(self, *args: str) -> Any:
        """Return the profile that is printed, read again."""
        status, out, err = self.call('detect', *args)
        self.assertEqual((0, ''), (status, err))
        path = self.directory / 'found.yaml'
        path.write_text(out)
        return host_profiles.load(str(path))

    def refused(self, *args: str) -> str:
        status, out, err = self.call('detect', *args)
        self.assertEqual((2, '', 1), (status, out, err.count('\n')), err)
        return err


class Machine(Commands):
    """This machine is one whose programs print the samples."""

    def setUp(self) -> None:
        super().setUp()
        programs = self.directory / 'bin'
        programs.mkdir()
        for name in ('lscpu', 'lsblk'):
            program = programs / name
            program.write_text(f'#!/bin/sh\ncat {SAMPLES / name}.json\n')
            program.chmod(0o755)
        self.useFixture(
            fixtures.EnvironmentVariable('PATH', f'{programs}:/usr/bin:/bin')
        )
        node = self.directory / 'node0'
        node.mkdir()
        (node / 'meminfo').write_text((SAMPLES / 'meminfo').read_text())
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cli.host.NODES', self.directory)
        )

    def test_detect(self) -> None:
        profile = self.detect('--name', 'mine')
        self.assertEqual(
            ('mine', 2, 24105, None),
            (profile.name, profile.cpus, profile.memory_mib, profile.disks),
        )
        profile = self.detect('--disks', 'vda', '--rotational', 'no')
        self.assertEqual(HostDisks(1, 274, False), profile.disks)
        self.assertIn('--rotational', self.refused('--disks', 'vda'))
        self.assertIn(
            '--cells without --from-cloud', self.refused('--cells', '2')
        )
        self.assertIn("'name'", self.refused('--name', 'My host'))

    def test_no_json(self) -> None:
        (self.directory / 'bin' / 'lsblk').write_text('#!/bin/sh\necho old\n')
        status, _, err = self.call('detect')
        self.assertEqual((3, 1), (status, err.count('\n')))
        self.assertIn('Update util-linux', err)


class FromCloud(Commands):
    """A host of a cloud."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.useFixture(fake.CloudsFile('test'))
        http, base = self.cloud.http, f'{fake.PLACEMENT}/resource_providers'
        http.get(
            base,
            json={
                'resource_providers': [
                    {
                        'name': 'compute1.example',
                        'uuid': 'p1',
                        'parent_provider_uuid': None,
                    }
                ]
            },
        )
        http.get(
            f'{base}/p1/inventories',
            json={'inventories': CLOUD['inventories']},
        )
        http.get(f'{base}/p1/traits', json={'traits': CLOUD['traits']})
        self.hypervisors(
            {
                'hypervisor_hostname': 'compute1.example',
                'cpu_info': CLOUD['cpu_info'],
            }
        )

    def hypervisors(
        self, *hypervisors: dict[str, Any], status: int = 200
    ) -> None:
        self.http = self.cloud.http.get(
            f'{fake.NOVA}/os-hypervisors/detail',
            json={'hypervisors': list(hypervisors)},
            status_code=status,
        )

    def test_detect(self) -> None:
        profile = self.detect(
            *(*HOST, '--disks', '20x600'),
            *('--rotational', 'yes', '--sockets', '2', '--cells', '2'),
        )
        vsphere6 = host_profiles.load('vsphere6')
        self.assertEqual('compute1', profile.name)
        for field in ('cpus', 'memory_mib', 'cells', 'disks'):
            self.assertEqual(
                getattr(vsphere6, field), getattr(profile, field), field
            )
        self.assertEqual(
            'compute 2.86',
            self.http.last_request.headers['OpenStack-API-Version'],
        )

    def test_what_is_missing(self) -> None:
        self.assertIn('--disks 20x600', self.refused(*HOST))
        self.assertIn('--cells', self.refused(*HOST, '--disks', 'none'))
        self.assertIn(
            "host 'other'",
            self.refused(*HOST[:3], 'other', '--disks', 'none'),
        )

    def test_nova_does_not_tell(self) -> None:
        for hypervisor, status, text in (
            (
                {'hypervisor_hostname': 'another'},
                200,
                'Cannot find hypervisor',
            ),
            ({}, 403, 'list-detail'),
        ):
            self.hypervisors(
                *([hypervisor] if hypervisor else []), status=status
            )
            code, out, err = self.call('detect', *HOST, '--disks', 'none')
            self.assertEqual((1, '', 1), (code, out, err.count('\n')))
            self.assertIn(text, err)


class Known(Commands):
    """Profiles that have a name."""

    def test_list_and_show(self) -> None:
        status, out, _ = self.call('list', '-f', 'json')
        names = {profile['name'] for profile in json.loads(out)}
        self.assertEqual(0, status)
        self.assertTrue({'vsphere6', 'vsan', 'amd'} <= names)
        status, out, _ = self.call('show', 'vsan', '-f', 'json')
        data = json.loads(out)
        self.assertEqual((0, 56), (status, data['cpus']))
        self.assertEqual(host_profiles.load('vsan').digest, data['digest'])
        status, _, err = self.call('show', 'cray')
        self.assertEqual((2, 1), (status, err.count('\n')))


class NovaConf(Commands):
    """Settings of hosts, without a cloud."""

    def test_text_and_parts(self) -> None:
        args = ('nova-conf', 'vsphere6', '--cpu-policy', 'dedicated')
        status, out, err = self.call(*args)
        self.assertEqual((0, ''), (status, err))
        self.assertIn('reserved_host_memory_mb = 15360\n', out)
        self.assertNotIn('/etc/kolla', out)
        for part in ('nova.conf', 'kernel', 'scheduler', 'cinder'):
            status, text, _ = self.call(*args, '--file', part)
            self.assertEqual(0, status)
            self.assertIn(text, out)
            self.assertNotEqual(text, out)
        for line in out.splitlines():
            if line.startswith('#'):
                self.assertTrue(len(line) <= 79, line)

    def test_json(self) -> None:
        status, out, _ = self.call(
            *('nova-conf', 'amd', '--cpu-policy', 'dedicated'),
            *('--host-pages', '8', '-f', 'json'),
        )
        data = json.loads(out)
        self.assertEqual(0, status)
        self.assertEqual('0-31', data['cpu_set'])
        self.assertEqual(
            [(cell, 15368, 8) for cell in range(4)],
            [
                (page['cell'], page['count'], page['reserved'])
                for page in data['huge_pages']
            ],
        )
        self.assertIn('hugepages=61472', data['kernel_parameters'])
        self.assertIn('count:8', data['files']['nova.conf'])

    def test_quotas_of_a_cluster(self) -> None:
        """I x hosts less the slots of both controllers, and these."""
        args = ('nova-conf', 'vsphere6', '--file', 'neutron')
        _, out, _ = self.call(*args, '--hosts', '32', '--instances', '20')
        self.assertIn('[quotas]\n', out)
        self.assertIn('quota_port = 638\n', out)
        for options in ((), ('--hosts', '32', '--instances', '4')):
            status, out, _ = self.call(*args, *options)
            self.assertEqual((0, False), (status, 'quota_port' in out))
        for options in (('--hosts', '-1'), ('--hosts', '1')):
            status, _, err = self.call(*args, *options)
            self.assertEqual((2, 1), (status, err.count('\n')))

    def test_kolla(self) -> None:
        _, out, _ = self.call('nova-conf', 'amd', '--kolla')
        self.assertIn('# /etc/kolla/config/nova/nova-compute.conf\n', out)
        _, out, _ = self.call(
            *('nova-conf', 'amd', '--kolla', '-f', 'json', '--file', 'kernel')
        )
        self.assertEqual({'kernel': None}, json.loads(out)['kolla_paths'])

    def test_profile_in_a_file(self) -> None:
        """A host without disks has none that can be pinned."""
        path = self.directory / 'mine.yaml'
        path.write_text(
            'name: mine\nsockets: 1\ncores_per_socket: 8\n'
            'threads_per_core: 1\nmemory_mib: 32768\n'
        )
        status, out, _ = self.call('nova-conf', str(path))
        self.assertEqual(0, status)
        self.assertIn('cpu_shared_set = 0-7\n', out)
        for options in (
            ('--disk-pinning',),
            ('--host-pages', '1'),
            ('--host-pages', '-1', '--cpu-policy', 'dedicated'),
        ):
            status, out, err = self.call('nova-conf', str(path), *options)
            self.assertEqual((2, '', 1), (status, out, err.count('\n')), err)
            self.assertIn("'mine'", err)
