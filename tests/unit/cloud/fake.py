# SPDX-License-Identifier: Apache-2.0
"""A cloud at the HTTP boundary: keystone's token, catalogue, versions."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import fixtures
import requests_mock
from keystoneauth1 import fixture as ksa
from openstack.connection import Connection

from hvstack.cloud import connection, journal

KEYSTONE = 'http://keystone.test/v3'
NOVA = 'http://nova.test/v2.1'
PLACEMENT = 'http://placement.test'
HEAT = 'http://heat.test/v1/p1'
CINDER = 'http://cinder.test/v3/p1'
GLANCE = 'http://glance.test/v2'
NEUTRON = 'http://neutron.test/v2.0'

CREDENTIAL = {
    'auth_url': KEYSTONE,
    'username': 'admin',
    'password': 'secret-of-test',
    'project_name': 'admin',
}


class CloudsFile(fixtures.Fixture):
    """File ``clouds.yaml`` of the user of a :class:`FakeCloud`.

    :param names: names of the cloud.
    :param tokens: names of the cloud that have a token for a password.
    """

    def __init__(self, *names: str, tokens: Sequence[str] = ()) -> None:
        super().__init__()
        self.names = names
        self.tokens = tokens

    def _setUp(self) -> None:
        domains = dict.fromkeys(
            ('user_domain_name', 'project_domain_name'), 'Default'
        )
        entry = {'auth': CREDENTIAL | domains, 'region_name': 'RegionOne'}
        auth = {'auth_url': KEYSTONE, 'token': 't', 'project_id': 'p1'}
        token = entry | {'auth_type': 'token', 'auth': auth}
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'clouds.yaml'
        path.write_text(
            json.dumps(
                {
                    'clouds': dict.fromkeys(self.names, entry)
                    | dict.fromkeys(self.tokens, token)
                }
            )
        )
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', str(path))
        )


class FakeCloud(fixtures.Fixture):
    """Answers of keystone, and empty discovery of the other services.

    Its user has no key pair.

    :param without: services that it does not have.
    :param services: others that it has: their URLs by type.
    :param roles: of its user.
    :param regions: names of its regions, which share all services.
    :param interfaces: interfaces of its endpoints, which have the same URL.
    """

    def __init__(
        self,
        without: tuple[str, ...] = (),
        services: Mapping[str, str] = MappingProxyType({}),
        roles: tuple[str, ...] = (),
        regions: tuple[str, ...] = ('RegionOne',),
        interfaces: tuple[str, ...] = ('public',),
    ) -> None:
        super().__init__()
        self.without = without
        self.services = services
        self.roles = roles
        self.regions = regions
        self.interfaces = interfaces

    def _setUp(self) -> None:
        self.http = self.useFixture(_Http()).http
        directory = self.useFixture(fixtures.TempDir()).path
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.journal.DIRECTORY',
                type(journal.DIRECTORY)(directory),
            )
        )
        # keystoneauth waits before it tries again.
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.connection._RETRIES', 0)
        )
        token = ksa.V3Token(project_id='p1', user_id='u1')
        for role in self.roles:
            token.add_role(name=role)
        for service_type, url in (
            ('compute', NOVA),
            ('placement', PLACEMENT),
            ('orchestration', HEAT),
            ('identity', KEYSTONE),
            ('block-storage', CINDER),
            *self.services.items(),
        ):
            if service_type in self.without:
                continue
            service = token.add_service(service_type)
            for region in self.regions:
                service.add_standard_endpoints(
                    **dict.fromkeys(self.interfaces, url), region=region
                )
        self.http.post(
            f'{KEYSTONE}/auth/tokens',
            json=token,
            headers={'X-Subject-Token': 'token-of-test'},
        )
        self.http.get(KEYSTONE, json={'version': ksa.V3Discovery(KEYSTONE)})
        for path, name in (
            (f'{NOVA}/servers/detail', 'servers'),
            (f'{NOVA}/os-server-groups', 'server_groups'),
            (f'{CINDER}/volumes/detail', 'volumes'),
            (f'{CINDER}/os-quota-sets/p1', 'quota_set'),
            (f'{KEYSTONE}/registered_limits', 'registered_limits'),
        ):
            self.http.get(path, json={name: []})
        self.http.get(
            NOVA,
            json={
                'version': {
                    'id': 'v2.1',
                    'status': 'CURRENT',
                    'version': '2.104',
                    'min_version': '2.1',
                    'links': [{'rel': 'self', 'href': NOVA}],
                }
            },
        )
        root = CINDER.removesuffix('p1')
        self.http.get(
            root,
            json={
                'versions': [
                    {
                        'id': 'v3.0',
                        'status': 'CURRENT',
                        'version': '3.71',
                        'min_version': '3.0',
                        'links': [{'rel': 'self', 'href': root}],
                    }
                ]
            },
        )
        self.http.get(
            PLACEMENT,
            json={
                'versions': [
                    {
                        'id': 'v1.0',
                        'status': 'CURRENT',
                        'max_version': '1.39',
                        'min_version': '1.0',
                        'links': [{'rel': 'self', 'href': ''}],
                    }
                ]
            },
        )

        self.http.get(f'{NOVA}/os-keypairs', json={'keypairs': []})
        # The lease, which no other process has.
        providers = f'{PLACEMENT}/resource_providers'
        self.http.post(providers, json={'generation': 0})
        self.http.delete(
            re.compile(f'^{re.escape(providers)}/'), status_code=204
        )

    def resources(self, **network: object) -> None:
        """Add an image, a network and a key pair of their default names.

        The cloud needs the services image and network.

        :param network: other fields of the network.
        """
        for url, content in (
            (f'{GLANCE}/images/hvstack-hadoop', {'id': 'i1'}),
            (
                f'{NEUTRON}/networks/provider',
                {
                    'network': {
                        'id': 'n1',
                        'name': 'provider',
                        'subnets': ['s1'],
                        **network,
                    }
                },
            ),
            (f'{NOVA}/os-keypairs/key', {'keypair': {'name': 'key'}}),
        ):
            self.http.get(
                re.compile(f'^{re.escape(url.rpartition("/")[0])}/[^/]+$'),
                status_code=404,
            )
            self.http.get(url, json=content)
            if url.endswith('/provider'):
                self.http.get(f'{NEUTRON}/networks/n1', json=content)
        for url, name in (
            (f'{GLANCE}/images', 'images'),
            (f'{NEUTRON}/networks', 'networks'),
            (f'{NEUTRON}/quotas/p1/details', 'quota'),
        ):
            self.http.get(url, json={name: []})
        self.pool('10.0.0.2', '10.0.255.254')

    def pool(
        self, start: str, end: str, *, ipv6: str = '', **fields: Any
    ) -> None:
        """Give the network a subnet with a single allocation pool.

        :param start: first address; empty for no IPv4 subnet.
        :param ipv6: prefix of an IPv6 subnet; empty for none.
        :param fields: other fields of the IPv4 subnet.
        """
        subnets: list[dict[str, Any]] = []
        if ipv6:
            subnets.append({'id': 's6', 'ip_version': 6, 'cidr': ipv6})
        if start:
            pools = [{'start': start, 'end': end}]
            subnets.append(
                {
                    'id': 's1',
                    'ip_version': 4,
                    'allocation_pools': pools,
                    **fields,
                }
            )
        self.http.get(f'{NEUTRON}/subnets', json={'subnets': subnets})

    def hosts(self, count: int, down: int = 0) -> None:
        """List hosts with KVM, the last ones of them down."""
        names = [f'h{index}' for index in range(count)]
        self.http.get(
            f'{NOVA}/os-hypervisors/detail',
            json={
                'hypervisors': [
                    {
                        'id': name,
                        'hypervisor_hostname': name,
                        'hypervisor_type': 'QEMU',
                        'hypervisor_version': 8002000,
                        'state': 'down' if index >= count - down else 'up',
                        'status': 'enabled',
                    }
                    for index, name in enumerate(names)
                ]
            },
        )
        self.http.get(
            f'{PLACEMENT}/resource_providers',
            json={
                'resource_providers': [
                    {'name': name, 'uuid': name, 'parent_provider_uuid': None}
                    for name in names
                ]
            },
        )
        self.take_raw_images_only()

    def give_trait(self, trait: str, *names: str) -> None:
        """Let only these hosts have a trait."""
        self.http.get(
            f'{PLACEMENT}/resource_providers?required=COMPUTE_NODE,{trait}',
            json={
                'resource_providers': [
                    {'name': name, 'uuid': name, 'parent_provider_uuid': None}
                    for name in names
                ]
            },
        )

    def take_raw_images_only(self, *names: str) -> None:
        """Let images_type be rbd or lvm on these hosts alone."""
        self.http.get(
            f'{PLACEMENT}/resource_providers?required='
            'COMPUTE_NODE,COMPUTE_IMAGE_TYPE_RAW,!COMPUTE_IMAGE_TYPE_QCOW2',
            json={
                'resource_providers': [
                    {'name': name, 'uuid': name, 'parent_provider_uuid': None}
                    for name in names
                ]
            },
        )

    def connect(self) -> Connection:
        """Return a connection to it."""
        return connection.connect(credential=CREDENTIAL)


class _Http(fixtures.Fixture):
    def _setUp(self) -> None:
        self.http = requests_mock.Mocker()
        self.http.start()
        self.addCleanup(self.http.stop)


def take_key_pairs(http: requests_mock.Mocker) -> None:
    """Have Nova take key pairs, and return them by name."""
    pairs: dict[str, Any] = {}

    def create(request: Any, _context: Any) -> dict[str, Any]:
        pair = request.json()['keypair']
        pairs[pair['name']] = pair
        return {'keypair': pair}

    def get(request: Any, context: Any) -> dict[str, Any]:
        pair = pairs.get(request.path.rpartition('/')[2])
        if pair is None:
            context.status_code = 404
        return {'keypair': pair}

    http.post(f'{NOVA}/os-keypairs', json=create)
    http.get(re.compile(f'{NOVA}/os-keypairs/.'), json=get)


def take_flavors(http: requests_mock.Mocker, resource_class: str) -> Any:
    """Have Nova take flavors, of which it has none, and any deletion.

    :param resource_class: class of the CPUs that Placement has beside memory.
    :returns: mock of the deletions.
    """
    nova = re.escape(NOVA)
    http.get(f'{NOVA}/flavors/detail', json={'flavors': []})
    http.post(
        f'{NOVA}/flavors',
        json=lambda request, _: {
            'flavor': {**request.json()['flavor'], 'links': []}
        },
    )
    http.post(re.compile(f'{nova}/flavors/.*/os-extra_specs'), json={})
    http.get(
        re.compile(f'{nova}/flavors/.*/os-flavor-access'),
        json={'flavor_access': []},
    )
    http.post(re.compile(f'{nova}/flavors/.*/action'), json={})
    inventory = {'total': 80, 'reserved': 0, 'allocation_ratio': 1.0}
    http.get(
        re.compile(f'{PLACEMENT}/resource_providers/.*/inventories'),
        json={
            'inventories': {resource_class: inventory, 'MEMORY_MB': inventory}
        },
    )
    return http.delete(re.compile(f'{nova}/flavors/'), text='')


def serve_stack(http: requests_mock.Mocker, hosts: Mapping[str, str]) -> None:
    """Have Heat show a complete cluster ``mine``, and Nova its hosts.

    :param hosts: ``hostId`` by the name of the node, which is also the ID of
        its server. The first node is the controller.
    """
    controller, *workers = (
        {
            'name': name,
            'address': f'10.0.0.{number}',
            'server_id': name,
            'host_key': f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{43 * "k"}',
        }
        for number, name in enumerate(hosts, start=1)
    )
    stack = {
        'id': 's1',
        'stack_name': 'mine',
        'stack_status': 'CREATE_COMPLETE',
        'outputs': [
            {'output_key': 'controller', 'output_value': controller},
            {'output_key': 'workers', 'output_value': workers},
        ],
    }
    for name in ('mine', 's1'):
        http.get(f'{HEAT}/stacks/{name}', json={'stack': stack})
    http.get(
        f'{NOVA}/servers/detail',
        json={
            'servers': [
                {'id': name, 'hostId': host} for name, host in hosts.items()
            ]
        },
    )
