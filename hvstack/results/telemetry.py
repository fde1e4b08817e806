# SPDX-License-Identifier: Apache-2.0
"""Telemetry of a run: what its nodes' CPUs, disks and networks did over time.

:mod:`hvstack.results.telemetry_files` stores it; the record of the run has
sums by phase and by node.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hvstack.model.strict_mapping import Signed
from hvstack.results.observations import Phase
from hvstack.results.record_data import RunRecord, number_phase_names
from hvstack.results.typed_json import JsonObject
from hvstack.results.workload_types import TYPES

#: Format of the files that this release writes, and the newest it reads.
SCHEMA = 2
#: Phases that sort.
_SORTERS = {item.sorter for item in TYPES.values()} - {''}
#: Series of a node, each a rate: cores busy, stolen or throttled; bytes,
#: packets and pages a second.
RATES = (
    'cpu',
    'steal',
    'throttled',
    'rx',
    'tx',
    'rx_packets',
    'tx_packets',
    'swap',
)
#: Series of a disk: bytes a second, and the part of the time it was busy.
DISK_RATES = ('read', 'write', 'busy')
#: Counters of a node's network: TCP segments that it sent, those that it sent
#: again (they are among the former), time-outs after which it sent one again,
#: and packets that its interface dropped.
NETWORK_COUNTERS = (
    'segments',
    'retransmitted_segments',
    'retransmission_timeouts',
    'dropped_rx_packets',
    'dropped_tx_packets',
)
#: What is summed over the workers for each phase.
PHASE_SUMS = ('cpu', 'steal', 'throttled', 'read', 'write', 'rx', 'tx')
#: Those that are held against what must have been moved, hence with bounds.
BOUNDED = ('rx', 'write')
#: Headers of a TCP segment with time stamps, with Ethernet's: 14 + 20 + 32.
HEADER_BYTES = 66

#: Rates of a series. Rounded shares of CPU time may have a sum of more than
#: 100 %, so that a rate is less than zero.
Values = list[Signed | None]


@dataclass(frozen=True)
class NodeTelemetry:
    """What one node did.

    :param cpus: that its kernel counts; None where it shares one.
    :param times: seconds since the run's start at which samples were taken;
        less than zero for the first, because a sampler starts before the run.
    :param rates: by name of :data:`RATES`, one value between two times each;
        a series that the node does not have is missing.
    :param disks: by device, series of :data:`DISK_RATES`.
    :param network: counters of :data:`NETWORK_COUNTERS` from the start of the
        sampler to its end; those that the node does not have are missing.
    """

    name: str
    role: str
    host: str
    times: list[Signed]
    rates: dict[str, Values]
    disks: dict[str, dict[str, Values]] = field(default_factory=dict)
    cpus: int | None = None
    network: dict[str, int] = field(default_factory=dict)

    def spans(self) -> Iterator[tuple[int, float, float]]:
        """Yield index, begin and end of what lies between two samples."""
        for index, pair in enumerate(
            zip(self.times, self.times[1:], strict=False)
        ):
            yield index, *pair

    def values(self, name: str) -> Values | None:
        """Return a series; of ``read`` and ``write`` all disks' together."""
        if name not in DISK_RATES:
            return self.rates.get(name)
        if not self.disks:
            return None
        return [
            None if None in column else sum(sample or 0 for sample in column)
            for column in zip(
                *(disk[name] for disk in self.disks.values()), strict=True
            )
        ]

    def total(self, values: Values | None) -> float | None:
        """Return a rate times time; None where a sample is missing."""
        if values is None:
            return None
        total = 0.0
        for index, begin, end in self.spans():
            value = values[index]
            if value is None:
                return None
            total += value * (end - begin)
        return total

    def mean(
        self, values: Values | None, begin: float, end: float
    ) -> float | None:
        """Return a rate's mean over a time; None if most of it is unknown."""
        if values is None:
            return None
        total = covered_seconds = 0.0
        for index, first, last in self.spans():
            part = min(last, end) - max(first, begin)
            value = values[index]
            if part > 0 and value is not None:
                total += value * part
                covered_seconds += part
        return (
            total / covered_seconds
            if covered_seconds > (end - begin) / 2
            else None
        )

    def steps(
        self, values: Values, width: float, count: int
    ) -> list[float | None]:
        """Return a rate's means over equal steps from the run's start on.

        :param width: seconds of a step.
        :returns: None where most of a step is unknown.
        """
        totals, covered_seconds = [0.0] * count, [0.0] * count
        for index, first, last in self.spans():
            value = values[index]
            if value is None:
                continue
            begin = max(0, int(first // width))
            for step in range(begin, min(count, int(last // width) + 1)):
                part = min(last, (step + 1) * width) - max(first, step * width)
                totals[step] += value * part
                covered_seconds[step] += part
        return [
            total / covered if covered > width / 2 else None
            for total, covered in zip(totals, covered_seconds, strict=True)
        ]


@dataclass(frozen=True)
class Telemetry:
    """What all nodes of a run did.

    :param source: ``sysstat``, or ``cgroup`` where nodes share a kernel.
    :param interval: seconds between samples.
    :param phases: name, begin and end in seconds since the run's start.
    :param nodes: those that answered.
    :param gaps: what is not known, and why.
    """

    source: str
    interval: float
    phases: list[tuple[str, float, float]]
    nodes: list[NodeTelemetry]
    gaps: list[str] = field(default_factory=list)
    schema: int = SCHEMA

    @property
    def workers(self) -> list[NodeTelemetry]:
        """Nodes that store and sort."""
        return [node for node in self.nodes if node.role == 'worker']


def compute_windows(
    phases: Sequence[Phase],
) -> dict[str, tuple[float, float]]:
    """Return Unix times of begin and end of each phase that has them.

    The two parts of a sort stand behind it, where its job's start is known.
    """
    windows_by_phase: dict[str, tuple[float, float]] = {}
    for name, phase in zip(number_phase_names(phases), phases, strict=True):
        if phase.started_at is None:
            continue
        ended = phase.started_at + phase.seconds
        windows_by_phase[name] = (phase.started_at, ended)
        job = phase.job
        if name in _SORTERS and job.started_at is not None:
            # The clock of the ApplicationMaster's node may be another one.
            start = min(job.started_at, ended - (job.seconds or 0.0))
            start = max(start, phase.started_at)
            shuffle_end = start + (job.map_shuffle_seconds or 0)
            windows_by_phase['map-shuffle'] = (start, shuffle_end)
            windows_by_phase['reduce-merge'] = (
                shuffle_end,
                shuffle_end + (job.reduce_merge_seconds or 0),
            )
    return windows_by_phase


def cut(
    telemetry: Telemetry,
    begin: float,
    end: float,
    windows: Mapping[str, tuple[float, float]],
    gaps: Sequence[str] = (),
) -> Telemetry:
    """Return the samples of a part of a run as those of a run of its own.

    The counters of the network cover the whole run, and are left out.

    :param begin: begin of the part in seconds since the start of the run.
    :param end: end of the part, likewise.
    :param windows: begin and end of each phase, likewise.
    :param gaps: what is not known of this part, and why.
    """
    nodes = []
    for node in telemetry.nodes:
        indexes = [
            index
            for index, first, last in node.spans()
            if last > begin and first < end
        ]
        part = slice(indexes[0], indexes[-1] + 1) if indexes else slice(0, 0)
        times = node.times[part.start : part.stop + 1] if indexes else []
        nodes.append(
            replace(
                node,
                times=[round(moment - begin, 2) for moment in times],
                rates={
                    name: values[part] for name, values in node.rates.items()
                },
                disks={
                    device: {
                        name: values[part] for name, values in series.items()
                    }
                    for device, series in node.disks.items()
                },
                network={},
            )
        )
    return replace(
        telemetry,
        phases=[
            (name, round(first - begin, 2), round(last - begin, 2))
            for name, (first, last) in windows.items()
        ],
        nodes=nodes,
        gaps=[*telemetry.gaps, *gaps],
    )


def _compute_amount(
    node: NodeTelemetry,
    name: str,
    values: Values | None,
    begin: float,
    end: float,
) -> float | None:
    """Return CPU seconds or bytes of a part of the run.

    Network bytes are without headers, which differ with the offloads.

    :returns: None if most of it is unknown.
    """
    mean = node.mean(values, begin, end)
    if mean is None:
        return None
    packets = node.mean(node.values(f'{name}_packets'), begin, end)
    return max(0.0, mean - HEADER_BYTES * (packets or 0)) * (end - begin)


def compute_bounds(
    node: NodeTelemetry,
    name: str,
    values: Values | None,
    begin: float,
    end: float,
) -> tuple[float, float] | None:
    """Return the least and the most bytes that a part of the run can have.

    A sample that reaches over its begin or end does not say on which side
    its bytes were: the least is without such samples, the most with them.

    :param name: name of a series of the node.
    :param values: values of the series; None without them.
    :returns: None if a sample is missing.
    """
    if values is None:
        return None
    packets = node.values(f'{name}_packets') or [0.0] * len(values)
    min_bytes = max_bytes = 0.0
    for index, first, last in node.spans():
        if last <= begin or first >= end:
            continue
        value, of_headers = values[index], packets[index]
        if value is None or of_headers is None:
            return None
        sample_bytes = max(0.0, value - HEADER_BYTES * of_headers) * (
            last - first
        )
        max_bytes += sample_bytes
        if begin <= first and last <= end:
            min_bytes += sample_bytes
    return min_bytes, max_bytes


def summarize(telemetry: Telemetry) -> JsonObject:
    """Return the summary for a record: sums by phase and by node.

    ``cpu``, ``steal`` and ``throttled`` are CPU seconds, ``busy`` are seconds
    of the busiest disk, the others bytes; network bytes are without headers,
    sums are of the workers. ``rx_least`` and ``rx_most`` (and of ``write``)
    are as :func:`compute_bounds` has them.
    """
    by_node = {
        node.name: {
            **_round_known(
                {
                    series_name: node.total(node.values(series_name))
                    for series_name in (
                        'cpu',
                        'steal',
                        'throttled',
                        'rx',
                        'tx',
                        'swap',
                    )
                }
            ),
            'role': node.role,
            'cpus': node.cpus,
            'seconds': round(node.times[-1] - node.times[0], 1),
            'network': node.network,
            'disks': {
                name: _round_known(
                    {
                        series_name: node.total(series[series_name])
                        for series_name in ('read', 'write', 'busy')
                    }
                )
                for name, series in node.disks.items()
            },
        }
        for node in telemetry.nodes
        if node.times
    }
    return {
        'source': telemetry.source,
        'interval': telemetry.interval,
        'gaps': telemetry.gaps,
        'phases': _summarize_phases(telemetry),
        'nodes': by_node,
    }


def _summarize_phases(telemetry: Telemetry) -> dict[str, dict[str, float]]:
    """Return the sums over the workers by phase.

    All phases of a node are computed before those of the next node, and the
    sums of its disks once: each pass over the samples of 640 nodes reads
    hundreds of MiB.
    """
    phases = telemetry.phases
    amounts: list[dict[str, list[float | None]]] = [
        {name: [] for name in PHASE_SUMS} for _ in phases
    ]
    bounds: list[dict[str, list[tuple[float, float] | None]]] = [
        {name: [] for name in BOUNDED} for _ in phases
    ]
    busy: list[list[float | None]] = [[] for _ in phases]
    for node in telemetry.workers:
        series = {name: node.values(name) for name in PHASE_SUMS}
        for index, (_, begin, end) in enumerate(phases):
            busy[index].append(_compute_busy_seconds(node, begin, end))
            for name, values in series.items():
                amounts[index][name].append(
                    _compute_amount(node, name, values, begin, end)
                )
            for name in BOUNDED:
                bounds[index][name].append(
                    compute_bounds(node, name, series[name], begin, end)
                )
    return {
        phase: _round_known(
            {
                'seconds': end - begin,
                **{
                    name: _sum_known(values)
                    for name, values in amounts[index].items()
                },
                'busy': _sum_known(busy[index]),
                **_sum_bounds(bounds[index]),
            }
        )
        for index, (phase, begin, end) in enumerate(phases)
    }


def _compute_busy_seconds(
    node: NodeTelemetry, begin: float, end: float
) -> float | None:
    """Return the seconds in which the busiest disk of a node was busy.

    :returns: None without a disk, or if most of the time is unknown.
    """
    shares = [
        node.mean(disk['busy'], begin, end) for disk in node.disks.values()
    ]
    known_shares = [share for share in shares if share is not None]
    if not shares or len(known_shares) < len(shares):
        return None
    return max(known_shares) * (end - begin)


def _sum_bounds(
    bounds: Mapping[str, Sequence[tuple[float, float] | None]],
) -> dict[str, float]:
    """Return the sums of bounds that all workers have."""
    byte_bounds: dict[str, float] = {}
    for name, pairs in bounds.items():
        complete_pairs = [pair for pair in pairs if pair is not None]
        if complete_pairs and len(complete_pairs) == len(pairs):
            byte_bounds[f'{name}_least'] = round(
                sum(min_bytes for min_bytes, _ in complete_pairs), 2
            )
            byte_bounds[f'{name}_most'] = round(
                sum(max_bytes for _, max_bytes in complete_pairs), 2
            )
    return byte_bounds


def compute_steal_shares(record: RunRecord) -> dict[str, float] | None:
    """Return the share of the CPU time of each node that was stolen.

    :returns: shares by name of the node; None if they are not available:
        without telemetry, for nodes that share a kernel, and on emulated
        CPUs, which count no stolen time.
    """
    summary = record.observations.telemetry
    if summary is None or record.sut.backend == 'qemu':
        return None
    shares = {
        name: node.steal / (node.cpus * node.seconds)
        for name, node in summary.nodes.items()
        if node.steal is not None and node.cpus and node.seconds
    }
    return shares or None


def compute_retransmitted_shares(record: RunRecord) -> dict[str, float]:
    """Return the part of each node's TCP segments that it sent again.

    :returns: nothing where it is not known: without telemetry, or in records
        of older releases.
    """
    summary = record.observations.telemetry
    if summary is None:
        return {}
    counters_by_node = {
        name: node.network for name, node in summary.nodes.items()
    }
    return {
        name: counters['retransmitted_segments'] / counters['segments']
        for name, counters in counters_by_node.items()
        if counters.get('segments') and 'retransmitted_segments' in counters
    }


def _round_known(values: Mapping[str, float | None]) -> dict[str, float]:
    return {
        name: round(value, 2)
        for name, value in values.items()
        if value is not None
    }


def _sum_known(values: Iterable[float | None]) -> float | None:
    samples = list(values)
    known_samples = [sample for sample in samples if sample is not None]
    return (
        sum(known_samples)
        if samples and len(known_samples) == len(samples)
        else None
    )
