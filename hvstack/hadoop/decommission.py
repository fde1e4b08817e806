# SPDX-License-Identifier: Apache-2.0
"""Remove workers from HDFS and YARN without data loss.

HDFS first copies the blocks of a DataNode to other DataNodes
(decommissioning, Hadoop's HDFS guide "DataNode Admin"). YARN assigns no new
containers to a NodeManager and keeps it until all jobs that ran on it have
ended (YARN guide "Graceful Decommission of YARN Nodes"), because its map
outputs are read until then.

With separate controllers, each daemon reads the list on its own node. A
compute cluster has the list of its ResourceManager, and leaves the HDFS of the
other cluster alone.
"""

import json
import time
from collections.abc import Collection, Sequence

from hvstack import errors, processutils, shell_scripts
from hvstack.hadoop import daemon_http
from hvstack.hadoop.daemon_http import HadoopNodes, Runner
from hvstack.hadoop.site_files import CONF
from hvstack.progress import Progress

#: File with the addresses of the excluded nodes, one per line.
EXCLUDE_FILE = f'{CONF}/excluded'
_ENDED_STATES = ('DECOMMISSIONED', 'LOST', 'SHUTDOWN')
_INTERVAL_SECONDS = 3.0
_REPORT_SECONDS = 15


def read_excluded(controller: Runner) -> set[str]:
    """Return the addresses of the excluded nodes.

    :param controller: controller of the cluster.
    """
    text = controller.run(
        f'cat {EXCLUDE_FILE}', check=False, timeout=60
    ).stdout
    return set(text.split())


def exclude_nodes(
    cluster: HadoopNodes, addresses: Collection[str], timeout: float
) -> None:
    """Exclude nodes from HDFS and YARN, and include all other nodes.

    :param cluster: cluster that the nodes belong to.
    :param addresses: addresses of the nodes to exclude.
    :param timeout: seconds that YARN waits for the jobs on these nodes.
    :raises hvstack.errors.CommandError: a controller does not answer.
    """
    lines = ''.join(f'{address}\n' for address in sorted(addresses))
    setup = shell_scripts.render('exclude-file', EXCLUDE_FILE, CONF)
    for node in daemon_http.list_own_controllers(cluster):
        node.run(setup, timeout=60)
        node.put(lines, EXCLUDE_FILE)
    if daemon_http.has_own_hdfs(cluster):
        cluster.gateway.run('hdfs dfsadmin -refreshNodes', timeout=180)
    cluster.manager.run(
        f'yarn rmadmin -refreshNodes -g {timeout:.0f} -server', timeout=180
    )


def find_remaining_services(
    cluster: HadoopNodes, nodes: Sequence[Runner]
) -> list[str]:
    """Return the services that still use excluded nodes.

    :param cluster: cluster that the nodes belong to.
    :param nodes: nodes that were excluded.
    :returns: short descriptions, such as "worker-1 in YARN (RUNNING)".
    :raises hvstack.errors.CommandError: a controller does not answer.
    """
    info = daemon_http.get_namenode_bean(cluster.gateway, 'NameNodeInfo')
    # A NameNode that has just started knows no DataNode yet, so that all of
    # them look dead, and it counts no missing block before it has left this
    # mode.
    if daemon_http.has_own_hdfs(cluster) and info.get('Safemode'):
        return ['HDFS in safe mode']
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
    answer = daemon_http.get_json(
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
    """Exclude nodes from HDFS and YARN, and wait until no service uses them.

    A dead node has nothing to wait for; HDFS is checked for missing blocks.

    :param cluster: cluster that the nodes belong to.
    :param nodes: workers to remove.
    :param staying: workers that remain. Nodes in neither list keep their
        state.
    :param timeout: seconds for the copies, and for the jobs on the nodes.
    :param progress: where to report; None reports nothing.
    :raises hvstack.errors.DeadlineExceededError: services still use the nodes,
        which stay excluded; the message names them.
    :raises hvstack.errors.RunFailedError: HDFS misses blocks.
    """
    others = read_excluded(daemon_http.list_own_controllers(cluster)[0]) - {
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

    processutils.wait_for(
        is_drained,
        f'HDFS and YARN to let go of {", ".join(n.name for n in nodes)}',
        timeout=timeout,
        interval=_INTERVAL_SECONDS,
        get_reason=lambda: (
            f'still {", ".join(last)}; the same command continues'
        ),
    )
    if not daemon_http.has_own_hdfs(cluster):
        return
    info = daemon_http.get_namenode_bean(cluster.gateway, 'NameNodeInfo')
    missing = info['NumberOfMissingBlocks']
    if missing:
        raise errors.RunFailedError(
            f'Cannot remove workers: HDFS misses {missing} blocks. Start the '
            "dead workers again, or delete the files that 'hdfs fsck / "
            "-list-corruptfileblocks' lists."
        )
