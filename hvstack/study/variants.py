# SPDX-License-Identifier: Apache-2.0
"""Variants of a study: targets with the settings of their clusters and jobs.

A study lists variants with several settings each, or the values of one
setting. All of them share the settings of its base.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvstack import errors
from hvstack.cluster.plan import CONTROLLERS
from hvstack.hadoop import (
    daemon_options,
    job_settings,
    os_profiles,
    tuning_profiles,
)
from hvstack.model.plain_data import Json, JsonObject
from hvstack.model.strict_mapping import Fields
from hvstack.model.target import Target, parse_target
from hvstack.model.vnics import VNICS
from hvstack.report.formats import format_size
from hvstack.results.workload_types import TPCX_HS, TYPES, WorkloadType
from hvstack.sweep.node_setup import (
    HadoopSettings,
    LaterChanges,
    NodeSetup,
)
from hvstack.tpcxhs.workload import parse_size

#: Starts of the names of a property of Hadoop, and of a daemon.
PROPERTY_PREFIX = 'hadoop.'
DAEMON_PREFIX = 'daemon.'
#: Maximum number of variants.
_MAX_VARIANTS = 100
#: Settings that are whole numbers, with their maximum.
_COUNTS = {
    'replication': 64,
    'maps': 10**6,
    'reduces': 10**6,
    'files': 10**6,
}
_SETUP_COUNTS = {
    'disks': 64,
    'copies': 64,
    'osd_groups': 64,
    'output_replication': 64,
    'deployment': 4,
}
_LATER_COUNTS = {
    'lost_hosts': 64,
    'loss_rounds': 1000,
    'scaled_compute': 10**6,
    'second_cluster': 10**6,
}
#: Settings that belong to sorts, to files, and to data of any type.
_SORT_FIELDS = (
    *('reduces', 'output_replication', 'scaled_compute', 'second_cluster'),
)
_FILE_FIELDS = ('files',)
_DATA_FIELDS = ('size_factor', 'file_size', 'replication', 'row')
#: Settings of Hadoop, which programs on the workers do not use.
_HADOOP_FIELDS = (
    *('maps', 'files', 'file_size', 'replication', 'tuning', 'node_groups'),
    *('lost_hosts', 'loss_rounds', 'row'),
)
_VARIANT_FIELDS = (
    *('workload', 'configuration', 'size_factor', 'tuning', 'os_profile'),
    *('volume_type', 'host_affinity', 'node_groups', 'controllers', 'vnic'),
    *('stateless_security_group', 'file_size'),
    *(*_COUNTS, *_SETUP_COUNTS, *_LATER_COUNTS),
)


@dataclass(frozen=True)
class Variant:
    """Variant of a study: a target and the settings of its clusters and jobs.

    :param name: name that is unique in the study.
    :param target: configuration or bare metal.
    :param size_factor: factor of the size of the data.
    :param replication: number of replicas; None for the default.
    :param maps: number of map tasks; None for the default.
    :param reduces: number of reduce tasks; None for the default.
    :param files: number of files of TestDFSIO; None for the default.
    :param file_bytes: approximate size in bytes of the files that are
        written, each by a map task; None for the default.
    :param row: row of the published table that measured the same.
    :param setup: settings of the nodes and jobs.
    """

    name: str
    target: Target
    size_factor: float = 1.0
    replication: int | None = None
    maps: int | None = None
    reduces: int | None = None
    files: int | None = None
    file_bytes: int | None = None
    row: str = ''
    setup: NodeSetup = field(default_factory=NodeSetup)

    @property
    def workload(self) -> WorkloadType:
        """Workload of the runs."""
        return TYPES[self.setup.workload or TPCX_HS.name]

    def count_maps(self, size_bytes: int) -> int | None:
        """Return the number of map tasks that write the data.

        :param size_bytes: size of the data in bytes.
        :returns: None for the default.
        """
        if self.file_bytes is not None:
            return max(1, round(size_bytes / self.file_bytes))
        # Each file of TestDFSIO has a map task.
        return self.files or self.maps

    def describe(self) -> str:
        """Return the target and the settings as human-readable text."""
        settings: JsonObject = {
            'size_factor': f'{self.size_factor:g}'
            if self.size_factor != 1
            else None,
            'replication': self.replication,
            'maps': self.maps,
            'reduces': self.reduces,
            'files': self.files,
            'file_size': self.file_bytes and format_size(self.file_bytes),
            **self.setup.to_mapping(),
        }
        for name in ('hadoop', 'daemons'):
            settings.pop(name, None)
        settings.update(self.setup.hadoop.properties)
        settings.update(
            (f'{DAEMON_PREFIX}{role}', options)
            for role, options in self.setup.hadoop.daemons
        )
        parts = [self.target.label] + [
            f'{name} {format_value(value)}'
            for name, value in settings.items()
            if value is not None
        ]
        return ', '.join(parts)


def parse_variants(top: Fields) -> tuple[Variant, ...]:
    """Return the variants of ``variants``, or the values of ``varied``.

    :raises hvstack.errors.InputError: both or none exist, or one is not
        valid.
    """
    if ('varied' in top) == ('variants' in top):
        raise top.error(
            'variants',
            "or 'varied' must exist, and not both. Use 'varied' for the "
            "values of one setting, and 'variants' for several settings",
        )
    base = _get_mapping(top, 'base') if 'base' in top else {}
    if 'base' in top:
        _parse_variant(top, 'base', 'base', {}, base)
    if 'varied' in top:
        return _parse_varied(top, base)
    mapping = _get_mapping(top, 'variants')
    _check_count(top, 'variants', len(mapping))
    # YAML reads on and off as booleans; claims name them as this does.
    if len(set(map(format_value, mapping))) != len(mapping):
        raise top.error('variants', 'has a duplicate name. Rename a variant')
    return tuple(
        _parse_variant(
            top,
            f'variants.{name}',
            format_value(name),
            base,
            {} if settings is None else settings,
        )
        for name, settings in mapping.items()
    )


def _parse_varied(
    top: Fields, base: Mapping[str, Json]
) -> tuple[Variant, ...]:
    mapping = _get_mapping(top, 'varied')
    if len(mapping) != 1:
        raise top.error(
            'varied',
            f"has {len(mapping)} settings. Use one, or 'variants' for "
            'combinations',
        )
    ((setting, values),) = mapping.items()
    name = f'varied.{setting}'
    if not isinstance(values, list):
        raise top.error(name, 'is not a list of values. Use [1, 2]')
    _check_count(top, name, len(values))
    texts = [format_value(value) for value in values]
    if len(set(texts)) != len(texts):
        raise top.error(name, 'has a duplicate value. Delete it')
    return tuple(
        _parse_variant(top, name, text, base, {setting: value})
        for text, value in zip(texts, values, strict=True)
    )


def _check_count(top: Fields, name: str, count: int) -> None:
    if not 2 <= count <= _MAX_VARIANTS:
        raise top.error(
            name, f'has {count} variants. Use 2 to {_MAX_VARIANTS}'
        )


def _get_mapping(top: Fields, name: str) -> Mapping[str, Json]:
    value = top.raw(name)
    if not isinstance(value, Mapping) or not value:
        raise top.error(name, 'is not a mapping. Use setting: value')
    return value


def format_value(value: Json) -> str:
    """Return a value as YAML has it, such as ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_variant(
    top: Fields,
    location: str,
    name: str,
    base: Mapping[str, Json],
    settings: Json,
) -> Variant:
    """Return a variant from its settings and those of all variants.

    :param location: dotted name of the settings in the file.
    :param name: name of the variant.
    :param base: settings of all variants.
    :param settings: settings of this variant.
    """
    if not isinstance(settings, Mapping):
        raise top.error(location, 'is not a mapping. Use setting: value')
    merged = {**base, **settings}
    properties, daemons, others = _split_settings(merged)
    if not location.startswith('variants.'):
        allowed: Sequence[str] = _VARIANT_FIELDS
    else:
        allowed = (*_VARIANT_FIELDS, 'row')
    values = Fields(others, top.source, allowed, location)
    target_name = values.optional_text('configuration') or 'i1'
    try:
        target = parse_target(target_name)
        hadoop = HadoopSettings(
            tuple(sorted(job_settings.check(properties).items())),
            daemon_options.check(daemons),
        )
    except errors.InputError as exc:
        raise top.error(location, f'is not valid: {exc}') from None
    workload = values.optional_choice('workload', list(TYPES))
    file_bytes = _parse_file_size(values) if 'file_size' in values else None
    if location != 'base':
        workload_type = TYPES[workload or TPCX_HS.name]
        _check_fields(values, workload_type)
        if workload_type.is_on_nodes and hadoop != HadoopSettings():
            raise values.error(
                'workload',
                f"is '{workload_type.name}', which uses no settings of "
                f"Hadoop. Delete those that begin with '{PROPERTY_PREFIX}' "
                f"or '{DAEMON_PREFIX}'",
            )
    return Variant(
        name=name,
        target=target,
        size_factor=values.number('size_factor', 0.001, 10**6)
        if 'size_factor' in values
        else 1.0,
        file_bytes=file_bytes,
        row=values.optional_text('row'),
        setup=NodeSetup(
            tuning=values.optional_choice(
                'tuning', tuning_profiles.list_names()
            ),
            os_profile=values.optional_choice(
                'os_profile', os_profiles.list_names()
            ),
            volume_type=values.optional_text('volume_type') or None,
            host_affinity=values.flag('host_affinity', False) or None,
            node_groups=values.flag('node_groups', True)
            if 'node_groups' in values
            else None,
            controllers=values.optional_choice('controllers', CONTROLLERS),
            vnic=values.optional_choice('vnic', VNICS),
            stateless_security_group=values.flag(
                'stateless_security_group', False
            )
            or None,
            workload=None if workload == TPCX_HS.name else workload,
            hadoop=hadoop,
            later=LaterChanges(**_parse_counts(values, _LATER_COUNTS)),
            **_parse_counts(values, _SETUP_COUNTS),
        ),
        **_parse_counts(values, _COUNTS),
    )


