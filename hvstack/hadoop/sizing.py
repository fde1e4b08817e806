# SPDX-License-Identifier: Apache-2.0
"""How much of a node Hadoop gets: containers, memory, heaps.

Every tuning profile has a rule of its own; :data:`RULES` holds them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hvstack import errors

#: The tuning profile that is taken unless another is named.
DEFAULT = 'hvstack'
#: MiB that stay with the operating system of a node, page cache apart.
_SYSTEM_MIB = 128
#: MiB of DataNode and NodeManager together, heap and the rest, with serial
#: collector and first compiler alone.
_DAEMONS_MIB = 512
#: Smallest container in which a sort task runs.
_SMALLEST_MIB = 512
#: Map slots of a worker, and as many reduce slots, by its CPUs: vsphere6,
#: Table 1, tuned there for each number of VMs a host.
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
    """How one tuning profile cuts a worker into containers.

    Containers come in groups, as MapReduce 1 had slots for maps and slots
    for reduces beside each other.

    :param groups: how many groups a worker should have, from its CPUs and
        whether it is bare metal.
    :param kinds: containers of a group, in units of memory: the first is
        what a map task asks for, the last what a reduce task does.
    :param smallest_mib: smallest unit.
    :param largest_mib: largest unit.
    :param share: of the memory that is left beside the daemons, for
        containers; the rest is page cache.
    :param heap: of a reduce task's container, for its Java heap.
    :param map_heap: of a map task's container.
    :param sort: of a map task's heap, for its sort buffer.
    :param max_sort_mib: largest sort buffer.
    :param daemon_mib: Java heap of each daemon, at most an eighth of the
        node; None leaves the guest image's.
    :param spare: containers of a cluster that no map or reduce task of a
        job's one wave takes; None for half of them.
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
    # Two containers a CPU ("at least one map task plus one reduce task per
    # physical core", vsphere6), half of the memory for page cache. Small
    # containers need more than vsan's fifth beside the heap: class data.
    'hvstack': SizingRule(
        groups=lambda vcpus, native: 2 * vcpus,
        kinds=(1,),
        largest_mib=2048,
        share=0.5,
        heap=0.65,
        map_heap=0.65,
        sort=0.3,
        max_sort_mib=2047,
        # One is the ApplicationMaster's, one stays free for reduces that
        # start before the last map has ended.
        spare=2,
    ),
    # Table 1 and appendix A: heaps of 800 and 1200 MiB, a buffer of 400,
    # 1300 for every daemon. YARN has one pool for both kinds of tasks, so
    # every container has room for a reduce task (Hadoop's own 0.8).
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
    # Heaps of at most half of the memory: 0.5 / 0.8.
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
    # 3.1.1 and 3.1.8: of 4 GiB a core, 1 for page cache and 3 for heaps; at
    # the end one map of 1 GiB, and a reduce with the second map's besides.
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
    # Hadoop's defaults: 8 GiB a node, 1 GiB a container, 0.8 of it heap.
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
#: Sections of the amd guide after each of which a cluster can be measured;
#: after 3.1.8 it is the tuning ``amd``. The others set nothing that Hadoop
#: 3.4 still has, or name no value.
AMD_STEPS = ('3.1.1', '3.1.3', '3.1.5', '3.1.6')
# Until 3.1.8 there, two maps and one reduce a core, 1 GiB of heap each.
RULES |= {
    f'amd-{step}': replace(RULES['amd'], kinds=(1, 1, 1)) for step in AMD_STEPS
}


@dataclass(frozen=True)
class NodeSizing:
    """What YARN may use of one worker.

    :param containers: how many run at a time.
    :param container_mib: memory of each, or of one for a reduce task.
    :param heap_mib: Java heap of a reduce task.
    :param sort_mib: ``mapreduce.task.io.sort.mb``.
    :param processors: what every JVM of the node is told.
    :param map_mib: memory of a container for a map task.
    :param map_heap_mib: Java heap of a map task.
    :param daemon_mib: Java heap of each daemon, None for the image's own.
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

    :raises hvstack.errors.InputError: there is none of that name.
    """
    try:
        return RULES[tuning]
    except KeyError:
        raise errors.InputError(
            f"there is no tuning profile '{tuning}', take one of "
            f'{", ".join(sorted(RULES))}'
        ) from None


def size_node(
    vcpus: int,
    memory_mib: int,
    *,
    tuning: str = DEFAULT,
    native: bool = False,
) -> NodeSizing:
    """Size a worker, a guest or a bare-metal host.

    :param vcpus: CPUs that it reports.
    :param memory_mib: memory that it reports.
    :param tuning: a tuning profile.
    :param native: bare metal; only vsphere6 sizes it otherwise.
    :raises hvstack.errors.InputError: there is no room for a container, or
        no such tuning profile.
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
            f'a worker of {vcpus} vCPUs and {memory_mib} MiB is too small for '
            f"Hadoop (tuning profile '{tuning}'): "
            f'{_SYSTEM_MIB + daemons + smallest_mib * units} MiB are the '
            'least'
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
    """Return how many maps, and reduces, a cluster runs in one wave.

    vsphere6, Table 1: as many maps as reduces, each kind with slots of its
    own. vsan, Table 6: as many as there are containers, less one.

    :param containers: of the whole cluster.
    :raises hvstack.errors.InputError: no such tuning profile.
    """
    spare = get_rule(tuning).spare
    return max(1, containers // 2 if spare is None else containers - spare)


def sort_buffer_mib(block_mib: int, spill: float) -> int:
    """Return the sort buffer in which a block's records fit at once.

    amd, 3.1.6: room for data and metadata, and something over, so that a
    map task spills once, at its end.

    :param block_mib: HDFS block that a map task reads, in MiB.
    :param spill: ``mapreduce.map.sort.spill.percent``.
    """
    return math.ceil(block_mib * _BUFFERED_RECORD / _RECORD / spill)
