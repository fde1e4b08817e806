# SPDX-License-Identifier: Apache-2.0
"""Hosts of a cluster are lost and restored, also by a later process."""

from collections.abc import Sequence
from typing import Any

import fixtures
import testtools

from hvstack import errors, processutils
from hvstack.cloud import host_power, journal, undo
from tests.unit.cloud import fake

NODES = {'w0': 'id-a', 'w1': 'id-a', 'w2': 'id-b'}


class HostPowerTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.status = dict.fromkeys((*NODES, 'other'), 'ACTIVE')
        self.cloud.http.get(
            f'{fake.NOVA}/servers/detail',
            json={
                'servers': [
                    self.describe(name, host)
                    for name, host in {**NODES, 'other': 'id-a'}.items()
                ]
            },
        )
        for name in self.status:
            self.cloud.http.get(
                f'{fake.NOVA}/servers/{name}',
                json=lambda _request, _context, name=name: {
                    'server': self.describe(name, NODES.get(name, 'id-a'))
                },
            )
            self.cloud.http.post(
                f'{fake.NOVA}/servers/{name}/action',
                json=lambda request, _context, name=name: self.act(
                    name, request.json()
                ),
                status_code=202,
            )
        self.conn = self.cloud.connect()
        self.programs: list[list[str]] = []
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.processutils.run', self.run_program)
        )

    def run_program(
        self, argv: Sequence[str], **_options: Any
    ) -> processutils.Result:
        self.programs.append(list(argv)[-3:])
        return processutils.Result(0, '', '')

    def describe(self, name: str, host: str) -> dict[str, str]:
        return {
            'id': name,
            'name': name,
            'hostId': host,
            'status': self.status[name],
            'OS-EXT-SRV-ATTR:hypervisor_hostname': {
                'id-a': 'hv-host2',
                'id-b': 'hv-host3',
            }[host],
        }

    def act(self, name: str, body: dict[str, None]) -> dict[str, str]:
        (action,) = body
        self.status[name] = {'pause': 'PAUSED', 'unpause': 'ACTIVE'}[action]
        return {}

    def create(self, *lab_hosts: str) -> host_power.HostPower:
        return host_power.create(self.conn, self.conn, NODES, lab_hosts)

    def list_paused(self) -> list[str]:
        return [name for name, status in self.status.items() if 'P' in status]

    def test_servers_of_others_run_on(self) -> None:
        power = self.create()
        self.assertEqual('pause', power.method)
        with power.losing(['id-a']):
            self.assertEqual(['w0', 'w1'], self.list_paused())
            self.assertEqual(1, len(journal.own()))
        self.assertEqual([], self.list_paused())
        self.assertEqual([], journal.entries())
        self.assertEqual([], self.programs)

    def test_failure_restores_the_hosts(self) -> None:
        def fail() -> None:
            with self.create().losing(['id-b']):
                raise errors.RunFailedError('late')

        self.assertRaises(errors.RunFailedError, fail)
        self.assertEqual([], self.list_paused())

    def test_later_process(self) -> None:
        context = self.create().losing(['id-a', 'id-b'])
        context.__enter__()
        self.assertEqual(3, len(self.list_paused()))
        # One of them was continued, or deleted, by somebody else.
        self.status['w1'] = 'ACTIVE'
        self.assertEqual(['host_power id-a, id-b'], undo.undo_own([self.conn]))
        self.assertEqual([], self.list_paused())

    def test_power_of_lab_hosts(self) -> None:
        power = self.create('hv-host2', 'hv-host3')
        self.assertEqual('power', power.method)
        with power.losing(['id-b', 'id-a']):
            self.assertEqual([['off', 'hv-host3', 'hv-host2']], self.programs)
        self.assertEqual(['on', 'hv-host3', 'hv-host2'], self.programs[-1])
        self.assertEqual([], self.list_paused())

    def test_hosts_outside_the_lab(self) -> None:
        self.assertEqual('pause', self.create('hv-host2').method)

    def test_servers_that_moved(self) -> None:
        error = self.assertRaises(
            errors.CloudError,
            host_power.create,
            *(self.conn, self.conn, {**NODES, 'w3': 'id-c'}, ()),
        )
        self.assertIn('1 of 3 hosts', str(error))