def _split_settings(
    settings: Mapping[str, Json],
) -> tuple[dict[str, Json], dict[str, Json], dict[str, Json]]:
    """Return the properties, the options of daemons, and other settings."""
    prefixes = (PROPERTY_PREFIX, DAEMON_PREFIX)
    properties, daemons = (
        {
            key.removeprefix(prefix): value
            for key, value in settings.items()
            if isinstance(key, str) and key.startswith(prefix)
        }
        for prefix in prefixes
    )
    others = {
        key: value
        for key, value in settings.items()
        if not str(key).startswith(prefixes)
    }
    return properties, daemons, others


def _parse_file_size(values: Fields) -> int:
    """Return the size of the files of a variant in bytes.

    :raises hvstack.errors.InputError: the size is not valid, or the variant
        has a number of files as well.
    """
    for name in ('maps', 'files'):
        if name in values:
            raise values.error(
                'file_size', f"and '{name}' exclude each other. Delete one"
            )
    try:
        return parse_size(values.text('file_size'))
    except errors.InputError as exc:
        raise values.error('file_size', f'is not valid: {exc}') from None


def _check_fields(values: Fields, workload: WorkloadType) -> None:
    """Check that the workload of a variant has its settings.

    :raises hvstack.errors.InputError: a setting does not apply.
    """
    names: tuple[str, ...] = _FILE_FIELDS if workload.sorter else _SORT_FIELDS
    if workload.is_on_nodes:
        names += _HADOOP_FIELDS
    if not workload.has_data:
        names += _FILE_FIELDS + _DATA_FIELDS
    elif not workload.sorter:
        # Each file has a map task.
        names += ('maps',)
    for name in names:
        if name in values:
            raise values.error(
                name,
                f"does not apply to the workload '{workload.name}'. Delete it",
            )


def _parse_counts(
    values: Fields, maximums: Mapping[str, int]
) -> dict[str, int]:
    """Return the settings that are whole numbers and exist.

    :param values: settings of a variant.
    :param maximums: maximum of each setting.
    """
    return {
        name: values.integer(name, 1, maximum)
        for name, maximum in maximums.items()
        if name in values
    }
