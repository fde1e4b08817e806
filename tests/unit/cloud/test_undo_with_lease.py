# SPDX-License-Identifier: Apache-2.0
"""Ratios are restored with the lease, not under another machine's sweep."""

import io
import json
import os
import re
import uuid
from dataclasses import asdict, replace

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import (
    allocation_ratios,
    cluster_flavors,
    connection,
    cpu_mode,
    journal,
    lease,
    undo,
)
from hvstack.progress import Progress
from tests.unit.cloud import fake, test_allocation_ratios, test_lease

HOSTS = {test_allocation_ratios.HOST: test_allocation_ratios.UUID}


class UndoWithLeaseTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        http = self.cloud.http
        self.leases = test_lease.Placement(http)
        self.ratios = test_allocation_ratios.Placement(http)
        http.get(
            re.compile(rf'^{re.escape(test_lease.PROVIDERS)}(\?|$)'),
            json=self.leases._list,
        )
        self.deletion = http.delete(f'{fake.NOVA}/flavors/f1', status_code=202)
        self.conn = self.cloud.connect()
        self.now = 1000.0
        self.other_renews = True
        for name, value in (
            ('clock', lambda: self.now),
            ('time.sleep', self.sleep),
            ('_LEASES', {}),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.cloud.lease.{name}', value)
            )
        self.addCleanup(self.stop_leases)
        self.useFixture(fixtures.EnvironmentVariable(lease.VARIABLE))
        self.stream = io.StringIO()

    def stop_leases(self) -> None:
        """End the threads of the leases that a test did not release."""
        for item in lease._LEASES.values():
            item.stop()

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.other_renews:
            for provider in self.leases.providers.values():
                provider['generation'] += 1

    def take_lease(self) -> str:
        """Let a process of another machine have the lease."""
        provider = str(uuid.uuid4())
        self.leases.providers[provider] = {
            'name': lease.NAME,
            'uuid': provider,
            'generation': 0,
            'parent': None,
        }
        return provider

    def die(self) -> None:
        """Let a process that no longer runs have written the journal."""
        for entry in journal.own():
            dead = replace(entry, start=entry.start - 1)
            entry.path.write_text(json.dumps(asdict(dead)))

    def change(self) -> None:
        """Note a flavor and set a ratio."""
        journal.note(
            cluster_flavors.KIND,
            {'name': 'f1', 'id': 'f1'},
            connection.scope(self.conn),
        )
        allocation_ratios.set_ratios(self.conn, HOSTS, {'VCPU': 2.0})

    def recover(self) -> list[str]:
        return undo.recover([self.conn], Progress(stream=self.stream))

    def kinds(self) -> list[str]:
        return [entry.kind for entry in journal.entries()]

    def test_lease_of_another_machine(self) -> None:
        self.change()
        self.die()
        provider = self.take_lease()
        self.assertEqual(['flavor f1'], self.recover())
        self.assertEqual(['ratio'], self.kinds())
        self.assertEqual(2.0, self.ratios.ratio('VCPU'))
        self.assertIn(
            'not restored: ratio VCPU hv-host2: Cannot use this cloud',
            self.stream.getvalue(),
        )
        self.assertEqual([provider], list(self.leases.providers))
        self.leases.providers.clear()
        self.assertEqual(['ratio VCPU hv-host2'], self.recover())
        self.assertEqual(1.0, self.ratios.ratio('VCPU'))
        self.assertEqual([], journal.entries())
        self.assertEqual({}, self.leases.providers)

    def test_other_entries_do_not_wait_for_the_lease(self) -> None:
        journal.note(
            cluster_flavors.KIND,
            {'name': 'f1', 'id': 'f1'},
            connection.scope(self.conn),
        )
        self.die()
        self.take_lease()
        self.assertEqual(['flavor f1'], self.recover())
        self.assertEqual(1000, self.now)

    def test_lease_of_the_dead_process(self) -> None:
        """No other process renews it, and it need not run out."""
        provider = self.take_lease()
        journal.note(
            lease.KIND,
            {'name': lease.NAME, 'provider': provider},
            connection.scope(self.conn),
        )
        self.change()
        self.die()
        self.other_renews = False
        self.assertEqual(
            ['lease hvstack-lease', 'ratio VCPU hv-host2', 'flavor f1'],
            self.recover(),
        )
        self.assertEqual(1000, self.now)
        self.assertEqual(1.0, self.ratios.ratio('VCPU'))
        self.assertEqual({}, self.leases.providers)

    def test_lease_of_this_process_stays(self) -> None:
        self.change()
        self.die()
        with lease.held(self.conn):
            provider = os.environ[lease.VARIABLE]
            self.assertEqual(
                ['ratio VCPU hv-host2', 'flavor f1'], self.recover()
            )
            self.assertIn(provider, self.leases.providers)
            self.assertEqual(provider, os.environ[lease.VARIABLE])
            lease.check(self.conn)
        self.assertEqual({}, self.leases.providers)
        self.assertEqual([], journal.entries())

    def test_lost_lease(self) -> None:
        """A process that was suspended does not restore its ratios."""
        acquired = lease.acquire(self.conn, interval=3600)
        assert acquired
        self.addCleanup(acquired.stop)
        self.change()
        self.leases.providers.clear()
        self.take_lease()
        self.now += lease.DURATION
        error = self.assertRaises(
            errors.CloudError, undo.undo_own, [self.conn]
        )
        self.assertIn('ratio VCPU hv-host2: Cannot continue', str(error))
        self.assertEqual(['ratio'], self.kinds())
        self.assertEqual(1000 + lease.DURATION, self.now)
        self.assertEqual(2.0, self.ratios.ratio('VCPU'))
        self.assertEqual(1, self.deletion.call_count)

    def test_lost_lease_without_another_try(self) -> None:
        """The contexts of a sweep's workload do not acquire it again."""
        acquired = lease.acquire(self.conn, interval=3600)
        assert acquired
        self.addCleanup(acquired.stop)
        self.change()
        self.now += lease.DURATION
        entries = [entry for entry in journal.own() if entry.kind == 'ratio']
        error = self.assertRaises(
            errors.CloudError, undo.undo, entries, [self.conn]
        )
        self.assertIn('could not renew its lease', str(error))
        self.assertEqual(2.0, self.ratios.ratio('VCPU'))
        # It has renewed the lease.
        acquired.renew()
        self.assertEqual(
            ['ratio VCPU hv-host2'], undo.undo(entries, [self.conn])
        )

    def test_cluster_during_a_sweep(self) -> None:
        self.change()
        journal.hand_over(journal.own(), 'cluster a')
        self.take_lease()
        error = self.assertRaises(
            errors.CloudError,
            undo.undo_with_lease,
            journal.owned('cluster a'),
            [self.conn],
        )
        self.assertIn('Wait until it has finished', str(error))
        self.assertEqual(['ratio'], self.kinds())
        self.leases.providers.clear()
        self.assertEqual(
            ['ratio VCPU hv-host2'],
            undo.undo_with_lease(journal.owned('cluster a'), [self.conn]),
        )

    def test_lost_lease_within_another_block(self) -> None:
        """The inner block acquires it again, the outer one ends as before."""
        with lease.held(self.conn):
            outer = os.environ[lease.VARIABLE]
            self.addCleanup(lease._LEASES[connection.scope(self.conn)].stop)
            self.leases.providers.clear()
            self.now += lease.DURATION
            with lease.held(self.conn):
                self.assertNotEqual(outer, os.environ[lease.VARIABLE])
            self.assertEqual(outer, os.environ[lease.VARIABLE])
            self.assertRaises(errors.BusyError, lease.check, self.conn)
        self.assertNotIn(lease.VARIABLE, os.environ)
        self.assertEqual([], journal.entries())

    def test_mode_is_not_switched_without_it(self) -> None:
        acquired = lease.acquire(self.conn, interval=3600)
        assert acquired
        self.addCleanup(acquired.stop)
        self.now += lease.DURATION
        error = self.assertRaises(
            errors.BusyError,
            cpu_mode.switch,
            *(self.conn, HOSTS, 'dedicated', 'true'),
        )
        self.assertIn('lease', str(error))
        self.assertEqual(['lease'], self.kinds())
