# SPDX-License-Identifier: Apache-2.0
"""What the lab takes from Nova's answers, and how it runs keystone."""

import testtools

from hvstack.lab import services
from hvstack.lab.hosts import nova
from tests.unit.cloud import fake

NEUTRON = 'http://neutron.test/v2.0'
#: 2026-11-21T19:48:51 in UTC, when the service reported.
REPORTED = 1795290531.0


class ReadyTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        cloud = self.useFixture(fake.FakeCloud(services={'network': NEUTRON}))
        self.service = {
            'id': 'x',
            'host': 'h0',
            'state': 'up',
            'status': 'enabled',
            'disabled_reason': None,
            'binary': 'nova-compute',
            'updated_at': '2026-11-21T19:48:51.000000',
        }
        for path, answer in (
            (
                f'{fake.NOVA}/os-services',
                lambda _, __: {'services': [self.service]},
            ),
            (f'{NEUTRON}/agents', {'agents': [self.agent('a'), self.agent()]}),
            (
                f'{fake.NOVA}/os-hypervisors',
                {'hypervisors': [{'id': 'h0', 'hypervisor_hostname': 'h0'}]},
            ),
        ):
            cloud.http.get(path, json=answer)
        self.conn = cloud.connect()

    def agent(self, name: str = 'b') -> dict[str, object]:
        return {'id': name, 'host': 'h0', 'alive': True}

    def test_reports_before_the_start_do_not_count(self) -> None:
        for started, expected in ((REPORTED - 1, True), (REPORTED + 1, False)):
            self.assertEqual(
                expected, nova.ready(self.conn, ['h0'], {'h0': started})
            )

    def test_starts_of_others_do_not_matter(self) -> None:
        self.assertTrue(nova.ready(self.conn, ['h0'], {}))
        self.assertTrue(nova.ready(self.conn, ['h0'], {'h1': REPORTED + 1}))
        self.assertFalse(nova.ready(self.conn, ['h0', 'h1'], {}))

    def test_hosts_that_lost_libvirt_get_no_servers(self) -> None:
        for reason, expected in (
            ('AUTO: Connection to libvirt lost: 1', False),
            ('the administrator mends its fan', True),
        ):
            self.service |= {'status': 'disabled', 'disabled_reason': reason}
            self.assertEqual(expected, nova.ready(self.conn, ['h0'], {}))


class KeystoneTest(testtools.TestCase):
    def test_no_thread_shares_its_token(self) -> None:
        command = list(services.identity().program.command)
        index = command.index('--threads')
        self.assertEqual('1', command[index + 1])
