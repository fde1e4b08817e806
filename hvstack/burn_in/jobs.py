# SPDX-License-Identifier: Apache-2.0
"""Measures of a whole cluster: benchmarks of Hadoop's own tests.

TestDFSIO writes and reads files of HDFS, NNBench creates files to load the
NameNode. The AMD paper names both in its section 2.3.
"""

import dataclasses
import re
import shlex

from hvstack import errors
from hvstack.burn_in.measures import MIB, Measure
from hvstack.hadoop import daemon_http, webhdfs
from hvstack.hadoop.daemon_http import HadoopNodes

#: Time of the jobs of a value without their data: NNBench waits for a minute.
_JOB_SECONDS = 600
_THROUGHPUT = re.compile(r'^ *Throughput mb/sec: ([\d.]+)$', re.MULTILINE)
_OPERATIONS = re.compile(r'^ *TPS: Create/Write/Close: (\d+)$', re.MULTILINE)
_LATE = re.compile(r'^ *# maps that missed the barrier: (\d+)$', re.MULTILINE)
_EXCEPTIONS = re.compile(r'^ *# exceptions: (\d+)$', re.MULTILINE)
_SECONDS = 120
_ACTIVE = 'NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING'


def parse_dfsio(text: str) -> float:
    """Return the rate of a map task of TestDFSIO in MB/s.

    The MB of TestDFSIO have 2**20 bytes.

    :raises ValueError: the text has no rate.
    """
    match = _THROUGHPUT.search(text)
    if match is None:
        raise ValueError('TestDFSIO reports no throughput')
    return float(match[1]) * MIB / 1e6


def parse_nnbench(text: str) -> float:
    """Return the operations per second of NNBench.

    :raises ValueError: the text has none, or not those of all map tasks.
    """
    match = _OPERATIONS.search(text)
    late, exceptions = _LATE.search(text), _EXCEPTIONS.search(text)
    if match is None or int(match[1]) == 0:
        raise ValueError('NNBench reports no operations')
    if late is not None and int(late[1]):
        raise ValueError(f'NNBench: {late[1]} map tasks started too late')
    if exceptions is not None and int(exceptions[1]):
        raise ValueError(f'NNBench: {exceptions[1]} operations failed')
    return float(match[1])


DFSIO_WRITE = Measure(
    name='TestDFSIO write',
    unit='MB/s',
    description='TestDFSIO: a file per worker, rate of a map task',
    scope='cluster',
    programs=(),
    script='burn-in-job',
    parse=parse_dfsio,
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
    script='burn-in-job',
    parse=parse_nnbench,
    timeout_seconds=_JOB_SECONDS,
)
JOBS = (DFSIO_WRITE, DFSIO_READ, NNBENCH)
#: First argument of the program for each measure.
_VERBS = {DFSIO_WRITE: 'write', DFSIO_READ: 'read', NNBENCH: 'nnbench'}


def list_args(
    measure: Measure, cluster: HadoopNodes, token: str, size_mib: int
) -> tuple[str | int, ...]:
    """Return the arguments of the program of a measure.

    :param measure: one of :data:`JOBS`.
    :param cluster: cluster that executes the job.
    :param token: token of the burn-in.
    :param size_mib: size of a file.
    """
    workers = daemon_http.nodes_with_daemon(cluster.workers, 'nodemanager')
    return (_VERBS[measure], token, max(1, len(workers)), size_mib)


def end_jobs(cluster: HadoopNodes, token: str) -> None:
    """End the jobs of a burn-in, and delete their files in HDFS.

    :param cluster: cluster that executed them.
    :param token: token of the burn-in, a part of the tag of its jobs.
    :raises hvstack.errors.HVStackError: HDFS or YARN does not answer.
    """
    tag = f'hvstack-burn-in-{token}'
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
