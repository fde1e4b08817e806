# SPDX-License-Identifier: Apache-2.0
"""Allocation ratios that a user changes by hand."""

from openstack.connection import Connection


def set_cpu_ratio(cloud: Connection, provider: str, ratio: float) -> None:
    """Set the ratio of VCPU of a host, as another program would do it.

    :param provider: UUID of the resource provider.
    """
    path = f'/resource_providers/{provider}/inventories'
    content = cloud.placement.get(path).json()
    cloud.placement.put(
        f'{path}/VCPU',
        json={
            **content['inventories']['VCPU'],
            'allocation_ratio': ratio,
            'resource_provider_generation': content[
                'resource_provider_generation'
            ],
        },
    ).raise_for_status()
