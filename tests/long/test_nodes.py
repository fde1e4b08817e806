# SPDX-License-Identifier: Apache-2.0
"""Nodes on the lab: what is in force there, and what a reboot leaves."""

from hvstack import errors, processutils
from hvstack.cloud import undo
from hvstack.cluster import bare_metal, effective_settings, launch, planner
from hvstack.cluster.base import Cluster
from hvstack.cluster.plan import ClusterSpec
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemons, site_files
from hvstack.lab import identity, images
from hvstack.model.configuration import parse
from hvstack.progress import Progress
from hvstack.tpcxhs import run as tpcxhs
from hvstack.tpcxhs.result import RunResult
from hvstack.tpcxhs.workload import Workload
from tests.functional.test_cluster import LabTest
from tests.unit.hadoop.test_site_files import parse_properties

NAME = 'hv-test-nodes'
TUNING = 'vsan'
#: Of THP and the kernel's own values no container is master.
KERNELS = "thp.enabled=madvise: the kernel is the host's"


class NodesTest(LabTest):
    def check_limits(self, cluster: Cluster) -> None:
        """Check that the daemons have the limits of the OS profile.

        A limit above this machine's own is refused in containers.
        """
        refused = effective_settings.os_state(cluster.nodes).not_set
        if any(setting.startswith('limit.nofile') for setting in refused):
            return
        for node in cluster.nodes:
            for pid in node.run('cat /run/hadoop/*.pid').stdout.splitlines():
                limits = node.run(f'cat /proc/{pid.split()[0]}/limits').stdout
                self.assertRegex(limits, r'Max open files +32768 +32768')

    def check_in_force(
        self,
        cluster: Cluster,
        run_result: RunResult,
        files: dict[str, str],
    ) -> None:
        """Check that the daemons and the job use the tuning profile."""
        self.assertEqual('', run_result.reason)
        self.assertEqual(TUNING, run_result.sut['tuning'])
        self.assertEqual('vsphere6', run_result.sut['os_profile'])
        self.assertIn(KERNELS, run_result.observations['os_not_set'])
        reported = run_result.observations['parameters']
        self.assertNotIn('unread', reported)
        own = ('%ADDRESS%', '%HOSTNAME%', '%CONTROLLER%')
        for name, readers in (
            ('hdfs-site.xml', ('namenode', 'datanode')),
            ('yarn-site.xml', ('resourcemanager', 'nodemanager')),
            ('mapred-site.xml', ('job',)),
        ):
            for key, value in parse_properties(files[name]).items():
                # A run names its own.
                if any(mark in value for mark in own) or 'blocksize' in key:
                    continue
                for reader in readers:
                    self.assertEqual(
                        value, reported[reader].get(key), (reader, key)
                    )

    def test_a_tuned_cluster_and_its_reboot(self) -> None:
        image = images.build('hadoop', Progress())
        images.upload(identity.connect(), image, 'lxc')
        plan = planner.plan_cluster(
            self.conn, ClusterSpec(parse('i1'), tuning=TUNING), self.options
        )
        ids = launch.publish(
            self.conn, plan, [str(self.conn.current_project_id)]
        )
        cluster, outputs = launch.launch(
            self.conn, self.conn, plan, ids, NAME, self.options
        )
        self.addCleanup(cluster.close)
        self.check_limits(cluster)
        run_result = tpcxhs.run(cluster, Workload(10_000_000, 2, 2, 2))
        files = site_files.render_site_files(
            plan.sizing, replication=plan.nodes.replication, tuning=TUNING
        )
        self.check_in_force(cluster, run_result, files)
        self.check_reboot(cluster, outputs['workers'][0]['server_id'])
        cluster.close()
        undo.undo_own([self.conn])

    def check_reboot(self, cluster: StackCluster, server_id: str) -> None:
        """DataNode and NodeManager come back by themselves."""
        worker = cluster.workers[0]
        before = worker.run('cat /run/hadoop/*.pid').stdout
        self.conn.compute.reboot_server(server_id, 'SOFT')

        def back() -> bool:
            try:
                after = worker.run('cat /run/hadoop/*.pid', timeout=10)
            except errors.HVStackError:
                return False
            return after.stdout != before and not daemons.find_dead_daemons(
                [worker]
            )

        processutils.wait_for(
            back, 'the worker to be back', timeout=180, interval=2
        )
        daemons.wait_ready(cluster, 180)
        self.assertEqual(
            'vsphere6', effective_settings.os_state([worker]).profile
        )
        self.check_limits(cluster)


class BareTest(LabTest):
    def test_bare_metal_is_set_up_alike(self) -> None:
        thp = 'cat /sys/kernel/mm/transparent_hugepage/enabled'
        before = processutils.run(['sh', '-c', thp]).stdout
        bare_hosts = bare_metal.BareHosts.from_file(tuning=TUNING)
        with bare_hosts as cluster:
            system = effective_settings.os_state(cluster.nodes)
            self.assertEqual('vsphere6', system.profile)
            self.assertIn(KERNELS, system.not_set)
            self.assertEqual(
                before, cluster.workers[0].run(thp).stdout, 'the machine'
            )
            properties = effective_settings.parameters(cluster, 'job_1_0001')
            self.assertEqual(
                str(cluster.replication),
                properties['datanode']['dfs.replication'],
            )
            self.assertEqual(
                'true',
                properties['datanode']['dfs.client.use.datanode.hostname'],
            )
