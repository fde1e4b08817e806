# SPDX-License-Identifier: Apache-2.0
"""Volumes on the host of their server: Cinder's hosts and Nova's hosts.

Cinder's InstanceLocalityFilter compares the host of a backend with the host
of the server (local_to_instance). Both names are visible to administrators
only.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud.connection import refused

#: Name of a protocol by the driver_volume_type of a connection.
_PROTOCOLS = {'iscsi': 'iSCSI', 'nvmeof': 'NVMe-oF', 'rbd': 'ceph'}
#: First API whose attachments have connections.
_ATTACHMENTS_API = '3.27'
_REMEDY = (
    'Enable InstanceLocalityFilter for cinder-scheduler, give it an account '
    'in [nova] of cinder.conf, and name backend hosts as Nova names its '
    "hosts ('hvstack host nova-conf --disk-pinning')"
)


def count_backends(conn: Connection) -> dict[str, int]:
    """Return the number of backends that are up, by the name of their host.

    :param conn: connection of an administrator.
    :raises hvstack.errors.CloudError: Cinder refused.
    """
    counts: dict[str, int] = defaultdict(int)
    with refused('Cannot list the services of Cinder'):
        for service in conn.block_storage.services(binary='cinder-volume'):
            # HOST@BACKEND
            host = (service.host or '').partition('@')[0]
            is_up = service.state == 'up' and service.status == 'enabled'
            counts[host] += is_up
    return dict(counts)


def explain_missing_backends(
    backend_counts: Mapping[str, int],
    compute_hosts: Iterable[str],
    disks: int,
) -> str:
    """Return which hosts lack a backend for each disk; empty if none does.

    :param backend_counts: result of :func:`count_backends`.
    :param compute_hosts: names of Nova's hosts.
    :param disks: number of data disks of a host.
    """
    missing = []
    for name in sorted(compute_hosts):
        if name not in backend_counts:
            missing.append(f'{name} has no cinder-volume')
        elif backend_counts[name] < disks:
            missing.append(
                f'{name} has {backend_counts[name]} of {disks} backends up'
            )
    if not missing:
        return ''
    names = ', '.join(sorted(backend_counts)) or 'no host'
    return f'{"; ".join(missing)} (cinder-volume runs on: {names})'


def check_backends(
    conn: Connection, compute_hosts: Iterable[str], disks: int
) -> None:
    """Reject hosts without a backend for each of their disks.

    :param conn: connection of an administrator.
    :param compute_hosts: names of Nova's hosts.
    :param disks: number of data disks of a host that workers use.
    :raises hvstack.errors.InputError: a backend is missing.
    :raises hvstack.errors.CloudError: Cinder refused.
    """
    reason = explain_missing_backends(
        count_backends(conn), compute_hosts, disks
    )
    if reason:
        raise errors.InputError(
            f'Cannot create local volumes: {reason}. Run cinder-volume with '
            'a backend for each data disk on these hosts, under the names '
            "of Nova ('hvstack host nova-conf --disk-pinning')."
        )


def check_volumes(
    conn: Connection, server_ids: Mapping[str, str], count: int
) -> bool:
    """Check that the volumes of servers are on the hosts of their servers.

    :param conn: connection of an administrator.
    :param server_ids: ID by name of each server.
    :param count: number of volumes of each server.
    :returns: whether the hosts are visible.
    :raises hvstack.errors.CloudError: a volume is on another host or does
        not exist, or a service refused.
    """
    with refused('Cannot list the hosts of volumes and servers'):
        server_hosts = {
            server.id: server.compute_host
            for server in conn.compute.servers(all_projects=True)
        }
        volume_hosts: dict[str, dict[str, str]] = defaultdict(dict)
        for volume in conn.block_storage.volumes(all_projects=True):
            for attachment in volume.attachments or ():
                volume_hosts[attachment['server_id']][volume.id] = (
                    volume.host or ''
                )
    for name, server_id in sorted(server_ids.items()):
        server_host = server_hosts.get(server_id)
        hosts = volume_hosts[server_id]
        if len(hosts) != count:
            raise errors.CloudError(
                f'Cannot use the cluster (server {name}): it has {len(hosts)} '
                f'of {count} local volumes. Delete the cluster and create it '
                'again.'
            )
        if not server_host or not all(hosts.values()):
            return False
        for volume_id, host in sorted(hosts.items()):
            volume_host = host.partition('@')[0]
            if volume_host != server_host:
                raise errors.CloudError(
                    f'Cannot use the cluster (server {name}): its volume '
                    f'{volume_id} is on host {volume_host}, but the server is '
                    f'on host {server_host}, so the disk is not local. '
                    f'{_REMEDY}.'
                )
    return True


def find_protocol(conn: Connection, server_id: str) -> str | None:
    """Return the protocol of a server's volumes; None if it is not visible.

    :param conn: connection of an administrator.
    """
    try:
        with refused('Cannot list the attachments of Cinder'):
            content: dict[str, Any] = conn.block_storage.get(
                '/attachments/detail',
                params={'all_tenants': '1', 'instance_id': server_id},
                microversion=_ATTACHMENTS_API,
                raise_exc=True,
            ).json()
    except errors.CloudError:
        return None
    protocols = {
        str(
            (attachment.get('connection_info') or {}).get(
                'driver_volume_type', ''
            )
        )
        for attachment in content.get('attachments', ())
        if attachment.get('instance') == server_id
    } - {''}
    return (
        ', '.join(
            sorted(
                _PROTOCOLS.get(protocol, protocol) for protocol in protocols
            )
        )
        or None
    )
