# SPDX-License-Identifier: Apache-2.0
"""How much of a node Hadoop gets: containers, memory, heaps."""

from dataclasses import dataclass

from hvstack import errors

#: MiB that stay with the operating system of a node, page cache apart.
_SYSTEM_MIB = 128
#: MiB of DataNode and NodeManager together, heap and the rest, with serial
#: collector and first compiler alone.
_DAEMONS_MIB = 512
#: Containers a CPU: "at least one map task plus one reduce task per physical
#: core" (vsphere6, "Parameter Tuning").
_PER_CPU = 2
#: Smallest container in which a sort task runs, and the largest one that
#: vsphere6's heaps need (appendix A: 1200 MiB for a reduce task).
_SMALLEST_MIB = 512
_LARGEST_MIB = 2048
#: Share of a container for the Java heap; the rest is the JVM's own (vsan,
#: Table 3 has 0.8, which small containers exceed: class data weighs more).
_HEAP = 0.65
_SORT = 0.3


@dataclass(frozen=True)
class NodeSizing:
    """What YARN may use of one worker.

    :param containers: how many run at a time.
    :param container_mib: memory of each.
    :param heap_mib: Java heap of a task.
    :param sort_mib: ``mapreduce.task.io.sort.mb``.
    :param processors: what every JVM of the node is told.
    """

    containers: int
    container_mib: int
    heap_mib: int
    sort_mib: int
    processors: int

    @property
    def yarn_mib(self) -> int:
        """``yarn.nodemanager.resource.memory-mb``."""
        return self.containers * self.container_mib


def size_node(vcpus: int, memory_mib: int) -> NodeSizing:
    """Size a worker, a guest or a bare-metal host alike.

    :param vcpus: CPUs that it reports.
    :param memory_mib: memory that it reports.
    :raises hvstack.errors.InputError: there is no room for a container.
    """
    room = memory_mib - _SYSTEM_MIB - _DAEMONS_MIB
    most = room // _SMALLEST_MIB
    if vcpus < 1 or most < 1:
        raise errors.InputError(
            f'a worker of {vcpus} vCPUs and {memory_mib} MiB is too small for '
            f'Hadoop: {_SYSTEM_MIB + _DAEMONS_MIB + _SMALLEST_MIB} MiB are '
            'the least'
        )
    containers = min(_PER_CPU * vcpus, most)
    # Half of what is left stays for the page cache (vsphere6: less than
    # half of the memory for all heaps), as long as a container is large
    # enough.
    each = min(_LARGEST_MIB, max(_SMALLEST_MIB, room // 2 // containers))
    heap = int(each * _HEAP)
    return NodeSizing(containers, each, heap, int(heap * _SORT), vcpus)
