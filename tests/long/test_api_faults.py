# SPDX-License-Identifier: Apache-2.0
"""Requests and answers that are lost: nothing stays, nothing is duplicated.

Each case loses a request, or its answer, of one change, and then does what
the next command does: it undoes what the journal has. Afterwards the cloud is
as it was. The table of all cases is printed.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fixtures
import openstack.config
import testtools
import yaml

from hvstack import errors
from hvstack.cloud import (
    allocation_ratios,
    cluster_flavors,
    connection,
    journal,
    keypairs,
    lease,
    placement,
    stack_updates,
    stacks,
    undo,
)
from hvstack.lab.images import glance, store
from hvstack.model.flavor import Flavor
from tests.long import faults

#: Seconds after which a service that says nothing counts as silent.
_TIMEOUT = 12
_STACK_SECONDS = 120
#: Losing the request, and losing the answer to what the service has done.
_LOST = ('503 before', '504 after', 'reset before', 'reset after')
#: This takes its time: one change of each service is enough.
_SILENCE = 'silence after'
_TEMPLATE = """
heat_template_version: 2021-04-16
parameters:
  length: {type: number, default: 8}
resources:
  text:
    type: OS::Heat::RandomString
    properties: {length: {get_param: length}}
"""
_NETWORK_TEMPLATE = """
heat_template_version: 2021-04-16
parameters:
  length: {type: number, default: 8}
resources:
  group:
    type: OS::Neutron::SecurityGroup
    properties:
      name:
        str_replace:
          template: hv-fault-group-%n%
          params: {'%n%': {get_param: length}}
      # As the templates of hvstack mark every resource.
      description:
        list_join: [' ', [hvstack stack, {get_param: 'OS::stack_id'}]]
