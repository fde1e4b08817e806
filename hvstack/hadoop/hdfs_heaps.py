# SPDX-License-Identifier: Apache-2.0
"""Java heaps of the daemons of HDFS by the blocks that its disks can hold."""

from dataclasses import dataclass

#: Blocks for which the NameNode needs 1 GiB of heap, and replicas for which a
#: DataNode does.
_BLOCKS_PER_GIB = 1_000_000


@dataclass(frozen=True)
class HDFSCapacity:
    """Disks of a cluster for HDFS.

    :param workers: number of workers with a DataNode.
    :param worker_bytes: size in bytes of the data disks of a worker.
    :param replication: number of replicas of a file.
    """

    workers: int
    worker_bytes: int
    replication: int

    @property
    def total_bytes(self) -> int:
        """Size in bytes of all data disks of the cluster."""
        return self.workers * self.worker_bytes

    def count_blocks(self, block_mib: int) -> int:
        """Return the number of blocks of all files on full disks.

        :param block_mib: HDFS block size in MiB.
        """
        replicas = self.workers * self.count_replicas(block_mib)
        return replicas // max(1, self.replication)

    def count_replicas(self, block_mib: int) -> int:
        """Return the number of replicas on the full disks of a worker.

        :param block_mib: HDFS block size in MiB.
        """
        return self.worker_bytes // (block_mib * 1024**2)


@dataclass(frozen=True)
class HDFSHeaps:
    """Java heaps in MiB of the daemons of HDFS.

    :param namenode_mib: heap of the NameNode.
    :param secondary_mib: heap of a SecondaryNameNode, which loads the
        namespace of the NameNode for a checkpoint.
    :param datanode_mib: heap of each DataNode.
    """

    namenode_mib: int
    secondary_mib: int
    datanode_mib: int


def compute_heaps(
    capacity: HDFSCapacity,
    block_mib: int,
    daemon_mib: int,
    *,
    controller_room_mib: int,
    worker_room_mib: int,
) -> HDFSHeaps:
    """Return the heaps of HDFS with full disks.

    The NameNode needs 1 GB for a million blocks, and never less than 1 GB
    (Cloudera Runtime 7.2.18, "HDFS heap sizing" and "Disk space versus
    namespace"): the number of blocks is the capacity of the cluster, divided
    by block size and number of replicas ("Examples of estimating NameNode heap
    memory"). A DataNode needs 1 GB for a million replicas ("HDFS heap sizing":
    5 GB for 5 million). No heap is smaller than that of the other daemons, nor
    larger than the memory that the node has for it.

    :param capacity: disks of the cluster.
    :param block_mib: HDFS block size in MiB.
    :param daemon_mib: heap in MiB of the other daemons.
    :param controller_room_mib: memory in MiB of the controller for the heap of
        the NameNode.
    :param worker_room_mib: memory in MiB of a worker that neither tasks nor
        daemons with ``daemon_mib`` use, such as page cache.
    """
    blocks = capacity.count_blocks(block_mib)
    namenode = _limit(blocks, daemon_mib, controller_room_mib)
    replicas = capacity.count_replicas(block_mib)
    datanode = _limit(replicas, daemon_mib, daemon_mib + worker_room_mib)
    secondary_room = worker_room_mib - (datanode - daemon_mib)
    return HDFSHeaps(
        namenode, max(daemon_mib, min(namenode, secondary_room)), datanode
    )


def _limit(blocks: int, least_mib: int, room_mib: int) -> int:
    """Return the heap in MiB for blocks, within the limits of its node."""
    needed_mib = -(-blocks * 1024 // _BLOCKS_PER_GIB)
    return max(least_mib, min(needed_mib, room_mib))
