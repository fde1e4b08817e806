# SPDX-License-Identifier: Apache-2.0
"""Measures of a whole cluster: benchmarks of Hadoop's own tests."""

import dataclasses
import shlex
from collections.abc import Collection

from hvstack import errors
from hvstack.burn_in.measures import MIB, Measure
from hvstack.cluster import scale
from hvstack.hadoop import daemon_http, micro_benchmarks, webhdfs
from hvstack.hadoop.daemon_http import HadoopNodes

#: Time of the jobs of a value without their data: NNBench waits for a minute.
_JOB_SECONDS = 600
_SECONDS = 120
#: Space for the files of TestDFSIO as a multiple of their replicas: HDFS
#: needs some for other files and for blocks that are being written.
_SPACE_RATIO = 1.1
_ACTIVE = 'NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING'


DFSIO_WRITE = Measure(
    name='TestDFSIO write',
    unit='MB/s',
    description='TestDFSIO: a file per worker, rate of a map task',
    scope='cluster',
    programs=(),
    script=micro_benchmarks.SCRIPT,
    parse=micro_benchmarks.parse_dfsio,
    timeout_seconds=_JOB_SECONDS,
)
# It may have to write the files first.
DFSIO_READ = dataclasses.replace(
    DFSIO_WRITE, name='TestDFSIO read', timeout_seconds=2 * _JOB_SECONDS
)
NNBENCH = Measure(
    name='NNBench',
    unit='1/s',
    description='NNBench: create_write, 500 empty files per worker',
    scope='cluster',
    programs=(),
    script=micro_benchmarks.SCRIPT,
    parse=micro_benchmarks.parse_nnbench,
    timeout_seconds=_JOB_SECONDS,
)
JOBS = (DFSIO_WRITE, DFSIO_READ, NNBENCH)
#: First argument of the program for each measure.
_VERBS = {
    DFSIO_WRITE: 'write',
    DFSIO_READ: 'write-and-read',
    NNBENCH: 'nnbench',
}


def list_args(
    measure: Measure, cluster: HadoopNodes, token: str, size_mib: int
) -> tuple[str | int, ...]:
    """Return the arguments of the program of a measure.

    :param measure: one of :data:`JOBS`.
    :param cluster: cluster that executes the job.
    :param token: token of the burn-in.
    :param size_mib: size of a file.
    """
    tag = _build_tag(token)
    return (
        _VERBS[measure],
        f'/benchmarks/{tag}',
        _count_tasks(cluster),
        f'{size_mib}MB',
        f'-Dmapreduce.job.tags={tag}',
    )


def _count_tasks(cluster: HadoopNodes) -> int:
    """Return the number of map tasks of a job."""
    workers = daemon_http.nodes_with_daemon(cluster.workers, 'nodemanager')
    return max(1, len(workers))


def check_space(
    job_measures: Collection[Measure], cluster: HadoopNodes, size_mib: int
) -> None:
    """Refuse files of TestDFSIO that would fill HDFS.

    :param job_measures: measures that are planned.
    :param cluster: cluster that executes the jobs.
    :param size_mib: size of a file.
    :raises hvstack.errors.InputError: HDFS has too little space.
    """
    if not {DFSIO_WRITE, DFSIO_READ} & set(job_measures):
        return
    try:
        state = daemon_http.get_namenode_bean(
            cluster.gateway, 'FSNamesystemState'
        )
        replicas = scale.replication(cluster.gateway)
    except errors.HVStackError:
        # Without HDFS, the job fails and its row has the reason.
        return
    free_mib = int(state['CapacityRemaining']) // MIB
    files = _count_tasks(cluster)
    needed_mib = round(_SPACE_RATIO * files * replicas * size_mib)
    if free_mib < needed_mib:
        raise errors.InputError(
            f'Cannot run TestDFSIO with {files} files of {size_mib} MiB '
            f'(HDFS, {replicas} replicas): {free_mib} MiB are free, and '
            f'{needed_mib} MiB are needed. Use a smaller --size, delete '
            'files in HDFS, or select other measurements with --only.'
        )


def _build_tag(token: str) -> str:
    """Return the tag of the jobs of a burn-in, and name of their files."""
    return f'hvstack-burn-in-{token}'


def end_jobs(cluster: HadoopNodes, token: str) -> None:
    """End the jobs of a burn-in, and delete their files in HDFS.

    :param cluster: cluster that executed them.
    :param token: token of the burn-in, a part of the tag of its jobs.
    :raises hvstack.errors.HVStackError: HDFS or YARN does not answer.
    """
    tag = _build_tag(token)
    answer = daemon_http.get_json(
        cluster.manager,
        'resourcemanager',
        f'/ws/v1/cluster/apps?applicationTags={tag}&states={_ACTIVE}',
    )
    apps = daemon_http.list_elements((answer.get('apps') or {}).get('app'))
    if apps:
        names = [str(app['id']) for app in apps]
        # An application may end meanwhile.
        cluster.manager.run(
            shlex.join(['yarn', 'application', '-kill', *names]),
            timeout=_SECONDS,
            check=False,
        )
    path = f'/benchmarks/{tag}'
    try:
        webhdfs.delete_path(cluster.gateway, path)
    except errors.HVStackError:
        # Bare-metal hosts may have no curl. The client needs a JVM.
        cluster.gateway.run(
            f'hdfs dfs -rm -r -f -skipTrash {path}', timeout=_SECONDS
        )
