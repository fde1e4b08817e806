# SPDX-License-Identifier: Apache-2.0
"""Lists that an administrator sees, as a whole."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tempest.lib.common.rest_client import RestClient

from hvstack.accept.disk_checks import StoragePool
from hvstack.model.plain_data import JsonObject

if TYPE_CHECKING:
    from tempest.clients import Manager


def list_items(
    list_page: Callable[[dict[str, str]], Any], name: str
) -> list[Any]:
    """Return all items of a list of Nova or Cinder.

    Both return 1000 items at most (``[api] max_limit``,
    ``osapi_max_limit``), with a link to the next ones.

    :param list_page: function of the query of a page that returns the answer.
    :param name: name of the list in the answer.
    """
    items: list[Any] = []
    while True:
        response = list_page({'marker': items[-1]['id']} if items else {})
        items += response[name]
        if not (response[name] and response.get(f'{name}_links')):
            return items


def list_hypervisors(servers_client: RestClient) -> list[JsonObject]:
    """Return the hypervisors that Nova reports.

    :param servers_client: client of an administrator.
    """

    def list_page(query: dict[str, str]) -> JsonObject:
        path = 'os-hypervisors/detail'
        if query:
            path += f'?{urlencode(query)}'
        _, text = servers_client.get(path)
        return dict(json.loads(text))

    return list_items(list_page, 'hypervisors')


def list_up_hypervisors(
    servers_client: RestClient, zone: str | None
) -> set[str]:
    """Return the names of the hypervisors that are up.

    :param servers_client: client of an administrator.
    :param zone: availability zone of the hypervisors; None or empty for any.
    """
    hypervisors = [
        hypervisor
        for hypervisor in list_hypervisors(servers_client)
        if hypervisor['state'] == 'up'
    ]
    if zone:
        _, text = servers_client.get('os-services?binary=nova-compute')
        hosts = {
            service['host']
            for service in json.loads(text)['services']
            if service['zone'] == zone
        }
        hypervisors = [
            hypervisor
            for hypervisor in hypervisors
            if isinstance(service := hypervisor['service'], dict)
            and service['host'] in hosts
        ]
    return {str(item['hypervisor_hostname']) for item in hypervisors}


def volume_types_and_pools(
    manager: 'Manager',
) -> tuple[dict[str, dict[str, str]], list[StoragePool]]:
    """Return Cinder's extra specs by volume type, and its backends' pools.

    Block Storage API v3, "List all volume types" and "List all back-end
    storage pools".

    :param manager: clients of an administrator.
    """
    # Private types, too.
    types = manager.volume_types_client_latest.list_volume_types(
        is_public='None'
    )
    pools = manager.volume_scheduler_stats_client_latest.list_pools(
        detail=True
    )
    return (
        {
            volume_type['name']: volume_type.get('extra_specs', {})
            for volume_type in types['volume_types']
        },
        pools['pools'],
    )
