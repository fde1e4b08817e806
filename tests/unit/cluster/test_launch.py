# SPDX-License-Identifier: Apache-2.0
"""What is written down of a cloud while a cluster is there."""

from types import SimpleNamespace
from typing import Any

import testtools

from hvstack import errors, profiles
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import environments, launch
from hvstack.hadoop import sites
from hvstack.hadoop.sizing import DEFAULT, size_node
from hvstack.model.configuration import parse
from hvstack.model.flavor import derive
from tests.unit.cloud import fake
from tests.unit.cloud.test_volumes import kind


class Parameters(testtools.TestCase):
    def made(self, **more: Any) -> dict[str, Any]:
        vsan, chosen = profiles.load('vsan'), parse('i4')
        wanted = launch.Plan(
            configuration=chosen,
            worker=derive(vsan, chosen),
            controller=derive(vsan, chosen, 'controller'),
            providers={'one': 'p1'},
            workers=2,
            replication=2,
            backend='kvm',
            sizing=size_node(14, 49152, tuning=more.get('tuning', DEFAULT)),
            **more,
        )
        return environments.parameters(
            launch.layout(
                wanted,
                {'worker': 'w', 'controller': 'c'},
                image='i',
                network='n',
                key_name='k',
            )
        )

    def test_default_tuning(self) -> None:
        made = self.made()
        files = sites.sites(size_node(14, 49152), replication=2)
        self.assertEqual(files['mapred-site.xml'], made['mapred_site'])
        self.assertEqual('', made['hadoop_env'])
        self.assertIn('os_profile=vsphere6\n', made['node_setup'])

    def test_chosen_profiles(self) -> None:
        made = self.made(tuning='vsphere6', os_profile='amd')
        self.assertIn('<value>268435456</value>', made['hdfs_site'])
        self.assertIn('HEAP_datanode=1300\n', made['hadoop_env'])
        self.assertIn('os_profile=amd\n', made['node_setup'])

    def test_chosen_volumes(self) -> None:
        vsan, chosen = profiles.load('vsan'), parse('i4-ceph')
        worker = derive(vsan, chosen)
        self.assertEqual((4, 400), (worker.disks, worker.disk_size_gb))

        def made(**more: Any) -> dict[str, Any]:
            wanted = launch.Plan(
                configuration=chosen,
                worker=worker,
                controller=derive(vsan, chosen, 'controller'),
                providers={'one': 'p1'},
                workers=2,
                replication=2,
                backend='kvm',
                sizing=size_node(14, 49152),
                **more,
            )
            return environments.parameters(
                launch.layout(
                    wanted,
                    {'worker': 'w', 'controller': 'c'},
                    image='i',
                    network='n',
                    key_name='k',
                )
            )

        usual, other = made(), made(volumes=Volumes('fast', 8))
        self.assertEqual([['ceph'] * 4], usual['volume_types'])
        self.assertEqual(400, usual['disk_gb'])
        # As much room, on twice as many.
        self.assertEqual([['fast'] * 8], other['volume_types'])
        self.assertEqual(200, other['disk_gb'])


