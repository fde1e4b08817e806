#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the time of a stack grows from 40 to 640 workers, beside plain boots.

Fake hosts of vsphere6 with 20 workers each run no guest, so that the program
measures Heat, Nova, Placement and Neutron. It changes the number of fake hosts
of a lab that is up, and restores this number at its end. Run it as root with
the Python of the virtual environment: .venv/bin/python benchmarks/growth.py

Each stage of each size is stored in a JSON file. Another invocation executes
the remaining stages; --again STAGE repeats a stage, and --dry-run prints the
plan. After Ctrl-C and SIGTERM, the program deletes what it created, and after
SIGKILL the next invocation does.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import fresh_clusters
from growth_boots import NAME, Cloud, boot, remove_servers
from growth_results import (
    CONTROLLER_SLOTS,
    SIZES,
    STACK_STAGES,
    STAGES,
    Results,
    Size,
    compute_timeout,
    format_plan,
    format_table,
    parse_sizes,
)

from hvstack import (
    conf,
    errors,
    host_profiles,
    interrupts,
    paths,
    processutils,
    share,
)
from hvstack.cloud import (
    cluster_flavors,
    connection,
    journal,
    keypairs,
    stack_lookup,
    stack_updates,
    stacks,
    undo,
)
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.cluster import heat_environment, topology_refresh
from hvstack.lab import clouds_yaml, database, lifecycle, settings
from hvstack.lab.hosts import fake
from hvstack.lab.settings import LabSettings
from hvstack.model.configuration import parse
from hvstack.model.flavor import derive_flavor
from hvstack.model.plain_data import JsonObject
from hvstack.progress import Progress

PROFILE, LABEL, CPU_POLICY = 'vsphere6', 'i20-dedicated', 'dedicated'
#: Network of the servers. The provider network of the lab has 151 addresses.
CIDR = '10.240.0.0/20'
#: Quotas of the lab end at 500 servers.
QUOTAS = ('instances', 'cores', 'ram', 'server_group_members')
#: Computes that start together: a slow machine starts no more in the time
#: that 'hvstack lab up' waits.
HOSTS_AT_ONCE = 8
#: Seconds between two samples of the memory.
SAMPLE_INTERVAL = 20.0


class MemoryWatch:
    """Thread that samples the memory (PSS) of the services of the lab."""

    def __init__(self) -> None:
        self.max_mib = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> 'MemoryWatch':
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            with contextlib.suppress(errors.HVStackError, OSError):
                self.max_mib = max(self.max_mib, lifecycle.control_pss())
            if self._stop.wait(SAMPLE_INTERVAL):
                return


def measure_databases() -> dict[str, float]:
    """Return the MiB of the files of each database of the lab.

    The files of InnoDB keep the space of rows that were deleted.
    """
    return {
        name: round(
            sum(
                file.stat().st_size
                for file in (settings.LAB / 'mysql' / name).glob('*')
            )
            / 2**20,
            1,
        )
        for schema in database.SCHEMAS.values()
        for name in schema.databases
    }


def _set_fake_hosts(
    reported: JsonObject, count: int, before: LabSettings
) -> LabSettings:
    return before.change(
        fake_hosts=count,
        options={**before.options, 'fake_profile': reported},
    )


def set_hosts(count: int, progress: Progress) -> None:
    """Change the number of fake hosts of the lab, some at a time."""
    reported = fake.from_profile(host_profiles.load(PROFILE), CPU_POLICY)
    current = settings.load() or LabSettings()
    is_same = current.options.get('fake_profile') == reported
    steps = [current.fake_hosts if is_same else 0]
    while steps[-1] != count:
        steps.append(min(count, steps[-1] + HOSTS_AT_ONCE))
    for step in steps:
        lifecycle.up(partial(_set_fake_hosts, reported, step), progress)


def prepare(conn: Any) -> Cloud:
    """Create the image, the network, the key pair and the flavors."""
    project = str(conn.current_project_id)
    conn.compute.put(
        f'/os-quota-sets/{project}',
        json={'quota_set': dict.fromkeys(QUOTAS, -1)},
        raise_exc=True,
    )
    image = conn.image.create_image(
        name=NAME,
        disk_format='raw',
        container_format='bare',
        data=b'no system',
        wait=True,
    )
    network = conn.network.create_network(name=NAME)
    conn.network.create_subnet(
        name=NAME, network_id=network.id, ip_version=4, cidr=CIDR
    )
    keypairs.create(conn, NAME)
    profile, configuration = host_profiles.load(PROFILE), parse(LABEL)
    flavors = {
        role: cluster_flavors.publish(
            conn, derive_flavor(profile, configuration, role), [project]
        )
        for role in ('worker', 'controller')
    }
    return Cloud(conn, image.id, network.id, flavors)


