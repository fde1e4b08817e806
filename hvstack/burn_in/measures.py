# SPDX-License-Identifier: Apache-2.0
"""Measures of a burn-in: their programs on a node, and what these report."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hvstack.cluster import probe
from hvstack.errors import HVStackError

MIB = 1024 * 1024
#: Maximum time of fio for a file. A slow disk is measured by the part of the
#: file that it wrote or read until then.
FIO_SECONDS = 60
#: Time of stress-ng, which reports no rate of less than 4.5 s.
STREAM_SECONDS = 10
#: Time for which the processors are busy.
BUSY_SECONDS = 5
#: Time of iperf3 for each direction.
NETWORK_SECONDS = 5
#: What a node may add to these: login, start and end of the programs.
_START_SECONDS = 60
_STREAM_LINE = re.compile(
    r'stream: memory rate: ([\d.]+) MB read/sec, ([\d.]+) MB write/sec'
)
_PROCESSES_LINE = re.compile(r'^processes (\d+)$', re.MULTILINE)
_REFUSED = 'O_DIRECT'


@dataclass(frozen=True)
class Part:
    """A part of a node that a measure has a row for.

    :param where: name of the part, such as the directory of a disk.
    :param args: arguments of the program for it.
    """

    where: str
    args: tuple[str | int, ...]


@dataclass(frozen=True)
class NodeParts:
    """What a node has that can be measured.

    :param disks: free bytes by directory of each data disk.
    :param processors: number of processors.
    :param cell_count: number of NUMA cells as lscpu shows it.
    :param cells: number of processors by NUMA cell, as numactl shows it.
    :param missing: programs that the node does not have.
    """

    disks: Mapping[str, int]
    processors: int
    cell_count: int = 1
    cells: Mapping[int, int] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()


def parse_node(text: str) -> NodeParts:
    """Return the parts of a node that ``burn-in-node.sh`` printed.

    :raises ValueError: the text is not what the program prints.
    """
    disks: dict[str, int] = {}
    cells: dict[int, int] = {}
    missing: set[str] = set()
    counts = {'processors': 0, 'cells': 1}
    for line in text.splitlines():
        match line.split(maxsplit=2):
            case ['disk', kib, directory]:
                disks[directory] = 1024 * int(kib)
            case ['cell', cell, processors]:
                cells[int(cell)] = int(processors)
            case ['missing', program]:
                missing.add(program)
            case [('processors' | 'cells') as name, count]:
                counts[name] = int(count)
    if counts['processors'] < 1 or not disks:
        raise ValueError('the node shows no processors or no disks')
    return NodeParts(
        disks,
        counts['processors'],
        counts['cells'],
        dict(sorted(cells.items())),
        frozenset(missing),
    )


@dataclass(frozen=True)
class Measure:
    """A measure of nodes, of pairs of nodes or of the whole cluster.

    :param name: name in the output and of ``--only``.
    :param unit: unit of its values.
    :param description: what is run, for ``--dry-run``.
    :param scope: ``node``, ``pair`` or ``cluster``.
    :param programs: programs that a node must have.
    :param script: program in ``hvstack/share/shell``.
    :param parse: function that returns the value from the output of the
        program; it raises ValueError with the reason if there is none.
    :param timeout_seconds: maximum time of the program.
    :param larger_is_better: whether a smaller value is worse.
    :param host_rows: number of rows of a host from which the host is named
        instead of its parts if all of them are outliers.
    """

    name: str
    unit: str
    description: str
    scope: str
    programs: tuple[str, ...]
    script: str
    parse: Callable[[str], float]
    timeout_seconds: float
    larger_is_better: bool = True
    host_rows: int = 1


def list_parts(
    measure: Measure, node: NodeParts, token: str, size_mib: int
) -> list[Part]:
    """Return the parts of a node that a measure has rows for.

    :param measure: a measure with the scope ``node``.
    :param token: token of the burn-in.
    :param size_mib: size of the test file of a disk.
    """
    if measure in (DISK_WRITE, DISK_READ):
        verb = measure.name.rpartition(' ')[2]
        return [
            Part(disk, (verb, disk, token, size_mib, FIO_SECONDS))
            for disk in node.disks
        ]
    if measure == MEMORY and len(node.cells) > 1:
        return [
            Part(
                f'NUMA cell {cell}',
                (cell, processors, STREAM_SECONDS, len(node.cells)),
            )
            for cell, processors in node.cells.items()
        ]
    if measure == MEMORY:
        return [Part('node', ('all', node.processors, STREAM_SECONDS, 1))]
    return [Part('node', (node.processors, BUSY_SECONDS))]


def find_missing_program(measure: Measure, node: NodeParts) -> str:
    """Return a program that a measure needs and a node lacks, or nothing."""
    programs = list(measure.programs)
    if measure == MEMORY and node.cell_count > 1:
        programs.append('numactl')
    return next(
        (program for program in programs if program in node.missing), ''
    )


def explain_failure(measure: Measure, stdout: str, stderr: str) -> str:
    """Return why a program on a node failed, in a line.

    :param measure: measure of the program.
    :param stdout: its standard output.
    :param stderr: its standard error.
    """
    if 'fio' in measure.programs and _REFUSED in stderr + stdout:
        return 'the file system refuses direct=1'
    if 'iperf3' in measure.programs:
        for document in read_documents(stdout):
            if document.get('error'):
                return f'iperf3: {document["error"]}'
    lines = (stderr.strip() or stdout.strip()).splitlines()
    return ' '.join(lines[-1].split())[:200] if lines else 'no output'


def read_documents(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a text; messages before them are skipped."""
    decoder = json.JSONDecoder()
    begin = text.find('{')
    while begin >= 0:
        try:
            document, end = decoder.raw_decode(text, begin)
        except ValueError:
            begin = text.find('{', begin + 1)
            continue
        yield document
        begin = text.find('{', end)


