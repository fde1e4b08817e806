# SPDX-License-Identifier: Apache-2.0
"""Cinder's volume types, and what they say of the storage behind them.

Cinder knows neither how many copies Ceph keeps nor how its disks are laid
out. Who makes a volume type says so in its properties, which Cinder's
scheduler passes over because of their scope.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud.connection import refused

#: Properties of a volume type: copies that Ceph keeps, and the OSD groups of
#: each of its hosts (vsan, Table 7: a cache device and its disks).
COPIES = 'hvstack:copies'
OSD_GROUPS = 'hvstack:osd_groups'


@dataclass(frozen=True)
class Volumes:
    """A worker's data volumes on Ceph, where they are not disk by disk.

    :param type: volume type.
    :param count: of a worker; None for as many as its host profile says.
    :param copies: that the type must say Ceph keeps; None takes any.
    :param osd_groups: that it must say a host has; None takes any.
    """

    type: str = 'ceph'
    count: int | None = None
    copies: int | None = None
    osd_groups: int | None = None


def check(conn: Connection, wanted: Volumes) -> dict[str, Any]:
    """Hold a volume type against what is wanted of it.

    :returns: what it says of itself: ``type``, ``description``,
        ``properties``.
    :raises hvstack.errors.InputError: there is none, or it says otherwise.
    """
    found = _types(conn, [wanted.type])[wanted.type]
    properties: Mapping[str, str] = found.extra_specs or {}
    for key, value in (
        (COPIES, wanted.copies),
        (OSD_GROUPS, wanted.osd_groups),
    ):
        if value is not None and properties.get(key) != str(value):
            raise errors.InputError(
                f"volume type '{wanted.type}': its property {key} is "
                f'{properties.get(key, "not set")}, not {value}: lay Ceph out '
                "so (operator guide, 'Ceph'), then openstack volume type set "
                f'--property {key}={value} {wanted.type}'
            )
    return {
        'type': wanted.type,
        'description': found.description or '',
        'properties': dict(properties),
    }


def refuse_unknown(conn: Connection, names: Iterable[str]) -> None:
    """Refuse volume types that a project has not.

    :param conn: of the project. Without Cinder nothing is refused here.
    :raises hvstack.errors.InputError: some are not there.
    """
    wanted = list(dict.fromkeys(names))
    if wanted and conn.has_service('block-storage'):
        _types(conn, wanted)


def _types(conn: Connection, wanted: Sequence[str]) -> dict[str, Any]:
    """Return Cinder's volume types by name, these among them."""
    try:
        with refused("Cinder's volume types cannot be listed"):
            known = {one.name: one for one in conn.block_storage.types()}
    except errors.CloudError as exc:
        raise errors.InputError(
            f'{exc}: a cloud without Cinder has no storage ceph'
        ) from exc
    missing = [name for name in wanted if name not in known]
    if missing:
        raise errors.InputError(
            f"there is no volume type '{', '.join(missing)}', only "
            f'{", ".join(sorted(known)) or "none"}: make it '
            "(operator guide, 'Ceph'), or name another one"
        )
    return known


def pools(seen: Mapping[str, Any]) -> dict[str, int]:
    """Return the copies of a type that :func:`check` has seen, if it says."""
    copies = seen['properties'].get(COPIES, '')
    return {seen['type']: int(copies)} if copies.isdigit() else {}


def backends(
    conn: Connection, server_ids: Collection[str]
) -> list[dict[str, Any]]:
    """Return what the volumes of servers are of, and how they are reached.

    Cinder's scheduler knows each backend's protocol, such as ``ceph`` (RBD),
    ``iSCSI`` or ``NVMe-oF``.

    :param conn: an administrator's.
    :returns: ``type``, ``backend``, ``protocol`` and number of ``volumes`` of
        each kind; a protocol that Cinder does not tell is ``unknown``.
    :raises hvstack.errors.CloudError: Cinder refused.
    """
    with refused("Cinder's volumes and backends cannot be listed"):
        protocols = {
            pool.name: (pool.capabilities or {}).get('storage_protocol')
            for pool in conn.block_storage.backend_pools()
        }
        kinds = Counter(
            (one.volume_type or '', one.host or '')
            for one in conn.block_storage.volumes(all_projects=True)
            if {each['server_id'] for each in one.attachments or ()}
            & set(server_ids)
        )
    found = Counter[tuple[str, str, str]]()
    for (kind, host), count in kinds.items():
        protocol = protocols.get(host) or 'unknown'
        if isinstance(protocol, list):
            # A driver may name it in several ways, the usual one first.
            protocol = protocol[0]
        # HOST@BACKEND#POOL: a backend is the same on all hosts.
        backend = host.partition('@')[2].partition('#')[0]
        found[kind, backend, str(protocol)] += count
    return [
        {
            'type': kind,
            'backend': backend,
            'protocol': protocol,
            'volumes': count,
        }
        for (kind, backend, protocol), count in sorted(found.items())
    ]
