# SPDX-License-Identifier: Apache-2.0
"""Every non-default Hadoop property of the papers, and the tuning profiles.
vsphere6 is "Virtualized Hadoop Performance with VMware vSphere 6", vsan
"Hyper-Converged Big Data Using Hadoop with All-Flash VMware vSAN", amd the
"Hadoop Performance Tuning Guide". Settings of the operating system are in
:mod:`hvstack.hadoop.os_profiles`.
"""

from hvstack.hadoop import properties as f
from hvstack.hadoop.properties import (
    CORE,
    ENV,
    HDFS,
    JVM,
    MAPRED,
    SCHEDULER,
    YARN,
    HadoopProperty,
    Table,
)
from hvstack.hadoop.sizing import AMD_STEPS

_CODEC = 'org.apache.hadoop.io.compress.SnappyCodec'
_JOBTRACKER = 'the JobTracker is gone'
_TASKTRACKER = 'the TaskTracker is gone'
_PER_JOB = 'every job is given its own: one wave on all containers'
_SLOTS = 'YARN has one pool of containers: they are sized for both kinds'
_NO_REUSE = 'YARN starts a JVM for every task'
_ONE_BUFFER = 'records and metadata share one buffer (MAPREDUCE-64)'
_FOLDERS = 'one folder on every data disk, by the set-up of the node'
_NAMED = "the paper names it without a value: Hadoop's default stays"


def _same(
    site: str, name: str, value: str, reason: str = ''
) -> HadoopProperty:
    """Return a property that has the same name and value in Hadoop 3.5."""
    return HadoopProperty(name, value, site, name, value, reason)


def _own(
    site: str, name: str, value: str | f.Formula, reason: str
) -> HadoopProperty:
    """Return a property that hvstack adds."""
    return HadoopProperty('', '', site, name, value, reason)


