# SPDX-License-Identifier: Apache-2.0
"""A cloud that cannot be reached is named in one sentence."""

import socket

import testtools

from hvstack import errors
from hvstack.cloud import connection
from tests.unit.cloud import fake


class ConnectTest(testtools.TestCase):
    def refused(self, url: str) -> str:
        credential = {**fake.CREDENTIAL, 'auth_url': url}
        error = self.assertRaises(
            errors.CloudError, connection.connect, credential=credential
        )
        return str(error)

    def test_port_without_a_service(self) -> None:
        with socket.socket() as stream:
            # Bound, but not listening: no other process gets the port.
            stream.bind(('127.0.0.1', 0))
            url = f'http://127.0.0.1:{stream.getsockname()[1]}/v3'
            message = self.refused(url)
        self.assertEqual(
            f"Cannot connect to the cloud (auth_url '{url}'): Connection "
            'refused. Check auth_url, the network and the services.',
            message,
        )

    def test_unknown_name(self) -> None:
        message = self.refused('http://keystone.invalid/v3')
        self.assertIn("'http://keystone.invalid/v3'): ", message)
        self.assertNotIn('HTTPConnectionPool', message)
        self.assertNotIn('Errno', message)
