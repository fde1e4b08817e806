# SPDX-License-Identifier: Apache-2.0
"""Allocation ratios in Placement: set for a sweep, and restored.

Nova leaves them alone as long as ``cpu_allocation_ratio`` and
``ram_allocation_ratio`` are unset in the compute service's ``nova.conf``;
otherwise each of its inventory updates overwrites them.
"""

import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from openstack import exceptions
from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import journal, lease, placement
from hvstack.cloud.connection import AWAY, get_status, refused, scope
from hvstack.results.typed_json import JsonObject, named

LOG = logging.getLogger(__name__)

KIND = 'ratio'

#: Nova's option behind each resource class.
OPTIONS = {
    'VCPU': 'cpu_allocation_ratio',
    'MEMORY_MB': 'ram_allocation_ratio',
}
_TRIES = 10
#: Provider, resource class and ratio that an entry of the journal has set.
_Setting = tuple[str, str, float]


@dataclass(frozen=True)
class _RatioChange:
    """Data of an entry of the journal.

    :param host: name of the host.
    :param provider: UUID of the host in Placement.
    :param resource_class: resource class of the inventory.
    :param before: ratio before the change.
    :param after: ratio after the change.
    """

    host: str
    provider: str
    resource_class: str
    before: float
    after: float = field(metadata=named('set'))


