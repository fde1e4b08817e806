# SPDX-License-Identifier: Apache-2.0
"""Checks of disks and volumes.

The functions have no side effects. Their arguments are plain data, as Nova,
Cinder and libvirt return it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypedDict

from hvstack.accept.check_result import NONE, CheckResult, check_equal
from hvstack.accept.libvirt_domain import Domain
from hvstack.model.plain_data import JsonObject

#: Network and cluster file systems. Those of FUSE have a prefix.
_REMOTE_FILE_SYSTEMS = (
    'afs',
    'beegfs',
    'ceph',
    'ceph-fuse',
    'cifs',
    'gfs',
    'gfs2',
    'glusterfs',
    'gpfs',
    'juicefs',
    'lustre',
    'mfs',
    'nfs',
    'nfs4',
    'ocfs2',
    'quobyte',
    'rclone',
    's3fs',
    'smb',
    'smb2',
    'smb3',
    'smbfs',
    'sshfs',
)


class StoragePool(TypedDict):
    """Pool of a backend of Cinder.

    :param name: ``host@backend#pool``.
    :param capabilities: what the driver reports.
    """

    name: str
    capabilities: JsonObject


def check_local_disks(
    guest: Domain, kinds: Mapping[str, str]
) -> list[CheckResult]:
    """Check that the disks of a guest are on its host.

    :param guest: libvirt domain of the guest.
    :param kinds: type of the file system, or ``device``, by path.
    """
    return [
        CheckResult(
            f'{guest.name}: disks',
            'paths on file systems or devices of its host',
            ', '.join(
                f'{disk} ({kinds.get(disk, "not there")})'
                for disk in guest.disks
            )
            or NONE,
            bool(guest.disks)
            and all(
                disk in kinds
                and kinds[disk].removeprefix('fuse.')
                not in _REMOTE_FILE_SYSTEMS
                for disk in guest.disks
            ),
        )
    ]


def check_volume_backend(
    volume_type: str,
    expected: str,
    specs: Mapping[str, str],
    host: str,
    pools: Iterable[StoragePool],
) -> list[CheckResult]:
    """Check the backend of a volume.

    :param volume_type: volume type.
    :param expected: expected ``volume_backend_name``.
    :param specs: extra specs of the volume type.
    :param host: host of the volume in Cinder: ``host@backend#pool``.
    :param pools: pools of Cinder with their capabilities.
    """
    names_by_pool = {
        pool['name']: str(pool['capabilities'].get('volume_backend_name'))
        for pool in pools
    }
    backend_names = {
        names_by_pool[name] for name in _find_pools(host, names_by_pool)
    }
    return [
        check_equal(
            f'{volume_type}: its backend',
            expected,
            specs.get('volume_backend_name', NONE),
        ),
        check_equal(
            f'{volume_type}: backend of a volume',
            expected,
            ', '.join(sorted(backend_names)) or NONE,
            host,
        ),
    ]


def _find_pools(host: str, pool_names: Collection[str]) -> list[str]:
    """Return the names of the pools that a volume may be in.

    :param host: host of the volume in Cinder.
    :param pool_names: names of Cinder's pools.
    """
    if host in pool_names:
        return [host]
    # A cluster of volume services has its own name before "@".
    _, at, backend = host.partition('@')
    return [
        name for name in pool_names if at and name.partition('@')[2] == backend
    ]


def name_disks(
    hosts: Iterable[str], pools: Iterable[StoragePool]
) -> dict[str, str]:
    """Return the name of the disk of volumes, by their hosts in Cinder.

    Volumes of a cluster of volume services have several hosts on one disk,
    whose pool has the name of the cluster.

    :param hosts: hosts of volumes: ``host@backend#pool``.
    :param pools: pools of Cinder.
    """
    pool_names = [pool['name'] for pool in pools]
    disks = {host: host for host in hosts}
    for host in disks:
        names = _find_pools(host, pool_names)
        # A pool that is the host of a volume is no cluster's.
        if len(names) == 1 and names[0] not in disks:
            disks[host] = names[0]
    return disks


def check_own_disks(
    disk_owners: Iterable[tuple[str, str]], owner_kind: str = 'servers'
) -> list[CheckResult]:
    """Check that no two owners have volumes on the same disk.

    :param disk_owners: disk in Cinder and owner of each volume.
    :param owner_kind: description of the owners.
    """
    owners_by_disk: dict[str, set[str]] = {}
    for disk, owner in disk_owners:
        owners_by_disk.setdefault(disk, set()).add(owner)
    return [
        CheckResult(
            f'{owner_kind} on {disk or "no known disk"}',
            '1' if disk else '0',
            ', '.join(sorted(ids)),
            bool(disk) and len(ids) == 1,
        )
        for disk, ids in sorted(owners_by_disk.items())
    ]


def check_volume_types(
    expected: Sequence[Sequence[str]],
    types_by_worker: Mapping[str, Sequence[str]],
) -> list[CheckResult]:
    """Check the types of the workers' volumes.

    :param expected: volume types of a worker for each slot of a host.
    :param types_by_worker: types of the volumes by worker.
    """
    allowed = sorted({_join_names(types) for types in expected})
    return [
        CheckResult(
            f'{name}: types of its volumes',
            ' or '.join(allowed),
            _join_names(types),
            _join_names(types) in allowed,
        )
        for name, types in sorted(types_by_worker.items())
    ]


def _join_names(names: Iterable[str]) -> str:
    return ', '.join(sorted(names)) or NONE


def check_volume_locality(
    name: str, server: str, volumes: Mapping[str, str]
) -> list[CheckResult]:
    """Check that volumes are on the host of their server.

    Cinder's InstanceLocalityFilter compares these host names.

    :param name: name of the server, as human-readable text.
    :param server: host of the server in Nova.
    :param volumes: ``host@backend#pool`` by volume ID.
    """
    return [
        check_equal(
            f'{name}: host of volume {key}', server, host.partition('@')[0]
        )
        for key, host in sorted(volumes.items())
    ]