VSPHERE6: Table = {
    'appendix A, hadoop-env.sh': (
        HadoopProperty(
            'HADOOP_HEAPSIZE',
            '1300',
            ENV,
            'HADOOP_HEAPSIZE_MAX',
            f.daemon_heap,
            "the guest image's daemons take it by role: HEAP_namenode, ...",
        ),
    ),
    'appendix A, core-site.xml': (
        _same(CORE, 'io.file.buffer.size', '131072'),
        HadoopProperty(
            'terasort.partitions.sample',
            '2000000',
            MAPRED,
            'mapreduce.terasort.partitions.sample',
            '2000000',
        ),
        HadoopProperty(
            'topology.script.file.name',
            '<path>/topology.sh',
            CORE,
            'net.topology.script.file.name',
            None,
            'every cluster has one, which reads a table: '
            '/usr/lib/hvstack/place',
        ),
    ),
    'appendix A, hdfs-site.xml': (
        _same(HDFS, 'dfs.datanode.max.transfer.threads', '4096'),
        HadoopProperty(
            'dfs.replication',
            '3 (final = true)',
            HDFS,
            'dfs.replication',
            f.replication,
        ),
        HadoopProperty(
            'dfs.blocksize', '268435456', HDFS, 'dfs.blocksize', f.block_bytes
        ),
        _same(HDFS, 'dfs.datanode.readahead.bytes', '4194304'),
        _same(HDFS, 'dfs.datanode.drop.cache.behind.writes', 'true'),
        _same(HDFS, 'dfs.datanode.sync.behind.writes', 'true'),
        _same(HDFS, 'dfs.datanode.drop.cache.behind.reads', 'true'),
        _same(HDFS, 'dfs.permissions.enabled', 'false'),
        HadoopProperty(
            'dfs.namenode.handler.count',
            '1',
            HDFS,
            'dfs.namenode.handler.count',
            None,
            'a way around HDFS-7122: an option, not the default',
        ),
        _same(HDFS, 'dfs.heartbeat.interval', '1'),
        HadoopProperty(
            'dfs.namenode.replication.interval',
            '1',
            HDFS,
            'dfs.namenode.redundancy.interval.seconds',
            '1s',
        ),
        _same(HDFS, 'dfs.blockreport.intervalMsec', '21600000'),
    ),
    'appendix A, mapred-site.xml': (
        HadoopProperty(
            'mapreduce.framework.name',
            'classic',
            MAPRED,
            'mapreduce.framework.name',
            'yarn',
            'MapReduce 1 is gone',
        ),
        HadoopProperty(
            'mapred.local.dir',
            '<list of directories>',
            YARN,
            'yarn.nodemanager.local-dirs',
            None,
            _FOLDERS,
        ),
        HadoopProperty(
            'mapred.system.dir', '/system/mapred', reason=_JOBTRACKER
        ),
        HadoopProperty(
            'mapred.map.tasks',
            'Table 1',
            MAPRED,
            'mapreduce.job.maps',
            None,
            _PER_JOB,
        ),
        HadoopProperty(
            'mapred.reduce.tasks',
            'Table 1',
            MAPRED,
            'mapreduce.job.reduces',
            None,
            _PER_JOB,
        ),
        HadoopProperty(
            'mapred.tasktracker.map.tasks.maximum', 'Table 1', reason=_SLOTS
        ),
        HadoopProperty(
            'mapred.tasktracker.reduce.tasks.maximum', 'Table 1', reason=_SLOTS
        ),
        HadoopProperty(
            'mapred.map.child.java.opts',
            '-Xmx800m -Xms800m -Xmn256m',
            MAPRED,
            'mapreduce.map.java.opts',
            f.vsphere6_map_jvm,
        ),
        HadoopProperty(
            'mapred.reduce.child.java.opts',
            '-Xmx1200m -Xmn256m',
            MAPRED,
            'mapreduce.reduce.java.opts',
            f.vsphere6_reduce_jvm,
        ),
        HadoopProperty(
            'mapred.child.ulimit',
            '4000000',
            reason="the NodeManager checks a container's memory itself",
        ),
        HadoopProperty(
            'mapred.jobtracker.taskScheduler',
            'org.apache.hadoop.mapred.FairScheduler',
            YARN,
            'yarn.resourcemanager.scheduler.class',
            None,
            'one job alone has nothing to share: the CapacityScheduler '
            'stays, whose locality delay is tried with node groups',
        ),
        HadoopProperty(
            'mapred.fairscheduler.locality.delay',
            '100',
            SCHEDULER,
            'yarn.scheduler.capacity.node-locality-delay',
            None,
            'counts missed chances, not milliseconds; 40 in the guest image',
        ),
        HadoopProperty(
            'mapred.map.tasks.speculative.execution',
            'false',
            MAPRED,
            'mapreduce.map.speculative',
            'false',
        ),
        HadoopProperty(
            'mapred.reduce.tasks.speculative.execution',
            'false',
            MAPRED,
            'mapreduce.reduce.speculative',
            'false',
        ),
        HadoopProperty(
            'mapred.job.reuse.jvm.num.tasks', '-1', reason=_NO_REUSE
        ),
        HadoopProperty(
            'mapred.reduce.parallel.copies',
            '20 (20-VMs per host: 5)',
            MAPRED,
            'mapreduce.reduce.shuffle.parallelcopies',
            f.parallel_copies,
        ),
        HadoopProperty(
            'mapred.reduce.slowstart.completed.maps',
            '0',
            MAPRED,
            'mapreduce.job.reduce.slowstart.completedmaps',
            '0',
        ),
        HadoopProperty(
            'mapred.job.tracker.handler.count', '10', reason=_JOBTRACKER
        ),
        HadoopProperty(
            'io.sort.factor',
            '64',
            MAPRED,
            'mapreduce.task.io.sort.factor',
            '64',
        ),
        HadoopProperty(
            'io.sort.mb',
            '400',
            MAPRED,
            'mapreduce.task.io.sort.mb',
            f.sort_mib,
            'half of a map task of 800 MiB',
        ),
        HadoopProperty('io.sort.record.percent', '0.15', reason=_ONE_BUFFER),
        HadoopProperty(
            'mapred.task.timeout',
            '300000',
            MAPRED,
            'mapreduce.task.timeout',
            '300000',
        ),
        HadoopProperty(
            'mapred.tasktracker.shuffle.fadvise',
            'true',
            MAPRED,
            'mapreduce.shuffle.manage.os.cache',
            'true',
        ),
        _same(MAPRED, 'mapreduce.ifile.readahead.bytes', '16777216'),
        HadoopProperty(
            'tasktracker.http.threads',
            '120',
            MAPRED,
            'mapreduce.shuffle.max.threads',
            '120',
        ),
        HadoopProperty(
            'mapred.inmem.merge.threshold',
            '0',
            MAPRED,
            'mapreduce.reduce.merge.inmem.threshold',
            '0',
        ),
        HadoopProperty(
            'mapred.job.shuffle.merge.percent',
            '0.95',
            MAPRED,
            'mapreduce.reduce.shuffle.merge.percent',
            '0.95',
        ),
        HadoopProperty(
            'mapred.job.shuffle.input.buffer.percent',
            '0.75',
            MAPRED,
            'mapreduce.reduce.shuffle.input.buffer.percent',
            '0.75',
        ),
        HadoopProperty(
            'mapreduce.tasktracker.outofband.heartbeat',
            'true',
            reason='a NodeManager reports a container that ended at once',
        ),
        HadoopProperty(
            'mapred.task.cache.levels',
            '3 (native and 1-VM per host platforms: 2)',
            reason='an ApplicationMaster asks for node, rack and any at once',
        ),
        HadoopProperty(
            'mapred.job.reduce.input.buffer.percent',
            '0.7',
            MAPRED,
            'mapreduce.reduce.input.buffer.percent',
            '0.7',
        ),
        HadoopProperty(
            'mapred.compress.map.output',
            'true',
            MAPRED,
            'mapreduce.map.output.compress',
            'true',
        ),
        HadoopProperty(
            'mapred.map.output.compression.codec',
            _CODEC,
            MAPRED,
            'mapreduce.map.output.compress.codec',
            _CODEC,
        ),
        HadoopProperty(
            'mapred.jobtracker.completeuserjobs.maximum',
            '1',
            reason=f'{_JOBTRACKER}; the JobHistory server keeps jobs',
        ),
    ),
}

