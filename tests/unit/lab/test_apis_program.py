# SPDX-License-Identifier: Apache-2.0
"""The WSGI module of several APIs in one process."""

import importlib.util
import sys
from pathlib import Path

import fixtures
import testtools

from hvstack import share
from hvstack.lab import constants, services

PROGRAM = share.LAB / services.APIS.template
API = """
def application(environ, start_response):
    start_response('200 OK', [])
    return [b'{name}', environ['PATH_INFO'].encode()]
"""


class ApisTest(testtools.TestCase):
    def test_port_decides_which_api_answers(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('first', 'second'):
            path = directory / f'hv_test_{name}.py'
            path.write_text(API.format(name=name))
            self.addCleanup(sys.modules.pop, path.stem, None)
        self.useFixture(
            fixtures.MonkeyPatch('sys.path', [str(directory), *sys.path])
        )
        self.useFixture(
            fixtures.EnvironmentVariable(
                'HVSTACK_APIS', '8774=hv_test_first 8775=hv_test_second'
            )
        )
        copy = directory / services.APIS.target.name
        copy.write_text(PROGRAM.read_text())
        spec = importlib.util.spec_from_file_location('apis', copy)
        assert spec
        assert spec.loader
        apis = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(apis)
        for port, name in (('8774', b'first'), ('8775', b'second')):
            answers: list[str] = []
            body = apis.application(
                {'SERVER_PORT': port, 'PATH_INFO': '/v2.1'},
                lambda status, _, answers=answers: answers.append(status),
            )
            self.assertEqual([name, b'/v2.1'], body)
            self.assertEqual(['200 OK'], answers)

    def test_service_listens_on_the_ports_of_its_apis(self) -> None:
        programs = {
            service.name: service.program for service in services.openstack()
        }
        for name, other in (('nova', 'nova-metadata'), ('heat', 'heat-cfn')):
            command, env = programs[name].command, programs[name].env
            addresses = [
                command[index + 1]
                for index, word in enumerate(command)
                if word == '--http-socket'
            ]
            ports = [str(constants.PORTS[item]) for item in (name, other)]
            self.assertEqual(
                [f'{constants.MGMT}:{port}' for port in ports], addresses
            )
            self.assertEqual(
                ports,
                [word.split('=')[0] for word in env['HVSTACK_APIS'].split()],
            )
            self.assertNotIn(other, programs)
            self.assertIn(other, services.FORMER)
