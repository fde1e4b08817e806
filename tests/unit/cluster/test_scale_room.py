# SPDX-License-Identifier: Apache-2.0
"""More workers than there is room for are refused."""

from typing import Any

import testtools

from hvstack import errors
from hvstack.cloud.stack_updates import Member
from hvstack.cluster.scale_plan import ScalePlan, Worker
from hvstack.cluster.scale_room import refuse
from hvstack.cluster.topology_refresh import StackNode
from tests.unit.cloud import fake
from tests.unit.cloud.test_quotas import limits
from tests.unit.cloud.test_stack_updates import URL, group, stack


class RefuseTest(testtools.TestCase):
    """A controller and three workers on hosts of two slots, one down."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(
            fake.FakeCloud(services={'network': fake.NEUTRON})
        )
        self.cloud.hosts(4, down=1)
        http = self.cloud.http
        self.quota_url = f'{fake.NEUTRON}/quotas/p1/details'
        http.get(self.quota_url, json={'quota': {}})
        http.get(f'{fake.NOVA}/limits', json=limits({}))
        size = {'vcpus': 2, 'ram': 4096, 'disk': 20}
        http.get(
            f'{fake.NOVA}/flavors/detail',
            json={
                'flavors': [
                    {'id': 'f', 'name': 'w', 'extra_specs': {}, **size}
                ]
            },
        )
        http.get(
            f'{fake.NOVA}/servers/detail',
            json={
                'servers': [
                    {
                        'id': name,
                        'OS-EXT-SRV-ATTR:hypervisor_hostname': host,
                        'flavor': {**size, 'vcpus': vcpus},
                    }
                    for name, host, vcpus in (
                        *(('c', 'h0', 3), ('w0', 'h1', 2)),
                        *(('w1', 'h1', 2), ('w2', 'h2', 2)),
                        ('other', 'h2', 2),
                    )
                ]
            },
        )
        http.get(
            f'{URL}/hv-x/s1/resources/workers?with_attr=removed_rsrc_list',
            json={'resource': {'attributes': {'removed_rsrc_list': []}}},
        )
        rows = group('workers', 0, 1, 2)
        http.get(f'{URL}/hv-x/s1/resources', json={'resources': rows})
        self.nodes = [
            StackNode(name, f'10.0.0.{index}', role, name, host='a')
            for index, (name, role) in enumerate(
                [('c', 'controller'), *((f'w{n}', 'worker') for n in range(3))]
            )
        ]

    def out(
        self, after: int, max_resources: int = -1, **overrides: str
    ) -> None:
        """Ask for a number of workers, of a stack with these parameters."""
        self.ask(ScalePlan(3, after), max_resources, **overrides)

    def ask(
        self, change: ScalePlan, max_resources: int = -1, **overrides: str
    ) -> None:
        """Ask whether a change has room in a stack with these parameters."""
        parameters = {
            'worker_flavor': 'f',
            'workers_per_host': '2',
            'anti_affinity': 'strict',
            'storage': 'local',
            'disk_pinning': 'False',
            'volume_types': '[[]]',
            'disk_gb': '10',
            **overrides,
        }
        answer = stack('CREATE_COMPLETE', None, parameters=parameters)
        self.cloud.http.get(f'{URL}/s1', json=answer)
        conn = self.cloud.connect()
        stack_now = conn.orchestration.get_stack('s1')
        refuse(conn, stack_now, change, self.nodes, max_resources)

    def refused(self, *args: Any, **overrides: str) -> str:
        error = self.assertRaises(
            errors.InputError, self.out, *args, **overrides
        )
        return str(error)

    def test_slots(self) -> None:
        """The controller fills its host, and one is down."""
        self.out(4)
        message = self.refused(5)
        self.assertIn('2 workers', message)
        self.assertIn('1 free slots', message)
        self.assertIn('up to 4 workers', message)
        self.out(5, anti_affinity='soft')

    def test_the_slot_of_the_next_number(self) -> None:
        """Heat gives the number of a removed worker to no other worker."""
        self.nodes = self.nodes[:1]
        http = self.cloud.http
        size = {'vcpus': 2, 'ram': 4096, 'disk': 20}
        http.get(
            f'{fake.NOVA}/servers/detail',
            json={
                'servers': [
                    {
                        'id': f'workers{index}',
                        'OS-EXT-SRV-ATTR:hypervisor_hostname': f'h{index % 3}',
                        'flavor': size,
                    }
                    for index in range(5)
                ]
            },
        )
        rows = group('workers', 0, 1, 2, 3, 4)
        http.get(f'{URL}/hv-x/s1/resources', json={'resources': rows})
        change = ScalePlan(5, 6)
        self.ask(change, disk_pinning='True')
        http.get(
            f'{URL}/hv-x/s1/resources/workers?with_attr=removed_rsrc_list',
            json={'resource': {'attributes': {'removed_rsrc_list': ['5']}}},
        )
        failure = self.assertRaises(
            errors.InputError, self.ask, change, disk_pinning='True'
        )
        self.assertIn('1 of them would be in slot 0', str(failure))
        self.assertIn('0 hosts that are up', str(failure))
        self.ask(change, disk_pinning='True', anti_affinity='soft')

    def test_resources_that_heat_does_not_list(self) -> None:
        """Otherwise, they would not count for Heat's limit."""
        self.cloud.http.get(f'{URL}/hv-x/s1/resources', status_code=504)
        self.assertRaises(errors.CloudError, self.out, 4, 1000)

    def test_only_an_administrator_sees_slots(self) -> None:
        self.cloud.http.get(
            f'{fake.NOVA}/os-hypervisors/detail', status_code=403
        )
        self.out(5)

    def test_only_hosts_that_the_flavor_can_be_on(self) -> None:
        self.cloud.http.get(
            f'{fake.NOVA}/flavors/detail',
            json={
                'flavors': [
                    {
                        'id': 'f',
                        'name': 'w',
                        **{'vcpus': 2, 'ram': 4096, 'disk': 20},
                        'extra_specs': {'trait:CUSTOM_X': 'required'},
                    }
                ]
            },
        )
        self.cloud.http.get(
            f'{fake.PLACEMENT}/resource_providers'
            '?required=COMPUTE_NODE,CUSTOM_X',
            json={
                'resource_providers': [
                    {'name': 'h1', 'uuid': 'h1', 'parent_provider_uuid': None}
                ]
            },
        )
        self.assertIn('have 0 free slots', self.refused(4))

    def test_quota(self) -> None:
        nova_limits = {
            'maxTotalInstances': 5,
            'totalInstancesUsed': 4,
            'maxTotalCores': 12,
            'totalCoresUsed': 9,
            'maxServerGroupMembers': 4,
        }
        self.cloud.http.get(f'{fake.NOVA}/limits', json=limits(nova_limits))
        self.out(4)
        message = self.refused(5, anti_affinity='soft')
        self.assertIn(
            '--instances 6 --cores 13 --server-group-members 5', message
        )
        # Each of the two slots' groups has three of them at most.
        self.assertNotIn(
            'members',
            self.refused(5, anti_affinity='soft', disk_pinning='True'),
        )

    def test_volumes(self) -> None:
        cinder_limits = {
            'maxTotalVolumes': 8,
            'totalVolumesUsed': 6,
            'maxTotalVolumeGigabytes': 100,
            'totalGigabytesUsed': 85,
        }
        self.cloud.http.get(
            f'{fake.CINDER}/limits', json=limits(cinder_limits)
        )
        types = '[["a", "b", "c"], ["d"]]'
        # What an alias without volumes leaves unused.
        self.out(4, volume_types='[["a", "b", "c"]]')
        # The fourth is in the second slot.
        self.out(4, volume_types=types, disk_pinning='True')
        message = self.refused(4, volume_types='[["a", "b"]]', storage='ceph')
        self.assertIn('gigabytes 20 needed, 15 left of 100', message)

    def test_more_resources_than_heat_takes(self) -> None:
        """There are ten, and each worker is four more."""
        self.out(4, 14)
        self.assertIn('a stack of 4 workers: it has 14 ', self.refused(4, 13))

    def test_in(self) -> None:
        """Nothing is asked where no worker comes."""
        self.cloud.http.get(f'{fake.NOVA}/limits', status_code=500)
        self.out(3)
        self.out(2)

    def test_a_replaced_worker_needs_a_port(self) -> None:
        """Heat deletes the old port last; the server is deleted first."""
        nova_limits = {'maxTotalInstances': 4, 'totalInstancesUsed': 4}
        self.cloud.http.get(f'{fake.NOVA}/limits', json=limits(nova_limits))
        worker = Worker('w0', 'a', Member('0', '', ('w0',), False))
        change = ScalePlan(3, 3, replace=(worker,))
        port = {'limit': 10, 'used': 9, 'reserved': 0}
        self.cloud.http.get(self.quota_url, json={'quota': {'port': port}})
        self.ask(change)
        port['used'] = 10
        self.cloud.http.get(self.quota_url, json={'quota': {'port': port}})
        failure = self.assertRaises(errors.InputError, self.ask, change)
        self.assertIn('ports 1 needed, 0 left of 10', str(failure))

    def test_compute_workers(self) -> None:
        """They have slots of their own, one a host, and no volumes."""
        http = self.cloud.http
        nova_limits = {
            'maxTotalInstances': 6,
            'totalInstancesUsed': 4,
            'maxServerGroupMembers': 2,
        }
        http.get(f'{fake.NOVA}/limits', json=limits(nova_limits))
        self.nodes.append(
            StackNode('c0', '10.0.0.9', 'compute', 'w0', host='a')
        )
        overrides = {'compute_per_host': '1', 'compute_flavor': ''}

        def add(after: int, **more: str) -> None:
            change = ScalePlan(3, 3, compute_before=1, compute_after=after)
            self.ask(change, **overrides, **more)

        add(2)
        failure = self.assertRaises(errors.InputError, add, 5)
        self.assertIn('Cannot add 4 compute workers', str(failure))
        self.assertIn('up to 3 compute workers', str(failure))
        failure = self.assertRaises(errors.InputError, add, 3)
        self.assertIn('--server-group-members 3', str(failure))
        add(3, anti_affinity='none')
        failure = self.assertRaises(
            errors.InputError, add, 4, anti_affinity='none'
        )
        self.assertIn('--instances 7', str(failure))
