# SPDX-License-Identifier: Apache-2.0
"""More workers, fewer workers, other workers: stack updates without loss.

What is under way is kept where it belongs: in Heat, and in the list of
excluded nodes on the controller. A call that was interrupted is gone on with
by the same call.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from openstack.connection import Connection

from hvstack import errors, processutils
from hvstack.cloud import (
    hypervisors,
    nova_flavors,
    placement,
    quotas,
    stack_updates,
    stacks,
)
from hvstack.cloud.connection import refused
from hvstack.cloud.quotas import Need
from hvstack.cluster import topology_refresh, validation
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemons, decommission
from hvstack.hadoop.daemon_http import Runner
from hvstack.progress import Progress

#: The resource groups of workers, and how their members are named.
GROUPS = {'workers': 'worker', 'compute': 'compute'}
#: A new worker answers within these seconds.
_BOOT_SECONDS = 180
_REPLICATION = (
    '. /usr/lib/hvstack/hadoop-env; site_value hdfs-site.xml dfs.replication 3'
)
#: Of the template, by group: which members an update takes away.
_REMOVED = {'workers': 'removed_workers', 'compute': 'removed_compute'}
#: Of the template, by group: number of members.
_COUNTS = {'workers': 'worker_count', 'compute': 'compute_count'}
#: Of the template: what a worker takes, and where.
_SIZES = (
    *('workers_per_host', 'anti_affinity', 'storage', 'disk_pinning'),
    *('volume_types', 'disk_gb', 'host_keys', 'compute_per_host'),
)


@dataclass(frozen=True)
class Worker:
    """A worker of a stack.

    :param name: its host name.
    :param host: ``hostId``; empty where an update failed to make it.
    :param member: its place in the stack.
    """

    name: str
    host: str
    member: stack_updates.Member

    @property
    def unhealthy(self) -> bool:
        """Whether the next update replaces it."""
        return self.member.unhealthy or not self.host


@dataclass(frozen=True)
class ScalePlan:
    """What scaling does to a cluster.

    :param before: number of workers.
    :param after: number of workers.
    :param remove: workers that go, once they are drained.
    :param replace: workers that others take the place of.
    :param compute_before: number of compute workers.
    :param compute_after: number of compute workers.
    :param remove_compute: compute workers that go, once they are drained.
    """

    before: int
    after: int
    remove: tuple[Worker, ...] = ()
    replace: tuple[Worker, ...] = ()
    compute_before: int = 0
    compute_after: int = 0
    remove_compute: tuple[Worker, ...] = ()

    @property
    def leaving(self) -> tuple[Worker, ...]:
        """Workers that must be drained."""
        return (*self.remove, *self.remove_compute, *self.replace)

    @property
    def resized(self) -> bool:
        """Whether a number of workers changes."""
        return (self.before, self.compute_before) != (
            self.after,
            self.compute_after,
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return plain data, as ``--dry-run`` shows it."""
        added_compute = max(0, self.compute_after - self.compute_before)
        return {
            'workers_before': self.before,
            'workers': self.after,
            'compute_workers_before': self.compute_before,
            'compute_workers': self.compute_after,
            'added': max(0, self.after - self.before) + added_compute,
            'removed': [
                worker.name for worker in (*self.remove, *self.remove_compute)
            ],
            'replaced': [worker.name for worker in self.replace],
        }


