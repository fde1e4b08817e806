# SPDX-License-Identifier: Apache-2.0
"""Hosts are switched between shared and dedicated CPUs, and back."""

from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import cpu_mode, journal, undo
from tests.unit.cloud import fake

HOSTS = {'h0': 'h0', 'h1': 'h1'}


class HostModeTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.cloud.hosts(2)
        #: What the operator's command has switched the hosts to.
        self.file = Path(self.useFixture(fixtures.TempDir()).path) / 'mode'
        self.file.write_text('shared')
        for name in HOSTS:
            self.cloud.http.get(
                f'{fake.PLACEMENT}/resource_providers/{name}/inventories',
                json=self.inventories,
            )
        self.ratio = 1.0
        self.servers()
        self.command = f'printf {{mode}} >{self.file}'
        self.conn = self.cloud.connect()

    def inventories(self, *_: Any) -> dict[str, Any]:
        resource_class = {'shared': 'VCPU', 'dedicated': 'PCPU'}[
            self.file.read_text()
        ]
        return {
            'resource_provider_generation': 1,
            'inventories': {
                resource_class: {'total': 8, 'allocation_ratio': self.ratio}
            },
        }

    def put(self, request: Any, _context: Any) -> Any:
        self.ratio = request.json()['allocation_ratio']
        return request.json()

    def servers(self, *hosts: str) -> None:
        self.cloud.http.get(
            f'{fake.NOVA}/servers/detail',
            json={
                'servers': [
                    {
                        'id': host,
                        'name': f'guest-on-{host}',
                        'OS-EXT-SRV-ATTR:hypervisor_hostname': host,
                    }
                    for host in hosts
                ]
            },
        )

    def switch(self, mode: str, command: str = '') -> bool:
        return cpu_mode.switch(self.conn, HOSTS, mode, command or self.command)

    def test_there_and_back(self) -> None:
        self.assertTrue(self.switch('dedicated'))
        self.assertEqual(
            dict.fromkeys(HOSTS, 'dedicated'),
            cpu_mode.current(self.conn, HOSTS),
        )
        (entry,) = journal.own()
        self.assertEqual('shared', entry.data['before'])
        # What is so already is not switched, and not restored.
        self.assertFalse(self.switch('dedicated'))
        self.assertEqual(['host_mode dedicated'], undo.undo_own([self.conn]))
        self.assertEqual('shared', self.file.read_text())
        self.assertEqual([], journal.entries())

    def test_ratio_of_shared_cpus_is_restored(self) -> None:
        """nova-compute creates the inventory again with its initial ratio."""
        self.ratio = 4.0
        changed = self.cloud.http.put(
            f'{fake.PLACEMENT}/resource_providers/h0/inventories/VCPU',
            json=self.put,
        )
        self.switch('dedicated')
        (entry,) = journal.own()
        self.assertEqual(dict.fromkeys(HOSTS, 4.0), entry.data['vcpu_ratios'])
        self.ratio = 16.0
        journal.update(entry, vcpu_ratios={'h0': 4.0})
        undo.undo_own([self.conn])
        self.assertEqual(4.0, self.ratio)
        self.assertEqual(1, changed.call_count)

    def test_entry_of_an_older_release(self) -> None:
        self.switch('dedicated')
        (entry,) = journal.own()
        data = {k: v for k, v in entry.data.items() if k != 'vcpu_ratios'}
        self.ratio = 16.0
        cpu_mode.undo(self.conn, data)
        self.assertEqual('shared', self.file.read_text())
        self.assertEqual(16.0, self.ratio)

    def test_the_journal_comes_first(self) -> None:
        error = self.assertRaises(
            errors.CommandError, self.switch, 'dedicated', 'exit 7'
        )
        self.assertIn('7', str(error))
        (entry,) = journal.own()
        # Nothing was changed, so the command is not run to undo it.
        undo.undo([entry], [self.conn])
        self.assertEqual([], journal.entries())

    def test_hosts_with_servers_are_left_alone(self) -> None:
        self.servers('h1')
        error = self.assertRaises(errors.BusyError, self.switch, 'dedicated')
        self.assertIn(
            'h1: the host has servers such as guest-on-h1', str(error)
        )
        self.assertEqual([], journal.entries())
        self.servers('elsewhere')
        self.assertTrue(self.switch('dedicated'))

    def test_server_of_a_cell_that_is_down(self) -> None:
        """It can be on any host."""
        self.cloud.http.get(
            f'{fake.NOVA}/servers/detail',
            json={'servers': [{'id': 's7', 'status': 'UNKNOWN'}]},
        )
        error = self.assertRaises(errors.CloudError, self.switch, 'dedicated')
        self.assertIn('the host of server s7', str(error))
        self.assertEqual([], journal.entries())

    def test_hosts_that_differ_are_not_switched(self) -> None:
        self.cloud.http.get(
            f'{fake.PLACEMENT}/resource_providers/h1/inventories',
            json={'inventories': {'PCPU': {}}},
        )
        error = self.assertRaises(errors.CloudError, self.switch, 'dedicated')
        self.assertIn('h0 shared, h1 dedicated', str(error))
        self.assertEqual([], journal.entries())

    def test_a_command_that_does_not_switch(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.cpu_mode._READY_SECONDS', 0)
        )
        error = self.assertRaises(
            errors.DeadlineExceededError, self.switch, 'dedicated', 'true'
        )
        self.assertIn('h0 shared', str(error))