class OnCeph(testtools.TestCase):
    """A plan for volumes: what Cinder says of their type counts."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        http = self.cloud.http
        http.get(
            f'{fake.NOVA}/os-hypervisors/detail',
            json={
                'hypervisors': [
                    {
                        'id': f'u{number}',
                        'hypervisor_hostname': f'compute{number}',
                        'hypervisor_type': 'QEMU',
                        'hypervisor_version': 7002000,
                        'state': 'up',
                        'status': 'enabled',
                    }
                    for number in range(3)
                ]
            },
        )
        http.get(
            f'{fake.PLACEMENT}/resource_providers',
            json={
                'resource_providers': [
                    {
                        'name': f'compute{number}',
                        'uuid': f'p{number}',
                        'parent_provider_uuid': None,
                    }
                    for number in range(3)
                ]
            },
        )
        self.types = [kind('ceph', copies='3'), kind('fast', osd_groups='4')]
        http.get(
            f'{fake.CINDER}/types',
            json=lambda *_: {'volume_types': self.types},
        )
        self.options = SimpleNamespace(
            host_profile='vsan', controller_profile=None, backend='kvm'
        )

    def plan(self, label: str, asked: Volumes | None = None) -> launch.Plan:
        return launch.plan(
            self.cloud.connect(), parse(label), self.options, asked=asked
        )

    def test_the_type_is_looked_at(self) -> None:
        found = self.plan('i4-ceph')
        self.assertEqual('ceph', found.volume_type['type'])
        self.assertEqual({}, self.plan('i4').volume_type)
        found = self.plan('i4-ceph', Volumes('fast', 2, osd_groups=4))
        self.assertEqual(
            ('fast', 2), (found.volumes.type, found.volumes.count)
        )

    def test_what_it_lacks_is_refused(self) -> None:
        for asked, word in (
            (Volumes('fast', osd_groups=2), 'osd_groups is 4, not 2'),
            (Volumes(copies=2), 'copies is 3, not 2'),
            (Volumes('none'), "no volume type 'none'"),
        ):
            error = self.assertRaises(
                errors.InputError, self.plan, 'i4-ceph', asked
            )
            self.assertIn(word, str(error))
        self.types = []
        self.assertRaises(errors.InputError, self.plan, 'i4-ceph')
        self.plan('i4')
        self.assertRaises(errors.InputError, self.plan, 'i4', Volumes())


class Seen(testtools.TestCase):
    def test_seen(self) -> None:
        cloud = self.useFixture(fake.FakeCloud())
        http = cloud.http
        nova = {
            'vcpus': 14,
            'ram': 49152,
            'disk': 40,
            'ephemeral': 0,
            'swap': 0,
            'original_name': 'hv-vsan-worker',
            'extra_specs': {'quota:cpu_shares': '1024'},
        }
        for server in ('c1', 'w1'):
            http.get(
                f'{fake.NOVA}/servers/{server}',
                json={'server': {'id': server, 'flavor': nova}},
            )
        for server in ('c1', 'w1', 'w2'):
            http.get(
                f'{fake.PLACEMENT}/allocations/{server}',
                json={'allocations': {'p1': {'resources': {'VCPU': 14}}}},
            )
        http.get(
            f'{fake.PLACEMENT}/resource_providers',
            json={
                'resource_providers': [
                    {
                        'name': 'one',
                        'uuid': 'p1',
                        'parent_provider_uuid': None,
                    }
                ]
            },
        )
        inventory = {'total': 56, 'reserved': 0, 'allocation_ratio': 1.0}
        http.get(
            f'{fake.PLACEMENT}/resource_providers/p1/inventories',
            json={'inventories': {'VCPU': inventory}},
        )
        vsan, chosen = profiles.load('vsan'), parse('i4')
        host = {'name': 'vsan', 'digest': vsan.digest}
        wanted = launch.Plan(
            configuration=chosen,
            worker=derive(vsan, chosen),
            controller=derive(vsan, chosen, 'controller'),
            providers={'one': 'p1'},
            workers=2,
            replication=1,
            backend='kvm',
            sizing=size_node(14, 49152),
            host_profiles={'worker': host},
            volume_type={
                'type': 'ceph',
                'description': '',
                'properties': {'hvstack:copies': '2'},
            },
        )
        outputs: dict[str, Any] = {
            'controller': {'name': 'c', 'server_id': 'c1'},
            'workers': [
                {'name': 'a', 'server_id': 'w1'},
                {'name': 'b', 'server_id': 'w2'},
            ],
        }
        found = launch.seen(cloud.connect(), wanted, outputs)
        self.assertEqual(
            {
                'name': 'hv-vsan-worker',
                'vcpus': 14,
                'ram': 49152,
                'disk': 40,
                'ephemeral': 0,
                'extra_specs': {'quota:cpu_shares': '1024'},
            },
            found['flavor']['worker'],
        )
        self.assertEqual({'worker', 'controller'}, set(found['flavor']))
        self.assertEqual({'ceph': 2}, found['ceph_pools'])
        self.assertEqual(4, found['volumes']['of_a_worker'])
        self.assertEqual({'worker': host}, found['host_profile'])
        self.assertEqual({'one': {'VCPU': inventory}}, found['inventory'])
        self.assertEqual({'a', 'b', 'c'}, set(found['allocations']))
        self.assertEqual({'during': {'VCPU': 1.0}}, found['allocation_ratio'])
        self.assertTrue(found['hvstack'])
