# SPDX-License-Identifier: Apache-2.0
from xml.etree import ElementTree

import testtools

from hvstack.hadoop import sites
from hvstack.hadoop.sizing import size_node


def properties(text: str) -> dict[str, str]:
    """Read a site file as Hadoop does."""
    root = ElementTree.fromstring(text)
    return {
        one.findtext('name', ''): one.findtext('value', '')
        for one in root.iter('property')
    }


class SitesTest(testtools.TestCase):
    def make(self, **more: object) -> dict[str, dict[str, str]]:
        made = sites.sites(size_node(2, 4096), **more)  # type: ignore
        return {name: properties(text) for name, text in made.items()}

    def test_files(self) -> None:
        self.assertEqual(
            {
                'core-site.xml',
                'hdfs-site.xml',
                'yarn-site.xml',
                'mapred-site.xml',
            },
            set(self.make()),
        )

    def test_controller_is_a_placeholder_unless_known(self) -> None:
        for given, expected in (
            ({}, '%CONTROLLER%'),
            ({'controller': '10.0.0.5'}, '10.0.0.5'),
        ):
            made = self.make(**given)
            self.assertEqual(
                f'hdfs://{expected}:8020',
                made['core-site.xml']['fs.defaultFS'],
            )
            self.assertEqual(
                expected,
                made['yarn-site.xml']['yarn.resourcemanager.hostname'],
            )

    def test_replication_holds_for_output_and_job_files(self) -> None:
        made = self.make(replication=2)
        self.assertEqual('2', made['hdfs-site.xml']['dfs.replication'])
        mapred = made['mapred-site.xml']
        self.assertEqual('2', mapred['mapreduce.terasort.output.replication'])
        self.assertEqual(
            '2', mapred['mapreduce.client.submit.file.replication']
        )

    def test_node_groups(self) -> None:
        with_groups = self.make(node_groups=True)
        without = self.make(node_groups=False)
        key = 'dfs.block.replicator.classname'
        self.assertIn('NodeGroup', with_groups['hdfs-site.xml'][key])
        self.assertNotIn(key, without['hdfs-site.xml'])
        self.assertIn('net.topology.impl', with_groups['core-site.xml'])
        self.assertNotIn('net.topology.impl', without['core-site.xml'])
        self.assertEqual(
            'false',
            with_groups['hdfs-site.xml']['dfs.use.dfs.network.topology'],
        )

    def test_table_has_an_absolute_path(self) -> None:
        core = self.make()['core-site.xml']
        self.assertEqual(
            '/etc/hadoop/topology.table', core['net.topology.table.file.name']
        )

    def test_every_jvm_is_told_its_processors(self) -> None:
        mapred = self.make()['mapred-site.xml']
        for name in (
            'mapreduce.map.java.opts',
            'mapreduce.reduce.java.opts',
            'yarn.app.mapreduce.am.command-opts',
        ):
            self.assertIn('-XX:ActiveProcessorCount=2', mapred[name])
        self.assertIn(
            'JAVA_PROCESSORS=2\n', sites.node_env(sites.WORKER_ROLES, 2)
        )

    def test_sizing_arrives(self) -> None:
        sizing = size_node(2, 4096)
        yarn = self.make()['yarn-site.xml']
        self.assertEqual(
            str(sizing.yarn_mib), yarn['yarn.nodemanager.resource.memory-mb']
        )
        mapred = self.make()['mapred-site.xml']
        self.assertEqual(
            str(sizing.container_mib), mapred['mapreduce.map.memory.mb']
        )

    def test_profile_changes_with_what_all_configurations_share(self) -> None:
        self.assertEqual(sites.profile(2), sites.profile(2))
        self.assertNotEqual(sites.profile(2), sites.profile(3))
