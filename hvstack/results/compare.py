# SPDX-License-Identifier: Apache-2.0
"""Comparability: two measurements may differ only in what was swept."""

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hvstack import errors
from hvstack.model.configuration import Configuration, parse
from hvstack.results.record import Record

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
    'caps',
    'os_release',
    'os_profile',
    'jre',
    'hadoop',
    'tuning',
    'hadoop_profile',
)

#: Facts that must agree between configurations, and between baseline runs,
#: but not across: bare metal has none of them, or its own.
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
    }
)

#: Facts that older records lack: compared where both sides have them, and
#: named in a report where one has not.
OPTIONAL_FACTS = frozenset(
    {'data_disks', 'libvirt', 'os_profile', 'storage', 'tuning'}
)

#: Facts of hosts that a hypervisor shows to guests otherwise than they are:
#: compared where hvstack sees the hosts, and named in a report elsewhere.
HOST_FACTS = ('cpu_model', 'smt', 'governor', 'thp')

#: Fields of the environment that some configuration may change.
ALL_SWEPT = frozenset({'storage', 'data_disks'})

#: Characters of one value in a line that tells a difference.
MAX_VALUE_LENGTH = 200

#: Shown on both sides, and no reason to refuse: controllers take a slot on
#: one side and a host on the other (vsphere6: 31.5 hosts against 31).
DISPLAYED_ONLY = frozenset({'worker_hosts'})


def list_differences(
    facts: Mapping[str, Any],
    other: Mapping[str, Any],
    swept: Collection[str] = (),
) -> list[str]:
    """Return one line for each field that should agree and does not.

    Of mappings it tells only the entries that differ.

    :param facts: environment of a run.
    :param other: environment of the run that it is compared with.
    :param swept: fields that may differ.
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
    record: Record, other: Record, swept: Collection[str] = ()
) -> list[str]:
    """Return the differences of two runs, workload and environment.

    :param swept: fields that may differ, beside those that bare metal has
        otherwise by nature.
    """
    may = DISPLAYED_ONLY.union(swept)
    if record.kind != other.kind:
        may |= WITHIN_KIND
    for run in (record, other):
        may |= {
            n
            for n in _list_optional_facts(run)
            if run.environment.get(n) is None
        }
    workload = list_differences(
        _collect_workload(record), _collect_workload(other), swept
    )
    return workload + list_differences(
        record.environment, other.environment, may
    )


def list_swept_facts(run: Record) -> frozenset[str]:
    """Return fields of the environment that a run's configuration changes."""
    if run.kind == 'baseline':
        return frozenset()
    default, configuration = Configuration(), parse(run.configuration)
    if configuration.storage != default.storage:
        return ALL_SWEPT
    if configuration.disk_pinning != default.disk_pinning:
        return frozenset({'data_disks'})
    return frozenset()


def list_allowed_differences(
    record: Record, other: Record, allow: Iterable[str]
) -> list[str]:
    """Return the differences that were allowed, to be shown beside a figure.

    :param allow: names of fields.
    """
    names = set(allow)
    sides = [
        {
            name: value
            for name, value in (
                _collect_workload(run) | run.environment
            ).items()
            if name in names
        }
        for run in (record, other)
    ]
    return list_differences(*sides)


def require_comparable(
    record: Record, other: Record, swept: Collection[str] = ()
) -> None:
    """Refuse to compare two runs that differ in what was not swept.

    :raises hvstack.errors.NotComparable: with one line for each field.
    """
    lines = list_record_differences(record, other, swept)
    if lines:
        raise errors.NotComparable(lines)


def check_fact_names(
    allow: Iterable[str], records: Iterable[Record]
) -> list[str]:
    """Return names of fields that may differ, if they are any.

    :raises hvstack.errors.InputError: a name that nothing has.
    """
    fact_names = {*WORKLOAD, *WITH_BASELINE, *WITHIN_KIND}
    for record in records:
        fact_names |= set(record.environment)
    names = list(dict.fromkeys(allow))
    for name in names:
        if name not in fact_names:
            raise errors.InputError(
                f"--allow '{name}': no such fact, take one of "
                f'{", ".join(sorted(fact_names))}'
            )
    return names


def list_unknown_facts(records: Iterable[Record]) -> list[str]:
    """Return the facts that should agree and cannot be compared.

    These are facts that no record contains, optional and host facts that some
    record lacks, and versions of the virtualization software that the record
    of a configuration lacks.
    """
    all_records = list(records)
    environments = [record.environment for record in all_records]
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
            record.environment
            for record in all_records
            if record.kind == 'configuration'
        ]
    )


def _list_unknown_software(
    environments: Sequence[Mapping[str, Any]],
) -> list[str]:
    """Return what is not known of the releases that virtualize.

    Nova tells the newest microversion of its API and the version of QEMU,
    and nothing of libvirt's (https://docs.openstack.org/api-ref/compute/,
    os-hypervisors).
    """
    missing_facts = []
    if any(
        str(environment.get('nova')).startswith('API')
        for environment in environments
    ):
        missing_facts.append(
            "Nova's release (its API tells a microversion alone)"
        )
    for name in ('nova', 'qemu', 'libvirt'):
        if any(
            environment.get(name) is None
            for environment in environments
            if name != 'qemu' or environment.get('backend') != 'lxc'
        ):
            missing_facts.append(name)
    return missing_facts


def _list_optional_facts(run: Record) -> Iterable[str]:
    """Return the facts that a run may lack."""
    if run.environment.get('backend') in (None, 'lxc'):
        return OPTIONAL_FACTS
    return {*OPTIONAL_FACTS, *HOST_FACTS}


def _collect_workload(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in WORKLOAD}


def _select_differing(
    values: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the entries of the first that the second has otherwise."""
    differing_values = {}
    for name, value in values.items():
        other_value = other.get(name)
        if value == other_value:
            continue
        if isinstance(value, Mapping) and isinstance(other_value, Mapping):
            value = _select_differing(value, other_value)
        differing_values[name] = value
    return differing_values


def _format_value(value: Any) -> str:
    if value is None:
        return 'missing'
    return textwrap.shorten(str(value), MAX_VALUE_LENGTH, placeholder=' ...')
