# SPDX-License-Identifier: Apache-2.0
"""Comparability: two measurements may differ only in what was swept."""

from collections.abc import Mapping
from typing import Any

from hvstack import errors
from hvstack.results.record import Record

#: What bare metal does not have by nature; a value on both sides must agree.
VIRTUALIZATION = frozenset({'backend', 'nova', 'libvirt', 'qemu'})

#: Fields of the record itself that must agree.
WORKLOAD = ('size_bytes', 'replication', 'derived')


def differences(
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    swept: frozenset[str] | set[str] = frozenset(),
) -> list[str]:
    """Return one line for each field that should agree and does not.

    :param one: environment of a run.
    :param other: environment of the run that it is compared with.
    :param swept: fields that may differ.
    """
    lines = []
    for name in sorted(set(one) | set(other)):
        a, b = one.get(name), other.get(name)
        if a == b or name in swept:
            continue
        if name in VIRTUALIZATION and (a is None or b is None):
            continue
        lines.append(f'{name} is {_shown(a)} here and {_shown(b)} there')
    return lines


def record_differences(
    one: Record,
    other: Record,
    swept: frozenset[str] | set[str] = frozenset(),
) -> list[str]:
    """Return the differences of two runs, workload and environment."""
    workload = differences(
        {name: getattr(one, name) for name in WORKLOAD},
        {name: getattr(other, name) for name in WORKLOAD},
        swept,
    )
    return workload + differences(one.environment, other.environment, swept)


def require_comparable(
    one: Record,
    other: Record,
    swept: frozenset[str] | set[str] = frozenset(),
) -> None:
    """Refuse to compare two runs that differ in what was not swept.

    :raises hvstack.errors.NotComparable: with one line for each field.
    """
    found = record_differences(one, other, swept)
    if found:
        raise errors.NotComparable(found)


def _shown(value: Any) -> str:
    return 'missing' if value is None else str(value)[:80]
