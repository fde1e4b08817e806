# SPDX-License-Identifier: Apache-2.0
"""What a project may still have, asked with its own rights."""

from dataclasses import dataclass, fields
from typing import Any

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud.connection import refused


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


def check(conn: Connection, need: Need) -> None:
    """Refuse what a project's quotas have no room for.

    :param conn: of the project; no other rights are needed.
    :raises hvstack.errors.InputError: one line with all that is short.
    :raises hvstack.errors.MissingPrerequisite: volumes without Cinder.
    :raises hvstack.errors.CloudError: the cloud refused to say.
    """
    short = _short(_limits(conn.compute, 'Nova'), _NOVA, need)
    if need.volumes:
        if not conn.has_service('block-storage'):
            raise errors.MissingPrerequisite(
                f'the cloud has no block storage for {need.volumes} volumes: '
                "take storage local, or have Cinder set up (the lab: 'hvstack "
                "lab up --with ceph')"
            )
        short |= _short(_limits(conn.block_storage, 'Cinder'), _CINDER, need)
    if not short:
        return
    shortages = ', '.join(
        f'{name.replace("_", " ")} {needed} needed, {free} left of {maximum}'
        for name, (needed, free, maximum) in short.items()
    )
    options = ' '.join(
        f'--{name.replace("_", "-")} {maximum - free + needed}'
        for name, (needed, free, maximum) in short.items()
    )
    raise errors.InputError(
        f'quota too small: {shortages}; have an administrator run '
        f"'openstack quota set {options} {conn.current_project_id}', or take "
        'a smaller cluster'
    )


def _limits(service: Any, name: str) -> dict[str, int]:
    with refused(f'{name} does not tell the limits'):
        answer = service.get('/limits', raise_exc=True).json()
    limits: dict[str, int] = answer['limits']['absolute']
    return limits


def _short(
    limits: dict[str, int], names: dict[str, tuple[str, str]], need: Need
) -> dict[str, tuple[int, int, int]]:
    """Return need, what is left, and limit, of what is short; -1 is none."""
    shortages = {}
    for resource in fields(need):
        if resource.name not in names:
            continue
        limit, used = names[resource.name]
        maximum = limits.get(limit, -1)
        free = maximum - limits.get(used, 0)
        needed = getattr(need, resource.name)
        if maximum >= 0 and needed > free:
            shortages[resource.name] = (needed, free, maximum)
    return shortages
