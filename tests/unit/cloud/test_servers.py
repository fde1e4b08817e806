# SPDX-License-Identifier: Apache-2.0
"""Images that servers start from."""

import testtools

from hvstack import errors
from hvstack.cloud import servers
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
