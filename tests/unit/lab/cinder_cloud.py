# SPDX-License-Identifier: Apache-2.0
"""A Cinder that has backends and stores volume types, for tests."""

from collections.abc import Iterable
from typing import Any

import fixtures
from keystoneauth1 import fixture as ksa

from tests.unit.cloud import fake

CINDER = 'http://cinder.test/v3/p1'


class CinderCloud(fixtures.Fixture):
    """A cloud with Cinder.

    :param type_names: volume types that can be created.
    :param backends: ``HOST@BACKEND`` of each backend.
    """

    def __init__(
        self, type_names: Iterable[str], backends: Iterable[str]
    ) -> None:
        self.type_names = list(type_names)
        self.backends = list(backends)
        self.types: list[dict[str, Any]] = []

    def _setUp(self) -> None:
        self.cloud = self.useFixture(fake.FakeCloud())
        token = ksa.V3Token(project_id='p1', user_id='u1')
        for service_type, url in (
            ('compute', fake.NOVA),
            ('volumev3', CINDER),
        ):
            service = token.add_service(service_type)
            service.add_standard_endpoints(public=url, region='RegionOne')
        http = self.cloud.http
        http.post(
            f'{fake.KEYSTONE}/auth/tokens',
            json=token,
            headers={'X-Subject-Token': 'token-of-test'},
        )
        root = CINDER.removesuffix('p1')
        version = {
            'id': 'v3.0',
            'status': 'CURRENT',
            'version': '3.71',
            'min_version': '3.0',
            'links': [{'rel': 'self', 'href': root}],
        }
        http.get(root, json={'versions': [version]})
        http.get(
            f'{CINDER}/scheduler-stats/get_pools',
            json=lambda *_: {'pools': self.list_pools()},
        )
        http.get(f'{CINDER}/types', json={'volume_types': self.types})
        self.type_creations = http.post(f'{CINDER}/types', json=self.create)
        self.updates = {
            name: http.put(
                f'{CINDER}/types/{name}', json={'volume_type': {'id': name}}
            )
            for name in self.type_names
        }
        self.spec_updates = {
            name: http.post(
                f'{CINDER}/types/{name}/extra_specs', json={'extra_specs': {}}
            )
            for name in self.type_names
        }

    def list_pools(self) -> list[dict[str, Any]]:
        """Return the backends as the scheduler of Cinder lists them."""
        return [
            {
                'name': f'{name}#{name.partition("@")[2]}',
                'capabilities': {},
            }
            for name in self.backends
        ]

    def create(self, request: Any, context: Any) -> dict[str, Any]:
        """Create a volume type."""
        volume_type = request.json()['volume_type']
        self.types.append({**volume_type, 'id': volume_type['name']})
        return {'volume_type': self.types[-1]}
