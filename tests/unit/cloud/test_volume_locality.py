# SPDX-License-Identifier: Apache-2.0
"""Hosts of volumes and servers, at the boundary of Cinder and Nova."""

from typing import Any

import testtools

from hvstack import errors
from hvstack.cloud import volume_locality
from tests.unit.cloud import fake

WORKERS = {'worker-0': 's0', 'worker-1': 's1'}


def volume(name: str, server: str, host: str | None) -> dict[str, Any]:
    """Return a volume as Cinder lists it to an administrator."""
    return {
        'id': name,
        'os-vol-host-attr:host': host,
        'attachments': [{'server_id': server}],
    }


class VolumeLocalityTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.conn = self.cloud.connect()
        self.hosts: dict[str, str | None] = {'s0': 'h0', 's1': 'h1'}
        self.volumes = [
            volume('v0', 's0', 'h0@disk-slot-1#disk-slot-1'),
            volume('v1', 's1', 'h1@disk-slot-1#disk-slot-1'),
            volume('other', 'x', 'h7@disk-slot-1'),
        ]
        http = self.cloud.http
        http.get(
            f'{fake.NOVA}/servers/detail',
            json=lambda *_: {
                'servers': [
                    {'id': name, 'OS-EXT-SRV-ATTR:host': host}
                    for name, host in self.hosts.items()
                ]
            },
        )
        http.get(
            f'{fake.CINDER}/volumes/detail',
            json=lambda *_: {'volumes': self.volumes},
        )

    def check(self, count: int = 1) -> bool:
        return volume_locality.check_volumes(self.conn, WORKERS, count)

    def refused(self, count: int = 1) -> str:
        error = str(self.assertRaises(errors.CloudError, self.check, count))
        self.assertNotIn('\n', error)
        return error

    def test_same_host(self) -> None:
        self.assertTrue(self.check())

    def test_another_host(self) -> None:
        """InstanceLocalityFilter is off: any host may have the volume."""
        self.volumes[1]['os-vol-host-attr:host'] = 'h0@disk-slot-1#p'
        message = self.refused()
        for text in ('worker-1', 'v1', 'host h0', 'host h1', 'Locality'):
            self.assertIn(text, message)

    def test_a_longer_name_is_another_host(self) -> None:
        """Cinder's filter compares whole names as well."""
        self.hosts['s0'] = 'h0.example'
        self.assertIn('worker-0', self.refused())

    def test_number_of_volumes(self) -> None:
        self.assertIn('1 of 2 local volumes', self.refused(2))
        del self.volumes[0]
        self.assertIn('worker-0', self.refused())

    def test_hosts_that_are_not_visible(self) -> None:
        self.hosts['s0'] = None
        self.assertFalse(self.check())
        self.hosts['s0'] = 'h0'
        self.volumes[0]['os-vol-host-attr:host'] = None
        self.assertFalse(self.check())

    def test_cinder_refuses(self) -> None:
        self.cloud.http.get(f'{fake.CINDER}/volumes/detail', status_code=403)
        self.refused()

    def attachments(self, *types: str | None, status: int = 200) -> str | None:
        """Return the protocol that attachments of these types have."""
        self.request = self.cloud.http.get(
            f'{fake.CINDER}/attachments/detail',
            status_code=status,
            json={
                'attachments': [
                    {
                        'id': f'a{number}',
                        'instance': 's0',
                        'connection_info': name
                        and {'driver_volume_type': name},
                    }
                    for number, name in enumerate(types)
                ]
                + [
                    {
                        'id': 'other',
                        'instance': 's1',
                        'connection_info': {'driver_volume_type': 'rbd'},
                    }
                ]
            },
        )
        return volume_locality.find_protocol(self.conn, 's0')

    def test_protocol(self) -> None:
        self.assertEqual('iSCSI', self.attachments('iscsi', 'iscsi'))
        self.assertEqual(
            {'all_tenants': ['1'], 'instance_id': ['s0']},
            self.request.last_request.qs,
        )
        self.assertEqual('NVMe-oF', self.attachments('nvmeof'))
        self.assertEqual('fancy', self.attachments('fancy'))
        self.assertIsNone(self.attachments(None))
        self.assertIsNone(self.attachments())
        self.assertIsNone(self.attachments('iscsi', status=403))
