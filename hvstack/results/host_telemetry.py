# SPDX-License-Identifier: Apache-2.0
"""Samples of compute hosts during a run, and their sums for its record."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from hvstack.results.compute_hosts import ComputeHost, ComputeHosts, HostUse
from hvstack.results.observations import Phase
from hvstack.results.telemetry import (
    NodeTelemetry,
    Values,
    compute_windows,
)
from hvstack.results.typed_json import JsonObject

#: Series of a host whose sums are in the record: CPU seconds, bytes, packets.
_SUMS = (
    *('busy', 'guests', 'guest_time', 'agents', 'steal'),
    *('rx', 'tx', 'rx_packets', 'tx_packets', 'rx_dropped', 'tx_dropped'),
)
_DISK_SUMS = {'read': 'read', 'write': 'write', 'busy': 'disk_busy'}
#: Difference of the clocks of a host and of this machine, at most.
_CLOCK_SECONDS = 1.0
_NO_TIMES = (
    'The compute hosts were not measured: no phase of the run has a start '
    "time. Check that the JobHistory server runs, and see 'reason' and "
    "'without_counters' in the run record."
)


@dataclass(frozen=True)
class HostSeries(NodeTelemetry):
    """Samples of a compute host.

    :param nics: series of each network interface: bytes, packets and dropped
        packets a second.
    """

    nics: dict[str, dict[str, Values]] = field(default_factory=dict)


@dataclass
class HostsTelemetry:
    """Samples of all compute hosts of a run.

    :param method: :data:`hvstack.results.compute_hosts.PROC` or
        :data:`~hvstack.results.compute_hosts.CGROUP`; empty if no host is
        measured.
    :param interval: seconds between samples.
    :param hosts: hosts with samples, whose times are Unix times.
    :param reasons: hosts and times that were not measured, in whole
        sentences with the remedy.
    """

    method: str
    interval: float
    hosts: list[HostSeries] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def summarize(
    telemetry: HostsTelemetry, phases: Sequence[Phase]
) -> JsonObject:
    """Return the compute hosts of a run for its record.

    :param telemetry: samples of the hosts.
    :param phases: phases of the run.
    """
    reasons = list(telemetry.reasons)
    spans = [
        (phase.started_at, phase.started_at + phase.seconds)
        for phase in phases
        if phase.started_at is not None
    ]
    if telemetry.hosts and not spans:
        reasons.append(_NO_TIMES)
    run = (
        min((begin for begin, _ in spans), default=0),
        max((end for _, end in spans), default=0),
    )
    windows = compute_windows(phases)
    return asdict(
        ComputeHosts(
            telemetry.method,
            telemetry.interval,
            tuple(reasons),
            {
                host.name: _summarize_host(host, run, windows)
                for host in telemetry.hosts
            },
        )
    )


def _summarize_host(
    host: HostSeries,
    run: tuple[float, float],
    windows: Mapping[str, tuple[float, float]],
) -> ComputeHost:
    begin, end = run
    is_complete = _covers(host, begin, end)
    return ComputeHost(
        host.cpus,
        _compute_use(host, begin, end),
        {
            name: _compute_use(host, first, last)
            for name, (first, last) in windows.items()
        },
        *(
            {
                device: dict(_compute_amounts(host, series, begin, end))
                for device, series in devices.items()
                if is_complete
            }
            for devices in (host.disks, host.nics)
        ),
    )


def _covers(host: HostSeries, begin: float, end: float) -> bool:
    """Return whether the samples of a host cover a time."""
    return bool(host.times) and (
        host.times[0] <= begin + _CLOCK_SECONDS
        and host.times[-1] >= end - _CLOCK_SECONDS
    )


def _compute_amounts(
    host: HostSeries, series: Mapping[str, Values], begin: float, end: float
) -> Iterator[tuple[str, float]]:
    """Yield the sums of rates over a time, without those that are unknown."""
    for name, values in series.items():
        mean = host.mean(values, begin, end)
        if mean is not None:
            yield name, round(mean * (end - begin), 2)


def _compute_use(host: HostSeries, begin: float, end: float) -> HostUse:
    seconds = round(end - begin, 2)
    if not _covers(host, begin, end):
        return HostUse(seconds)
    sums = dict(
        _compute_amounts(
            host,
            {
                **{
                    name: host.rates[name]
                    for name in _SUMS
                    if name in host.rates
                },
                **{
                    title: values
                    for name, title in _DISK_SUMS.items()
                    if (values := host.values(name)) is not None
                },
            },
            begin,
            end,
        )
    )
    if {'busy', 'guests', 'agents'} <= sums.keys():
        other = sums['busy'] - sums['guests'] - sums['agents']
        # The counters of processes are read shortly after that of the host.
        sums['other'] = round(max(0.0, other), 2)
    return HostUse(seconds, **sums)
