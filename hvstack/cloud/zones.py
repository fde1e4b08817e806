# SPDX-License-Identifier: Apache-2.0
"""Availability zones of Nova and Cinder."""

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud.connection import refused


def list_available(conn: Connection) -> list[str]:
    """Return the availability zones of Nova with hosts that are up.

    :param conn: connection of a project.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused('Cannot list the availability zones'):
        return sorted(
            item.name
            for item in conn.compute.availability_zones()
            if (item.state or {}).get('available')
        )


def check(conn: Connection, zone: str) -> None:
    """Check that nodes can be placed in an availability zone.

    :param conn: connection of a project.
    :param zone: name of the zone.
    :raises hvstack.errors.InputError: Nova has no such zone, or no host in
        it is up.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    names = list_available(conn)
    if zone not in names:
        raise errors.InputError(
            f"Cannot use the availability zone '{zone[:60]}': Nova has no "
            f'such zone with hosts that are up. Use one of {", ".join(names)} '
            "with --availability-zone or 'availability_zone' in hvstack.conf."
        )


def list_hosts(conn: Connection, zone: str) -> set[str]:
    """Return the hosts of the compute services in an availability zone.

    :param conn: connection of an administrator.
    :param zone: name of the zone.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused(
        'Cannot list the compute services, which needs the role of an '
        'administrator'
    ):
        return {
            service.host
            for service in conn.compute.services(binary='nova-compute')
            if service.availability_zone == zone
        }


def has_volumes(conn: Connection, zone: str) -> bool:
    """Return whether Cinder has an availability zone of this name.

    With ``[cinder] cross_az_attach = false``, Nova attaches volumes of the
    zone of the server only.

    :param conn: connection of a project.
    :param zone: name of the zone of the servers.
    :raises hvstack.errors.CloudError: Cinder refused.
    """
    if not conn.has_service('block-storage'):
        return False
    with refused('Cannot list the availability zones of Cinder'):
        content = conn.block_storage.get(
            '/os-availability-zone', raise_exc=True
        ).json()
    return any(
        item['zoneName'] == zone for item in content['availabilityZoneInfo']
    )
