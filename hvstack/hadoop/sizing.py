# SPDX-License-Identifier: Apache-2.0
"""Sizes of containers, memory and heaps on a node.

:data:`RULES` contains the rule of every tuning profile.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hvstack import errors

#: Default tuning profile.
DEFAULT = 'hvstack'
#: Memory in MiB for the operating system of a node, without page cache.
_SYSTEM_MIB = 128
#: Memory in MiB of DataNode and NodeManager together, including memory outside
#: the heap, with the serial collector and only the first compiler.
_DAEMONS_MIB = 512
#: Memory in MiB of the smallest container in which a sort task runs.
_SMALLEST_MIB = 512
#: Number of map slots (and of reduce slots) of a worker by its CPUs, which
#: vsphere6, Table 1, tunes for each number of VMs per host.
_VSPHERE6_SLOTS = {40: 20, 20: 11, 10: 6, 4: 3, 2: 1}
_VSPHERE6_NATIVE_SLOTS = {40: 22}
#: Bytes of a TeraSort record in a map task's buffer: 10 of key and 90 of
#: value, each behind one byte of length, and 16 of metadata (amd, 3.1.6).
_BUFFERED_RECORD = 102 + 16
_RECORD = 100


def _vsphere6_slots(vcpus: int, native: bool) -> int:
    slots_by_vcpus = _VSPHERE6_SLOTS | (
        _VSPHERE6_NATIVE_SLOTS if native else {}
    )
    # "At least one map task plus one reduce task per physical core", of two
    # CPUs ("Parameter Tuning").
    return slots_by_vcpus.get(vcpus, max(1, vcpus // 2))


@dataclass(frozen=True)
class SizingRule:
    """Rule by which a tuning profile divides a worker into containers.

    Containers come in groups, as MapReduce 1 had slots for map tasks and
    slots for reduce tasks.

    :param groups: function that returns the number of groups of a worker from
        its number of CPUs and whether it is bare metal.
    :param kinds: containers of a group in units of memory: the first is the
        container of a map task, the last that of a reduce task.
    :param smallest_mib: smallest unit in MiB.
    :param largest_mib: largest unit in MiB.
    :param share: fraction of the memory without the daemons that containers
        use; the remainder is page cache.
    :param heap: fraction of a reduce task's container for its Java heap.
    :param map_heap: fraction of a map task's container for its Java heap.
    :param sort: fraction of a map task's heap for its sort buffer.
    :param max_sort_mib: largest sort buffer in MiB.
    :param daemon_mib: Java heap of each daemon in MiB, at most an eighth of
        the memory of the node; None uses that of the guest image.
    :param spare: number of containers of a cluster that no task uses if a job
        runs all its map tasks (or reduce tasks) at once; None for half of the
        containers.
    """

    groups: Callable[[int, bool], int]
    kinds: tuple[int, ...]
    largest_mib: int
    share: float
    heap: float
    map_heap: float
    sort: float
    max_sort_mib: int
    smallest_mib: int = _SMALLEST_MIB
    daemon_mib: int | None = None
    spare: int | None = None


RULES = {
    # Two containers per CPU ("at least one map task plus one reduce task per
    # physical core", vsphere6), and half of the memory for page cache. Class
    # data of small containers needs more than the fifth outside the heap that
    # vsan uses.
    'hvstack': SizingRule(
        groups=lambda vcpus, native: 2 * vcpus,
        kinds=(1,),
        largest_mib=2048,
        share=0.5,
        heap=0.65,
        map_heap=0.65,
        sort=0.3,
        max_sort_mib=2047,
        # The ApplicationMaster uses one container. Another one is free for
        # reduce tasks that start before the last map task has ended.
        spare=2,
    ),
    # Table 1 and appendix A: heaps of 800 and 1200 MiB, a buffer of 400 MiB,
    # and 1300 MiB for every daemon. YARN has a single pool for both kinds of
    # tasks, so every container is large enough for a reduce task (Hadoop's
    # default of 0.8).
    'vsphere6': SizingRule(
        groups=_vsphere6_slots,
        kinds=(1, 1),
        largest_mib=1500,
        share=0.5,
        heap=0.8,
        map_heap=0.8 * 800 / 1200,
        sort=0.5,
        max_sort_mib=400,
        daemon_mib=1300,
    ),
    # Table 3 and 6: 2.1 GiB for each container, 14 on 14 vCPUs, and 377
    # maps and reduces on 27 workers: all but the ApplicationMaster's.
    # Heaps use at most half of the memory: 0.5 / 0.8.
    'vsan': SizingRule(
        groups=lambda vcpus, native: vcpus,
        kinds=(1,),
        largest_mib=2150,
        share=0.625,
        heap=0.8,
        map_heap=0.8,
        sort=0.5,
        max_sort_mib=400,
        spare=1,
    ),
    # 3.1.1 and 3.1.8: of 4 GiB per core, 1 GiB is page cache and 3 GiB are
    # heaps: at the end a map task of 1 GiB, and a reduce task that also has
    # the memory of the second map task.
    'amd': SizingRule(
        groups=lambda vcpus, native: vcpus,
        kinds=(1, 2),
        largest_mib=1280,
        share=0.95,
        heap=0.8,
        map_heap=0.8,
        sort=0.5,
        max_sort_mib=2047,
    ),
    # Hadoop's defaults: 8 GiB per node, 1 GiB per container, 0.8 of it heap.
    'stock': SizingRule(
        groups=lambda vcpus, native: 8,
        kinds=(1,),
        largest_mib=1024,
        share=1,
        heap=0.8,
        map_heap=0.8,
        sort=0.5,
        max_sort_mib=100,
        smallest_mib=1024,
        spare=2,
    ),
}
#: Sections of the amd guide after which a cluster can be measured; after 3.1.8
#: this is the tuning profile ``amd``. The other sections have no values, or
#: only properties that Hadoop 3.4 no longer has.
AMD_STEPS = ('3.1.1', '3.1.3', '3.1.5', '3.1.6')
# Before 3.1.8: two map tasks and one reduce task per core, 1 GiB of heap each.
RULES |= {
    f'amd-{step}': replace(RULES['amd'], kinds=(1, 1, 1)) for step in AMD_STEPS
}


@dataclass(frozen=True)
class NodeSizing:
    """Resources of a worker that Hadoop uses.

    :param containers: number of containers that run at the same time.
    :param container_mib: memory in MiB of a container for a reduce task.
    :param heap_mib: Java heap in MiB of a reduce task.
    :param sort_mib: ``mapreduce.task.io.sort.mb``.
    :param processors: number of processors that every JVM of the node uses.
    :param map_mib: memory in MiB of a container for a map task.
    :param map_heap_mib: Java heap in MiB of a map task.
    :param daemon_mib: Java heap in MiB of each daemon; None uses that of the
        guest image.
    """

    containers: int
    container_mib: int
    heap_mib: int
    sort_mib: int
    processors: int
    map_mib: int
    map_heap_mib: int
    daemon_mib: int | None = None

    @property
    def yarn_mib(self) -> int:
        """``yarn.nodemanager.resource.memory-mb``."""
        return self.containers * (self.map_mib + self.container_mib) // 2


def get_rule(tuning: str) -> SizingRule:
    """Return the rule of a tuning profile.

    :param tuning: name of the tuning profile.
    :raises hvstack.errors.InputError: the tuning profile does not exist.
    """
    try:
        return RULES[tuning]
    except KeyError:
        raise errors.InputError(
            f"Cannot use the tuning profile '{tuning}': it does not exist. "
            f'Use one of {", ".join(sorted(RULES))}.'
        ) from None


def size_node(
    vcpus: int,
    memory_mib: int,
    *,
    tuning: str = DEFAULT,
    native: bool = False,
) -> NodeSizing:
    """Return the size of a worker, which is a guest or a bare-metal host.

    :param vcpus: number of CPUs that the worker reports.
    :param memory_mib: memory in MiB that the worker reports.
    :param tuning: tuning profile.
    :param native: whether the worker is a bare-metal host, which only the
        profile vsphere6 sizes differently.
    :raises hvstack.errors.InputError: the worker is too small for a
        container, or the tuning profile does not exist.
    """
    sizing_rule = get_rule(tuning)
    smallest_mib = sizing_rule.smallest_mib
    daemon, daemons = None, _DAEMONS_MIB
    if sizing_rule.daemon_mib is not None:
        daemon = min(sizing_rule.daemon_mib, memory_mib // 8)
        daemons = max(daemons, 2 * daemon)
    room = memory_mib - _SYSTEM_MIB - daemons
    units = sum(sizing_rule.kinds)
    max_groups = room // (smallest_mib * units)
    if vcpus < 1 or max_groups < 1:
        raise errors.InputError(
            f'Cannot run Hadoop on a worker with {vcpus} vCPUs and '
            f"{memory_mib} MiB (tuning profile '{tuning}'): the worker is too "
            'small. Use a larger flavor, with at least '
            f'{_SYSTEM_MIB + daemons + smallest_mib * units} MiB.'
        )
    groups = min(sizing_rule.groups(vcpus, native), max_groups)
    unit = min(
        sizing_rule.largest_mib,
        max(
            smallest_mib,
            int(room * sizing_rule.share) // (groups * units),
        ),
    )
    map_mib, container_mib = (
        unit * sizing_rule.kinds[0],
        unit * sizing_rule.kinds[-1],
    )
    map_heap = int(map_mib * sizing_rule.map_heap)
    return NodeSizing(
        containers=groups * len(sizing_rule.kinds),
        container_mib=container_mib,
        heap_mib=int(container_mib * sizing_rule.heap),
        sort_mib=min(
            sizing_rule.max_sort_mib, int(map_heap * sizing_rule.sort)
        ),
        processors=vcpus,
        map_mib=map_mib,
        map_heap_mib=map_heap,
        daemon_mib=daemon,
    )


def count_tasks(containers: int, tuning: str = DEFAULT) -> int:
    """Return the number of map tasks (and of reduce tasks) that run at once.

    vsphere6, Table 1: as many map tasks as reduce tasks, with separate slots
    for each kind. vsan, Table 6: one less than the number of containers.

    :param containers: number of containers of the cluster.
    :param tuning: tuning profile.
    :raises hvstack.errors.InputError: the tuning profile does not exist.
    """
    spare = get_rule(tuning).spare
    return max(1, containers // 2 if spare is None else containers - spare)


def sort_buffer_mib(block_mib: int, spill: float) -> int:
    """Return the size in MiB of a sort buffer for all records of a block.

    amd, 3.1.6: the buffer has space for data and metadata, and a reserve, so
    that a map task spills once, at its end.

    :param block_mib: size in MiB of the HDFS block that a map task reads.
    :param spill: ``mapreduce.map.sort.spill.percent``.
    """
    return math.ceil(block_mib * _BUFFERED_RECORD / _RECORD / spill)
