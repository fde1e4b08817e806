# SPDX-License-Identifier: Apache-2.0
"""What every tenant of the lab finds: the provider network, open groups."""

from openstack.connection import Connection

from hvstack.lab import constants, identity

#: Last numbers of the first and the last address that guests get.
POOL = (100, 250)
#: Networks that may open connections to guests: the provider network and
#: the machine itself.
TRUSTED_CIDR = '10.252.0.0/24'


def fill(admin: Connection) -> None:
    """Make the provider network, and open the default security groups.

    :param admin: the administrator's openstacksdk connection.
    """
    _ensure_network(
        admin,
        constants.PHYSNET,
        constants.PROVIDER,
        is_router_external=True,
    )
    for user, project in (
        ('admin', 'admin'),
        (identity.MEMBER, identity.TENANT),
    ):
        _open_default_group(identity.connect(project, user))


def create_direct_network(admin: Connection) -> None:
    """Make the network whose ports leave out Open vSwitch.

    :param admin: the administrator's openstacksdk connection.
    """
    _ensure_network(admin, constants.DIRECT_PHYSNET, constants.DATA)


def _ensure_network(
    admin: Connection, name: str, gateway: str, **attributes: bool
) -> None:
    """Make a flat network with the name of its physical network.

    :param name: name of both.
    :param gateway: the machine's address on the bridge of the network.
    :param attributes: further attributes of the network.
    """
    prefix = gateway.rpartition('.')[0]
    network = admin.network.find_network(name)
    if network is None:
        network = admin.network.create_network(
            name=name,
            provider_network_type='flat',
            provider_physical_network=name,
            is_shared=True,
            **attributes,
        )
    if admin.network.find_subnet(name) is None:
        first, last = (f'{prefix}.{number}' for number in POOL)
        admin.network.create_subnet(
            name=name,
            network_id=network.id,
            ip_version=4,
            cidr=f'{prefix}.0/24',
            gateway_ip=gateway,
            allocation_pools=[{'start': first, 'end': last}],
            # None: otherwise guests are handed the machine's own resolver,
            # which they cannot reach, and each look-up of an address by
            # Hadoop waits ten seconds for it.
            dns_nameservers=['0.0.0.0'],  # noqa: S104
        )


def _open_default_group(cloud: Connection) -> None:
    project = cloud.current_project_id
    group = next(
        cloud.network.security_groups(name='default', project_id=project)
    )
    attributes = {'direction': 'ingress', 'remote_ip_prefix': TRUSTED_CIDR}
    if any(
        all(getattr(rule, key) == value for key, value in attributes.items())
        for rule in cloud.network.security_group_rules(
            security_group_id=group.id
        )
    ):
        return
    cloud.network.create_security_group_rule(
        security_group_id=group.id, ether_type='IPv4', **attributes
    )