def plan(
    workers: Sequence[Worker],
    after: int,
    replication: int,
    *,
    going: Collection[str] = (),
    replace: Collection[str] = (),
    compute: Sequence[Worker] = (),
    compute_after: int | None = None,
    node_groups: bool = True,
) -> ScalePlan:
    """Choose the workers that go, so that hosts keep equal numbers.

    Unhealthy ones go first, then those that an interrupted call has begun
    to drain, then one of the fullest host, the last one.

    :param after: wanted number of workers.
    :param replication: of HDFS.
    :param going: names of workers that are being drained.
    :param replace: names of workers to replace in addition to the unhealthy
        ones.
    :param compute: workers with a NodeManager and without a DataNode.
    :param compute_after: wanted number of these; None keeps it.
    :param node_groups: HDFS keeps the replicas of a block on different hosts,
        which ``hostId`` identifies; without them on different nodes.
    :raises hvstack.errors.InputError: fewer hosts than replicas would be
        left, a worker does not exist, or the cluster was created without
        compute workers.
    """
    names = {worker.name for worker in (*workers, *compute)}
    for name in replace:
        if name not in names:
            raise errors.InputError(
                f"Cannot replace worker '{name}': it does not exist. Choose "
                f'one of {", ".join(sorted(names))}.'
            )
    if compute_after and not compute:
        raise errors.InputError(
            f'Cannot use {compute_after} compute workers: the stack was '
            'created without compute workers. Create a stack with '
            '--deployment 3 or 4.'
        )
    removed = _choose_removed(workers, after, going, replace)
    staying = [worker for worker in workers if worker not in removed]
    placed_workers = [worker for worker in staying if worker.host]
    apart = len(
        {
            worker.host if node_groups else worker.name
            for worker in placed_workers
        }
    )
    if removed and apart < replication:
        unit = 'hosts' if node_groups else 'nodes'
        raise errors.InputError(
            f'Cannot remove {len(removed)} workers: the {after} other workers '
            f'would be on {apart} {unit}, and HDFS stores the {replication} '
            f'replicas of a block on different {unit}. Use more workers, or '
            'decrease dfs.replication and the replication of the files ("hdfs '
            'dfs -setrep").'
        )
    if compute_after is None:
        compute_after = len(compute)
    removed_compute = _choose_removed(compute, compute_after, going, replace)
    return ScalePlan(
        len(workers),
        after,
        tuple(removed),
        tuple(
            worker
            for worker in (*staying, *compute)
            if worker not in removed_compute
            and (worker.unhealthy or worker.name in replace)
        ),
        len(compute),
        compute_after,
        tuple(removed_compute),
    )


def _choose_removed(
    workers: Sequence[Worker],
    after: int,
    going: Collection[str],
    replace: Collection[str],
) -> list[Worker]:
    """Choose the workers to remove so that ``after`` of them remain."""
    staying = list(workers)
    removed = []
    while len(staying) > max(after, 0):
        counts = Counter(worker.host for worker in staying)
        chosen = max(
            staying,
            key=lambda worker: (
                worker.unhealthy or worker.name in replace,
                worker.name in going,
                counts[worker.host],
                int(worker.member.name),
            ),
        )
        staying.remove(chosen)
        removed.append(chosen)
    return removed


def workers(
    conn: Connection, stack: Any, nodes: Sequence[Any], group: str = 'workers'
) -> list[Worker]:
    """Return a stack's workers with their places in it.

    :param nodes: of :func:`hvstack.cluster.topology_refresh.nodes`.
    :param group: one of :data:`GROUPS`.
    :raises hvstack.errors.InputError: the stack is none that can be scaled.
    """
    listed_members = stack_updates.members(conn, stack, group)
    if listed_members and _REMOVED[group] not in (stack.parameters or {}):
        raise errors.InputError(
            f"Cannot scale stack '{stack.name}': its template has no "
            f"parameter '{_REMOVED[group]}'. Create the stack again with the "
            'heat-templates of this release.'
        )
    by_server = {node.server_id: node for node in nodes}
    group_workers = []
    for member in listed_members:
        node = next(
            (
                by_server[server_id]
                for server_id in member.server_ids
                if server_id in by_server
            ),
            None,
        )
        group_workers.append(
            Worker(node.name, node.host, member)
            if node
            else Worker(
                f'{stack.name}-{GROUPS[group]}-{member.name}', '', member
            )
        )
    return group_workers


