# SPDX-License-Identifier: Apache-2.0
"""Taking workers out of HDFS and YARN without loss.

HDFS copies a DataNode's blocks elsewhere first (decommissioning, Hadoop's
HDFS guide "DataNode Admin"); YARN gives a NodeManager nothing new and keeps
it until every job that ran on it has ended (YARN guide "Graceful Decommission
of YARN Nodes"), since its map outputs are read until then.

With separate controllers, each daemon reads the list on its own node.
"""

import json
import time
from collections.abc import Collection, Sequence

from hvstack import errors, shell
from hvstack.hadoop import rest
from hvstack.hadoop.rest import HadoopNodes, Runner
from hvstack.hadoop.sites import CONF
from hvstack.progress import Progress

#: The nodes that must leave, one a line.
EXCLUDE_FILE = f'{CONF}/excluded'
#: Sets the properties where a site file has them not: both daemons read
#: their files again at every -refreshNodes.
_SETUP = f"""
set -e
touch {EXCLUDE_FILE}
for pair in hdfs-site.xml:dfs.hosts.exclude \
        yarn-site.xml:yarn.resourcemanager.nodes.exclude-path; do
    file={CONF}/${{pair%%:*}} name=${{pair#*:}}
    grep -q "<name>$name</name>" $file || sed -i "s:</configuration>:\
<property><name>$name</name><value>{EXCLUDE_FILE}</value></property>\\n&:" \
        $file
done
"""
_ENDED_STATES = ('DECOMMISSIONED', 'LOST', 'SHUTDOWN')
_INTERVAL_SECONDS = 3.0
_REPORT_SECONDS = 15


def read_excluded(controller: Runner) -> set[str]:
    """Return the addresses that must leave, or have left.

    :param controller: with the NameNode.
    """
    text = controller.run(
        f'cat {EXCLUDE_FILE}', check=False, timeout=60
    ).stdout
    return set(text.split())


def exclude_nodes(
    cluster: HadoopNodes, addresses: Collection[str], timeout: float
) -> None:
    """Let nodes leave HDFS and YARN, and all others stay.

    :param addresses: of those that leave.
    :param timeout: seconds that YARN waits for the jobs on them.
    :raises hvstack.errors.CommandFailed: a controller does not answer.
    """
    lines = ''.join(f'{address}\n' for address in sorted(addresses))
    for node in rest.list_controllers(cluster):
        node.run(_SETUP, timeout=60)
        node.put(lines, EXCLUDE_FILE)
    cluster.gateway.run('hdfs dfsadmin -refreshNodes', timeout=180)
    cluster.manager.run(
        f'yarn rmadmin -refreshNodes -g {timeout:.0f} -server', timeout=180
    )


def find_remaining_services(
    cluster: HadoopNodes, nodes: Sequence[Runner]
) -> list[str]:
    """Return what still keeps nodes in HDFS and YARN, a few words each.

    :raises hvstack.errors.CommandFailed: a controller does not answer.
    """
    info = rest.get_namenode_bean(cluster.gateway, 'NameNodeInfo')
    leaving = {
        datanode['xferaddr'].rpartition(':')[0]: datanode[
            'underReplicatedBlocks'
        ]
        for datanode in json.loads(info['DecomNodes']).values()
    }
    states = {
        datanode['xferaddr'].rpartition(':')[0]: datanode['adminState']
        for datanode in json.loads(info['LiveNodes']).values()
    }
    answer = rest.get_json(
        cluster.manager, 'resourcemanager', '/ws/v1/cluster/nodes'
    )
    managers = {
        nodemanager['nodeHostName']: nodemanager['state']
        for nodemanager in (answer.get('nodes') or {}).get('node') or []
    }
    remaining_services = []
    for node in nodes:
        state = states.get(node.address, 'Decommissioned')
        if state != 'Decommissioned':
            remaining_services.append(
                f'{node.name} in HDFS ({leaving.get(node.address, "all")} '
                'blocks to copy)'
            )
        manager = managers.get(node.address) or managers.get(node.name)
        if manager not in (None, *_ENDED_STATES):
            remaining_services.append(f'{node.name} in YARN ({manager})')
    return remaining_services


def drain(
    cluster: HadoopNodes,
    nodes: Sequence[Runner],
    staying: Sequence[Runner],
    *,
    timeout: float,
    progress: Progress | None = None,
) -> None:
    """Take nodes out of HDFS and YARN, and wait until nothing needs them.

    One that is dead cannot be waited for; what only it had is asked for.

    :param staying: the other workers; who is neither stays as it is.
    :param timeout: seconds for the copies, and for the jobs on the nodes.
    :raises hvstack.errors.DeadlineExceeded: names what is left; the nodes
        stay excluded.
    :raises hvstack.errors.RunFailed: HDFS misses blocks.
    """
    others = read_excluded(cluster.gateway) - {
        worker.address for worker in staying
    }
    exclude_nodes(cluster, others | {node.address for node in nodes}, timeout)
    last: list[str] = []
    reported_at = 0.0

    def is_drained() -> bool:
        nonlocal reported_at
        last[:] = find_remaining_services(cluster, nodes)
        if (
            progress
            and last
            and time.monotonic() - reported_at > _REPORT_SECONDS
        ):
            reported_at = time.monotonic()
            progress.say(f'  still {", ".join(last)}')
        return not last

    shell.wait_for(
        is_drained,
        f'HDFS and YARN to let go of {", ".join(n.name for n in nodes)}',
        timeout=timeout,
        interval=_INTERVAL_SECONDS,
        why=lambda: f'still {", ".join(last)}; the same command goes on',
    )
    info = rest.get_namenode_bean(cluster.gateway, 'NameNodeInfo')
    missing = info['NumberOfMissingBlocks']
    if missing:
        raise errors.RunFailed(
            f'HDFS misses {missing} blocks: bring dead workers back, or '
            "remove the files ('hdfs fsck / -list-corruptfileblocks'), before "
            'workers are removed'
        )
