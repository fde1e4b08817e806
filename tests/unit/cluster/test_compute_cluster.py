# SPDX-License-Identifier: Apache-2.0
"""The plan of a compute cluster on the HDFS of a cluster that exists."""

from dataclasses import replace

from hvstack import errors
from hvstack.cluster import compute_cluster, heat_environment
from hvstack.cluster.plan import ClusterDisks, ClusterSpec
from hvstack.hadoop.hdfs_heaps import HDFSHeaps
from hvstack.model.configuration import parse
from tests.unit.cluster.test_launch import vsan_plan
from tests.unit.cluster.test_shared_hdfs import HDFS, SharedHDFSTest
from tests.unit.hadoop.test_site_files import parse_properties


class PlanTest(SharedHDFSTest):
    def setUp(self) -> None:
        super().setUp()
        plan = vsan_plan(
            ClusterSpec(parse('i4'), deployment=3, controllers='separate')
        )
        self.first = replace(
            plan,
            nodes=replace(
                plan.nodes, workers=2, compute_workers=4, compute_per_host=2
            ),
            disks=ClusterDisks((('ssd',),), 10),
            sizing=replace(
                plan.sizing, hdfs_heaps=HDFSHeaps(*(2048, 512, 2048))
            ),
            secondary_namenode=True,
        )

    def test_the_second_cluster(self) -> None:
        plan = compute_cluster.plan_on_hdfs(self.conn, self.first, 'first', 3)
        self.assertEqual(HDFS, plan.hdfs)
        self.assertEqual(1, plan.spec.controller_count)
        values = heat_environment.parameters(plan)
        for name, expected in {
            'hdfs_stack': 's1',
            'hdfs_address': '10.0.0.1',
            'hdfs_security_group': 'g1',
            'image': 'hvstack-hadoop',
            'network': 'provider',
            # The key pair of the first cluster.
            'key_name': 'first',
            'compute_count': 3,
            'compute_per_host': 2,
            'controllers_first': True,
            'secondary_namenode': False,
            'volume_types': [[]],
        }.items():
            self.assertEqual(expected, values[name], name)
        self.assertNotIn('worker_count', values)
        first = heat_environment.parameters(self.first)
        # Tasks have the same settings on both clusters.
        first_site, site = (
            parse_properties(str(item['mapred_site']))
            for item in (first, values)
        )
        self.assertEqual(
            {'yarn.app.mapreduce.am.staging-dir'}, site.keys() - first_site
        )
        self.assertLessEqual(first_site.items(), site.items())
        # It has no NameNode, whose heap is that of the blocks.
        self.assertIn('2048', str(first['hadoop_env']))
        self.assertNotIn('2048', str(values['hadoop_env']))

    def test_a_stack_without_node_groups(self) -> None:
        plan = replace(self.first, node_groups=False)
        self.assertRaises(
            errors.InputError,
            compute_cluster.plan_on_hdfs,
            *(self.conn, plan, 'first', 1),
        )
