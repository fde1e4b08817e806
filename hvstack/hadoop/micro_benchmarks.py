# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of Hadoop's own tests: TestDFSIO, NNBench and MRBench.

TestDFSIO writes and reads files of HDFS, NNBench creates, opens and deletes
empty files to load the NameNode, and MRBench runs a small job several times.
The AMD paper names the first two in its section 2.3; the HVE paper measures
with TestDFSIO.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from hvstack import shell_scripts, speed
from hvstack.nouns import format_noun

#: Name of the program that runs them, in ``hvstack/share/shell``.
SCRIPT = 'micro-benchmark'
#: Bytes of a MB of TestDFSIO.
_MEGABYTE = 1024 * 1024
_THROUGHPUT = re.compile(r'^ *Throughput mb/sec: ([\d.]+)$', re.MULTILINE)
#: Time from the start of the client of NNBench until its map tasks begin, in
#: which all of them must have started.
_BARRIER_SECONDS = 60
_START = re.compile(
    r'^ *Start time: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d+$', re.MULTILINE
)
#: Files that each map task of NNBench creates, opens or deletes.
_NNBENCH_FILES = 500
_OPERATIONS = re.compile(
    r'^ *TPS: (?:Create/Write/Close|Open/Read|Delete): (\d+)$', re.MULTILINE
)
_SUCCESSES = re.compile(r'^ *Successful file operations: (\d+)$', re.MULTILINE)
_LATE = re.compile(r'^ *# maps that missed the barrier: (\d+)$', re.MULTILINE)
_EXCEPTIONS = re.compile(r'^ *# exceptions: (\d+)$', re.MULTILINE)
#: Lines of input, map tasks, reduce tasks and milliseconds of a job.
_SMALL_JOB = re.compile(r'^(\d+)\t+(\d+)\t+(\d+)\t+(\d+)$', re.MULTILINE)
_MINUTE_MS = 60_000


def render(
    program: str, directory: str, tasks: int, size: str, *options: str
) -> str:
    """Return the shell program that runs a benchmark and prints its result.

    The log of its job is the standard error.

    :param program: ``write``, ``read``, ``write-and-read``, ``nnbench``,
        ``nnbench-open``, ``nnbench-delete`` or ``mrbench``.
    :param directory: directory in HDFS for the files.
    :param tasks: number of map tasks, each with a file of TestDFSIO or a line
        of input of MRBench.
    :param size: size of a file of TestDFSIO with its unit, such as ``244MB``.
    :param options: options of the job, such as ``-Ddfs.replication=2``.
    """
    text = shell_scripts.render(
        SCRIPT, program, directory, tasks, size, *options
    )
    return (
        f'barrier_seconds={round(_BARRIER_SECONDS * speed.factor())}\n{text}'
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


def parse_nnbench(text: str, tasks: int | None = None) -> float:
    """Return the operations per second of NNBench.

    NNBench counts two operations for a file that is created.

    :param text: result of NNBench.
    :param tasks: number of map tasks, whose operations are counted; None does
        not count them.
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
    successes = _SUCCESSES.search(text)
    expected = None if tasks is None else tasks * _NNBENCH_FILES
    if expected is not None and (
        successes is None or int(successes[1]) != expected
    ):
        count = 'none' if successes is None else successes[1]
        raise ValueError(
            f'NNBench: {count} of {expected} file operations succeeded'
        )
    return float(match[1])


def explain_late(text: str, start_times: Iterable[float]) -> str:
    """Return why the map tasks of NNBench did not work together.

    NNBench of Hadoop 3.5 does not count tasks that start too late: these begin
    at once, so that its rate is that of fewer tasks.

    :param text: result of NNBench.
    :param start_times: start times of the map tasks in seconds since 1970.
    :returns: an empty text if all tasks started in time.
    """
    match = _START.search(text)
    if match is None:
        return 'it reports no start time'
    barrier = datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp()
    late = sum(started_at > barrier for started_at in start_times)
    if not late:
        return ''
    return f'{format_noun(late, "map task")} started too late'


def parse_mrbench(text: str, tasks: int) -> float:
    """Return the small jobs per minute of MRBench, one after the other.

    :param text: result of MRBench.
    :param tasks: number of map tasks, and of lines of input.
    :raises ValueError: the text has no time, or that of other jobs.
    """
    match = _SMALL_JOB.search(text)
    if match is None or int(match[4]) == 0:
        raise ValueError('MRBench reports no time')
    if match.groups()[:3] != (str(tasks), str(tasks), '1'):
        raise ValueError(
            f'MRBench reports jobs with {match[1]} lines, {match[2]} map '
            f'tasks and {match[3]} reduce tasks, not {tasks}, {tasks} and 1'
        )
    return _MINUTE_MS / float(match[4])
