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
ALIKE = frozenset(
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
LATER = frozenset({'data_disks', 'libvirt', 'os_profile', 'storage', 'tuning'})

#: Facts of hosts that a hypervisor shows to guests otherwise than they are:
#: compared where hvstack sees the hosts, and named in a report elsewhere.
OF_HOSTS = ('cpu_model', 'smt', 'governor', 'thp')

#: Fields of the environment that some configuration may change.
ALL_SWEPT = frozenset({'storage', 'data_disks'})

#: Characters of one value in a line that tells a difference.
LONGEST = 200

#: Shown on both sides, and no reason to refuse: controllers take a slot on
#: one side and a host on the other (vsphere6: 31.5 hosts against 31).
SHOWN = frozenset({'worker_hosts'})


def differences(
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    swept: Collection[str] = (),
) -> list[str]:
    """Return one line for each field that should agree and does not.

    Of mappings it tells only the entries that differ.

    :param one: environment of a run.
    :param other: environment of the run that it is compared with.
    :param swept: fields that may differ.
    """
    here, there = (_differing(*pair) for pair in ((one, other), (other, one)))
    return [
        f'{name} is {_shown(here.get(name))} here and '
        f'{_shown(there.get(name))} there'
        for name in sorted(set(here) | set(there))
        if name not in swept
    ]


def record_differences(
    one: Record, other: Record, swept: Collection[str] = ()
) -> list[str]:
    """Return the differences of two runs, workload and environment.

    :param swept: fields that may differ, beside those that bare metal has
        otherwise by nature.
    """
    may = SHOWN.union(swept)
    if one.kind != other.kind:
        may |= ALIKE
    for run in (one, other):
        may |= {n for n in _tolerated(run) if run.environment.get(n) is None}
    workload = differences(_workload(one), _workload(other), swept)
    return workload + differences(one.environment, other.environment, may)


def swept(run: Record) -> frozenset[str]:
    """Return fields of the environment that a run's configuration changes."""
    if run.kind == 'baseline':
        return frozenset()
    usual, found = Configuration(), parse(run.configuration)
    if found.storage != usual.storage:
        return ALL_SWEPT
    if found.disk_pinning != usual.disk_pinning:
        return frozenset({'data_disks'})
    return frozenset()


def allowed_differences(
    one: Record, other: Record, allow: Iterable[str]
) -> list[str]:
    """Return the differences that were allowed, to be shown beside a figure.

    :param allow: names of fields.
    """
    names = set(allow)
    sides = [
        {
            name: value
            for name, value in (_workload(run) | run.environment).items()
            if name in names
        }
        for run in (one, other)
    ]
    return differences(*sides)


def require_comparable(
    one: Record, other: Record, swept: Collection[str] = ()
) -> None:
    """Refuse to compare two runs that differ in what was not swept.

    :raises hvstack.errors.NotComparable: with one line for each field.
    """
    found = record_differences(one, other, swept)
    if found:
        raise errors.NotComparable(found)


def checked(allow: Iterable[str], records: Iterable[Record]) -> list[str]:
    """Return names of fields that may differ, if they are any.

    :raises hvstack.errors.InputError: a name that nothing has.
    """
    known = {*WORKLOAD, *WITH_BASELINE, *ALIKE}
    for one in records:
        known |= set(one.environment)
    names = list(dict.fromkeys(allow))
    for name in names:
        if name not in known:
            raise errors.InputError(
                f"--allow '{name}': no such fact, take one of "
                f'{", ".join(sorted(known))}'
            )
    return names


def unknown(records: Iterable[Record]) -> list[str]:
    """Return the facts that should agree and cannot be compared.

    Those that no record has, and of :data:`LATER` and :data:`OF_HOSTS` those
    that one has not; of what virtualizes, those that a configuration's lacks.
    """
    listed = list(records)
    environments = [one.environment for one in listed]
    found = []
    for name in WITH_BASELINE:
        has = [one.get(name) is not None for one in environments]
        if not (all(has) if name in {*LATER, *OF_HOSTS} else any(has)):
            found.append(name)
    return found + _unknown_software(
        [one.environment for one in listed if one.kind == 'configuration']
    )


def _unknown_software(environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is not known of the releases that virtualize.

    Nova tells the newest microversion of its API and the version of QEMU,
    and nothing of libvirt's (https://docs.openstack.org/api-ref/compute/,
    os-hypervisors).
    """
    found = []
    if any(str(one.get('nova')).startswith('API') for one in environments):
        found.append("Nova's release (its API tells a microversion alone)")
    for name in ('nova', 'qemu', 'libvirt'):
        if any(
            one.get(name) is None
            for one in environments
            if name != 'qemu' or one.get('backend') != 'lxc'
        ):
            found.append(name)
    return found


def _tolerated(run: Record) -> Iterable[str]:
    """Return the facts that a run may lack."""
    if run.environment.get('backend') in (None, 'lxc'):
        return LATER
    return {*LATER, *OF_HOSTS}


def _workload(one: Record) -> dict[str, Any]:
    return {name: getattr(one, name) for name in WORKLOAD}


def _differing(
    one: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the entries of the first that the second has otherwise."""
    found = {}
    for name, value in one.items():
        theirs = other.get(name)
        if value == theirs:
            continue
        if isinstance(value, Mapping) and isinstance(theirs, Mapping):
            value = _differing(value, theirs)
        found[name] = value
    return found


def _shown(value: Any) -> str:
    if value is None:
        return 'missing'
    return textwrap.shorten(str(value), LONGEST, placeholder=' ...')