def clean(conn: Any) -> None:
    """Delete everything that a benchmark created, of an earlier one too."""
    # The journal's own time-out does not depend on the number of workers.
    stacks.delete(conn, NAME, timeout=compute_timeout(Size(max(SIZES))))
    undo.undo_own([conn])
    remove_servers(conn)
    for network in list(conn.network.networks(name=NAME)):
        conn.network.delete_network(network)
    for image in list(conn.image.images(name=NAME)):
        conn.image.delete_image(image)
    conn.compute.delete(
        f'/os-quota-sets/{conn.current_project_id}', raise_exc=True
    )


def write_environment(cloud: Cloud, size: Size, path: Path) -> None:
    """Write the environment of the cluster."""
    processutils.run(
        [
            *(Path(sys.executable).with_name('hvstack'), 'cluster'),
            *('environment', path, '--os-cloud', clouds_yaml.ADMIN_CLOUD),
            *('--configuration', LABEL, '--key-name', NAME, '--image', NAME),
            *('--network', NAME, '--hosts', str(size.hosts)),
            *('--workers', str(size.workers), '--controllers', 'separate'),
            *('--controller-slots', str(CONTROLLER_SLOTS)),
            *('--worker-flavor', cloud.flavors['worker'].name),
            *('--controller-flavor', cloud.flavors['controller'].name),
        ],
        # As in the heat.conf of the lab: 640 workers have 3,880 resources.
        env=conf.variables({'cloud': {'max_resources_per_stack': '-1'}}),
    )


def create_stack(cloud: Cloud, size: Size, path: Path) -> StackOutputs:
    """Create the stack, and wait for it."""
    stack_id = stacks.create(
        cloud.conn,
        NAME,
        share.HEAT_TEMPLATES / heat_environment.TEMPLATE,
        # Servers on fake hosts have no host keys. The places of 160 workers
        # are larger than the user data of a controller may be. Heat looks up
        # the name of a flavor for each worker, and the plain boots have IDs.
        {
            'host_keys': False,
            'controllers_first': True,
            'image': cloud.image,
            'network': cloud.network,
            **{
                f'{role}_flavor': flavor.id
                for role, flavor in cloud.flavors.items()
            },
        },
        [path],
        timeout=compute_timeout(size),
    )
    return stacks.wait(
        cloud.conn,
        stack_id,
        timeout=compute_timeout(size),
        progress=Progress(),
    )


def update_stack(cloud: Cloud, size: Size, workers: int) -> None:
    """Update the stack to a number of workers, and wait for it."""
    stack_updates.update(
        cloud.conn,
        stack_lookup.get(cloud.conn, NAME),
        {'worker_count': workers},
        timeout=compute_timeout(size),
        progress=Progress(),
    )


def replace_worker(cloud: Cloud, size: Size) -> None:
    """Have Heat replace a worker, as 'hvstack cluster scale' does."""
    stack = stack_lookup.get(cloud.conn, NAME)
    member = stack_updates.members(cloud.conn, stack, 'workers')[0]
    stack_updates.mark_unhealthy(cloud.conn, member, 'benchmark')
    update_stack(cloud, size, size.workers)


def read_topology(cloud: Cloud, size: Size) -> None:
    """Read where all nodes are, and build the table of the topology."""
    outputs = stacks.outputs(cloud.conn, NAME)
    nodes = topology_refresh.nodes(cloud.conn, outputs)
    topology_refresh.of_nodes(nodes).format_table(node_groups=True)
    if len(nodes) < size.servers:
        raise errors.CloudError(
            f"Cannot use stack '{NAME}': its outputs have {len(nodes)} of "
            f'{size.servers} nodes. Repeat the stage with --again create.'
        )


def measure(
    results: Results, size: Size, stage: str, action: Callable[[], object]
) -> None:
    """Execute a stage, and store its result."""
    servers = size.servers + (size.added if stage == 'delete' else 0)
    progress = Progress()
    progress.say(f'{size.workers} workers: {stage}')
    with MemoryWatch() as watch:
        started_at = time.monotonic()
        action()
        seconds = time.monotonic() - started_at
    databases = measure_databases()
    results.add(
        size,
        stage,
        {
            'seconds': round(seconds, 1),
            'servers': servers,
            'pss_mib': watch.max_mib,
            'databases_mib': databases,
        },
    )
    progress.say(f'{size.workers} workers: {stage}: {seconds:.1f} s')


