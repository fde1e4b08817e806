# SPDX-License-Identifier: Apache-2.0
"""A worker host loses its power under HDFS and comes back. The lab is up."""

import sys
from collections.abc import Callable
from pathlib import Path

from hvstack import processutils
from hvstack.cloud import undo
from hvstack.cluster import launch, planner
from hvstack.cluster.plan import ClusterSpec
from hvstack.hadoop import daemon_http, fsck
from hvstack.hadoop.sizing import LAB
from hvstack.lab import identity, images
from hvstack.model.configuration import parse
from tests.functional.test_cluster import LabTest
from tests.long import labs

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
NAME = 'hv-test-failure'
REPLICATION = 2
#: Four workers' hosts would need more cores than a small machine has.
HOSTS = 4


class HostFailureTest(LabTest):
    def setUp(self) -> None:
        super().setUp()
        labs.change(self, hosts=HOSTS)
        self.addCleanup(undo.undo_own, [self.conn])
        images.upload(identity.connect(), images.build('hadoop'), 'lxc')
        plan = planner.plan_cluster(
            self.conn,
            ClusterSpec(parse('i1'), replication=REPLICATION, tuning=LAB),
            self.options,
        )
        self.assertEqual(HOSTS - 1, plan.nodes.workers)
        project = str(self.conn.current_project_id)
        self.cluster, self.outputs = launch.launch(
            self.conn,
            self.conn,
            plan,
            launch.publish(self.conn, plan, [project]),
            NAME,
            self.options,
        )
        self.addCleanup(self.cluster.close)

    def lab(self, *args: str) -> None:
        processutils.run([HVSTACK, 'lab', *args], timeout=600)

    def until(
        self,
        condition: Callable[[], bool],
        description: str,
        timeout: float = 180,
    ) -> None:
        processutils.wait_for(
            condition, description, timeout=timeout, interval=3
        )

    def live(self) -> int:
        """Return the number of DataNodes that the NameNode hears."""
        state = daemon_http.get_namenode_bean(
            self.cluster.gateway, 'FSNamesystemState'
        )
        return int(state['NumLiveDataNodes'])

    def holds(self, address: str) -> bool:
        """Tell whether a DataNode has a replica of the files.

        HDFS no longer counts a dead one before it lets go of its replicas.
        """
        return any(
            address in block.addresses
            for file in fsck.run(self.cluster.gateway, '/data')
            for block in file.blocks
        )

    def whole(self) -> bool:
        """Tell whether all blocks have all their replicas."""
        text = self.cluster.gateway.run('hdfs fsck /data', check=False).stdout
        return (
            'Status: HEALTHY' in text
            and 'Under-replicated blocks:\t0 ' in text
        )

    def test_power_cut(self) -> None:
        gateway = self.cluster.gateway
        gateway.run(
            'set -e; hdfs dfs -mkdir /data; for number in 1 2 3 4 5 6; do '
            'head -c 8000000 /dev/urandom >/tmp/$number; done; '
            'hdfs dfs -put /tmp/[1-6] /data; cat /tmp/[1-6] | md5sum >/tmp/sum'
        )
        self.assertTrue(self.whole())
        worker = self.outputs['workers'][0]
        server_id = worker['server_id']
        self.assertTrue(self.holds(worker['address']))
        victim = self.conn.compute.get_server(server_id).hypervisor_hostname
        self.lab('host', 'off', victim)

        def states() -> dict[str, str]:
            return {
                service.host: service.state
                for service in self.conn.compute.services(
                    binary='nova-compute'
                )
                if service.host.startswith('hv-host')
            }

        self.until(lambda: states()[victim] == 'down', 'Nova to say down')
        self.until(lambda: not self.holds(worker['address']), 'HDFS to notice')
        self.assertEqual(HOSTS - 2, self.live())
        self.until(self.whole, 'the blocks to be copied')
        for name, state in states().items():
            self.assertEqual('down' if name == victim else 'up', state, name)
        gateway.run('hdfs dfs -cat "/data/*" | md5sum | cmp - /tmp/sum')

        self.lab('host', 'on', victim)
        self.until(lambda: states()[victim] == 'up', 'Nova to say up')
        self.until(
            lambda: self.conn.compute.get_server(server_id).status == 'ACTIVE',
            'the worker to be active',
        )
        self.until(lambda: self.live() == HOSTS - 1, 'its DataNode')
        self.assertTrue(self.whole())
