# SPDX-License-Identifier: Apache-2.0
"""Hadoop's site files, the same for guests and for bare metal.

Two placeholders are filled on the node itself: ``%ADDRESS%`` and
``%HOSTNAME%``; ``%CONTROLLER%`` where the files are handed out. Nodes are
named by address throughout: tenants' networks seldom resolve names.

A site file is what every cluster needs, and what its tuning profile sets
(:mod:`hvstack.hadoop.tables`).
"""

import hashlib
from collections.abc import Mapping
from xml.sax.saxutils import escape

from hvstack.hadoop.parameters import (
    CORE,
    HDFS,
    MAPRED,
    YARN,
    Facts,
    block_bytes,
)
from hvstack.hadoop.parameters import resolve_properties as tuned
from hvstack.hadoop.sizing import DEFAULT, NodeSizing, get_rule
from hvstack.hadoop.tables import BLOCK_MIB, LARGEST_BLOCK_MIB, TUNINGS

CONTROLLER = '%CONTROLLER%'
CONF = '/etc/hadoop'
#: Looks a node's place up in the table beside the site files.
TOPOLOGY_SCRIPT = '/usr/lib/hvstack/place'
TABLE = f'{CONF}/topology.table'
CLASSPATH = ('/etc/hadoop', '/opt/hadoop', '/opt/hadoop/lib/*')
NAMENODE_PORT = 8020
CONTROLLER_ROLES = 'namenode resourcemanager historyserver'
WORKER_ROLES = 'datanode nodemanager'
#: Web interface of each controller daemon.
UI_PORTS = {'namenode': 9870, 'resourcemanager': 8088, 'historyserver': 19888}

#: A worker that gives YARN less is small, as are all of the lab's; the
#: papers' smallest (vsphere6, 20 VMs a host) gives it more.
_SMALL_MIB = 4096

#: How a node's place is looked up.
_TOPOLOGY_MAPPING = {
    CORE: {
        # Hadoop's TableMapping would read the table only once.
        'net.topology.node.switch.mapping.impl': 'org.apache.hadoop.net'
        '.ScriptBasedMapping',
        'net.topology.script.file.name': TOPOLOGY_SCRIPT,
    },
    HDFS: {
        # A node that is new waits until the table has its place.
        'dfs.namenode.reject-unresolved-dn-topology-mapping': 'true',
    },
}
#: HDFS with node groups (the HVE paper, "Network Topology Extension"); the
#: class names are Hadoop 3.4's.
_NODE_GROUPS = {
    CORE: {
        'net.topology.impl': 'org.apache.hadoop.net'
        '.NetworkTopologyWithNodeGroup',
    },
    HDFS: {
        # The default would put DFSNetworkTopology in the place of ours.
        'dfs.use.dfs.network.topology': 'false',
        'dfs.block.replicator.classname': 'org.apache.hadoop.hdfs.server'
        '.blockmanagement.BlockPlacementPolicyWithNodeGroup',
    },
}


def render_site_files(
    sizing: NodeSizing,
    *,
    controller: str = CONTROLLER,
    replication: int = 3,
    node_groups: bool = True,
    block_mib: int | None = None,
    tuning: str = DEFAULT,
    namenode_handlers: int | None = None,
    topology_mapping: Mapping[str, dict[str, str]] = _TOPOLOGY_MAPPING,
    bind: bool = False,
) -> dict[str, str]:
    """Return the site files of a cluster, by name.

    :param sizing: of its workers, by the same tuning.
    :param controller: address of NameNode and ResourceManager.
    :param replication: of input and output.
    :param node_groups: keep replicas of a block on different hosts.
    :param block_mib: HDFS' block size instead of the tuning's.
    :param tuning: one of :data:`hvstack.hadoop.tables.TUNINGS`.
    :param namenode_handlers: ``dfs.namenode.handler.count``; vsphere6 had 1
        ("Controller Daemons": a way around HDFS-7122).
    :param topology_mapping: how a node's place is looked up.
    :param bind: daemons listen on the node's address only. Shuffle and the
        ApplicationMasters have no such option in Hadoop 3.4.
    :raises hvstack.errors.InputError: no such tuning.
    """
    get_rule(tuning)
    values = _base_properties(sizing, controller, replication)
    facts = Facts(sizing, replication, block_mib or _block_mib(tuning, sizing))
    for name, more in tuned(TUNINGS[tuning], facts).items():
        if name in values:
            values[name] |= more
    if block_mib is not None:
        values[HDFS]['dfs.blocksize'] = block_bytes(facts)
    if namenode_handlers is not None:
        values[HDFS]['dfs.namenode.handler.count'] = str(namenode_handlers)
    layers = (
        topology_mapping,
        _NODE_GROUPS if node_groups else {},
        _bind_properties(controller) if bind else {},
    )
    for added in layers:
        for name, more in added.items():
            values[name] |= more
    return {
        name: _render_xml(properties) for name, properties in values.items()
    }


def _bind_properties(controller: str) -> dict[str, dict[str, str]]:
    """Return the properties by which daemons listen on one address only."""
    own = '%ADDRESS%'
    return {
        HDFS: {
            'dfs.namenode.rpc-bind-host': own,
            'dfs.namenode.http-bind-host': own,
            'dfs.datanode.address': f'{own}:9866',
            'dfs.datanode.http.address': f'{own}:9864',
            'dfs.datanode.ipc.address': f'{own}:9867',
        },
        YARN: {
            'yarn.resourcemanager.bind-host': own,
            'yarn.nodemanager.bind-host': own,
        },
        MAPRED: {
            'mapreduce.jobhistory.bind-host': own,
            'mapreduce.jobhistory.admin.address': f'{controller}:10033',
        },
    }


