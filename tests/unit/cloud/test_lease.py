# SPDX-License-Identifier: Apache-2.0
"""A lease on a cloud: of two processes, one has it, until it runs out."""

import re
from collections.abc import Callable
from typing import Any

import fixtures
import requests
import testtools

from hvstack import errors
from hvstack.cloud import (
    allocation_ratios,
    connection,
    journal,
    lease,
    placement,
    undo,
)
from tests.unit.cloud import fake

PROVIDERS = f'{fake.PLACEMENT}/resource_providers'


class Placement:
    """Resource providers: unique names, generations, parents."""

    def __init__(self, http: Any) -> None:
        self.providers: dict[str, dict[str, Any]] = {}
        #: Called after the next change, instead of its answer.
        self.fault: Callable[[], Any] | None = None
        item = re.compile(rf'^{re.escape(PROVIDERS)}/[0-9a-f-]+')
        http.get(
            re.compile(rf'^{re.escape(PROVIDERS)}(\?|$)'), json=self._list
        )
        http.post(PROVIDERS, json=self._create)
        http.get(item, json=self._inventories)
        http.put(item, json=self._swap)
        http.delete(item, text=self._delete)

    def _answer(self, content: Any) -> Any:
        fault, self.fault = self.fault, None
        return fault() if fault else content

    def _list(self, request: Any, _context: Any) -> Any:
        name = request.qs.get('name')
        tree = request.qs.get('in_tree')
        return {
            'resource_providers': [
                item
                for item in self.providers.values()
                # Nova gives traits to its own providers alone.
                if 'required' not in request.qs
                and (not name or item['name'] == name[0])
                and (not tree or tree[0] in (item['uuid'], item['parent']))
            ]
        }

    def _create(self, request: Any, context: Any) -> Any:
        body = request.json()
        names = {item['name'] for item in self.providers.values()}
        if body['name'] in names or body['uuid'] in self.providers:
            context.status_code = 409
            return {'errors': [{'code': 'placement.duplicate_name'}]}
        self.providers[body['uuid']] = {
            **body,
            'generation': 0,
            'parent': body.get('parent_provider_uuid'),
        }
        return self._answer(self.providers[body['uuid']])

    def _inventories(self, request: Any, context: Any) -> Any:
        provider = self.providers[request.path.split('/')[2]]
        return {
            'resource_provider_generation': provider['generation'],
            'inventories': {},
        }

    def _swap(self, request: Any, context: Any) -> Any:
        provider = self.providers.get(request.path.split('/')[2])
        body = request.json()
        if provider is None:
            context.status_code = 404
            return {}
        if body['resource_provider_generation'] != provider['generation']:
            context.status_code = 409
            return {'errors': [{'code': 'placement.concurrent_update'}]}
        provider['generation'] += 1
        return self._answer(self._inventories(request, context))

    def _delete(self, request: Any, context: Any) -> str:
        provider_id = request.path.split('/')[2]
        if any(
            item['parent'] == provider_id for item in self.providers.values()
        ):
            context.status_code = 409
            return 'it has children'
        provider = self.providers.pop(provider_id, None)
        context.status_code = 204 if provider else 404
        return ''


class LeaseTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.placement = Placement(self.cloud.http)
        self.conn = self.cloud.connect()
        self.now = 1000.0
        #: What happens elsewhere while this process waits.
        self.meanwhile: Callable[[], None] = lambda: None
        for name, value in (
            ('clock', lambda: self.now),
            ('time.sleep', self.sleep),
            ('_LEASES', {}),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.cloud.lease.{name}', value)
            )

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()

    def acquire(self) -> lease.Lease:
        """Acquire it, without a thread that renews it by the real clock."""
        acquired = lease.acquire(self.conn, interval=3600)
        assert acquired
        self.addCleanup(acquired.stop)
        return acquired

    def forget_own(self) -> None:
        """Act as another process from now on."""
        lease._LEASES.clear()

    def test_acquired_once_and_released(self) -> None:
        acquired = self.acquire()
        self.assertIs(acquired, self.acquire())
        names = [item['name'] for item in self.placement.providers.values()]
        self.assertEqual(lease.NAME, names[0])
        self.assertIn('process', names[1])
        self.assertEqual(['lease hvstack-lease'], undo.undo_own([self.conn]))
        self.assertEqual({}, self.placement.providers)
        self.assertEqual([], journal.entries())

    def test_one_that_is_renewed_is_not_taken_over(self) -> None:
        first = self.acquire()
        self.forget_own()
        self.meanwhile = first.renew
        error = self.assertRaises(errors.BusyError, self.acquire)
        self.assertIn('process', str(error))
        self.assertTrue(first.is_valid())
        self.assertEqual(1, len(journal.entries()))

    def test_one_that_ran_out_is_taken_over(self) -> None:
        first = self.acquire()
        self.forget_own()
        second = self.acquire()
        self.assertGreaterEqual(self.now, 1000 + lease.DURATION)
        self.assertFalse(first.is_valid())
        # It wakes up, and does not get it back.
        first.renew()
        self.assertTrue(first.is_lost)
        self.assertTrue(second.is_valid())
        second.renew()
        self.assertTrue(second.is_valid())

    def test_late_process_does_not_release_the_next_ones(self) -> None:
        self.acquire()
        entry = journal.own()[0]
        self.forget_own()
        second = self.acquire()
        lease.undo(self.conn, entry.data)
        self.assertIn(second.provider, self.placement.providers)

    def test_two_take_over_at_once(self) -> None:
        """The one whose swap comes second waits for the first again."""
        first = self.acquire()
        self.forget_own()

        def renewed_at_the_last_moment() -> None:
            if self.now > 1000 + lease.DURATION:
                provider = self.placement.providers[first.provider]
                provider['generation'] += 1

        self.meanwhile = renewed_at_the_last_moment
        self.assertRaises(errors.BusyError, self.acquire)
        self.assertIn(first.provider, self.placement.providers)

    def test_answer_to_the_creation_is_lost(self) -> None:
        def fault() -> Any:
            raise requests.exceptions.ConnectionError('reset')

        self.placement.fault = fault
        acquired = self.acquire()
        self.assertIn(acquired.provider, self.placement.providers)

    def test_answer_to_a_renewal_is_lost(self) -> None:
        acquired = self.acquire()

        def fault() -> Any:
            raise requests.exceptions.ConnectionError('reset')

        self.placement.fault = fault
        acquired.renew()
        self.now += 100
        acquired.renew()
        self.now += 100
        self.assertTrue(acquired.is_valid())

    def test_nothing_is_changed_without_it(self) -> None:
        acquired = self.acquire()
        lease.check(self.conn)
        self.now += lease.DURATION
        error = self.assertRaises(
            errors.BusyError,
            allocation_ratios.set_ratios,
            self.conn,
            {},
            {'VCPU': 2.0},
        )
        self.assertIn('lease', str(error))
        # The network was away for some minutes, and no other process took it.
        acquired.renew()
        lease.check(self.conn)
        # Another process began to take it over.
        self.now += lease.DURATION
        self.placement.providers[acquired.provider]['generation'] += 1
        acquired.renew()
        self.assertTrue(acquired.is_lost)
        self.assertRaises(errors.BusyError, lease.check, self.conn)

    def test_child_processes_share_it(self) -> None:
        with lease.held(self.conn):
            self.addCleanup(lease._LEASES[connection.scope(self.conn)].stop)
            self.forget_own()
            self.assertIsNone(lease.acquire(self.conn))
            lease.check(self.conn)
            self.assertEqual(1, len(journal.entries()))
            # Another process took it over.
            self.placement.providers.clear()
            self.assertRaises(errors.BusyError, lease.check, self.conn)
        self.assertEqual([], journal.entries())
        lease.check(self.conn)

    def test_it_is_not_a_host(self) -> None:
        self.acquire()
        for item in self.placement.providers.values():
            item['parent_provider_uuid'] = item['parent']
        self.assertEqual({}, placement.providers(self.conn))

    def test_refused(self) -> None:
        self.cloud.http.post(PROVIDERS, status_code=403, text='admins only')
        error = self.assertRaises(errors.CloudError, self.acquire)
        self.assertIn('administrator', str(error))
        # The next command looks whether it was created after all.
        scopes = [entry.scope for entry in journal.entries()]
        self.assertEqual([connection.scope(self.conn)], scopes)