"""
_NAME = 'hv-fault'


class ApiFaultsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = connection.connect()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.directory = directory
        for name, path in (
            ('cloud.journal.DIRECTORY', directory / 'journal'),
            ('cloud.keypairs.DIRECTORY', directory / 'keys'),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', path))
        self.proxies: dict[str, faults.Proxy] = {}
        overrides: dict[str, Any] = {'api_timeout': _TIMEOUT}
        for service in ('compute', 'placement', 'image', 'orchestration'):
            self.proxies[service] = self.proxy(
                str(self.cloud.endpoint_for(service))
            )
            overrides[f'{service}_endpoint_override'] = self.proxies[
                service
            ].url
        auth: Any = self.cloud.session.auth
        self.proxies['identity'] = self.proxy(str(auth.auth_url))
        entry = openstack.config.OpenStackConfig().get_one().config
        clouds = {
            'clouds': {
                'faulty': {
                    'auth': {
                        **entry['auth'],
                        'auth_url': self.proxies['identity'].url,
                    },
                    'region_name': entry['region_name'],
                    **overrides,
                }
            }
        }
        path = directory / 'clouds.yaml'
        path.write_text(yaml.safe_dump(clouds))
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', str(path))
        )
        self.faulty = connection.connect('faulty')
        self.rows: list[tuple[str, ...]] = []
        self.problems: list[str] = []
        self.before: dict[str, list[str]] = {}
        template = directory / 'template.yaml'
        template.write_text(_TEMPLATE)
        self.template = template
        self.addCleanup(self.delete_all)

    def proxy(self, target: str) -> faults.Proxy:
        proxy = faults.Proxy(target)
        self.addCleanup(proxy.close)
        return proxy

    def delete_all(self) -> None:
        """Delete what a case that failed has left."""
        for item in self.cloud.network.security_groups():
            if item.name.startswith(_NAME):
                self.cloud.network.delete_security_group(item)
        for image in self.cloud.image.images():
            if image.name == _NAME:
                self.cloud.image.delete_image(image)

    def state(self) -> dict[str, list[str]]:
        """Return the resources of the cloud by kind."""
        providers = placement.providers(self.cloud)
        return {
            'flavors': sorted(
                f'{item.name} {sorted((item.extra_specs or {}).items())}'
                for item in self.cloud.compute.flavors(is_public=None)
            ),
            'key pairs': sorted(
                item.name for item in self.cloud.compute.keypairs()
            ),
            'stacks': sorted(
                item.name for item in self.cloud.orchestration.stacks()
            ),
            'images': sorted(
                f'{item.name} {item.status}'
                for item in self.cloud.image.images()
            ),
            'security groups': sorted(
                f'{item.name} {item.project_id}'
                for item in self.cloud.network.security_groups()
            ),
            'ratios': [
                str(allocation_ratios.current(self.cloud, providers)),
            ],
            'leases': [str(lease._current(self.cloud))],
        }

    def case(
        self,
        service: str,
        change: str,
        fault: str,
        operation: Callable[[], object],
        request: tuple[str, str],
        *,
        expected: str = '',
    ) -> None:
        """Lose one request of an operation, then undo, and compare.

        :param service: type of the service whose request is lost.
        :param request: its method and a part of its path.
        :param expected: kind of thing that is compared by hand.
        """
        before = self.before or self.state()
        proxy = self.proxies[service]
        proxy.arm(*request, fault)
        try:
            operation()
            message = 'succeeded'
        except errors.HVStackError as exc:
            message = str(exc)
            if len(message.splitlines()) != 1:
                self.problems.append(f'{service} {change}: {message!r}')
        finally:
            proxy.disarm()
        if proxy.hits != 1:
            self.problems.append(
                f'{service} {change}, {fault}: {proxy.hits} requests hit'
            )
        undone = []
        for _ in range(2):
            try:
                undone = undo.undo_own([self.faulty]) or undone
            except errors.HVStackError as exc:
                self.problems.append(f'{service} {change}, {fault}: {exc}')
        after = self.before = self.state()
        remaining = [
            f'{category}: {before[category]} before, {after[category]} after'
            for category in before
            if before[category] != after[category] and category != expected
        ]
        remaining += [f'journal: {entry}' for entry in journal.entries()]
        self.problems += [
            f'{service} {change}, {fault}: {line}' for line in remaining
        ]
        row = (
            service,
            change,
            fault,
            message[:60],
            ', '.join(undone) or 'nothing to undo',
            '; '.join(remaining)[:80] or 'as before',
        )
        self.rows.append(row)
        print(' | '.join(row), file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Fail if any case had a problem."""
        self.assertEqual([], self.problems)

    def flavor(self) -> Flavor:
        return Flavor(
            name=_NAME,
            role='worker',
            vcpus=1,
            ram=64,
            disk=1,
            ephemeral=0,
            extra_specs={'hw:cpu_policy': 'shared'},
            description='of a test of lost answers',
        )

    def publish(self) -> None:
        cluster_flavors.publish(
            self.faulty, self.flavor(), [str(self.faulty.current_project_id)]
        )

    def test_identity(self) -> None:
        login = lambda: connection.connect('faulty')  # noqa: E731
        for fault in (*_LOST, _SILENCE):
            self.case(
                'identity', 'log in', fault, login, ('POST', '/auth/tokens')
            )
        for service, change, operation, request in (
            ('compute', 'create', self.publish, ('POST', '/flavors$')),
            ('compute', 'update', self.publish, ('POST', 'os-extra_specs')),
            ('compute', 'access', self.publish, ('POST', '/action')),
            ('orchestration', 'create', self.stack, ('POST', '/stacks$')),
            ('placement', 'update', self.set_ratio, ('PUT', 'MEMORY_MB')),
        ):
            # The token is no longer valid in the middle of a change.
            self.case(
                service,
                f'token expires ({change})',
                '401 before',
                operation,
                request,
            )
        self.finish()

    def test_compute(self) -> None:
        for fault in _LOST:
            self.case(
                'compute',
                'create a flavor',
                fault,
                self.publish,
                ('POST', '/flavors$'),
            )
            self.case(
                'compute',
                'set extra specs',
                fault,
                self.publish,
                ('POST', 'os-extra_specs'),
            )
            self.case(
                'compute',
                'create a key pair',
                fault,
                lambda: keypairs.create(self.faulty, _NAME),
                ('POST', 'os-keypairs'),
            )
            self.case(
                'compute',
                'delete a flavor',
                fault,
                self.undone(self.publish),
                ('DELETE', '/flavors/'),
            )
        self.finish()

    def test_silence(self) -> None:
        for service, operation, request in (
            ('compute', self.publish, ('POST', '/flavors$')),
            ('placement', self.set_ratio, ('PUT', 'MEMORY_MB')),
            ('orchestration', self.stack, ('POST', '/stacks$')),
        ):
            self.case(service, 'create', _SILENCE, operation, request)
        self.finish()

    def undone(self, operation: Callable[[], object]) -> Callable[[], object]:
        """Return a function that runs an operation and undoes it."""

        def do() -> None:
            operation()
            undo.undo_own([self.faulty])

        return do

    def set_ratio(self) -> None:
        name, provider = sorted(placement.providers(self.cloud).items())[-1]
        allocation_ratios.set_ratios(
            self.faulty, {name: provider}, {'MEMORY_MB': 1.25}
        )

    def test_placement(self) -> None:
        for fault in _LOST:
            request = ('PUT', 'MEMORY_MB')
            self.case(
                'placement', 'set a ratio', fault, self.set_ratio, request
            )
            self.case(
                'placement',
                'restore a ratio',
                fault,
                self.restored,
                request,
            )
            self.case(
                'placement',
                'create the lease',
                fault,
                lambda: lease.acquire(self.faulty),
                ('POST', '/resource_providers$'),
            )
            self.case(
                'placement',
                'release the lease',
                fault,
                self.undone(lambda: lease.acquire(self.faulty)),
                ('DELETE', '/resource_providers/'),
            )
        self.finish()

    def restored(self) -> None:
        """Set a ratio without a fault, and restore it with the fault."""
        proxy = self.proxies['placement']
        fault, proxy._fault = proxy._fault, ''
        self.set_ratio()
        proxy._fault = fault
        undo.undo_own([self.faulty])

    def stack(self) -> str:
        stack_id = stacks.create(
            *(self.faulty, _NAME, self.template, {}), timeout=_STACK_SECONDS
        )
        stacks.wait(self.faulty, stack_id, timeout=_STACK_SECONDS)
        return stack_id

    def updated(self) -> None:
        stack = self.cloud.orchestration.get_stack(self.stack())
        stack_updates.update(
            self.faulty, stack, {'length': 16}, timeout=_STACK_SECONDS
        )

    def test_orchestration(self) -> None:
        for fault in _LOST:
            for change, operation, request in (
                ('create', self.stack, ('POST', '/stacks$')),
                ('update', self.updated, ('PATCH', '/stacks/')),
                ('delete', self.undone(self.stack), ('DELETE', '/stacks/')),
            ):
                self.case(
                    'orchestration',
                    f'{change} a stack',
                    fault,
                    operation,
                    request,
                )
        self.finish()

    def test_image(self) -> None:
        disk = self.directory / 'disk'
        disk.write_bytes(b'x' * 65536)
        image = store.Image('fault', 'digest-a', {'lxc': disk}, {})

        def upload(conn: Any = self.faulty) -> str:
            return glance.upload(conn, image, 'lxc', title=_NAME)

        for fault in _LOST:
            for change, request in (
                ('create an image', ('POST', '/images$')),
                ('upload its data', ('PUT', '/file')),
            ):
                self.delete_all()
                self.before = {}
                self.case(
                    'image',
                    change,
                    fault,
                    upload,
                    request,
                    expected='images',
                )
                # No entry of the journal: the next upload completes it.
                self.assertEqual(upload(self.cloud), upload())
                self.one_image()
            newer = store.Image('fault', f'newer-{fault}', {'lxc': disk}, {})
            self.case(
                'image',
                'delete the one before',
                fault,
                lambda newer=newer: glance.upload(  # type: ignore[misc]
                    self.faulty, newer, 'lxc', title=_NAME
                ),
                ('DELETE', '/images/'),
                expected='images',
            )
            glance.upload(self.faulty, newer, 'lxc', title=_NAME)
            self.one_image()
            self.delete_all()
        self.finish()

    def one_image(self) -> None:
        images = list(self.cloud.image.images(name=_NAME))
        self.assertEqual(['active'], [item.status for item in images])

    def test_network(self) -> None:
        """Heat's requests to Neutron are lost; hvstack sends none."""
        self.template.write_text(_NETWORK_TEMPLATE)
        (service,) = self.cloud.identity.services(type='network')
        endpoints = list(self.cloud.identity.endpoints(service_id=service.id))
        self.proxies['network'] = self.proxy(endpoints[0].url)
        for endpoint in endpoints:
            self.addCleanup(
                self.cloud.identity.update_endpoint,
                endpoint.id,
                url=endpoint.url,
            )
            self.cloud.identity.update_endpoint(
                endpoint.id, url=self.proxies['network'].url
            )
        for fault in _LOST:
            for change, request, operation in (
                ('create', ('POST', 'security-groups'), self.stack),
                ('update', ('PUT', 'security-groups/'), self.updated),
                (
                    'delete',
                    ('DELETE', 'security-groups/'),
                    self.undone(self.stack),
                ),
            ):
                self.case(
                    'network', f'{change} a group', fault, operation, request
                )
        self.finish()