VSAN: Table = {
    'Table 3': (
        HadoopProperty(
            'dfs.blocksize', '256 MiB', HDFS, 'dfs.blocksize', f.block_bytes
        ),
        HadoopProperty(
            'dfs.client.use.datanode.hostname',
            'TRUE',
            HDFS,
            'dfs.client.use.datanode.hostname',
            'true',
        ),
        HadoopProperty(
            'mapreduce.task.io.sort.mb',
            '400 MiB',
            MAPRED,
            'mapreduce.task.io.sort.mb',
            f.sort_mib,
            '400, at most half of a map task',
        ),
        HadoopProperty(
            'yarn.scheduler.minimum-allocation-mb',
            '2 GiB',
            YARN,
            'yarn.scheduler.minimum-allocation-mb',
            f.map_mib,
            'the CapacityScheduler rounds up to a multiple of it: 2 GiB '
            'would make 4 of 2.1',
        ),
        HadoopProperty(
            'mapreduce.map.memory.mb',
            '2.1 GiB',
            MAPRED,
            'mapreduce.map.memory.mb',
            f.map_mib,
        ),
        HadoopProperty(
            'mapreduce.reduce.memory.mb',
            '2.1 GiB',
            MAPRED,
            'mapreduce.reduce.memory.mb',
            f.container_mib,
        ),
        _same(MAPRED, 'mapreduce.map.cpu.vcores', '1'),
        _same(MAPRED, 'mapreduce.reduce.cpu.vcores', '1'),
        _same(MAPRED, 'mapreduce.job.heap.memory-mb.ratio', '0.8'),
    ),
}

