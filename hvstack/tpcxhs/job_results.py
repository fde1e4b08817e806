# SPDX-License-Identifier: Apache-2.0
"""Results of jobs: whether their data is complete, and why they failed."""

import re
from collections.abc import Mapping, Sequence

from hvstack import errors, processutils
from hvstack.cluster.base import Node
from hvstack.hadoop import webhdfs
from hvstack.results.benchmark import RECORD_BYTES
from hvstack.results.workload_types import TESTDFSIO
from hvstack.tpcxhs.result import PhaseResult
from hvstack.tpcxhs.workload import Workload

#: Lines in the output of the client about a container that the kernel killed,
#: or that YARN killed because of its memory.
_KILLED = re.compile(
    r'(?i)exit code is 137|exitcode: 137|exit code 137|'
    r"beyond the '?physical'? memory limit|java heap space|"
    r'OutOfMemoryError'
)
#: Messages of nodes, HDFS and YARN about full disks, with the reason. HDFS
#: prints the last one also for lost DataNodes.
_FULL_DISK_REASONS = {
    re.compile(
        r'No space left on device|DiskOutOfSpaceException|'
        r'Could not find any valid local directory|'
        r'local-dirs usable space is below'
    ): 'disks are full',
    re.compile(
        r'could only be written to \d+ of the'
    ): 'no DataNode accepted a block: disks are full (by default, HDFS leaves '
    '1 GiB of each free) or DataNodes are missing',
}


def check_sorted(
    phases: Sequence[PhaseResult], report: str, workload: Workload
) -> str:
    """Return why the sorted data is not valid; an empty text for valid data.

    :param phases: phases with the counters of their jobs.
    :param report: output of HSValidate: "checksum", a space, a hexadecimal
        number, and lines about data records that are not in order.
    :param workload: workload of the run.
    """
    lines = [line.split() for line in report.splitlines() if line.strip()]
    if [line[0] for line in lines] != ['checksum']:
        text = ' '.join(report.split())[:200] or 'nothing'
        return f'the output is not sorted: it reports {text}'
    counters = _collect_counters(phases)
    input_checksum = counters['HSGen'].get('CHECKSUM')
    # The report has 128 bits (Unsigned16 of hadoop-mapreduce-examples), a
    # counter of Hadoop the lower 64 of them. The sum of the CRC32 of more than
    # 2**33 records, which have 859 GB, does not fit in 64 bits.
    if (
        input_checksum is not None
        and (int(lines[0][1], 16) - int(input_checksum)) % 2**64
    ):
        return 'the checksum of the output is not that of the input'
    return check_counters(phases, workload)


def _collect_counters(
    phases: Sequence[PhaseResult],
) -> dict[str, Mapping[str, int]]:
    """Return the counters of the jobs by phase."""
    return {
        phase.name: phase.job.counters
        for phase in phases
        if phase.job is not None
    }


def check_counters(phases: Sequence[PhaseResult], workload: Workload) -> str:
    """Return why counters are not those of the data; empty if they are.

    :param phases: phases with the counters of their jobs.
    :param workload: workload of the run.
    """
    counters = _collect_counters(phases)
    if workload.type is TESTDFSIO:
        expected = workload.maps * workload.file_bytes
        for name, counter in zip(
            workload.type.jobs,
            ('HDFS_BYTES_WRITTEN', 'HDFS_BYTES_READ'),
            strict=True,
        ):
            count = counters[name].get(counter)
            if count is None or count < expected:
                return f'{counter} of {name} is {count}, less than {expected}'
        return ''
    if not workload.type.has_data:
        # Each map task has a record of input.
        for name in workload.type.jobs:
            record_count = counters[name].get('MAP_INPUT_RECORDS')
            if record_count != workload.maps:
                return (
                    f'MAP_INPUT_RECORDS of {name} is {record_count}, not '
                    f'{workload.maps}'
                )
        return ''
    generator, sorter = workload.type.generator, workload.type.sorter
    for name, counter in (
        (generator, 'MAP_OUTPUT_RECORDS'),
        (sorter, 'MAP_INPUT_RECORDS'),
        (sorter, 'REDUCE_OUTPUT_RECORDS'),
        ('HSValidate', 'MAP_INPUT_RECORDS'),
    ):
        if name not in workload.type.jobs:
            continue
        record_count = counters[name].get(counter)
        if record_count != workload.records:
            return (
                f'{counter} of {name} is {record_count}, not '
                f'{workload.records} (records of {RECORD_BYTES} bytes)'
            )
    return ''


def find_reason(output: str) -> str:
    """Return the lines of a job's output with the reason of its failure."""
    lines = output.splitlines()
    for index, line in enumerate(lines):
        if _KILLED.search(line):
            return f'a task was killed: {" ".join(lines[index].split())}'
    for pattern, reason in _FULL_DISK_REASONS.items():
        for line in filter(pattern.search, lines):
            return (
                f'{reason}: {" ".join(line.split())[:300]}. Use a smaller '
                'size, or free space on the nodes.'
            )
    telling = [
        line
        for line in lines
        if 'Exception' in line or 'ERROR' in line or 'failed' in line.lower()
    ]
    return ' '.join(processutils.tail('\n'.join(telling or lines), 4).split())


def read_report(gateway: Node, directory: str) -> str:
    """Return the output of HSValidate.

    :param gateway: controller with the NameNode.
    :param directory: directory of the output.
    """
    try:
        return ''.join(
            webhdfs.read_text(gateway, f'{directory}/{name}')
            for name in webhdfs.list_names(gateway, directory)
            if name.startswith('part-r-')
        )
    except errors.HVStackError:
        # Bare-metal hosts may have no curl.
        return gateway.run(f"hdfs dfs -cat '{directory}/part-r-*'").stdout