def refuse(
    conn: Connection,
    stack: Any,
    change: ScalePlan,
    nodes: Sequence[topology_refresh.StackNode],
    max_resources: int,
) -> None:
    """Refuse more workers than there is room for, before anything changes.

    :param conn: of the stack's project; only an administrator's sees how
        many slots hosts have left.
    :param nodes: of :func:`hvstack.cluster.topology_refresh.nodes`.
    :param max_resources: Heat's ``max_resources_per_stack``; -1 is no limit.
    :raises hvstack.errors.InputError: slots, a quota or Heat's limit are not
        enough.
    """
    added = {
        'workers': max(0, change.after - change.before),
        'compute': max(0, change.compute_after - change.compute_before),
    }
    if not any(added.values()):
        return
    sizes = {
        name: yaml.safe_load(str(value))
        for name, value in stack.parameters.items()
        if name in _SIZES
    }
    names = {'workers': str(stack.parameters['worker_flavor'])}
    names['compute'] = (
        str(stack.parameters.get('compute_flavor') or '') or names['workers']
    )
    flavors = {
        group: nova_flavors.find_visible(conn, names[group])
        for group, count in added.items()
        if count
    }
    per_host = sizes['workers_per_host']
    if sizes['anti_affinity'] == 'strict':
        _refuse_slots(
            conn,
            nodes,
            {group: (added[group], flavors[group]) for group in flavors},
            {'workers': per_host, 'compute': sizes.get('compute_per_host')},
        )
    types = (
        sizes['volume_types']
        if sizes['storage'] == 'ceph' or sizes['disk_pinning']
        else [[]]
    )
    volumes = [
        len(types[index % len(types)])
        for index in range(change.before, change.after)
    ]
    validation.stack_of(
        change.after + change.compute_after,
        len(stacks.resources(conn, stack))
        + validation.resources(
            [*volumes, *([0] * added['compute'])],
            bool(sizes.get('host_keys')),
        ),
        max_resources,
    )
    groups = per_host if sizes['disk_pinning'] else 1
    members = max(
        math.ceil(change.after / groups) if added['workers'] else 0,
        change.compute_after if added['compute'] else 0,
    )
    quotas.check(
        conn,
        Need(
            instances=sum(added.values()),
            cores=sum(
                added[group] * flavor.vcpus
                for group, flavor in flavors.items()
            ),
            ram=sum(
                added[group] * flavor.ram for group, flavor in flavors.items()
            ),
            server_group_members=members
            if sizes['anti_affinity'] != 'none'
            else 0,
            volumes=sum(volumes),
            gigabytes=sum(volumes) * sizes['disk_gb'],
        ),
    )


def _refuse_slots(
    conn: Connection,
    nodes: Sequence[topology_refresh.StackNode],
    added: Mapping[str, tuple[int, Any]],
    per_host: Mapping[str, int],
) -> None:
    """Refuse more workers than the server groups accept on these hosts.

    :param added: number and flavor of the new workers by group.
    :param per_host: most workers of a group on one host.
    """
    for group, (count, flavor) in added.items():
        role = GROUPS[group]
        free = _free(conn, flavor, per_host[group], nodes, role)
        if free is not None and count > free:
            kind = 'compute workers' if role == 'compute' else 'workers'
            before = sum(node.role == role for node in nodes)
            raise errors.InputError(
                f'Cannot add {count} {kind}: the hosts that are up have '
                f'{free} free slots. Use up to {before + free} {kind}, or '
                'more hosts.'
            )


def _free(
    conn: Connection,
    flavor: Any,
    per_host: int,
    nodes: Sequence[topology_refresh.StackNode],
    role: str,
) -> int | None:
    """Return how many workers the hosts have room for, if we may know.

    :param role: role of the workers. A slot of workers can have a controller,
        and a slot of compute workers has nothing else.
    """
    traits = [
        name.removeprefix('trait:')
        for name, value in (flavor.extra_specs or {}).items()
        if name.startswith('trait:') and value == 'required'
    ]
    try:
        up = {
            hypervisor.name
            for hypervisor in hypervisors.hypervisors(conn)
            if hypervisor.up
        }
        able = placement.providers(conn, ','.join(traits))
        with refused('Cannot list the servers'):
            servers = {server.id: server for server in conn.compute.servers()}
    except errors.CloudError:
        return None
    free_slots = dict.fromkeys(up & set(able), per_host)
    for node in nodes:
        server = servers.get(node.server_id)
        if server is None or server.hypervisor_hostname not in free_slots:
            continue
        if node.role == role:
            free_slots[server.hypervisor_hostname] -= 1
        elif 'compute' not in (node.role, role):
            free_slots[server.hypervisor_hostname] -= math.ceil(
                server.flavor.vcpus / flavor.vcpus
            )
    return sum(max(0, count) for count in free_slots.values())


