# SPDX-License-Identifier: Apache-2.0
"""Notes on the conditions of runs that are not part of a configuration."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from hvstack import errors
from hvstack.model.target import parse_target
from hvstack.nouns import format_server_use
from hvstack.results import task_splits
from hvstack.results.record_data import RunRecord
from hvstack.results.workload_types import TYPES

#: Runs that a note names.
_MAX_NAMED = 5
#: Cores that programs outside the lab may use in a phase without a note.
MAX_FOREIGN_CORES = 0.2
#: Shorter phases are shorter than a few ticks of the kernel's clock.
_MIN_PHASE_SECONDS = 1.0
#: Phases whose tasks are many enough to be split.
_SPLIT_PHASES = ('HSGen', 'HSSort')


def refuse_programs(records: Iterable[RunRecord]) -> None:
    """Refuse runs of programs on the workers, which have no rate by time.

    :raises hvstack.errors.InputError: there is such a run.
    """
    for record in records:
        workload = TYPES.get(record.sut.workload)
        if workload is not None and workload.is_on_nodes:
            raise errors.InputError(
                f"Cannot report the sweep '{record.sweep}': the workload "
                f"'{workload.name}' runs for a fixed time, so that its rate "
                "by time says nothing. Run 'hvstack study report'."
            )


def list_warnings(
    records: Iterable[RunRecord], variants: Mapping[str, str]
) -> list[str]:
    """Return notes that no figure of these runs is shown without.

    :param records: records of configurations and of bare metal.
    :param variants: names of the variants of a study by their sweeps; empty
        without a study.
    """
    valid = [record for record in records if record.valid]
    uneven = [
        record for record in valid if task_splits.list_uneven(record.phases)
    ]
    beside_others = [record for record in valid if _is_beside_others(record)]
    return [
        f'{subject} in {_name_runs(affected, len(valid), variants)}.'
        for subject, affected in (
            ('Tasks were split unevenly', uneven),
            (
                f'Programs outside the lab used more than {MAX_FOREIGN_CORES} '
                'cores of the machine',
                beside_others,
            ),
        )
        if affected
    ] + [*_list_failed_probes(valid), *_list_releases(valid)]


def _list_releases(records: Iterable[RunRecord]) -> list[str]:
    """Return the releases of hvstack that measured runs, if several did."""
    counts = Counter(
        record.observations.hvstack
        for record in records
        if record.observations.hvstack
    )
    if len(counts) < 2:
        return []
    releases = ', '.join(
        f'{release} ({count})' for release, count in sorted(counts.items())
    )
    return [
        'Several releases of hvstack measured the runs (number of runs): '
        f'{releases}.'
    ]


def _is_beside_others(record: RunRecord) -> bool:
    """Return whether programs outside the lab used much of the machine."""
    cores = compute_foreign_cores(record)
    return cores is not None and cores > MAX_FOREIGN_CORES


def _list_failed_probes(records: Sequence[RunRecord]) -> list[str]:
    """Return how often each side was measured in spite of the probe.

    A gate that holds up only one side would be a bias, so that both sides
    are always shown together.
    """
    sides = {}
    for name, kind in (
        ('bare metal', 'baseline'),
        ('configurations', 'configuration'),
    ):
        gates = [
            record.observations.probe
            for record in records
            if record.kind == kind and record.observations.probe
        ]
        results = [gate.is_passed for gate in gates]
        gated = [result for result in results if result is not None]
        if gated:
            sides[name] = (gated.count(False), len(gated))
    if not any(failed for failed, _ in sides.values()):
        return []
    return [
        'The probe before a run was not passed on '
        + ' and on '.join(
            f'{name} in {failed} of {count} runs'
            for name, (failed, count) in sides.items()
        )
        + ': hosts did not get their caps.'
    ]


def compute_foreign_cores(record: RunRecord) -> float | None:
    """Return the largest use of the machine by other programs in a phase.

    :returns: cores; None without a measurement of at least a second.
    """
    spans = [
        phase.machine_cpu
        for phase in record.phases
        if phase.machine_cpu
        and phase.machine_cpu.seconds >= _MIN_PHASE_SECONDS
    ]
    return max((span.foreign / span.seconds for span in spans), default=None)


def _check_foreign_cpu(record: RunRecord) -> Iterator[str]:
    if not _is_beside_others(record):
        return
    for phase in record.phases:
        cpu = phase.machine_cpu
        if cpu and cpu.foreign > MAX_FOREIGN_CORES * max(
            cpu.seconds, _MIN_PHASE_SECONDS
        ):
            yield (
                f'{cpu.foreign / cpu.seconds:.2f} cores in {phase.name}, with '
                f'{cpu.hosts / cpu.seconds:.2f} of the lab hosts, '
                f'{cpu.control_plane / cpu.seconds:.2f} of the control plane '
                f'and {cpu.hvstack / cpu.seconds:.2f} of hvstack'
            )


def _check_probe(record: RunRecord) -> Iterator[str]:
    gate = record.observations.probe
    if gate is None or gate.is_passed is not False:
        return
    hosts = ', '.join(
        f'{name} used {host.cores:.3f} of {host.cap:g} cores'
        for name, host in gate.hosts.items()
    )
    yield f'after {gate.tries} tries, {hosts}'


def _check_task_splits(record: RunRecord) -> Iterator[str]:
    yield from map(str, task_splits.list_uneven(record.phases))


def _check_other_servers(record: RunRecord) -> Iterator[str]:
    uses = record.observations.cloud.other_servers
    if uses:
        yield ', '.join(
            f'{format_server_use(use)} on {host}'
            for host, use in sorted(uses.items())
        )


def _check_qos(record: RunRecord) -> Iterator[str]:
    yield from record.observations.cloud.qos


#: Findings about these conditions, with the functions that find them.
CHECKS: tuple[tuple[str, Callable[[RunRecord], Iterator[str]]], ...] = (
    ('uneven tasks', _check_task_splits),
    ('foreign CPU time', _check_foreign_cpu),
    ('probe not passed', _check_probe),
    ('other servers on the hosts', _check_other_servers),
    ('QoS or encryption', _check_qos),
)
#: Where the limit of each finding comes from.
SOURCES = {
    'uneven tasks': 'a task and a tenth more than the share of a host or '
    "worker; hvstack's own limit",
    'foreign CPU time': f"{MAX_FOREIGN_CORES} cores in a phase; hvstack's "
    'own limit',
    'probe not passed': "98 % of the cap; hvstack's own limit",
    'other servers on the hosts': 'none when the cluster was complete',
    'QoS or encryption': 'none',
}


def list_notes(records: Sequence[RunRecord]) -> list[str]:
    """Return other notes.

    :param records: records of configurations and of bare metal.
    """
    splits = dict.fromkeys(
        f'{_label(record)}: {task_type} of {phase.name} '
        f'{task_splits.format_split(phase.job.hosts, task_type)}'
        for record in records
        if record.valid
        for phase in record.phases
        if phase.name in _SPLIT_PHASES
        for task_type in ('maps', 'reduces')
        # HSGen has no reduces.
        if any(getattr(host, task_type) for host in phase.job.hosts.values())
    )
    lines = [f'Tasks by host: {"; ".join(splits)}.'] if splits else []
    return lines + _list_paces(records)


def list_preparation_notes(records: Sequence[RunRecord]) -> list[str]:
    """Return notes on valid runs that were not prepared as they should be.

    :param records: records of configurations and of bare metal.
    """
    valid = [record for record in records if record.valid]
    return [*_list_unready(valid), *_list_without_effect(valid)]


def _list_unready(records: Sequence[RunRecord]) -> list[str]:
    """Return the note on runs before which not all was ready."""
    messages = [
        message
        for record in records
        for message in record.observations.before_run
    ]
    if not messages:
        return []
    runs = sum(bool(record.observations.before_run) for record in records)
    return [
        f'Before {runs} of {len(records)} runs not all was as it should '
        f'be; the last time {messages[-1]}.'
    ]


def _list_without_effect(records: Iterable[RunRecord]) -> list[str]:
    """Return the note on settings that the nodes could not apply."""
    settings = sorted(
        {
            str(setting)
            for record in records
            for setting in record.observations.without_effect
        }
    )
    if not settings:
        return []
    return [f'Settings without effect: {"; ".join(settings)}.']


def _list_paces(records: Iterable[RunRecord]) -> list[str]:
    """Return the pace of the machine, which corrects no rate."""
    paces = [
        record.observations.probe.hashed_per_cpu_second
        for record in records
        if record.valid and record.observations.probe
    ]
    measured = [pace for pace in paces if pace]
    if not measured:
        return []
    low, high = min(measured) / 1e6, max(measured) / 1e6
    return [
        f'Pace of the machine: {low:.1f} to {high:.1f} MB hashed in a CPU '
        f'second, before {len(measured)} runs. No rate is corrected by it.'
    ]


def _label(record: RunRecord) -> str:
    return parse_target(record.configuration).label


def _name_runs(
    records: Sequence[RunRecord], total: int, variants: Mapping[str, str]
) -> str:
    """Return the number of runs, and the names of the first of them.

    The variants of a study can have the same configuration.
    """
    names = [
        f'{variants.get(record.sweep) or _label(record)} run {record.index}'
        for record in records[:_MAX_NAMED]
    ]
    if records[_MAX_NAMED:]:
        names.append('others')
    return f'{len(records)} of {total} runs ({", ".join(names)})'
