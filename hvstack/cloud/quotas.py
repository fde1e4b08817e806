# SPDX-License-Identifier: Apache-2.0
"""What a project may still have, asked with its own rights."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hvstack import errors
from hvstack.nouns import format_noun

if TYPE_CHECKING:
    from openstack.connection import Connection
    from openstack.proxy import Proxy


@dataclass(frozen=True)
class Need:
    """What something takes, by the names of ``openstack quota set``.

    :param ram: MiB.
    :param server_group_members: of the fullest server group.
    """

    instances: int = 0
    cores: int = 0
    ram: int = 0
    server_groups: int = 0
    server_group_members: int = 0
    volumes: int = 0
    gigabytes: int = 0


#: Limit and use as Nova and Cinder call them ("Limits" of their APIs).
_NOVA = {
    'instances': ('maxTotalInstances', 'totalInstancesUsed'),
    'cores': ('maxTotalCores', 'totalCoresUsed'),
    'ram': ('maxTotalRAMSize', 'totalRAMUsed'),
    'server_groups': ('maxServerGroups', 'totalServerGroupsUsed'),
    'server_group_members': ('maxServerGroupMembers', ''),
}
_CINDER = {
    'volumes': ('maxTotalVolumes', 'totalVolumesUsed'),
    'gigabytes': ('maxTotalVolumeGigabytes', 'totalGigabytesUsed'),
}


def check(conn: 'Connection', need: Need) -> None:
    """Refuse what a project's quotas have no room for.

    :param conn: of the project; no other rights are needed.
    :raises hvstack.errors.InputError: one line with all that is short.
    :raises hvstack.errors.MissingPrerequisiteError: volumes without Cinder.
    :raises hvstack.errors.CloudError: the cloud refused to say.
    """
    needed = asdict(need)
    limits = _read_limits(conn.compute, 'Nova', _NOVA)
    if need.volumes:
        if not conn.has_service('block-storage'):
            raise errors.MissingPrerequisiteError(
                f'Cannot create {format_noun(need.volumes, "volume")}: the '
                'cloud has no block storage. Use storage local, or have '
                "Cinder installed (in the lab, 'hvstack lab up --with ceph')."
            )
        limits |= _read_limits(conn.block_storage, 'Cinder', _CINDER)
    shortages = find_shortages(needed, limits)
    if not shortages:
        return
    text = ', '.join(
        f'{shortage.name.replace("_", " ")} {shortage.needed} needed, '
        f'{shortage.limit - shortage.used} left of {shortage.limit}'
        for shortage in shortages
    )
    raise errors.InputError(
        f'Cannot create the cluster, because the quota is too small: {text}. '
        "Have an administrator run 'openstack quota set "
        f"{format_options(shortages)} {conn.current_project_id}', or use a "
        'smaller cluster.'
    )


@dataclass(frozen=True)
class Shortage:
    """Quota that is too small.

    :param name: name of the quota.
    :param needed: amount that is needed.
    :param limit: limit of the project.
    :param used: amount that is used.
    """

    name: str
    needed: int
    limit: int
    used: int


def find_shortages(
    needed: Mapping[str, int], limits: Mapping[str, tuple[int, int]]
) -> list[Shortage]:
    """Return the quotas that are too small.

    :param needed: needed amounts by name of the quota.
    :param limits: limits, -1 for none, and used amounts by name.
    """
    return [
        Shortage(name, needed[name], limit, used)
        for name, (limit, used) in limits.items()
        if limit >= 0 and needed[name] > limit - used
    ]


def format_options(shortages: Iterable[Shortage]) -> str:
    """Return options of ``openstack quota set`` that are large enough."""
    return ' '.join(
        f'--{shortage.name.replace("_", "-")} '
        f'{shortage.used + shortage.needed}'
        for shortage in shortages
    )


def _read_limits(
    service: 'Proxy', name: str, keys: Mapping[str, tuple[str, str]]
) -> dict[str, tuple[int, int]]:
    # Plans need the classes of this module, and no openstacksdk.
    from hvstack.cloud.connection import refused

    with refused(f'Cannot read the limits of {name}'):
        answer = service.get('/limits', raise_exc=True).json()
    limits: dict[str, int] = answer['limits']['absolute']
    return {
        resource: (limits.get(limit, -1), limits.get(used, 0))
        for resource, (limit, used) in keys.items()
    }
