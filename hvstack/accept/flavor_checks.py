# SPDX-License-Identifier: Apache-2.0
"""Checks of flavors in Nova, and of inventories in Placement.

The functions have no side effects. Their arguments are plain data, as Nova and
Placement return it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from hvstack.accept.check_result import NONE, CheckResult, check_equal
from hvstack.cloud import catalogue_publisher
from hvstack.cloud.nova_flavors import PREFIX
from hvstack.cloud.placement import HostInventories
from hvstack.model.catalogue import Catalogue, CatalogueEntry
from hvstack.model.flavor import Flavor
from hvstack.model.host import HostProfile
from hvstack.model.host_share import compute_guest_memory_mib

#: Flavor of Nova's API.
NovaFlavor = TypedDict(
    'NovaFlavor',
    {
        'id': str,
        'name': str,
        'vcpus': int,
        'ram': int,
        'disk': int,
        'OS-FLV-EXT-DATA:ephemeral': NotRequired[int],
        'swap': NotRequired[int | str],
        'OS-FLV-DISABLED:disabled': NotRequired[bool],
        'os-flavor-access:is_public': bool,
        'description': NotRequired[str | None],
        'extra_specs': dict[str, str],
    },
)
#: Fields and extra specs of a flavor.
_FlavorValues = Mapping[str, int | str | bool]


def check_flavors(
    catalogues: Sequence[Catalogue],
    nova_flavors: Mapping[str, NovaFlavor],
    *,
    candidates: bool,
    public: bool,
) -> list[CheckResult]:
    """Check that Nova has the flavors of the catalogues.

    :param catalogues: published catalogues.
    :param nova_flavors: Nova's flavors by name, with their ``extra_specs``.
    :param candidates: whether flavors without approval are expected too.
    :param public: whether the flavors are expected to be public.
    """
    check_results = []
    for catalogue in catalogues:
        for entry in catalogue.entries:
            flavor = entry.flavor
            if entry.status != 'approved' and not candidates:
                continue
            nova_flavor = nova_flavors.get(flavor.name)
            if nova_flavor is None:
                check_results.append(
                    check_equal(flavor.name, 'published', 'missing')
                )
                continue
            observed: _FlavorValues = {
                'vcpus': nova_flavor['vcpus'],
                'ram': nova_flavor['ram'],
                'disk': nova_flavor['disk'],
                'ephemeral': nova_flavor.get('OS-FLV-EXT-DATA:ephemeral', 0),
                # Nova writes no swap as nothing, or as 0.
                'swap': nova_flavor.get('swap') or 0,
                'disabled': nova_flavor.get('OS-FLV-DISABLED:disabled', False),
                'public': nova_flavor['os-flavor-access:is_public'],
                'description': nova_flavor.get('description') or '',
                **nova_flavor['extra_specs'],
            }
            expected: _FlavorValues = {
                'vcpus': flavor.vcpus,
                'ram': flavor.ram,
                'disk': flavor.disk,
                'ephemeral': flavor.ephemeral,
                'swap': 0,
                'disabled': False,
                'public': public,
                'description': catalogue_publisher.described(entry),
                **flavor.extra_specs,
                **catalogue_publisher.labels(catalogue.host, entry),
            }
            check_results += [
                check_equal(
                    f'{flavor.name}: {name}',
                    expected.get(name, 'nothing'),
                    observed.get(name, 'nothing'),
                )
                for name in sorted({*expected, *observed})
            ]
            if entry.status == 'approved':
                check_results.append(_check_evidence(flavor.name, observed))
    return check_results


def _check_evidence(name: str, observed: _FlavorValues) -> CheckResult:
    """Check that an approved flavor contains its evidence."""
    text = str(observed['description'])
    return CheckResult(
        f'{name}: evidence',
        'percent of bare metal in its description',
        text,
        'of bare metal' in text and catalogue_publisher.EVIDENCE in observed,
        str(observed.get(catalogue_publisher.EVIDENCE, '')),
    )


def check_unmanaged_flavors(
    catalogues: Sequence[Catalogue],
    nova_flavors: Mapping[str, NovaFlavor],
) -> list[CheckResult]:
    """Check that no other flavor uses the name prefix of the catalogues.

    Retired flavors that no project can use are ignored.

    :param catalogues: published catalogues.
    :param nova_flavors: Nova's flavors by name, with their ``extra_specs``.
    """
    prefixes = tuple(f'hv-{catalogue.host}-' for catalogue in catalogues)
    names = {
        entry.flavor.name
        for catalogue in catalogues
        for entry in catalogue.entries
    }
    check_results = []
    for name, nova_flavor in sorted(nova_flavors.items()):
        own = {
            key: value
            for key, value in nova_flavor['extra_specs'].items()
            if key.startswith(PREFIX)
        }
        retired = any(
            catalogue_publisher.RETIRED in str(value) for value in own.values()
        )
        hidden = retired and not nova_flavor['os-flavor-access:is_public']
        if name in names or hidden:
            continue
        if own or name.startswith(prefixes):
            check_results.append(
                check_equal(name, 'in no catalogue, so not there', 'published')
            )
    return check_results or [
        check_equal('flavors of no catalogue', NONE, NONE)
    ]


def check_inventory(
    host: str,
    inventories: HostInventories,
    profile: HostProfile,
) -> list[CheckResult]:
    """Check the inventories of a host in Placement.

    :param host: host name.
    :param inventories: inventories of the host by resource class.
    :param profile: host profile.
    """
    check_results = [
        check_equal(
            f'{host}: ratio of {resource_class}',
            1.0,
            float(inventories[resource_class]['allocation_ratio']),
            json.dumps(inventories[resource_class]),
        )
        for resource_class in ('VCPU', 'PCPU', 'MEMORY_MB')
        if resource_class in inventories
    ]
    memory = inventories.get('MEMORY_MB', {'total': 0, 'reserved': 0})
    room = memory['total'] - memory['reserved']
    expected_mib = compute_guest_memory_mib(profile)
    check_results.append(
        CheckResult(
            f'{host}: memory for guests',
            f'{expected_mib} MiB or more',
            f'{room} MiB, {memory["reserved"]} reserved',
            room >= expected_mib,
        )
    )
    if profile.reserved_memory_mib is not None:
        check_results.append(
            CheckResult(
                f'{host}: memory reserved',
                f'{profile.reserved_memory_mib} MiB or more',
                f'{memory["reserved"]} MiB',
                memory['reserved'] >= profile.reserved_memory_mib,
            )
        )
    return check_results


def required_resources(flavor: Flavor) -> dict[str, int]:
    """Return the resources of a guest by resource class."""
    dedicated = flavor.extra_specs.get('hw:cpu_policy') == 'dedicated'
    resource_class = 'PCPU' if dedicated else 'VCPU'
    return {resource_class: flavor.vcpus, 'MEMORY_MB': flavor.ram}


def can_hold(
    inventories: HostInventories, requested: Mapping[str, int]
) -> bool:
    """Return whether a host is large enough for a guest.

    Reserved resources are ignored.

    :param inventories: inventories of the host by resource class.
    :param requested: resources of the guest by resource class.
    """
    return all(
        resource_class in inventories
        and inventories[resource_class]['total'] >= count
        for resource_class, count in requested.items()
    )


def vcpus_above_half(total: int, cells: int) -> int:
    """Return the smallest number of vCPUs that fits a host only once.

    :param total: number of CPUs of the host.
    :param cells: number of NUMA cells over which the guest is spread evenly.
    """
    return (total // (2 * cells) + 1) * cells


def check_capacity(
    host: str,
    inventories: HostInventories,
    usages: Mapping[str, int],
) -> list[CheckResult]:
    """Check that the guests use at most the physical resources of a host.

    The limit is the total without the reserved part, whatever the allocation
    ratios are.

    :param host: host name.
    :param inventories: inventories of the host by resource class.
    :param usages: used resources of the host by resource class.
    """
    return [
        CheckResult(
            f'{host}: {resource_class} taken',
            f'at most {inventory["total"] - inventory["reserved"]}',
            str(usages.get(resource_class, 0)),
            usages.get(resource_class, 0)
            <= inventory['total'] - inventory['reserved'],
        )
        for resource_class in ('VCPU', 'PCPU', 'MEMORY_MB')
        if (inventory := inventories.get(resource_class)) is not None
    ]


def check_room(
    host: str,
    inventories: HostInventories,
    entry: CatalogueEntry,
) -> CheckResult:
    """Check that Placement allows at most I workers on a host.

    :param host: host name.
    :param inventories: inventories of the host by resource class.
    :param entry: catalogue entry of the workers' flavor.
    """
    count = entry.configuration.instances
    fit = min(
        int(
            (
                inventories[resource_class]['total']
                - inventories[resource_class]['reserved']
            )
            * inventories[resource_class]['allocation_ratio']
            // need
        )
        for resource_class, need in required_resources(entry.flavor).items()
    )
    return CheckResult(
        f'{entry.flavor.name}: workers that {host} has room for',
        f'at most {count}',
        str(fit),
        fit <= count,
        json.dumps(dict(inventories)),
    )


def check_nova_conf_ratios(
    host: str, options: Mapping[str, str]
) -> list[CheckResult]:
    """Check that nova.conf does not set allocation ratios.

    :param host: host name.
    :param options: options that nova-compute reads, as ``section.name``.
    """
    return [
        check_equal(
            f'{host}: {name}', 'unset', options.get(f'DEFAULT.{name}', 'unset')
        )
        for name in ('cpu_allocation_ratio', 'ram_allocation_ratio')
    ]
