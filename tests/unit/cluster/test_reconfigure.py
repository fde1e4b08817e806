# SPDX-License-Identifier: Apache-2.0
"""Other settings of Hadoop on nodes that run."""

import testtools

from hvstack.cluster.reconfigure import reconfigure
from hvstack.hadoop import daemons, site_files
from hvstack.hadoop.sizing import size_node
from tests.unit.cluster.fake import FakeCluster


class ReconfigureTest(testtools.TestCase):
    def test_every_node_gets_the_files_between_stop_and_start(self) -> None:
        cluster = FakeCluster()
        nodes = [cluster.gateway, *cluster.workers]
        cluster.nodes = nodes  # type: ignore[attr-defined]
        cluster.gateway.files[site_files.TABLE] = ''.join(
            f'{node.address} /rack1/ng-{node.name}\n' for node in nodes
        )
        sized = size_node(14, 49152, tuning='vsphere6')
        reconfigure(
            cluster,  # type: ignore[arg-type]
            sized,
            replication=2,
            tuning='vsphere6',
        )
        files_by_name = site_files.render_site_files(
            sized, controller='10.0.0.1', replication=2, tuning='vsphere6'
        )
        for node in nodes:
            for name, text in files_by_name.items():
                self.assertEqual(text, node.files[f'/etc/hadoop/{name}'])
            self.assertIn(
                'HEAP_datanode=1300', node.files['/etc/hadoop/hadoop-env.sh']
            )
            stop, start = (
                node.commands.index(f'{daemons.NODE} {word}')
                for word in ('stop', 'start')
            )
            self.assertLess(stop, start)
        self.assertEqual('vsphere6', cluster.tuning)  # type: ignore[attr-defined]
