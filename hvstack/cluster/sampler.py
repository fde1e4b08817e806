# SPDX-License-Identifier: Apache-2.0
"""Samplers on a cluster's nodes: CPU, disks and network over time.

Nodes with a kernel of their own run sysstat's collector. Where nodes share a
kernel, /proc shows all of the machine: there a shell loop reads the node's
control group (version 1 or 2), the devices below its file systems, and its
interface. Nothing here ever fails a run: what is not known is said.
"""

import gc
import json
import math
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from hvstack import errors, shell_scripts
from hvstack.cluster.base import Fact, Node
from hvstack.hadoop import daemon_http
from hvstack.results import run_clock, telemetry
from hvstack.results.telemetry import Telemetry, Values

_T = TypeVar('_T')

#: Directory of the samples, in a file system that a reboot empties.
_DIRECTORY = '/run/hvstack-telemetry'
#: Time to print the samples of a node.
_COLLECT_SECONDS = 120
#: Seconds after which a sampler ends if no process stops it.
_LONGEST = 86_400
_SECTOR = 512
#: Number of nodes whose samples are parsed at the same time. The objects of
#: json take several times the memory of the text: 75 MB of a node with 12
#: disks after a day take 500 MB.
_MAX_PARSED = 4
#: Number of intervals; a longer pause is a gap.
_GAP = 2.5


#: A node that does not answer, or not as its program does.
_TROUBLE = (errors.HVStackError, ValueError, LookupError, TypeError)


def source(environment: Mapping[str, Fact]) -> str:
    """Return the source of the samples: ``cgroup`` for a shared kernel.

    That is the backend lxc, and bare metal under caps.
    """
    backend = environment.get('backend')
    shared = backend == 'lxc' or (backend is None and environment.get('caps'))
    return 'cgroup' if shared else 'sysstat'


@dataclass
class Sampler:
    """The samplers of one run, from their start to the collection.

    :param interval: seconds between samples; sysstat rounds them up to whole
        seconds.
    """

    nodes: Sequence[Node]
    source: str
    interval: float
    gaps: list[str] = field(default_factory=list)
    #: By node: its clock less this machine's, in seconds.
    offsets: dict[str, float] = field(default_factory=dict)
    #: By node: counters of its network at the start.
    counters: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.source == 'sysstat':
            # sadc takes a fraction for the name of its file.
            self.interval = math.ceil(self.interval)

    def start(self) -> None:
        """Start sampling on all nodes; what does not start is a gap."""
        script = shell_scripts.load(f'{self.source}-sampler')

        def start_sampler(node: Node) -> float:
            command = self._command('start', node)
            result = node.run(command, stdin=script, timeout=60)
            self.counters[node.name], _ = parse_counters(result.stdout)
            return float(result.stdout.split()[-1]) - run_clock.now()

        self.offsets = self._each('no sampler', start_sampler, self.nodes)

    def collect(
        self,
        started_at: float,
        phases: Mapping[str, tuple[float, float]],
    ) -> Telemetry:
        """Stop sampling and return the samples.

        :param started_at: Unix time of the run's start, by the clock of this
            machine.
        :param phases: Unix times of begin and end by name.
        """
        parse = cgroup if self.source == 'cgroup' else sysstat
        parsing = threading.Semaphore(_MAX_PARSED)

        def collect_samples(node: Node) -> telemetry.NodeTelemetry:
            command = self._command('collect', node)
            # The program waits for the last sample of sysstat.
            timeout = _COLLECT_SECONDS + self.interval
            text = node.run(command, timeout=timeout, check=False).stdout
            counters, text = parse_counters(text)
            with parsing:
                times, rates, disks, cpus = parse(text)
                del text
            zero = started_at + self.offsets[node.name]
            node_telemetry = telemetry.NodeTelemetry(
                name=node.name,
                role='worker'
                if node.role in daemon_http.SINGLE_DAEMON_ROLES
                else node.role,
                host=node.host,
                times=[round(moment - zero, 2) for moment in times],
                rates=rates,
                disks=disks,
                cpus=cpus,
                network=_subtract(counters, self.counters[node.name]),
            )
            # The objects that json creates for each node start collections
            # of garbage. Each of them would read the samples of all nodes
            # before, so that the time would grow with the square of nodes.
            gc.freeze()
            return node_telemetry

        sampled = [node for node in self.nodes if node.name in self.offsets]
        try:
            nodes_by_name = self._each('no samples', collect_samples, sampled)
        finally:
            gc.unfreeze()
        for node in nodes_by_name.values():
            self._pauses(node)
        return Telemetry(
            source=self.source,
            interval=self.interval,
            phases=[
                (
                    name,
                    round(begin - started_at, 2),
                    round(end - started_at, 2),
                )
                for name, (begin, end) in phases.items()
            ],
            nodes=list(nodes_by_name.values()),
            gaps=self.gaps,
        )

    def _command(self, verb: str, node: Node) -> str:
        interval = self.interval
        count = int(_LONGEST / interval)
        args = (verb, _DIRECTORY, node.address, f'{interval:g}', str(count))
        return f'{shell_scripts.load("sampler")}{shlex.join(args)}\n'

    def _each(
        self, failure: str, action: Callable[[Node], _T], nodes: Sequence[Node]
    ) -> dict[str, _T]:
        """Do something with all nodes at once; errors are gaps."""

        def run_action(node: Node) -> _T | str:
            try:
                return action(node)
            except _TROUBLE as exc:
                return f'{node.name}: {failure} ({" ".join(str(exc).split())})'

        with ThreadPoolExecutor(max_workers=32) as pool:
            results = list(pool.map(run_action, nodes))
        self.gaps += [
            error[:300] for error in results if isinstance(error, str)
        ]
        return {
            node.name: result
            for node, result in zip(nodes, results, strict=True)
            if not isinstance(result, str)
        }

    def _pauses(self, node: telemetry.NodeTelemetry) -> None:
        """Forget the values of a pause, and say when it was."""
        for index, begin, end in node.spans():
            if end - begin <= _GAP * self.interval + 1:
                continue
            self.gaps.append(
                f'{node.name}: no samples from {begin:.0f} to {end:.0f} s'
            )
            for values in (
                *node.rates.values(),
                *(v for disk in node.disks.values() for v in disk.values()),
            ):
                values[index] = None


