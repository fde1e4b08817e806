# SPDX-License-Identifier: Apache-2.0
"""A sort by Hadoop's own clients, without hvstack."""

import testtools

from hvstack.cluster.stack import StackCluster

#: 100 MB of them are sorted.
_ROWS, _ROW_BYTES = 1_000_000, 100
_JOB_SECONDS = 600


def sort(
    test: testtools.TestCase,
    cluster: StackCluster,
    rows: int = _ROWS,
    settings: str = '',
    timeout: float = _JOB_SECONDS,
) -> None:
    """Sort 100 MB, validated, from where clients are.

    :param rows: of 100 bytes, in place of as many as make 100 MB.
    :param settings: of Hadoop, as ``-D`` words, for each of the three jobs.
    :param timeout: seconds for each of them.
    """
    jar = '/opt/hadoop/hadoop-mapreduce-examples.jar'
    count = len(cluster.workers)
    for program, operands in (
        (f'teragen -Dmapreduce.job.maps={count}', f'{rows} /in'),
        (f'terasort -Dmapreduce.job.reduces={count}', '/in /out'),
        ('teravalidate', '/out /report'),
    ):
        # Of two values for one name, Hadoop takes the last.
        cluster.gateway.run(
            f'hadoop jar {jar} {program} {settings} {operands}',
            timeout=timeout,
        )
    report = cluster.gateway.run("hdfs dfs -cat '/report/part*'").stdout
    # It has a line for each record that is not in its place.
    test.assertEqual(1, len(report.strip().splitlines()), report)
    test.assertTrue(report.startswith('checksum'), report)
    # Next to them is the list of partitions.
    parts = cluster.gateway.run("hdfs dfs -du '/out/part-r-*'").stdout
    sizes = [int(line.split()[0]) for line in parts.splitlines()]
    test.assertEqual(rows * _ROW_BYTES, sum(sizes))
