# SPDX-License-Identifier: Apache-2.0
"""Tuning profiles: properties of Hadoop and sizes of containers.

Each profile is a YAML file in ``hvstack/share/hadoop/tuning``. The profiles
``vsphere6``, ``vsan`` and ``amd`` contain every non-default property of a
paper: "Virtualized Hadoop Performance with VMware vSphere 6", "Hyper-Converged
Big Data Using Hadoop with All-Flash VMware vSAN" and the "Hadoop Performance
Tuning Guide". Settings of the operating system are in
:mod:`hvstack.hadoop.os_profiles`.
"""

import functools
from dataclasses import dataclass, field, replace

from hvstack import share, yamlfile
from hvstack.hadoop import profile_files
from hvstack.model.strict_mapping import to_dataclass

_DIRECTORY = share.HADOOP / 'tuning'
_GROUPS = share.HADOOP / 'property-groups.yaml'


@dataclass(frozen=True)
class HadoopProperty:
    """A property in a paper, and its equivalent in Hadoop 3.5.

    :param source: section or table of the paper; for a property that hvstack
        adds, its purpose.
    :param reason: purpose of the value, or why the property was removed, is
        not set, or differs from the paper.
    :param paper_name: name in the paper; empty for a property that hvstack
        adds.
    :param paper_value: value in the paper; empty if the paper has no value.
    :param site: file that contains the property in Hadoop 3.5.
    :param name: name in Hadoop 3.5; empty if the property was removed.
    :param value: value for a cluster; None if the cluster keeps Hadoop's
        default, or another component or a formula sets it.
    :param formula: name of the function in
        :data:`hvstack.hadoop.properties.FORMULAS` that computes the value.
    :param needs: what Hadoop needs for the property to have an effect:
        ``libhadoop``, or nothing.
    """

    source: str
    reason: str
    paper_name: str = ''
    paper_value: str = ''
    site: str = ''
    name: str = ''
    value: str | None = None
    formula: str = ''
    needs: str = ''


@dataclass(frozen=True)
class SizingRule:
    """Rule by which a tuning profile divides a worker into containers.

    Containers come in groups, as MapReduce 1 had slots for map tasks and
    slots for reduce tasks.

    :param containers: containers of a group in units of memory: the first is
        the container of a map task, the last that of a reduce task.
    :param largest_mib: largest unit in MiB.
    :param share: fraction of the memory without the daemons that containers
        use; the remainder is page cache.
    :param heap: fraction of a reduce task's container for its Java heap.
    :param map_heap: fraction of a map task's container for its Java heap.
    :param sort: fraction of a map task's heap for its sort buffer.
    :param max_sort_mib: largest sort buffer in MiB.
    :param groups: number of groups of a worker; None computes it from the
        CPUs.
    :param groups_per_cpu: number of groups per CPU.
    :param groups_by_cpus: number of groups for some numbers of CPUs.
    :param native_groups_by_cpus: the same for bare-metal hosts, if it differs.
    :param smallest_mib: smallest unit in MiB, which has room for a sort task.
    :param daemon_mib: Java heap of each daemon in MiB, at most a ninth of
        the memory of the node; None uses that of the guest image.
    :param small_jvms: whether JVMs use the serial collector and only the first
        compiler, which suits hosts with little memory and short runs.
    :param own_tasks: whether each platform of a comparison gets as many tasks
        as fill it, as in the paper; otherwise, all platforms get the number
        of tasks that fills bare metal.
    :param spare: number of containers of a cluster that no task uses if a job
        runs all its map tasks (or reduce tasks) at once; None for half of the
        containers.
    :param master_share: memory of the ApplicationMaster's container as a
        fraction of a task's container, less than 1. The ApplicationMaster
        then runs on the controller, so that it takes nothing from a worker;
        None if it uses a task's container on a worker.
    :param whole_waves: whether tasks fill all containers in whole waves,
        instead of the number of tasks of a paper.
    """

    containers: tuple[int, ...]
    largest_mib: int
    share: float
    heap: float
    map_heap: float
    sort: float
    max_sort_mib: int
    groups: int | None = None
    groups_per_cpu: float = 1
    groups_by_cpus: dict[int, int] = field(default_factory=dict)
    native_groups_by_cpus: dict[int, int] = field(default_factory=dict)
    smallest_mib: int = 512
    daemon_mib: int | None = None
    small_jvms: bool = False
    own_tasks: bool = False
    spare: int | None = None
    master_share: float | None = None
    whole_waves: bool = False

    def count_groups(self, vcpus: int, native: bool) -> int:
        """Return the number of groups of a worker.

        :param vcpus: number of CPUs that the worker reports.
        :param native: whether the worker is a bare-metal host.
        """
        if self.groups is not None:
            return self.groups
        groups_by_cpus = self.groups_by_cpus
        if native:
            groups_by_cpus = groups_by_cpus | self.native_groups_by_cpus
        default = max(1, int(vcpus * self.groups_per_cpu))
        return groups_by_cpus.get(vcpus, default)