AMD: Table = {
    '2.4.2': (
        HadoopProperty(
            'mapred.task.timeout',
            '',
            MAPRED,
            'mapreduce.task.timeout',
            None,
            _NAMED,
        ),
        HadoopProperty(
            'dfs.socket.timeout',
            '',
            HDFS,
            'dfs.client.socket-timeout',
            None,
            _NAMED,
        ),
        HadoopProperty(
            'dfs.datanode.socket.write.timeout',
            '',
            HDFS,
            'dfs.datanode.socket.write.timeout',
            None,
            _NAMED,
        ),
    ),
    '3.1.1': (
        HadoopProperty(
            'mapred.map.tasks',
            '',
            MAPRED,
            'mapreduce.job.maps',
            None,
            _PER_JOB,
        ),
        HadoopProperty(
            'mapred.tasktracker.map.tasks.maximum',
            '2 a core, at the end (3.1.8) 1',
            reason=_SLOTS,
        ),
        HadoopProperty(
            'mapred.reduce.tasks',
            '',
            MAPRED,
            'mapreduce.job.reduces',
            None,
            _PER_JOB,
        ),
        HadoopProperty(
            'mapred.tasktracker.reduce.tasks.maximum',
            '1 a core',
            reason=_SLOTS,
        ),
        HadoopProperty(
            'mapred.map.child.java.opts',
            '1GB of initial and max Java heap',
            MAPRED,
            'mapreduce.map.java.opts',
            f.amd_map_jvm,
        ),
        HadoopProperty(
            'mapred.reduce.child.java.opts',
            "1GB, at the end (3.1.8) with the second map's besides",
            MAPRED,
            'mapreduce.reduce.java.opts',
            f.amd_reduce_jvm,
        ),
    ),
    '3.1.2': (
        HadoopProperty(
            'mapred.local.dir',
            '',
            YARN,
            'yarn.nodemanager.local-dirs',
            None,
            _FOLDERS,
        ),
        HadoopProperty(
            'dfs.name.dir',
            '',
            HDFS,
            'dfs.namenode.name.dir',
            None,
            'one folder on the controller',
        ),
        HadoopProperty(
            'dfs.data.dir', '', HDFS, 'dfs.datanode.data.dir', None, _FOLDERS
        ),
    ),
    '3.1.3': (
        HadoopProperty(
            'mapred.compress.map.output',
            'true',
            MAPRED,
            'mapreduce.map.output.compress',
            'true',
        ),
        HadoopProperty(
            'mapred.map.output.compression.codec',
            'LZO',
            MAPRED,
            'mapreduce.map.output.compress.codec',
            _CODEC,
            'LZO is no part of Hadoop (its licence is another)',
        ),
        HadoopProperty(
            'mapred.output.compress',
            '',
            MAPRED,
            'mapreduce.output.fileoutputformat.compress',
            None,
            'TeraSort does not compress its output',
        ),
        HadoopProperty(
            'mapred.output.compression.type',
            '',
            MAPRED,
            'mapreduce.output.fileoutputformat.compress.type',
            None,
            'TeraSort does not compress its output',
        ),
        HadoopProperty(
            'mapred.output.compression.codec',
            '',
            MAPRED,
            'mapreduce.output.fileoutputformat.compress.codec',
            None,
            'TeraSort does not compress its output',
        ),
    ),
    '3.1.4': (
        HadoopProperty(
            'mapred.job.reuse.jvm.num.tasks', '-1', reason=_NO_REUSE
        ),
    ),
    '3.1.5': (
        HadoopProperty(
            'mapred.min.split.size',
            '',
            MAPRED,
            'mapreduce.input.fileinputformat.split.minsize',
            None,
            'the block size decides a split',
        ),
        HadoopProperty(
            'dfs.block.size', '256M', HDFS, 'dfs.blocksize', f.block_bytes
        ),
        HadoopProperty(
            'mapred.max.split.size',
            '',
            MAPRED,
            'mapreduce.input.fileinputformat.split.maxsize',
            None,
            'the block size decides a split',
        ),
    ),
    '3.1.6': (
        HadoopProperty(
            'io.sort.mb',
            '316',
            MAPRED,
            'mapreduce.task.io.sort.mb',
            f.block_buffer_mib,
            'without a part kept for metadata, 306 hold 256 MiB',
        ),
        HadoopProperty('io.sort.record.percent', '0.162', reason=_ONE_BUFFER),
        HadoopProperty(
            'io.sort.spill.percent',
            '0.99',
            MAPRED,
            'mapreduce.map.sort.spill.percent',
            '0.99',
        ),
    ),
    '3.1.7': (
        HadoopProperty(
            'mapred.reduce.parallel.copies',
            '',
            MAPRED,
            'mapreduce.reduce.shuffle.parallelcopies',
            None,
            _NAMED,
        ),
        HadoopProperty(
            'tasktracker.http.threads',
            '',
            MAPRED,
            'mapreduce.shuffle.max.threads',
            None,
            _NAMED,
        ),
        HadoopProperty(
            'dfs.datanode.handler.count',
            '',
            HDFS,
            'dfs.datanode.handler.count',
            None,
            _NAMED,
        ),
        HadoopProperty(
            'dfs.namenode.handler.count',
            '',
            HDFS,
            'dfs.namenode.handler.count',
            None,
            _NAMED,
        ),
        HadoopProperty(
            'mapred.job.tracker.handler.count', '', reason=_JOBTRACKER
        ),
    ),
    '3.1.8': (
        HadoopProperty(
            'mapred.job.shuffle.input.buffer.percent',
            '0.9',
            MAPRED,
            'mapreduce.reduce.shuffle.input.buffer.percent',
            '0.9',
        ),
        HadoopProperty(
            'mapred.job.shuffle.merge.percent',
            '',
            MAPRED,
            'mapreduce.reduce.shuffle.merge.percent',
            None,
            _NAMED,
        ),
        HadoopProperty(
            'mapred.job.reduce.input.buffer.percent',
            '0.8',
            MAPRED,
            'mapreduce.reduce.input.buffer.percent',
            '0.8',
        ),
    ),
    '3.1.9': (
        HadoopProperty(
            'mapred.max.tracker.failures',
            '',
            MAPRED,
            'mapreduce.job.maxtaskfailures.per.tracker',
            None,
            'it got around MAPREDUCE-2374, which is mended',
        ),
    ),
    '3.2.1': (
        HadoopProperty(
            'AggressiveOpts',
            'on',
            reason='Java 13 and later do not start with it',
        ),
        HadoopProperty(
            'UseCompressedOops',
            'on',
            JVM,
            '-XX:+UseCompressedOops',
            None,
            "Java's default up to 32 GB of heap",
        ),
        HadoopProperty(
            'UseBiasedLocking',
            'on',
            reason='off since Java 15, without effect since 18',
        ),
    ),
}

