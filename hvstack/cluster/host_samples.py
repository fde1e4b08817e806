# SPDX-License-Identifier: Apache-2.0
"""Samples of compute hosts, as their sampler prints them.

A sample is the first line of ``/proc/stat``, the lines of ``/proc/PID/stat``
of guests and agents, and those of ``/proc/diskstats`` and ``/proc/net/dev``
of disks and network interfaces (man 5 proc).
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hvstack.cluster.sampler import NO_DISKS
from hvstack.results.host_telemetry import HostSeries
from hvstack.results.telemetry import Values

#: Names of the processes of guests as /proc/PID/stat shows them, at most 15
#: characters: libvirt can name a process ``qemu:GUEST``. Kernels before 6.4
#: forward the packets of guests in threads of the kernel, ``vhost-PID``.
GUESTS = r'qemu|kvm\)|vhost-|virtiofsd|swtpm'
#: Names of the processes of agents and daemons of the cloud. A program that
#: they start counts as other CPU time.
AGENTS = (
    r'nova-|neutron-|ovn-|ovs-|ovsdb-|libvirtd|virt[a-z]*d\)|privsep-helper'
)
#: Both, for grep -E on the host.
PROCESSES = rf'^[0-9]+ \(({GUESTS}|{AGENTS})'
_GUEST = re.compile(rf'[0-9]+ \((?:{GUESTS})')
_SECTOR = 512
#: Path of an NVMe disk that can have several paths.
_NVME_PATH = re.compile(r'(nvme\d+)c\d+(n\d+)')
#: Columns of the first line of /proc/stat: user, nice, system, irq, softirq.
#: ``user`` and ``nice`` contain ``guest`` and ``guest_nice``.
_BUSY = (0, 1, 2, 5, 6)
_STEAL = 7
_GUEST_MODE = (8, 9)
#: Fields of /proc/PID/stat after the name: user and system time, and the
#: start. The times of ended children are left out: agents have children
#: that are agents, which would count twice.
_OWN_TIME = slice(11, 13)
_START = 19
#: Fields of /proc/net/dev after the name, of both directions.
_NIC_FIELDS = {
    'rx': 0,
    'rx_packets': 1,
    'rx_dropped': 3,
    'tx': 8,
    'tx_packets': 9,
    'tx_dropped': 11,
}
#: Fields of /proc/diskstats after the name, and the unit of each.
_DISK_FIELDS = {'read': (2, _SECTOR), 'write': (6, _SECTOR), 'busy': (9, 1e-3)}


@dataclass(frozen=True)
class ProcessTime:
    """CPU time of a process of a guest or of an agent.

    :param is_guest: whether it is a guest.
    :param ticks: its CPU time so far, in ticks.
    """

    is_guest: bool
    ticks: int


@dataclass(frozen=True)
class HostSample:
    """Counters of a host.

    :param uptime: seconds since the host was booted.
    :param cpu: columns of the first line of ``/proc/stat``, in ticks.
    :param processes: guests and agents by process ID and start, in ticks.
    :param disks: fields of ``/proc/diskstats`` by disk.
    :param nics: fields of ``/proc/net/dev`` by network interface.
    """

    uptime: float
    cpu: Sequence[int]
    processes: Mapping[tuple[int, int], ProcessTime]
    disks: Mapping[str, Sequence[int]]
    nics: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class HostOutput:
    """Output of the sampler of a host.

    :param ticks: ticks in a second.
    :param cpus: number of CPUs.
    :param samples: complete samples.
    """

    ticks: int
    cpus: int
    samples: Sequence[HostSample]


def parse(text: str) -> HostOutput:
    """Return the samples in the output of a sampler.

    :param text: output; a last sample without its end is ignored.
    :raises ValueError: the text is not the output of a sampler.
    """
    head, *blocks = text.split('\nsample ')
    title, *numbers = head.split() or ['']
    if title != 'host' or len(numbers) != 2:
        raise ValueError('the first line is not that of the sampler')
    ticks, cpus = map(int, numbers)
    return HostOutput(
        ticks,
        cpus,
        [
            _parse_sample(lines)
            for block in blocks
            if (lines := block.splitlines())[-1] == 'end'
        ],
    )


def _parse_sample(lines: Sequence[str]) -> HostSample:
    uptime, cpu, *others = lines[:-1]
    title, *columns = cpu.split()
    if title != 'cpu':
        raise ValueError('a sample has no line of all CPUs')
    processes: dict[tuple[int, int], ProcessTime] = {}
    disks: dict[str, list[int]] = {}
    nics: dict[str, list[int]] = {}
    for line in others:
        number, parenthesis, tail = line.partition(' (')
        if parenthesis and number.isdecimal():
            values = tail.rpartition(')')[2].split()
            processes[int(number), int(values[_START])] = ProcessTime(
                _GUEST.match(line) is not None,
                sum(map(int, values[_OWN_TIME])),
            )
        elif ':' in line:
            name, _, counters = line.rpartition(':')
            if name.strip() != 'lo':
                nics[name.strip()] = list(map(int, counters.split()))
        else:
            _, _, name, *fields = line.split()
            if not name.startswith(NO_DISKS):
                disks[name] = list(map(int, fields))
    return HostSample(
        float(uptime),
        list(map(int, columns)),
        processes,
        _merge_paths(disks),
        nics,
    )


def _merge_paths(disks: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Return the counters of disks without their paths.

    Of NVMe disks with several paths, Linux before 6.2 counts only the paths.
    Later versions count the disk as well.
    """
    merged: dict[str, list[int]] = {
        name: counters
        for name, counters in disks.items()
        if not _NVME_PATH.fullmatch(name)
    }
    counted = {name for name, counters in merged.items() if any(counters)}
    for path_name, path_counters in disks.items():
        match = _NVME_PATH.fullmatch(path_name)
        if match is None or match[1] + match[2] in counted:
            continue
        name = match[1] + match[2]
        merged[name] = [
            sum(column)
            for column in itertools.zip_longest(
                merged.get(name, ()), path_counters, fillvalue=0
            )
        ]
    return merged


