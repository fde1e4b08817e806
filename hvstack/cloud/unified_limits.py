# SPDX-License-Identifier: Apache-2.0
"""Limits of Nova's resources that are in Keystone ("unified limits").

Nova takes its limits from there with ``[quota] driver =
nova.quota.UnifiedLimitsDriver``, which it recommends from 2023.2 on (Nova,
"Manage Unified Limits Quotas"). It counts Placement's resource classes then:
``class:PCPU`` apart from ``class:VCPU``. Its own API still has cores, RAM and
instances, reports 0 for what has no limit in Keystone, and ignores changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from hvstack import errors

if TYPE_CHECKING:
    from openstack.connection import Connection
    from openstack.identity.v3.limit import Limit
    from openstack.identity.v3.registered_limit import RegisteredLimit

#: Largest limit of Keystone.
MAX_LIMIT = 2**31 - 1
#: Quotas of Nova's own API by the resource in Keystone, as
#: ``nova/limit/placement.py`` has them.
_COUNTED = {
    'servers': 'instances',
    'class:VCPU': 'cores',
    'class:MEMORY_MB': 'ram',
}
#: The other ones that a cluster needs (``nova/limit/local.py``).
_LOCAL = {
    'server_key_pairs': 'key_pairs',
    'server_groups': 'server_groups',
    'server_group_members': 'server_group_members',
}
#: Placement's API with the use of a project.
_USAGES = '1.9'


@dataclass(frozen=True)
class UnifiedLimit:
    """Limit of a resource for a project.

    :param service: ID of Nova in Keystone.
    :param region: ID of the region; empty if the limit holds in all.
    :param value: largest amount; negative for no limit.
    :param used: amount that is used.
    :param own: ID of the project's own limit; empty for the default of all
        projects.
    """

    service: str
    region: str
    value: int
    used: int = 0
    own: str = ''

    def format_command(self, resource: str, project: str, value: int) -> str:
        """Return the command that sets this limit of a project.

        :param resource: name of the resource, such as ``class:PCPU``.
        :param project: ID of the project.
        :param value: new limit.
        """
        if self.own:
            return f'openstack limit set --resource-limit {value} {self.own}'
        region = f' --region {self.region}' if self.region else ''
        return (
            f'openstack limit create --project {project} --service '
            f'{self.service}{region} --resource-limit {value} {resource}'
        )


def read(
    conn: 'Connection', quotas: Mapping[str, tuple[int, int]]
) -> dict[str, UnifiedLimit] | None:
    """Return the limits of a project in Keystone by resource.

    What has no limit there is missing.

    :param conn: connection of the project.
    :param quotas: limits and used amounts that Nova's own API reports.
    :returns: None if Nova has its limits elsewhere.
    :raises hvstack.errors.CloudError: Keystone failed.
    """
    limits = _read_limits(conn)
    if not limits or any(
        quotas[name][0]
        != (limits[resource].value if resource in limits else 0)
        for resource, name in _COUNTED.items()
        if name in quotas
    ):
        return None
    used = {
        resource: quotas[name][1]
        for resource, name in (_COUNTED | _LOCAL).items()
        if name in quotas
    }
    used |= {
        f'class:{name}': amount for name, amount in _read_usages(conn).items()
    }
    return {
        resource: replace(limit, used=used.get(resource, 0))
        for resource, limit in limits.items()
    }


def name_needs(
    needed: Mapping[str, int], classes: Mapping[str, int]
) -> dict[str, int]:
    """Return needed amounts by the resource in Keystone.

    :param needed: amounts by the quotas of Nova's own API.
    :param classes: amounts of Placement's resource classes.
    """
    names = {'servers': 'instances', **_LOCAL}
    return {
        resource: needed[name]
        for resource, name in names.items()
        if name in needed
    } | {f'class:{name}': amount for name, amount in classes.items()}


def _read_limits(conn: 'Connection') -> dict[str, UnifiedLimit]:
    """Return the limits of Nova in Keystone, without what is used."""
    # Plans need the quotas alone, and no openstacksdk.
    from hvstack.cloud import connection

    region = conn.config.get_region_name()
    services = {
        service.get('id')
        for service in connection.access(conn).service_catalog.catalog
        if service.get('type') == 'compute'
        and any(
            not region or endpoint.get('region_id') == region
            for endpoint in service.get('endpoints', ())
        )
    }

    def is_ours(limit: 'Limit | RegisteredLimit') -> bool:
        return limit.service_id in services and (
            not region or limit.region_id in (None, region)
        )

    identity = connection.get_identity(conn)
    try:
        with connection.refused('Cannot read the limits in Keystone'):
            registered = [*filter(is_ours, identity.registered_limits())]
            own = [*filter(is_ours, identity.limits())] if registered else []
    except errors.CloudError as exc:
        # A cloud can have another policy, or no such API.
        if connection.get_status(exc) in (
            HTTPStatus.FORBIDDEN,
            HTTPStatus.NOT_FOUND,
        ):
            return {}
        raise
    limits = {
        limit.resource_name: UnifiedLimit(
            limit.service_id, limit.region_id or '', limit.default_limit
        )
        for limit in registered
    }
    return limits | {
        limit.resource_name: UnifiedLimit(
            limit.service_id,
            limit.region_id or '',
            limit.resource_limit,
            own=limit.id,
        )
        for limit in own
        if limit.project_id == conn.current_project_id
    }


def _read_usages(conn: 'Connection') -> dict[str, int]:
    """Return the used amounts of a project by Placement's resource class.

    :returns: empty if its user may not read this.
    """
    from hvstack.cloud.connection import refused

    with refused('Cannot read the used amounts in Placement'):
        answer = conn.placement.get(
            '/usages',
            params={'project_id': conn.current_project_id},
            microversion=_USAGES,
        )
    usages: dict[str, int] = answer.json()['usages'] if answer.ok else {}
    return usages
