# SPDX-License-Identifier: Apache-2.0
"""Options of neutron.conf for clusters on hosts of a profile.

Neutron's other defaults suffice: a cluster has one network at most, and its
security group has fewer rules than the quota.
"""

from hvstack.model.config_options import ConfigOption

#: Largest MTU of a network without jumbo frames, and that of the papers.
STANDARD_MTU = 1500
JUMBO_MTU = 9000
#: Default quotas of Neutron 29 ("Manage Networking service quotas").
DEFAULT_QUOTAS = {'port': 500, 'security_group': 10}


def count_quotas(nodes: int) -> dict[str, int]:
    """Return the needs of a cluster by the names of Neutron's quotas.

    :param nodes: number of nodes, each of which has a port.
    """
    return {'port': nodes, 'security_group': 1}


def list_neutron_options(nodes: int = 0) -> list[ConfigOption]:
    """List the options of neutron.conf of the server.

    :param nodes: number of nodes of a cluster; 0 if it is unknown.
    """
    return [*_list_quotas(nodes), *_list_mtus()]


def _list_mtus() -> list[ConfigOption]:
    comment = (
        f'Jumbo frames of {JUMBO_MTU} bytes, which the papers use (vsphere6, '
        'best practices and appendix A; vsan, appendix A). Remove the # only '
        'if the interfaces of all hosts and all switches have this MTU: the '
        'default of both options assumes '
        f'{STANDARD_MTU} bytes (Neutron, "MTU considerations"). Networks in '
        'tunnels get less, such as 8950 bytes with VXLAN. Then change '
        "existing networks with 'openstack network set --mtu', and create "
        'their servers again.'
    )
    return [
        ConfigOption(
            *('DEFAULT', 'global_physnet_mtu', str(JUMBO_MTU), comment),
            example=True,
        ),
        ConfigOption(
            *('ml2', 'path_mtu', str(JUMBO_MTU)),
            'Networks in tunnels. A value in ml2_conf.ini replaces this one.',
            example=True,
        ),
    ]


def _list_quotas(nodes: int) -> list[ConfigOption]:
    """List the quotas whose defaults are too small for a cluster."""
    return [
        ConfigOption(
            'quotas',
            f'quota_{name}',
            str(needed),
            f'A cluster of {nodes} nodes needs {needed}, and the default is '
            f'{DEFAULT_QUOTAS[name]} (Neutron, "Manage Networking service '
            'quotas"). Add what the project has besides. For one project, use '
            f"'openstack quota set --{name.replace('_', '-')}s {needed} "
            "PROJECT' instead.",
        )
        for name, needed in count_quotas(nodes).items()
        if needed > DEFAULT_QUOTAS[name]
    ]
