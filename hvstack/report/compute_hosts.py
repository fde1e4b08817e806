# SPDX-License-Identifier: Apache-2.0
"""CPU time of the compute hosts: of guests, of agents and of other work.

It shows what virtualization costs on the hosts, which the guests do not see.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from hvstack.report.sweep_report import SweepReport
from hvstack.report.sweep_rows import Row
from hvstack.results.compute_hosts import (
    CGROUP,
    PROC,
    ComputeHost,
    ComputeHosts,
    HostUse,
    sum_uses,
)
from hvstack.results.typed_json import JsonObject

#: The whole run, from the start of the first phase to the end of the last.
WHOLE = 'whole run'
#: Columns of the tables.
HEAD = (
    *('configuration', 'phase', 'hosts', 'runs', 'guests', 'agents', 'other'),
    *('steal', 'host CPU per guest CPU'),
)
#: What the columns are.
LEGEND = (
    'Cores are CPU seconds over seconds, sums over the compute hosts and '
    'means over the runs. Guests are all guests of these hosts with their '
    'emulators; agents are the daemons of Nova, Neutron, OVN, Open vSwitch '
    'and libvirt; other is the busy time that remains, such as the work of '
    'the kernel for networks and disks; steal is what a hypervisor below the '
    'hosts took away. Host CPU per guest CPU is the busy time of the hosts '
    'over the time in which their CPUs executed the code of guests.'
)
_METHODS = {
    PROC: 'read from /proc of the hosts',
    CGROUP: 'read from the control groups of lab hosts, which have neither '
    'steal nor disks and network interfaces of their own',
}


@dataclass(frozen=True)
class HostCores:
    """Cores of compute hosts that a configuration used, all hosts together.

    :param label: short name of the configuration.
    :param phase: name of the phase, or :data:`WHOLE`.
    :param hosts: number of hosts.
    :param runs: number of valid runs with samples of these hosts.
    :param guests: cores used by guests; None if it is unknown, like the
        other values.
    :param agents: cores used by agents.
    :param other: cores used by other processes and by the kernel.
    :param steal: cores that were stolen from the hosts.
    :param busy_per_guest: busy CPU seconds for each CPU second in which
        guests computed.
    """

    label: str
    phase: str
    hosts: int
    runs: int
    guests: float | None
    agents: float | None
    other: float | None
    steal: float | None
    busy_per_guest: float | None

    def format_cells(self) -> tuple[str, ...]:
        """Return the row of a table with :data:`HEAD`."""
        values = (self.guests, self.agents, self.other, self.steal)
        return (
            *(self.label, self.phase, str(self.hosts), str(self.runs)),
            *(_format(value, 2) for value in values),
            _format(self.busy_per_guest, 3),
        )


def list_cores(report: SweepReport, *, whole: bool = False) -> list[HostCores]:
    """Return the use of the compute hosts by configuration and phase.

    :param report: report of a sweep.
    :param whole: whether to return the whole runs only.
    :returns: rows in the order of the report, without the configurations
        whose hosts were not measured.
    """
    return [
        cores for row in report.rows for cores in _list_cores(row, whole=whole)
    ]


def list_methods(report: SweepReport) -> list[str]:
    """Return how the hosts were measured, in the words of the report."""
    methods = {
        _METHODS.get(hosts.method, hosts.method)
        for row in report.rows
        for hosts in _list_measured(row)
    }
    return sorted(methods)


def list_reasons(report: SweepReport) -> list[tuple[str, str]]:
    """Return why hosts were not measured: configurations, and a sentence."""
    labels_by_reason: dict[str, list[str]] = {}
    for row in report.rows:
        for run in row.valid + row.failed:
            hosts = run.observations.compute_hosts or ComputeHosts()
            for reason in hosts.reasons:
                labels = labels_by_reason.setdefault(reason, [])
                if row.label not in labels:
                    labels.append(row.label)
    return [
        (', '.join(labels), reason)
        for reason, labels in labels_by_reason.items()
    ]


def list_unmeasured(report: SweepReport) -> list[tuple[str, str]]:
    """Return the number of runs of guests without samples of their hosts."""
    guests = [record for record in report.records if record.sut.backend]
    measured = [
        record
        for record in guests
        if (hosts := record.observations.compute_hosts) and hosts.hosts
    ]
    if len(measured) == len(guests):
        return []
    return [
        (
            'CPU time of the compute hosts',
            f'{len(guests) - len(measured)} of {len(guests)} runs of guests '
            'hold no samples of them',
        )
    ]


def to_mapping(report: SweepReport) -> JsonObject:
    """Return the use of the compute hosts as plain data."""
    return {
        'methods': list_methods(report),
        'rows': [asdict(cores) for cores in list_cores(report)],
        'not_measured': [
            {'configurations': labels, 'reason': reason}
            for labels, reason in list_reasons(report)
        ],
    }


def _list_measured(row: Row) -> list[ComputeHosts]:
    """Return the valid runs of a row with the hosts of its last such run.

    Runs with other hosts, such as those of which one did not answer, would
    have other sums.
    """
    measured = [
        hosts
        for run in row.valid
        if (hosts := run.observations.compute_hosts) and hosts.hosts
    ]
    return [
        hosts
        for hosts in measured
        if hosts.hosts.keys() == measured[-1].hosts.keys()
    ]


def _list_cores(row: Row, *, whole: bool) -> Iterator[HostCores]:
    measured = _list_measured(row)
    if not measured:
        return
    phases = (
        [] if whole else list(next(iter(measured[-1].hosts.values())).phases)
    )
    for phase in (WHOLE, *phases):
        uses = [
            sum_uses([_get_use(host, phase) for host in hosts.hosts.values()])
            for hosts in measured
        ]
        guests, agents, other, steal = (
            _compute_mean(
                [
                    seconds / use.seconds
                    if (seconds := getattr(use, name)) is not None
                    and use.seconds
                    else None
                    for use in uses
                ]
            )
            for name in ('guests', 'agents', 'other', 'steal')
        )
        yield HostCores(
            row.label,
            phase,
            len(measured[-1].hosts),
            len(measured),
            guests,
            agents,
            other,
            steal,
            _compute_mean(
                [
                    use.busy / use.guest_time
                    if use.busy is not None and use.guest_time
                    else None
                    for use in uses
                ]
            ),
        )


def _get_use(host: ComputeHost, phase: str) -> HostUse:
    return host.run if phase == WHOLE else host.phases.get(phase, HostUse())


def _compute_mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values of runs; None if no run has a value."""
    numbers = [value for value in values if value is not None]
    return round(sum(numbers) / len(numbers), 4) if numbers else None


def _format(value: float | None, digits: int) -> str:
    return '-' if value is None else f'{value:.{digits}f}'
