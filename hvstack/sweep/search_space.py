# SPDX-License-Identifier: Apache-2.0
"""Search spaces: sweep parameters, their values, possible configurations."""

import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hvstack import errors, yamlfile
from hvstack.hadoop import sizing
from hvstack.model import compute_backends, pinned_disks
from hvstack.model.configuration import (
    Configuration,
    format_ratio,
    parse,
)
from hvstack.model.flavor import derive_flavor
from hvstack.model.host import HostProfile
from hvstack.model.strict_mapping import Fields, to_dataclass

#: Sweep parameters in the order of the Dell presentation ("Methodology").
PARAMETERS = (
    'instances',
    'cpu_ratio',
    'ram_ratio',
    'storage',
    'cpu_policy',
    'disk_pinning',
)

_DEFAULTS = Configuration()
#: Value of a sweep parameter.
Value = int | float | str | bool


@dataclass(frozen=True)
class Capability:
    """Capability of a cloud that a value of a sweep parameter needs.

    :param parameter: name of the parameter.
    :param value: value that needs the capability.
    :param reason: reason to skip the value without the capability.
    """

    parameter: str
    value: Value
    reason: str

    def is_needed(self, configuration: Configuration) -> bool:
        """Return whether a configuration needs the capability."""
        return bool(getattr(configuration, self.parameter) == self.value)


#: Capabilities of clouds by name.
CAPABILITIES = {
    'ceph': Capability('storage', 'ceph', 'this cloud has no Ceph'),
    'dedicated': Capability(
        'cpu_policy',
        'dedicated',
        'the hosts are in shared mode, switch them to dedicated CPUs',
    ),
    'disk-pinning': Capability(
        'disk_pinning',
        True,
        'this cloud has no volume type for each disk',
    ),
}

_FLAGS = {'off': False, 'on': True, 'false': False, 'true': True}
#: Maximum number of combinations; a larger sweep would take months.
_MAX_COMBINATIONS = 10_000


@dataclass(frozen=True)
class Skipped:
    """Combination of values that is not possible.

    :param name: label of the configuration, or its values.
    :param reason: reason as human-readable text.
    """

    name: str
    reason: str


@dataclass(frozen=True)
class ParameterValues:
    """Values of each sweep parameter; none for a parameter that is fixed."""

    instances: tuple[int, ...] = ()
    cpu_ratio: tuple[float, ...] = ()
    ram_ratio: tuple[float, ...] = ()
    storage: tuple[str, ...] = ()
    cpu_policy: tuple[str, ...] = ()
    disk_pinning: tuple[bool, ...] = ()

    def to_mapping(self) -> dict[str, tuple[Value, ...]]:
        """Return the values by parameter, without fixed parameters."""
        return {
            name: getattr(self, name)
            for name in PARAMETERS
            if getattr(self, name)
        }


