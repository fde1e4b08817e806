# SPDX-License-Identifier: Apache-2.0
"""Hadoop's site files, the same for guests and for bare metal.

Two placeholders are filled on the node itself: ``%ADDRESS%`` and
``%HOSTNAME%``; ``%CONTROLLER%`` where the files are handed out. Nodes are
named by address throughout: tenants' networks seldom resolve names.
"""

import hashlib
from xml.sax.saxutils import escape

from hvstack.hadoop.sizing import NodeSizing

CONTROLLER = '%CONTROLLER%'
CONF = '/etc/hadoop'
CLASSPATH = ('/etc/hadoop', '/opt/hadoop', '/opt/hadoop/lib/*')
NAMENODE_PORT = 8020
CONTROLLER_ROLES = 'namenode resourcemanager historyserver'
WORKER_ROLES = 'datanode nodemanager'
#: Web interface of each controller daemon.
UI_PORTS = {'namenode': 9870, 'resourcemanager': 8088, 'historyserver': 19888}

#: HDFS with node groups (the HVE paper, "Network Topology Extension"); the
#: class names are Hadoop 3.4's.
_NODE_GROUPS = {
    'core-site.xml': {
        'net.topology.impl': 'org.apache.hadoop.net'
        '.NetworkTopologyWithNodeGroup',
    },
    'hdfs-site.xml': {
        # The default would put DFSNetworkTopology in the place of ours.
        'dfs.use.dfs.network.topology': 'false',
        'dfs.block.replicator.classname': 'org.apache.hadoop.hdfs.server'
        '.blockmanagement.BlockPlacementPolicyWithNodeGroup',
    },
}


def sites(
    sizing: NodeSizing,
    *,
    controller: str = CONTROLLER,
    replication: int = 3,
    node_groups: bool = True,
    block_mib: int = 64,
) -> dict[str, str]:
    """Return the site files of a cluster, by name.

    :param sizing: of its workers.
    :param controller: address of NameNode and ResourceManager.
    :param replication: of input and output.
    :param node_groups: keep replicas of a block on different hosts.
    :param block_mib: HDFS' block size; vsphere6 has 256, a small data set
        needs smaller ones to occupy every container.
    """
    values = _values(sizing, controller, replication, block_mib)
    if node_groups:
        for name, more in _NODE_GROUPS.items():
            values[name] |= more
    return {name: _xml(properties) for name, properties in values.items()}


