# SPDX-License-Identifier: Apache-2.0
"""Check the local volumes of lab hosts in an emulated machine.

``python -m tests.machines.volumes CHECK`` as root in a machine that the tests
built, whose lab has two hosts with the compute backend kvm, and which had
``hvstack lab up --with lvm``. The checks are in their order:

``host-off``
    A volume is exported again after its host was off.
``elsewhere``
    Without InstanceLocalityFilter, Cinder creates a volume on another host
    than that of its server: hvstack refuses the cluster.
``in-use``
    ``hvstack lab up --without lvm`` is refused while a volume exists.
``removed``
    After ``hvstack lab up --without lvm`` the kernel has nothing of them.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from openstack.block_storage.v3.volume import Volume
from openstack.connection import Connection

from hvstack import processutils
from hvstack.lab import constants, identity, lifecycle
from hvstack.lab.hosts import host, nvmet, sizes, volume_groups
from hvstack.model import pinned_disks
from hvstack.progress import Progress
from tests.after.test_nothing_left import list_volume_traces
from tests.machines import disk, first_run

CONFIGURATION = 'i2-dedicated-pinned'
NAME = 'volumes'
SLOT = constants.LOCAL_SLOTS[0]
GIB = pinned_disks.compute_volume_gib(sizes.LOCAL_DISKS.size_gb)
#: Seconds on an ordinary server, for one volume.
_SECONDS = 120


def create(conn: Connection) -> Volume:
    """Create a volume that fills the first disk of any host."""
    volume = conn.block_storage.create_volume(
        name=NAME, size=GIB, volume_type=SLOT
    )

    def is_done() -> bool:
        state = conn.block_storage.get_volume(volume.id).status
        if state == 'error':
            raise SystemExit(f'FAIL volume {volume.id} has the status error')
        return bool(state == 'available')

    processutils.wait_for(is_done, 'a volume', timeout=_SECONDS, interval=1)
    created = conn.block_storage.get_volume(volume.id)
    assert isinstance(created, Volume)
    return created


def delete(conn: Connection, *volumes: Volume) -> None:
    """Delete volumes, and wait until they are gone."""
    for volume in volumes:
        conn.block_storage.delete_volume(volume.id)
    ids = {volume.id for volume in volumes}
    processutils.wait_for(
        lambda: (
            not ids & {volume.id for volume in conn.block_storage.volumes()}
        ),
        'volumes to be deleted',
        timeout=_SECONDS * len(volumes),
        interval=1,
    )


def host_of(volume: Volume) -> str:
    """Return the name of a volume's host."""
    return str(volume.host).partition('@')[0]


@contextmanager
def full_disk(conn: Connection) -> Iterator[Volume]:
    """Fill the first disk of the workers' host while the block is executed.

    Each disk has space for one such volume, so that two volumes are on both
    hosts.
    """
    volumes = [create(conn), create(conn)]
    for volume in volumes:
        print(f'volume {volume.id} is on {volume.host}', flush=True)
    [chosen] = [v for v in volumes if host_of(v) == first_run.WORKERS_HOST]
    [other] = [v for v in volumes if v is not chosen]
    delete(conn, other)
    try:
        yield chosen
    finally:
        delete(conn, chosen)


def set_locality(enabled: bool) -> None:
    """Turn InstanceLocalityFilter on or off."""
    lifecycle.up(
        lambda before: before.change(
            options={**before.options, 'locality': enabled}
        ),
        Progress(),
    )


def run_refused(*args: str) -> str:
    """Run a command of hvstack that must fail; return its messages."""
    done = subprocess.run(
        [first_run.HVSTACK, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )
    print(done.stdout, flush=True)
    if done.returncode == 0:
        raise SystemExit(f"FAIL 'hvstack {' '.join(args)}' succeeded")
    return done.stdout


def require(condition: bool, text: str) -> None:
    """Print a result, and end the program if it is wrong."""
    print(f'{"ok  " if condition else "FAIL"} {text}', flush=True)
    if not condition:
        raise SystemExit(1)


def check_host_off() -> None:
    """Turn the workers' host off and on while it has a volume."""
    conn = identity.connect()
    name = first_run.WORKERS_HOST
    prefix = volume_groups.describe(name).prefix
    with full_disk(conn) as volume:
        for action in ('off', 'on'):
            subprocess.run(
                [first_run.HVSTACK, 'lab', 'host', action, name], check=True
            )
            exports = nvmet.list_exports(prefix)
            expected = [f'nqn.{prefix}-{volume.id}'] * (action == 'on')
            require(exports == expected, f'exports of {name}: {exports}')
            attached = volume_groups.list_attached(host.directory(name))
            require(
                bool(attached) == (action == 'on'),
                f'disks of {name}: {attached}',
            )


def check_elsewhere() -> None:
    """Create a cluster one of whose volumes has no space on its host."""
    conn = identity.connect()
    set_locality(False)
    try:
        with full_disk(conn):
            message = run_refused(
                *('cluster', 'create', NAME, '--os-cloud', 'hvstack-lab'),
                *('--configuration', CONFIGURATION),
            )
    finally:
        set_locality(True)
    require(
        'so the disk is not local' in message,
        'the cluster with a volume on another host was refused',
    )
    volumes = list(conn.block_storage.volumes(all_projects=True))
    require(not volumes, f'volumes of the refused cluster: {volumes}')


def check_in_use() -> None:
    """Remove LVM from the lab while Cinder has a volume."""
    conn = identity.connect()
    with full_disk(conn) as volume:
        message = run_refused('lab', 'up', '--without', 'lvm')
        require(volume.id in message, 'the message names the volume')
        state = conn.block_storage.get_volume(volume.id).status
        require(state == 'available', f'Cinder answers: {state}')


def check_removed() -> None:
    """List what the kernel has of local volumes."""
    traces = list_volume_traces()
    require(not traces, f'traces of local volumes: {traces}')
    for name in host.list_names():
        attached = volume_groups.list_attached(host.directory(name))
        require(not attached, f'disks of {name}: {attached}')


CHECKS: dict[str, Callable[[], None]] = {
    'host-off': check_host_off,
    'elsewhere': check_elsewhere,
    'in-use': check_in_use,
    'removed': check_removed,
}


def main() -> int:
    """Make one of the checks."""
    parser = argparse.ArgumentParser()
    parser.add_argument('check', choices=CHECKS)
    check = CHECKS[parser.parse_args().check]
    disk.require_test_machine('change the volumes of a lab')
    check()
    return 0


if __name__ == '__main__':
    sys.exit(main())
