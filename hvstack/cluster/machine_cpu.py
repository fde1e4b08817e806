# SPDX-License-Identifier: Apache-2.0
"""CPU time of the machine below a lab, and what used it.

Lab hosts share the machine with the control plane, with hvstack itself and
with programs that have nothing to do with the run, which slow it down.
"""

import os
import resource
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hvstack.cluster import lab_groups
from hvstack.cluster.lab_groups import HostGroup
from hvstack.results.observations import MachineCpu

_PROC = Path('/proc')
#: Columns of /proc/stat with busy time: user, nice, system, irq and softirq.
_BUSY_COLUMNS = (1, 2, 3, 6, 7)
#: Fields of /proc/PID/stat after the name: own time and that of children that
#: have ended, user and system each.
_TIME_FIELDS = slice(11, 15)


@dataclass(frozen=True)
class CpuTimes:
    """Counters of the CPU time in seconds.

    :param moment: time of the counters by the monotonic clock.
    :param busy: busy time of the machine.
    :param hosts: time of all lab hosts.
    :param control_plane: time of the processes of the control plane.
    :param own: time of this process.
    """

    moment: float
    busy: float
    hosts: float
    control_plane: float
    own: float

    def subtract(self, before: 'CpuTimes') -> MachineCpu:
        """Return the CPU seconds since earlier counters for the record."""
        spans = {
            'busy': self.busy - before.busy,
            'hosts': self.hosts - before.hosts,
            # A process that has ended takes its time with it.
            'control_plane': max(
                0.0, self.control_plane - before.control_plane
            ),
            'hvstack': self.own - before.own,
        }
        assigned = sum(
            value for name, value in spans.items() if name != 'busy'
        )
        return MachineCpu(
            seconds=round(self.moment - before.moment, 3),
            foreign=round(max(0.0, spans['busy'] - assigned), 3),
            **{name: round(value, 3) for name, value in spans.items()},
        )


@dataclass(frozen=True)
class MachineMeter:
    """Reader of the counters of a machine with a lab.

    :param hosts: control groups of all lab hosts.
    """

    hosts: tuple[HostGroup, ...]

    def read(self) -> CpuTimes | None:
        """Return the counters; None if a host was powered off."""
        # Children run in the lab hosts, whose groups count their time.
        usage = resource.getrusage(resource.RUSAGE_SELF)
        try:
            return CpuTimes(
                time.monotonic(),
                _read_busy_seconds(),
                sum(group.read_cpu_seconds() for group in self.hosts),
                _sum_processes(lab_groups.list_control_plane()),
                usage.ru_utime + usage.ru_stime,
            )
        except OSError:
            return None


def create_meter(host_names: Iterable[str]) -> MachineMeter | None:
    """Return a meter, if the hosts are those of a lab on this machine.

    :param host_names: names of all hosts with a cap.
    """
    groups = lab_groups.find_hosts(host_names)
    return MachineMeter(tuple(groups)) if groups else None


def _read_busy_seconds() -> float:
    """Return the busy time of all CPUs, without stolen time."""
    text = (_PROC / 'stat').read_text(encoding='utf-8')
    columns = text.partition('\n')[0].split()
    ticks = sum(int(columns[column]) for column in _BUSY_COLUMNS)
    return ticks / os.sysconf('SC_CLK_TCK')


def _sum_processes(pids: Iterable[int]) -> float:
    """Return the CPU time of processes and of their ended children."""
    ticks = 0
    for pid in pids:
        try:
            text = (_PROC / str(pid) / 'stat').read_text(encoding='utf-8')
        except OSError:
            continue
        fields = text.rpartition(')')[2].split()
        ticks += sum(map(int, fields[_TIME_FIELDS]))
    return ticks / os.sysconf('SC_CLK_TCK')
