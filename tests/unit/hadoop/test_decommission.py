# SPDX-License-Identifier: Apache-2.0
"""Workers that leave HDFS and YARN."""

import subprocess
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, shell_scripts
from hvstack.hadoop import decommission
from hvstack.hadoop.site_files import TABLE
from tests.unit.cluster.fake import FakeCluster

FILES = {
    'hdfs-site.xml': 'dfs.hosts.exclude',
    'yarn-site.xml': 'yarn.resourcemanager.nodes.exclude-path',
}


class DrainTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cluster = FakeCluster()
        self.gateway = self.cluster.gateway
        self.gateway.files[TABLE] = ''.join(
            f'{node.address} /r/g{node.name}\n'
            for node in self.cluster.workers
        )
        self.cluster.join()

    def drain(self, *drained_names: str) -> None:
        """Drain workers without patience."""
        workers = self.cluster.workers
        decommission.drain(
            self.cluster,
            [node for node in workers if node.name in drained_names],
            [node for node in workers if node.name not in drained_names],
            timeout=0,
        )

    def test_waits_for_both(self) -> None:
        failure = self.assertRaises(
            errors.DeadlineExceededError, self.drain, 'w1'
        )
        self.assertIn('w1 in HDFS (3 blocks to copy)', str(failure))
        self.assertIn('w1 in YARN (DECOMMISSIONING)', str(failure))
        self.assertNotIn('w0', str(failure))
        self.assertEqual(
            {'10.0.0.3'}, decommission.read_excluded(self.gateway)
        )

    def test_drained(self) -> None:
        self.cluster.states['10.0.0.3'] = 'DECOMMISSIONED'
        self.drain('w1')

    def test_a_dead_one_is_not_waited_for(self) -> None:
        self.cluster.workers[1].answers = False
        self.drain('w1')

    def test_but_what_only_it_had_is(self) -> None:
        self.cluster.workers[1].answers = False
        self.cluster.missing = 2
        failure = self.assertRaises(errors.RunFailedError, self.drain, 'w1')
        self.assertIn('misses 2 blocks', str(failure))

    def test_a_namenode_that_has_just_started(self) -> None:
        """It knows no DataNode, and no missing block, in safe mode."""
        for worker in self.cluster.workers:
            worker.answers = False
        self.cluster.safe_mode = 'Safe mode is ON.'
        failure = self.assertRaises(
            errors.DeadlineExceededError, self.drain, 'w1'
        )
        self.assertIn('still HDFS in safe mode', str(failure))
        self.cluster.safe_mode = ''
        self.drain('w1')

    def test_who_stays_comes_back(self) -> None:
        """Only what is of no worker any more stays excluded."""
        self.gateway.files[decommission.EXCLUDE_FILE] = '10.0.0.2\n10.9.9.9\n'
        self.cluster.states['10.0.0.3'] = 'DECOMMISSIONED'
        self.drain('w1')
        self.assertEqual(
            {'10.0.0.3', '10.9.9.9'}, decommission.read_excluded(self.gateway)
        )

    def test_nobody(self) -> None:
        self.assertEqual(set(), decommission.read_excluded(self.gateway))


class SetupTest(testtools.TestCase):
    """The script that both daemons' files are changed by, run on copies."""

    def test_once(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        script = shell_scripts.render(
            'exclude-file', directory / 'excluded', directory
        )
        for name in FILES:
            (directory / name).write_text(
                '<configuration>\n<property><name>a</name></property>\n'
                '</configuration>\n'
            )
        for _ in range(2):
            subprocess.run(['sh', '-c', script], check=True)
        for name, key in FILES.items():
            text = (directory / name).read_text()
            self.assertEqual(1, text.count(key))
            self.assertIn(f'<value>{directory}/excluded</value>', text)
            self.assertTrue(text.endswith('</configuration>\n'))
        self.assertTrue((directory / 'excluded').exists())


class ComputeClusterTest(testtools.TestCase):
    """The HDFS of another cluster is left alone."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster = FakeCluster(
            shared=True, missing=2, safe_mode='Safe mode is ON.'
        )
        self.cluster.join()

    def test_drained(self) -> None:
        gateway, manager = self.cluster.gateway, self.cluster.manager
        gateway.files[decommission.EXCLUDE_FILE] = '10.0.0.77\n'
        self.cluster.states['10.0.0.3'] = 'DECOMMISSIONED'
        decommission.drain(
            self.cluster,
            self.cluster.workers[1:2],
            self.cluster.workers[::2],
            timeout=0,
        )
        self.assertEqual({'10.0.0.3'}, decommission.read_excluded(manager))
        self.assertEqual({'10.0.0.77'}, decommission.read_excluded(gateway))
        self.assertFalse(
            any('refreshNodes' in command for command in gateway.commands)
        )

    def test_who_was_excluded_stays_so(self) -> None:
        manager = self.cluster.manager
        manager.files[decommission.EXCLUDE_FILE] = '10.0.0.88\n'
        self.cluster.states['10.0.0.3'] = 'DECOMMISSIONED'
        decommission.drain(
            self.cluster, self.cluster.workers[1:2], [], timeout=0
        )
        self.assertEqual(
            {'10.0.0.3', '10.0.0.88'}, decommission.read_excluded(manager)
        )


class ExcludeTest(testtools.TestCase):
    def test_both_daemons_are_told(self) -> None:
        for separate in (False, True):
            cluster = FakeCluster(separate=separate)
            decommission.exclude_nodes(cluster, ['10.0.0.9', '10.0.0.3'], 60)
            hdfs, yarn = 'dfsadmin -refreshNodes', '-refreshNodes -g 60'
            for node, command in (
                (cluster.gateway, hdfs),
                (cluster.manager, yarn),
            ):
                self.assertEqual(
                    '10.0.0.3\n10.0.0.9\n',
                    node.files[decommission.EXCLUDE_FILE],
                )
                self.assertEqual(
                    1,
                    sum(
                        command in executed_command
                        for executed_command in node.commands
                    ),
                )
