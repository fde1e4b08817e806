# SPDX-License-Identifier: Apache-2.0
"""Files that tests write into the HDFS of a cluster, and their replicas."""

import contextlib

from tempest import config

from hvstack import errors, processutils, shell_scripts
from hvstack.accept import check_result, cluster_checks
from hvstack.accept.check_result import CheckResult
from hvstack.cluster import scale
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import fsck, webhdfs
from hvstack.tpcxhs import datacheck

CONF = config.CONF
_FILES = 10
_DIRECTORY = '/hvaccept'
#: Seconds until the NameNode orders a replica and knows that it exists, for
#: three rounds: it looks for missing replicas every 3 s
#: (dfs.namenode.redundancy.interval.seconds), and orders travel with
#: heartbeats, every 3 s (dfs.heartbeat.interval).
_REPLICATION_SECONDS = 3 * (3 + 3)
#: Bytes per second at which even a single slow disk takes replicas.
_REPLICATION_RATE = 1_000_000


class HDFSFiles:
    """Methods of tests that write, read and delete ten files."""

    @staticmethod
    def write_files(cluster: StackCluster) -> None:
        """Write ten small files into HDFS."""
        command = shell_scripts.render('write-files', _DIRECTORY)
        cluster.gateway.run(command, timeout=300)

    @staticmethod
    def delete_files(cluster: StackCluster) -> None:
        """Delete the ten files; missing ones are fine."""
        webhdfs.delete_path(cluster.gateway, _DIRECTORY)

    @staticmethod
    def check_files(cluster: StackCluster) -> list[CheckResult]:
        """Judge that the ten files can be read as they were written.

        HDFS itself compares what it reads with checksums.
        """
        done = cluster.gateway.run(
            f'for n in 0 1 2 3 4 5 6 7 8 9; do '
            f'hdfs dfs -cat {_DIRECTORY}/part-m-0000$n | wc -c; done',
            timeout=900,
        )
        sizes = [int(word) for word in done.stdout.split()]
        return [
            check_result.check_equal(
                f'bytes of file {index} in HDFS', 1_000_000, size
            )
            for index, size in enumerate(sizes)
        ] + [check_result.check_equal('files read', _FILES, len(sizes))]

    @staticmethod
    def check_replicas(cluster: StackCluster) -> list[CheckResult]:
        """Judge on which hosts the blocks of the ten files are.

        A client continues when a block has one replica
        (dfs.namenode.replication.min), so that others may be missing right
        after a file was written.
        """
        replication = get_replication(cluster)
        files = _list_files(cluster)
        missing_bytes = fsck.compute_missing_bytes(files, replication)
        if missing_bytes:

            def is_complete() -> bool:
                files[:] = _list_files(cluster)
                return not fsck.compute_missing_bytes(files, replication)

            # The checks name the blocks that are still missing.
            with contextlib.suppress(errors.DeadlineExceededError):
                processutils.wait_for(
                    is_complete,
                    f'HDFS to replicate {missing_bytes} bytes',
                    timeout=_REPLICATION_SECONDS
                    + missing_bytes / _REPLICATION_RATE,
                    interval=2,
                )
        return cluster_checks.check_replicas(
            files,
            {node.address: node.host for node in cluster.workers},
            replication,
            _FILES,
        )


def get_replication(cluster: StackCluster) -> int:
    """Return the number of HDFS replicas that a cluster must have.

    :param cluster: an existing cluster, whose own number it is, or one that
        a test created.
    """
    if CONF.hvstack.stack:
        return scale.replication(cluster.gateway)
    return int(CONF.hvstack.replication)


def _list_files(cluster: StackCluster) -> list[fsck.HDFSFile]:
    """Return the files of a test with their blocks."""
    done = cluster.gateway.run(
        f'hdfs fsck {_DIRECTORY} -files -blocks -locations', timeout=300
    )
    return list(datacheck.select_data_files(fsck.parse(done.stdout)))
