# SPDX-License-Identifier: Apache-2.0
"""The HVE paper's reliability test with Nova's own hosts.

"Hadoop Virtualization Extensions", Reliability: two hosts lose their power at
once; without node groups some blocks had all their replicas on them.
"""

import contextlib

import testtools

from hvstack import errors
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import fsck
from hvstack.hadoop.site_files import CONF
from hvstack.lab import lock
from hvstack.lab.hosts import host
from tests.long.biglab import BigLabTest

FILES = 10
#: Three blocks a file.
BLOCK_BYTES = 1024 * 1024
BLOCKS = 3 * FILES
#: Number of random pairs of hosts besides the pair that lost data without HVE.
PAIRS = 2
#: A copy whose target has lost its power is tried again after 300 s
#: (dfs.namenode.reconstruction.pending.timeout-sec), inspected every 300 s:
#: a host of the pair, if HDFS noticed the other one first.
COPY_SECONDS = 700
#: What the NameNode says of copies.
COPIES = 'PendingReconstruction|Failed to place|ask .* to replicate'
#: Takes HVE's properties out of a site file; they are lines of their own.
OFF = f"""
cd {CONF}
cp core-site.xml core-site.hve; cp hdfs-site.xml hdfs-site.hve
sed -i '/net.topology.impl/d' core-site.xml
sed -i -e '/dfs.use.dfs.network.topology/d' \
    -e '/dfs.block.replicator.classname/d' hdfs-site.xml
"""
ON = f"""
cd {CONF}
mv core-site.hve core-site.xml; mv hdfs-site.hve hdfs-site.xml
"""


class HVETest(BigLabTest):
    NAME = 'hv-test-hve'
    HOSTS = 7
    RACKS = 2
    MEMORY_MIB = 3584
    CPU_CAP = 1.0
    REPLICATION = 3

    def setUp(self) -> None:
        super().setUp()
        self.cluster = self.create('i2')
        self.servers = {
            worker['address']: worker['server_id']
            for worker in self.outputs['workers']
        }
        self.addOnException(self.tell)

    def tell(self, _: object) -> None:
        """Keep what HDFS says of its blocks where the test fails."""
        # The failure itself says more than that the cluster is gone, too.
        with contextlib.suppress(errors.HVStackError):
            output = self.cluster.gateway.run(
                f"grep -E '{COPIES}' /var/log/hadoop/namenode.log | tail -60; "
                'hdfs fsck /',
                check=False,
            ).stdout
            self.addDetail('hdfs', testtools.content.text_content(output))

    def put(self, directory: str) -> None:
        """Write the files from the controller, which stores nothing."""
        self.cluster.gateway.run(
            f'set -e; hdfs dfs -mkdir {directory}; mkdir -p /tmp{directory}; '
            f'for n in $(seq {FILES}); do head -c {3 * BLOCK_BYTES} '
            f'/dev/urandom >/tmp{directory}/$n; done; '
            f'hdfs dfs -D dfs.blocksize={BLOCK_BYTES} -put /tmp{directory}/* '
            f'{directory}; '
            f'cat /tmp{directory}/* | md5sum >/tmp{directory}.sum',
            timeout=600,
        )

    def blocks(self, directory: str) -> dict[str, list[str]]:
        """Return the lab host of every replica, by block."""
        files = fsck.run(self.cluster.gateway, directory)
        return {
            block.id: [self.host_of(self.servers[p]) for p in block.addresses]
            for file in files
            for block in file.blocks
        }

    def off(self, pair: list[str]) -> None:
        """Cut the power of two hosts at once, wait until HDFS knows.

        Not by two commands: HDFS would copy one's blocks to the other. It
        no longer counts a dead DataNode before it lets go of the blocks that
        were there, and until then finds them healthy.
        """
        with lock.exclusive():
            for name in pair:
                host.power_off(name)
        self.until(
            lambda: not self.holding() & set(pair), 'HDFS to miss two hosts'
        )
        self.assertEqual(8, self.live(self.cluster))

    def holding(self) -> set[str]:
        """Return the lab hosts that have a replica of anything."""
        replicas = self.blocks('/').values()
        return {host for hosts in replicas for host in hosts}

    def on(self, pair: list[str]) -> None:
        """Give them power, and wait until all is as before."""
        for name in pair:
            self.power('on', name)
        self.until(lambda: self.live(self.cluster) == 12, 'all DataNodes')

    def readable(self, directory: str) -> None:
        """Read every file."""
        self.cluster.gateway.run(
            f'hdfs dfs -cat "{directory}/*" | md5sum | '
            f'cmp - /tmp{directory}.sum',
            timeout=600,
        )

    def test_power_of_two_hosts(self) -> None:
        cluster: StackCluster = self.cluster
        racks = {row['Rack'] for row in self.done('topology')}
        self.assertTrue({'rack1', 'rack2'} <= racks, racks)
        self.put('/on')
        self.assertEqual([], self.done('topology', '--check'))
        for hosts in self.blocks('/on').values():
            self.assertEqual(3, len(set(hosts)))

        cluster.gateway.run(OFF)
        self.done('topology', '--refresh')
        self.put('/off')
        self.assertNotEqual([], self.violations())
        placed = self.blocks('/off')
        self.assertEqual(BLOCKS, len(placed))
        failed_hosts = next(set(h) for h in placed.values() if len(set(h)) < 3)
        pair = sorted(failed_hosts)
        self.off(pair)
        self.assertIn('Status: CORRUPT', self.fsck(cluster, '/off'))
        self.on(pair)
        self.until(lambda: self.whole(cluster, '/off'), 'the blocks')
        self.readable('/off')

        cluster.gateway.run(f'hdfs dfs -rm -r -skipTrash /off; {ON}')
        self.done('topology', '--refresh')
        self.until(lambda: self.whole(cluster), 'the blocks')
        self.assertEqual([], self.done('topology', '--check'))
        workers = sorted(
            {self.host_of(server_id) for server_id in self.servers.values()}
        )
        pairs = [self.dice.sample(workers, 2) for _ in range(PAIRS)]
        for host_pair in (pair, *pairs):
            self.off(host_pair)
            self.readable('/on')
            self.until(lambda: self.whole(cluster), 'the copies', COPY_SECONDS)
            self.on(host_pair)
            self.until(lambda: self.whole(cluster), 'every block')
            self.assertEqual([], self.violations())
