# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of Hadoop's own tests: TestDFSIO and NNBench.

TestDFSIO writes and reads files of HDFS, NNBench creates files to load the
NameNode. The AMD paper names both in its section 2.3; the HVE paper measures
with TestDFSIO.
"""

import re

from hvstack import shell_scripts

#: Name of the program that runs them, in ``hvstack/share/shell``.
SCRIPT = 'micro-benchmark'
#: Bytes of a MB of TestDFSIO.
_MEGABYTE = 1024 * 1024
_THROUGHPUT = re.compile(r'^ *Throughput mb/sec: ([\d.]+)$', re.MULTILINE)
_OPERATIONS = re.compile(r'^ *TPS: Create/Write/Close: (\d+)$', re.MULTILINE)
_LATE = re.compile(r'^ *# maps that missed the barrier: (\d+)$', re.MULTILINE)
_EXCEPTIONS = re.compile(r'^ *# exceptions: (\d+)$', re.MULTILINE)


def render(
    program: str, directory: str, tasks: int, size: str, *options: str
) -> str:
    """Return the shell program that runs a benchmark and prints its result.

    The log of its job is the standard error.

    :param program: ``write``, ``read``, ``write-and-read`` or ``nnbench``.
    :param directory: directory in HDFS for the files.
    :param tasks: number of map tasks, each with a file of TestDFSIO.
    :param size: size of a file of TestDFSIO with its unit, such as ``244MB``.
    :param options: options of the job, such as ``-Ddfs.replication=2``.
    """
    return shell_scripts.render(
        SCRIPT, program, directory, tasks, size, *options
    )


def parse_dfsio(text: str) -> float:
    """Return the rate of a map task of TestDFSIO in MB/s.

    The MB of TestDFSIO have 2**20 bytes.

    :raises ValueError: the text has no rate.
    """
    match = _THROUGHPUT.search(text)
    if match is None:
        raise ValueError('TestDFSIO reports no throughput')
    return float(match[1]) * _MEGABYTE / 1e6


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
