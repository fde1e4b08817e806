# SPDX-License-Identifier: Apache-2.0
"""Allocation ratios in Placement: set for a sweep, and put back.

Nova leaves them alone as long as ``cpu_allocation_ratio`` and
``ram_allocation_ratio`` are unset in the compute service's ``nova.conf``;
otherwise each of its inventory updates overwrites them.
"""

import time
from collections.abc import Mapping
from typing import Any

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import journal, lease, placement
from hvstack.cloud.connection import refused, scope

KIND = 'ratio'

#: Nova's option behind each resource class.
OPTIONS = {
    'VCPU': 'cpu_allocation_ratio',
    'MEMORY_MB': 'ram_allocation_ratio',
}
_TRIES = 10


def current(
    conn: Connection, providers: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Return the ratios of VCPU and MEMORY_MB by host.

    :param providers: UUID by host name.
    """
    return {
        name: {
            kind: float(content[kind]['allocation_ratio'])
            for kind in OPTIONS
            if kind in content
        }
        for name, uuid in sorted(providers.items())
        for content in [placement.inventories(conn, uuid)['inventories']]
    }


def set_ratios(
    conn: Connection,
    providers: Mapping[str, str],
    wanted: Mapping[str, float],
    *,
    shared: bool = True,
) -> dict[str, dict[str, float]]:
    """Set ratios on hosts and return those of before, by host.

    :param providers: UUID by host name.
    :param wanted: ratio by resource class.
    :param shared: guests take VCPU; hosts of those that take PCPU may have
        none, and then no ratio of it.
    :raises hvstack.errors.Busy: another process has changed one of them and
        not yet put it back, or this process has lost its lease.
    :raises hvstack.errors.CloudError: Placement refused.
    """
    before = current(conn, providers)
    lease.check(conn)
    taken = {
        (entry.data['provider'], entry.data['resource_class']): entry
        for entry in journal.entries()
        if entry.kind == KIND
    }
    for name, uuid in sorted(providers.items()):
        for kind, ratio in sorted(wanted.items()):
            if before[name].get(kind) == ratio:
                continue
            if _spared(before[name], kind, shared):
                continue
            if kind not in before[name]:
                raise errors.CloudError(
                    f'{name} has no inventory of {kind} in Placement, so no '
                    'ratio of it can be set: take a host with shared CPUs'
                )
            other = taken.get((uuid, kind))
            if other is not None:
                raise errors.Busy(
                    f'the ratio of {kind} on {name} is changed already by '
                    f'{other.owner or f"process {other.pid}"}: end that first'
                )
            journal.note(
                KIND,
                {
                    'name': f'{kind} {name}',
                    'host': name,
                    'provider': uuid,
                    'resource_class': kind,
                    'before': before[name][kind],
                    'set': ratio,
                },
                scope(conn),
            )
            _put(conn, uuid, name, kind, ratio)
    return before


def differ(
    conn: Connection,
    providers: Mapping[str, str],
    wanted: Mapping[str, float],
    *,
    shared: bool = True,
) -> bool:
    """Return whether any ratio would have to be changed.

    :param providers: UUID by host name.
    :param wanted: ratio by resource class.
    :param shared: as for :func:`set_ratios`.
    """
    return any(
        ratios.get(resource_class) != ratio
        and not _spared(ratios, resource_class, shared)
        for ratios in current(conn, providers).values()
        for resource_class, ratio in wanted.items()
    )


def check(
    conn: Connection,
    providers: Mapping[str, str],
    wanted: Mapping[str, float],
    *,
    shared: bool = True,
) -> dict[str, dict[str, float]]:
    """Check that the ratios are still as they were set.

    Starting a server makes it update its host's inventory: call this once
    the cluster's servers are there.

    :param shared: as for :func:`set_ratios`.
    :raises hvstack.errors.CloudError: one is not, by the compute service or
        by someone's hand; says what to change.
    """
    found = current(conn, providers)
    for name, ratios in found.items():
        for kind, ratio in wanted.items():
            if _spared(ratios, kind, shared):
                continue
            if ratios.get(kind) != ratio:
                raise errors.CloudError(
                    f'{name}: Placement has ratio {ratios.get(kind)} of '
                    f'{kind} instead of {ratio}: someone has set it since, or '
                    f'nova-compute overwrites it (unset {OPTIONS[kind]} in '
                    f'its nova.conf, use initial_{OPTIONS[kind]}, and restart '
                    'it)'
                )
    return found


def _spared(ratios: Mapping[str, float], kind: str, shared: bool) -> bool:
    return not shared and kind == 'VCPU' and kind not in ratios


def undo(conn: Connection, data: dict[str, Any]) -> None:
    """Put one ratio back, unless someone else has changed it since."""
    known = placement.providers(conn)
    if data['provider'] not in known.values():
        return
    content = placement.inventories(conn, data['provider'])['inventories']
    now = content.get(data['resource_class'], {}).get('allocation_ratio')
    if now is not None and float(now) == float(data['set']):
        _put(
            conn,
            data['provider'],
            data['host'],
            data['resource_class'],
            data['before'],
        )


def _put(
    conn: Connection, uuid: str, name: str, kind: str, ratio: float
) -> None:
    path = f'/resource_providers/{uuid}/inventories'
    for attempt in range(_TRIES):
        content = placement.inventories(conn, uuid)
        inventory = content['inventories'][kind]
        with refused(f'Placement did not take ratio {ratio} of {name}'):
            response = conn.placement.put(
                f'{path}/{kind}',
                json={
                    **inventory,
                    'allocation_ratio': ratio,
                    'resource_provider_generation': content[
                        'resource_provider_generation'
                    ],
                },
                raise_exc=False,
            )
        if response.status_code == 200:
            return
        if response.status_code != 409:
            raise errors.CloudError(
                f'Placement did not take ratio {ratio} of {kind} on {name}: '
                f'{response.status_code} {response.text[:200]}'
            )
        # The compute service was faster: read its generation, try again.
        time.sleep(0.1 * attempt)
    raise errors.CloudError(
        f'Placement did not take ratio {ratio} of {kind} on {name} in '
        f'{_TRIES} tries: something else keeps changing its inventory'
    )
