# SPDX-License-Identifier: Apache-2.0
"""Comparability: two measurements may differ in the sweep parameters alone."""

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence

from hvstack import errors
from hvstack.model import host_disks
from hvstack.model.configuration import Configuration, parse
from hvstack.results import workload_types
from hvstack.results.record_data import RunRecord
from hvstack.results.typed_json import Json, JsonObject

#: Fields of the record itself that must agree.
WORKLOAD = ('size_bytes', 'replication', 'derived')

#: Facts that must agree between a configuration and its baseline.
WITH_BASELINE = (
    'cpu_model',
    'smt',
    'governor',
    'thp',
    'hosts',
    'data_disks',
    'host_disks',
    'caps',
    'os_release',
    'os_profile',
    'jre',
    'hadoop',
    'libhadoop',
    'tuning',
    'hadoop_profile',
    'application_masters',
    'caches_dropped',
)

#: Start of the message in the observation before_run of a run without
#: dropped caches.
CACHES_NOT_DROPPED = 'caches were not dropped'

#: Facts that must agree within the configurations and within the baseline,
#: but not between them: bare metal lacks them or has other values.
WITHIN_KIND = frozenset(
    {
        'backend',
        'kernel',
        'nova',
        'qemu',
        'libvirt',
        'mtu',
        'storage',
        'disk',
        'node_groups',
        'host_affinity',
        'deployment',
        'controllers',
        'vnic',
        'stateless_security_group',
    }
)

#: Facts that older records lack. They are compared if both records have them;
#: otherwise, the report names them.
OPTIONAL_FACTS = frozenset(
    {
        'caches_dropped',
        'data_disks',
        'host_disks',
        'libhadoop',
        'libvirt',
        'os_profile',
        'storage',
        'tuning',
    }
)

#: Facts of hosts that guests cannot determine. They are compared if hvstack
#: can access the hosts; otherwise, the report names them.
HOST_FACTS = ('cpu_model', 'smt', 'governor', 'thp')

#: Facts that a configuration may change.
ALL_SWEPT = frozenset({'storage', 'data_disks'})

#: Configuration whose values no parameter changes.
_DEFAULT = Configuration()

#: Facts that no parameter and no option allows to differ.
_NEVER_ALLOWED = frozenset({workload_types.FACT})

#: Maximum length of a value in a line that describes a difference.
MAX_VALUE_LENGTH = 200

#: Facts that the report shows for both sides and that may differ: controllers
#: occupy a slot on one side and a host on the other (vsphere6: 31.5 and 31),
#: and the configuration says how guests reach their disks.
DISPLAYED_ONLY = frozenset({'worker_hosts', 'disk_access'})


def get_host_count(record: RunRecord) -> int | None:
    """Return the number of hosts of all nodes; None if it is not known."""
    hosts = record.sut.facts.get('hosts')
    return hosts if isinstance(hosts, int) else None


def list_differences(
    facts: Mapping[str, Json],
    other: Mapping[str, Json],
    swept: Collection[str] = (),
) -> list[str]:
    """Return one line for each fact that should agree and does not.

    Of mappings, only the differing entries are listed.

    :param facts: facts of a run.
    :param other: facts of the run that it is compared with.
    :param swept: names of facts that may differ.
    """
    own_values, other_values = (
        _select_differing(*pair) for pair in ((facts, other), (other, facts))
    )
    return [
        f'{name} is {_format_value(own_values.get(name))} here and '
        f'{_format_value(other_values.get(name))} there'
        for name in sorted(set(own_values) | set(other_values))
        if name not in swept
    ]


