# SPDX-License-Identifier: Apache-2.0
"""Images in Glance: hvstack deletes its own, in its own project."""

import uuid
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.lab.images import glance, store
from tests.unit.cloud import fake

IMAGES = f'{fake.GLANCE}/images'


class OwnershipTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        services = {'image': fake.GLANCE}
        self.cloud = self.useFixture(fake.FakeCloud(services=services))
        self.conn = self.cloud.connect()
        self.images: list[dict[str, Any]] = []
        http = self.cloud.http
        root = fake.GLANCE.removesuffix('v2')
        version = {
            'id': 'v2.16',
            'status': 'CURRENT',
            'links': [{'rel': 'self', 'href': f'{fake.GLANCE}/'}],
        }
        http.get(root, json={'versions': [version]})
        http.get(IMAGES, json=lambda *_: {'images': self.images})
        self.created = http.post(IMAGES, json=self.create)
        self.deleted: list[str] = []

    def create(self, request: Any, _context: Any) -> dict[str, Any]:
        image = self.add(**request.json())
        path = f'{IMAGES}/{image["id"]}'
        self.cloud.http.put(f'{path}/file', status_code=204)
        image['status'] = 'active'
        return image

    def add(self, **fields: Any) -> dict[str, Any]:
        image = {
            'id': str(uuid.uuid4()),
            'name': 'hvstack-hadoop',
            'owner': 'p1',
            'status': 'active',
            'visibility': 'public',
            **fields,
        }
        path = f'{IMAGES}/{image["id"]}'
        self.images.append(image)
        self.cloud.http.get(path, json=image)
        self.cloud.http.delete(path, json=self.delete)
        return image

    def delete(self, request: Any, context: Any) -> None:
        context.status_code = 204
        self.deleted.append(request.path.rpartition('/')[2])

    def managed(self, digest: str, **fields: Any) -> dict[str, Any]:
        image_id = str(uuid.uuid4())
        properties = {
            glance.DIGEST: digest,
            glance.OUTPUT: 'lxc',
            glance.IDENTITY: image_id,
        }
        return self.add(**{**properties, 'id': image_id, **fields})

    def upload(self, output: str = 'lxc') -> str:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'root.ext4'
        path.write_bytes(b'image')
        image = store.Image('hadoop', 'new', {output: path}, {})
        return glance.upload(self.conn, image, output)

    def test_older_build_is_replaced_once(self) -> None:
        old = self.managed('old')
        new = self.upload()
        self.assertEqual(new, self.created.last_request.json()['id'])
        self.assertEqual([old['id']], self.deleted)
        self.images.remove(old)
        self.assertEqual(new, self.upload())
        self.assertEqual(1, self.created.call_count)

    def test_disk_with_other_drivers_is_replaced_once(self) -> None:
        """The digest does not cover the drivers."""
        old = self.managed('new', **{glance.OUTPUT: 'qemu'})
        new = self.upload('qemu')
        self.assertEqual([old['id']], self.deleted)
        self.images.remove(old)
        self.assertEqual(new, self.upload('qemu'))
        self.assertEqual(1, self.created.call_count)

    def test_protected_image(self) -> None:
        """It stayed, and two images of a name start no server."""
        old = self.managed('old', protected=True)
        error = self.assertRaises(errors.InputError, self.upload)
        self.assertIn(f'set --unprotected {old["id"]}', str(error))
        self.assertEqual(0, self.created.call_count)

    def test_image_that_disks_are_clones_of(self) -> None:
        old = self.managed('old')
        path = f'{IMAGES}/{old["id"]}'
        self.cloud.http.delete(path, status_code=409, reason='InUseByStore')
        renamed = self.cloud.http.patch(path, json=old)
        self.assertEqual(self.upload(), self.images[-1]['id'])
        (change,) = renamed.last_request.json()
        self.assertEqual(
            ('/name', 'hvstack-hadoop-old'), (change['path'], change['value'])
        )

    def test_image_that_remains_is_named(self) -> None:
        old = self.managed('old')
        path = f'{IMAGES}/{old["id"]}'
        self.cloud.http.delete(path, status_code=403)
        self.cloud.http.patch(path, status_code=403)
        error = self.assertRaises(errors.CloudError, self.upload)
        self.assertIn(f'set --name hvstack-hadoop-old {old["id"]}', str(error))
        self.assertNotIn('--visibility', str(error))

    def test_private_images_of_other_projects(self) -> None:
        """An administrator sees them; they were deleted, or believed."""
        self.managed('new', owner='p2', visibility='private')
        self.add(owner='p2', visibility='private')
        uploaded = self.upload()
        self.assertEqual(self.images[-1]['id'], uploaded)
        self.assertEqual(1, self.created.call_count)
        self.assertEqual([], self.deleted)

    def test_name_would_be_ambiguous(self) -> None:
        for fields in ({'visibility': 'private'}, {'owner': 'p2'}):
            self.images.clear()
            other = self.add(**fields)
            error = self.assertRaises(errors.InputError, self.upload)
            self.assertIn(f'({other["id"]}, project ', str(error))
        self.assertEqual(0, self.created.call_count)
        self.assertEqual([], self.deleted)

    def test_snapshot_inherits_properties(self) -> None:
        image = self.managed('old')
        self.managed('old', **{glance.IDENTITY: image['id']})
        self.assertRaises(errors.InputError, self.upload)
        self.assertEqual([], self.deleted)
