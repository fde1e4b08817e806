# SPDX-License-Identifier: Apache-2.0
"""What volume types say, at Cinder's boundary."""

from typing import Any

import testtools

from hvstack import errors
from hvstack.cloud import volumes
from hvstack.cloud.volumes import Volumes
from tests.unit.cloud import fake


def kind(name: str, **properties: str) -> dict[str, Any]:
    return {
        'id': f'id-{name}',
        'name': name,
        'description': f'the {name}',
        'extra_specs': {
            'volume_backend_name': name,
            **{f'hvstack:{key}': value for key, value in properties.items()},
        },
    }


class VolumesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.cloud.http.get(
            f'{fake.CINDER}/types',
            json={
                'volume_types': [
                    kind('ceph'),
                    kind('two', copies='2', osd_groups='4'),
                    kind('near', host_affinity='true'),
                ]
            },
        )

    def refused(self, **requested: Any) -> str:
        error = self.assertRaises(
            errors.InputError,
            volumes.check,
            self.cloud.connect(),
            Volumes(**requested),
        )
        self.assertNotIn('\n', str(error))
        return str(error)

    def test_types_that_are_not_there(self) -> None:
        conn = self.cloud.connect()
        volumes.refuse_unknown(conn, ['two', 'ceph', 'two'])
        error = self.assertRaises(
            errors.InputError,
            volumes.refuse_unknown,
            conn,
            ['ceph', 'disk-slot-1', 'disk-slot-2'],
        )
        self.assertIn(
            "type 'disk-slot-1, disk-slot-2': Cinder has ceph, near, two.",
            str(error),
        )

    def test_a_cloud_without_volumes(self) -> None:
        cloud = self.useFixture(fake.FakeCloud(without=('block-storage',)))
        volumes.refuse_unknown(cloud.connect(), ['disk-slot-1'])

    def test_what_a_type_says(self) -> None:
        volume_type = volumes.check(
            self.cloud.connect(), Volumes('two', copies=2, osd_groups=4)
        )
        self.assertEqual(
            ('two', 'the two'),
            (volume_type.type, volume_type.description),
        )
        self.assertEqual({'two': 2}, volume_type.pools)
        volume_type = volumes.check(self.cloud.connect(), Volumes())
        self.assertEqual({}, volume_type.pools)

    def test_host_affinity(self) -> None:
        """Cinder does not know on which host a pool has its copies."""
        conn = self.cloud.connect()
        volumes.check(conn, Volumes('near', host_affinity=True))
        volumes.check(conn, Volumes('near'))
        self.assertIn(
            'host_affinity is not set instead of true',
            self.refused(type='two', host_affinity=True),
        )

    def test_no_such_type(self) -> None:
        message = self.refused(type='fast')
        self.assertIn(
            "volume type 'fast': Cinder has ceph, near, two.", message
        )

    def test_a_type_that_says_otherwise(self) -> None:
        message = self.refused(type='two', copies=3)
        self.assertIn('hvstack:copies is 2 instead of 3', message)
        self.assertIn('--property hvstack:copies=3 two', message)
        message = self.refused(osd_groups=2)
        self.assertIn('hvstack:osd_groups is not set', message)

    def backends(
        self, protocol: Any, pool_hosts: tuple[str, ...] = ('h1', 'h2')
    ) -> list[dict[str, Any]]:
        """Return the facts that Cinder has of the volumes of two servers.

        :param pool_hosts: hosts or clusters in the names of its pools.
        """
        http = self.cloud.http
        http.get(
            f'{fake.CINDER}/scheduler-stats/get_pools?detail=True',
            json={
                'pools': [
                    {
                        'name': f'{host}@disk1#p',
                        'capabilities': {'storage_protocol': protocol},
                    }
                    for host in pool_hosts
                ]
            },
        )
        http.get(
            f'{fake.CINDER}/volumes/detail',
            json={
                'volumes': [
                    {
                        'id': f'v{host}',
                        'volume_type': 'disk-slot-1',
                        'os-vol-host-attr:host': f'h{host}@disk1#p',
                        'attachments': [{'server_id': server}],
                    }
                    for host, server in ((1, 'a'), (2, 'b'), (2, 'other'))
                ]
            },
        )
        return volumes.backends(self.cloud.connect(), ['a', 'b'])

    def test_backends(self) -> None:
        for protocol, expected in (
            ('iSCSI', 'iSCSI'),
            (['NVMe-oF', 'nvmeof'], 'NVMe-oF'),
            (None, 'unknown'),
        ):
            self.assertEqual(
                [volumes.VolumeBackend('disk-slot-1', 'disk1', expected, 2)],
                self.backends(protocol),
            )
        self.assertIn('all_tenants=True', self.cloud.http.last_request.url)

    def test_cluster_of_volume_services(self) -> None:
        """Its pool has its name, and volumes have names of hosts."""
        self.assertEqual(
            [volumes.VolumeBackend('disk-slot-1', 'disk1', 'iSCSI', 2)],
            self.backends('iSCSI', ('cluster',)),
        )

    def test_a_cloud_without_cinder(self) -> None:
        cloud = self.useFixture(fake.FakeCloud(('block-storage',)))
        error = self.assertRaises(
            errors.InputError, volumes.check, cloud.connect(), Volumes()
        )
        self.assertIn('Use storage local', str(error))
