#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a stack of 30 workers and 2 controllers takes, beside plain boots.

Both on fake hosts, so that scheduling and Heat are measured and no guest:
hvstack lab up --fake-hosts 8 --fake-profile vsphere6. Run it with the Python
of the virtual environment: .venv/bin/python benchmarks/clusters.py
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hvstack import host_profiles, processutils, share
from hvstack.cloud import cluster_flavors, connection, keypairs, stacks, undo
from hvstack.cluster import heat_environment
from hvstack.lab import clouds_yaml
from hvstack.model.configuration import parse
from hvstack.model.flavor import derive_flavor

NAME = 'hv-benchmark'
HOSTS, WORKERS, CONTROLLERS = 8, 30, 2
LABEL = 'i4-dedicated'
#: Maximum time of a stack, as a multiple of the time of its servers alone.
GOAL = 4.0
#: Seconds after which the stack has failed.
STACK_SECONDS = 900.0


def seconds(action: Callable[[], object]) -> float:
    """Return how long something takes."""
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


def write(path: Path, names: dict[str, str]) -> None:
    """Write the cluster's environment."""
    processutils.run(
        [
            *(Path(sys.executable).with_name('hvstack'), 'cluster'),
            *('environment', path, '--os-cloud', clouds_yaml.ADMIN_CLOUD),
            *('--configuration', LABEL, '--key-name', NAME, '--image', NAME),
            *('--worker-flavor', names['worker']),
            *('--controller-flavor', names['controller']),
            *('--hosts', str(HOSTS), '--workers', str(WORKERS)),
            *('--controllers', 'separate'),
            *('--controller-slots', str(CONTROLLERS)),
        ]
    )


def create(conn: Any, path: Path) -> None:
    """Create the stack and wait for it."""
    template = share.HEAT_TEMPLATES / heat_environment.TEMPLATE
    stack_id = stacks.create(
        conn, NAME, template, {}, [path], timeout=STACK_SECONDS
    )
    stacks.wait(conn, stack_id, timeout=STACK_SECONDS)


def boot(conn: Any, image: str, flavor: str) -> list[Any]:
    """Boot as many servers with a port each, and wait for them."""
    network = conn.network.find_network('provider')
    group = conn.compute.create_server_group(
        name=NAME, policy='anti-affinity', rules={'max_server_per_host': 4}
    )
    servers = [
        conn.compute.create_server(
            name=f'{NAME}-{index}',
            image_id=image,
            flavor_id=flavor,
            networks=[{'uuid': network.id}],
            scheduler_hints={'group': group.id},
        )
        for index in range(WORKERS + CONTROLLERS)
    ]
    for server in servers:
        conn.compute.wait_for_server(server, wait=600)
    return servers


def remove(conn: Any) -> None:
    """Delete the servers of :func:`boot` and their group."""
    servers = list(conn.compute.servers(name=NAME))
    for server in servers:
        conn.compute.delete_server(server, ignore_missing=True)
    for server in servers:
        conn.compute.wait_for_delete(server, wait=300)
    for group in conn.compute.server_groups():
        if group.name == NAME:
            conn.compute.delete_server_group(group)


def main() -> int:
    """Measure and print; status 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    conn = connection.connect(clouds_yaml.ADMIN_CLOUD)
    image = conn.image.create_image(
        name=NAME,
        disk_format='raw',
        container_format='bare',
        data=b'no system',
        wait=True,
    )
    try:
        flavors_by_role = {
            role: cluster_flavors.publish(
                conn,
                derive_flavor(
                    host_profiles.load('vsphere6'), parse(LABEL), role
                ),
                [str(conn.current_project_id)],
            )
            for role in ('worker', 'controller')
        }
        keypairs.create(conn, NAME)
        plain = seconds(
            lambda: boot(conn, image.id, flavors_by_role['worker'].id)
        )
        remove(conn)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / 'cluster.yaml'
            write(
                path,
                {
                    role: flavor.name
                    for role, flavor in flavors_by_role.items()
                },
            )
            stack = seconds(lambda: create(conn, path))
        delete_seconds = seconds(
            lambda: stacks.delete(conn, NAME, timeout=600)
        )
    finally:
        remove(conn)
        undo.undo_own([conn])
        conn.image.delete_image(image.id)
    print(f'{WORKERS + CONTROLLERS} plain boots   {plain:7.1f} s')
    print(f'stack create     {stack:7.1f} s')
    print(f'stack delete     {delete_seconds:7.1f} s')
    print(f'create / boots   {stack / plain:7.2f}, goal {GOAL}')
    return int(stack / plain > GOAL)


if __name__ == '__main__':
    sys.exit(main())
