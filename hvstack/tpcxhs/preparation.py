# SPDX-License-Identifier: Apache-2.0
"""Preparation of a cluster for a run: HDFS, caches and disks."""

import time
from dataclasses import dataclass

from hvstack import errors, processutils
from hvstack.cluster import disk_idle
from hvstack.cluster.base import Cluster
from hvstack.hadoop import daemon_http, job_progress, webhdfs
from hvstack.results import comparability
from hvstack.tpcxhs import hdfs_space
from hvstack.tpcxhs.workload import Workload

#: Directory of a run in HDFS.
BASE = '/benchmarks/tpcx-hs'
#: JMX bean of the NameNode. FSNamesystem has the same values, but they are up
#: to ten seconds old: right after a start, the capacity is zero.
_STATE_BEAN = 'FSNamesystemState'
#: Maximum number of seconds until HDFS has deleted nothing, and for each block
#: more: a DataNode is told of 1000 blocks with a heartbeat, every 3 s
#: (hdfs-default.xml, dfs.block.invalidate.limit and dfs.heartbeat.interval).
_DELETE_SECONDS = 120
_BLOCK_SECONDS = 0.003
#: Maximum number of seconds until DataNodes have reported deleted blocks: some
#: heartbeats.
_REPORT_SECONDS = 30


def purge(cluster: Cluster, *directories: str) -> None:
    """Kill the jobs of an aborted run, and delete its data and the trash.

    The function returns when the DataNodes have deleted the blocks.

    :param cluster: cluster to clean up.
    :param directories: other directories in HDFS to delete.
    """
    gateway = cluster.gateway
    job_progress.kill_applications(cluster.manager)
    paths = (BASE, *directories)
    try:
        for path in paths:
            webhdfs.delete_path(gateway, path)
        for user in webhdfs.list_names(gateway, '/user'):
            webhdfs.delete_path(gateway, f'/user/{user}/.Trash')
    except errors.HVStackError:
        # Bare-metal hosts may have no curl. The client needs a JVM.
        gateway.run(
            f'hdfs dfs -rm -r -f -skipTrash {" ".join(paths)} '
            '"/user/*/.Trash"',
            timeout=300,
        )

    def count_pending() -> int:
        state = daemon_http.get_namenode_bean(gateway, _STATE_BEAN)
        return int(state['PendingDeletionBlocks'])

    processutils.wait_for(
        lambda: count_pending() == 0,
        'HDFS to delete the last run',
        timeout=_DELETE_SECONDS + count_pending() * _BLOCK_SECONDS,
    )


def has_blocks(cluster: Cluster) -> bool:
    """Return whether HDFS stores blocks, or does not report their number."""
    state = daemon_http.get_namenode_bean(cluster.gateway, _STATE_BEAN)
    return bool(state.get('BlocksTotal', 1))


def check_fit(cluster: Cluster, workload: Workload) -> None:
    """Check that HDFS has enough space for a data set.

    :param cluster: cluster that would store the data set.
    :param workload: workload of the run.
    :raises hvstack.errors.InputError: the remaining space is too small.
    """
    needed = workload.needed_bytes
    free_bytes, used_bytes = _read_capacity(cluster)
    waited_at = time.monotonic()
    while (
        free_bytes < needed <= free_bytes + used_bytes
        and time.monotonic() - waited_at < _REPORT_SECONDS
    ):
        # DataNodes delete the blocks of the last run, and report it, after
        # the NameNode has told them to.
        time.sleep(1)
        free_bytes, used_bytes = _read_capacity(cluster)
    if needed > free_bytes:
        raise errors.InputError(
            f'{hdfs_space.describe_needs(workload)}, and '
            f'{hdfs_space.format_gb(free_bytes)} remain. Use a smaller size.'
        )


def _read_capacity(cluster: Cluster) -> tuple[int, int]:
    """Return the free and the used bytes that the DataNodes last reported."""
    state = daemon_http.get_namenode_bean(cluster.gateway, _STATE_BEAN)
    return int(state['CapacityRemaining']), int(state.get('CapacityUsed', 0))


@dataclass(frozen=True)
class HostState:
    """State of the hosts below the nodes at the start of a run.

    :param caches_dropped: whether the page caches below all nodes were
        dropped.
    :param warnings: preparations that were not possible, for the report.
    """

    caches_dropped: bool
    warnings: list[str]


def settle_hosts(cluster: Cluster, *, drop_caches: bool) -> HostState:
    """Write back and drop the caches, and wait until the disks are idle.

    Without this, a run could use the page cache of the previous run.

    Not every user is allowed to drop the caches, and guests without a kernel
    of their own cannot.

    :param cluster: cluster that executes the run.
    :param drop_caches: whether to write back and drop the caches.
    """
    warnings = []
    caches_dropped = drop_caches
    try:
        if drop_caches:
            cluster.drop_caches()
    except errors.HVStackError as exc:
        caches_dropped = False
        warnings.append(
            f'{comparability.CACHES_NOT_DROPPED} '
            f'({" ".join(str(exc).split())})'
        )
    busy = disk_idle.wait_until_idle(cluster.nodes)
    return HostState(caches_dropped, [*warnings, busy] if busy else warnings)


def read_cluster_id(cluster: Cluster) -> str:
    """Return the ID that HDFS got when its NameNode was formatted.

    The file system is formatted once for each cluster, so that records with
    the same ID are runs on the same cluster.
    """
    info = daemon_http.get_namenode_bean(cluster.gateway, 'NameNodeInfo')
    return str(info['ClusterId'])
