# SPDX-License-Identifier: Apache-2.0
"""Check of the compute services of the hosts that a cluster can use."""

import contextlib
from collections.abc import Sequence

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import placement, zones
from hvstack.cloud.diagnosis import CloudNeeds, Diagnosis, build_finding
from hvstack.cloud.hypervisors import Hypervisor, list_updates


def check(
    conn: Connection, request: CloudNeeds, all_hosts: Sequence[Hypervisor]
) -> Diagnosis:
    """Return whether the hosts are up, and since when others are down.

    Of hundreds of hosts, some are always down or disabled: those that no node
    of the cluster can be on are only counted.

    :param conn: connection of an administrator.
    :param request: the cluster.
    :param all_hosts: all hosts of the cloud.
    """
    names = _find_node_hosts(conn, request)
    zone_hosts = _find_zone_hosts(conn, request.zone)
    hosts = [
        host
        for host in all_hosts
        if (not names or host.name in names)
        and (zone_hosts is None or host.host in zone_hosts)
    ]
    others = [host for host in all_hosts if host not in hosts]
    unusable = sorted(
        (host for host in hosts if not host.up), key=lambda host: host.name
    )
    down = [host for host in unusable if host.is_enabled]
    disabled = [host.name for host in unusable if not host.is_enabled]
    parts, remedies = (
        [f'{len(hosts) - len(unusable)} of {len(hosts)} hosts up'],
        [],
    )
    if down:
        updates: dict[str, str] = {}
        # Without the times, the names are still of use.
        with contextlib.suppress(errors.CloudError):
            updates = list_updates(conn)
        down_names = (
            f'{host.name} (last update {updates[host.host]} UTC)'
            if host.host in updates
            else host.name
            for host in down
        )
        parts.append(f'down: {", ".join(down_names)}')
        remedies.append(
            'wait for the next report if nova-compute was just started, such '
            'as after bare metal (report_interval of nova.conf, 10 s by '
            'default), otherwise start it there'
        )
    if disabled:
        parts.append(f'disabled: {", ".join(disabled)}')
        remedies.append("'openstack compute service set --enable' it")
    if not all(host.up for host in others):
        count = sum(not host.up for host in others)
        parts.append(f'{count} of {len(others)} other hosts not up')
    return build_finding(
        'compute services',
        bool(hosts) and not unusable,
        '; '.join(parts),
        '; '.join(remedies) or 'start nova-compute on a host',
    )


def _find_node_hosts(conn: Connection, request: CloudNeeds) -> set[str]:
    """Return the names of the hosts that a node of a cluster can be on.

    :returns: an empty set if all hosts are such hosts, or Placement does not
        answer, which another check reports.
    """
    traits_by_node = {
        placement.join_required_traits(flavor.extra_specs)
        for flavor, _ in request.nodes
    }
    if '' in traits_by_node:
        return set()
    try:
        return {
            name
            for traits in sorted(traits_by_node)
            for name in placement.providers(conn, traits)
        }
    except errors.CloudError:
        return set()


def _find_zone_hosts(conn: Connection, zone: str) -> set[str] | None:
    """Return the hosts of the compute services in an availability zone.

    :param zone: name of the zone; empty for any.
    :returns: None if the hosts of all zones count, or Nova does not answer,
        which another check reports.
    """
    if not zone:
        return None
    try:
        return zones.list_hosts(conn, zone)
    except errors.CloudError:
        return None
