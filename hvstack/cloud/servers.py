# SPDX-License-Identifier: Apache-2.0
"""What Nova has of servers."""

from dataclasses import dataclass
from typing import Any

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud.connection import refused


def image(conn: Connection, name: str) -> Any:
    """Return the image that servers are to start from.

    :param name: or its id.
    :raises hvstack.errors.InputError: there is no such image.
    :raises hvstack.errors.CloudError: Glance does not answer.
    """
    with refused('images cannot be listed'):
        glance_image = conn.image.find_image(name, ignore_missing=True)
    if glance_image is None:
        raise errors.InputError(
            f"image '{name}' is not on the cloud: 'hvstack image upload' puts "
            "hvstack's there, or set 'image' in hvstack.conf to one of "
            "'openstack image list'"
        )
    return glance_image


def flavor(conn: Connection, server: str) -> dict[str, Any]:
    """Return the flavor that a server was started with.

    Nova keeps it with the server (compute API 2.47), so that a later change
    of the flavor's extra specs does not show here.

    :param conn: an administrator's; others may not see extra specs.
    :param server: its id.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused(f'server {server} cannot be inspected'):
        server_flavor = conn.compute.get_server(server).flavor
    return {
        'name': server_flavor.name,
        'vcpus': server_flavor.vcpus,
        'ram': server_flavor.ram,
        'disk': server_flavor.disk,
        'ephemeral': server_flavor.ephemeral or 0,
        'extra_specs': dict(server_flavor.extra_specs or {}),
    }


@dataclass(frozen=True)
class ServerLocation:
    """Where a server is, as its own project may see it.

    :param host_id: the same for all of a project's servers on one host;
        empty for one that is on none.
    :param zone: availability zone.
    :param on_volumes: whether it has volumes.
    """

    host_id: str
    zone: str
    on_volumes: bool


def locate_servers(conn: Connection) -> dict[str, ServerLocation]:
    """Return where every server of the connection's project is, by id.

    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused('servers cannot be listed'):
        return {
            server.id: ServerLocation(
                server.host_id or '',
                server.availability_zone or '',
                bool(server.attached_volumes),
            )
            for server in conn.compute.servers()
        }
