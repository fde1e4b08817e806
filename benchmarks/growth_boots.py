# SPDX-License-Identifier: Apache-2.0
"""Plain boots of growth.py: the servers of a stack without Heat."""

import base64
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from growth_results import (
    CONTROLLERS,
    WORKERS_PER_HOST,
    Size,
    compute_timeout,
    estimate_boots,
)

from hvstack import errors, processutils
from hvstack.lab import settings

NAME = 'hv-growth'
#: Requests to Nova and Neutron at the same time.
THREADS = 8
#: User data of a server, about as large as that of the stack.
USER_DATA = base64.b64encode(b'#' * 16384).decode()
#: Seconds between two lists of servers, and these seconds for each server: the
#: time of a list grows with their number, and takes CPU time from the boots.
#: The seconds are at most 1 % of those of the boots.
LIST_INTERVAL, LIST_SECONDS_PER_SERVER = 3.0, 0.03


@dataclass
class Cloud:
    """What all stages use.

    :param conn: connection of the lab's administrator.
    :param image: ID of an image without content.
    :param network: ID of the network of the servers.
    :param flavors: flavors by role.
    """

    conn: Any
    image: str
    network: str
    flavors: Mapping[str, Any]


def boot(cloud: Cloud, size: Size) -> None:
    """Boot the servers of a stack without Heat, and wait for them."""
    conn = cloud.conn
    group = conn.compute.create_server_group(
        name=NAME,
        policy='anti-affinity',
        rules={'max_server_per_host': WORKERS_PER_HOST},
    )
    apart = conn.compute.create_server_group(name=NAME, policy='anti-affinity')

    def create(index: int) -> None:
        role = 'controller' if index < CONTROLLERS else 'worker'
        port = conn.network.create_port(name=NAME, network_id=cloud.network)
        conn.compute.create_server(
            name=f'{NAME}-{role}-{index}',
            image_id=cloud.image,
            flavor_id=cloud.flavors[role].id,
            key_name=NAME,
            user_data=USER_DATA,
            networks=[{'port': port.id}],
            scheduler_hints={
                'group': apart.id if role == 'controller' else group.id
            },
        )

    # As in the stack, the controllers need two slots of a host.
    for index in range(CONTROLLERS):
        create(index)
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(create, range(CONTROLLERS, size.servers)))

    statuses: list[str] = []

    def is_settled() -> bool:
        statuses[:] = [
            server.status for server in conn.compute.servers(name=NAME)
        ]
        # An error that is raised here would count as "not yet".
        return 'ERROR' in statuses or statuses.count('ACTIVE') == size.servers

    processutils.wait_for(
        is_settled,
        f'{size.servers} servers',
        timeout=compute_timeout(size),
        interval=max(LIST_INTERVAL, LIST_SECONDS_PER_SERVER * size.servers),
    )
    if 'ERROR' in statuses:
        raise errors.CloudError(
            f'Cannot boot {size.servers} servers: {statuses.count("ERROR")} '
            'have the status ERROR. Read the log of nova-conductor in '
            f'{settings.LAB / "log"}.'
        )


def remove_servers(conn: Any) -> None:
    """Delete the servers of :func:`boot`, their ports and their groups."""
    servers = list(conn.compute.servers(name=NAME))
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(conn.compute.delete_server, servers))
    processutils.wait_for(
        lambda: not list(conn.compute.servers(name=NAME)),
        'the servers to be deleted',
        timeout=900 + estimate_boots(len(servers)),
        interval=LIST_INTERVAL,
    )
    with ThreadPoolExecutor(THREADS) as pool:
        ports = list(conn.network.ports(name=NAME))
        list(pool.map(conn.network.delete_port, ports))
    for group in conn.compute.server_groups():
        if group.name == NAME:
            conn.compute.delete_server_group(group)
