# SPDX-License-Identifier: Apache-2.0
"""Destroying a lab keeps what is needed to undo changes on another cloud."""

import os
import subprocess
import sys
from pathlib import Path

import fixtures

from hvstack.lab import clouds_yaml
from tests.functional.test_hosts import HostsTest

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
#: A process that makes a flavor, and ends before it can undo that.
_CREATE = """
import os
from hvstack.cloud import cluster_flavors, connection, journal
conn = connection.connect('{cloud}')
data = {{'name': '{name}', 'id': '{name}'}}
journal.note(cluster_flavors.KIND, data, connection.scope(conn))
conn.compute.create_flavor(**data, ram=64, vcpus=1, disk=0)
os._exit(9)
"""


class DestroyTest(HostsTest):
    """The tests' lab is the other cloud of a second state directory."""

    def setUp(self) -> None:
        super().setUp()
        self.state = Path(self.useFixture(fixtures.TempDir()).path) / 'state'
        self.env = {**os.environ, 'HVSTACK_STATE_DIR': str(self.state)}

    def hvstack(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [HVSTACK, *args],
            env=self.env,
            check=False,
            capture_output=True,
            text=True,
        )

    def test_changes_of_another_cloud(self) -> None:
        name = 'hv-destroy-test'
        cloud = clouds_yaml.ADMIN_CLOUD
        subprocess.run(
            [sys.executable, '-c', _CREATE.format(cloud=cloud, name=name)],
            env=self.env,
            check=False,
        )
        self.assertIsNotNone(self.cloud.compute.find_flavor(name))
        self.addCleanup(self.cloud.compute.delete_flavor, name)
        files = sorted(self.state.rglob('*'))
        destroy = ('lab', 'destroy', '--keep-cache')

        done = self.hvstack(*destroy, '--records')
        self.assertEqual(2, done.returncode, done)
        self.assertIn(f"names the flavor '{name}' of another", done.stderr)
        self.assertEqual(files, sorted(self.state.rglob('*')))

        done = self.hvstack(*destroy)
        self.assertEqual(0, done.returncode, done)
        self.assertIn(f'records that stay in {self.state}', done.stdout)
        self.assertEqual(files, sorted(self.state.rglob('*')))

        done = self.hvstack('sweep', 'recover', '--os-cloud', cloud)
        self.assertEqual(f'restored: flavor {name}\n', done.stdout, done)
        self.assertIsNone(self.cloud.compute.find_flavor(name))

        done = self.hvstack(*destroy, '--records')
        self.assertEqual(0, done.returncode, done)
        self.assertFalse(self.state.exists())
