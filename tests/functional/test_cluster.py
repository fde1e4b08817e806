# SPDX-License-Identifier: Apache-2.0
"""A cluster on the lab: created, sorted on, deleted without a trace."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import testtools

from hvstack import conf, errors, host_profiles, processutils
from hvstack.cloud import (
    allocation_ratios,
    connection,
    host_keys,
    journal,
    keypairs,
    placement,
    undo,
)
from hvstack.cluster import launch, planner
from hvstack.cluster.plan import ClusterPlan, ClusterSpec
from hvstack.cluster.ssh import SSHNode
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop.sizing import LAB
from hvstack.lab import clouds_yaml, identity, images
from hvstack.model.configuration import parse
from hvstack.progress import Progress
from hvstack.sweep import recovery
from hvstack.tpcxhs import run as tpcxhs
from hvstack.tpcxhs.workload import Workload

NAME = 'hv-test-cluster'
HVSTACK = str(Path(sys.executable).with_name('hvstack'))
HOST_KEY = '/etc/ssh/ssh_host_ed25519_key'
#: Sets ratios and dies without any clean-up, as the kernel would have it.
KILLED = """
import os, signal
from hvstack.cloud import allocation_ratios, connection, placement
conn = connection.connect('hvstack-lab')
hosts = placement.providers(conn, 'CUSTOM_HVSTACK_LAB_WORKER')
allocation_ratios.set_ratios(conn, hosts, {'VCPU': 2.0, 'MEMORY_MB': 1.2})
os.kill(os.getpid(), signal.SIGKILL)
"""


class LabTest(testtools.TestCase):
    """What these tests share: the lab's administrator."""

    conn: ClassVar[Any]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if os.environ.get('HVSTACK_LAB'):
            cls.conn = connection.connect(clouds_yaml.ADMIN_CLOUD)

    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs the lab (make test)')
        recovery.recover([self.conn])
        self.addCleanup(undo.undo_own, [self.conn])
        self.options = conf.load().cloud

    def launch(self, spec: ClusterSpec, name: str) -> StackCluster:
        """Create a cluster with flavors of its own, until the test ends."""
        plan = planner.plan_cluster(self.conn, spec, self.options)
        project = str(self.conn.current_project_id)
        ids = launch.publish(self.conn, plan, [project])
        cluster, _ = launch.launch(
            self.conn, self.conn, plan, ids, name, self.options
        )
        self.addCleanup(cluster.close)
        return cluster

    def list_resources(self) -> dict[str, set[str]]:
        """Return the resources on the cloud by kind."""
        return {
            'stacks': {
                resource.name for resource in self.conn.orchestration.stacks()
            },
            'servers': {
                resource.name for resource in self.conn.compute.servers()
            },
            'flavors': {
                resource.name
                for resource in self.conn.compute.flavors(is_public=None)
            },
            'keys': {
                resource.name for resource in self.conn.compute.keypairs()
            },
        }

    def workers(self) -> dict[str, str]:
        return placement.providers(self.conn, 'CUSTOM_HVSTACK_LAB_WORKER')


