# SPDX-License-Identifier: Apache-2.0
"""``hvstack cluster environment``, as a tenant without other rights."""

import io
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


class EnvironmentTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.useFixture(fixtures.TempDir()).path)
        clouds = self.folder / 'clouds.yaml'
        clouds.write_text(yaml.safe_dump({'clouds': {'test': CLOUDS_ENTRY}}))
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', str(clouds))
        )
        self.cloud = self.useFixture(fake.FakeCloud())
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
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(
                (
                    *('cluster', 'environment', '--os-cloud', 'test'),
                    *('--key-name', 'key', *words),
                )
            )
        return status, out.getvalue(), err.getvalue()

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
            (
                *("flavor 'shared' is not dedicated", '--hosts', '2'),
                *('--configuration', 'dedicated', '--deployment', '3'),
                *('--compute-flavor', 'own'),
            ),
        ):
            if '--worker-flavor' not in words:
                words += ['--worker-flavor', 'shared']
            self.assertIn(part, self.refused(*words))