#: Counters of a node's network by the kernel's names (:rfc:`1213`, and
#: ``/proc/net/netstat``).
_COUNTER_NAMES = {
    'Tcp:OutSegs': 'segments',
    'Tcp:RetransSegs': 'retransmitted_segments',
    'TcpExt:TCPTimeouts': 'retransmission_timeouts',
    'Link:RxDropped': 'dropped_rx_packets',
    'Link:TxDropped': 'dropped_tx_packets',
}


def parse_counters(text: str) -> tuple[dict[str, int], str]:
    """Return counters of the network, and the lines that are none.

    :param text: pairs of lines ``Tcp: NAME ...`` and ``Tcp: NUMBER ...``, as
        in ``/proc/net/snmp``, among other lines.
    """
    names: dict[str, list[str]] = {}
    counters, others = {}, []
    for line in text.splitlines(keepends=True):
        group, *cells = line.split() or ['']
        if group not in ('Tcp:', 'TcpExt:', 'Link:'):
            others.append(line)
        elif group not in names:
            names[group] = cells
        else:
            for name, cell in zip(names.pop(group), cells, strict=False):
                title = _COUNTER_NAMES.get(group + name)
                if title is not None and cell.isdecimal():
                    counters[title] = int(cell)
    return counters, ''.join(others)


def _subtract(
    after: Mapping[str, int], before: Mapping[str, int]
) -> dict[str, int]:
    """Return the differences of counters, without counters that restarted."""
    return {
        name: count - before[name]
        for name, count in after.items()
        if count >= before.get(name, count + 1)
    }


#: Times, rates, disks, and the number of CPUs.
Parsed = tuple[
    list[float], dict[str, Values], dict[str, dict[str, Values]], int | None
]


