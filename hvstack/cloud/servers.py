# SPDX-License-Identifier: Apache-2.0
"""What Nova has of servers."""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from openstack.compute.v2.server import Server
from openstack.connection import Connection
from openstack.network.v2.network import Network
from openstack.resource import Resource

from hvstack import errors
from hvstack.cloud.connection import is_administrator, refused
from hvstack.model.flavor import Flavor
from hvstack.results.observations import ObservedFlavor

#: Property of an image that hvstack uploaded: the digest of its build.
IMAGE_DIGEST = 'hvstack_digest'
#: Status of servers in a cell that is down (Nova's microversion 2.69).
_UNKNOWN = 'UNKNOWN'


def image(conn: Connection, name: str) -> Resource:
    """Return the image that servers are to start from.

    :param name: or its id.
    :raises hvstack.errors.InputError: the image does not exist.
    :raises hvstack.errors.CloudError: Glance does not answer.
    """
    with refused('Cannot list the images'):
        glance_image = conn.image.find_image(name, ignore_missing=True)
    if glance_image is None:
        raise errors.InputError(
            _explain_hidden_image(conn, name)
            or f"Cannot find image '{name}' on the cloud. Upload the image of "
            "hvstack with 'hvstack image upload', or set 'image' in "
            "hvstack.conf to one of 'openstack image list'."
        )
    return glance_image


def _explain_hidden_image(conn: Connection, name: str) -> str:
    """Return why an image of another project is not found by its name.

    :returns: empty if Glance has no such image ("Image visibility").
    """
    for fields, reason, remedy in (
        (
            {'visibility': 'community'},
            'it is a community image of another project, which Glance lists '
            'by its ID only',
            "Set 'image' in hvstack.conf, or --image, to {id}",
        ),
        (
            {'visibility': 'shared', 'member_status': 'pending'},
            'the project has not accepted this image of another project',
            "Run 'openstack image set --accept {id}'",
        ),
    ):
        with refused('Cannot list the images'):
            hidden = next(conn.image.images(name=name, **fields), None)
        if hidden is not None:
            return (
                f"Cannot use the image '{name}': {reason}. "
                f'{remedy.format(id=hidden.id)}.'
            )
    return ''


def explain_unusable_image(
    glance_image: Resource, flavors: Iterable[Flavor]
) -> str:
    """Return why Nova would start no server; empty if it would.

    :param glance_image: result of :func:`image`.
    :param flavors: flavors of the servers.
    """
    if glance_image.status not in (None, 'active'):
        return f'its status is {glance_image.status}'
    min_disk = glance_image.min_disk or 0
    min_ram = glance_image.min_ram or 0
    for flavor in flavors:
        # Nova does not compare a disk of 0, which has the size of the image.
        if 0 < flavor.disk < min_disk:
            return (
                f'it needs a disk of {min_disk} GB, and flavor {flavor.name} '
                f'has {flavor.disk} GB'
            )
        if flavor.ram < min_ram:
            return (
                f'it needs {min_ram} MiB of memory, and flavor {flavor.name} '
                f'has {flavor.ram} MiB'
            )
        if flavor.extra_specs.get('hw:viommu_model') == 'intel' and (
            'q35' not in (glance_image.hw_machine_type or '')
        ):
            return (
                f'flavor {flavor.name} has {flavor.vcpus} vCPUs and an IOMMU, '
                'which more than 255 vCPUs need, and Nova starts it only with '
                'hw_machine_type=q35'
            )
    return ''


def check_image(
    conn: Connection, name: str, flavors: Iterable[Flavor]
) -> None:
    """Check that Nova can start servers from an image.

    :param name: name or ID of the image.
    :param flavors: flavors of the servers.
    :raises hvstack.errors.InputError: the image does not exist, is not
        active, needs more than a flavor has, or has no machine type for its
        vCPUs.
    :raises hvstack.errors.CloudError: Glance does not answer.
    """
    reason = explain_unusable_image(image(conn, name), flavors)
    if reason:
        raise errors.InputError(
            f"Cannot use the image '{name}': {reason}. Upload it again, set "
            "its properties with 'openstack image set --property', or use "
            "larger flavors ('root_gb' and the memory of the host profile)."
        )


