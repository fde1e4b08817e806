# SPDX-License-Identifier: Apache-2.0
"""Cinder's volume types, and what they say of the storage behind them.

Cinder knows neither how many copies Ceph keeps nor how its disks are laid
out. Who makes a volume type says so in its properties, which Cinder's
scheduler passes over because of their scope.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hvstack import errors
from hvstack.model.plain_data import JsonObject

if TYPE_CHECKING:
    from openstack.block_storage.v2.type import Type as TypeV2
    from openstack.block_storage.v3.type import Type as TypeV3
    from openstack.connection import Connection

#: Properties of a volume type: copies that Ceph keeps, the OSD groups of each
#: of its hosts (vsan, Table 7: a cache device and its disks), and whether each
#: host has a backend of its own whose pool has the first copy on this host
#: (vsan, 3.4).
COPIES = 'hvstack:copies'
OSD_GROUPS = 'hvstack:osd_groups'
HOST_AFFINITY = 'hvstack:host_affinity'


@dataclass(frozen=True)
class Volumes:
    """A worker's data volumes on Ceph, where they are not disk by disk.

    :param type: volume type.
    :param count: of a worker; None for as many as its host profile says.
    :param copies: that the type must say Ceph keeps; None takes any.
    :param osd_groups: that it must say a host has; None takes any.
    :param host_affinity: whether the first copy must be on the host of the
        server.
    """

    type: str = 'ceph'
    count: int | None = None
    copies: int | None = None
    osd_groups: int | None = None
    host_affinity: bool = False


@dataclass(frozen=True)
class VolumeType:
    """Volume type as Cinder describes it.

    :param type: name of the volume type.
    :param description: text for users.
    :param properties: extra specs.
    """

    type: str
    description: str
    properties: dict[str, str]

    @property
    def pools(self) -> dict[str, int]:
        """Number of copies that Ceph keeps, if the volume type says so."""
        copies = self.properties.get(COPIES, '')
        return {self.type: int(copies)} if copies.isdigit() else {}


@dataclass(frozen=True)
class VolumeBackend:
    """Volumes of servers with the same type on the same backend.

    :param type: name of the volume type.
    :param backend: name of the backend, which is the same on all hosts.
    :param protocol: protocol of the backend; ``unknown`` if Cinder does not
        report it.
    :param volumes: number of volumes.
    """

    type: str
    backend: str
    protocol: str
    volumes: int


def check(conn: 'Connection', requested: Volumes) -> VolumeType:
    """Check that a volume type has the requested properties.

    :returns: the volume type.
    :raises hvstack.errors.InputError: there is none, or it says otherwise.
    """
    volume_type = _types(conn, [requested.type])[requested.type]
    properties: Mapping[str, str] = volume_type.extra_specs or {}
    for key, value in (
        (COPIES, requested.copies),
        (OSD_GROUPS, requested.osd_groups),
        (HOST_AFFINITY, 'true' if requested.host_affinity else None),
    ):
        if value is not None and properties.get(key) != str(value):
            raise errors.InputError(
                f"Cannot use volume type '{requested.type}': its property "
                f'{key} is {properties.get(key, "not set")} instead of '
                f'{value}. Configure Ceph accordingly (operator guide, '
                "'Ceph'), then run 'openstack volume type set --property "
                f"{key}={value} {requested.type}'."
            )
    return VolumeType(
        requested.type, volume_type.description or '', dict(properties)
    )


def refuse_unknown(conn: 'Connection', names: Iterable[str]) -> None:
    """Refuse volume types that a project has not.

    :param conn: of the project. Without Cinder nothing is refused here.
    :raises hvstack.errors.InputError: some are not there.
    """
    requested_names = list(dict.fromkeys(names))
    if requested_names and conn.has_service('block-storage'):
        _types(conn, requested_names)


def list_types(conn: 'Connection') -> list[JsonObject]:
    """Return all volume types of Cinder that a user may see.

    By default, Cinder lists no private types of other projects to an
    administrator.

    :param conn: connection of an administrator; another user gets the types
        of the project, which may be without extra specs.
    :raises hvstack.errors.CloudError: Cinder refused.
    """
    from hvstack.cloud.connection import refused

    with refused('Cannot list the volume types of Cinder'):
        content = conn.block_storage.get(
            '/types', params={'is_public': 'None'}, raise_exc=True
        ).json()
    return list(content['volume_types'])


def _types(
    conn: 'Connection', names: Sequence[str]
) -> dict[str, 'TypeV2 | TypeV3']:
    """Return Cinder's volume types by name, these among them."""
    # Plans need the classes of this module, and no openstacksdk.
    from hvstack.cloud.connection import refused

    try:
        with refused('Cannot list the volume types of Cinder'):
            types_by_name = {
                volume_type.name: volume_type
                for volume_type in conn.block_storage.types()
            }
    except errors.CloudError as exc:
        raise errors.InputError(
            f'{exc} Use storage local if the cloud has no Cinder.'
        ) from exc
    missing = [name for name in names if name not in types_by_name]
    if missing:
        raise errors.InputError(
            f"Cannot find volume type '{', '.join(missing)}': Cinder has "
            f'{", ".join(sorted(types_by_name)) or "no volume type"}. Create '
            "the volume type (operator guide, 'Ceph') or choose another one."
        )
    return types_by_name


def backends(
    conn: 'Connection', server_ids: Collection[str]
) -> list[VolumeBackend]:
    """Return the types of the volumes of servers, and their protocols.

    Cinder's scheduler knows each backend's protocol, such as ``ceph`` (RBD),
    ``iSCSI`` or ``NVMe-oF``.

    :param conn: an administrator's.
    :raises hvstack.errors.CloudError: Cinder refused.
    """
    from hvstack.cloud.connection import refused

    with refused('Cannot list the volumes and backends of Cinder'):
        protocols = {
            pool.name: (pool.capabilities or {}).get('storage_protocol')
            for pool in conn.block_storage.backend_pools()
        }
        volume_counts = Counter(
            (volume.volume_type or '', volume.host or '')
            for volume in conn.block_storage.volumes(all_projects=True)
            if {each['server_id'] for each in volume.attachments or ()}
            & set(server_ids)
        )
    protocols_by_backend = {
        name.partition('@')[2]: protocol
        for name, protocol in protocols.items()
        if protocol
    }
    counts = Counter[tuple[str, str, str]]()
    for (volume_type, host), count in volume_counts.items():
        # Of a cluster of volume services, the pool has the name of the
        # cluster before "@", and the volume that of a host.
        protocol = protocols.get(host) or protocols_by_backend.get(
            host.partition('@')[2], 'unknown'
        )
        if isinstance(protocol, list):
            # A driver may name it in several ways, the usual one first.
            protocol = protocol[0]
        # HOST@BACKEND#POOL: a backend is the same on all hosts.
        backend = host.partition('@')[2].partition('#')[0]
        counts[volume_type, backend, str(protocol)] += count
    return [
        VolumeBackend(volume_type, backend, protocol, count)
        for (volume_type, backend, protocol), count in sorted(counts.items())
    ]