def _values(
    sizing: NodeSizing, controller: str, replication: int, block_mib: int
) -> dict[str, dict[str, str]]:
    java = (
        f'-Xmx{sizing.heap_mib}m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 '
        f'-XX:ActiveProcessorCount={sizing.processors} '
        '-Djava.net.preferIPv4Stack=true '
        '--add-opens=java.base/java.lang=ALL-UNNAMED'
    )
    container = str(sizing.container_mib)
    return {
        'core-site.xml': {
            'fs.defaultFS': f'hdfs://{controller}:{NAMENODE_PORT}',
            'fs.trash.interval': '0',
            # vsphere6, appendix A.
            'io.file.buffer.size': '131072',
            'hadoop.tmp.dir': '/srv/hdfs/tmp',
            'hadoop.http.staticuser.user': 'root',
            'net.topology.node.switch.mapping.impl': 'org.apache.hadoop.net'
            '.TableMapping',
            # A relative path would put every node into /default-rack.
            'net.topology.table.file.name': f'{CONF}/topology.table',
        },
        'hdfs-site.xml': {
            'dfs.replication': str(replication),
            'dfs.blocksize': str(block_mib * 1024 * 1024),
            'dfs.namenode.name.dir': 'file:///srv/hdfs/name',
            'dfs.datanode.data.dir': 'file:///srv/hdfs/data',
            'dfs.datanode.hostname': '%ADDRESS%',
            'dfs.namenode.datanode.registration.ip-hostname-check': 'false',
            'dfs.namenode.rpc-bind-host': '0.0.0.0',  # noqa: S104
            'dfs.namenode.safemode.extension': '0',
            # vsphere6, appendix A.
            'dfs.permissions.enabled': 'false',
            'dfs.heartbeat.interval': '1',
            'dfs.namenode.redundancy.interval.seconds': '1s',
            # A dead DataNode is known after 2 x 5 s + 10 heartbeats.
            'dfs.namenode.heartbeat.recheck-interval': '5000',
            'dfs.datanode.max.transfer.threads': '4096',
        },
        'yarn-site.xml': {
            'yarn.resourcemanager.hostname': controller,
            'yarn.resourcemanager.bind-host': '0.0.0.0',  # noqa: S104
            # Workers may be there before the controller is.
            'yarn.resourcemanager.connect.retry-interval.ms': '1000',
            'yarn.nodemanager.hostname': '%ADDRESS%',
            'yarn.nm.liveness-monitor.expiry-interval-ms': '20000',
            'yarn.nodemanager.aux-services': 'mapreduce_shuffle',
            'yarn.nodemanager.resource.memory-mb': str(sizing.yarn_mib),
            'yarn.nodemanager.resource.cpu-vcores': str(sizing.containers),
            'yarn.nodemanager.vmem-check-enabled': 'false',
            'yarn.nodemanager.local-dirs': '/srv/yarn/local',
            'yarn.nodemanager.log-dirs': '/srv/yarn/log',
            'yarn.nodemanager.disk-health-checker'
            '.max-disk-utilization-per-disk-percentage': '99',
            'yarn.scheduler.minimum-allocation-mb': container,
            'yarn.scheduler.maximum-allocation-mb': container,
            'yarn.application.classpath': ','.join(CLASSPATH),
            'yarn.log-aggregation-enable': 'false',
            'yarn.timeline-service.enabled': 'false',
        },
        'mapred-site.xml': {
            'mapreduce.framework.name': 'yarn',
            'mapreduce.application.classpath': ':'.join(CLASSPATH),
            'mapreduce.jobhistory.address': f'{controller}:10020',
            'mapreduce.jobhistory.webapp.address': f'{controller}:19888',
            'mapreduce.jobhistory.jhist.format': 'json',
            'mapreduce.map.memory.mb': container,
            'mapreduce.reduce.memory.mb': container,
            'mapreduce.map.java.opts': java,
            'mapreduce.reduce.java.opts': java,
            'yarn.app.mapreduce.am.resource.mb': container,
            'yarn.app.mapreduce.am.command-opts': java,
            'mapreduce.task.io.sort.mb': str(sizing.sort_mib),
            # vsphere6, appendix A: io.sort.factor, compression of map
            # output, no speculation.
            'mapreduce.task.io.sort.factor': '64',
            # amd, section 3.1.6: one spill a map task, so let the buffer
            # fill nearly to its capacity.
            'mapreduce.map.sort.spill.percent': '0.95',
            'mapreduce.map.output.compress': 'true',
            'mapreduce.map.output.compress.codec': 'org.apache.hadoop.io'
            '.compress.SnappyCodec',
            'mapreduce.map.speculative': 'false',
            'mapreduce.reduce.speculative': 'false',
            # With YARN's one pool of containers, reduce tasks that start
            # early keep map tasks out of it.
            'mapreduce.job.reduce.slowstart.completedmaps': '0.9',
            'mapreduce.job.ubertask.enable': 'false',
            # The default of 10 is more than small clusters have nodes, and
            # would keep the NameNode looking for room for replicas.
            'mapreduce.client.submit.file.replication': str(replication),
            # Stock TeraSort writes its output once.
            'mapreduce.terasort.output.replication': str(replication),
            'mapreduce.terasort.use.terascheduler': 'false',
        },
    }


def profile(replication: int) -> str:
    """Return a name for the settings that do not follow a node's size.

    Runs with other settings do not compare; what follows the size is what
    configurations differ in.
    """
    same = sites(NodeSizing(1, 1, 1, 1, 1), replication=replication)
    text = ''.join(same[name] for name in sorted(same))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _xml(properties: dict[str, str]) -> str:
    rows = ''.join(
        f'<property><name>{escape(name)}</name>'
        f'<value>{escape(value)}</value></property>\n'
        for name, value in sorted(properties.items())
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{rows}</configuration>\n'


def node_env(roles: str, processors: int) -> str:
    """Return ``/etc/hvstack/node.env`` of a node.

    :param roles: daemons that the node runs, with spaces between.
    :param processors: what its JVMs are told.
    """
    return f'ROLES="{roles}"\nJAVA_PROCESSORS={processors}\n'
