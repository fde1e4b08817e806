# SPDX-License-Identifier: Apache-2.0
"""Formulas for the values of Hadoop's properties.

The properties are in :mod:`hvstack.hadoop.tuning_profiles`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hvstack.hadoop.sizing import NodeSizing, sort_buffer_mib
from hvstack.hadoop.tuning_profiles import HadoopProperty

CORE = 'core-site.xml'
HDFS = 'hdfs-site.xml'
YARN = 'yarn-site.xml'
MAPRED = 'mapred-site.xml'
#: Hadoop reflects into java.lang, which Java 17 keeps closed.
ADD_OPENS = '--add-opens=java.base/java.lang=ALL-UNNAMED'


@dataclass(frozen=True)
class Facts:
    """Values from which formulas compute properties.

    :param sizing: size of a worker.
    :param replication: number of replicas of input and output.
    :param block_mib: HDFS block size in MiB.
    """

    sizing: NodeSizing
    replication: int
    block_mib: int


Formula = Callable[[Facts], str]


def replication(facts: Facts) -> str:
    """As the benchmark asks, 3 on three or more hosts."""
    return str(facts.replication)


def block_bytes(facts: Facts) -> str:
    """256 MiB, 64 in hvstack's own for small workers; a run sets its own."""
    return str(facts.block_mib * 1024 * 1024)


def containers(facts: Facts) -> str:
    """Containers of a worker."""
    return str(facts.sizing.containers)


def container_mib(facts: Facts) -> str:
    """MiB of a container for a reduce task."""
    return str(facts.sizing.container_mib)


def map_mib(facts: Facts) -> str:
    """MiB of a container for a map task."""
    return str(facts.sizing.map_mib)