def run_stack_stages(
    cloud: Cloud, results: Results, size: Size, path: Path
) -> None:
    """Execute the remaining stages of a stack.

    The stack of an interrupted invocation was deleted: its stages whose
    results are stored are executed, and not measured, if another needs them.
    """
    pending = [
        stage for stage in results.list_pending(size) if stage in STACK_STAGES
    ]
    if not pending:
        return
    workers = size.workers + size.added
    actions: dict[str, Callable[[], object]] = {
        'create': lambda: create_stack(cloud, size, path),
        'topology': lambda: read_topology(cloud, size),
        'replace': lambda: replace_worker(cloud, size),
        'scale': lambda: update_stack(cloud, size, workers),
        'delete': lambda: stacks.delete(
            cloud.conn, NAME, timeout=compute_timeout(size)
        ),
    }
    for stage in STACK_STAGES:
        if stage in pending:
            measure(results, size, stage, actions[stage])
        elif stage in ('create', 'delete') or (
            stage == 'scale' and 'delete' in pending
        ):
            actions[stage]()


@contextlib.contextmanager
def restored_lab(path: Path) -> Iterator[None]:
    """Restore the number and the profile of the fake hosts at the end.

    :param path: file that holds them until then; an invocation that was
        killed left it.
    """
    if not path.exists():
        before = settings.load() or LabSettings()
        stored = {'fake_hosts': before.fake_hosts, 'options': before.options}
        paths.write_whole(path, json.dumps(stored) + '\n')
    changes = json.loads(path.read_text(encoding='utf-8'))
    try:
        yield
    finally:
        with interrupts.deferred('the benchmark is restoring the lab'):
            lifecycle.up(lambda current: current.change(**changes), Progress())
            path.unlink()


def run(results: Results, sizes: Sequence[Size]) -> None:
    """Execute the remaining stages of all sizes, the smallest first."""
    conn = connection.connect(clouds_yaml.ADMIN_CLOUD)
    clean(conn)
    undo.recover([conn])
    with (
        restored_lab(results.path.with_suffix('.lab.json')),
        tempfile.TemporaryDirectory() as directory,
    ):
        try:
            cloud = prepare(conn)
            environments = {
                size: Path(directory) / f'{size.workers}.yaml'
                for size in sizes
            }
            # What refuses a size refuses it before the first stage.
            for size, path in environments.items():
                write_environment(cloud, size, path)
            for size in sizes:
                pending = results.list_pending(size)
                if not pending:
                    continue

                def set_size_hosts(size: Size = size) -> None:
                    set_hosts(size.hosts, Progress())

                if 'hosts' in pending:
                    measure(results, size, 'hosts', set_size_hosts)
                else:
                    set_size_hosts()
                if 'boots' in pending:
                    measure(results, size, 'boots', partial(boot, cloud, size))
                    remove_servers(conn)
                run_stack_stages(cloud, results, size, environments[size])
        finally:
            with interrupts.deferred('the benchmark is deleting its servers'):
                clean(conn)
    if journal.own():
        raise errors.CloudError(
            'Cannot delete all that the benchmark created. Run any hvstack '
            'command, which undoes it.'
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; status 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument(
        '--workers',
        type=parse_sizes,
        default=[Size(count) for count in SIZES],
        metavar='N,N',
        help='Numbers of workers (default: 40,160,640).',
    )
    parser.add_argument(
        '--results',
        type=Path,
        default=Path('growth.json'),
        metavar='FILE',
        help='File with the results (default: %(default)s).',
    )
    parser.add_argument(
        '--again',
        action='append',
        default=[],
        choices=STAGES,
        help='Repeat this stage of these sizes. Can be repeated.',
    )
    parser.add_argument(
        '--dry-run', action='store_true', help='Print the plan alone.'
    )
    args = parser.parse_args(argv)
    results = Results.load(args.results)
    for size in args.workers:
        for stage in args.again:
            results.forget(size, stage)
    if args.dry_run:
        print('\n'.join(format_plan(results, args.workers)))
        return 0
    if any(results.list_pending(size) for size in args.workers):
        if os.geteuid() != 0:
            parser.error('the program changes the lab, run it as root')
        run(results, args.workers)
    lines, is_missed = format_table(results, args.workers)
    print('\n'.join(lines))
    return int(is_missed)


if __name__ == '__main__':
    sys.exit(fresh_clusters.execute(main))
