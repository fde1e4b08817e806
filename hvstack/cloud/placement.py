# SPDX-License-Identifier: Apache-2.0
"""What Placement has of hosts and of servers."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, TypedDict

import yaml
from openstack.connection import Connection
from requests import Response

from hvstack import errors
from hvstack.cloud.connection import get_status, refused

#: Trait of the resource providers of all compute nodes, since Nova 20.
_COMPUTE_NODE = 'COMPUTE_NODE'
#: Requests to Placement at the same time.
_THREADS = 8
#: Inventories of a host by resource class.
HostInventories = Mapping[str, Mapping[str, float]]


class ProviderInventories(TypedDict):
    """Inventories of a resource provider.

    :param inventories: fields of the inventories by resource class.
    :param resource_provider_generation: generation of the provider.
    """

    inventories: dict[str, dict[str, float]]
    resource_provider_generation: int


def get(conn: Connection, path: str) -> dict[str, Any]:
    """Return the answer of Placement.

    :raises hvstack.errors.CloudError: it refused.
    """
    content: dict[str, Any] = _get_response(conn, path).json()
    return content


def _get_response(conn: Connection, path: str) -> Response:
    with refused(f'Cannot read {path} of Placement'):
        return conn.placement.get(path, raise_exc=True)


def providers(conn: Connection, trait: str | None = None) -> dict[str, str]:
    """Return the hosts' resource providers: UUID by name.

    Storage that hosts share, reservations and hvstack's lease are providers,
    too, but not of compute nodes.

    :param trait: only those that have it; several with commas between them.
    :returns: no host if a trait does not exist.
    :raises hvstack.errors.CloudError: Placement refused.
    """
    traits = f'{_COMPUTE_NODE},{trait}' if trait else _COMPUTE_NODE
    try:
        content = get(conn, f'/resource_providers?required={traits}')
    except errors.CloudError as exc:
        # A custom trait exists only once a host has had it.
        if trait and get_status(exc) == HTTPStatus.BAD_REQUEST:
            return {}
        raise
    return {
        item['name']: item['uuid']
        for item in content['resource_providers']
        if item['parent_provider_uuid'] is None
    }


def inventories(conn: Connection, provider: str) -> ProviderInventories:
    """Return a provider's inventories with its generation.

    :param provider: its UUID.
    """
    path = f'/resource_providers/{provider}/inventories'
    content: ProviderInventories = _get_response(conn, path).json()
    return content


def traits(conn: Connection, provider: str) -> list[str]:
    """Return a provider's traits.

    :param provider: its UUID.
    """
    response = get(conn, f'/resource_providers/{provider}/traits')
    return [str(trait) for trait in response['traits']]


def seen_inventories(
    conn: Connection, names: Iterable[str]
) -> dict[str, HostInventories]:
    """Return the VCPU and MEMORY_MB inventories by host."""
    uuids = providers(conn)
    return {
        name: {
            resource_class: {
                key: content[key]
                for key in ('total', 'reserved', 'allocation_ratio')
            }
            for resource_class, content in inventories(conn, uuids[name])[
                'inventories'
            ].items()
            if resource_class in ('VCPU', 'PCPU', 'MEMORY_MB')
        }
        for name in sorted(names)
        if name in uuids
    }


def allocations(
    conn: Connection, servers: dict[str, str]
) -> dict[str, dict[str, int]]:
    """Return the allocated resources by server name.

    :param servers: server id by name.
    """
    names = sorted(servers)
    # Placement has no list of the allocations of some servers.
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        answers = pool.map(
            lambda name: get(conn, f'/allocations/{servers[name]}'), names
        )
        contents = [answer['allocations'] for answer in answers]
    totals: dict[str, dict[str, int]] = {}
    for name, content in zip(names, contents, strict=True):
        total: dict[str, int] = {}
        for allocation in content.values():
            for resource_class, amount in allocation['resources'].items():
                total[resource_class] = total.get(resource_class, 0) + amount
        totals[name] = total
    return totals


def list_other_consumers(
    conn: Connection, hosts: Mapping[str, str], own_ids: Collection[str]
) -> dict[str, dict[str, int]]:
    """Return the use of hosts by other servers, by the name of the host.

    :param conn: connection of an administrator.
    :param hosts: UUID of the resource provider by name of the host.
    :param own_ids: IDs of the servers that are not counted.
    :returns: number of the ``servers`` and their resources by class;
        hosts without any are missing.
    :raises hvstack.errors.CloudError: Placement refused.
    """
    names = sorted(hosts)
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        contents = list(
            pool.map(
                lambda name: get(
                    conn, f'/resource_providers/{hosts[name]}/allocations'
                ),
                names,
            )
        )
    uses = {}
    for name, content in zip(names, contents, strict=True):
        others = [
            allocation['resources']
            for consumer, allocation in content['allocations'].items()
            if consumer not in own_ids
        ]
        if others:
            use = Counter[str]({'servers': len(others)})
            for resources in others:
                use.update(resources)
            uses[name] = dict(use)
    return uses


def join_required_traits(extra_specs: Mapping[str, str]) -> str:
    """Return the traits that a flavor requires, with commas between them.

    :param extra_specs: extra specs of the flavor.
    :returns: traits as :func:`providers` expects them; empty for none.
    """
    return ','.join(
        name.removeprefix('trait:')
        for name, value in sorted(extra_specs.items())
        if name.startswith('trait:') and value == 'required'
    )


def explain_trait(trait: str | None) -> str:
    """Return how hosts get a trait, without a plugin of the openstack client.

    Nova's administration guide, "Managing Resource Providers Using Config
    Files".

    :param trait: custom trait, or several with commas between them; None or
        empty if hosts need none.
    """
    if not trait:
        return 'start nova-compute on a host that Placement lists'
    # nova-compute does not start with another trait in its file.
    custom = [name for name in trait.split(',') if name.startswith('CUSTOM_')]
    if not custom:
        return (
            f'use hosts whose services report {trait}, or another trait in '
            'the host profile'
        )
    file = yaml.safe_dump(
        {
            'meta': {'schema_version': '1.0'},
            'providers': [
                {
                    'identification': {'uuid': '$COMPUTE_NODE'},
                    'traits': {'additional': custom},
                }
            ],
        },
        default_flow_style=True,
        width=1000,
    )
    return (
        "on the workers' hosts, write to /etc/nova/provider_config/"
        f'hvstack.yaml: {file.strip()}, then restart nova-compute'
    )
