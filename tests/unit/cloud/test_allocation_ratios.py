# SPDX-License-Identifier: Apache-2.0
"""Allocation ratios: set with the journal, restored, foreign ones kept."""

import json
from dataclasses import asdict, replace
from typing import Any

import testtools

from hvstack import errors
from hvstack.cloud import allocation_ratios, journal, undo
from tests.unit.cloud import fake

HOST = 'hv-host2'
UUID = '11111111-2222-3333-4444-555555555555'
PATH = f'{fake.PLACEMENT}/resource_providers/{UUID}/inventories'


class Placement:
    """One provider's inventories, with generations as the real one."""

    def __init__(self, http: Any) -> None:
        self.generation = 7
        #: How many of the next writes find a newer generation.
        self.conflicts = 0
        self.inventories = {
            'VCPU': {'total': 2, 'reserved': 0, 'allocation_ratio': 1.0},
            'MEMORY_MB': {
                'total': 4864,
                'reserved': 768,
                'allocation_ratio': 1.0,
            },
        }
        http.get(
            f'{fake.PLACEMENT}/resource_providers',
            json={
                'resource_providers': [
                    {
                        'name': HOST,
                        'uuid': UUID,
                        'parent_provider_uuid': None,
                    }
                ]
            },
        )
        http.get(PATH, json=self._get)
        for resource_class in self.inventories:
            http.put(f'{PATH}/{resource_class}', json=self._put)

    def _get(self, request: Any, context: Any) -> Any:
        return {
            'resource_provider_generation': self.generation,
            'inventories': self.inventories,
        }

    def _put(self, request: Any, context: Any) -> Any:
        body = request.json()
        if self.conflicts:
            # The compute service was faster.
            self.conflicts -= 1
            self.generation += 1
        if body.pop('resource_provider_generation') != self.generation:
            context.status_code = 409
            return {'errors': [{'code': 'placement.concurrent_update'}]}
        self.generation += 1
        self.inventories[request.path.rsplit('/', 1)[1].upper()] = body
        return body

    def ratio(self, resource_class: str) -> float:
        return self.inventories[resource_class]['allocation_ratio']


class RatiosTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.placement = Placement(self.cloud.http)
        self.conn = self.cloud.connect()
        self.hosts = {HOST: UUID}

    def test_hosts_of_dedicated_guests_may_have_no_vcpu(self) -> None:
        requested = {'VCPU': 1.0, 'MEMORY_MB': 1.5}
        cpus = self.placement.inventories.pop('VCPU')
        error = self.assertRaises(
            errors.CloudError,
            allocation_ratios.set_ratios,
            *(self.conn, self.hosts, requested),
        )
        self.assertIn('Use a host with shared CPUs', str(error))
        allocation_ratios.set_ratios(
            self.conn, self.hosts, requested, shared=False
        )
        allocation_ratios.check(self.conn, self.hosts, requested, shared=False)
        self.assertEqual(1.5, self.placement.ratio('MEMORY_MB'))
        # Where there is one, it is set: records are to show it.
        self.placement.inventories['VCPU'] = {**cpus, 'allocation_ratio': 4.0}
        allocation_ratios.set_ratios(
            self.conn, self.hosts, requested, shared=False
        )
        self.assertEqual(1.0, self.placement.ratio('VCPU'))

    def test_set_and_put_back(self) -> None:
        before = allocation_ratios.set_ratios(
            self.conn, self.hosts, {'VCPU': 2.0, 'MEMORY_MB': 1.0}
        )
        self.assertEqual({HOST: {'VCPU': 1.0, 'MEMORY_MB': 1.0}}, before)
        self.assertEqual(2.0, self.placement.ratio('VCPU'))
        # The other fields of the inventory stay as they were.
        self.assertEqual(2, self.placement.inventories['VCPU']['total'])
        entry = journal.entries()[0]
        self.assertEqual(('ratio', 1.0), (entry.kind, entry.data['before']))
        self.assertEqual(1, len(journal.entries()))
        self.assertEqual(['ratio VCPU hv-host2'], undo.undo_own([self.conn]))
        self.assertEqual(1.0, self.placement.ratio('VCPU'))
        self.assertEqual([], journal.entries())

    def test_journal_comes_first(self) -> None:
        self.cloud.http.put(f'{PATH}/VCPU', status_code=500, text='broken')
        self.assertRaises(
            errors.CloudError,
            allocation_ratios.set_ratios,
            self.conn,
            self.hosts,
            {'VCPU': 2.0},
        )
        self.assertEqual(1, len(journal.entries()))

    def test_conflict_is_tried_again(self) -> None:
        self.placement.conflicts = 2
        allocation_ratios.set_ratios(self.conn, self.hosts, {'MEMORY_MB': 1.2})
        self.assertEqual(1.2, self.placement.ratio('MEMORY_MB'))

    def test_a_value_of_someone_else_stays(self) -> None:
        allocation_ratios.set_ratios(self.conn, self.hosts, {'VCPU': 2.0})
        self.placement.inventories['VCPU']['allocation_ratio'] = 3.0
        with self.assertLogs('hvstack', 'WARNING') as logs:
            self.assertEqual([], undo.undo_own([self.conn]))
        self.assertIn('VCPU on hv-host2 stays 3.0', logs.output[0])
        self.assertEqual([], journal.entries())
        self.assertEqual(3.0, self.placement.ratio('VCPU'))

    def test_undo_does_not_list_the_hosts(self) -> None:
        """The list of 600 hosts for each of their ratios takes minutes."""
        allocation_ratios.set_ratios(self.conn, self.hosts, {'VCPU': 2.0})
        url = f'{fake.PLACEMENT}/resource_providers'
        listing = self.cloud.http.get(url, json={'resource_providers': []})
        undo.undo_own([self.conn])
        self.assertEqual(0, listing.call_count)
        self.assertEqual(1.0, self.placement.ratio('VCPU'))

    def test_undo_on_a_host_that_was_deleted(self) -> None:
        allocation_ratios.set_ratios(self.conn, self.hosts, {'VCPU': 2.0})
        self.cloud.http.get(PATH, status_code=404)
        # A proxy may answer so, too: the host must not be in the list.
        self.assertRaises(errors.CloudError, undo.undo_own, [self.conn])
        self.assertEqual(1, len(journal.entries()))
        self.cloud.http.get(
            f'{fake.PLACEMENT}/resource_providers',
            json={'resource_providers': []},
        )
        undo.undo_own([self.conn])
        self.assertEqual([], journal.entries())

    def test_two_at_a_time_are_refused(self) -> None:
        allocation_ratios.set_ratios(self.conn, self.hosts, {'VCPU': 2.0})
        error = self.assertRaises(
            errors.BusyError,
            allocation_ratios.set_ratios,
            self.conn,
            self.hosts,
            {'VCPU': 1.5},
        )
        self.assertIn(HOST, str(error))
        self.assertEqual(2.0, self.placement.ratio('VCPU'))

    def test_two_clusters_with_the_same_ratio(self) -> None:
        requested = {'VCPU': 2.0, 'MEMORY_MB': 1.0}
        self.assertTrue(self.is_set_needed(requested))
        for owner in ('cluster a', 'cluster b'):
            allocation_ratios.set_ratios(self.conn, self.hosts, requested)
            journal.hand_over(journal.own(), owner)
            self.assertEqual(1, len(journal.owned(owner)))
            # The next one would get an entry, too.
            self.assertTrue(self.is_set_needed(requested))
        self.assertEqual(
            [], undo.undo(journal.owned('cluster a'), [self.conn])
        )
        self.assertEqual(2.0, self.placement.ratio('VCPU'))
        self.assertEqual(1, len(journal.entries()))
        self.assertEqual(
            ['ratio VCPU hv-host2'],
            undo.undo(journal.owned('cluster b'), [self.conn]),
        )
        self.assertEqual(1.0, self.placement.ratio('VCPU'))
        self.assertFalse(self.is_set_needed({'MEMORY_MB': 1.0}))

    def is_set_needed(self, requested: dict[str, float]) -> bool:
        return allocation_ratios.is_set_needed(
            self.conn, self.hosts, requested
        )

    def test_ratio_of_a_process_that_no_longer_runs(self) -> None:
        allocation_ratios.set_ratios(self.conn, self.hosts, {'VCPU': 2.0})
        (entry,) = journal.entries()
        dead = replace(entry, start=entry.start - 1)
        entry.path.write_text(json.dumps(asdict(dead)))
        error = self.assertRaises(
            errors.BusyError,
            allocation_ratios.set_ratios,
            *(self.conn, self.hosts, {'VCPU': 1.5}),
        )
        self.assertIn('which no longer runs', str(error))
        self.assertIn("Run 'hvstack sweep recover'", str(error))
        self.assertIn(entry.scope, str(error))

    def test_check_names_the_option(self) -> None:
        error = self.assertRaises(
            errors.CloudError,
            allocation_ratios.check,
            self.conn,
            self.hosts,
            {'VCPU': 2.0, 'MEMORY_MB': 1.0},
        )
        self.assertIn('because a user changed it', str(error))
        self.assertIn('initial_cpu_allocation_ratio', str(error))
        self.assertNotIn('\n', str(error))

    def test_no_inventory(self) -> None:
        del self.placement.inventories['VCPU']
        error = self.assertRaises(
            errors.CloudError,
            allocation_ratios.set_ratios,
            self.conn,
            self.hosts,
            {'VCPU': 2.0},
        )
        self.assertIn('shared CPUs', str(error))
        self.assertEqual([], journal.entries())
