# SPDX-License-Identifier: Apache-2.0
"""Test the heaps of HDFS, which follow from the blocks on the disks."""

import testtools

from hvstack.hadoop import site_files
from hvstack.hadoop.hdfs_heaps import HDFSCapacity, HDFSHeaps, compute_heaps
from hvstack.hadoop.sizing import NodeSizing, add_hdfs_heaps, size_node

TB = 10**12
#: 100 workers with 96 TB each.
LARGE = HDFSCapacity(100, 96 * TB, 3)


def size(
    capacity: HDFSCapacity | None,
    *,
    tuning: str = 'hvstack',
    memory_mib: int = 262144,
    controller_mib: int = 131072,
    namenode: bool = True,
) -> tuple[NodeSizing, NodeSizing]:
    """Return the size of a node without and with the heaps of HDFS."""
    sizing = size_node(
        40,
        memory_mib,
        tuning=tuning,
        controller_mib=controller_mib,
        namenode=namenode,
    )
    return sizing, add_hdfs_heaps(
        *(sizing, capacity),
        tuning=tuning,
        memory_mib=memory_mib,
        controller_mib=controller_mib,
        namenode=namenode,
    )


class HeapsTest(testtools.TestCase):
    def test_examples_of_cloudera(self) -> None:
        """200 hosts of 24 TB: 36 million blocks, or 12 with three replicas."""
        for replication, blocks in ((1, 35_762_600), (3, 11_920_866)):
            capacity = HDFSCapacity(200, 24 * TB, replication)
            self.assertEqual(blocks, capacity.count_blocks(128))
            heaps = compute_heaps(
                *(capacity, 128, 1024),
                controller_room_mib=65536,
                worker_room_mib=65536,
            )
            # 1 GiB for a million.
            self.assertEqual(
                -(-blocks * 1024 // 1_000_000), heaps.namenode_mib
            )
            self.assertEqual(heaps.namenode_mib, heaps.secondary_mib)
            # Each DataNode has 178,000 replicas.
            self.assertEqual(1024, heaps.datanode_mib)

    def test_limits(self) -> None:
        # 11.9 million blocks, and 1.5 million replicas on a worker.
        for block_mib, controller, worker, expected in (
            (256, 99999, 99999, (12208, 12208, 1024)),
            (64, 99999, 99999, (48829, 48829, 1465)),
            (64, 8192, 99999, (8192, 8192, 1465)),
            # Without page cache for it.
            (64, 8192, 3000, (8192, 2559, 1465)),
            (64, 8192, 0, (8192, 1024, 1024)),
            (64, 100, 0, (1024, 1024, 1024)),
        ):
            self.assertEqual(
                HDFSHeaps(*expected),
                compute_heaps(
                    *(LARGE, block_mib, 1024),
                    controller_room_mib=controller,
                    worker_room_mib=worker,
                ),
            )


class SizingTest(testtools.TestCase):
    def test_tasks_keep_their_memory(self) -> None:
        before, after = size(LARGE)
        self.assertEqual(12208, after.namenode_mib)
        self.assertEqual(before.yarn_mib, after.yarn_mib)
        self.assertEqual(before.daemon_mib, after.daemon_mib)
        # On the controller, ApplicationMasters have less.
        less = before.master_node_mib - after.master_node_mib
        self.assertTrue(11184 <= less < 11184 + after.allocation_mib, less)

    def test_namenode_with_its_own_controller(self) -> None:
        before, after = size(LARGE, namenode=False)
        self.assertEqual(12208, after.namenode_mib)
        self.assertEqual(before.master_node_mib, after.master_node_mib)
        _, after = size(LARGE, namenode=False, controller_mib=8192)
        self.assertEqual(8192 - 128, after.namenode_mib)

    def test_controller_with_little_memory(self) -> None:
        """The NameNode uses what the others and an ApplicationMaster leave."""
        before, after = size(LARGE, controller_mib=16384)
        assert before.history_mib
        others = 2 * 1024 + before.history_mib + before.master_mib
        self.assertEqual(16384 - 128 - others, after.namenode_mib)
        self.assertEqual(before.master_mib, after.master_node_mib)
        # The JobHistory server with the smallest controller.
        _, after = size(LARGE, controller_mib=128 + 4 * 1024 + 1536)
        self.assertEqual(1342, after.namenode_mib)

    def test_unknown_disks_and_the_lab(self) -> None:
        for capacity, tuning in ((None, 'hvstack'), (LARGE, 'lab')):
            before, after = size(capacity, tuning=tuning)
            self.assertIs(before, after)
            self.assertEqual(before.daemon_mib, after.namenode_mib)

    def test_small_disks_change_nothing(self) -> None:
        for tuning in ('hvstack', 'vsphere6', 'vsan', 'amd', 'stock'):
            before, after = size(HDFSCapacity(31, 10 * TB, 3), tuning=tuning)
            self.assertEqual(
                site_files.render_hadoop_env(before),
                site_files.render_hadoop_env(after),
            )
            self.assertEqual(before.master_node_mib, after.master_node_mib)

    def test_environment_of_the_daemons(self) -> None:
        _, after = size(LARGE)
        lines = site_files.render_hadoop_env(after).splitlines()
        for line in (
            'HEAP_namenode=12208',
            'HEAP_secondarynamenode=12208',
            'HEAP_datanode=1024',
            'HEAP_resourcemanager=1024',
            'HEAP_historyserver=3072',
        ):
            self.assertIn(line, lines)
