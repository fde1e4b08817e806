# SPDX-License-Identifier: Apache-2.0
"""Check of the network of the nodes before anything is made on a cloud."""

from collections.abc import Iterator

from openstack.connection import Connection
from openstack.network.v2.network import Network

from hvstack.cloud import qos, servers
from hvstack.cloud.connection import is_administrator
from hvstack.cloud.diagnosis import (
    FAULT,
    NOTE,
    CloudNeeds,
    Diagnosis,
    build_finding,
)
from hvstack.model.neutron_conf import JUMBO_MTU, STANDARD_MTU


def network(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    """Check that nodes can use the network, and what they find there."""
    nodes_network = servers.find_network(conn, request.network)
    if nodes_network is None or not nodes_network.subnet_ids:
        yield Diagnosis(
            'network',
            FAULT,
            f"'{request.network}' is not there"
            if nodes_network is None
            else f'{nodes_network.name}: 0 subnets',
            "name one with a subnet as 'network' in hvstack.conf",
        )
        return
    detail = f'{nodes_network.name}: {len(nodes_network.subnet_ids)} subnets'
    if servers.is_admin_only(nodes_network):
        detail += ', external: only administrators can attach servers to it'
        if not is_administrator(conn):
            yield Diagnosis(
                'network',
                FAULT,
                detail,
                "name a network of the project as 'network' in hvstack.conf, "
                'or create stacks with network-new.yaml, which gives them a '
                f'network and a floating IP of {nodes_network.name}',
            )
            return
    reason, remedy = _explain_unusable_network(conn, request, nodes_network)
    detail += f': {reason}' if reason else ''
    yield build_finding('network', not reason, detail, remedy)
    if not reason and not servers.has_dhcp(conn, nodes_network):
        yield Diagnosis(
            'DHCP',
            NOTE,
            f'{nodes_network.name} has no IPv4 subnet with DHCP: nodes get '
            'their addresses from a config drive, which containers lack',
            "'openstack image set --property img_config_drive=mandatory "
            f"{request.image}', or 'openstack subnet set --dhcp SUBNET'",
        )
    if nodes_network.mtu and nodes_network.mtu <= STANDARD_MTU:
        yield Diagnosis(
            'MTU of the network',
            NOTE,
            f'{nodes_network.name}: {nodes_network.mtu}; the papers use jumbo '
            f'frames of {JUMBO_MTU} bytes on hosts and switches (vsphere6, '
            'best practices and appendix A; vsan, appendix A)',
            'with such switches, set global_physnet_mtu and path_mtu in '
            "Neutron ('hvstack host nova-conf PROFILE --file neutron'), then "
            "'openstack network set --mtu' for "
            f'{nodes_network.name}',
        )
    limits = qos.describe_policy(conn, nodes_network.qos_policy_id)
    if limits:
        yield Diagnosis(
            'QoS of the network',
            NOTE,
            f'{nodes_network.name} has {limits}: bare metal has no such limit',
            "'openstack network set --no-qos-policy "
            f"{nodes_network.name}', or name another network as 'network' in "
            'hvstack.conf',
        )


def _explain_unusable_network(
    conn: Connection, request: CloudNeeds, network: Network
) -> tuple[str, str]:
    """Return why nodes cannot use a network, and the remedy; empty if none."""
    problems = (
        (
            servers.explain_unprotected(conn, network),
            "name another network as 'network' in hvstack.conf, or have its "
            "owner run 'openstack network set --enable-port-security "
            f"{network.name}'",
        ),
        (
            servers.explain_ipv6(conn, network),
            "name a network without IPv6 subnets as 'network' in hvstack.conf",
        ),
        (
            servers.explain_few_addresses(conn, network, request.servers),
            "name a larger network as 'network' in hvstack.conf, or enlarge "
            'the allocation pools of its subnets',
        ),
    )
    return next((problem for problem in problems if problem[0]), ('', ''))