def build_series(
    name: str, output: HostOutput, requests: Sequence[float]
) -> HostSeries:
    """Return the samples of a host as series of rates.

    A sample is taken when its request has arrived: the request that arrived
    in the least time determines the difference of the clocks.

    :param name: name of the host.
    :param output: output of its sampler.
    :param requests: Unix times of the requests, in the order of the samples.
    :returns: series whose times are Unix times of this machine.
    :raises ValueError: there are fewer than two samples.
    """
    samples = output.samples
    if len(samples) < 2 or not requests:
        raise ValueError('fewer than two samples')
    offset = max(
        request - sample.uptime
        for request, sample in zip(requests, samples, strict=False)
    )
    spans = list(itertools.pairwise(samples))

    def build_rates(
        read_counter: Callable[[HostSample], int | None], unit: float = 1
    ) -> Values:
        return [_rate(span, read_counter, unit) for span in spans]

    tick = 1 / output.ticks
    nics = {
        nic: {
            title: build_rates(partial(_read_nic, nic, field))
            for title, field in _NIC_FIELDS.items()
        }
        for nic in samples[0].nics
    }
    processes = [_sum_processes(span, tick) for span in spans]
    return HostSeries(
        name=name,
        role='compute host',
        host=name,
        times=[round(sample.uptime + offset, 2) for sample in samples],
        rates={
            'busy': build_rates(partial(_sum_columns, _BUSY), tick),
            'guests': [guests for guests, _ in processes],
            'guest_time': build_rates(
                partial(_sum_columns, _GUEST_MODE), tick
            ),
            'agents': [agents for _, agents in processes],
            'steal': build_rates(partial(_sum_columns, (_STEAL,)), tick),
            **{
                title: _add_rates([series[title] for series in nics.values()])
                for title in _NIC_FIELDS
                if nics
            },
        },
        disks={
            disk: {
                title: build_rates(partial(_read_disk, disk, field), unit)
                for title, (field, unit) in _DISK_FIELDS.items()
            }
            for disk in samples[0].disks
        },
        cpus=output.cpus,
        nics=nics,
    )


_Span = tuple[HostSample, HostSample]


def _rate(
    span: _Span,
    read_counter: Callable[[HostSample], int | None],
    unit: float,
) -> float | None:
    """Return a rate; None for a counter that restarted or is missing."""
    before, after = span
    old, new = read_counter(before), read_counter(after)
    seconds = after.uptime - before.uptime
    if old is None or new is None or new < old or seconds <= 0:
        return None
    return round((new - old) * unit / seconds, 4)


def _sum_columns(columns: Sequence[int], sample: HostSample) -> int | None:
    """Return the sum of columns; None if the kernel is too old for them."""
    if len(sample.cpu) <= max(columns):
        return None
    return sum(sample.cpu[column] for column in columns)


def _read_nic(nic: str, field: int, sample: HostSample) -> int | None:
    counters = sample.nics.get(nic)
    return None if counters is None else counters[field]


def _read_disk(disk: str, field: int, sample: HostSample) -> int | None:
    counters = sample.disks.get(disk)
    return None if counters is None else counters[field]


def _add_rates(rates: Sequence[Values]) -> Values:
    return [
        None if None in column else round(sum(filter(None, column)), 4)
        for column in zip(*rates, strict=True)
    ]


def _sum_processes(
    span: _Span, tick: float
) -> tuple[float | None, float | None]:
    """Return the cores that guests and agents used between two samples."""
    before, after = span
    seconds = after.uptime - before.uptime
    if seconds <= 0:
        return None, None
    sums = {True: 0, False: 0}
    for key, process in after.processes.items():
        old = before.processes.get(key)
        if old is not None:
            sums[process.is_guest] += process.ticks - old.ticks
        elif key[1] * tick >= before.uptime:
            # A process that is not new got another name, and its time until
            # now is that of its former name.
            sums[process.is_guest] += process.ticks
    guests, agents = (
        round(max(0, sums[is_guest]) * tick / seconds, 4)
        for is_guest in (True, False)
    )
    return guests, agents