def check_key_pair(conn: Connection, name: str) -> None:
    """Check that the user of a connection has a key pair.

    :param name: name of the key pair.
    :raises hvstack.errors.InputError: the user has no such key pair.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused(f"Cannot find key pair '{name}'"):
        key_pair = conn.compute.find_keypair(name, ignore_missing=True)
    if key_pair is None:
        raise errors.InputError(
            f"Cannot use the key pair '{name}': this user has no key pair of "
            "this name. Use one that 'openstack keypair list' shows, or "
            f"create it with 'openstack keypair create --public-key FILE "
            f"{name}'."
        )


def find_network(conn: Connection, name: str) -> Network | None:
    """Return a network, or None if the project sees no such network.

    :param name: name or ID of the network.
    :raises hvstack.errors.CloudError: Neutron refused.
    """
    with refused('Cannot list the networks'):
        return conn.network.find_network(name, ignore_missing=True)


def is_admin_only(network: Network) -> bool:
    """Return whether only administrators can attach servers to a network.

    This is the default of the policy network:attach_external_network of
    Nova for external networks that are not shared.

    :param network: network of :func:`find_network`.
    """
    return bool(network.is_router_external and not network.is_shared)


def count_addresses(conn: Connection, network: Network) -> int | None:
    """Return the IPv4 addresses of a network, used or not; None without any.

    :param network: network of :func:`find_network`.
    :raises hvstack.errors.CloudError: Neutron refused.
    """
    with refused('Cannot list the subnets'):
        pools = [
            pool
            for subnet in conn.network.subnets(
                network_id=network.id, ip_version=4
            )
            for pool in subnet.allocation_pools or ()
        ]
    addresses = [
        int(ipaddress.IPv4Address(pool['end']))
        - int(ipaddress.IPv4Address(pool['start']))
        + 1
        for pool in pools
    ]
    return sum(addresses) or None


def explain_ipv6(conn: Connection, network: Network) -> str:
    """Return why nodes would not use IPv4; empty if they would.

    The templates take the first address of a port. Neutron assigns an address
    of an IPv4 subnet and one of an IPv6 subnet, and sorts them as texts.

    :param network: network of :func:`find_network`.
    :raises hvstack.errors.CloudError: Neutron refused.
    """
    with refused('Cannot list the subnets'):
        subnets = list(conn.network.subnets(network_id=network.id))
    prefixes = [
        str(subnet.cidr) for subnet in subnets if subnet.ip_version == 6
    ]
    addresses = [
        str(pool[end])
        for subnet in subnets
        if subnet.ip_version == 4
        for pool in subnet.allocation_pools or ()
        for end in ('start', 'end')
    ]
    if not prefixes:
        return ''
    if not addresses:
        return 'it has no IPv4 subnet with addresses, which Hadoop needs'
    first = min(prefixes)
    if first > max(addresses):
        return ''
    return (
        f'a port has an address of {first} before its IPv4 address, and '
        'Hadoop needs the latter'
    )


def has_port_security(conn: Connection, name: str) -> bool:
    """Return whether a network has port security.

    Neutron rejects ports with security groups on a network without it.
    Without the extension port-security, all networks have it.

    :param name: name or ID of the network. One that does not exist has it.
    :raises hvstack.errors.CloudError: Neutron refused.
    """
    network = find_network(conn, name)
    if network is None or network.is_port_security_enabled:
        return True
    # openstacksdk has False for a network without this field, too.
    with refused('Cannot inspect the network'):
        answer = conn.network.get(f'/networks/{network.id}', raise_exc=True)
    return bool(answer.json()['network'].get('port_security_enabled', True))


def explain_unprotected(conn: Connection, network: Network) -> str:
    """Return why no security group can protect nodes; empty if one can.

    :param network: network of :func:`find_network`.
    :raises hvstack.errors.CloudError: Neutron refused.
    """
    if has_port_security(conn, network.id):
        return ''
    return (
        'it has no port security, so that no security group would protect '
        'Hadoop'
    )


def has_dhcp(conn: Connection, network: Network) -> bool:
    """Return whether a network assigns IPv4 addresses by DHCP.

    :param network: network of :func:`find_network`.
    :raises hvstack.errors.CloudError: Neutron refused.
    """
    with refused('Cannot list the subnets'):
        return any(
            subnet.is_dhcp_enabled is not False
            for subnet in conn.network.subnets(
                network_id=network.id, ip_version=4
            )
        )


def explain_few_addresses(
    conn: Connection, network: Network, nodes: int
) -> str:
    """Return why a network has too few addresses; empty if it has enough.

    :param nodes: number of nodes of a cluster.
    :raises hvstack.errors.CloudError: Neutron refused.
    """
    count = count_addresses(conn, network)
    if count is None or count >= nodes:
        return ''
    return (
        f'its allocation pools have {count} IPv4 addresses, and the cluster '
        f'has {nodes} nodes'
    )


def check_network(
    conn: Connection, name: str, nodes: int, port_security: bool = True
) -> None:
    """Check that servers of a project can be attached to a network.

    :param name: name or ID of the network.
    :param nodes: number of nodes of the cluster.
    :param port_security: whether the ports have a security group.
    :raises hvstack.errors.InputError: the network does not exist, has no
        subnet, no port security or too few addresses, its nodes would use
        IPv6, or only administrators can attach servers to it.
    :raises hvstack.errors.CloudError: Neutron refused.
    """
    network = find_network(conn, name)
    if network is None:
        reason = 'the project sees no such network'
    elif not network.subnet_ids:
        reason = 'it has no subnet'
    elif is_admin_only(network) and not is_administrator(conn):
        reason = 'it is external, so only administrators can attach servers'
    else:
        reason = (
            (port_security and explain_unprotected(conn, network))
            or explain_ipv6(conn, network)
            or explain_few_addresses(conn, network, nodes)
        )
    if not reason:
        return
    raise errors.InputError(
        f"Cannot use the network '{name}': {reason}. Use --network, or "
        "'network' in hvstack.conf, with a network of the project; "
        'network-new.yaml creates one with floating IPs of an external '
        'network.'
    )


def explain_missing_macvtap(conn: Connection, name: str) -> str:
    """Return why nodes cannot be connected past switches; empty if they can.

    :param conn: connection of an administrator.
    :param name: option ``macvtap_network`` of :mod:`hvstack.conf`.
    :raises hvstack.errors.CloudError: Neutron refused.
    """
    if find_network(conn, name) is not None:
        return ''
    return (
        f"Cannot connect nodes by macvtap: the network '{name}' does not "
        "exist. Set 'macvtap_network' in hvstack.conf to a network whose "
        'ports hosts connect past their virtual switches.'
    )


def flavor(conn: Connection, server: str) -> ObservedFlavor:
    """Return the flavor that a server was started with.

    Nova keeps it with the server (compute API 2.47), so that a later change
    of the flavor's extra specs does not show here.

    :param conn: an administrator's; others may not see extra specs.
    :param server: its id.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused(f'Cannot inspect server {server}'):
        server_flavor = conn.compute.get_server(server).flavor
    return ObservedFlavor(
        name=server_flavor.name,
        vcpus=server_flavor.vcpus,
        ram=server_flavor.ram,
        disk=server_flavor.disk,
        ephemeral=server_flavor.ephemeral or 0,
        extra_specs=dict(server_flavor.extra_specs or {}),
    )


