# SPDX-License-Identifier: Apache-2.0
"""A cluster on hosts without guests: what is planned, what is refused."""

from typing import Any

import testtools

from hvstack import errors, host_profiles
from hvstack.accept import placement_only, tempest_conf
from hvstack.model import catalogue
from hvstack.model.configuration import parse
from tests.unit.cloud import fake

PROVIDERS = f'{fake.PLACEMENT}/resource_providers'


class PlacingTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.profile = host_profiles.load('vsphere6')
        self.small = {'PCPU': {'total': 2}, 'MEMORY_MB': {'total': 5120}}
        self.large = {'PCPU': {'total': 40}, 'MEMORY_MB': {'total': 262144}}
        self.shared = {'VCPU': {'total': 40}, 'MEMORY_MB': {'total': 262144}}

    def answer(self, *hosts: tuple[str, str, dict[str, Any]]) -> None:
        """Have hosts: name, kind of hypervisor, inventories."""
        self.cloud.http.get(
            f'{fake.NOVA}/os-hypervisors/detail',
            json={
                'hypervisors': [
                    {
                        'id': name,
                        'hypervisor_hostname': name,
                        'hypervisor_type': hypervisor_type,
                        'hypervisor_version': 1,
                        'state': 'up',
                        'status': 'enabled',
                    }
                    for name, hypervisor_type, _ in hosts
                ]
            },
        )
        self.cloud.http.get(
            PROVIDERS,
            json={
                'resource_providers': [
                    {'name': n, 'uuid': n, 'parent_provider_uuid': None}
                    for n, _, _ in hosts
                ]
            },
        )
        for name, _, inventories in hosts:
            self.cloud.http.get(
                f'{PROVIDERS}/{name}/inventories',
                json={'inventories': inventories},
            )

    def fakes(self, count: int) -> list[tuple[str, str, dict[str, Any]]]:
        return [(f'f{n}', 'fake', self.large) for n in range(count)]

    def plan(self, label: str, requested: str | None = None) -> Any:
        data = catalogue.build_catalogue(self.profile, [parse(label)])
        loaded_catalogue = catalogue.from_mapping(data, lambda *_: 'x.yaml:1')
        return placement_only.plan_cluster(
            self.cloud.connect(),
            [(loaded_catalogue, self.profile)],
            parse(requested or label),
            image='i',
            network='provider',
        )

    def refused(
        self, error: type[Exception], label: str, requested: str | None = None
    ) -> str:
        text = str(self.assertRaises(error, self.plan, label, requested))
        self.assertNotIn('\n', text)
        return text

    def test_all_slots_of_8_hosts(self) -> None:
        """Table 1 of vsphere6 leaves each controller a slot of four."""
        self.answer(*self.fakes(8), ('lxc1', 'LXC', self.small))
        plan, size = self.plan('i4-dedicated')
        self.assertEqual(30, plan.nodes.workers)
        self.assertEqual(
            {f'f{n}' for n in range(8)}, set(plan.hosts.providers)
        )
        self.assertEqual('namenode', plan.flavors.controller.role)
        self.assertEqual(3, plan.nodes.replication)
        self.assertEqual((2, 1), (size.controllers, size.slots_per_controller))

    def test_request(self) -> None:
        self.answer(*self.fakes(8))
        for label, controllers, first in (
            ('i1-dedicated', 'combined', None),
            ('i4-dedicated', 'separate', None),
            ('i20-dedicated', 'separate', True),
        ):
            plan, _ = self.plan(label)
            conn = self.cloud.connect()
            body = tempest_conf.build_stack_request(plan, conn)
            parameters = body['parameters']
            self.assertEqual(
                plan.flavors.worker.name, parameters['worker_flavor']
            )
            self.assertEqual(
                plan.flavors.controller.name, parameters['controller_flavor']
            )
            self.assertEqual(plan.nodes.workers, parameters['worker_count'])
            self.assertEqual(first, parameters.get('controllers_first'))
            merged = body['environment']['parameters']
            self.assertEqual(controllers, merged['controllers'], label)

    def test_refusals(self) -> None:
        self.answer(('lxc1', 'LXC', self.small))
        message = self.refused(errors.CloudError, 'i4-dedicated')
        self.assertIn('no host that is up can run hv-vsphere6-worker', message)
        self.answer(*self.fakes(2), ('kvm1', 'QEMU', self.large))
        message = self.refused(errors.CloudError, 'i4-dedicated')
        self.assertIn('several hypervisor types (QEMU, fake)', message)
        self.answer(*self.fakes(1))
        message = self.refused(errors.InputError, 'i1-dedicated')
        self.assertIn('more hosts', message)
        message = self.refused(errors.InputError, 'i4-dedicated', 'i2')
        self.assertIn('no catalogue has a worker flavor of i2', message)

    def test_shared_cpus_are_other_hosts(self) -> None:
        self.answer(*self.fakes(2), ('kvm1', 'QEMU', self.shared))
        message = self.refused(errors.InputError, 'i1')
        self.assertIn('hosts: 1, slots of each host: 1', message)
