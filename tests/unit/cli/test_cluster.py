# SPDX-License-Identifier: Apache-2.0
"""``hvstack cluster environment``, as a tenant without other rights."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack.cli.app import main
from tests.unit.cli.test_host import CLOUDS_ENTRY
from tests.unit.cloud import fake
from tests.unit.cloud.test_quotas import NOVA, limits


def flavor(name: str, **specs: str) -> dict[str, Any]:
    """Return a flavor of Nova's."""
    return {
        'id': f'id-{name}',
        'name': name,
        'vcpus': 2,
        'ram': 4096,
        'disk': 20,
        'extra_specs': specs,
        'links': [],
    }


class ClusterTest(testtools.TestCase):
    """A cloud, and a file that names it."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.useFixture(fixtures.TempDir()).path)
        clouds = self.folder / 'clouds.yaml'
        clouds.write_text(yaml.safe_dump({'clouds': {'test': CLOUDS_ENTRY}}))
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', str(clouds))
        )
        self.cloud = self.useFixture(fake.FakeCloud())

    def run_main(self, *words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(('cluster', *words, '--os-cloud', 'test'))
        return status, out.getvalue(), err.getvalue()


class CreateTest(ClusterTest):
    def setUp(self) -> None:
        super().setUp()
        for name, value in (('HOST_PROFILE', 'vsphere6'), ('BACKEND', 'kvm')):
            self.useFixture(
                fixtures.EnvironmentVariable(f'OS_CLOUD__{name}', value)
            )

    def call(self, *words: str) -> tuple[int, str, str]:
        return self.run_main('create', 'mine', '--dry-run', *words)

    def test_dry_run(self) -> None:
        self.cloud.hosts(8)
        status, out, err = self.call(
            *('-f', 'json', '--configuration', 'i4', '--deployment', '4'),
            *('--controllers', 'separate', '--namenode-handlers', '1'),
        )
        self.assertEqual(0, status, err)
        shown = json.loads(out)
        # Of the two hosts with controllers no slot is counted.
        self.assertEqual(
            (12, 12), (shown['workers'], shown['compute_workers'])
        )
        self.assertEqual('separate', shown['controllers'])
        self.assertTrue(shown['secondary_namenode'])
        self.assertEqual(
            set(),
            {one.method for one in self.cloud.http.request_history}
            - {'GET', 'POST'},
        )

    def test_refusals(self) -> None:
        for hosts, part, *words in (
            (1, 'they need 2 hosts', '--controllers', 'separate'),
            (8, '9 workers cannot be', '--workers', '9'),
            (8, 'replication 8', '--replication', '8'),
            (8, 'deployment 3 needs 2', '--deployment', '3'),
            (8, '--namenode-handlers is 0', '--namenode-handlers', '0'),
            (
                *(8, 'leave --readiness out', '--readiness'),
                *('--controllers', 'separate'),
            ),
            (8, 'data disks of', '--configuration', 'i7-pinned'),
            (8, "'nfs' is unknown", '--configuration', 'i2-nfs'),
        ):
            self.cloud.hosts(hosts)
            status, out, err = self.call(*words)
            self.assertEqual((2, ''), (status, out), err)
            self.assertEqual(1, err.count('\n'), err)
            self.assertIn(part, err)


class EnvironmentTest(ClusterTest):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.http.get(f'{fake.NOVA}/limits', json=limits(NOVA))
        self.cloud.http.get(
            f'{fake.NOVA}/flavors/detail',
            json={
                'flavors': [
                    flavor('shared'),
                    flavor('own', **{'hw:cpu_policy': 'dedicated'}),
                ]
            },
        )

    def call(self, *words: str) -> tuple[int, str, str]:
        return self.run_main('environment', '--key-name', 'key', *words)

    def test_it_is_printed(self) -> None:
        status, out, err = self.call(
            *('--worker-flavor', 'shared', '--hosts', '3'),
            *('--configuration', 'i2', '--workers', '5'),
        )
        self.assertEqual((0, ''), (status, err))
        values = yaml.safe_load(out)['parameters']
        self.assertEqual('shared', values['worker_flavor'])
        self.assertEqual('shared', values['controller_flavor'])
        self.assertEqual((5, 2), (values['worker_count'], 2))
        self.assertIn('%CONTROLLER%', values['core_site'])
        self.assertIn('<value>3</value>', values['hdfs_site'])
        self.assertEqual(2, values['deployment'])
        self.assertEqual('vsphere6', values['os_profile'])

    def test_profiles(self) -> None:
        words = ('--worker-flavor', 'shared', '--hosts', '3')
        made = [
            yaml.safe_load(self.call(*words, *more)[1])['parameters']
            for more in ((), ('--tuning', 'vsan', '--os-profile', 'amd'))
        ]
        self.assertEqual(['hvstack', 'vsan'], [one['tuning'] for one in made])
        self.assertNotEqual(*(one['mapred_site'] for one in made))
        self.assertIn('os_profile=amd\n', made[1]['node_setup'])

    def test_handlers(self) -> None:
        words = ('--worker-flavor', 'shared', '--hosts', '2')
        _, out, _ = self.call(*words, '--namenode-handlers', '1')
        self.assertIn(
            'dfs.namenode.handler.count</name><value>1<',
            yaml.safe_load(out)['parameters']['hdfs_site'],
        )
        self.assertIn(
            '--namenode-handlers is 0',
            self.refused(*words, '--namenode-handlers', '0'),
        )

    def test_without_node_groups(self) -> None:
        words = ('--worker-flavor', 'shared', '--hosts', '2')
        _, out, _ = self.call(*words, '--no-node-groups')
        values = yaml.safe_load(out)['parameters']
        self.assertFalse(values['node_groups'])
        self.assertNotIn('WithNodeGroup', values['hdfs_site'])

    def test_gateway(self) -> None:
        words = ('--worker-flavor', 'shared', '--hosts', '3', '--gateway')
        values = yaml.safe_load(self.call(*words)[1])['parameters']
        self.assertEqual(
            (True, 2), (values['gateway'], values['worker_count'])
        )
        self.assertIn('take 1 to 2', self.refused(*words, '--workers', '3'))

    def test_readiness(self) -> None:
        words = ('--worker-flavor', 'shared', '--hosts', '2')
        for more in ((), ('--readiness',)):
            values = yaml.safe_load(self.call(*words, *more)[1])['parameters']
            self.assertIs(bool(more), values['readiness'])

    def test_it_is_written(self) -> None:
        path = self.folder / 'mine.yaml'
        status, out, err = self.call(
            *(str(path), '--worker-flavor', 'own', '--hosts', '2'),
            *('--configuration', 'i1-dedicated', '--controllers', 'separate'),
        )
        self.assertEqual((0, '', ''), (status, out, err))
        values = yaml.safe_load(path.read_text())['parameters']
        self.assertEqual('separate', values['controllers'])
        self.assertEqual('dedicated', values['cpu_policy'])

    def refused(self, *words: str) -> str:
        status, out, err = self.call(*words)
        self.assertEqual((2, ''), (status, out))
        self.assertEqual(1, err.count('\n'), err)
        return err

    def test_refusals(self) -> None:
        for part, *words in (
            ('31 workers cannot be', '--hosts', '8', '--workers', '31'),
            ('replication 4', '--hosts', '3', '--replication', '4'),
            ("no flavor 'no'", '--hosts', '3', '--worker-flavor', 'no'),
            ('--hosts is 0', '--hosts', '0'),
            ('not dedicated', '--hosts', '2', '--configuration', 'dedicated'),
            ("'nfs' is unknown", '--hosts', '2', '--configuration', 'i2-nfs'),
            ('quota too small', '--hosts', '9'),
            ('max_resources_per_stack', '--hosts', '300'),
            ('deployment 2 needs 2', '--hosts', '2', '--deployment', '2'),
            (
                *('leave --readiness out', '--hosts', '2', '--readiness'),
                *('--controllers', 'separate'),
            ),
            (
                *("flavor 'shared' is not dedicated", '--hosts', '2'),
                *('--configuration', 'dedicated', '--deployment', '3'),
                *('--compute-flavor', 'own'),
            ),
        ):
            if '--worker-flavor' not in words:
                words += ['--worker-flavor', 'shared']
            self.assertIn(part, self.refused(*words))
