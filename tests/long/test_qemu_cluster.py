# SPDX-License-Identifier: Apache-2.0
"""Hadoop on emulated guests: volumes, whole disks, CPUs of their own.

The lab is up. It becomes one of two emulated hosts with Ceph, and what it was
before at the end. Emulated guests are slow: figures are no matter here.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fixtures
import yaml

from hvstack import host_profiles, processutils
from hvstack.cloud import connection, undo
from hvstack.cluster import launch, planner
from hvstack.cluster.plan import ClusterPlan, ClusterSpec
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop.sizing import LAB
from hvstack.lab import (
    ceph,
    clouds_yaml,
    identity,
    images,
    lifecycle,
    settings,
)
from hvstack.lab.hosts import sizes
from hvstack.model.configuration import parse
from hvstack.progress import Progress
from hvstack.sweep import recovery
from tests.functional.test_cluster import LabTest
from tests.long import jobs, labs

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
NAME = 'hv-test-qemu'
IMAGE = 'hvstack-hadoop-vm'
#: The first carries the controllers, the second the workers.
FIRST, SECOND = sizes.name_of(1), sizes.name_of(2)
#: What the hosts promise: more CPU than there is, and room for QEMU itself
#: with the translated code of a guest's JVMs.
SIZES: dict[str, dict[str, Any]] = {
    FIRST: {
        'cpu_cap': 2.0,
        'memory_mib': 4608,
        'reserved_mib': 1280,
        'tb_cache_mib': 512,
    },
    SECOND: {
        'cpu_cap': 2.0,
        'memory_mib': 7168,
        'reserved_mib': 2560,
        'tb_cache_mib': 512,
    },
}
#: Of the profile that the lab's hosts get: a disk for each of two workers.
DISKS = {'count': 2, 'size_gb': 2, 'rotational': False}
STACK_SECONDS, READY_SECONDS, JOB_SECONDS = 1800, 2700, 3600
#: One JVM for a job's ApplicationMaster and its tasks: on emulated CPUs each
#: takes minutes to start.
IN_ONE_JVM = (
    '-Dmapreduce.job.maps=1 -Dmapreduce.job.reduces=1 '
    '-Dmapreduce.job.ubertask.enable=true'
)
#: 1 MB of TeraSort's records.
ROWS = 10_000


class QemuClusterTest(LabTest):
    @classmethod
    def setUpClass(cls) -> None:
        if os.environ.get('HVSTACK_LAB'):
            before = settings.load() or settings.LabSettings()
            cls.addClassCleanup(lifecycle.up, lambda _: before, Progress())
            # A host with servers does not change.
            recovery.recover([connection.connect(clouds_yaml.ADMIN_CLOUD)])
            # A connection knows the services that there were at its start.
            cls.lab_up({})
        super().setUpClass()

    def setUp(self) -> None:
        super().setUp()
        image = images.build('hadoop', Progress(), outputs=['lxc', 'qemu'])
        images.upload(identity.connect(), image, 'qemu', title=IMAGE)
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'host.yaml'
        profile = host_profiles.load('lab-worker').to_mapping()
        path.write_text(yaml.safe_dump({**profile, 'disks': DISKS}))
        self.options = SimpleNamespace(
            **{
                **dict(self.options),
                'host_profile': str(path),
                'controller_profile': 'lab-controller',
                'backend': 'qemu',
                'image': IMAGE,
                'stack_timeout': STACK_SECONDS,
                'ready_timeout': READY_SECONDS,
            }
        )

    @classmethod
    def lab_up(cls, dedicated: Mapping[str, str]) -> None:
        """Make the lab two emulated hosts.

        :param dedicated: CPUs of a host for guests that ask for their own.
        """
        lifecycle.up(
            lambda lab_settings: lab_settings.change(
                hosts=2,
                fake_hosts=0,
                racks=0,
                compute='qemu',
                host_compute={},
                ceph=True,
                options={
                    **lab_settings.options,
                    'host_sizes': SIZES,
                    'dedicated': dict(dedicated),
                },
            ),
            Progress(),
        )

    def plan(self, label: str, **options: Any) -> ClusterPlan:
        """Plan a cluster of the lab."""
        return planner.plan_cluster(
            self.conn,
            ClusterSpec(parse(label), tuning=LAB, **options),
            self.options,
        )

    def create(self, plan: ClusterPlan) -> StackCluster:
        """Create a cluster."""
        project = str(self.conn.current_project_id)
        cluster, self.outputs = launch.launch(
            self.conn,
            self.conn,
            plan,
            launch.publish(self.conn, plan, [project]),
            NAME,
            self.options,
            Progress(),
        )
        self.addCleanup(cluster.close)
        self.assertEqual(plan.nodes.workers, len(cluster.workers))
        self.assertEqual('ceph', cluster.facts.environment['storage'])
        backends = cluster.facts.observed['volume_backends']
        self.assertEqual(
            {(backend['type'], 'ceph') for backend in backends},
            {
                (backend['backend'], backend['protocol'])
                for backend in backends
            },
        )
        return cluster

    def done_with(self, cluster: StackCluster) -> None:
        """Sort, look at HDFS, and take everything back."""
        jobs.sort(self, cluster, ROWS, IN_ONE_JVM, JOB_SECONDS)
        self.assertIn('HEALTHY', cluster.gateway.run('hdfs fsck /').stdout)
        cluster.close()
        undo.undo_own([self.conn])
        self.assertEqual([], list(self.conn.block_storage.volumes()))
        for pool in labs.POOLS:
            self.assertEqual([], self.images_in(pool), pool)

    def images_in(self, pool: str) -> list[str]:
        """Return the RBD images of a pool."""
        conf = str(settings.LAB / 'etc' / 'ceph' / 'ceph.conf')
        out = processutils.run(['rbd', '--conf', conf, 'ls', pool]).stdout
        return out.split()

    def pools(self) -> list[set[str]]:
        """Return the pools of each worker's volumes, by Ceph's own answer."""
        held = {
            name: pool for pool in labs.POOLS for name in self.images_in(pool)
        }
        server_pools = []
        for worker in self.outputs['workers']:
            server = self.conn.compute.get_server(worker['server_id'])
            names = [
                f'volume-{volume["id"]}' for volume in server.attached_volumes
            ]
            self.assertNotEqual([], names, worker['name'])
            server_pools.append({held[name] for name in names})
        return server_pools

    def disks(self, pools: Iterable[str]) -> set[int]:
        """Return the OSDs that pools are on."""
        return {
            osd
            for pool in pools
            for group in json.loads(
                ceph.ceph('pg', 'ls-by-pool', pool, '--format', 'json')
            )['pg_stats']
            for osd in group['acting']
        }

    def check_mounted(self, cluster: StackCluster) -> None:
        """Every DataNode's only directory is on a volume."""
        for node in cluster.workers:
            mounts = node.run('cat /proc/mounts').stdout
            self.assertIn('/dev/vdb /srv/data/0 ', mounts)
            site = node.run('cat /etc/hadoop/hdfs-site.xml').stdout
            self.assertIn('<value>file:///srv/data/0/hdfs</value>', site)

    def test_volumes(self) -> None:
        self.lab_up({})
        cluster = self.create(self.plan('i2-ceph'))
        self.assertEqual([{'ceph'}] * 2, self.pools())
        self.check_mounted(cluster)
        self.done_with(cluster)

    def test_whole_disks(self) -> None:
        self.lab_up({})
        cluster = self.create(self.plan('i2-ceph-pinned'))
        first, second = (self.disks(pools) for pools in self.pools())
        self.assertEqual((1, 1), (len(first), len(second)))
        self.assertNotEqual(first, second)
        self.check_mounted(cluster)
        self.done_with(cluster)

    def test_own_cpus(self) -> None:
        """CPU 1 is for guests that ask for their own, CPU 0 for all others."""
        self.lab_up({SECOND: '1'})
        cluster = self.create(self.plan('i2-ceph-dedicated-pinned', workers=1))
        self.assertEqual(1, len(self.disks(self.pools()[0])))
        self.check_pins(cluster)
        self.done_with(cluster)

    def check_pins(self, cluster: StackCluster) -> None:
        """Check that the only vCPU of the worker has the dedicated CPU."""
        (worker,) = cluster.workers
        server = self.conn.compute.get_server(
            self.outputs['workers'][0]['server_id']
        )
        self.assertEqual(SECOND, server.hypervisor_hostname)
        xml = processutils.run(
            [
                *(HVSTACK, 'lab', 'host', 'exec', SECOND, '--'),
                *('virsh', '-c', 'qemu:///system', 'dumpxml'),
                server.instance_name,
            ]
        ).stdout
        pins = re.findall(r"<vcpupin vcpu='(\d+)' cpuset='([^']+)'", xml)
        self.assertEqual([('0', '1')], pins)
        self.assertEqual('1', worker.run('nproc').stdout.strip())
