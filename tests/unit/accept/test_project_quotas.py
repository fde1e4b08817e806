# SPDX-License-Identifier: Apache-2.0
"""Projects of the tests may have as much as a cluster needs."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import testtools
from tempest.lib.services.compute import quotas_client as compute
from tempest.lib.services.identity.v3 import limits_client as identity
from tempest.lib.services.network import quotas_client as network
from tempest.lib.services.volume.v3 import quotas_client as volume

from hvstack.tempest_plugin import project_quotas
from hvstack.tempest_plugin.base import BaseTest
from tests.unit.accept.tempestconf import configure

#: Keys of the answers, which the clients of Tempest validate.
_KEYS = (
    *('instances', 'cores', 'ram', 'floating_ips', 'fixed_ips', 'key_pairs'),
    *('metadata_items', 'security_groups', 'security_group_rules'),
    *('injected_files', 'injected_file_content_bytes'),
    'injected_file_path_bytes',
)
_VOLUME_KEYS = (
    *('volumes', 'snapshots', 'backups', 'groups', 'per_volume_gigabytes'),
    *('gigabytes', 'backup_gigabytes'),
)


class Services(BaseHTTPRequestHandler):
    """Nova, Neutron and Cinder, whose answers depend on the path."""

    requests: list[tuple[str, str, Any]]
    forbidden: str
    registered: tuple[str, ...]

    def do_GET(self) -> None:
        """Answer the list of limits in Keystone."""
        limit = {'service_id': 's1', 'region_id': None, 'default_limit': 10}
        limits = [limit | {'resource_name': name} for name in self.registered]
        self._send(200, {'registered_limits': limits})

    def do_POST(self) -> None:
        """Answer the creation of a limit in Keystone."""
        length = int(self.headers['Content-Length'])
        body = json.loads(self.rfile.read(length))
        self.requests.append((self.command, self.path, body))
        name = body['limits'][0]['resource_name']
        content = {'limits': [body['limits'][0] | {'id': f'id-of-{name}'}]}
        self._send(403 if self.forbidden == 'keystone' else 201, content)

    def do_PUT(self) -> None:
        """Answer the change of quotas."""
        length = int(self.headers['Content-Length'])
        self._answer(json.loads(self.rfile.read(length)))

    def do_DELETE(self) -> None:
        """Answer the deletion of quotas."""
        self._answer(None)

    def _answer(self, body: Any) -> None:
        service = self.path.split('/')[1]
        self.requests.append((self.command, self.path, body))
        codes = {'nova': 202, 'neutron': 204, 'keystone': 204}
        status = {'DELETE': codes.get(service, 200)}
        content: dict[str, Any] = {}
        if service == 'neutron':
            content = {'quota': {}}
        else:
            keys = _KEYS if service == 'nova' else _VOLUME_KEYS
            content = {'quota_set': dict.fromkeys(keys, 1)}
        code = status.get(self.command, 200)
        self._send(403 if service == self.forbidden else code, content)

    def _send(self, code: int, content: Any) -> None:
        self.send_response(code)
        text = (
            b'' if self.command == 'DELETE' else json.dumps(content).encode()
        )
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Provider:
    """Authentication of Tempest's clients, without a token."""

    def __init__(self, url: str) -> None:
        self.url = url

    def auth_request(
        self, _method: str, path: str, *args: Any, **_kwargs: Any
    ) -> tuple[str, Any, Any]:
        headers, body = (*args, None, None)[:2]
        return f'{self.url}/{path}', headers, body


class QuotasTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.requests: list[tuple[str, str, Any]] = []
        handler = type('Handler', (Services,), {'requests': self.requests})
        self.handler: Any = handler
        self.handler.forbidden = ''
        self.handler.registered = ()
        server = HTTPServer(('127.0.0.1', 0), handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        url = f'http://127.0.0.1:{server.server_port}'

        def client(kind: Any, service: str) -> Any:
            provider = Provider(f'{url}/{service}')
            return kind(provider, service, 'RegionOne')

        self.admin = SimpleNamespace(
            quotas_client=client(compute.QuotasClient, 'nova'),
            network_quotas_client=client(network.QuotasClient, 'neutron'),
            volume_quotas_client_latest=client(volume.QuotasClient, 'cinder'),
            identity_limits_client=client(identity.LimitsClient, 'keystone'),
        )

    def lift(self, *, cinder: bool = True) -> list[Any]:
        configure(self, {'service_available': {'cinder': cinder}})
        return list(project_quotas.lift(self.admin, 'p1'))

    def test_lifted_and_restored(self) -> None:
        restorations = self.lift()
        limits = [next(iter(body.values())) for _, _, body in self.requests]
        self.assertEqual({-1}, {n for item in limits for n in item.values()})
        self.assertLess({'instances', 'server_group_members'}, set(limits[0]))
        self.assertIn('port', limits[1])
        self.assertIn('gigabytes', limits[2])
        self.requests.clear()
        for restore in restorations:
            restore()
        self.assertEqual(
            [
                ('DELETE', '/nova/os-quota-sets/p1'),
                ('DELETE', '/neutron/v2.0/quotas/p1'),
                ('DELETE', '/cinder/os-quota-sets/p1'),
            ],
            [(method, path) for method, path, _ in self.requests],
        )

    def test_limits_in_keystone(self) -> None:
        """Nova's own API accepts other quotas there, and ignores them."""
        self.handler.registered = (
            *('servers', 'class:PCPU', 'server_groups'),
            'image_count_total',
        )
        restorations = self.lift()[3:]
        limits = [body['limits'][0] for _, _, body in self.requests[3:]]
        self.assertEqual(
            [('servers', 'p1'), ('class:PCPU', 'p1'), ('server_groups', 'p1')],
            [
                (limit['resource_name'], limit['project_id'])
                for limit in limits
            ],
        )
        self.assertEqual(
            {2**31 - 1}, {limit['resource_limit'] for limit in limits}
        )
        self.requests.clear()
        for restore in restorations:
            restore()
        self.assertIn(
            ('DELETE', '/keystone/limits/id-of-class:PCPU', None),
            self.requests,
        )
        self.assertEqual(3, len(self.requests))
        self.handler.forbidden = 'keystone'
        self.assertEqual(3, len(self.lift()))

    def test_projects_that_tempest_created(self) -> None:
        class OneTest(BaseTest):
            credentials = ['primary', 'admin']
            os_primary, os_admin = (
                SimpleNamespace(credentials=SimpleNamespace(tenant_id=project))
                for project in ('p1', 'p2')
            )

            @classmethod
            def get_client_manager(cls, **_: Any) -> Any:
                return self.admin

        for is_dynamic, expected in ((True, {'p1', 'p2'}), (False, set())):
            self.requests.clear()
            configure(self, {'auth': {'use_dynamic_credentials': is_dynamic}})
            OneTest.resource_setup()
            OneTest.doClassCleanups()
            self.assertEqual(
                expected,
                {path.rpartition('/')[2] for _, path, _ in self.requests},
            )

    def test_services_that_refuse_or_do_not_exist(self) -> None:
        self.handler.forbidden = 'nova'
        self.assertEqual(2, len(self.lift()))
        self.assertEqual(1, len(self.lift(cinder=False)))