def parse_fio(text: str, direction: str) -> float:
    """Return the rate of all jobs of fio together in MB/s.

    :param text: output of fio with ``--output-format=json``.
    :param direction: ``read`` or ``write``.
    :raises ValueError: a job has no rate.
    """
    for document in read_documents(text):
        try:
            jobs = [
                (int(job['error']), float(job[direction]['bw_bytes']))
                for job in document['jobs']
            ]
        except (LookupError, TypeError, ValueError):
            continue
        for error, _ in jobs:
            if error:
                raise ValueError(f'fio: error {error}')
        if jobs and all(rate > 0 for _, rate in jobs):
            return sum(rate for _, rate in jobs) / 1e6
    raise ValueError('fio reports no rate')


def parse_fio_write(text: str) -> float:
    """Return the rate of fio that writes, see :func:`parse_fio`."""
    return parse_fio(text, 'write')


def parse_fio_read(text: str) -> float:
    """Return the rate of fio that reads, see :func:`parse_fio`."""
    return parse_fio(text, 'read')


def parse_stream(text: str) -> float:
    """Return the rate of all processes of stress-ng's stream in MB/s.

    Bytes read and bytes written are added. The MB of stress-ng have 2**20
    bytes. Some versions report the rate of some processes only: these stand
    for the others.

    :raises ValueError: the text has no rate.
    """
    rates = [
        float(read) + float(written)
        for read, written in _STREAM_LINE.findall(text)
    ]
    processes = _PROCESSES_LINE.search(text)
    if not rates or processes is None:
        reason = explain_failure(MEMORY, text, '')
        raise ValueError(f'stress-ng reports no rate: {reason}')
    return sum(rates) / len(rates) * int(processes[1]) * MIB / 1e6


def parse_hashed(text: str) -> float:
    """Return the rate at which all processors hash, in MB/s.

    :param text: output of ``busy.sh``.
    :raises ValueError: the kernel of the node does not count the bytes.
    """
    try:
        result = probe.parse_busy(text)
    except HVStackError as exc:
        raise ValueError('the processors were not busy') from exc
    if not result.hashed_bytes:
        raise ValueError('the kernel does not count the bytes of processes')
    return result.hashed_bytes / result.seconds / 1e6


def parse_iperf3(text: str) -> float:
    """Return the rate of the slower of two directions in Mbit/s.

    :param text: what iperf3 with ``--json`` printed for each direction.
    :raises ValueError: a direction was not measured.
    """
    rates = []
    for document in read_documents(text):
        if document.get('error'):
            raise ValueError(f'iperf3: {document["error"]}')
        try:
            rate = document['end']['sum_received']['bits_per_second']
        except (LookupError, TypeError):
            continue
        rates.append(float(rate) / 1e6)
    if len(rates) != 2:
        raise ValueError(
            f'iperf3 reports {len(rates)} directions instead of 2'
        )
    return min(rates)


DISK_WRITE = Measure(
    name='disk write',
    unit='MB/s',
    description='fio: sequential, blocks of 1 MiB, direct=1',
    scope='node',
    programs=('fio',),
    script='burn-in-disk',
    parse=parse_fio_write,
    timeout_seconds=FIO_SECONDS + _START_SECONDS,
    # A single disk of a node that is slow is named itself.
    host_rows=2,
)
# The file is written first.
DISK_READ = replace(
    DISK_WRITE,
    name='disk read',
    parse=parse_fio_read,
    timeout_seconds=2 * FIO_SECONDS + _START_SECONDS,
)
MEMORY = Measure(
    name='memory',
    unit='MB/s',
    description="stress-ng: stressor 'stream', a process per processor",
    scope='node',
    programs=('stress-ng',),
    script='burn-in-memory',
    parse=parse_stream,
    timeout_seconds=2 * STREAM_SECONDS + _START_SECONDS,
)
CPU = Measure(
    name='cpu',
    unit='MB/s',
    description='sha256sum: a process per processor',
    scope='node',
    programs=(),
    script='busy',
    parse=parse_hashed,
    timeout_seconds=2 * BUSY_SECONDS + _START_SECONDS,
)
NETWORK = Measure(
    name='network',
    unit='Mbit/s',
    description='iperf3: TCP, the slower of both directions',
    scope='pair',
    programs=('iperf3',),
    script='burn-in-client',
    parse=parse_iperf3,
    # Five attempts for each direction at most.
    timeout_seconds=10 * (NETWORK_SECONDS + 2) + _START_SECONDS,
)
#: Measures of nodes and of pairs of nodes, in the order of the output.
MEASURES = (DISK_WRITE, DISK_READ, MEMORY, CPU, NETWORK)