@dataclass(frozen=True)
class Space:
    """Search space of a sweep.

    :param values: values by parameter, in the order of :data:`PARAMETERS`.
    :param start: first configuration of the strategy ``one-at-a-time``.
    :param possible: possible configurations, in order.
    :param skipped: combinations that are not possible.
    :param is_start_requested: whether the start was named.
    """

    values: Mapping[str, tuple[Value, ...]]
    start: Configuration
    possible: tuple[Configuration, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    is_start_requested: bool = False

    @property
    def by_name(self) -> dict[str, Configuration]:
        """Possible configurations by full name."""
        return {
            configuration.name: configuration
            for configuration in self.possible
        }

    @property
    def parameter_values(self) -> ParameterValues:
        """Values as a sweep stores them."""
        values = {name: list(items) for name, items in self.values.items()}
        return to_dataclass(ParameterValues, values, 'search space')

    def change_parameter(
        self, configuration: Configuration, parameter: str, value: Value
    ) -> Configuration | None:
        """Return a configuration with another value; None if impossible."""
        try:
            changed = _configure({parameter: value}, configuration)
        except errors.InputError:
            return None
        return changed if changed in self.possible else None


def load_space(path: Path) -> Space:
    """Read a file with ``values`` by parameter and an optional ``start``.

    :param path: YAML file.
    :raises hvstack.errors.InputError: the file is not valid.
    """
    document = yamlfile.load(path)
    source_location = document.source_location()
    top = Fields(document.data, source_location, ('start', 'values'))
    fields = Fields(top.raw('values'), source_location, PARAMETERS, 'values')
    texts_by_name = {}
    for name in PARAMETERS:
        if not fields.has(name):
            continue
        items = fields.raw(name)
        if not isinstance(items, list):
            raise fields.error(name, 'is not a list. Write it as [1, 2]')
        texts_by_name[name] = [str(item).lower() for item in items]
    start = top.text('start') if top.has('start') else None
    try:
        return _build_space(
            texts_by_name,
            start,
            lambda name: source_location(f'values.{name}'),
        )
    except errors.InputError as exc:
        if str(path) in str(exc):
            raise
        raise errors.InputError(f'{source_location("start")}: {exc}') from exc


def parse_space(assignments: Sequence[str], start: str | None = None) -> Space:
    """Return the search space of arguments such as ``instances=1,2,4``.

    :param assignments: parameters with their values.
    :param start: name or label of the start configuration; None uses the
        first value of each parameter.
    :raises hvstack.errors.InputError: a parameter or value is unknown.
    """
    texts_by_name: dict[str, list[str]] = {}
    for word in assignments:
        name, equals, values = word.partition('=')
        if not equals or name not in PARAMETERS:
            raise errors.InputError(
                f"Cannot use --values '{word}': it is not a parameter and its "
                "values. Write it as 'instances=1,2,4', with one of "
                f'{", ".join(PARAMETERS)}.'
            )
        if name in texts_by_name:
            raise errors.InputError(
                f'Cannot use --values {name}: the parameter is duplicated. '
                'Write all its values at once.'
            )
        texts_by_name[name] = values.split(',')
    return _build_space(texts_by_name, start, lambda _: '--values')


def _build_space(
    texts_by_name: Mapping[str, Sequence[str]],
    start: str | None,
    source_location: Callable[[str], str],
) -> Space:
    return create_space(
        {
            name: tuple(
                _parse_value(name, text.strip(), source_location)
                for text in texts_by_name[name]
            )
            for name in PARAMETERS
            if name in texts_by_name
        },
        None if start is None else parse(start),
        source_location,
    )


def create_space(
    values: Mapping[str, tuple[Value, ...]],
    start: Configuration | None,
    source_location: Callable[[str], str],
) -> Space:
    """Return a search space.

    :param values: values by parameter.
    :param start: start configuration; None uses the first values.
    :param source_location: function that returns file and line, or option, of
        a parameter.
    :raises hvstack.errors.InputError: values are missing or duplicated, there
        are too many combinations, or the start is not one of them.
    """
    for name, choices in values.items():
        if not choices or len(set(choices)) < len(choices):
            raise errors.InputError(
                f"{source_location(name)}: '{name}' is empty or has a "
                'duplicate value. Write each value once.'
            )
    if not values:
        raise errors.InputError(
            "Cannot create a search space without 'values'. Write the values "
            'of at least one parameter, such as instances=1,2,4.'
        )
    count = math.prod(map(len, values.values()))
    if count > _MAX_COMBINATIONS:
        raise errors.InputError(
            f"Cannot create a search space: 'values' result in {count} "
            f'combinations, and hvstack supports {_MAX_COMBINATIONS}. Use '
            'fewer values.'
        )
    if start is None:
        first = {name: choices[0] for name, choices in values.items()}
        return Space(values, _configure(first))
    for name, choices in values.items():
        if getattr(start, name) not in choices:
            raise errors.InputError(
                f"Cannot use start '{start.label}': its {name} "
                f'{getattr(start, name)} is not one of the values. Add it to '
                'them.'
            )
    return Space(values, start, is_start_requested=True)


def _configure(
    values: Mapping[str, Value], base: Configuration = _DEFAULTS
) -> Configuration:
    """Return a configuration with other values by parameter.

    :raises hvstack.errors.InputError: a value is not valid.
    """
    return replace(base, **values)  # type: ignore[arg-type]


def check_values(values: Mapping[str, tuple[Value, ...]]) -> None:
    """Check that each value of a parameter alone is valid.

    :raises hvstack.errors.InputError: a value is not valid.
    """
    for name, choices in values.items():
        for value in choices:
            _configure({name: value})


def _require_ascii_number(text: str) -> str:
    """Return a text that consists of ASCII digits and dots.

    :raises ValueError: the text contains other characters.
    """
    if not re.fullmatch(r'[0-9.]{1,20}', text):
        raise ValueError(text)
    return text


def _parse_value(
    name: str, text: str, source_location: Callable[[str], str]
) -> Value:
    """Return a value of a parameter that a configuration can have."""
    value: Value
    try:
        if name == 'instances':
            value = int(_require_ascii_number(text))
        elif name in ('cpu_ratio', 'ram_ratio'):
            value = float(_require_ascii_number(text))
        elif name == 'disk_pinning':
            value = _FLAGS[text]
        else:
            value = text
        _configure({name: value})
    except (ValueError, KeyError):
        expected_format = {
            'instances': 'a whole number',
            'disk_pinning': 'on or off',
        }.get(name, 'a number')
        raise errors.InputError(
            f"{source_location(name)}: '{name}' is '{text[:40]}'. Use "
            f'{expected_format}.'
        ) from None
    except errors.InputError as exc:
        # The ratios of the configuration are checked later.
        raise errors.InputError(f'{source_location(name)}: {exc}') from None
    return value


def format_value(name: str, value: Value) -> str:
    """Return a value as human-readable text: 1.2, ceph, on."""
    if name in ('cpu_ratio', 'ram_ratio'):
        return format_ratio(float(value))
    if name == 'disk_pinning':
        return 'on' if value else 'off'
    return str(value)


def explore_space(
    space: Space,
    profile: HostProfile,
    backend: str,
    missing_capabilities: Collection[str] = (),
    tuning: str = sizing.DEFAULT,
    stored: Sequence[Configuration] | None = None,
) -> Space:
    """Return a search space with its possible and skipped configurations.

    :param profile: of the workers' hosts.
    :param backend: their compute backend.
    :param missing_capabilities: of :data:`CAPABILITIES`.
    :param tuning: profile of Hadoop's settings, which has a smallest worker.
    :param stored: possible configurations of a sweep that was begun, which
        stay the possible ones; None decides by the other parameters.
    :raises hvstack.errors.InputError: nothing of it can exist, or not the
        start.
    """
    possible: list[Configuration] = []
    skipped: list[Skipped] = []
    stored_set = frozenset(stored or ())
    fixed = {
        name: getattr(space.start, name)
        for name in PARAMETERS
        if name not in space.values
    }
    for combination in itertools.product(*space.values.values()):
        point = dict(zip(space.values, combination, strict=True))
        name = ', '.join(
            f'{key} {format_value(key, v)}' for key, v in point.items()
        )
        try:
            configuration = _configure({**fixed, **point})
            name = configuration.label
            if configuration in stored_set:
                continue
            check_possible(
                configuration, profile, backend, missing_capabilities, tuning
            )
        except errors.InputError as exc:
            reason = str(exc).removeprefix(f'{name}: ')
            skipped.append(Skipped(name, reason))
        else:
            if stored is None:
                possible.append(configuration)
            else:
                skipped.append(
                    Skipped(name, 'it could not exist when the sweep began')
                )
    if stored is not None:
        possible = list(stored)
    if space.start not in possible:
        reasons = {
            combination.name: combination.reason for combination in skipped
        }
        raise errors.InputError(
            f"Cannot use start '{space.start.label}': "
            f'{reasons[space.start.label].removesuffix(".")}. Use another '
            'start.'
        )
    return replace(space, possible=tuple(possible), skipped=tuple(skipped))


def check_possible(
    configuration: Configuration,
    profile: HostProfile,
    backend: str,
    missing_capabilities: Collection[str],
    tuning: str,
) -> None:
    """Raise an error if a configuration is not possible."""
    reason = compute_backends.unsupported_parameter(configuration, backend)
    if reason:
        raise errors.InputError(reason)
    if reason := pinned_disks.explain_unsupported(profile, configuration):
        raise errors.InputError(reason)
    check_missing_capabilities(configuration, missing_capabilities)
    worker = derive_flavor(profile, configuration)
    derive_flavor(profile, configuration, 'namenode')
    sizing.size_node(worker.vcpus, worker.ram, tuning=tuning)


def check_missing_capabilities(
    configuration: Configuration, missing_capabilities: Collection[str]
) -> None:
    """Raise an error if a configuration needs a missing capability.

    :param missing_capabilities: of :data:`CAPABILITIES`.
    :raises hvstack.errors.InputError: the configuration needs it.
    """
    for name in missing_capabilities:
        capability = CAPABILITIES[name]
        if capability.is_needed(configuration):
            raise errors.InputError(capability.reason)