def list_record_differences(
    record: RunRecord, other: RunRecord, swept: Collection[str] = ()
) -> list[str]:
    """Return the differences of the workload and the facts of two runs.

    :param record: record of a run.
    :param other: record of the run that it is compared with.
    :param swept: names of facts that may differ, in addition to those that
        always differ on bare metal.
    """
    if record.sut.facts == other.sut.facts and _collect_workload(
        record
    ) == _collect_workload(other):
        return []  # Most runs of a sweep agree in everything.
    may = DISPLAYED_ONLY.union(swept) - _NEVER_ALLOWED
    if record.kind != other.kind:
        may |= WITHIN_KIND
    for run in (record, other):
        may |= {
            n
            for n in _list_optional_facts(run)
            if run.sut.facts.get(n) is None
        }
    workload = list_differences(
        _collect_workload(record), _collect_workload(other), swept
    )
    has_disks = all(
        isinstance(run.sut.facts.get('host_disks'), Mapping)
        for run in (record, other)
    )
    if has_disks:
        # The number of file systems on them is that of a worker.
        may |= {'data_disks', 'host_disks'}
    lines = list_differences(record.sut.facts, other.sut.facts, may)
    if has_disks and 'host_disks' not in swept:
        lines += _list_disk_differences(record, other)
    return workload + [
        _add_reason(line, (record, other))
        if line.startswith('caches_dropped is ')
        else line
        for line in lines
    ]


def _list_disk_differences(record: RunRecord, other: RunRecord) -> list[str]:
    """Return a line if the workers of a host used other disks together.

    What one side does not know of its disks is not compared.
    """
    sides = []
    for run in (record, other):
        disks = run.sut.facts.get('host_disks')
        assert isinstance(disks, Mapping)
        access = run.sut.facts.get('disk_access')
        sides.append((disks, str(access) if access else None))
    if host_disks.are_equal(sides[0][0], sides[1][0]):
        return []
    own, others = (
        textwrap.shorten(
            host_disks.format_disks(disks, access),
            MAX_VALUE_LENGTH,
            placeholder=' ...',
        )
        for disks, access in sides
    )
    return [f'host_disks is {own} here and {others} there']


def _add_reason(line: str, runs: Sequence[RunRecord]) -> str:
    """Add to a difference why the caches of a run were not dropped."""
    reasons = [
        textwrap.shorten(message, MAX_VALUE_LENGTH, placeholder=' ...')
        for run in runs
        for message in run.observations.before_run
        if message.startswith(CACHES_NOT_DROPPED)
    ]
    return ': '.join([line, *reasons[:1]])


def list_swept_facts(run: RunRecord) -> frozenset[str]:
    """Return the names of the facts that a configuration changes."""
    if run.kind == 'baseline':
        return frozenset()
    configuration = parse(run.configuration)
    if configuration.storage != _DEFAULT.storage:
        return ALL_SWEPT
    if configuration.disk_pinning != _DEFAULT.disk_pinning:
        return frozenset({'data_disks'})
    return frozenset()


def list_row_differences(
    runs: Sequence[RunRecord],
    baseline: RunRecord,
    reference_record: RunRecord,
    allow: Collection[str] = (),
) -> list[str]:
    """Return the differences of the runs of a configuration, as lines.

    :param runs: valid runs of the configuration.
    :param baseline: run on bare metal.
    :param reference_record: result of :func:`find_reference_record`.
    :param allow: facts that may differ.
    """
    return [
        line
        for record in runs
        for other, may in (
            (baseline, list_swept_facts(record)),
            (reference_record, ALL_SWEPT),
            # All runs of a row must use the same storage.
            (runs[0], ALL_SWEPT - {'storage'}),
        )
        for line in list_record_differences(record, other, may.union(allow))
    ]


def find_reference_record(records: Sequence[RunRecord]) -> RunRecord:
    """Return the record that agrees with most of the records.

    :param records: records of valid runs of configurations; at least one.
    """
    # Few of thousands of runs differ: compare one record of each kind.
    kinds: dict[str, tuple[RunRecord, int]] = {}
    for record in records:
        key = record.system_digest
        kinds[key] = (record, kinds.get(key, (record, 0))[1] + 1)
    return max(
        (record for record, _ in kinds.values()),
        key=lambda candidate: sum(
            count
            for other, count in kinds.values()
            if not list_record_differences(candidate, other, ALL_SWEPT)
        ),
    )


def list_allowed_differences(
    record: RunRecord, other: RunRecord, allow: Iterable[str]
) -> list[str]:
    """Return the allowed differences, which a report must show.

    :param record: record of a run.
    :param other: record of the run that it is compared with.
    :param allow: names of facts that may differ.
    """
    names = set(allow)
    sides = [
        {
            name: value
            for name, value in (
                {**_collect_workload(run), **run.sut.facts}
            ).items()
            if name in names
        }
        for run in (record, other)
    ]
    return list_differences(*sides)


