# SPDX-License-Identifier: Apache-2.0
"""NameNode and ResourceManager on two hosts, compute beside data workers.

The lab is up. It becomes one of four lxc hosts, two of them for controllers,
and what it was before at the end.
"""

from typing import Any

from hvstack.cloud import journal, keypairs
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemons
from hvstack.tpcxhs import run as tpcxhs
from hvstack.tpcxhs.workload import Workload
from tests.long.biglab import BigLabTest


class SeparateTest(BigLabTest):
    NAME = 'hv-test-separate'
    HOSTS = 4
    CONTROLLERS = 2
    MEMORY_MIB = 3584
    CPU_CAP = 1.0
    REPLICATION = 2

    def created(self, *args: str) -> tuple[StackCluster, dict[str, Any]]:
        """Create a cluster with two controllers, and look at these."""
        entries = journal.entries()
        outputs = self.admin(
            'create',
            '--configuration',
            'i2',
            '--controllers',
            'separate',
            *args,
        )

        def delete() -> None:
            if journal.entries() != entries:
                self.admin('delete')

        self.addCleanup(delete)
        hosts = {
            self.host_of(outputs[name]['server_id'])
            for name in ('controller', 'resourcemanager')
        }
        self.assertEqual({'hv-host1', 'hv-host2'}, hosts)
        self.assertEqual([], self.done('topology', '--check'))
        return self.opened(outputs), outputs

    def opened(self, outputs: dict[str, Any]) -> StackCluster:
        """Return the cluster of these outputs."""
        cluster = StackCluster.from_outputs(
            outputs,
            SSHAccess(keypairs.DIRECTORY / self.NAME),
            name=self.NAME,
            processors=1,
        )
        self.addCleanup(cluster.close)
        return cluster

    def check_secondary(self, cluster: StackCluster) -> None:
        """Check that the first data worker runs the SecondaryNameNode."""
        node, *others = [
            worker for worker in cluster.workers if worker.role == 'data'
        ]
        status = f'{daemons.NODE} status secondarynamenode'
        self.assertIn('running', node.run(status).stdout)
        for worker in others:
            self.assertIn('dead', worker.run(status, check=False).stdout)

    def sort(self, cluster: StackCluster) -> None:
        """Sort a little, validated."""
        run_result = tpcxhs.run(cluster, Workload(10_000_000, 2, 2, 2))
        self.assertEqual('', run_result.reason)
        self.assertEqual(0, run_result.observations['blocks_on_one_host'])

    def delete_cluster(self) -> None:
        """Delete the cluster; nothing of it is left."""
        self.admin('delete')
        self.assertEqual([], list(self.member.compute.servers()))
        self.assertEqual([], list(self.member.orchestration.stacks()))

    def test_workers_come_and_go(self) -> None:
        cluster, outputs = self.created()
        self.assertEqual(4, len(outputs['workers']))
        self.sort(cluster)
        for count in (3, 4):
            after = self.done('scale', '--workers', str(count))
            self.assertEqual(count, len(after['workers_now']))
            self.assertEqual([], self.done('topology', '--check'))
        self.until(lambda: self.whole(cluster), 'all replicas')
        self.sort(self.opened(self.admin('show')))
        self.delete_cluster()

    def test_compute_beside_data_workers(self) -> None:
        """Deployment 3: one data and one compute worker on each host."""
        cluster, outputs = self.created(
            '--deployment', '3', '--secondary-namenode'
        )
        for name in ('workers', 'compute'):
            hosts = [
                self.host_of(worker['server_id']) for worker in outputs[name]
            ]
            self.assertEqual(['hv-host3', 'hv-host4'], sorted(hosts), name)
        self.assertEqual(2, self.live(cluster))
        nodes = cluster.gateway.run('yarn node -list').stdout
        for worker in outputs['compute']:
            self.assertIn(f'{worker["address"]}:', nodes)
        for worker in outputs['workers']:
            self.assertNotIn(f'{worker["address"]}:', nodes)
        self.sort(cluster)
        self.check_secondary(cluster)
        self.delete_cluster()
