# SPDX-License-Identifier: Apache-2.0
"""What every tenant of the lab finds: the provider network, open groups."""

from openstack.connection import Connection

from hvstack.lab import constants, identity

#: First and last address that guests get.
POOL = ('10.252.0.100', '10.252.0.250')
#: Networks that may open connections to guests: the provider network and
#: the machine itself.
TRUSTED_CIDR = '10.252.0.0/24'


def fill(admin: Connection) -> None:
    """Make the provider network, and open the default security groups.

    :param admin: the administrator's openstacksdk connection.
    """
    network = admin.network.find_network(constants.PHYSNET)
    if network is None:
        network = admin.network.create_network(
            name=constants.PHYSNET,
            provider_network_type='flat',
            provider_physical_network=constants.PHYSNET,
            is_shared=True,
            is_router_external=True,
        )
    if admin.network.find_subnet(constants.PHYSNET) is None:
        admin.network.create_subnet(
            name=constants.PHYSNET,
            network_id=network.id,
            ip_version=4,
            cidr=TRUSTED_CIDR,
            gateway_ip=constants.PROVIDER,
            allocation_pools=[{'start': POOL[0], 'end': POOL[1]}],
            # None: otherwise guests are handed the machine's own resolver,
            # which they cannot reach, and each look-up of an address by
            # Hadoop waits ten seconds for it.
            dns_nameservers=['0.0.0.0'],  # noqa: S104
        )
    for user, project in (
        ('admin', 'admin'),
        (identity.MEMBER, identity.TENANT),
    ):
        _open_default_group(identity.connect(project, user))


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
