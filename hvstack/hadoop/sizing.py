# SPDX-License-Identifier: Apache-2.0
"""Sizes of containers, memory and heaps on a node.

Each tuning profile contains its rule for the sizes.
"""

import math
from dataclasses import dataclass, replace

from hvstack import errors
from hvstack.hadoop import tuning_profiles
from hvstack.hadoop.hdfs_heaps import HDFSCapacity, HDFSHeaps, compute_heaps
from hvstack.hadoop.tuning_profiles import TuningProfile

#: Default tuning profile, and that of the lab, whose hosts are small.
DEFAULT = 'hvstack'
LAB = 'lab'
#: Memory in MiB for the operating system of a node, without page cache.
_SYSTEM_MIB = 128
#: Memory in MiB of two daemons, such as DataNode and NodeManager, including
#: memory outside the heap, with the serial collector and only the first
#: compiler.
_DAEMONS_MIB = 512
#: Bytes of a TeraSort record in a map task's buffer: 10 of key and 90 of
#: value, each behind one byte of length, and 16 of metadata (amd, 3.1.6).
_BUFFERED_RECORD = 102 + 16
_RECORD = 100
#: Parts of a task's container that YARN allocates memory in, so that an
#: ApplicationMaster can be smaller than a task.
_ALLOCATION_PARTS = 4
#: A worker with less memory for YARN is small, such as all workers of the
#: lab. The smallest worker of the papers (vsphere6, 20 VMs per host) has more.
_SMALL_MIB = 4096
#: Largest heap in MiB of the JobHistory server: that of 250,000 tasks.
_HISTORY_MIB = 3072


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
    :param small_jvms: whether JVMs start fast and use little memory, at the
        expense of their speed.
    :param master_mib: memory in MiB of the container of an ApplicationMaster
        on the controller; 0 if the tuning profile runs ApplicationMasters on
        workers, where each uses a task's container.
    :param master_node_mib: memory in MiB of the NodeManager on the controller,
        which runs nothing but ApplicationMasters; 0 without one, or if the
        memory of the controller is unknown.
    :param history_mib: Java heap in MiB of the JobHistory server; None uses
        that of the guest image.
    :param hdfs_heaps: Java heaps of the daemons of HDFS; None uses that of
        each daemon.
    """

    containers: int
    container_mib: int
    heap_mib: int
    sort_mib: int
    processors: int
    map_mib: int
    map_heap_mib: int
    daemon_mib: int | None = None
    small_jvms: bool = False
    master_mib: int = 0
    master_node_mib: int = 0
    history_mib: int | None = None
    hdfs_heaps: HDFSHeaps | None = None

    @property
    def namenode_mib(self) -> int | None:
        """Java heap in MiB of the NameNode; None uses the guest image's."""
        if self.hdfs_heaps is None:
            return self.daemon_mib
        return self.hdfs_heaps.namenode_mib

    @property
    def has_master_node(self) -> bool:
        """Whether ApplicationMasters run on the controller, not on workers."""
        return self.master_mib > 0

    @property
    def yarn_mib(self) -> int:
        """``yarn.nodemanager.resource.memory-mb`` of a worker."""
        return self.containers * (self.map_mib + self.container_mib) // 2

    @property
    def largest_mib(self) -> int:
        """``yarn.scheduler.maximum-allocation-mb``."""
        return max(self.yarn_mib, self.master_node_mib)

    @property
    def master_room_mib(self) -> int:
        """Memory in MiB of the largest container of an ApplicationMaster."""
        return self.master_node_mib or self.yarn_mib

    @property
    def allocation_mib(self) -> int:
        """``yarn.scheduler.minimum-allocation-mb``."""
        if self.master_mib:
            return self.map_mib // _ALLOCATION_PARTS
        return self.map_mib

    @property
    def master_container_mib(self) -> int:
        """``yarn.app.mapreduce.am.resource.mb``."""
        return self.master_mib or self.container_mib

    @property
    def master_heap_mib(self) -> int:
        """Java heap in MiB of the ApplicationMaster."""
        if self.master_mib:
            return self.master_mib * self.heap_mib // self.container_mib
        return self.heap_mib

    def count_slots(self, workers: int) -> int:
        """Return the number of tasks that a cluster runs at the same time.

        :param workers: number of workers.
        """
        containers = self.containers * workers
        return containers if self.has_master_node else max(1, containers - 1)