#: Sizes of containers, which every tuning profile but stock sets.
_SIZES: Table = {
    'sizes': (
        _own(
            YARN,
            'yarn.nodemanager.resource.cpu-vcores',
            f.containers,
            'memory alone decides how many containers run',
        ),
        _own(
            YARN,
            'yarn.scheduler.minimum-allocation-mb',
            f.map_mib,
            'sizes of containers are multiples of it',
        ),
        _own(
            YARN,
            'yarn.scheduler.maximum-allocation-mb',
            f.container_mib,
            'the largest container there is',
        ),
        _own(
            MAPRED,
            'mapreduce.map.memory.mb',
            f.map_mib,
            "the tuning's rule in hvstack/hadoop/sizing.py",
        ),
        _own(
            MAPRED,
            'mapreduce.reduce.memory.mb',
            f.container_mib,
            "the tuning's rule in hvstack/hadoop/sizing.py",
        ),
        _own(
            MAPRED,
            'yarn.app.mapreduce.am.resource.mb',
            f.container_mib,
            "the default, 1536, is more than a small worker's containers",
        ),
    ),
}

#: ApplicationMaster of the tuning profiles of the papers.
_MASTER: Table = {
    'master': (
        _own(
            MAPRED,
            'yarn.app.mapreduce.am.command-opts',
            f.master_jvm,
            'it goes with the container',
        ),
    ),
}

#: Fast detection of new and failed nodes, without influence on the rates.
_FAST_FAILURE_DETECTION: Table = {
    'soon': (
        _own(
            HDFS,
            'dfs.namenode.safemode.extension',
            '0',
            'a fresh cluster need not wait',
        ),
        _own(
            HDFS,
            'dfs.namenode.heartbeat.recheck-interval',
            '5000',
            'a dead DataNode is known after 2 x 5 s + 10 heartbeats',
        ),
        _own(
            YARN,
            'yarn.resourcemanager.connect.retry-interval.ms',
            '1000',
            'workers may be there before the controller is',
        ),
        _own(
            YARN,
            'yarn.nm.liveness-monitor.expiry-interval-ms',
            '20000',
            'a dead NodeManager is known as soon as its DataNode',
        ),
    ),
}


def _select_rows(table: Table, *names: str) -> tuple[HadoopProperty, ...]:
    """Return properties by their names in the paper."""
    rows = {row.paper_name: row for rows in table.values() for row in rows}
    return tuple(rows[name] for name in names)


def _java(
    map_opts: f.Formula, reduce_opts: f.Formula, reason: str
) -> tuple[HadoopProperty, ...]:
    return (
        _own(MAPRED, 'mapreduce.map.java.opts', map_opts, reason),
        _own(MAPRED, 'mapreduce.reduce.java.opts', reduce_opts, reason),
    )