@dataclass(frozen=True)
class ServerLocation:
    """Where a server is, as its own project may see it.

    :param host_id: the same for all of a project's servers on one host;
        empty for one that is on none.
    :param zone: availability zone.
    :param on_volumes: whether it has volumes.
    """

    host_id: str
    zone: str
    on_volumes: bool


def locate_servers(conn: Connection) -> dict[str, ServerLocation]:
    """Return where every server of the connection's project is, by id.

    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused('Cannot list the servers'):
        return {
            server.id: ServerLocation(
                server.host_id or '',
                server.availability_zone or '',
                bool(server.attached_volumes),
            )
            for server in conn.compute.servers()
        }


def list_all_servers(conn: Connection) -> Iterator[Server]:
    """Return the servers of all projects, to learn which hosts have none.

    Of a server in a cell that is down, Nova returns the ID and the status
    UNKNOWN alone, and it can be on any host.

    :param conn: connection of an administrator.
    :raises hvstack.errors.CloudError: the host of a server is not known, or
        Nova refused.
    """
    with refused(
        'Cannot list the servers, which needs the role of an administrator'
    ):
        for server in conn.compute.servers(all_projects=True):
            if server.status == _UNKNOWN and not server.compute_host:
                raise errors.CloudError(
                    f'Cannot find the host of server {server.id}: its status '
                    f'is {_UNKNOWN}, because its cell does not answer Nova. '
                    "Check the cell with 'nova-manage cell_v2 list_cells'."
                )
            yield server
