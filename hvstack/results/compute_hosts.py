# SPDX-License-Identifier: Apache-2.0
"""Use of the compute hosts below the guests of a run, as records contain it.

Guests see neither the CPU time of the emulator and of the agents, nor the
CPU time that virtualization costs on their hosts.
:mod:`hvstack.results.host_telemetry` computes it from samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

#: Method of hosts that ssh reaches: files of /proc and /sys.
PROC = 'proc'
#: Method of the hosts of a lab: their control groups on this machine.
CGROUP = 'cgroup'


@dataclass(frozen=True)
class HostUse:
    """Use of a compute host during a phase.

    CPU times are seconds of all CPUs together. A value is None if the host
    does not count it, or has no samples of the whole phase.

    :param seconds: duration in seconds.
    :param busy: CPU time of all processes and of the kernel.
    :param guests: CPU time of the processes of guests, with their emulators.
    :param guest_time: CPU time in which guests computed: the part of
        ``guests`` that a CPU was in guest mode, and all of it for
        containers.
    :param agents: CPU time of the agents and daemons of the cloud.
    :param other: busy time less that of guests and agents, such as softirqs.
    :param steal: CPU time that a hypervisor below the host took away.
    :param read: bytes that the disks read.
    :param write: bytes that the disks wrote.
    :param disk_busy: seconds in which disks were busy, of all disks together.
    :param rx: bytes that the network interfaces received.
    :param tx: bytes that the network interfaces sent.
    :param rx_packets: received packets.
    :param tx_packets: sent packets.
    :param rx_dropped: packets that were dropped when they were received.
    :param tx_dropped: packets that were dropped when they were sent.
    """

    seconds: float = 0
    busy: float | None = None
    guests: float | None = None
    guest_time: float | None = None
    agents: float | None = None
    other: float | None = None
    steal: float | None = None
    read: float | None = None
    write: float | None = None
    disk_busy: float | None = None
    rx: float | None = None
    tx: float | None = None
    rx_packets: float | None = None
    tx_packets: float | None = None
    rx_dropped: float | None = None
    tx_dropped: float | None = None


@dataclass(frozen=True)
class ComputeHost:
    """Use of a compute host as the run record contains it.

    :param cpus: number of CPUs of its kernel; None if it shares one.
    :param run: use from the start of the first phase to the end of the last.
    :param phases: use by phase.
    :param disks: bytes read and written and seconds busy by disk.
    :param nics: bytes, packets and dropped packets by network interface.
    """

    cpus: float | None = None
    run: HostUse = field(default_factory=HostUse)
    phases: Mapping[str, HostUse] = field(default_factory=dict)
    disks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    nics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class ComputeHosts:
    """Compute hosts of a run as its record contains them.

    :param method: ``proc`` for hosts that ssh reaches, ``cgroup`` for those
        of a lab; empty if no host was measured.
    :param interval: seconds between samples.
    :param reasons: hosts and times that were not measured, in whole
        sentences with the remedy.
    :param hosts: use by name of the host.
    """

    method: str = ''
    interval: float | None = None
    reasons: tuple[str, ...] = ()
    hosts: Mapping[str, ComputeHost] = field(default_factory=dict)


def sum_uses(uses: Sequence[HostUse]) -> HostUse:
    """Return the use of several hosts together during the same time.

    :param uses: use of each host; a sum is None if a host lacks its value.
    """
    rows = [asdict(use) for use in uses]
    names = [
        name for name in HostUse.__dataclass_fields__ if name != 'seconds'
    ]
    return HostUse(
        max((use.seconds for use in uses), default=0),
        **{
            name: round(sum(row[name] for row in rows), 2)
            for name in names
            if rows and all(row[name] is not None for row in rows)
        },
    )