def size_node(
    vcpus: int,
    memory_mib: int,
    *,
    tuning: str = DEFAULT,
    native: bool = False,
    controller_mib: int = 0,
    namenode: bool = True,
) -> NodeSizing:
    """Return the size of a worker, which is a guest or a bare-metal host.

    :param vcpus: number of CPUs that the worker reports.
    :param memory_mib: memory in MiB that the worker reports.
    :param tuning: tuning profile.
    :param native: whether the worker is a bare-metal host, which only the
        profile vsphere6 sizes differently.
    :param controller_mib: memory in MiB of the controller with the
        ResourceManager; 0 if it is unknown.
    :param namenode: whether the NameNode is on this controller, too.
    :raises hvstack.errors.InputError: the worker is too small for a
        container, or the controller for its daemons, or the tuning profile
        does not exist.
    """
    sizing_rule = tuning_profiles.load(tuning).sizing
    smallest_mib = sizing_rule.smallest_mib
    daemon, daemons = None, _DAEMONS_MIB
    if sizing_rule.daemon_mib is not None:
        daemon = min(sizing_rule.daemon_mib, memory_mib // 9)
        daemons = max(daemons, 2 * daemon)
    room = memory_mib - _SYSTEM_MIB - daemons
    units = sum(sizing_rule.containers)
    max_groups = room // (smallest_mib * units)
    master_share = sizing_rule.master_share or 0
    if vcpus < 1 or max_groups < 1:
        raise errors.InputError(
            f'Cannot run Hadoop on a worker with {vcpus} vCPUs and '
            f"{memory_mib} MiB (tuning profile '{tuning}'): the worker is too "
            'small. Use a larger flavor, with at least '
            f'{_SYSTEM_MIB + daemons + smallest_mib * units} MiB.'
        )
    groups = min(sizing_rule.count_groups(vcpus, native), max_groups)
    unit = min(
        sizing_rule.largest_mib,
        max(
            smallest_mib,
            int(room * sizing_rule.share) // (groups * units),
        ),
    )
    if master_share:
        unit -= unit % _ALLOCATION_PARTS
    map_mib, container_mib = (
        unit * sizing_rule.containers[0],
        unit * sizing_rule.containers[-1],
    )
    map_heap = int(map_mib * sizing_rule.map_heap)
    master_mib = int(master_share * unit)
    daemon_count = 2 + namenode + (master_mib > 0)
    _check_controller(controller_mib, daemon, daemon_count, master_mib, tuning)
    history_mib = _size_history_server(daemon, controller_mib or memory_mib)
    return NodeSizing(
        containers=groups * len(sizing_rule.containers),
        container_mib=container_mib,
        heap_mib=int(container_mib * sizing_rule.heap),
        sort_mib=min(
            sizing_rule.max_sort_mib, int(map_heap * sizing_rule.sort)
        ),
        processors=vcpus,
        map_mib=map_mib,
        map_heap_mib=map_heap,
        daemon_mib=daemon,
        small_jvms=sizing_rule.small_jvms,
        master_mib=master_mib,
        master_node_mib=_size_master_node(
            master_mib,
            controller_mib,
            2 * daemons + (history_mib or 0) - (daemon or 0),
            map_mib // _ALLOCATION_PARTS,
        ),
        history_mib=history_mib,
    )


def add_hdfs_heaps(
    sizing: NodeSizing,
    capacity: HDFSCapacity | None,
    *,
    tuning: str,
    memory_mib: int,
    controller_mib: int,
    namenode: bool = True,
) -> NodeSizing:
    """Return a size with heaps for the blocks that the disks can hold.

    Tasks keep their memory: the DataNode of a worker with large disks uses
    page cache, and the NameNode uses memory of ApplicationMasters.

    :param sizing: size of a worker.
    :param capacity: disks for HDFS; None if their size is unknown.
    :param tuning: tuning profile.
    :param memory_mib: memory in MiB that the worker reports.
    :param controller_mib: memory in MiB of the controller; 0 if it is unknown.
    :param namenode: whether the NameNode is on the controller with the
        ResourceManager; otherwise, it has a controller of its own.
    """
    daemon = sizing.daemon_mib
    if capacity is None or daemon is None or not controller_mib:
        return sizing
    two_daemons = max(_DAEMONS_MIB, 2 * daemon)
    history_mib = sizing.history_mib or daemon
    others_mib = 2 * two_daemons - 2 * daemon + history_mib
    room = controller_mib - _SYSTEM_MIB
    heaps = compute_heaps(
        capacity,
        get_block_mib(tuning_profiles.load(tuning), sizing),
        daemon,
        controller_room_mib=room - (others_mib + sizing.master_mib) * namenode,
        worker_room_mib=max(
            0, memory_mib - _SYSTEM_MIB - two_daemons - sizing.yarn_mib
        ),
    )
    return replace(
        sizing,
        hdfs_heaps=heaps,
        master_node_mib=_size_master_node(
            sizing.master_mib,
            controller_mib,
            others_mib + (heaps.namenode_mib if namenode else daemon),
            sizing.allocation_mib,
        ),
    )


def get_block_mib(profile: TuningProfile, sizing: NodeSizing) -> int:
    """Return the HDFS block size in MiB for workers of a size.

    Small workers get small blocks: with larger blocks, a small data set would
    leave containers idle.

    :param profile: tuning profile.
    :param sizing: size of a worker.
    """
    if sizing.yarn_mib < _SMALL_MIB:
        return profile.block_mib
    return profile.max_block_mib


def _check_controller(
    controller_mib: int,
    daemon_mib: int | None,
    daemon_count: int,
    master_mib: int,
    tuning: str,
) -> None:
    """Refuse a controller that is smaller than the heaps of its daemons.

    :param controller_mib: memory in MiB of the controller; 0 if it is unknown.
    :param daemon_mib: heap of a daemon; None for that of the guest image.
    :param daemon_count: number of its daemons: ResourceManager, JobHistory
        server, and perhaps NameNode and NodeManager.
    :param master_mib: memory of the container of an ApplicationMaster; 0 if
        it runs on a worker.
    :raises hvstack.errors.InputError: it is too small.
    """
    if daemon_mib is None or not controller_mib:
        return
    least_mib = _SYSTEM_MIB + daemon_count * daemon_mib + master_mib
    if controller_mib < least_mib:
        raise errors.InputError(
            f'Cannot run the controllers on {controller_mib} MiB (tuning '
            f"profile '{tuning}'): the heaps of their daemons do not fit. Use "
            f'a larger flavor, with at least {least_mib} MiB.'
        )


def _size_history_server(
    daemon_mib: int | None, memory_mib: int
) -> int | None:
    """Return the heap in MiB of the JobHistory server.

    Hadoop recommends 1.2 GB for 100,000 tasks that it has loaded (release note
    of MAPREDUCE-6622): a sort of 30 TB has 112,000 map tasks.

    :param daemon_mib: heap of a daemon; None for that of the guest image.
    :param memory_mib: memory in MiB of the controller, or of a worker if that
        is unknown.
    :returns: None for that of the guest image.
    """
    if daemon_mib is None:
        return None
    return max(daemon_mib, min(_HISTORY_MIB, memory_mib // 9))


def _size_master_node(
    master_mib: int, controller_mib: int, daemons_mib: int, allocation_mib: int
) -> int:
    """Return the memory in MiB of the NodeManager on the controller.

    It is what the controller has besides its operating system and four
    daemons, so that the ApplicationMaster of a large job fits, and never less
    than one ApplicationMaster needs. YARN rounds requests up to a multiple of
    the smallest allocation: a part of it would be of no use, and a request for
    it would wait for ever.

    :param master_mib: memory of the container of an ApplicationMaster; 0 if
        it runs on a worker.
    :param controller_mib: memory of the controller; 0 if it is unknown.
    :param daemons_mib: memory of the four daemons.
    :param allocation_mib: smallest allocation of YARN.
    """
    if not (master_mib and controller_mib):
        return 0
    room = controller_mib - _SYSTEM_MIB - daemons_mib
    return max(master_mib, room - room % max(1, allocation_mib))


def count_tasks(containers: int, tuning: str) -> int:
    """Return the number of map tasks (and of reduce tasks) that run at once.

    vsphere6, Table 1: as many map tasks as reduce tasks, with separate slots
    for each kind. vsan, Table 6: one less than the number of containers.

    :param containers: number of containers of the cluster.
    :param tuning: tuning profile.
    :raises hvstack.errors.InputError: the tuning profile does not exist.
    """
    spare = tuning_profiles.load(tuning).sizing.spare
    return max(1, containers // 2 if spare is None else containers - spare)


def has_own_tasks(tuning: str) -> bool:
    """Return whether each platform gets as many tasks as fill it.

    :param tuning: tuning profile.
    :raises hvstack.errors.InputError: the tuning profile does not exist.
    """
    return tuning_profiles.load(tuning).sizing.own_tasks


def has_whole_waves(tuning: str) -> bool:
    """Return whether tasks fill all containers in whole waves.

    :param tuning: tuning profile.
    :raises hvstack.errors.InputError: the tuning profile does not exist.
    """
    return tuning_profiles.load(tuning).sizing.whole_waves


def sort_buffer_mib(block_mib: int, spill: float) -> int:
    """Return the size in MiB of a sort buffer for all records of a block.

    amd, 3.1.6: the buffer has space for data and metadata, and a reserve, so
    that a map task spills once, at its end.

    :param block_mib: size in MiB of the HDFS block that a map task reads.
    :param spill: ``mapreduce.map.sort.spill.percent``.
    """
    return math.ceil(block_mib * _BUFFERED_RECORD / _RECORD / spill)