def assignments(facts: Facts) -> str:
    """Eighth of the containers of a worker, at least 1."""
    return str(max(1, facts.sizing.containers // 8))


def allocation_mib(facts: Facts) -> str:
    """MiB of which all containers are multiples."""
    return str(facts.sizing.allocation_mib)


def master_mib(facts: Facts) -> str:
    """MiB of the container of the ApplicationMaster."""
    return str(facts.sizing.master_container_mib)


def sort_mib(facts: Facts) -> str:
    """Share of the heap of a map task."""
    return str(facts.sizing.sort_mib)


def block_buffer_mib(facts: Facts) -> str:
    """Metadata and data records of a block, at most half the map heap."""
    whole = sort_buffer_mib(facts.block_mib, spill=0.99)
    return str(min(whole, facts.sizing.sort_mib))


def parallel_copies(facts: Facts) -> str:
    """20, or 5 with one map and one reduce a worker."""
    return '20' if facts.sizing.containers > 2 else '5'


def daemon_heap(facts: Facts) -> str:
    """1300 MiB, at most a ninth of the node."""
    return str(facts.sizing.daemon_mib or '')


def list_common_options(processors: int) -> str:
    """Return the options of every JVM that runs in a container.

    :param processors: number of processors that the JVM uses.
    """
    # Without this option Java counts the CPUs of the host, and it counts them
    # differently with CPU quotas and with CPU shares.
    return (
        f'-XX:ActiveProcessorCount={processors} '
        '-Djava.net.preferIPv4Stack=true'
    )


def _every_jvm(facts: Facts) -> str:
    return list_common_options(facts.sizing.processors)


def small_jvm(facts: Facts) -> str:
    """Heap, serial collector, first compiler, class data sharing."""
    return _small_jvm(facts.sizing.heap_mib, facts)


def small_master_jvm(facts: Facts) -> str:
    """Heap of the ApplicationMaster, else as the other small JVMs."""
    return _small_jvm(facts.sizing.master_heap_mib, facts)


def _small_jvm(heap_mib: int, facts: Facts) -> str:
    return (
        f'-Xmx{heap_mib}m -XX:+UseSerialGC '
        f'-XX:TieredStopAtLevel=1 {_fast(facts)}'
    )


def _fast(facts: Facts) -> str:
    return (
        f'{_every_jvm(facts)} {ADD_OPENS} '
        # The class data sharing archive of the image needs a class path that
        # begins with its jar. Without these files Java starts normally.
        '-XX:SharedArchiveFile=/opt/hadoop/hadoop.jsa '
        '-cp /opt/hadoop/hadoop.jar:$CLASSPATH'
    )


def task_jvm(facts: Facts) -> str:
    """Heap and serial collector: there are as many tasks as CPUs."""
    return f'-Xmx{facts.sizing.heap_mib}m -XX:+UseSerialGC {_fast(facts)}'


def large_master_jvm(facts: Facts) -> str:
    """Heap by the container, and the collector that Java selects."""
    return f'-Xmx{facts.sizing.master_heap_mib}m {_fast(facts)}'


def node_mib(facts: Facts) -> str:
    """Memory of the largest NodeManager."""
    return str(facts.sizing.largest_mib)


def no_heap_jvm(facts: Facts) -> str:
    """No heap: Hadoop takes 0.8 of the container."""
    return _every_jvm(facts)


def master_jvm(facts: Facts) -> str:
    """Heap by the container."""
    return f'-Xmx{facts.sizing.master_heap_mib}m {_every_jvm(facts)}'


def vsphere6_map_jvm(facts: Facts) -> str:
    """-Xmx and -Xms 800 MiB, -Xmn 256, less on small workers."""
    heap = facts.sizing.map_heap_mib
    return f'-Xmx{heap}m -Xms{heap}m {_vsphere6_rest(heap, facts)}'


def vsphere6_reduce_jvm(facts: Facts) -> str:
    """-Xmx 1200 MiB, -Xmn 256, less on small workers."""
    heap = facts.sizing.heap_mib
    return f'-Xmx{heap}m {_vsphere6_rest(heap, facts)}'


def _vsphere6_rest(heap: int, facts: Facts) -> str:
    # "Ensure large pages are used by the hypervisor, guest OS, and Java."
    return (
        f'-Xmn{min(256, max(1, heap // 3))}m -XX:+UseTransparentHugePages '
        f'{_every_jvm(facts)}'
    )


def amd_map_jvm(facts: Facts) -> str:
    """-Xms and -Xmx 1 GiB, less on small workers."""
    heap = facts.sizing.map_heap_mib
    return f'-Xms{heap}m -Xmx{heap}m {_every_jvm(facts)}'


def amd_reduce_jvm(facts: Facts) -> str:
    """-Xms and -Xmx 2 GiB, less on small workers."""
    heap = facts.sizing.heap_mib
    return f'-Xms{heap}m -Xmx{heap}m {_every_jvm(facts)}'


def stock_master_mib(facts: Facts) -> str:
    """Hadoop's 1536, at most all that YARN has of a worker."""
    return str(min(1536, facts.sizing.yarn_mib))


def stock_master_jvm(facts: Facts) -> str:
    """Hadoop's -Xmx1024m, at most 0.8 of its container."""
    heap = min(1024, int(0.8 * int(stock_master_mib(facts))))
    return f'-Xmx{heap}m {_every_jvm(facts)}'


#: Formulas by their names in the files of the tuning profiles; the first line
#: of the docstring describes the value.
FORMULAS: dict[str, Formula] = {
    formula.__name__: formula
    for formula in (
        replication,
        block_bytes,
        containers,
        container_mib,
        map_mib,
        allocation_mib,
        assignments,
        master_mib,
        sort_mib,
        block_buffer_mib,
        parallel_copies,
        daemon_heap,
        small_jvm,
        small_master_jvm,
        task_jvm,
        large_master_jvm,
        node_mib,
        no_heap_jvm,
        master_jvm,
        vsphere6_map_jvm,
        vsphere6_reduce_jvm,
        amd_map_jvm,
        amd_reduce_jvm,
        stock_master_mib,
        stock_master_jvm,
    )
}


def describe_value(row: HadoopProperty) -> str:
    """Return the value of a property as human-readable text.

    :param row: property; a formula is described by its docstring.
    """
    if row.formula:
        summary = (FORMULAS[row.formula].__doc__ or '').split('\n')[0]
        return summary.rstrip('.')
    return row.value or ''


def resolve_properties(
    rows: Iterable[HadoopProperty], facts: Facts
) -> dict[str, dict[str, str]]:
    """Return the values of properties, by site file and name.

    :param rows: properties; of two with the same name, the last one counts.
    :param facts: values for the formulas.
    """
    properties: dict[str, dict[str, str]] = {}
    for row in rows:
        value = FORMULAS[row.formula](facts) if row.formula else row.value
        if row.name and value is not None:
            properties.setdefault(row.site, {})[row.name] = value
    return properties
