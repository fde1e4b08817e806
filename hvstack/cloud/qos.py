# SPDX-License-Identifier: Apache-2.0
"""Limits that a cloud sets on the ports and volumes of servers.

The QoS policy of a network in Neutron limits all of its ports, the QoS specs
of a volume type in Cinder limit its volumes, and the encryption of a volume
type costs CPU time of the hosts. Bare metal has none of them, so that a
percent of bare metal measures them, too.
"""

from collections.abc import Collection, Iterator
from http import HTTPStatus
from typing import TypedDict

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import volumes
from hvstack.cloud.connection import get_status, refused
from hvstack.results.typed_json import JsonObject


class QosSpecs(TypedDict):
    """QoS specs in the API of Cinder.

    :param consumer: ``front-end`` (Nova), ``back-end`` (Cinder) or ``both``.
    :param specs: limits by name.
    """

    id: str
    name: str
    consumer: str
    specs: dict[str, str]


def describe_policy(conn: Connection, policy_id: str | None) -> str:
    """Return the limits of a QoS policy of Neutron; empty without any.

    :param conn: any connection.
    :param policy_id: ID of the policy; None for no policy.
    """
    if not policy_id:
        return ''
    try:
        with refused('Cannot inspect the QoS policy'):
            policy = conn.network.get_qos_policy(policy_id)
    except errors.CloudError:
        # Neutron shows the policies of other projects to administrators only.
        return f'QoS policy {policy_id}, whose rules are not visible'
    limits = [
        limit for rule in policy.rules or () if (limit := _format_rule(rule))
    ]
    return f'QoS policy {policy.name}: {", ".join(limits)}' if limits else ''


def _format_rule(rule: JsonObject) -> str:
    """Return the limit of a rule; empty for a guarantee or a mark."""
    direction = rule.get('direction') or 'egress'
    match rule.get('type'):
        case 'bandwidth_limit':
            return f'{direction} at most {rule["max_kbps"]} kbit/s'
        case 'packet_rate_limit':
            return f'{direction} at most {rule["max_kpps"]} kpps'
    return ''


def list_port_limits(conn: Connection, server_id: str) -> list[str]:
    """Return the limits of the ports of a server.

    :param conn: connection of an administrator.
    :param server_id: ID of the server.
    :raises hvstack.errors.CloudError: Neutron refused.
    """
    with refused('Cannot list the ports of a server'):
        policies = dict.fromkeys(
            port.qos_policy_id or port.qos_network_policy_id
            for port in conn.network.ports(device_id=server_id)
        )
    limits = (describe_policy(conn, policy) for policy in policies)
    return [f'ports: {limit}' for limit in limits if limit]


def list_volume_limits(conn: Connection, names: Collection[str]) -> list[str]:
    """Return the limits and the encryption of volume types.

    :param conn: connection of an administrator; other users see nothing.
    :param names: names of the volume types.
    :raises hvstack.errors.CloudError: Cinder refused.
    """
    if not names:
        return []
    types_by_name: dict[str, JsonObject] = {
        str(item['name']): item
        for item in volumes.list_types(conn)
        if item['name'] in names
    }
    return [
        f'volume type {name}: {limit}'
        for limits in (
            _list_specs(conn, types_by_name),
            _list_encryption(conn, types_by_name),
        )
        for name, limit in limits
    ]


def _list_specs(
    conn: Connection, types_by_name: dict[str, JsonObject]
) -> Iterator[tuple[str, str]]:
    """Yield names of volume types with their QoS specs."""
    ids_by_name = {
        name: specs_id
        for name, item in sorted(types_by_name.items())
        if (specs_id := item.get('qos_specs_id'))
    }
    if not ids_by_name:
        return
    with refused('Cannot list the QoS specs of Cinder'):
        content = conn.block_storage.get('/qos-specs', raise_exc=True).json()
    all_specs: list[QosSpecs] = content['qos_specs']
    specs_by_id = {specs['id']: specs for specs in all_specs}
    for name, specs_id in ids_by_name.items():
        specs = specs_by_id.get(str(specs_id))
        if specs and specs['specs']:
            yield name, f'QoS specs {_format_specs(specs)}'


def _list_encryption(
    conn: Connection, types_by_name: dict[str, JsonObject]
) -> Iterator[tuple[str, str]]:
    """Yield names of volume types with their encryption."""
    for name, item in sorted(types_by_name.items()):
        try:
            with refused('Cannot inspect the encryption of a volume type'):
                encryption = conn.block_storage.get(
                    f'/types/{item["id"]}/encryption', raise_exc=True
                ).json()
        except errors.CloudError as exc:
            # Cinder shows it to administrators only.
            if get_status(exc) != HTTPStatus.FORBIDDEN:
                raise
            return
        if encryption.get('provider'):
            yield (
                name,
                f'encrypted by {encryption["provider"]} '
                f'({encryption["control_location"]})',
            )


def _format_specs(specs: QosSpecs) -> str:
    """Return QoS specs with who applies them: Cinder, Nova, or both."""
    values = ', '.join(
        f'{key} {value}' for key, value in sorted(specs['specs'].items())
    )
    return f'{specs["name"]} ({specs["consumer"]}): {values}'
