# SPDX-License-Identifier: Apache-2.0
"""Images that servers start from."""

from typing import Any

import testtools

from hvstack import errors
from hvstack.cloud import servers
from hvstack.model.flavor import Flavor
from tests.unit.cloud import fake


class ImageTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        cloud = self.useFixture(
            fake.FakeCloud(services={'image': fake.GLANCE})
        )
        self.http = cloud.http
        self.conn = cloud.connect()
        self.http.get(f'{fake.GLANCE}/images/hadoop', status_code=404)
        self.http.get(f'{fake.GLANCE}/images', json={'images': []})

    def refused(self) -> str:
        error = self.assertRaises(
            errors.InputError, servers.image, self.conn, 'hadoop'
        )
        return str(error)

    def test_images_of_other_projects(self) -> None:
        """Glance lists them by their name only on request."""
        self.assertIn('image upload', self.refused())
        for query, remedy in (
            ('visibility=community', 'or --image, to i7.'),
            (
                'visibility=shared&member_status=pending',
                "Run 'openstack image set --accept i7'.",
            ),
        ):
            url = f'{fake.GLANCE}/images'
            self.http.get(url, json={'images': []})
            self.http.get(
                f'{url}?name=hadoop&{query}',
                json={'images': [{'id': 'i7', 'name': 'hadoop'}]},
            )
            self.assertIn(remedy, self.refused())

    def test_machine_type_for_many_vcpus(self) -> None:
        """Nova refuses an IOMMU with another machine type than q35."""
        large = Flavor(
            'large', 'worker', 256, 1024, 20, 0, {'hw:viommu_model': 'intel'}
        )
        small = Flavor('small', 'worker', 255, 1024, 20)
        url = f'{fake.GLANCE}/images/hadoop'
        active: dict[str, Any] = {
            'id': 'i7',
            'name': 'hadoop',
            'status': 'active',
        }
        for machine, flavor in (
            ('q35', large),
            ('pc-q35-8.2', large),
            ('pc', small),
            (None, small),
        ):
            self.http.get(url, json={**active, 'hw_machine_type': machine})
            servers.check_image(self.conn, 'hadoop', [flavor])
        for fields in ({}, {'hw_machine_type': 'pc'}):
            self.http.get(url, json={**active, **fields})
            error = self.assertRaises(
                errors.InputError,
                servers.check_image,
                self.conn,
                'hadoop',
                [small, large],
            )
            self.assertIn('flavor large has 256 vCPUs', str(error))
            self.assertIn('openstack image set', str(error))
