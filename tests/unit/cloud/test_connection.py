# SPDX-License-Identifier: Apache-2.0
"""A cloud that cannot be reached is named in one sentence."""

import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fixtures
import keystoneauth1.exceptions
import openstack.exceptions
import requests
import testtools

from hvstack import errors, processutils
from hvstack.cloud import connection, placement, servers
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

    def test_a_service_that_is_away_for_a_moment(self) -> None:
        """A proxy answers 503 while it changes over."""
        cloud = self.useFixture(fake.FakeCloud())
        url = f'{fake.PLACEMENT}/resource_providers'
        answers = [{'status_code': 503}, {'json': {'resource_providers': []}}]
        cloud.http.get(url, answers)
        self.assertRaises(
            errors.CloudError, placement.providers, cloud.connect()
        )
        cloud.http.get(url, answers)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.connection._RETRIES', 1)
        )
        self.assertEqual({}, placement.providers(cloud.connect()))

    def test_outages(self) -> None:
        """An error of the service itself can follow from the request."""
        cloud = self.useFixture(fake.FakeCloud())
        url = f'{fake.PLACEMENT}/resource_providers'
        for answer, expected in (
            ({'status_code': 502}, True),
            ({'status_code': 503}, True),
            ({'status_code': 504}, True),
            ({'status_code': 429}, True),
            ({'exc': requests.ConnectTimeout}, True),
            ({'status_code': 500}, False),
            ({'status_code': 403}, False),
        ):
            cloud.http.get(url, **answer)
            error = self.assertRaises(
                errors.CloudError, placement.providers, cloud.connect()
            )
            self.assertEqual(expected, connection.is_outage(error), answer)
        for outage in (errors.BusyError, errors.RecordNotStoredError):
            self.assertTrue(connection.is_outage(outage('used')))
        self.assertFalse(connection.is_outage(errors.InputError('wrong')))

    def test_administrator_of_other_distributions(self) -> None:
        for roles, expected in (
            (('admin',), True),
            (('Admin', 'member'), True),
            (('member',), False),
        ):
            with fake.FakeCloud(roles=roles) as cloud:
                self.assertEqual(
                    expected, connection.is_administrator(cloud.connect())
                )

    def test_rejected_credentials(self) -> None:
        cloud = self.useFixture(fake.FakeCloud())
        cloud.http.post(f'{fake.KEYSTONE}/auth/tokens', status_code=401)
        message = self.refused(fake.KEYSTONE)
        self.assertIn(f"'{fake.KEYSTONE}'", message)
        self.assertIn('HTTP 401', message)
        self.assertIn('password', message)
        self.assertNotIn('does not answer', message)

    @testtools.skipUnless(shutil.which('openssl'), 'needs openssl')
    def test_certificate_of_an_unknown_authority(self) -> None:
        with self.serve_tls() as url:
            message = self.refused(url)
        self.assertIn(f"'{url}'", message)
        self.assertIn('self-signed certificate', message)
        self.assertIn('Set cacert of the cloud in clouds.yaml', message)
        self.assertIn('the CA that', message)
        self.assertNotIn('HTTPSConnectionPool', message)

    @contextmanager
    def serve_tls(self) -> Iterator[str]:
        """Serve TLS with a certificate that no authority signed."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        key, certificate = directory / 'key', directory / 'certificate'
        processutils.run(
            [
                *('openssl', 'req', '-x509', '-newkey', 'ec', '-nodes'),
                *('-pkeyopt', 'ec_paramgen_curve:prime256v1'),
                *('-keyout', key, '-out', certificate, '-days', '2'),
                *('-subj', '/CN=127.0.0.1'),
                *('-addext', 'subjectAltName=IP:127.0.0.1'),
            ]
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        with socket.create_server(('127.0.0.1', 0)) as server:

            def serve() -> None:
                while True:
                    try:
                        stream, _ = server.accept()
                        context.wrap_socket(stream, server_side=True).close()
                    except ssl.SSLError:
                        stream.close()
                    except OSError:
                        return

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            yield f'https://127.0.0.1:{server.getsockname()[1]}/v3'
            server.shutdown(socket.SHUT_RDWR)
        thread.join()

    def test_two_images_of_one_name(self) -> None:
        """Glance and Neutron allow it, and users keep old images."""
        cloud = self.useFixture(
            fake.FakeCloud(services={'image': fake.GLANCE})
        )
        cloud.http.get(f'{fake.GLANCE}/images/x', status_code=404)
        images = [{'id': image_id, 'name': 'x'} for image_id in 'ab']
        cloud.http.get(f'{fake.GLANCE}/images', json={'images': images})
        error = self.assertRaises(
            errors.CloudError, servers.image, cloud.connect(), 'x'
        )
        self.assertIn("with the name 'x'. Use an ID", str(error))

    def test_certificate_of_another_service(self) -> None:
        cause = keystoneauth1.exceptions.SSLError('verify failed')
        with (
            testtools.ExpectedException(errors.CloudError, '.*cacert'),
            connection.refused('Cannot list the images'),
        ):
            raise openstack.exceptions.SDKException('x') from cause