def cgroup(text: str) -> Parsed:
    """Return times, rates and disks of what the shell loop wrote.

    :raises ValueError: there are less than two samples.
    """
    head, *lines = [line.split() for line in text.splitlines()] or [[]]
    samples = [line for line in lines if len(line) >= 8 and len(line) % 4 == 0]
    if len(samples) < 2 or len(head) != 2:
        raise ValueError('fewer than two samples')
    zero = float(head[0]) - float(head[1])
    times = [zero + float(line[0]) for line in samples]

    def rate(column: int, unit: float = 1) -> Values:
        return [
            round(
                (int(new[column]) - int(old[column])) * unit / (end - begin), 4
            )
            if end > begin
            else 0.0
            for old, new, begin, end in zip(
                samples, samples[1:], times, times[1:], strict=False
            )
        ]

    rates = {
        'cpu': rate(1, 1e-9),
        'rx': rate(3),
        'rx_packets': rate(4),
        'tx': rate(5),
        'tx_packets': rate(6),
        'swap': rate(7),
    }
    if all(line[2] != '-' for line in samples):
        rates['throttled'] = rate(2, 1e-9)
    disks = {
        samples[0][column]: {
            'read': rate(column + 1, _SECTOR),
            'write': rate(column + 2, _SECTOR),
            'busy': rate(column + 3, 1e-3),
        }
        for column in range(8, min(map(len, samples)), 4)
    }
    return times, rates, disks, None


_NOT_BUSY = ('idle', 'iowait', 'steal')
#: Devices that are no disks, or lie on others that are counted.
NO_DISKS = ('loop', 'ram', 'zram', 'dm-', 'md', 'sr', 'fd')
#: sysstat's name of each path of NVMe disks with several paths, whose number
#: is 0:0. It leaves the disks themselves out, or counts them again.
_HIDDEN_DISK = 'dev0-0'


def sysstat(text: str) -> Parsed:
    """Return times, rates and disks of what ``sadf -j`` wrote.

    The first line names the interface of the node's address, and the second
    one has the number of CPUs that are online.

    :raises ValueError: the text has no sample, or a field is missing.
    """
    device, count, document = text.split('\n', 2)
    cpus = int(count)
    host = json.loads(document)['sysstat']['hosts'][0]
    samples = [sample for sample in host['statistics'] if 'cpu-load' in sample]
    if not samples:
        raise ValueError('fewer than two samples')
    stamps = [sample['timestamp'] for sample in samples]
    times = [
        datetime.fromisoformat(f'{stamp["date"]}T{stamp["time"]}')
        .replace(tzinfo=UTC)
        .timestamp()
        for stamp in stamps
    ]
    times.insert(0, times[0] - float(stamps[0]['interval']))
    load = [sample['cpu-load'][0] for sample in samples]
    net = [
        {x['iface']: x for x in sample['network']['net-dev']}[device]
        for sample in samples
    ]
    rates: dict[str, Values] = {
        'cpu': [
            round(
                cpus * (100 - sum(cpu_load[key] for key in _NOT_BUSY)) / 100, 4
            )
            for cpu_load in load
        ],
        'steal': [
            round(cpus * cpu_load['steal'] / 100, 4) for cpu_load in load
        ],
        'swap': [
            _scale(
                sample['swap-pages']['pswpin']
                + sample['swap-pages']['pswpout']
            )
            for sample in samples
        ],
        **{
            way: [_scale(x[f'{way}kB'], 1024) for x in net]
            for way in ('rx', 'tx')
        },
        **{
            f'{way}_packets': [x[f'{way}pck'] for x in net]
            for way in ('rx', 'tx')
        },
    }
    disks: dict[str, dict[str, Values]] = {}
    disks_by_sample = [dict(_disks(sample)) for sample in samples]
    for name in disks_by_sample[0]:
        rows = [sample_disks.get(name) for sample_disks in disks_by_sample]
        disks[name] = {
            series: [None if x is None else _scale(x[key], unit) for x in rows]
            for series, key, unit in (
                ('read', 'rkB', 1024),
                ('write', 'wkB', 1024),
                ('busy', 'util-percent', 0.01),
            )
        }
    return times, rates, disks, cpus


def _scale(value: float, unit: float = 1) -> float:
    """Return a rate with the decimals that sysstat prints.

    The product of binary fractions, such as 0.01 x 12.34, has 17 digits,
    which would double the size of a file of millions of samples.
    """
    return round(value * unit, 4)


def _disks(sample: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    devices = [
        (str(disk['disk-device']), disk) for disk in sample.get('disk', ())
    ]
    if any(name == _HIDDEN_DISK for name, _ in devices):
        return
    for name, disk in devices:
        if not name.startswith(NO_DISKS):
            yield name, disk