@dataclass(frozen=True)
class TuningProfile:
    """Settings of Hadoop that are selected as a whole.

    :param sizing: rule for the sizes of containers.
    :param block_mib: HDFS block size in MiB on small workers.
    :param groups: names of the groups of properties that hvstack adds.
    :param properties: other properties of the profile.
    :param largest_block_mib: HDFS block size in MiB on larger workers, and the
        largest block of a run's files; a smaller file is a single block. None
        for ``block_mib``.
    """

    sizing: SizingRule
    block_mib: int
    groups: tuple[str, ...]
    properties: tuple[HadoopProperty, ...]
    largest_block_mib: int | None = None

    @property
    def max_block_mib(self) -> int:
        """HDFS block size in MiB on larger workers."""
        return self.largest_block_mib or self.block_mib

    @property
    def native_settings(self) -> list[str]:
        """Settings without effect where nodes have no libhadoop."""
        return [
            f'{row.name}={row.value}'
            for row in self.all_properties
            if row.needs == 'libhadoop'
        ]

    @property
    def sampled_keys(self) -> int:
        """Number of keys that TeraSort samples, by default 100,000."""
        return self._get_int(
            'mapreduce.terasort.partitions.sample', default=100_000
        )

    @property
    def disk_reserve_bytes(self) -> int:
        """Bytes of each disk that HDFS leaves free, by default 1 GiB.

        It writes a block to a disk with more free space than these bytes and
        those of the block.
        """
        return self._get_int(
            'dfs.datanode.round-robin-volume-choosing-policy'
            '.additional-available-space',
            default=2**30,
        )

    def _get_int(self, name: str, *, default: int) -> int:
        """Return the value of a property, or Hadoop's default.

        :param name: name of the property.
        :param default: value if the profile does not set the property.
        """
        values = [
            int(row.value)
            for row in self.all_properties
            if row.name == name and row.value
        ]
        return values[-1] if values else default

    @property
    def all_properties(self) -> tuple[HadoopProperty, ...]:
        """Properties of the groups, then those of the profile."""
        groups = _load_groups().groups
        return (
            *(row for name in self.groups for row in groups[name]),
            *self.properties,
        )


@dataclass(frozen=True)
class _Step:
    """A tuning profile with the first sections of another profile.

    :param base: name of the other profile.
    :param last_section: last section whose properties apply.
    :param containers: ``containers`` of the sizing rule.
    :param block_mib: ``block_mib`` of the profile.
    """

    base: str
    last_section: str
    containers: tuple[int, ...]
    block_mib: int


@dataclass(frozen=True)
class _Variant:
    """A tuning profile with other JVMs than another profile.

    :param base: name of the other profile.
    :param small_jvms: as in the sizing rule.
    :param properties: properties that replace those of the base.
    """

    base: str
    small_jvms: bool
    properties: tuple[HadoopProperty, ...]


@dataclass(frozen=True)
class _Groups:
    groups: dict[str, tuple[HadoopProperty, ...]]


def list_names() -> list[str]:
    """Return the names of all tuning profiles."""
    return profile_files.list_names(_DIRECTORY)


@functools.cache
def load(name: str) -> TuningProfile:
    """Return a tuning profile.

    :param name: name of the tuning profile.
    :raises hvstack.errors.InputError: the tuning profile does not exist.
    """
    document = profile_files.read(_DIRECTORY, name, 'tuning')
    if 'small_jvms' in document.data:
        variant = to_dataclass(
            _Variant, document.data, document.source_location()
        )
        profile = load(variant.base)
        names = {row.name for row in variant.properties}
        return replace(
            profile,
            sizing=replace(profile.sizing, small_jvms=True, daemon_mib=None),
            properties=(
                *(row for row in profile.properties if row.name not in names),
                *variant.properties,
            ),
        )
    if 'base' in document.data:
        step = to_dataclass(_Step, document.data, document.source_location())
        profile = load(step.base)
        return replace(
            profile,
            sizing=replace(profile.sizing, containers=step.containers),
            block_mib=step.block_mib,
            properties=tuple(
                row
                for row in profile.properties
                if row.source <= step.last_section
            ),
        )
    return to_dataclass(
        TuningProfile, document.data, document.source_location()
    )


@functools.cache
def _load_groups() -> _Groups:
    document = yamlfile.load(_GROUPS, packaged=True)
    return to_dataclass(_Groups, document.data, document.source_location())
