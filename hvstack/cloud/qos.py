# SPDX-License-Identifier: Apache-2.0
"""Limits that a cloud sets on the ports and volumes of servers.

The QoS policy of a network in Neutron limits all of its ports, and the QoS
specs of a volume type in Cinder limit its volumes. Bare metal has neither
limit, so that a percent of bare metal measures the limit, too.
"""

from collections.abc import Collection
from typing import TypedDict

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud.connection import refused
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
    """Return the limits of volume types.

    :param conn: connection of an administrator; other users see no limits.
    :param names: names of the volume types.
    :raises hvstack.errors.CloudError: Cinder refused.
    """
    if not names:
        return []
    with refused('Cannot list the volume types of Cinder'):
        types = conn.block_storage.get(
            '/types', params={'is_public': 'None'}, raise_exc=True
        ).json()
    specs_by_type = {
        item['name']: item['qos_specs_id']
        for item in types['volume_types']
        if item['name'] in names and item.get('qos_specs_id')
    }
    if not specs_by_type:
        return []
    with refused('Cannot list the QoS specs of Cinder'):
        content = conn.block_storage.get('/qos-specs', raise_exc=True).json()
    all_specs: list[QosSpecs] = content['qos_specs']
    specs_by_id = {specs['id']: specs for specs in all_specs}
    return [
        f'volume type {name}: QoS specs {_format_specs(specs)}'
        for name, specs_id in sorted(specs_by_type.items())
        if (specs := specs_by_id.get(specs_id)) and specs['specs']
    ]


def _format_specs(specs: QosSpecs) -> str:
    """Return QoS specs with who applies them: Cinder, Nova, or both."""
    values = ', '.join(
        f'{key} {value}' for key, value in sorted(specs['specs'].items())
    )
    return f'{specs["name"]} ({specs["consumer"]}): {values}'
