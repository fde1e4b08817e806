# SPDX-License-Identifier: Apache-2.0
"""What a project may still have, asked with its own rights."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from hvstack import errors
from hvstack.cloud import unified_limits
from hvstack.nouns import format_noun

if TYPE_CHECKING:
    from openstack.connection import Connection
    from openstack.proxy import Proxy


@dataclass(frozen=True)
class Need:
    """What something takes, by the names of ``openstack quota set``.

    :param ram: MiB.
    :param server_group_members: of the fullest server group.
    :param volume_gb: GB of a volume.
    :param volume_types: numbers of volumes by volume type.
    :param ports: ports of Neutron.
    :param classes: amounts of Placement's resource classes, which Nova counts
        if its limits are in Keystone.
    """

    instances: int = 0
    cores: int = 0
    ram: int = 0
    server_groups: int = 0
    server_group_members: int = 0
    volumes: int = 0
    gigabytes: int = 0
    volume_gb: int = 0
    volume_types: Mapping[str, int] = field(default_factory=dict)
    ports: int = 0
    security_groups: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)


#: Options of ``openstack quota set`` that have another name.
_OPTIONS = {
    'port': 'ports',
    'security_group': 'secgroups',
    'security_groups': 'secgroups',
}
#: Limit and use as Nova and Cinder call them ("Limits" of their APIs).
_NOVA = {
    'instances': ('maxTotalInstances', 'totalInstancesUsed'),
    'cores': ('maxTotalCores', 'totalCoresUsed'),
    'ram': ('maxTotalRAMSize', 'totalRAMUsed'),
    'server_groups': ('maxServerGroups', 'totalServerGroupsUsed'),
    'server_group_members': ('maxServerGroupMembers', ''),
}
#: Quotas as Neutron calls them ("Quotas details" of its API).
_NEUTRON = {'ports': 'port', 'security_groups': 'security_group'}
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
    needed = {
        name: amount
        for name, amount in asdict(need).items()
        if isinstance(amount, int)
    }
    limits = _read_limits(conn.compute, 'Nova', _NOVA)
    unified = unified_limits.read(conn, limits)
    if unified is not None:
        needed |= unified_limits.name_needs(needed, need.classes)
        limits = get_unified(unified, needed)
    if need.volumes:
        if not conn.has_service('block-storage'):
            raise errors.MissingPrerequisiteError(
                f'Cannot create {format_noun(need.volumes, "volume")}: the '
                'cloud has no block storage. Use storage local, or have '
                "Cinder installed (in the lab, 'hvstack lab up --with ceph')."
            )
        limits |= _read_limits(conn.block_storage, 'Cinder', _CINDER)
        by_type = _name_volumes(need)
        needed |= by_type
        limits |= _read_volume_types(conn, by_type)
    if need.ports:
        limits |= _read_neutron(conn)
    shortages = find_shortages(needed, limits)
    if not shortages:
        return
    text = ', '.join(
        f'{_format_name(shortage.name)} {shortage.needed} needed, '
        f'{shortage.limit - shortage.used} left of {shortage.limit}'
        for shortage in shortages
    )
    project = conn.current_project_id or 'PROJECT'
    raise errors.InputError(
        f'Cannot create the cluster, because the quota is too small: {text}. '
        'Have an administrator run '
        f'{format_commands(shortages, project, unified)}, or use a smaller '
        'cluster.'
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
        if limit >= 0 and needed[name] > max(0, limit - used)
    ]


def get_unified(
    unified: Mapping[str, unified_limits.UnifiedLimit],
    needed: Mapping[str, int],
) -> dict[str, tuple[int, int]]:
    """Return the limits in Keystone, and used amounts, of what is needed."""
    return {
        resource: (limit.value, limit.used)
        for resource, limit in unified.items()
        if resource in needed
    }


def format_commands(
    shortages: Iterable[Shortage],
    project: str,
    unified: Mapping[str, unified_limits.UnifiedLimit] | None = None,
) -> str:
    """Return the commands that make quotas large enough.

    :param project: ID of the project.
    :param unified: limits in Keystone by resource.
    """
    options: defaultdict[str, list[str]] = defaultdict(list)
    commands = []
    for shortage in shortages:
        value = shortage.used + shortage.needed
        if unified and shortage.name in unified:
            commands.append(
                unified[shortage.name].format_command(
                    shortage.name, project, value
                )
            )
        else:
            option, volume_type = _split_type(shortage.name)
            option = _OPTIONS.get(option, option).replace('_', '-')
            options[volume_type].append(f'--{option} {value}')
    for volume_type, items in options.items():
        if volume_type:
            items.insert(0, f'--volume-type {volume_type}')
        commands.append(f'openstack quota set {" ".join(items)} {project}')
    return ' and '.join(f"'{command}'" for command in commands)


def _split_type(name: str) -> tuple[str, str]:
    """Return quota and volume type; without a type, it is empty.

    :param name: such as ``volumes_ssd`` (Cinder, "Quota sets extension").
    """
    quota, mark, volume_type = name.partition('_')
    if mark and quota in _CINDER:
        return quota, volume_type
    return name, ''


def _format_name(name: str) -> str:
    """Return the name of a quota for people."""
    quota, volume_type = _split_type(name)
    if volume_type:
        return f"{quota} of type '{volume_type}'"
    return name if ':' in name else name.replace('_', ' ')


def _name_volumes(need: Need) -> dict[str, int]:
    """Return needed amounts by the other quotas of Cinder."""
    needed = {'per_volume_gigabytes': need.volume_gb}
    for name, count in need.volume_types.items():
        needed[f'volumes_{name}'] = count
        needed[f'gigabytes_{name}'] = count * need.volume_gb
    return needed


def _read_volume_types(
    conn: 'Connection', names: Iterable[str]
) -> dict[str, tuple[int, int]]:
    """Return Cinder's limits and used amounts of some quotas.

    :param names: result of :func:`_name_volumes`.
    :returns: empty if Cinder does not show them to the project.
    """
    from hvstack.cloud.connection import refused

    with refused('Cannot read the quotas of Cinder'):
        answer = conn.block_storage.get(
            f'/os-quota-sets/{conn.current_project_id}',
            params={'usage': 'True'},
        )
    quota = answer.json()['quota_set'] if answer.ok else {}
    return {
        name: (
            quota[name]['limit'],
            quota[name].get('in_use', 0) + quota[name].get('reserved', 0),
        )
        for name in names
        if name in quota
    }


def _read_neutron(conn: 'Connection') -> dict[str, tuple[int, int]]:
    """Return Neutron's limits and used amounts.

    :returns: empty if Neutron does not show them to the project.
    """
    if not conn.has_service('network'):
        return {}
    from hvstack.cloud.connection import refused

    with refused('Cannot read the quotas of Neutron'):
        answer = conn.network.get(f'/quotas/{conn.current_project_id}/details')
    quota = answer.json()['quota'] if answer.ok else {}
    return {
        name: (
            quota[key]['limit'],
            quota[key]['used'] + quota[key].get('reserved', 0),
        )
        for name, key in _NEUTRON.items()
        if key in quota
    }


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
