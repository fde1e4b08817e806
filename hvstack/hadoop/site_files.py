# SPDX-License-Identifier: Apache-2.0
"""Hadoop's site files, which are the same for guests and for bare metal.

Each node replaces the placeholders ``%ADDRESS%`` and ``%HOSTNAME%``;
``%CONTROLLER%`` and ``%STACK%`` are replaced when the files are distributed.
Nodes are always identified by their addresses, because networks of tenants
often have no name resolution.

A site file contains the properties that every cluster needs and those of its
tuning profile (:mod:`hvstack.hadoop.tuning_profiles`).
"""

import hashlib
from collections.abc import Mapping
from xml.sax.saxutils import escape

from hvstack import shell_scripts
from hvstack.hadoop import daemon_options, tuning_profiles
from hvstack.hadoop.properties import (
    CORE,
    HDFS,
    MAPRED,
    YARN,
    Facts,
    resolve_properties,
)
from hvstack.hadoop.sizing import (
    DEFAULT,
    NodeSizing,
    get_block_mib,
)

CONTROLLER = '%CONTROLLER%'
#: Directory in the HDFS of another stack for the files of a compute cluster;
#: the Heat template replaces ``%STACK%`` by the name of the stack.
CLUSTER_DIRECTORY = '/compute-clusters/%STACK%'
CONF = '/etc/hadoop'
#: Program that looks up the location of a node in the topology table.
TOPOLOGY_SCRIPT = '/usr/lib/hvstack/place'
TABLE = f'{CONF}/topology.table'
CLASSPATH = ('/etc/hadoop', '/opt/hadoop', '/opt/hadoop/lib/*')
NAMENODE_PORT = 8020
#: Directory of the NameNode, also of one with data disks.
NAME_DIRECTORY = '/srv/hdfs/name'
MANAGER_ROLES = 'resourcemanager historyserver'
CONTROLLER_ROLES = f'namenode {MANAGER_ROLES}'
WORKER_ROLES = 'datanode nodemanager'
#: Port of the web interface of each controller daemon.
UI_PORTS = {'namenode': 9870, 'resourcemanager': 8088, 'historyserver': 19888}

