# SPDX-License-Identifier: Apache-2.0
"""Configurations: one value for every sweep parameter."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypedDict

from hvstack import errors

STORAGES = ('local', 'ceph')
CPU_POLICIES = ('shared', 'dedicated')

_PINNING = {'unpinned': False, 'pinned': True}
_NUMBER = re.compile(r'([icm])([0-9]{1,4}(?:\.[0-9]{1,3})?)')


@dataclass(frozen=True)
class Configuration:
    """One value for every sweep parameter.

    :param instances: number of equal slots of a host (I).
    :param cpu_ratio: number of vCPUs for each CPU of the host (C).
    :param ram_ratio: amount of guest memory for each MiB of the host (M).
    :param storage: ``local`` or ``ceph``.
    :param cpu_policy: ``shared``, or ``dedicated`` with NUMA cells.
    :param disk_pinning: whether whole data disks are assigned to a worker.
    :raises hvstack.errors.InputError: a value is not valid.
    """

    instances: int = 1
    cpu_ratio: float = 1.0
    ram_ratio: float = 1.0
    storage: str = 'local'
    cpu_policy: str = 'shared'
    disk_pinning: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.instances <= 1024:
            raise errors.InputError(
                f"'instances' is {self.instances}. Use 1 to 1024 instances "
                'per host.'
            )
        for name in ('cpu_ratio', 'ram_ratio'):
            value = getattr(self, name)
            if not 0.1 <= value <= 1024:
                raise errors.InputError(
                    f"'{name}' is {value}. Use a number from 0.1 to 1024."
                )
            if Fraction(str(value)) * 1000 % 1:
                raise errors.InputError(
                    f"'{name}' is {value}. Use at most three decimal places."
                )
        if self.storage not in STORAGES:
            raise errors.InputError(
                f"'storage' is '{self.storage}'. Use one of "
                f'{", ".join(STORAGES)}.'
            )
        if self.cpu_policy not in CPU_POLICIES:
            raise errors.InputError(
                f"'cpu_policy' is '{self.cpu_policy}'. Use one of "
                f'{", ".join(CPU_POLICIES)}.'
            )
        if self.cpu_policy == 'dedicated' and (
            self.cpu_ratio != 1 or self.ram_ratio != 1
        ):
            raise errors.InputError(
                "'cpu_policy' is dedicated, but a ratio is not 1: Nova "
                'assigns a dedicated CPU and a locked page only once. Use '
                'shared CPUs, or ratios of 1.'
            )

    def _parts(self) -> tuple[str, ...]:
        return (
            f'i{self.instances}',
            f'c{format_ratio(self.cpu_ratio)}',
            f'm{format_ratio(self.ram_ratio)}',
            self.storage,
            self.cpu_policy,
            'pinned' if self.disk_pinning else 'unpinned',
        )

    @cached_property
    def name(self) -> str:
        """The full name, such as ``i4-c1-m1-local-dedicated-pinned``."""
        return '-'.join(self._parts())

    @property
    def cost(self) -> tuple[float, int, bool, bool, bool]:
        """What is cheaper comes first: taken where rates are tied.

        Less over-subscription, then fewer instances, shared before
        dedicated, unpinned before pinned, local before ceph.
        """
        return (
            max(1.0, self.cpu_ratio) * max(1.0, self.ram_ratio),
            self.instances,
            self.cpu_policy != CPU_POLICIES[0],
            self.disk_pinning,
            self.storage != STORAGES[0],
        )

    @cached_property
    def label(self) -> str:
        """The instances and what else is not the default: ``i2-c2``."""
        parts = self._parts()
        default_parts = Configuration()._parts()
        return '-'.join(
            [
                parts[0],
                *(
                    a
                    for a, b in zip(parts[1:], default_parts[1:], strict=True)
                    if a != b
                ),
            ]
        )


def format_ratio(value: float) -> str:
    """Return a ratio without trailing zeros: 1, 1.2, 0.5."""
    return f'{value:.3f}'.rstrip('0').rstrip('.')


@lru_cache(maxsize=1024)
def parse(text: str) -> Configuration:
    """Return the configuration with a full name or label.

    The parts of the name may have any order; missing parts have defaults.

    :raises hvstack.errors.InputError: a part is unknown or duplicated.
    """
    values: _Values = {}
    for word in text.split('-'):
        value = _parse_part(word, text)
        for field in value:
            if field in values:
                raise errors.InputError(
                    f"Cannot read configuration {text[:80]!r}: '{field}' is "
                    'duplicated. Delete one of the values.'
                )
        values.update(value)
    try:
        return Configuration(**values)
    except errors.InputError as exc:
        raise errors.InputError(
            f'Cannot read configuration {text[:80]!r}: {exc}'
        ) from exc


class _Values(TypedDict, total=False):
    """Fields of a configuration that its name contains."""

    instances: int
    cpu_ratio: float
    ram_ratio: float
    storage: str
    cpu_policy: str
    disk_pinning: bool


def _parse_part(word: str, text: str) -> _Values:
    """Return the field that a part of a name sets.

    :param word: part of the name.
    :param text: whole name.
    :raises hvstack.errors.InputError: the part is unknown.
    """
    match = _NUMBER.fullmatch(word)
    if match:
        return _parse_ratio(match[1], match[2], text)
    if word in STORAGES:
        return {'storage': word}
    if word in CPU_POLICIES:
        return {'cpu_policy': word}
    if word in _PINNING:
        return {'disk_pinning': _PINNING[word]}
    raise errors.InputError(
        f'Cannot read configuration {text[:80]!r}: {word[:80]!r} is '
        'unknown. Write a configuration as '
        "'i4-c1-m1-local-dedicated-pinned' or, in short, as 'i2-c2'."
    )


def _parse_ratio(letter: str, digits: str, text: str) -> _Values:
    if letter == 'i':
        if not digits.isdigit():
            raise errors.InputError(
                f"Cannot read configuration {text[:80]!r}: 'i{digits}' is not "
                'a whole number of instances. Use a number such as i4.'
            )
        return {'instances': int(digits)}
    ratio = float(digits)
    return {'cpu_ratio': ratio} if letter == 'c' else {'ram_ratio': ratio}