def replication(controller: Runner) -> int:
    """Return how many replicas HDFS keeps of a new file."""
    return int(controller.run(_REPLICATION, timeout=60).stdout)


def going(cluster: StackCluster) -> set[str]:
    """Return names of the workers that are being drained."""
    addresses = decommission.read_excluded(cluster.gateway)
    return {
        worker.name
        for worker in cluster.workers
        if worker.address in addresses
    }


def scale(
    conn: Connection,
    stack: Any,
    cluster: StackCluster,
    change: ScalePlan,
    reopen: Callable[[dict[str, Any]], StackCluster],
    *,
    timeout: float,
    progress: Progress,
    map_file: Path | None = None,
) -> dict[str, Any]:
    """Drain what goes, update the stack, and bring in what is new.

    :param conn: of the stack's project; no other rights are needed.
    :param reopen: makes a cluster of the outputs after the update.
    :param timeout: seconds that draining, and the update, may take each.
    :param map_file: a file that says the nodes' hosts and racks instead of
        Nova, those of new workers too.
    :returns: the stack's outputs.
    :raises hvstack.errors.HVStackError: one of these failed; nothing that
        holds data was removed.
    """
    _drain(cluster, change, timeout, progress)
    outputs = stacks.outputs(conn, stack.name)
    if change.leaving or change.resized or stack.status == 'UPDATE_FAILED':
        count = change.after + change.compute_after
        with progress.stage(f'stack update to {count} workers'):
            outputs = _update(conn, stack, change, timeout, progress)
    with reopen(outputs) as now:
        # Before new workers come: one may have an address of an old one.
        if decommission.read_excluded(now.gateway):
            decommission.exclude_nodes(now, [], timeout)
        with progress.stage('topology'):
            expected_topology = topology_refresh.of_nodes(
                topology_refresh.nodes(conn, outputs, map_file)
            )
            # One that is dead keeps us from nothing but this while.
            with contextlib.suppress(errors.DeadlineExceededError):
                processutils.wait_for(
                    lambda: not topology_refresh.answering(now)[1],
                    'every worker to answer',
                    timeout=_BOOT_SECONDS,
                )
            # A NodeManager that YARN let go of has ended, and may stay now.
            daemons.start(topology_refresh.answering(now)[0].workers)
            away = topology_refresh.refresh(
                now, expected_topology, progress=progress
            )
    for name in away:
        progress.say(f'{name} does not answer, it was passed over')
    return outputs


def _drain(
    cluster: StackCluster,
    change: ScalePlan,
    timeout: float,
    progress: Progress,
) -> None:
    names = {worker.name for worker in change.leaving}
    leaving = [worker for worker in cluster.workers if worker.name in names]
    if not leaving:
        return
    staying = [
        worker for worker in cluster.workers if worker.name not in names
    ]
    with progress.stage(f'drain {", ".join(sorted(names))}'):
        decommission.drain(
            cluster, leaving, staying, timeout=timeout, progress=progress
        )


def _update(
    conn: Connection,
    stack: Any,
    change: ScalePlan,
    timeout: float,
    progress: Progress,
) -> dict[str, Any]:
    """Update a stack to the number of workers, and return its outputs."""
    for worker in change.replace:
        stack_updates.mark_unhealthy(
            conn, worker.member, 'hvstack cluster scale'
        )
    # New workers come into HDFS after the update, which must not wait for
    # them; and Keystone takes an old signature no more.
    parameters: dict[str, Any] = {
        _COUNTS['workers']: change.after,
        'readiness': False,
    }
    if change.compute_after != change.compute_before:
        parameters[_COUNTS['compute']] = change.compute_after
    for group, removed in (
        ('workers', change.remove),
        ('compute', change.remove_compute),
    ):
        if removed:
            parameters[_REMOVED[group]] = ','.join(
                worker.member.name for worker in removed
            )
    return stack_updates.update(
        conn, stack, parameters, timeout=timeout, progress=progress
    )