def _block_mib(tuning: str, sizing: NodeSizing) -> int:
    """Return HDFS' block size on workers of a size.

    Small blocks are for small data, which would else leave containers idle.
    """
    if sizing.yarn_mib < _SMALL_MIB:
        return BLOCK_MIB[tuning]
    return LARGEST_BLOCK_MIB[tuning]


def _base_properties(
    sizing: NodeSizing, controller: str, replication: int
) -> dict[str, dict[str, str]]:
    """Return what no cluster runs, or is measured, without."""
    return {
        CORE: {
            'fs.defaultFS': f'hdfs://{controller}:{NAMENODE_PORT}',
            'hadoop.tmp.dir': '/srv/hdfs/tmp',
        },
        HDFS: {
            'dfs.replication': str(replication),
            'dfs.namenode.name.dir': 'file:///srv/hdfs/name',
            # A node that finds data disks puts a folder on each in its place,
            # and so for YARN's: hvstack.hadoop.osprofiles.
            'dfs.datanode.data.dir': 'file:///srv/hdfs/data',
            'dfs.datanode.hostname': '%ADDRESS%',
            'dfs.namenode.datanode.registration.ip-hostname-check': 'false',
            'dfs.namenode.rpc-bind-host': '0.0.0.0',  # noqa: S104
        },
        YARN: {
            'yarn.resourcemanager.hostname': controller,
            'yarn.resourcemanager.bind-host': '0.0.0.0',  # noqa: S104
            'yarn.nodemanager.hostname': '%ADDRESS%',
            'yarn.nodemanager.aux-services': 'mapreduce_shuffle',
            'yarn.nodemanager.resource.memory-mb': str(sizing.yarn_mib),
            # Java 17 maps far more than it uses.
            'yarn.nodemanager.vmem-check-enabled': 'false',
            'yarn.nodemanager.local-dirs': '/srv/yarn/local',
            'yarn.nodemanager.log-dirs': '/srv/yarn/log',
            'yarn.nodemanager.disk-health-checker'
            '.max-disk-utilization-per-disk-percentage': '99',
            'yarn.application.classpath': ','.join(CLASSPATH),
        },
        MAPRED: {
            'mapreduce.framework.name': 'yarn',
            'mapreduce.application.classpath': ':'.join(CLASSPATH),
            'mapreduce.jobhistory.address': f'{controller}:10020',
            'mapreduce.jobhistory.webapp.address': f'{controller}:19888',
            'mapreduce.jobhistory.jhist.format': 'json',
            # The default of 10 is more than small clusters have nodes, and
            # would keep the NameNode looking for room for replicas.
            'mapreduce.client.submit.file.replication': str(replication),
            # Stock TeraSort writes its output once.
            'mapreduce.terasort.output.replication': str(replication),
            # It would reduce every split to one host.
            'mapreduce.terasort.use.terascheduler': 'false',
        },
    }


def digest_settings(replication: int, tuning: str = DEFAULT) -> str:
    """Return a name for the settings that do not follow a node's size.

    Runs with other settings do not compare; what follows the size is what
    configurations differ in.

    :raises hvstack.errors.InputError: no such tuning.
    """
    same = render_site_files(
        NodeSizing(1, 1, 1, 1, 1, 1, 1),
        replication=replication,
        tuning=tuning,
        # No figure depends on how a node's place is looked up.
        topology_mapping={},
    )
    text = ''.join(same[name] for name in sorted(same))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def render_hadoop_env(sizing: NodeSizing) -> str:
    """Return ``hadoop-env.sh``: the daemons' heaps, by role.

    Empty where the guest image's own are to hold.
    """
    if sizing.daemon_mib is None:
        return ''
    roles = f'{CONTROLLER_ROLES} {WORKER_ROLES} secondarynamenode'.split()
    return ''.join(f'HEAP_{role}={sizing.daemon_mib}\n' for role in roles)


def render_user_switch(uid: int, setup: str) -> str:
    """Return lines of ``hadoop-env.sh`` that leave root for another user.

    Hadoop's programs on a node source that file first. HDFS and YARN know the
    user as root all the same, so that paths and jobs are the same as in
    guests. What needs root is done before.

    :param uid: user and group ID.
    :param setup: file that makes the settings of the operating system.
    """
    own = '/run/hadoop /var/log/hadoop /srv/hdfs /srv/yarn /srv/data'
    return f"""if [ "$(id -u)" = 0 ]; then
    case "$0 ${{1:-}}" in
    */node\\ start)
        OS_PID=$$ sh {setup} >&2 || echo "{setup} failed: $?" >&2
        mkdir -p {own}
        chown -Rh {uid}:{uid} {own}
        chmod 1777 /tmp
        ;;
    esac
    export HADOOP_USER_NAME=root
    exec setpriv --reuid={uid} --regid={uid} --clear-groups --no-new-privs \\
        "$0" "$@"
fi
"""


def _render_xml(properties: dict[str, str]) -> str:
    rows = ''.join(
        f'<property><name>{escape(name)}</name>'
        f'<value>{escape(value)}</value></property>\n'
        for name, value in sorted(properties.items())
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{rows}</configuration>\n'


def render_node_env(roles: str, processors: int) -> str:
    """Return ``/etc/hvstack/node.env`` of a node.

    :param roles: daemons that the node runs, with spaces between.
    :param processors: what its JVMs are told.
    """
    return f'ROLES="{roles}"\nJAVA_PROCESSORS={processors}\n'
