# SPDX-License-Identifier: Apache-2.0
"""Catalogues: the flavors of one host profile, candidate or approved."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypedDict, TypeGuard

from hvstack import errors
from hvstack.model.configuration import Configuration, parse
from hvstack.model.flavor import Flavor, derive_flavor
from hvstack.model.host import HostProfile
from hvstack.model.host_share import ROLES
from hvstack.model.plain_data import Json, JsonObject
from hvstack.model.strict_mapping import Fields, SourceLocation

STATUSES = ('candidate', 'approved')

#: Default of the lower bound of the interval that an approved flavor must
#: reach, in percent of bare metal.
MIN_PERCENT = 90
#: Maximum percent of bare metal; a larger value is a mistake.
MAX_PERCENT = 1000

#: Nova: the name of a flavor has 1 to 255 printable characters, and no space
#: at its ends.
_NAME = re.compile(r'\S(.{0,253}\S)?')
#: Maximum sizes of a flavor; larger values have a wrong unit.
_MAX_VCPUS = 2**19
_MAX_MIB = 2**26
_MAX_GB = 10**9
_MAX_DESCRIPTION_LENGTH = 65535
#: Nova: names and maximum length of extra specs.
_SPEC = re.compile(r'[A-Za-z0-9_.: -]{1,255}')
_MAX_SPEC_LENGTH = 255

_ENTRY_FIELDS = (
    'name',
    'role',
    'configuration',
    'status',
    'vcpus',
    'ram',
    'disk',
    'ephemeral',
    'disks',
    'disk_size_gb',
    'description',
    'extra_specs',
    'evidence',
)

#: What evidence must have. ``signature``, the number of records that were
#: ``unverified``, ``min_percent``, ``baseline_runs``, ``baseline``
#: where that is not of the same sweep and, with Ceph, ``pool_size`` stand
#: beside it.
EVIDENCE_FIELDS = (
    'percent',
    'low',
    'high',
    'runs',
    'size_bytes',
    'backend',
    'date',
    'releases',
    'configuration',
    'host',
    'sweep',
    'digest',
)
_RELEASES = ('nova', 'hadoop', 'hvstack')
_SIGNATURE = ('key', 'value')
_DIGEST = re.compile('[0-9a-f]{64}')


class EvidenceFigures(TypedDict, total=False):
    """Figures of evidence.

    :param percent: percent of bare metal.
    :param low: lower bound of its interval.
    :param high: upper bound of its interval.
    :param min_percent: required percent of bare metal.
    :param runs: number of valid runs of the configuration.
    :param baseline_runs: number of valid runs on bare metal.
    """

    percent: float
    low: float
    high: float
    min_percent: float
    runs: int
    baseline_runs: int


class Evidence(EvidenceFigures, total=False):
    """Results that justify an approval, as the catalogue stores them.

    :data:`EVIDENCE_FIELDS` lists what an approved flavor must have.

    :param size_bytes: size of the data in bytes.
    :param backend: compute backend of the runs.
    :param date: day of the last run, such as ``2026-11-21``.
    :param releases: releases of Nova, Hadoop and hvstack.
    :param configuration: full name of the configuration.
    :param host: name of the host profile.
    :param sweep: name of the sweep.
    :param baseline: name of the sweep of the runs on bare metal, if it is
        another one.
    :param digest: SHA-256 over the digests of the records.
    :param unverified: number of records that were not verified, if any.
    :param pool_size: minimum number of copies of the Ceph pools, with Ceph.
    :param signature: ``key`` and ``value``.
    """

    size_bytes: int
    backend: str
    date: str
    releases: dict[str, str]
    configuration: str
    host: str
    sweep: str
    baseline: str
    digest: str
    unverified: int
    pool_size: int
    signature: dict[str, str]


class CatalogueDocument(TypedDict):
    """Content of a file with candidates.

    :param host: name of the host profile.
    :param min_percent: required percent of bare metal of approved flavors.
    :param flavors: entries.
    """

    host: str
    min_percent: float
    flavors: list[JsonObject]


@dataclass(frozen=True)
class CatalogueEntry:
    """Flavor of a catalogue.

    :param flavor: flavor of the entry.
    :param configuration: configuration that the flavor is derived from.
    :param status: ``candidate`` or ``approved``.
    :param evidence: results that justify the approval; None without any.
    :param source_location: function that returns the file and line of a field.
    """

    flavor: Flavor
    configuration: Configuration
    status: str
    evidence: Evidence | None
    source_location: SourceLocation


@dataclass(frozen=True)
class Catalogue:
    """Flavors of a host profile.

    :param host: name of the host profile.
    :param min_percent: required percent of bare metal of approved flavors.
    :param entries: entries in the order of the file.
    """

    host: str
    min_percent: float
    entries: tuple[CatalogueEntry, ...]


def from_mapping(data: Json, source_location: SourceLocation) -> Catalogue:
    """Return the catalogue of plain data.

    :param data: content of a YAML file.
    :param source_location: function that returns the file and line of a field.
    :raises hvstack.errors.InputError: a field is not valid.
    """
    fields = Fields(data, source_location, ('host', 'min_percent', 'flavors'))
    flavors = fields.raw('flavors')
    if not isinstance(flavors, list):
        raise fields.error('flavors', 'is not a list. Write a list of flavors')
    entries = tuple(
        _parse_entry(item, source_location, f'flavors.{index}')
        for index, item in enumerate(flavors)
    )
    names: set[str] = set()
    for index, entry in enumerate(entries):
        if entry.flavor.name in names:
            raise fields.error(
                f'flavors.{index}.name', 'is duplicated. Use another name'
            )
        names.add(entry.flavor.name)
    return Catalogue(
        host=fields.text('host'),
        min_percent=(
            fields.number('min_percent', 0, MAX_PERCENT)
            if fields.has('min_percent')
            else MIN_PERCENT
        ),
        entries=entries,
    )


def _parse_entry(
    item: Json, source_location: SourceLocation, prefix: str
) -> CatalogueEntry:
    fields = Fields(item, source_location, _ENTRY_FIELDS, prefix)
    name = fields.text('name')
    if not _NAME.fullmatch(name) or not name.isprintable():
        raise fields.error(
            'name', 'is not a name for Nova. Use 1 to 255 printable characters'
        )
    flavor = Flavor(
        name=name,
        role=fields.choice('role', ROLES, 'worker'),
        vcpus=fields.integer('vcpus', 1, _MAX_VCPUS),
        ram=fields.integer('ram', 1, _MAX_MIB),
        disk=fields.integer('disk', 0, _MAX_GB, 0),
        ephemeral=fields.integer('ephemeral', 0, _MAX_GB, 0),
        disks=fields.integer('disks', 0, 1000, 0),
        disk_size_gb=fields.integer('disk_size_gb', 0, _MAX_GB, 0),
        description=(
            fields.text('description') if fields.has('description') else ''
        ),
        extra_specs=_parse_specs(fields),
    )

    if len(flavor.description) > _MAX_DESCRIPTION_LENGTH:
        raise fields.error(
            'description',
            f'is longer than {_MAX_DESCRIPTION_LENGTH} characters. Shorten it',
        )
    try:
        configuration = parse(fields.text('configuration'))
    except errors.InputError as exc:
        raise fields.error('configuration', f'is not valid: {exc}') from exc

    def at(field: str) -> str:
        return source_location(f'{prefix}.{field}')

    return CatalogueEntry(
        flavor=flavor,
        configuration=configuration,
        status=fields.choice('status', STATUSES, 'candidate'),
        evidence=_parse_evidence(fields, source_location),
        source_location=at,
    )


def _parse_evidence(
    top: Fields, source_location: SourceLocation
) -> Evidence | None:
    """Check the existing fields of evidence; lint reports missing fields."""
    evidence = top.raw('evidence')
    if evidence is not None and _is_evidence(
        evidence, source_location, top.name('evidence')
    ):
        return evidence.copy()
    return None


def _is_evidence(
    evidence: Json, source_location: SourceLocation, name: str
) -> TypeGuard[Evidence]:
    """Return true for evidence whose fields are valid.

    :param evidence: content of the field.
    :param source_location: function that returns the file and line of a field.
    :param name: dotted name of the field.
    :raises hvstack.errors.InputError: a field is not valid.
    """
    allowed_fields = (
        *EVIDENCE_FIELDS,
        *('min_percent', 'baseline', 'baseline_runs', 'pool_size'),
        *('unverified', 'signature'),
    )
    fields = Fields(evidence, source_location, allowed_fields, name)
    for field in fields:
        if field in ('percent', 'low', 'high', 'min_percent'):
            fields.number(field, 0, MAX_PERCENT)
        elif field in ('runs', 'baseline_runs', 'pool_size', 'unverified'):
            fields.integer(field, 1, 1000)
        elif field == 'size_bytes':
            fields.integer(field, 1, 10**18)
        elif field == 'signature':
            signature = Fields(
                fields.raw(field),
                source_location,
                _SIGNATURE,
                f'{name}.{field}',
            )
            for part in _SIGNATURE:
                signature.text(part)
        elif field == 'releases':
            releases = Fields(
                fields.raw(field),
                source_location,
                _RELEASES,
                f'{name}.{field}',
            )
            for release in releases:
                releases.text(release)
        else:
            fields.text(field)
    if fields.has('digest') and not _DIGEST.fullmatch(fields.text('digest')):
        raise fields.error(
            'digest',
            "is not a SHA-256 digest. Run 'hvstack flavor approve' again",
        )
    return True


def _parse_specs(fields: Fields) -> dict[str, str]:
    extra_specs = fields.raw('extra_specs')
    if extra_specs is None:
        return {}
    if not isinstance(extra_specs, Mapping):
        raise fields.error(
            'extra_specs', 'is not a mapping. Write name: value'
        )
    specs: dict[str, str] = {}
    for key, value in extra_specs.items():
        if not _SPEC.fullmatch(str(key)):
            raise fields.error(
                f'extra_specs.{str(key)[:60]!r}',
                'is not a name of an extra spec. Use up to 255 letters, '
                'digits, _ . : - and spaces',
            )
        if not isinstance(key, str) or not isinstance(value, str):
            raise fields.error(
                f'extra_specs.{key}',
                f'is {str(value)[:60]!r}. Write a text in quotes',
            )
        if len(value) > _MAX_SPEC_LENGTH or not value.isprintable():
            raise fields.error(
                f'extra_specs.{key}',
                f'is {value[:60]!r}. Use at most {_MAX_SPEC_LENGTH} '
                'printable characters',
            )
        specs[key] = value
    return specs


def build_catalogue(
    profile: HostProfile, configurations: Iterable[Configuration]
) -> CatalogueDocument:
    """Return a catalogue of candidates as plain data for a file.

    If the traits of a profile name roles, it has flavors of these roles alone.

    :param profile: host profile.
    :param configurations: configurations to derive flavors from.
    :raises hvstack.errors.InputError: a flavor does not fit the host.
    """
    flavors: dict[str, JsonObject] = {}
    for configuration in configurations:
        roles = ['worker', 'controller']
        if profile.controllers_rule == 'separate':
            roles = ['worker', 'namenode', 'resourcemanager']
            if configuration.instances == 1:
                roles = ['worker', 'controller']
        own = [role for role in roles if role in profile.traits]
        for role in own or roles:
            flavor = derive_flavor(profile, configuration, role)
            flavors.setdefault(
                flavor.name,
                {
                    'status': 'candidate',
                    'configuration': configuration.name,
                    **flavor.to_mapping(),
                },
            )
    return {
        'host': profile.name,
        'min_percent': MIN_PERCENT,
        'flavors': list(flavors.values()),
    }
