# SPDX-License-Identifier: Apache-2.0
"""What a cloud needs for stateless security groups, and who may reply."""

import socket
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import stateless_groups
from tests.unit.cloud import fake


class StatelessGroupsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.extensions: list[str] = ['stateful-security-group']
        self.properties: list[str] = ['name', 'stateful']
        self.nameservers: list[str] = []
        self.endpoint = 'http://192.0.2.9:8000/v1'

    def connect(self) -> Any:
        cloud = self.useFixture(
            fake.FakeCloud(
                services={
                    'network': fake.NEUTRON,
                    'cloudformation': self.endpoint,
                }
            )
        )
        cloud.resources()
        cloud.http.get(
            f'{fake.NEUTRON}/extensions/stateful-security-group',
            json={'extension': {'alias': 'stateful-security-group'}},
            status_code=200 if self.extensions else 404,
        )
        cloud.http.get(f'{fake.NEUTRON}/extensions', json={'extensions': []})
        cloud.http.get(
            f'{fake.HEAT}/resource_types/OS::Neutron::SecurityGroup',
            json={'properties': {name: {} for name in self.properties}},
        )
        cloud.http.get(
            f'{fake.NEUTRON}/subnets',
            json={'subnets': [{'dns_nameservers': self.nameservers}]},
        )
        return cloud.connect()

    def test_replies_of_services(self) -> None:
        self.nameservers = ['192.0.2.53', '2001:db8::53']
        self.assertEqual(
            ('169.254.169.254/32', '192.0.2.53/32', '192.0.2.9/32'),
            stateless_groups.list_reply_cidrs(self.connect(), 'provider'),
        )

    def check_error(self, text: str) -> None:
        exc = self.assertRaises(
            errors.InputError,
            *(stateless_groups.list_reply_cidrs, self.connect(), 'provider'),
        )
        self.assertIn(text, str(exc))

    def test_neutron_without_the_extension(self) -> None:
        self.extensions = []
        self.check_error("no extension 'stateful-security-group'")

    def test_an_older_heat(self) -> None:
        self.properties = ['name']
        self.check_error('Heat 27')

    def test_a_name_that_is_not_known(self) -> None:
        def look_up(*_: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, 'Name not known')

        self.endpoint = 'https://heat.cloud.test/v1'
        conn = self.connect()
        self.useFixture(fixtures.MonkeyPatch('socket.getaddrinfo', look_up))
        exc = self.assertRaises(
            errors.InputError,
            *(stateless_groups.list_reply_cidrs, conn, 'provider'),
        )
        self.assertIn(
            "address of 'heat.cloud.test' is not known here", str(exc)
        )
