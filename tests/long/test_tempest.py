# SPDX-License-Identifier: Apache-2.0
"""Tempest's own tests of flavors, and those of Heat's API, pass on the lab.

That it is a real OpenStack is not for hvstack's tests to say. The lab is up.
"""

import configparser
import sys
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import paths, processutils
from hvstack.accept.tempest_conf import Workspace
from hvstack.cloud import connection, stacks
from hvstack.lab import clouds_yaml
from tests.long.test_accept import COUNT, FAILED, AcceptTest

BIN = Path(sys.executable).parent
#: In an environment of its own: it needs clients of many services.
HEAT_PLUGIN = 'heat-tempest-plugin==3.0.0'
CONSTRAINTS = Path(__file__).parents[2] / 'etc' / 'constraints.txt'


class TempestTest(AcceptTest):
    """Begins with the tempest.conf that hvstack makes."""

    def setUp(self) -> None:
        super().setUp()
        self.publish()
        processutils.run(self.command('--dry-run'), timeout=300)
        self.conf = configparser.ConfigParser(interpolation=None)
        self.conf.read(Workspace(self.workspace).conf)

    def tempest(self, bin_dir: Path, regex: str) -> dict[str, int]:
        """Run tests and return how many went how.

        :param bin_dir: where the program ``tempest`` is.
        """
        work_dir = Path(self.useFixture(fixtures.TempDir()).path)
        path = work_dir / 'tempest.conf'
        # It has passwords.
        path.touch(0o600)
        with path.open('w') as file:
            self.conf.write(file)
        done = processutils.run(
            [
                # Tempest takes its cloud from the file alone.
                *('env', '-u', 'OS_CLOUD', str(bin_dir / 'tempest'), 'run'),
                *('--config-file', str(path), '--regex', regex),
                *('--concurrency', '2'),
            ],
            cwd=work_dir,
            timeout=900,
            check=False,
        )
        self.assertEqual([], FAILED.findall(done.stdout))
        self.assertEqual(0, done.returncode, done.stdout[-3000:])
        counts = {name: int(n) for name, n in COUNT.findall(done.stdout)}
        self.addDetail(regex, testtools.content.text_content(str(counts)))
        self.assertEqual(0, counts['Failed'])
        self.assertNotEqual(0, counts['Passed'])
        return counts

    def test_flavors(self) -> None:
        flavor = self.cloud.compute.create_flavor(
            name=self.name, vcpus=1, ram=128, disk=1
        )
        self.addCleanup(self.cloud.compute.delete_flavor, flavor)
        self.conf['compute']['flavor_ref'] = flavor.id
        counts = self.tempest(BIN, r'tempest\.api\.compute\.flavors')
        self.assertEqual(0, counts['Skipped'])

    def test_heat(self) -> None:
        plugin = paths.CACHE / HEAT_PLUGIN.replace('==', '-')
        processutils.run([BIN / 'uv', 'venv', '-q', '--clear', plugin])
        processutils.run(
            [
                *(BIN / 'uv', 'pip', 'install', '-q'),
                *('-p', plugin / 'bin' / 'python'),
                *('-c', CONSTRAINTS, HEAT_PLUGIN),
            ],
            timeout=900,
        )
        admin: dict[str, Any] = self.cloud.config.config['auth']
        tenant = connection.connect(clouds_yaml.MEMBER_CLOUD)
        # These tests leave some of their stacks.
        self.addCleanup(self.remove, tenant)
        member: dict[str, Any] = tenant.config.config['auth']
        self.conf['heat_plugin'] = {
            'auth_url': admin['auth_url'],
            'auth_version': '3',
            'region': self.conf['identity']['region'],
            'user_domain_name': member['user_domain_name'],
            'project_domain_name': member['project_domain_name'],
            'username': member['username'],
            'password': member['password'],
            'project_name': member['project_name'],
            'admin_username': admin['username'],
            'admin_password': admin['password'],
            'fixed_network_name': 'provider',
        }
        self.tempest(plugin / 'bin', r'heat_tempest_plugin\.tests\.api')

    def remove(self, tenant: Any) -> None:
        """Delete the stacks of Heat's own tests."""
        for stack in list(tenant.orchestration.stacks()):
            if stack.name.startswith('api-'):
                stacks.delete(tenant, stack.name)
