# SPDX-License-Identifier: Apache-2.0
"""Guest images in Glance, at the HTTP boundary."""

import dataclasses
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.lab.images import glance, store
from tests.unit.cloud import fake


class GlanceTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        cloud = self.useFixture(
            fake.FakeCloud(services={'image': fake.GLANCE})
        )
        self.conn, self.http = cloud.connect(), cloud.http
        self.http.get(
            fake.GLANCE,
            json={
                'versions': [
                    {
                        'id': 'v2.9',
                        'status': 'CURRENT',
                        'links': [{'rel': 'self', 'href': fake.GLANCE}],
                    }
                ]
            },
        )
        self.http.get(f'{fake.GLANCE}/images', json={'images': []})
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'disk'
        # The header of qcow2: the disk's size after 24 bytes.
        path.write_bytes(bytes(24) + (5 * 1024**3).to_bytes(8, 'big'))
        self.image = store.Image(
            name='hadoop',
            digest='0123456789ab',
            outputs={'qemu': path},
            versions={},
        )

    def request(self) -> dict[str, Any]:
        """Upload the image, and return the request to Glance."""
        requested: dict[str, Any] = {}

        def create(request: Any, context: Any) -> Any:
            requested.update(request.json())
            context.status_code = 201
            return {**requested, 'id': 'i1', 'status': 'queued'}

        self.http.post(f'{fake.GLANCE}/images', json=create)
        self.http.put(f'{fake.GLANCE}/images/i1/file', status_code=204)
        self.http.get(
            f'{fake.GLANCE}/images/i1', json={'id': 'i1', 'status': 'active'}
        )
        self.assertEqual(
            'i1',
            glance.upload(
                self.conn, self.image, 'qemu', visibility='community'
            ),
        )
        return requested

    def test_properties(self) -> None:
        requested = self.request()
        self.assertEqual(
            ('community', 'debian', 'x86_64', 'virtio', 5),
            tuple(
                requested[name]
                for name in (
                    *('visibility', 'os_distro', 'architecture'),
                    *('hw_rng_model', 'min_disk'),
                )
            ),
        )
        self.assertNotIn('hw_vm_mode', requested)

    def test_devices_for_which_the_kernel_has_drivers(self) -> None:
        """The config drive of q35 was a SATA CD-ROM."""
        self.assertLessEqual(glance.HARDWARE.items(), self.request().items())

    def test_disk_of_an_operator_has_all_drivers(self) -> None:
        self.image = dataclasses.replace(self.image, name='disk')
        self.assertFalse(set(glance.HARDWARE) & set(self.request()))

    def test_public_is_for_administrators(self) -> None:
        self.http.post(f'{fake.GLANCE}/images', status_code=403)
        exc = self.assertRaises(
            errors.CloudError, glance.upload, self.conn, self.image, 'qemu'
        )
        self.assertIn('Use --visibility private', str(exc))