_HVSTACK: Table = {
    'vsphere6, appendix A': _select_rows(
        VSPHERE6,
        'io.file.buffer.size',
        'dfs.datanode.max.transfer.threads',
        'dfs.permissions.enabled',
        'dfs.heartbeat.interval',
        'dfs.namenode.replication.interval',
        'io.sort.factor',
        'mapred.compress.map.output',
        'mapred.map.output.compression.codec',
        'mapred.map.tasks.speculative.execution',
        'mapred.reduce.tasks.speculative.execution',
    ),
    'amd, 3.1.6': (
        HadoopProperty(
            'io.sort.spill.percent',
            '0.99',
            MAPRED,
            'mapreduce.map.sort.spill.percent',
            '0.95',
            'one spill a map task, and a little room',
        ),
    ),
    'hvstack': (
        _own(
            HDFS,
            'dfs.blocksize',
            f.block_bytes,
            '64 MiB on workers with less than 4 GiB for YARN: a small data '
            'set needs small blocks to occupy every container; a run sets '
            'its own',
        ),
        _own(CORE, 'fs.trash.interval', '0', "Hadoop's default"),
        _own(
            CORE,
            'hadoop.http.staticuser.user',
            'root',
            'daemons and jobs run as root',
        ),
        _own(YARN, 'yarn.log-aggregation-enable', 'false', "Hadoop's default"),
        _own(
            YARN, 'yarn.timeline-service.enabled', 'false', "Hadoop's default"
        ),
        *_java(
            f.small_jvm,
            f.small_jvm,
            'small JVMs start fastest and take least so',
        ),
        _own(
            MAPRED,
            'yarn.app.mapreduce.am.command-opts',
            f.small_jvm,
            'as the tasks',
        ),
        _own(
            MAPRED,
            'mapreduce.task.io.sort.mb',
            f.sort_mib,
            'class data weighs more in small heaps',
        ),
        _own(
            MAPRED,
            'mapreduce.job.reduce.slowstart.completedmaps',
            '0.9',
            "in YARN's one pool, reduces that start early keep maps out",
        ),
        _own(
            MAPRED,
            'mapreduce.job.ubertask.enable',
            'false',
            "Hadoop's default",
        ),
        _own(
            YARN,
            'yarn.scheduler.capacity.per-node-heartbeat.'
            'multiple-assignments-enabled',
            'false',
            'else the first host to say that it lives gets all tasks of a '
            'job that has fewer than there are containers',
        ),
        _own(
            YARN,
            'yarn.resourcemanager.nodemanagers.heartbeat-interval-ms',
            '250',
            'one container at a time, and no later than by default',
        ),
        _own(
            MAPRED,
            'yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms',
            '250',
            'the other half of the way to a container',
        ),
    ),
}

_STOCK: Table = {
    'needed': (
        *_java(f.no_heap_jvm, f.no_heap_jvm, 'Java must know its processors'),
        _own(
            MAPRED,
            'yarn.app.mapreduce.am.resource.mb',
            f.stock_master_mib,
            'a small worker has less than the default',
        ),
        _own(
            MAPRED,
            'yarn.app.mapreduce.am.command-opts',
            f.stock_master_jvm,
            'it goes with the container',
        ),
    )
}


#: Properties of each tuning profile, besides those that every cluster needs.
TUNINGS: dict[str, Table] = {
    'hvstack': {**_SIZES, **_FAST_FAILURE_DETECTION, **_HVSTACK},
    'vsphere6': {**_SIZES, **_MASTER, **_FAST_FAILURE_DETECTION, **VSPHERE6},
    'vsan': {
        **_SIZES,
        **_MASTER,
        **_FAST_FAILURE_DETECTION,
        'heaps': _java(
            f.no_heap_jvm, f.no_heap_jvm, 'Java must know its processors'
        ),
        **VSAN,
    },
    'amd': {**_SIZES, **_MASTER, **_FAST_FAILURE_DETECTION, **AMD},
    'stock': _STOCK,
    # Steps of the guide: each has the properties of its section and of the
    # sections before it.
    **{
        f'amd-{step}': {
            **_SIZES,
            **_MASTER,
            **_FAST_FAILURE_DETECTION,
            **{name: rows for name, rows in AMD.items() if name <= step},
        }
        for step in AMD_STEPS
    },
}

#: HDFS' block size in MiB on small workers: vsphere6 "Parameter Tuning", vsan
#: Table 3, amd 3.1.5; Hadoop's default.
BLOCK_MIB = {
    'hvstack': 64,
    'vsphere6': 256,
    'vsan': 256,
    'amd': 256,
    'stock': 128,
    **{f'amd-{step}': 256 if step >= '3.1.5' else 128 for step in AMD_STEPS},
}

#: HDFS block size in MiB on larger workers, and the largest block of a run's
#: files; a smaller file is a single block. The profile hvstack has the maximum
#: of the papers, so that large data sets have as many tasks as theirs.
LARGEST_BLOCK_MIB = {**BLOCK_MIB, 'hvstack': 256}
