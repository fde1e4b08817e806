# SPDX-License-Identifier: Apache-2.0
"""What Nova has of servers."""

from typing import Any

from openstack.connection import Connection

from hvstack.cloud.connection import refused


def flavor(conn: Connection, server: str) -> dict[str, Any]:
    """Return the flavor that a server was started with.

    Nova keeps it with the server (compute API 2.47), so that a later change
    of the flavor's extra specs does not show here.

    :param conn: an administrator's; others may not see extra specs.
    :param server: its id.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused(f'server {server} cannot be looked at'):
        found = conn.compute.get_server(server).flavor
    return {
        'name': found.name,
        'vcpus': found.vcpus,
        'ram': found.ram,
        'disk': found.disk,
        'ephemeral': found.ephemeral or 0,
        'extra_specs': dict(found.extra_specs or {}),
    }


def place(conn: Connection, server: str) -> tuple[str, str, bool]:
    """Return where a server is, as its own project may see it.

    :param server: its id.
    :returns: ``hostId``, the same for all of a project's servers on one host
        and empty for one that is on none; its availability zone; whether it
        has volumes.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused(f'server {server} cannot be looked at'):
        found = conn.compute.get_server(server)
    return (
        str(found.host_id or ''),
        str(found.availability_zone or ''),
        bool(found.attached_volumes),
    )