class ClusterTest(LabTest):
    def test_cluster(self) -> None:
        image = images.build('hadoop', Progress())
        images.upload(identity.connect(), image, 'lxc')
        plan = planner.plan_cluster(
            self.conn, ClusterSpec(parse('i1'), tuning=LAB), self.options
        )
        self.assertEqual(2, plan.nodes.workers)
        project = str(self.conn.current_project_id)
        before = self.list_resources()
        ids = launch.publish(self.conn, plan, [project])
        cluster, outputs = launch.launch(
            self.conn, self.conn, plan, ids, NAME, self.options
        )
        self.addCleanup(cluster.close)
        self.check_topology(cluster, outputs)
        self.check_seen(cluster, plan)
        run_result = tpcxhs.run(cluster, Workload(10_000_000, 2, 2, 2))
        self.assertEqual('', run_result.reason)
        self.assertGreater(run_result.rate, 0)
        self.assertEqual(0, run_result.observations['blocks_on_one_host'])
        self.check_host_keys(cluster)
        undo.undo_own([self.conn])
        self.assertEqual(before, self.list_resources())
        self.assertEqual([], journal.own())
        self.assertFalse((keypairs.DIRECTORY / NAME).exists())
        self.assertFalse(host_keys.file_of(NAME).exists())

    def check_host_keys(self, cluster: StackCluster) -> None:
        """Nodes have the keys that were recorded; another key is refused."""
        path = host_keys.file_of(NAME)
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        recorded = {}
        for line in path.read_text().splitlines()[1:]:
            address, *key, _, name = line.split()
            recorded[name, address] = key
        self.assertEqual(
            {
                (node.name, node.address): node.run(
                    f'cat {HOST_KEY}.pub'
                ).stdout.split()[:2]
                for node in cluster.nodes
            },
            recorded,
        )
        node = cluster.workers[-1]
        assert isinstance(node, SSHNode)
        self.assertIn('StrictHostKeyChecking=yes', node.options())
        # sshd starts again with the new key.
        node.run(
            f'rm {HOST_KEY} && ssh-keygen -q -t ed25519 -N "" -f {HOST_KEY} '
            '&& kill $(cat /run/sshd.pid)'
        )
        node.close()
        error = self.assertRaises(
            errors.HostKeyError,
            processutils.wait_for,
            lambda: node.run('true').returncode == 0,
            'sshd to start again',
            timeout=30,
        )
        expected = (
            f'Cannot connect to {node.name} ({node.address}): its ssh host '
            f'key is not the one in {path}. Replace the node'
        )
        self.assertIn(expected, str(error))
        done = processutils.run(
            [HVSTACK, 'cluster', 'topology', NAME, '--check'], check=False
        )
        self.assertEqual(errors.HostKeyError.exit_code, done.returncode)
        self.assertIn(expected, done.stderr)

    def check_topology(
        self, cluster: StackCluster, outputs: dict[str, Any]
    ) -> None:
        """Node groups that HDFS has are the hosts that Nova names."""
        output = cluster.gateway.run('hdfs dfsadmin -printTopology').stdout
        groups = {worker['host_id'] for worker in outputs['workers']}
        self.assertEqual(2, len(groups))
        self.assertNotIn(outputs['controller']['host_id'], groups)
        for group in groups:
            self.assertIn(f'/rack1/ng-{group}', output)

    def check_seen(self, cluster: StackCluster, plan: ClusterPlan) -> None:
        """Check that the record contains the flavors and the hosts."""
        for flavor in (plan.flavors.worker, plan.flavors.controller):
            recorded_flavor = cluster.facts.observed['flavor'][flavor.role]
            self.assertEqual(
                (flavor.name, flavor.vcpus, flavor.ram, flavor.disk),
                tuple(
                    recorded_flavor[key]
                    for key in ('name', 'vcpus', 'ram', 'disk')
                ),
            )
            self.assertEqual(
                flavor.extra_specs, recorded_flavor['extra_specs']
            )
        profile = host_profiles.load(self.options.host_profile)
        self.assertEqual(
            {'name': profile.name, 'digest': profile.digest},
            cluster.facts.observed['host_profile']['worker'],
        )
        allocations = cluster.facts.observed['allocations']
        self.assertEqual(3, len(allocations))
        # Their CPUs are those of this machine.
        for name, allocation in allocations.items():
            flavor = (
                plan.flavors.controller
                if name == f'{NAME}-controller'
                else plan.flavors.worker
            )
            self.assertEqual(flavor.vcpus, allocation['VCPU'], name)
        self.assertEqual(
            {'VCPU': 1.0, 'MEMORY_MB': 1.0},
            cluster.facts.observed['allocation_ratio']['during'],
        )


class RefusalTest(LabTest):
    """What cannot work is refused before anything is made."""

    def test_backend_cannot_honour_it(self) -> None:
        error = self.assertRaises(
            errors.InputError,
            planner.plan_cluster,
            self.conn,
            ClusterSpec(parse('i2-dedicated'), tuning=LAB),
            self.options,
        )
        self.assertIn('lxc', str(error))
        self.assertEqual([], journal.own())

    def test_larger_than_the_host(self) -> None:
        self.assertRaises(
            errors.InputError,
            planner.plan_cluster,
            self.conn,
            ClusterSpec(parse('i1-c2'), tuning=LAB),
            self.options,
        )
        self.assertEqual([], journal.own())


class RatioTest(LabTest):
    def test_killed_process(self) -> None:
        hosts = self.workers()
        before = allocation_ratios.current(self.conn, hosts)
        done = subprocess.run([sys.executable, '-c', KILLED], check=False)
        self.assertEqual(-signal.SIGKILL, done.returncode)
        changed = allocation_ratios.current(self.conn, hosts)
        for name in hosts:
            self.assertEqual({'VCPU': 2.0, 'MEMORY_MB': 1.2}, changed[name])
        lines = recovery.recover([self.conn])
        self.assertEqual(2 * len(hosts), len(lines))
        self.assertEqual(before, allocation_ratios.current(self.conn, hosts))
        self.assertEqual([], recovery.recover([self.conn]))
