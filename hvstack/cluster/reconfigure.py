# SPDX-License-Identifier: Apache-2.0
"""Other settings of Hadoop for a cluster that runs."""

from concurrent.futures import ThreadPoolExecutor

from hvstack.cluster.base import ClusterNodes, Node
from hvstack.hadoop import daemons, site_files
from hvstack.hadoop.sizing import NodeSizing

_READY_SECONDS = 300


def reconfigure(
    cluster: ClusterNodes,
    sized: NodeSizing,
    *,
    replication: int,
    tuning: str,
) -> None:
    """Write site files again on every node and start all daemons again.

    HDFS keeps what it holds. The nodes' operating system stays as it was set
    up, and so do places in the topology.

    :param sized: a worker, by this tuning.
    :param replication: of HDFS.
    :param tuning: profile of Hadoop's settings.
    :raises hvstack.errors.HVStackError: a node does not take it, or Hadoop
        does not come back.
    """
    files = site_files.render_site_files(
        sized,
        controller=cluster.gateway.address,
        replication=replication,
        tuning=tuning,
    )
    files['hadoop-env.sh'] = site_files.render_hadoop_env(sized)

    def write(node: Node) -> None:
        for name, text in files.items():
            node.put(text, f'{site_files.CONF}/{name}')

    daemons.stop(cluster.nodes)
    with ThreadPoolExecutor(max_workers=min(32, len(cluster.nodes))) as pool:
        list(pool.map(write, cluster.nodes))
    daemons.start(cluster.nodes)
    daemons.wait_ready(cluster, _READY_SECONDS)
    cluster.tuning = tuning
