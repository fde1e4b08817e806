# SPDX-License-Identifier: Apache-2.0
"""Publishing converges: what is missing, wrong, too much, or in use."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import testtools

from hvstack import errors
from hvstack.cloud import (
    catalogue_publisher,
    cluster_flavors,
    connection,
    journal,
    nova_flavors,
    undo,
)
from hvstack.model.catalogue import Catalogue, CatalogueEntry
from hvstack.model.configuration import parse
from hvstack.model.flavor import Flavor
from tests.unit.cloud import fake

FLAVOR = Flavor(
    name='hv-x-worker-i2-v10-m2048-d12',
    role='worker',
    vcpus=10,
    ram=2048,
    disk=12,
    description='worker of virtualized Hadoop',
    extra_specs={'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '1'},
)
EVIDENCE = {
    'percent': 95.5,
    'low': 92.0,
    'high': 99.0,
    'runs': 3,
    'backend': 'kvm',
    'date': '2026-11-21',
    'digest': 'd' * 64,
}


def entry(
    flavor: Flavor = FLAVOR, status: str = 'candidate'
) -> CatalogueEntry:
    return CatalogueEntry(
        flavor=flavor,
        configuration=parse('i2-dedicated'),
        status=status,
        evidence=EVIDENCE if status == 'approved' else None,
        source_location=lambda field: f'x.yaml:{field}',
    )


class FakeNova:
    """Flavors behind Nova's API, as far as publishing asks for them."""

    def __init__(self, http: Any) -> None:
        self.numbers = itertools.count()
        self.flavors: dict[str, dict[str, Any]] = {}
        self.access: dict[str, set[str]] = {}
        self.used: set[str] = set()
        self.requests: list[str] = []
        self.broken: dict[str, int] = {}
        http.register_uri(
            'GET', re.compile(f'{fake.NOVA}/.+'), json=self.answer
        )
        for method in ('POST', 'PUT', 'DELETE'):
            http.register_uri(
                method, re.compile(f'{fake.NOVA}/.+'), json=self.answer
            )

    def add(self, flavor: Flavor, specs: dict[str, str], **fields: Any) -> str:
        flavor_id = str(fields.get('id', f'f{next(self.numbers)}'))
        self.flavors[flavor_id] = {
            'id': flavor_id,
            'name': flavor.name,
            'vcpus': flavor.vcpus,
            'ram': flavor.ram,
            'disk': flavor.disk,
            'OS-FLV-EXT-DATA:ephemeral': flavor.ephemeral,
            'swap': '',
            'description': flavor.description,
            'os-flavor-access:is_public': False,
            'extra_specs': dict(specs),
            **fields,
        }
        self.access[flavor_id] = set()
        return flavor_id

    def named(self, name: str) -> dict[str, Any]:
        return next(f for f in self.flavors.values() if f['name'] == name)

    def answer(self, request: Any, context: Any) -> Any:
        path = request.path.removeprefix('/v2.1/')
        self.requests.append(f'{request.method} {path}')
        for pattern, status in self.broken.items():
            if re.search(pattern, self.requests[-1]):
                context.status_code = status
                return {'error': {'message': 'Nova said no'}}
        parts = path.split('/')
        body = request.json() if request.body else {}
        if parts[0] == 'servers':
            is_used = request.qs['flavor'][0] in self.used
            return {'servers': [{'id': 's1', 'name': 's'}] if is_used else []}
        if path == 'flavors/detail':
            return {'flavors': list(self.flavors.values())}
        if path == 'flavors':
            return self.create(body['flavor'], context)
        flavor = self.flavors[parts[1]]
        if request.method == 'DELETE' and len(parts) == 2:
            del self.flavors[parts[1]]
        elif request.method == 'DELETE':
            if flavor['extra_specs'].pop(parts[3], None) is None:
                context.status_code = 404
        elif request.method == 'PUT':
            if set(body['flavor']) != {'description'}:
                context.status_code = 400
                return {'badRequest': {'message': f'unexpected: {body}'}}
            flavor |= body['flavor']
            return {'flavor': flavor}
        elif parts[-1] == 'os-extra_specs':
            flavor['extra_specs'] |= body['extra_specs']
            return body
        elif parts[-1] == 'os-flavor-access':
            return {
                'flavor_access': [
                    {'tenant_id': project_id}
                    for project_id in self.access[parts[1]]
                ]
            }
        elif 'addTenantAccess' in body:
            self.access[parts[1]].add(body['addTenantAccess']['tenant'])
        elif 'removeTenantAccess' in body:
            self.access[parts[1]].remove(body['removeTenantAccess']['tenant'])
        return {}

    def create(self, requested: dict[str, Any], context: Any) -> Any:
        if any(f['name'] == requested['name'] for f in self.flavors.values()):
            context.status_code = 409
            return {'conflictingRequest': {'message': 'exists'}}
        flavor_id = self.add(FLAVOR, {}, **requested)
        return {'flavor': self.flavors[flavor_id]}


class PublishTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.conn = self.cloud.connect()
        self.nova = FakeNova(self.cloud.http)

    def jobs(
        self, entries: Sequence[CatalogueEntry], **options: Any
    ) -> list[catalogue_publisher.Job]:
        return catalogue_publisher.plan(
            self.conn,
            Catalogue('x', 90, tuple(entries)),
            entries,
            catalogue_publisher.Options(**options),
        )

    def publish(
        self, *entries: CatalogueEntry, **options: Any
    ) -> list[tuple[str, str]]:
        jobs = self.jobs(entries, **options)
        catalogue_publisher.apply(self.conn, jobs)
        return [(c.action, c.field) for job in jobs for c in job.changes]

    def add_published_flavor(self, **fields: Any) -> str:
        specs = FLAVOR.extra_specs | catalogue_publisher.labels('x', entry())
        flavor_id = catalogue_publisher.flavor_id('x', FLAVOR.name)
        specs |= fields.pop('specs', {})
        return self.nova.add(FLAVOR, specs, id=flavor_id, **fields)

    def test_first_publish_creates_all_of_it(self) -> None:
        self.publish(entry(status='approved'), projects={'p2'})
        flavor = self.nova.named(FLAVOR.name)
        self.assertEqual(FLAVOR.ram, flavor['ram'])
        self.assertFalse(flavor['os-flavor-access:is_public'])
        self.assertEqual('dedicated', flavor['extra_specs']['hw:cpu_policy'])
        self.assertEqual(
            'percent=95.5 low=92 high=99 runs=3 backend=kvm date=2026-11-21 '
            f'digest={"d" * 64}',
            flavor['extra_specs']['hvstack:evidence'],
        )
        self.assertIn('95.5 % of bare metal (92.0 to', flavor['description'])
        self.assertEqual({'p2'}, self.nova.access[flavor['id']])

    def test_second_publish_is_one_request(self) -> None:
        entries = [
            entry(replace(FLAVOR, name=f'hv-x-{index}')) for index in range(30)
        ]
        self.publish(*entries)
        self.nova.requests.clear()
        self.assertEqual([], self.publish(*entries))
        self.assertEqual(['GET flavors/detail'], self.nova.requests)

    def test_a_spec_too_much_goes_and_a_missing_one_comes_back(self) -> None:
        self.add_published_flavor(
            specs={'hw:by_hand': '1', 'hw:numa_nodes': '2'}
        )
        specs = self.nova.named(FLAVOR.name)['extra_specs']
        del specs['hw:cpu_policy']
        self.assertEqual(
            [
                ('remove', 'hw:by_hand'),
                ('add', 'hw:cpu_policy'),
                ('change', 'hw:numa_nodes'),
            ],
            sorted(self.publish(entry()), key=lambda change: change[1]),
        )
        self.assertEqual(
            FLAVOR.extra_specs | catalogue_publisher.labels('x', entry()),
            specs,
        )
        self.assertEqual([], self.publish(entry()))

    def test_description_and_access_converge(self) -> None:
        flavor_id = self.add_published_flavor(description='old')
        self.nova.access[flavor_id] = {'p1', 'p9'}
        changes = self.publish(entry(), projects={'p1', 'p2'})
        self.assertIn(('change', 'description'), changes)
        self.assertEqual({'p1', 'p2'}, self.nova.access[flavor_id])
        self.assertEqual(
            FLAVOR.description, self.nova.flavors[flavor_id]['description']
        )
        # No option changes the access: it stays.
        self.nova.access[flavor_id] = {'p7'}
        self.assertEqual([], self.publish(entry()))
        self.assertEqual({'p7'}, self.nova.access[flavor_id])

    def test_access_outlives_the_cluster_that_added_it(self) -> None:
        flavor_id = self.add_published_flavor()
        self.nova.access[flavor_id] = {'p1', 'p2'}
        for project in ('p1', 'p2'):
            journal.note(
                cluster_flavors.ACCESS_KIND,
                {'name': FLAVOR.name, 'id': flavor_id, 'project': project},
                connection.scope(self.conn),
            )
        journal.hand_over(journal.own(), 'cluster a')
        # What is only shown stays as it is.
        self.jobs([entry()], projects={'p1', 'p2'})
        self.assertEqual(2, len(journal.entries()))
        self.assertEqual(
            [('keep', 'access'), ('remove', 'access')],
            self.publish(entry(), projects={'p1'}),
        )
        self.assertEqual([], self.publish(entry(), projects={'p1'}))
        self.nova.access[flavor_id].add('p2')
        undo.undo(journal.owned('cluster a'), [self.conn])
        self.assertEqual({'p1'}, self.nova.access[flavor_id])

    def test_changed_size_retires_what_is_used(self) -> None:
        old = self.add_published_flavor()
        self.nova.access[old] = {'p1'}
        self.nova.used.add(old)
        larger = entry(replace(FLAVOR, name='hv-x-larger', ram=4096))
        self.assertIn(('retire', 'flavor'), self.publish(larger))
        retired = self.nova.flavors[old]
        self.assertEqual(
            'host=x role=worker '
            'configuration=i2-c1-m1-local-dedicated-unpinned '
            'status=retired',
            retired['extra_specs']['hvstack:flavor'],
        )
        self.assertEqual(set(), self.nova.access[old])
        self.assertEqual([], self.publish(larger))
        # No server uses it any more.
        self.nova.used.clear()
        self.assertEqual([('delete', 'flavor')], self.publish(larger))
        self.assertNotIn(old, self.nova.flavors)

    def test_interrupted_retirement(self) -> None:
        """The next one takes the access that projects still have."""
        flavor_id = self.add_published_flavor()
        self.nova.access[flavor_id] = {'p1', 'p2'}
        self.nova.used.add(flavor_id)
        self.nova.broken = {'POST flavors/.*/action': 503}
        self.assertRaises(errors.CloudError, self.publish)
        self.assertEqual({'p1', 'p2'}, self.nova.access[flavor_id])
        self.nova.broken = {}
        self.assertEqual([('retire', 'flavor')], self.publish())
        self.assertEqual(set(), self.nova.access[flavor_id])
        self.assertEqual([], self.publish())

    def test_what_is_not_ours_is_left_alone(self) -> None:
        other = replace(FLAVOR, name='m1.large')
        self.nova.add(other, {'hw:cpu_policy': 'shared'})
        self.nova.add(
            replace(FLAVOR, name='hv-y'), {'hvstack:flavor': 'host=y'}
        )
        before = dict(self.nova.flavors)
        self.publish(entry())
        for flavor_id, flavor in before.items():
            self.assertEqual(flavor, self.nova.flavors[flavor_id])

    def test_another_size_of_that_name_is_refused(self) -> None:
        self.add_published_flavor(ram=1024)
        error = self.assertRaises(errors.CloudError, self.jobs, [entry()])
        self.assertIn('ram 1024 instead of 2048', str(error))
        self.assertEqual(['GET flavors/detail'], self.nova.requests)

    def test_public_cannot_become_private(self) -> None:
        self.add_published_flavor(**{'os-flavor-access:is_public': True})
        error = self.assertRaises(errors.CloudError, self.jobs, [entry()])
        self.assertIn('--public', str(error))

    def test_somebody_else_publishes_at_the_same_time(self) -> None:
        jobs = self.jobs([entry()], projects={'p2'})
        flavor_id = catalogue_publisher.flavor_id('x', FLAVOR.name)
        self.nova.add(FLAVOR, {'hw:numa_nodes': '1'}, id=flavor_id)
        catalogue_publisher.apply(self.conn, jobs)
        self.assertEqual([flavor_id], list(self.nova.flavors))
        self.assertEqual({'p2'}, self.nova.access[flavor_id])
        self.assertEqual([], self.publish(entry()))

    def test_flavor_of_another_owner(self) -> None:
        """Of the same name and size: it was changed, and deleted later."""
        flavor_id = self.nova.add(FLAVOR, {'hw:cpu_policy': 'shared'})
        before = dict(self.nova.flavors[flavor_id])
        error = self.assertRaises(errors.CloudError, self.jobs, [entry()])
        self.assertIn(
            f'({flavor_id}) that hvstack did not publish', str(error)
        )
        self.assertIn("'hvstack cluster list'", str(error))
        self.assertIn("'openstack flavor delete'", str(error))
        self.assertEqual(['GET flavors/detail'], self.nova.requests)
        self.publish()
        self.assertEqual(before, self.nova.flavors[flavor_id])

    def test_flavor_of_a_cluster(self) -> None:
        """Its stack refers to the flavor, which must not be deleted."""
        created = cluster_flavors.publish(self.conn, FLAVOR)
        journal.hand_over(journal.own(), 'cluster c1')
        error = self.assertRaises(errors.CloudError, self.jobs, [entry()])
        self.assertIn(f'({created.id}) that hvstack did not', str(error))
        self.assertIn('. It was created for cluster c1. Publish', str(error))
        self.assertNotIn('openstack flavor delete', str(error))

    def test_flavor_of_another_owner_comes_in_between(self) -> None:
        jobs = self.jobs([entry()])
        flavor_id = self.nova.add(FLAVOR, {})
        before = dict(self.nova.flavors[flavor_id])
        error = self.assertRaises(
            errors.CloudError, catalogue_publisher.apply, self.conn, jobs
        )
        self.assertIn('that hvstack did not publish', str(error))
        self.assertEqual({flavor_id: before}, self.nova.flavors)

    def test_copy_of_a_published_flavor(self) -> None:
        """As made by 'openstack flavor create --property'."""
        specs = FLAVOR.extra_specs | catalogue_publisher.labels('x', entry())
        flavor_id = self.nova.add(replace(FLAVOR, name='gold'), specs)
        self.publish(entry())
        self.assertIn(flavor_id, self.nova.flavors)
        copy = nova_flavors.list_flavors(self.conn)['gold']
        self.assertFalse(catalogue_publisher.is_managed(copy))

    def test_crash_before_the_extra_specs(self) -> None:
        flavor_id = catalogue_publisher.flavor_id('x', FLAVOR.name)
        self.nova.add(FLAVOR, {}, id=flavor_id)
        self.assertIn(('add', 'hw:numa_nodes'), self.publish(entry()))
        self.assertEqual([flavor_id], list(self.nova.flavors))
        self.assertEqual([], self.publish(entry()))

    def test_extra_spec_and_description_change_at_once(self) -> None:
        self.add_published_flavor(
            description='old', specs={'hw:numa_nodes': '2'}
        )
        changes = self.publish(entry())
        self.assertIn(('change', 'description'), changes)
        self.assertIn(('change', 'hw:numa_nodes'), changes)
        self.assertEqual([], self.publish(entry()))

    def test_cloud_goes_away_half_way(self) -> None:
        entries = [
            entry(replace(FLAVOR, name=f'hv-x-{index}')) for index in range(3)
        ]
        self.add_published_flavor()
        broken = catalogue_publisher.flavor_id('x', 'hv-x-1')
        self.nova.broken = {f'POST flavors/{broken}/os-extra_specs': 400}
        error = self.assertRaises(errors.CloudError, self.publish, *entries)
        self.assertIn('1 of 4 flavors', str(error))
        # A flavor without its specs is not left behind.
        self.assertEqual(2, len(self.nova.flavors))
        self.nova.broken = {}
        self.publish(*entries)
        self.assertEqual(3, len(self.nova.flavors))
        self.assertEqual([], self.publish(*entries))

    def test_no_rights(self) -> None:
        self.nova.broken = {'POST flavors$': 403}
        error = self.assertRaises(errors.CloudError, self.publish, entry())
        self.assertIn('1 of 1', str(error))
        self.assertIn('role admin', str(error))

    def test_exported_entry_is_what_was_published(self) -> None:
        self.publish(entry(status='approved'))
        flavor = nova_flavors.list_flavors(self.conn)[FLAVOR.name]
        exported = catalogue_publisher.exported(flavor)
        self.assertEqual(FLAVOR.extra_specs, exported['extra_specs'])
        self.assertEqual(FLAVOR.description, exported['description'])
        self.assertEqual(entry().configuration.name, exported['configuration'])
        self.assertEqual('candidate', exported['status'])
