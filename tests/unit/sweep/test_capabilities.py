# SPDX-License-Identifier: Apache-2.0
"""What a cloud lacks is found before a sweep, at the services' boundary."""

import json
from dataclasses import replace
from types import SimpleNamespace

import fixtures
import testtools

from hvstack import errors, host_profiles
from hvstack.model.configuration import parse
from hvstack.sweep import capabilities, search_space
from tests.unit.cli.runner import run_command
from tests.unit.cloud import fake
from tests.unit.cloud.test_volumes import kind

VALUES = (
    'storage=local,ceph',
    'cpu_policy=shared,dedicated',
    'disk_pinning=off,on',
)


class LacksTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.cloud.hosts(2)
        self.inventories('VCPU')
        self.types()
        self.profile = host_profiles.load('vsphere6')

    def inventories(self, *resource_classes: str) -> None:
        for name in ('h0', 'h1'):
            self.cloud.http.get(
                f'{fake.PLACEMENT}/resource_providers/{name}/inventories',
                json={
                    'inventories': {
                        resource_class: {}
                        for resource_class in resource_classes
                    }
                },
            )

    def types(self, *names: str, **properties: str) -> None:
        self.cloud.http.get(
            f'{fake.CINDER}/types',
            json={
                'volume_types': [kind(name, **properties) for name in names]
            },
        )

    def find_missing(self, *values: str, command: str | None = None) -> dict:
        return capabilities.find_missing(
            self.cloud.connect(),
            search_space.parse_space(values),
            self.profile,
            SimpleNamespace(host_mode_command=command),
        )

    def test_all_that_is_lacking(self) -> None:
        missing = self.find_missing(*VALUES)
        self.assertEqual({'ceph', 'dedicated', 'disk-pinning'}, set(missing))
        self.assertIn("Cannot find volume type 'ceph'", missing['ceph'])
        self.assertIn('h0 has no inventory of PCPU', missing['dedicated'])
        self.assertIn("'disk-slot-1'", missing['disk-pinning'])
        for reason in missing.values():
            self.assertNotIn('\n', reason)

    def test_what_is_there(self) -> None:
        self.inventories('VCPU', 'PCPU')
        self.types('ceph', *(f'disk-slot-{n + 1}' for n in range(20)))
        self.assertEqual({}, self.find_missing(*VALUES))

    def test_some_disks_are_not_enough(self) -> None:
        self.types(*(f'disk-slot-{n + 1}' for n in range(19)))
        missing = self.find_missing('disk_pinning=on')
        self.assertIn("'disk-slot-20'", missing['disk-pinning'])

    def test_a_command_switches_the_hosts(self) -> None:
        self.assertEqual(
            {},
            self.find_missing(
                'cpu_policy=shared,dedicated', command='to {mode}'
            ),
        )
        error = self.assertRaises(
            errors.InputError,
            self.find_missing,
            'cpu_policy=dedicated',
            command='to',
        )
        self.assertIn("host_mode_command 'to'", str(error))

    def test_only_what_is_asked_for_is_looked_up(self) -> None:
        before = len(self.cloud.http.request_history)
        self.assertEqual({}, self.find_missing('instances=1,2'))
        requests = self.cloud.http.request_history[before:]
        self.assertEqual(
            [],
            [request.url for request in requests if 'cinder' in request.url],
        )

    def test_the_backend_that_the_lab_tells(self) -> None:
        self.cloud.hosts(2)
        conn = self.cloud.connect()
        for backend, requested, good in (
            (None, 'kvm', True),
            (None, 'qemu', True),
            (None, 'lxc', False),
            ('qemu', 'qemu', True),
            ('qemu', 'kvm', False),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.cluster.baseline_hosts.lab_backend',
                    lambda _, backend=backend: backend,
                )
            )
            if good:
                capabilities.check_backend(
                    conn, self.profile, parse('i1'), requested
                )
                continue
            error = self.assertRaises(
                errors.InputError,
                *(capabilities.check_backend, conn, self.profile),
                *(parse('i1'), requested),
            )
            self.assertIn(backend or 'kvm', str(error))

    def test_hosts_with_the_trait_of_a_storage(self) -> None:
        """Workers with local storage can be on one host alone."""
        self.profile = replace(self.profile, traits={'local': 'CUSTOM_L'})
        self.cloud.give_trait('CUSTOM_L', 'h1')
        self.cloud.http.get(
            f'{fake.PLACEMENT}/resource_providers/h1/inventories',
            json={'inventories': {'PCPU': {}}},
        )
        values = ('cpu_policy=shared,dedicated',)
        self.assertEqual({}, self.find_missing(*values))
        missing = self.find_missing(*values, 'storage=ceph')
        self.assertIn('h0 has no inventory of PCPU', missing['dedicated'])
        conn = self.cloud.connect()
        self.assertEqual(
            'kvm', capabilities.get_backend(conn, self.profile, parse('i1'))
        )
        self.cloud.give_trait('CUSTOM_L')
        self.assertRaises(
            errors.CloudError,
            capabilities.get_backend,
            *(conn, self.profile, parse('i1')),
        )

    def test_a_configuration_is_refused(self) -> None:
        conn = self.cloud.connect()
        options = SimpleNamespace(
            cloud=SimpleNamespace(host_profile='vsphere6'),
            sweep=SimpleNamespace(host_mode_command=None),
        )
        for name, message in (
            ('i1-dedicated', 'switch them to dedicated CPUs (h0 has no'),
            ('i1-pinned', 'no volume type for each disk'),
        ):
            error = self.assertRaises(
                errors.InputError,
                capabilities.check_capabilities,
                *(conn, parse(name), options),
            )
            self.assertIn(message, str(error))
        capabilities.check_capabilities(conn, parse('i1'), options)

    def test_the_decks_storage(self) -> None:
        conn = self.cloud.connect()
        storage, reason = capabilities.choose_storage(
            conn, self.profile, 'kvm'
        )
        self.assertEqual('local', storage)
        self.assertIn("Cannot find volume type 'ceph'", reason)
        self.types('ceph', copies='3')
        self.assertEqual(
            'local', capabilities.choose_storage(conn, self.profile, 'kvm')[0]
        )
        self.types('ceph', copies='1')
        self.assertEqual(
            'ceph', capabilities.choose_storage(conn, self.profile, 'kvm')[0]
        )
        storage, reason = capabilities.choose_storage(
            conn, self.profile, 'lxc'
        )
        self.assertEqual('local', storage)
        self.assertIn('containers cannot attach volumes', reason)

    def plan(self, *args: str) -> tuple[int, str, str]:
        self.useFixture(fake.CloudsFile('test'))
        return run_command(
            *('sweep', 'plan', '--host', 'vsphere6'),
            *('--run-seconds', '60', '--setup-seconds', '0', *args),
        )

    def test_a_plan_asks_the_cloud(self) -> None:
        args = ('--backend', 'kvm', '--os-cloud', 'test', '--values')
        self.types('ceph', copies='1')
        status, out, err = self.plan(
            *args, 'cpu_policy=shared,dedicated', '-f', 'json'
        )
        self.assertEqual(0, status, err)
        plan = json.loads(out)
        self.assertEqual('i1-ceph', plan['start'])
        self.assertIn('start i1-ceph, storage ceph: ', plan['cloud'][0])
        self.assertIn('lacks dedicated: h0 has no', plan['cloud'][1])
        ((name, reason),) = [row.values() for row in plan['skipped']]
        self.assertEqual('i1-ceph-dedicated', name)
        self.assertIn('the hosts are in shared mode', reason)
        # A start that is named is taken.
        status, out, err = self.plan(*args, 'instances=1,2', '--start', 'i2')
        self.assertIn('from i2,', out)
        # No service is asked without a cloud.
        status, out, err = self.plan(
            '--backend', 'kvm', '--values', 'instances=1,2'
        )
        self.assertIn(
            'cloud: No capabilities are checked. Use --os-cloud', out
        )
        self.assertIn('from i1,', out)

    def test_another_backend_is_refused(self) -> None:
        status, _, err = self.plan(
            *('--backend', 'lxc', '--os-cloud', 'test'),
            *('--values', 'instances=1,2'),
        )
        self.assertEqual(2, status)
        self.assertIn('--backend lxc: the hosts of the workers have kvm', err)
