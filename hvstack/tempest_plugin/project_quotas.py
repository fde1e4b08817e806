# SPDX-License-Identifier: Apache-2.0
"""Quotas of the projects that Tempest creates for the tests.

They have the default quotas of the cloud, such as 10 servers and 20 vCPUs,
which a host full of workers or a cluster exceeds.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tempest import config
from tempest.lib import exceptions

from hvstack.cloud.unified_limits import MAX_LIMIT

if TYPE_CHECKING:
    from tempest.clients import Manager
    from tempest.lib.services.identity.v3 import LimitsClient

CONF = config.CONF
_UNLIMITED = -1
_COMPUTE = (
    *('instances', 'cores', 'ram', 'key_pairs'),
    *('server_groups', 'server_group_members'),
)
_NETWORK = ('port', 'security_group', 'security_group_rule')
_VOLUME = ('volumes', 'gigabytes')
#: Resources of Nova that have limits in Keystone.
_UNIFIED = ('class:', 'server')
#: Answers of a service whose quotas cannot be changed.
_REFUSALS = (exceptions.Forbidden, exceptions.NotFound, exceptions.Conflict)


def lift(admin: 'Manager', project: str) -> Iterator[Callable[[], None]]:
    """Lift the quotas of a project; yield functions that restore them.

    If a service refuses, the tests that exceed its quotas say so.

    :param admin: clients of an administrator.
    :param project: ID of the project, which Tempest created.
    """
    steps = [
        (
            list(_COMPUTE),
            admin.quotas_client.update_quota_set,
            admin.quotas_client.delete_quota_set,
        )
    ]
    if CONF.service_available.neutron:
        client = admin.network_quotas_client
        steps.append(
            (list(_NETWORK), client.update_quotas, client.reset_quotas)
        )
    if CONF.service_available.cinder:
        client = admin.volume_quotas_client_latest
        steps.append(
            (list(_VOLUME), client.update_quota_set, client.delete_quota_set)
        )
    for names, update, reset in steps:
        with contextlib.suppress(*_REFUSALS):
            update(project, **dict.fromkeys(names, _UNLIMITED))
            yield functools.partial(_reset, reset, project)
    yield from _lift_unified(admin.identity_limits_client, project)


def _lift_unified(
    client: 'LimitsClient', project: str
) -> Iterator[Callable[[], None]]:
    """Lift the limits in Keystone, where Nova may have its quotas.

    Its own API accepts changes of quotas then, and ignores them.
    """
    registered = []
    with contextlib.suppress(*_REFUSALS):
        registered = client.get_registered_limits()['registered_limits']
    for limit in registered:
        name = limit['resource_name']
        if not name.startswith(_UNIFIED):
            continue
        with contextlib.suppress(*_REFUSALS):
            created = client.create_limit(
                limit['region_id'],
                limit['service_id'],
                project,
                name,
                MAX_LIMIT,
            )['limits']
            for own in created:
                if own['resource_name'] == name:
                    yield functools.partial(_delete, client, own['id'])


def _delete(client: 'LimitsClient', limit: str) -> None:
    with contextlib.suppress(*_REFUSALS):
        client.delete(f'limits/{limit}')


def _reset(reset: Callable[[str], None], project: str) -> None:
    with contextlib.suppress(*_REFUSALS):
        reset(project)
