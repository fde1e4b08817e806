# SPDX-License-Identifier: Apache-2.0
"""Compute workers leave and join a cluster while jobs run.

HVE paper, options 3 and 4: compute workers have a life of their own, because
they store no blocks.
"""

import threading

from hvstack import processutils
from hvstack.cloud import journal, keypairs
from hvstack.cluster import topology_refresh
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemon_http, master_node
from tests.long.biglab import BigLabTest

EXAMPLES = 'hadoop jar /opt/hadoop/lib/hadoop-mapreduce-examples-*.jar'
#: 200 MB, of which each map sorts 5 MB.
ROWS, SPLIT = 2_000_000, 5_000_000


class ElasticTest(BigLabTest):
    NAME = 'hv-test-elastic'
    HOSTS = 3
    MEMORY_MIB = 4096
    CPU_CAP = 1.0
    REPLICATION = 2

    def create_deployment_3(self) -> StackCluster:
        """Create two data workers and two compute workers on two hosts."""
        entries = journal.entries()
        outputs = self.admin(
            'create', '--configuration', 'i2', '--deployment', '3'
        )

        def delete() -> None:
            if journal.entries() != entries:
                self.admin('delete')

        self.addCleanup(delete)
        cluster = StackCluster.from_outputs(
            outputs,
            SSHAccess(keypairs.DIRECTORY / self.NAME),
            name=self.NAME,
            processors=1,
        )
        self.addCleanup(cluster.close)
        return cluster

    def start_sort(self, output: str) -> threading.Thread:
        """Start a job of forty maps, and wait until it runs."""
        gateway = self.cluster.gateway

        def sort() -> None:
            self.results.append(
                gateway.run(
                    f'{EXAMPLES} terasort -Dmapreduce.job.reduces=2 '
                    '-Dmapreduce.input.fileinputformat.split.maxsize='
                    f'{SPLIT} /in {output}',
                    timeout=1200,
                    check=False,
                )
            )

        self.results: list[processutils.Result] = []
        thread = threading.Thread(target=sort)
        thread.start()
        self.until(
            lambda: topology_refresh.running_jobs(gateway) == 1, 'the job', 120
        )
        return thread

    def count_containers(self) -> dict[str, int]:
        """Return the number of containers of the workers, by their names."""
        answer = daemon_http.get_json(
            self.cluster.manager, 'resourcemanager', '/ws/v1/cluster/nodes'
        )
        return {
            node['nodeHostName']: int(node['numContainers'])
            for node in answer['nodes']['node']
            if node['state'] == 'RUNNING' and not master_node.has_label(node)
        }

    def check_sorted(self, thread: threading.Thread, output: str) -> None:
        """Wait for the job, and validate what it wrote."""
        thread.join(1200)
        (result,) = self.results
        self.assertEqual(0, result.returncode, result.stderr[-2000:])
        report = f'{output}-report'
        gateway = self.cluster.gateway
        gateway.run(f'{EXAMPLES} teravalidate {output} {report}', timeout=600)
        lines = gateway.run(f"hdfs dfs -cat '{report}/part*'").stdout
        self.assertEqual(1, len(lines.strip().splitlines()), lines)

    def test_compute_workers_leave_and_join(self) -> None:
        self.cluster = cluster = self.create_deployment_3()
        cluster.gateway.run(
            f'{EXAMPLES} teragen -Dmapreduce.job.maps=2 {ROWS} /in',
            timeout=600,
        )
        self.assertEqual(2, len(self.count_containers()))
        servers, scripts = self.server_ids(), self.script_ids()
        self.assertEqual(['compute_script', 'worker_script'], sorted(scripts))

        # The job needs what ran on the compute worker, which remains for it.
        thread = self.start_sort('/out1')
        output = self.done('scale', '--compute-workers', '1')
        self.check_sorted(thread, '/out1')
        (removed,) = output['removed']
        self.assertEqual(
            (2, 1), (output['workers'], output['compute_workers'])
        )
        self.assertNotIn(removed, output['workers_now'])
        self.check_kept(servers, scripts)
        self.assertEqual(3, len(output['workers_now']))
        self.assertEqual(1, len(self.count_containers()))
        # HDFS has copied nothing, and misses nothing.
        self.assertEqual(2, self.live(cluster))
        self.assertTrue(self.whole(cluster), self.fsck(cluster))
        self.assertEqual([], self.done('topology', '--check'))

        # A compute worker that joins gets containers of the job that runs.
        thread = self.start_sort('/out2')
        before = set(self.count_containers())
        output = self.done('scale', '--compute-workers', '2')
        self.assertEqual(4, len(output['workers_now']))
        self.assertEqual(1, topology_refresh.running_jobs(cluster.gateway))
        self.until(
            lambda: any(
                count and name not in before
                for name, count in self.count_containers().items()
            ),
            'a container on the new compute worker',
            120,
        )
        self.check_sorted(thread, '/out2')
        self.check_kept(servers, scripts)
        self.assertEqual([], self.done('topology', '--check'))

        self.admin('delete')
        self.assertEqual([], list(self.member.compute.servers()))
