# SPDX-License-Identifier: Apache-2.0
"""Clusters that fail: what is said of it, and that nothing is left.

The lab is up, with two hosts for workers.
"""

import json
from pathlib import Path

import fixtures
import yaml

from hvstack import conf, errors, processutils, share
from hvstack.cloud import journal, stacks
from hvstack.cluster import heat_environment
from hvstack.lab import clouds_yaml, identity, images
from hvstack.progress import Progress
from tests.functional import test_templates as templates
from tests.functional.test_cluster import HVSTACK, NAME, LabTest

#: No connection to a node is opened, so that hvstack never sees a worker.
UNREACHABLE = 'Host *\n    ProxyCommand false\n'


class FailureTest(LabTest):
    """A cluster that fails is taken back, at once or when it is asked for."""

    def hvstack(
        self, command: str, *args: str, **env: str
    ) -> processutils.Result:
        """Run a command for the cluster."""
        return processutils.run(
            [
                *(HVSTACK, 'cluster', command, NAME),
                *('--os-cloud', clouds_yaml.ADMIN_CLOUD, '-f', 'json', *args),
            ],
            env={f'OS_CLOUD__{name}': value for name, value in env.items()},
            timeout=1200,
            check=False,
        )

    def test_nothing_is_left(self) -> None:
        before, entries = self.list_resources(), journal.entries()
        # It is refused before anything is created.
        failed = self.hvstack('create', IMAGE='hv-no-such-image')
        self.assertNotEqual(0, failed.returncode)
        self.assertIn('hv-no-such-image', failed.stderr)
        self.assertEqual(before, self.list_resources())
        self.assertEqual(entries, journal.entries())

        # The stack is complete, with flavors and key pair, the cluster never.
        image = images.upload(
            identity.connect(), images.build('hadoop', Progress()), 'lxc'
        )
        config = Path(self.useFixture(fixtures.TempDir()).path) / 'ssh_config'
        config.write_text(UNREACHABLE)
        options = {
            'IMAGE': image,
            'READY_TIMEOUT': '30',
            'SSH_CONFIG': str(config),
        }
        self.addCleanup(self.hvstack, 'delete')
        failed = self.hvstack('create', **options)
        self.assertNotEqual(0, failed.returncode)
        self.assertIn('to see every worker', failed.stderr)
        self.assertEqual(before, self.list_resources())
        self.assertEqual(entries, journal.entries())

        failed = self.hvstack('create', '--no-rollback', **options)
        self.assertNotEqual(0, failed.returncode)
        self.assertIn('to see every worker', failed.stderr)
        output = json.loads(self.hvstack('show').stdout)
        self.assertEqual(2, len(output['workers']))
        done = self.hvstack('delete')
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(before, self.list_resources())
        self.assertEqual(entries, journal.entries())


class ResourceTest(templates.MemberTest):
    def test_what_failed_is_shown(self) -> None:
        """One worker on a host, and two hosts: a third one fails."""
        content = yaml.safe_load(self.environment().read_text())
        content['parameters']['worker_count'] = 3
        path = self.temp_dir / 'cluster.yaml'
        path.write_text(yaml.safe_dump(content))
        stack = stacks.create(
            self.tenant,
            templates.NAME,
            share.HEAT_TEMPLATES / heat_environment.TEMPLATE,
            {},
            [path],
            timeout=conf.load().cloud.stack_timeout,
        )
        error = self.assertRaises(
            errors.CloudError,
            stacks.wait,
            self.tenant,
            stack,
            timeout=conf.load().cloud.stack_timeout,
        )
        self.assertIn('server (OS::Nova::Server)', str(error))
        self.assertIn('No valid host', str(error))