def require_comparable(
    record: RunRecord, other: RunRecord, swept: Collection[str] = ()
) -> None:
    """Check that two runs differ in the given facts alone.

    :param record: record of a run.
    :param other: record of the run that it is compared with.
    :param swept: names of facts that may differ.
    :raises hvstack.errors.NotComparableError: other facts differ.
    """
    lines = list_record_differences(record, other, swept)
    if lines:
        raise errors.NotComparableError(lines)


def check_fact_names(
    allow: Iterable[str],
    records: Iterable[RunRecord],
    option: str = '--allow',
) -> list[str]:
    """Return unique names of facts that may differ.

    :param allow: names of facts.
    :param records: records whose facts are valid names; they are read until
        each name is that of a fact.
    :param option: option of the names, for errors.
    :raises hvstack.errors.InputError: a name is not that of a fact.
    """
    fact_names = {*WORKLOAD, *WITH_BASELINE, *WITHIN_KIND}
    names = list(dict.fromkeys(allow))
    if not fact_names.issuperset(names):
        for record in records:
            fact_names |= set(record.sut.facts)
            if fact_names.issuperset(names):
                break
    for name in names:
        if name in _NEVER_ALLOWED:
            raise errors.InputError(
                f"Cannot use {option} '{name}': runs of different workloads "
                'measure different things. Omit it.'
            )
        if name not in fact_names:
            raise errors.InputError(
                f"Cannot use {option} '{name}': no record has this fact. Use "
                f'one of {", ".join(sorted(fact_names))}.'
            )
    return names


def list_unknown_facts(records: Iterable[RunRecord]) -> list[str]:
    """Return the names of the facts that should agree and are not compared.

    These are facts that no record contains, optional and host facts that some
    record lacks, and versions of the virtualization software that the record
    of a configuration lacks.
    """
    all_records = list(records)
    environments = [record.sut.facts for record in all_records]
    missing_facts = []
    for name in WITH_BASELINE:
        has = [
            environment.get(name) is not None for environment in environments
        ]
        if not (
            all(has) if name in {*OPTIONAL_FACTS, *HOST_FACTS} else any(has)
        ):
            missing_facts.append(name)
    return missing_facts + _list_unknown_software(
        [
            record.sut.facts
            for record in all_records
            if record.kind == 'configuration'
        ]
    )


def _list_unknown_software(
    environments: Sequence[Mapping[str, Json]],
) -> list[str]:
    """Return the names of unknown versions of the virtualization software.

    The API of Nova reports its newest microversion and the version of QEMU,
    but not that of libvirt (https://docs.openstack.org/api-ref/compute/,
    os-hypervisors).
    """
    missing_facts = []
    if any(
        str(environment.get('nova')).startswith('API')
        for environment in environments
    ):
        missing_facts.append(
            "Nova's release (its API reports a microversion alone)"
        )
    for name in ('nova', 'qemu', 'libvirt'):
        if any(
            environment.get(name) is None
            for environment in environments
            if name != 'qemu' or environment.get('backend') != 'lxc'
        ):
            missing_facts.append(name)
    return missing_facts


def _list_optional_facts(run: RunRecord) -> Iterable[str]:
    """Return the names of the facts that a run may lack."""
    if run.sut.backend in (None, 'lxc'):
        return OPTIONAL_FACTS
    return {*OPTIONAL_FACTS, *HOST_FACTS}


def _collect_workload(record: RunRecord) -> JsonObject:
    return {name: getattr(record, name) for name in WORKLOAD}


def _select_differing(
    values: Mapping[str, Json], other: Mapping[str, Json]
) -> JsonObject:
    """Return the entries that differ in another mapping."""
    differing_values = {}
    for name, value in values.items():
        other_value = other.get(name)
        if value == other_value:
            continue
        if isinstance(value, Mapping) and isinstance(other_value, Mapping):
            value = _select_differing(value, other_value)
        differing_values[name] = value
    return differing_values


def _format_value(value: Json) -> str:
    if value is None:
        return 'missing'
    return textwrap.shorten(str(value), MAX_VALUE_LENGTH, placeholder=' ...')
