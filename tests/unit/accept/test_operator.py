# SPDX-License-Identifier: Apache-2.0
"""No verdict speaks for flavors that were not inspected."""

import json
import unittest
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import fixtures
import testtools
import yaml
from tempest.lib import exceptions

from hvstack import errors, host_profiles
from hvstack.accept.host_inspection import Access
from hvstack.model import catalogue
from hvstack.model.configuration import parse
from hvstack.tempest_plugin import listing, operator_base
from hvstack.tempest_plugin.tests.host import test_hosts
from hvstack.tempest_plugin.tests.operator import (
    test_full_host,
    test_ratios,
    test_volumes,
)
from hvstack.tempest_plugin.tests.tenant import test_disk
from tests.unit.accept.tempestconf import configure

MEMORY = {'total': 262144, 'reserved': 15360, 'allocation_ratio': 1.0}
NO_HOST = {'message': 'No valid host was found. '}


class OperatorTest(testtools.TestCase):
    """One host, and a catalogue of several workers' flavors."""

    def ready(
        self,
        test: Any,
        names: tuple[str, ...],
        cpus: int = 40,
        **inventory_fields: Any,
    ) -> Any:
        """Give a test a catalogue, and a host with dedicated CPUs only."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        data = catalogue.build_catalogue(
            host_profiles.load('vsphere6'), [parse(name) for name in names]
        )
        (directory / 'c.yaml').write_text(yaml.safe_dump(data))
        self.names = [
            flavor['name']
            for flavor in data['flavors']
            if 'worker' in flavor['name']
        ]
        configure(
            self,
            {
                'hvstack': {
                    'catalogues': directory / 'c.yaml',
                    'include_candidates': True,
                    'configuration': parse(names[0]).name,
                }
            },
        )
        self.inventories = inventories = {
            'PCPU': {
                'total': cpus,
                'reserved': 0,
                'allocation_ratio': 1.0,
                **inventory_fields,
            },
            'MEMORY_MB': {**MEMORY, 'total': MEMORY['total'] * cpus // 40},
        }
        self.hypervisors = [
            {
                'hypervisor_hostname': 'h.example.org',
                'service': {'host': 'h'},
                'state': 'up',
                'vcpus_used': 0,
            }
        ]
        self.inventories_of_others: dict[str, dict[str, Any]] = {}
        self.queries: list[dict[str, str]] = []

        def list_providers(**query: str) -> dict[str, Any]:
            self.queries.append(query)
            return {
                'resource_providers': [
                    {
                        'name': hypervisor['hypervisor_hostname'],
                        'uuid': 'u'
                        if hypervisor is self.hypervisors[0]
                        else hypervisor['hypervisor_hostname'],
                        'parent_provider_uuid': None,
                    }
                    for hypervisor in self.hypervisors
                ]
            }

        test.check_results = []
        test.servers_client = SimpleNamespace(get=self.get)
        test.providers_client = SimpleNamespace(
            list_resource_providers=list_providers,
            list_resource_provider_inventories=lambda uuid: {
                'inventories': self.inventories_of_others.get(
                    uuid, inventories
                )
            },
            list_resource_provider_usages=lambda _: {'usages': {'PCPU': 0}},
        )
        return test

    def get(self, path: str) -> tuple[int, str]:
        """Return the hypervisors or the services of Nova."""
        if path == 'os-services?binary=nova-compute':
            return 200, json.dumps({'services': self.services})
        self.assertEqual('os-hypervisors/detail', path)
        return 200, json.dumps({'hypervisors': self.hypervisors})

    def skip_reason(self, run: Any) -> str:
        """Return why a test was not checked."""
        return str(self.assertRaises(unittest.SkipTest, run))

    def bad(self, test: Any) -> list[str]:
        """Return the subjects of the failed checks."""
        return [
            check.subject for check in test.check_results if not check.good
        ]

    def test_flavors_without_hosts(self) -> None:
        for name in ('test_inventories', 'test_allocations'):
            test = test_ratios.RatiosTest(name)
            self.ready(test, ('i4-dedicated',))
            getattr(test, name)()
            self.ready(test, ('i4-dedicated', 'i4'))
            reason = self.skip_reason(getattr(test, name))
            self.assertIn('no host takes these flavors: ', reason)
            self.assertIn(self.names[1], reason)
            self.assertNotIn(self.names[0], reason)
            self.assertTrue(test.check_results)
            self.assertEqual([], self.bad(test))

    def test_hosts_that_take_servers(self) -> None:
        test = test_full_host.FullHostTest('test_misfit')
        self.ready(test, ('i4-dedicated',))
        entry, _ = test.worker()
        self.assertEqual({'h.example.org': 'u'}, test.candidate_hosts(entry))
        self.assertIn(
            '!COMPUTE_STATUS_DISABLED',
            self.queries[-1]['required'].split(','),
        )
        self.hypervisors[0]['state'] = 'down'
        self.assertEqual({}, test.candidate_hosts(entry))

    def test_availability_zone(self) -> None:
        test = test_full_host.FullHostTest('test_misfit')
        self.ready(test, ('i4-dedicated',))
        entry, _ = test.worker()
        for zone, expected in (('az1', {'h.example.org': 'u'}), ('az2', {})):
            self.services = [{'host': 'h', 'zone': zone}]
            configure(self, {'hvstack': {'availability_zone': 'az1'}})
            self.assertEqual(expected, test.candidate_hosts(entry))
        bodies: list[dict[str, Any]] = []
        test.delete_server = None
        test.wait_for_server = lambda _: {}
        test.servers_client.create_server = lambda **body: (
            bodies.append(body) or {'server': {'id': 's'}}
        )
        test.boot('f')
        self.assertEqual('az1', bodies[0]['availability_zone'])

    def test_zone_of_volumes(self) -> None:
        configure(self, {'hvstack': {'volume_zone': 'az1'}})
        bodies: list[dict[str, Any]] = []
        client = SimpleNamespace(
            create_volume=lambda **body: (
                bodies.append(body) or {'volume': {'id': 'v'}}
            ),
            show_volume=lambda _: {'volume': {'status': 'available'}},
            delete_volume=None,
            wait_for_resource_deletion=None,
        )
        clients = SimpleNamespace(volumes_client_latest=client)
        test = test_volumes.VolumesTest('test_backends')
        test.os_admin = clients
        test.volume_host('slot-1')
        member_test = test_disk.DiskTest('test_volumes_after_power_cycle')
        member_test.os_primary = clients
        member_test.volume('slot-1')
        self.assertEqual(
            2 * ['az1'], [body['availability_zone'] for body in bodies]
        )

    def test_misfit_on_mixed_hosts(self) -> None:
        """A host with more CPUs has too little memory for the worker."""
        test = test_full_host.FullHostTest('test_misfit')
        self.ready(test, ('i1-dedicated',))
        self.hypervisors.append(
            {**self.hypervisors[0], 'hypervisor_hostname': 'h2'}
        )
        self.inventories_of_others['h2'] = {
            'PCPU': {**self.inventories['PCPU'], 'total': 64},
            'MEMORY_MB': {**MEMORY, 'total': 16384},
        }
        refused: list[int] = []
        test.create_small_flavor = lambda vcpus, _: refused.append(vcpus)
        test.check_refused = lambda *_: None
        test.test_misfit()
        self.assertEqual([65], refused)

    def test_pins_of_running_guests(self) -> None:
        """They are inspected if no host is empty for the first flavor."""
        test = test_hosts.PinsTest('test_pins')
        self.ready(test, ('i4-dedicated', 'i2-dedicated'))
        test.providers_client.list_resource_provider_usages = lambda _: {
            'usages': {'PCPU': 20}
        }
        test.boot_sample = None
        guests = {self.names[0]: [], self.names[1]: [{'id': 's1'}]}
        test.running_guests = lambda entry: guests[entry.flavor.name]
        inspected: list[str] = []
        test.check_pins = lambda entry, _: inspected.append(entry.flavor.name)
        reason = self.skip_reason(test.test_pins)
        self.assertEqual([self.names[1]], inspected)
        self.assertIn(f'nor has room, of: {self.names[0]}', reason)
        self.assertNotIn(self.names[1], reason)

    def test_unknown_trait(self) -> None:
        """Placement rejects a query with a trait that no host ever had."""
        test = test_full_host.FullHostTest('test_misfit')
        self.ready(test, ('i4-dedicated',))
        entry, _ = test.worker()

        def refuse(**_: str) -> None:
            raise exceptions.BadRequest

        test.providers_client.list_resource_providers = refuse
        self.assertRaises(exceptions.BadRequest, test.candidate_hosts, entry)
        specs = {'trait:CUSTOM_HVSTACK': 'required'}
        flavor = replace(entry.flavor, extra_specs=specs)
        entry = replace(entry, flavor=flavor)
        self.assertEqual({}, test.candidate_hosts(entry))

    def test_host_larger_than_its_profile(self) -> None:
        """I workers leave CPUs free on it, so that one more is accepted."""
        test = test_full_host.FullHostTest('test_worker_too_many')
        self.ready(test, ('i4-dedicated',), cpus=80)
        self.assertIn(
            'with at most 40 CPUs is empty',
            self.skip_reason(test.test_worker_too_many),
        )
        entry, _ = test.worker()
        self.assertEqual(('h.example.org', 'u'), test.empty_host(entry))

    def test_commands_on_hosts(self) -> None:
        """Commands get the name of the compute service."""
        test = test_hosts.ConfigurationTest(
            'test_ratios_are_left_to_placement'
        )
        self.ready(test, ('i4-dedicated',))
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'hosts'
        test.access = Access(
            'command', f"sh -c 'echo $1 >>{path}; exit 1' x {{host}} --"
        )
        self.assertRaises(
            errors.HostAccessError, test.test_ratios_are_left_to_placement
        )
        hosts = set(path.read_text(encoding='utf-8').splitlines())
        self.assertEqual({'h'}, hosts)

    def test_no_room_for_a_disk(self) -> None:
        test = test_hosts.DisksTest('test_local_disk')
        self.ready(test, ('i4-dedicated',))
        test.running_guests = lambda _: []
        test.create_small_flavor = lambda *_: 'f'
        test.boot = lambda _: {'status': 'ERROR', 'fault': NO_HOST}
        self.assertIn(
            f'room for a small guest like those of {self.names[0]}',
            self.skip_reason(test.test_local_disk),
        )

    def test_each_placement_once(self) -> None:
        test = test_full_host.FullHostTest('test_misfit')
        # No host is as large as the first.
        self.ready(test, ('i1-dedicated', 'i2-dedicated', 'i2', 'i4'), 20)
        flavor_names = [
            entry.flavor.name
            for entry, _ in test.worker_flavors_by_placement()
        ]
        self.assertEqual(2, len(flavor_names))
        self.assertEqual(self.names[1], flavor_names[0])
        self.assertIn(flavor_names[1], self.names[2:])

    def test_one_worker_too_many(self) -> None:
        test = test_full_host.FullHostTest('test_worker_too_many')
        names = ('i4-dedicated', 'i2-dedicated')
        self.ready(test, names)
        worker_entry, _ = test.worker()
        test.check_other_flavors(worker_entry)
        (check,) = test.check_results
        self.assertEqual(('2', True), (check.observed, check.good))
        # Memory has a ratio of 1, at first.
        self.ready(test, names, allocation_ratio=1.5)
        test.check_other_flavors(worker_entry)
        self.assertEqual([], self.bad(test))
        self.inventories['MEMORY_MB']['allocation_ratio'] = 1.5
        self.assertRaises(
            AssertionError, test.check_other_flavors, worker_entry
        )
        self.assertEqual(1, len(self.bad(test)))
        self.ready(test, names, cpus=80)
        self.assertIn(
            self.names[1],
            self.skip_reason(lambda: test.check_other_flavors(worker_entry)),
        )
        self.ready(test, (*names, 'i1'))
        self.assertIn(
            self.names[2],
            self.skip_reason(lambda: test.check_other_flavors(worker_entry)),
        )

    def test_pins_of_every_flavor(self) -> None:
        test = test_full_host.FullHostTest('test_pins')
        self.ready(test, ('i2-dedicated', 'i4-dedicated', 'i1-dedicated'))
        servers: dict[str, dict[str, Any]] = {}
        shapes = dict(zip(self.names, (20, 10, 40), strict=True))
        refused = self.names[2]
        requested_hosts: list[str | None] = []

        def create(**body: Any) -> dict[str, Any]:
            flavor = body['flavorRef']
            # Nova's "host" is the name of a compute service.
            self.assertNotIn('host', body)
            requested_hosts.append(body.get('hypervisor_hostname'))
            key = f's{len(servers)}'
            servers[key] = {
                'id': key,
                'name': key,
                'flavor': flavor,
                'status': 'ERROR' if flavor == refused else 'ACTIVE',
                'fault': NO_HOST if flavor == refused else None,
            }
            return {'server': servers[key]}

        def get(path: str) -> tuple[int, str]:
            if path.startswith('os-hypervisors'):
                return self.get(path)
            key = path.split('/')[1]
            count = shapes[servers[key]['flavor']]
            first = int(key[1:]) * count
            pins = {str(cpu): first + cpu for cpu in range(count)}
            return 200, json.dumps(
                {'nodes': [{'host_node': 0, 'cpu_pinning': pins}]}
            )

        test.flavors_client = SimpleNamespace(
            list_flavors=lambda **_: {
                'flavors': [{'name': name, 'id': name} for name in self.names]
            }
        )
        deleted: list[str] = []

        def show(key: str) -> dict[str, Any]:
            if key in deleted:
                raise exceptions.NotFound
            return {'server': servers[key]}

        test.servers_client = SimpleNamespace(
            create_server=create,
            show_server=show,
            get=get,
            delete_server=deleted.append,
        )
        reason = self.skip_reason(test.test_pins)
        self.assertIn(f'no host has room for a guest of: {refused}', reason)
        self.assertEqual(['s0', 's1', 's2'], deleted)
        self.assertEqual(2 * ['h.example.org'] + 2 * [None], requested_hosts)
        self.assertEqual(4, len(servers))
        self.assertIn(
            's2: pinned vCPUs', [check.subject for check in test.check_results]
        )


class ListingTest(testtools.TestCase):
    """Nova and Cinder return pages."""

    @staticmethod
    def get_page(
        items: list[dict[str, Any]], name: str, marker: str = ''
    ) -> dict[str, Any]:
        """Return two items after a marker, and the link to the next ones."""
        ids = [item['id'] for item in items]
        first = ids.index(marker) + 1 if marker else 0
        page = {name: items[first : first + 2]}
        if first + 2 < len(items):
            page[f'{name}_links'] = [{'rel': 'next', 'href': 'http://x'}]
        return page

    def test_running_guests(self) -> None:
        servers = [
            {'id': f's{index}', 'flavor': {'original_name': name}}
            for index, name in enumerate(('a', 'b', 'a', 'b', 'a'))
        ]
        test: Any = test_hosts.PinsTest('test_pins')
        test.servers_client = SimpleNamespace(
            list_servers=lambda marker='', **_: self.get_page(
                servers, 'servers', marker
            )
        )
        entry: Any = SimpleNamespace(flavor=SimpleNamespace(name='a'))
        self.assertEqual(
            ['s0', 's2', 's4'],
            [server['id'] for server in test.running_guests(entry)],
        )

    def test_attached_volumes(self) -> None:
        configure(self, {'hvstack': {'volume_backends': 'slot-1:one'}})
        volumes = [
            {'id': f'v{index}', 'volume_type': 'slot-1', 'attachments': [1]}
            for index in range(4)
        ]
        test: Any = test_volumes.VolumesTest('test_backends')
        test.os_admin = SimpleNamespace(
            volumes_client_latest=SimpleNamespace(
                list_volumes=lambda detail, params: self.get_page(
                    volumes, 'volumes', params.get('marker', '')
                )
            )
        )
        self.assertEqual({'slot-1': volumes}, test.attached_volumes())

    def test_hypervisors(self) -> None:
        hypervisors = [
            {'id': f'h{index}', 'hypervisor_hostname': f'h{index}'}
            | {'state': 'down' if index == 1 else 'up'}
            for index in range(5)
        ]

        def get(path: str) -> tuple[int, str]:
            _, _, marker = path.partition('os-hypervisors/detail?marker=')
            page = self.get_page(hypervisors, 'hypervisors', marker)
            return 200, json.dumps(page)

        client: Any = SimpleNamespace(get=get)
        self.assertEqual(
            {'h0', 'h2', 'h3', 'h4'}, listing.list_up_hypervisors(client, None)
        )


class VolumesTest(testtools.TestCase):
    """A cluster uses the disks of the first type, and one of the second.

    :param users: servers with volumes of the first type, by the volume's host.
    :param pool_host: name before "@" in the names of Cinder's pools.
    """

    users: Mapping[str, str] = MappingProxyType({'h1': 's'})
    pool_host = 'h1'

    def run_test(
        self,
        name: str,
        pools: tuple[str, ...],
        used: bool,
        backend: str = 'one',
    ) -> tuple[Any, str]:
        """Run a test while Cinder has no room for a volume of ``slot-1``.

        :param name: name of the test.
        :param pools: names of the backends that Cinder has.
        :param used: whether servers have volumes of ``slot-1``.
        :param backend: backend in the extra specs of ``slot-1``.
        :returns: the test, and why it was skipped or failed.
        """
        configure(
            self,
            {
                'hvstack': {
                    'volume_backends': 'slot-1:one,slot-2:two',
                    'disk_pinning': True,
                }
            },
        )
        types = {'slot-1': backend, 'slot-2': 'two'}
        volumes = {
            'slot-1': {'id': 'slot-1', 'status': 'error'},
            'slot-2': {
                'id': 'slot-2',
                'status': 'available',
                'os-vol-host-attr:host': 'h1@two#two',
            },
        }
        attached = [
            {
                'id': f'v-{server}',
                'volume_type': 'slot-1',
                'os-vol-host-attr:host': f'{host}@one#one',
                'attachments': [{'server_id': server}],
            }
            for host, server in self.users.items()
        ]
        test: Any = test_volumes.VolumesTest(name)
        test.check_results = []
        test.os_admin = SimpleNamespace(
            volumes_client_latest=SimpleNamespace(
                list_volumes=lambda **_: {'volumes': attached if used else []},
                create_volume=lambda volume_type, **_: {
                    'volume': {'id': volume_type}
                },
                show_volume=lambda key: {'volume': volumes[key]},
                delete_volume=None,
                wait_for_resource_deletion=None,
            ),
            volume_types_client_latest=SimpleNamespace(
                list_volume_types=lambda **_: {
                    'volume_types': [
                        {
                            'name': volume_type,
                            'extra_specs': {'volume_backend_name': spec},
                        }
                        for volume_type, spec in types.items()
                    ]
                }
            ),
            volume_scheduler_stats_client_latest=SimpleNamespace(
                list_pools=lambda **_: {
                    'pools': [
                        {
                            'name': f'{self.pool_host}@{pool}#{pool}',
                            'capabilities': {'volume_backend_name': pool},
                        }
                        for pool in pools
                    ]
                }
            ),
        )
        reason = ''
        try:
            getattr(test, name)()
        except (AssertionError, unittest.SkipTest) as exc:
            reason = str(exc)
        return test, reason

    def test_disks_in_use(self) -> None:
        for name in ('test_backends', 'test_disks_of_one_node'):
            test, reason = self.run_test(name, ('one', 'two'), used=True)
            self.assertEqual('', reason)
            self.assertEqual(
                2,
                sum(
                    'backend of a volume' in check.subject
                    or check.subject.startswith('volume types on')
                    for check in test.check_results
                ),
            )
            test, reason = self.run_test(name, ('one', 'two'), used=False)
            self.assertEqual('not checked: no disk is free of: slot-1', reason)
            self.assertNotEqual([], test.check_results)

    def test_no_such_backend(self) -> None:
        _, reason = self.run_test('test_backends', ('two',), used=False)
        self.assertIn('slot-1: backend of a volume', reason)

    def test_cluster_of_volume_services(self) -> None:
        """Each of its services has the same disk."""
        name = 'test_disks_of_one_node'
        self.users = {'h1': 's', 'h2': 't'}
        for pool_host, disks in (('h1', None), ('cluster', 'cluster@one#one')):
            self.pool_host = pool_host
            test, reason = self.run_test(name, ('one', 'two'), used=True)
            failed = [
                check.subject for check in test.check_results if not check.good
            ]
            self.assertEqual([f'servers on {disks}'] if disks else [], failed)
            self.assertEqual(bool(disks), 'servers on' in reason)

    def test_another_backend(self) -> None:
        """A type that leads to no backend has no room, and is not full."""
        _, reason = self.run_test(
            'test_backends', ('one', 'two'), used=False, backend='wrong'
        )
        self.assertIn('slot-1: its backend', reason)


class SmallFlavorTest(testtools.TestCase):
    def test_image(self) -> None:
        """The flavor has room for the image, in each NUMA cell."""
        configure(self, {'compute': {'image_ref': 'i1'}})
        gib = 1024**3
        for image, specs, ram, disk in (
            ({}, {}, 128, 1),
            ({'min_ram': 512, 'min_disk': 3}, {}, 512, 3),
            ({'size': gib // 2, 'virtual_size': 2 * gib}, {}, 128, 2),
            ({'size': 5 * gib + 1, 'virtual_size': None}, {}, 128, 6),
            ({}, {'hw:numa_nodes': '3'}, 129, 1),
        ):
            created: list[dict[str, Any]] = []

            def create(created=created, **fields: Any) -> dict[str, Any]:
                created.append(fields)
                return {'flavor': {'id': 'f1'}}

            test: Any = test_full_host.FullHostTest('test_misfit')
            test.images_client = SimpleNamespace(
                show_image=lambda key, image=image: {'id': key, **image}
            )
            test.flavors_client = SimpleNamespace(
                create_flavor=create,
                delete_flavor=None,
                set_flavor_extra_spec=lambda *_, **__: None,
            )
            self.assertEqual('f1', test.create_small_flavor(2, specs))
            self.assertEqual(
                (ram, disk), (created[0]['ram'], created[0]['disk'])
            )


class HostAccessTest(testtools.TestCase):
    def test_no_access_is_not_checked(self) -> None:
        class InnerTest(testtools.TestCase):
            def setUp(self) -> None:
                super().setUp()
                self.exception_handlers.insert(
                    0, (errors.HostAccessError, operator_base.add_unchecked)
                )

            def test_it(self) -> None:
                raise error

        for error, is_checked in (
            (errors.HostAccessError('no route'), False),
            (errors.CloudError('no nova-compute'), True),
        ):
            tests: list[Any] = []
            result = testtools.ExtendedToStreamDecorator(
                testtools.StreamToDict(tests.append)
            )
            result.startTestRun()
            InnerTest('test_it').run(result)
            result.stopTestRun()
            (test,) = tests
            self.assertEqual(is_checked, test['status'] != 'skip')
            texts = [detail.as_text() for detail in test['details'].values()]
            self.assertIn(str(error), ''.join(texts))