#: Properties for the look-up of node locations.
TOPOLOGY_PROPERTIES = {
    CORE: {
        # Hadoop's TableMapping reads the table only once.
        'net.topology.node.switch.mapping.impl': 'org.apache.hadoop.net'
        '.ScriptBasedMapping',
        'net.topology.script.file.name': TOPOLOGY_SCRIPT,
    },
    HDFS: {
        # A new node waits until the table contains its location.
        'dfs.namenode.reject-unresolved-dn-topology-mapping': 'true',
    },
}
#: Properties of a compute cluster on the HDFS of another stack. With Hadoop's
#: defaults, the JobHistory servers of both clusters would move and delete each
#: other's files. The directories of the JobHistory server
#: (mapreduce.jobhistory.done-dir, mapreduce.jobhistory.intermediate-done-dir)
#: are below the staging directory by default.
SHARED_HDFS_PROPERTIES = TOPOLOGY_PROPERTIES | {
    YARN: {
        'yarn.nodemanager.remote-app-log-dir': f'{CLUSTER_DIRECTORY}/logs',
    },
    MAPRED: {
        'yarn.app.mapreduce.am.staging-dir': f'{CLUSTER_DIRECTORY}/staging',
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
        # With the default, HDFS would use DFSNetworkTopology instead.
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
    tuning: str = DEFAULT,
    namenode_handlers: int | None = None,
    location_properties: Mapping[str, dict[str, str]] = TOPOLOGY_PROPERTIES,
    bind: bool = False,
) -> dict[str, str]:
    """Return the site files of a cluster, by name.

    :param sizing: size of a worker with the same tuning profile.
    :param controller: address of the NameNode and the ResourceManager.
    :param replication: number of replicas of input and output.
    :param node_groups: whether replicas of a block are on different hosts.
    :param tuning: name of the tuning profile.
    :param namenode_handlers: ``dfs.namenode.handler.count``; None uses that of
        the tuning profile. vsphere6 used 1 ("Controller Daemons": a workaround
        for HDFS-7122).
    :param location_properties: properties for the look-up of node locations,
        and for the directories of a compute cluster
        (:data:`SHARED_HDFS_PROPERTIES`).
    :param bind: whether daemons listen only on the address of the node. The
        shuffle service and the ApplicationMasters have no such property in
        Hadoop 3.4.
    :raises hvstack.errors.InputError: the tuning profile does not exist.
    """
    profile = tuning_profiles.load(tuning)
    values = _base_properties(sizing, controller, replication)
    facts = Facts(sizing, replication, get_block_mib(profile, sizing))
    tuned = resolve_properties(profile.all_properties, facts)
    if sizing.history_mib is not None:
        # Of large jobs, the JobHistory server keeps the last one only.
        values[MAPRED]['mapreduce.jobhistory.loadedtasks.cache.size'] = '20000'
    for name, properties in tuned.items():
        if name in values:
            values[name] |= properties
    if namenode_handlers is not None:
        values[HDFS]['dfs.namenode.handler.count'] = str(namenode_handlers)
    layers = (
        location_properties,
        _NODE_GROUPS if node_groups else {},
        _bind_properties(controller) if bind else {},
    )
    for added in layers:
        for name, properties in added.items():
            values[name] |= properties
    return {
        name: _render_xml(properties) for name, properties in values.items()
    }


def _bind_properties(controller: str) -> dict[str, dict[str, str]]:
    """Return the properties that make daemons listen on a single address."""
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


def _base_properties(
    sizing: NodeSizing, controller: str, replication: int
) -> dict[str, dict[str, str]]:
    """Return the properties that every cluster needs."""
    return {
        CORE: {
            'fs.defaultFS': f'hdfs://{controller}:{NAMENODE_PORT}',
            'hadoop.tmp.dir': '/srv/hdfs/tmp',
        },
        HDFS: {
            'dfs.replication': str(replication),
            'dfs.namenode.name.dir': f'file://{NAME_DIRECTORY}',
            # A node with data disks replaces this directory, and that of YARN,
            # with a directory on each disk: hvstack.hadoop.os_profiles.
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
            # Java 17 maps much more memory than it uses.
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
            # Small clusters have fewer nodes than the default of 10, and the
            # NameNode would keep searching for nodes for the replicas.
            'mapreduce.client.submit.file.replication': str(replication),
            # By default, TeraSort writes a single replica of its output.
            'mapreduce.terasort.output.replication': str(replication),
            # TeraScheduler reduces the locations of every split to one host.
            'mapreduce.terasort.use.terascheduler': 'false',
        },
    }


def digest_settings(tuning: str = DEFAULT) -> str:
    """Return a digest of the settings that every cluster has.

    Runs with different digests are not comparable. Settings that depend on the
    size of a node differ between configurations. The number of replicas is a
    part of the workload, which variants of a study change on purpose.

    :param tuning: tuning profile.
    :raises hvstack.errors.InputError: the tuning profile does not exist.
    """
    sizing_rule = tuning_profiles.load(tuning).sizing
    has_master_node = sizing_rule.master_share is not None
    same = render_site_files(
        NodeSizing(*(1, 1, 1, 1, 1, 1, 1), master_mib=has_master_node),
        tuning=tuning,
        # No result depends on the look-up of node locations.
        location_properties={},
    )
    text = ''.join(same[name] for name in sorted(same))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def render_hadoop_env(
    sizing: NodeSizing, options: daemon_options.DaemonOptions = ()
) -> str:
    """Return ``hadoop-env.sh``, which has the heaps and options of daemons.

    It is empty if the small JVMs of the guest image apply.

    :param sizing: size of a worker.
    :param options: options of the JVMs of daemons.
    """
    # Without a value, the guest image's own options for small JVMs apply. This
    # option is the default of Java, which also selects the collector.
    lines = [] if sizing.small_jvms else ['JAVA_OPTS=-XX:+TieredCompilation']
    if sizing.daemon_mib is not None:
        roles = f'{CONTROLLER_ROLES} {WORKER_ROLES} secondarynamenode'.split()
        heaps = dict.fromkeys(roles, sizing.daemon_mib)
        if sizing.history_mib is not None:
            heaps['historyserver'] = sizing.history_mib
        if sizing.hdfs_heaps is not None:
            heaps |= {
                'namenode': sizing.hdfs_heaps.namenode_mib,
                'secondarynamenode': sizing.hdfs_heaps.secondary_mib,
                'datanode': sizing.hdfs_heaps.datanode_mib,
            }
        lines += [f'HEAP_{role}={heap}' for role, heap in heaps.items()]
    return ''.join(f'{line}\n' for line in lines) + daemon_options.render(
        options
    )


def render_user_switch(uid: int, setup: str) -> str:
    """Return lines of ``hadoop-env.sh`` that switch from root to a user.

    HDFS and YARN leave space in file systems that contain other files.

    Hadoop's programs on a node source this file first. In HDFS and YARN the
    user is still root, so that paths and jobs are the same as in guests.
    Commands that need root run before the switch.

    :param uid: user ID and group ID.
    :param setup: script that applies the settings of the operating system.
    """
    reserve_space = shell_scripts.render(
        'reserve-space', CONF, '/etc/hvstack/node.env'
    ).rstrip()
    own = '/run/hadoop /var/log/hadoop /srv/hdfs /srv/yarn'
    return f"""if [ "$(id -u)" = 0 ]; then
    case "$0 ${{1:-}}" in
    */node\\ start)
        OS_PID=$$ sh {setup} >&2 || exit 1
        mkdir -p {own}
        chown -Rh {uid}:{uid} {own}
        # hvstack's stamp in a mounted directory must remain root's.
        for directory in /srv/data/*/hdfs /srv/data/*/yarn; do
            [ ! -d "$directory" ] || chown -Rh {uid}:{uid} "$directory"
        done
        chmod 1777 /tmp
        (
{reserve_space}
        ) || exit 1
        ;;
    esac
    export HADOOP_USER_NAME=root
    exec setpriv --reuid={uid} --regid={uid} --clear-groups --no-new-privs \\
        "$0" "$@"
fi
"""


def render_property(name: str, value: str) -> str:
    """Return a property as a line of a site file."""
    return (
        f'<property><name>{escape(name)}</name>'
        f'<value>{escape(value)}</value></property>\n'
    )


def _render_xml(properties: dict[str, str]) -> str:
    rows = ''.join(
        render_property(name, value)
        for name, value in sorted(properties.items())
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{rows}</configuration>\n'


def list_manager_roles(sizing: NodeSizing) -> str:
    """Return the daemons of the node with the ResourceManager.

    A NameNode on it is not among them.

    :param sizing: size of the nodes.
    """
    if sizing.has_master_node:
        return f'{MANAGER_ROLES} nodemanager'
    return MANAGER_ROLES


def render_node_env(roles: str, processors: int) -> str:
    """Return ``/etc/hvstack/node.env`` of a node.

    :param roles: daemons of the node, separated by spaces.
    :param processors: number of processors that its JVMs use.
    """
    return f'ROLES="{roles}"\nJAVA_PROCESSORS={processors}\n'