def current(
    conn: Connection, providers: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Return the ratios of VCPU and MEMORY_MB by host.

    :param providers: UUID by host name.
    """
    return {
        name: {
            resource_class: float(content[resource_class]['allocation_ratio'])
            for resource_class in OPTIONS
            if resource_class in content
        }
        for name, uuid in sorted(providers.items())
        for content in [placement.inventories(conn, uuid)['inventories']]
    }


def set_ratios(
    conn: Connection,
    providers: Mapping[str, str],
    requested: Mapping[str, float],
    *,
    shared: bool = True,
) -> dict[str, dict[str, float]]:
    """Set ratios on hosts and return those of before, by host.

    A ratio that another cluster or sweep has set to the same value gets
    another entry in the journal, so that it stays until its last user ends.

    :param providers: UUID by host name.
    :param requested: ratio by resource class.
    :param shared: guests take VCPU; hosts of those that take PCPU may have
        none, and then no ratio of it.
    :raises hvstack.errors.BusyError: another process has changed one of them
        and not yet put it back, or this process has lost its lease.
    :raises hvstack.errors.CloudError: Placement refused.
    """
    before = current(conn, providers)
    lease.check(conn)
    entries_by_setting = {
        setting: entry
        for entry in journal.entries()
        if (setting := get_setting(entry)) is not None
    }
    entries_by_target = {
        setting[:2]: entry for setting, entry in entries_by_setting.items()
    }
    for name, uuid in sorted(providers.items()):
        for resource_class, ratio in sorted(requested.items()):
            target = uuid, resource_class
            if before[name].get(resource_class) == ratio:
                equal = entries_by_setting.get((*target, ratio))
                if equal is not None:
                    journal.note(KIND, equal.data, scope(conn))
                continue
            if _spared(before[name], resource_class, shared):
                continue
            if resource_class not in before[name]:
                raise errors.CloudError(
                    f'Cannot set the ratio of {resource_class} on {name}: '
                    'Placement has no such inventory of the host. Use a host '
                    'with shared CPUs.'
                )
            if (other := entries_by_target.get(target)) is not None:
                raise _refuse(other, name, resource_class)
            journal.note(
                KIND,
                {
                    'name': f'{resource_class} {name}',
                    'host': name,
                    'provider': uuid,
                    'resource_class': resource_class,
                    'before': before[name][resource_class],
                    'set': ratio,
                },
                scope(conn),
            )
            _put(conn, uuid, name, resource_class, ratio)
    return before


def count_users() -> Counter[_Setting | None]:
    """Return the number of entries in the journal by setting.

    The journal is read once for all ratios, because those of 600 hosts have
    1200 entries.
    """
    return Counter(
        get_setting(entry) for entry in journal.entries() if entry.kind == KIND
    )


def get_setting(entry: journal.JournalEntry) -> _Setting | None:
    """Return provider, resource class and new ratio of an entry.

    :returns: None for an entry of another kind, or without valid data.
    """
    provider, resource_class, ratio = (
        entry.data.get(name) for name in ('provider', 'resource_class', 'set')
    )
    if entry.kind != KIND or not isinstance(ratio, int | float):
        return None
    return str(provider), str(resource_class), float(ratio)


def _refuse(
    other: journal.JournalEntry, name: str, resource_class: str
) -> errors.BusyError:
    """Return the error for a ratio that another process has changed."""
    subject = f'Cannot set the ratio of {resource_class} on {name}'
    if other.abandoned:
        return errors.BusyError(
            f'{subject}: process {other.pid}, which no longer runs, has '
            f"changed it already. Run 'hvstack sweep recover' with the cloud, "
            f'project and user of its entry in the journal ({other.scope}).'
        )
    return errors.BusyError(
        f'{subject}: {other.owner or f"process {other.pid}"} has changed it '
        'already. End this process first.'
    )


def is_set_needed(
    conn: Connection,
    providers: Mapping[str, str],
    requested: Mapping[str, float],
    *,
    shared: bool = True,
) -> bool:
    """Return whether :func:`set_ratios` would change a ratio or the journal.

    :param providers: UUID by host name.
    :param requested: ratio by resource class.
    :param shared: as for :func:`set_ratios`.
    """
    users = count_users()
    return any(
        (
            ratios.get(resource_class) != ratio
            or users[providers[name], resource_class, ratio]
        )
        and not _spared(ratios, resource_class, shared)
        for name, ratios in current(conn, providers).items()
        for resource_class, ratio in requested.items()
    )


def check(
    conn: Connection,
    providers: Mapping[str, str],
    requested: Mapping[str, float],
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
    current_ratios = current(conn, providers)
    for name, ratios in current_ratios.items():
        for resource_class, ratio in requested.items():
            if _spared(ratios, resource_class, shared):
                continue
            if ratios.get(resource_class) != ratio:
                raise errors.CloudError(
                    f'Cannot use host {name}: Placement has ratio '
                    f'{ratios.get(resource_class)} of {resource_class} '
                    f'instead of {ratio}, because a user changed it or '
                    'nova-compute overwrites it. In its nova.conf, unset '
                    f'{OPTIONS[resource_class]}, use '
                    f'initial_{OPTIONS[resource_class]}, and restart '
                    'nova-compute.'
                )
    return current_ratios


def _spared(
    ratios: Mapping[str, float], resource_class: str, shared: bool
) -> bool:
    return (
        not shared
        and resource_class == 'VCPU'
        and resource_class not in ratios
    )


def undo(conn: Connection, data: JsonObject) -> bool:
    """Put one ratio back, unless someone else has changed it since.

    :returns: whether the ratio is not one that someone else has set.
    """
    change = journal.read_data(_RatioChange, data)
    try:
        content = placement.inventories(conn, change.provider)['inventories']
    except errors.CloudError as exc:
        # A proxy may answer 404 for all of Placement. The list is long.
        if (
            get_status(exc) == HTTPStatus.NOT_FOUND
            and change.provider not in placement.providers(conn).values()
        ):
            return True
        raise
    now = content.get(change.resource_class, {}).get('allocation_ratio')
    if now is not None and float(now) == float(change.after):
        _put(
            conn,
            change.provider,
            change.host,
            change.resource_class,
            change.before,
        )
    elif now is not None and float(now) != float(change.before):
        LOG.warning(
            'The ratio of %s on %s stays %s: it is not the %s that hvstack '
            'set; before, it was %s.',
            change.resource_class,
            change.host,
            now,
            change.after,
            change.before,
        )
        return False
    return True


def _put(
    conn: Connection, uuid: str, name: str, resource_class: str, ratio: float
) -> None:
    path = f'/resource_providers/{uuid}/inventories'
    for attempt in range(_TRIES):
        content = placement.inventories(conn, uuid)
        inventory = content['inventories'][resource_class]
        with refused(f'Cannot set ratio {ratio} of {name} in Placement'):
            response = conn.placement.put(
                f'{path}/{resource_class}',
                json={
                    **inventory,
                    'allocation_ratio': ratio,
                    'resource_provider_generation': content[
                        'resource_provider_generation'
                    ],
                },
                raise_exc=False,
            )
            if response.status_code in AWAY:
                exceptions.raise_from_response(response)
        if response.status_code == 200:
            return
        if response.status_code != 409:
            raise errors.CloudError(
                f'Cannot set ratio {ratio} of {resource_class} on {name}: '
                f'Placement answered {response.status_code} '
                f'{response.text[:200]}. Check the Placement service.'
            )
        # The compute service was faster: read its generation, try again.
        time.sleep(0.1 * attempt)
    raise errors.CloudError(
        f'Cannot set ratio {ratio} of {resource_class} on {name} in {_TRIES} '
        'tries: another process changes its inventory in Placement. End this '
        'process.'
    )


def restore_vcpu(
    conn: Connection,
    providers: Mapping[str, str],
    ratios: Mapping[str, float],
) -> None:
    """Set the ratios of VCPU that hosts had before they had none.

    :param providers: UUID by host name.
    :param ratios: ratio by host name; other hosts keep theirs.
    :raises hvstack.errors.CloudError: Placement refused.
    """
    for name, current_ratios in current(conn, providers).items():
        ratio = ratios.get(name)
        if ratio is not None and current_ratios.get('VCPU', ratio) != ratio:
            _put(conn, providers[name], name, 'VCPU', ratio)


def merge_equal(
    by_host: dict[str, dict[str, float]],
) -> dict[str, float] | dict[str, dict[str, float]]:
    """Return ratios once if all hosts have the same ones.

    :param by_host: ratios by resource class of every host.
    """
    values = list(by_host.values())
    if all(value == values[0] for value in values):
        return dict(values[0])
    return dict(by_host)
