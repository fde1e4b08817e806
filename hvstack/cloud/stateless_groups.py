# SPDX-License-Identifier: Apache-2.0
"""Security groups without connection tracking: what a cloud needs for them.

Hosts that do not track connections cannot tell replies from other packets, so
that replies need rules of their own (Neutron, "Stateless security groups").
"""

import ipaddress
import socket
from urllib.parse import urlsplit

from openstack.connection import Connection
from openstack.network.v2.network import Network

from hvstack import errors
from hvstack.cloud import servers
from hvstack.cloud.connection import access, refused

_EXTENSION = 'stateful-security-group'
_RESOURCE_TYPE = 'OS::Neutron::SecurityGroup'
_PROPERTY = 'stateful'
#: Of the metadata service of Nova, for every guest.
METADATA_CIDR = '169.254.169.254/32'
#: The URLs that nodes send signals to are those of this service (Heat,
#: "Wait conditions").
_SIGNAL_SERVICE = 'cloudformation'


def explain_missing(conn: Connection) -> str:
    """Return why a stack cannot have a stateless group; empty if it can.

    :raises hvstack.errors.CloudError: Neutron or Heat refused.
    """
    with refused('Cannot inspect the extensions of Neutron'):
        has_extension = bool(conn.network.find_extension(_EXTENSION))
    if not has_extension:
        return (
            'Cannot use a stateless security group: Neutron has no extension '
            f"'{_EXTENSION}'. Use a stateful one."
        )
    with refused('Cannot inspect the resource types of Heat'):
        response = conn.orchestration.get(
            f'/resource_types/{_RESOURCE_TYPE}', raise_exc=False
        )
        has_property = response.ok and _PROPERTY in response.json().get(
            'properties', {}
        )
    if not has_property:
        return (
            f'Cannot use a stateless security group: {_RESOURCE_TYPE} of Heat '
            f"has no property '{_PROPERTY}'. Use a stateful one, or Heat 27 "
            'or newer.'
        )
    return ''


def list_reply_cidrs(conn: Connection, network: str) -> tuple[str, ...]:
    """Return the networks of the services whose replies nodes need.

    :param network: name or ID of the network of the nodes.
    :raises hvstack.errors.InputError: the cloud has no stateless security
        groups, or the address of Heat's API is not known here.
    :raises hvstack.errors.CloudError: Keystone, Neutron or Heat refused.
    """
    missing = explain_missing(conn)
    if missing:
        raise errors.InputError(missing)
    cidrs = {METADATA_CIDR}
    for url in list_signal_urls(conn):
        cidrs |= _resolve(str(urlsplit(url).hostname))
    known_network = servers.find_network(conn, network)
    if known_network is not None:
        cidrs |= _list_nameservers(conn, known_network)
    return tuple(sorted(cidrs))


def list_signal_urls(conn: Connection) -> list[str]:
    """Return the URLs of the API that nodes send signals to.

    :raises hvstack.errors.CloudError: Keystone refused.
    """
    urls = access(conn).service_catalog.get_urls(
        service_type=_SIGNAL_SERVICE,
        interface='public',
        region_name=conn.config.get_region_name(),
    )
    return [str(url) for url in urls]


def _resolve(host: str) -> set[str]:
    try:
        addresses = socket.getaddrinfo(host, None, socket.AF_INET)
    except OSError as exc:
        raise errors.InputError(
            'Cannot let replies of the CloudFormation API of Heat in: the '
            f"IPv4 address of '{host}' is not known here ({exc.strerror}). "
            'Use a stateful security group, or run the command where the name '
            'is known.'
        ) from exc
    return {f'{address[0]}/32' for *_, address in addresses}


def _list_nameservers(conn: Connection, network: Network) -> set[str]:
    with refused('Cannot inspect the subnets of the network'):
        subnets = list(conn.network.subnets(network_id=network.id))
    return {
        f'{address}/32'
        for subnet in subnets
        for address in subnet.dns_nameservers or ()
        if ipaddress.ip_address(address).version == 4
    }
