# SPDX-License-Identifier: Apache-2.0
"""More workers, fewer workers, other workers: stack updates without loss.

What is under way is kept where it belongs: in Heat, and in the list of
excluded nodes on the controller. A call that was interrupted is gone on with
by the same call.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from openstack.connection import Connection
from openstack.orchestration.v1.stack import Stack

from hvstack import errors, processutils
from hvstack.cloud import stack_times, stack_updates, stacks
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.cluster import shared_hdfs, topology_refresh
from hvstack.cluster.scale_plan import ScalePlan, Worker
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemon_http, daemons, decommission
from hvstack.hadoop.daemon_http import Runner
from hvstack.nouns import format_noun
from hvstack.progress import Progress
from hvstack.results.typed_json import JsonObject

#: The resource groups of workers, and how their members are named.
GROUPS = {'workers': 'worker', 'compute': 'compute'}
_REPLICATION = (
    '. /usr/lib/hvstack/hadoop-env; site_value hdfs-site.xml dfs.replication 3'
)
#: Of the template, by group: which members an update takes away.
_REMOVED = {'workers': 'removed_workers', 'compute': 'removed_compute'}
#: Of the template, by group: number of members.
_COUNTS = {'workers': 'worker_count', 'compute': 'compute_count'}


@dataclass(frozen=True)
class ScaleTimeouts:
    """Maximum numbers of seconds for the steps of a change.

    :param step: seconds that draining, the deletion of servers and of volumes,
        and the update may take each. The update also has some seconds for each
        worker.
    :param ready: seconds until every worker answers, until the daemons of each
        are started, which wait for its volumes, and until HDFS and YARN have
        them.
    """

    step: float
    ready: float


def workers(
    conn: Connection,
    stack: Stack,
    nodes: Sequence[topology_refresh.StackNode],
    group: str = 'workers',
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
    slots = count_slots(stack) if group == 'workers' else 1
    first = (
        next(list_next_numbers(conn, stack, listed_members))
        if slots > 1 and listed_members
        else 0
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
            Worker(
                node.name
                if node
                else f'{stack.name}-{GROUPS[group]}-{member.name}',
                node.host if node else '',
                member,
                (int(member.name) - first) % slots,
            )
        )
    return group_workers


def count_slots(stack: Stack) -> int:
    """Return the number of slots of a host that have different workers.

    With disk pinning, worker n is in slot n modulo this number.
    """
    parameters = stack.parameters or {}
    if not yaml.safe_load(str(parameters.get('disk_pinning', False))):
        return 1
    return int(parameters['workers_per_host'])


def list_next_numbers(
    conn: Connection, stack: Stack, members: Sequence[stack_updates.Member]
) -> Iterator[int]:
    """Return an iterator over the numbers of the next new workers.

    :param members: members of the group of the workers with data.
    :raises hvstack.errors.CloudError: Heat refused.
    """
    used = {member.name for member in members}
    used |= stack_updates.list_removed(conn, stack, 'workers')
    return (number for number in itertools.count() if str(number) not in used)


def replication(controller: Runner) -> int:
    """Return how many replicas HDFS keeps of a new file."""
    return int(controller.run(_REPLICATION, timeout=60).stdout)


def going(cluster: StackCluster) -> set[str]:
    """Return names of the workers that are being drained."""
    addresses = _read_excluded(cluster)
    return {
        worker.name
        for worker in cluster.workers
        if worker.address in addresses
    }


def list_live(cluster: StackCluster) -> set[str]:
    """Return the names of the workers whose DataNode is alive."""
    addresses = topology_refresh.hdfs_places(cluster.gateway)
    return {
        worker.name
        for worker in cluster.workers
        if worker.address in addresses
    }


def _read_excluded(cluster: StackCluster) -> set[str]:
    """Return the addresses of the excluded nodes of a cluster."""
    return decommission.read_excluded(
        daemon_http.list_own_controllers(cluster)[0]
    )


def scale(
    conn: Connection,
    stack: Stack,
    cluster: StackCluster,
    change: ScalePlan,
    reopen: Callable[[StackOutputs], StackCluster],
    *,
    timeouts: ScaleTimeouts,
    progress: Progress,
    map_file: Path | None = None,
) -> StackOutputs:
    """Drain what goes, update the stack, and bring in what is new.

    :param conn: of the stack's project; no other rights are needed.
    :param reopen: makes a cluster of the outputs after the update.
    :param timeouts: those of the steps.
    :param map_file: a file that says the nodes' hosts and racks instead of
        Nova, those of new workers too.
    :returns: the stack's outputs.
    :raises hvstack.errors.HVStackError: one of these failed; nothing that
        holds data was removed.
    """
    timeout = timeouts.step
    drained = _drain(cluster, change, timeout, progress)
    outputs = stacks.outputs(conn, stack.name)
    if change.leaving or change.resized or stack.status == 'UPDATE_FAILED':
        count = change.after + change.compute_after
        with progress.stage(f'stack update to {format_noun(count, "worker")}'):
            _make_room(conn, change, drained, timeout)
            outputs = _update(conn, stack, change, timeout, progress)
    with reopen(outputs) as now:
        # Before new workers come: one may have an address of an old one.
        if _read_excluded(now):
            decommission.exclude_nodes(now, [], timeout)
        with progress.stage('topology'):
            expected_topology = shared_hdfs.combine(
                conn,
                outputs,
                topology_refresh.nodes(conn, outputs, map_file),
                map_file,
                # No node that stays moves, which would restart HDFS.
                daemons.read_topology(now.gateway),
            )
            # One that is dead keeps us from nothing but this while.
            with contextlib.suppress(errors.DeadlineExceededError):
                processutils.wait_for(
                    lambda: not topology_refresh.answering(now)[1],
                    'every worker to answer',
                    timeout=timeouts.ready,
                )
            # A NodeManager that YARN let go of has ended, and may stay now.
            daemons.start(
                topology_refresh.answering(now)[0].workers, timeouts.ready
            )
            away = topology_refresh.refresh(
                now,
                expected_topology,
                timeout=timeouts.ready,
                progress=progress,
            )
            shared_hdfs.distribute_addresses(now)
    for name in away:
        progress.say(f'{name} does not answer, it was passed over')
    return outputs


def _drain(
    cluster: StackCluster,
    change: ScalePlan,
    timeout: float,
    progress: Progress,
) -> list[Runner]:
    """Drain the workers that go, and return them.

    A worker that an update failed to create is in no output of the stack, and
    is not drained.
    """
    names = {worker.name for worker in change.leaving}
    leaving: list[Runner] = [
        worker for worker in cluster.workers if worker.name in names
    ]
    if not leaving:
        return []
    staying = [
        worker for worker in cluster.workers if worker.name not in names
    ]
    with progress.stage(f'drain {", ".join(sorted(names))}'):
        decommission.drain(
            cluster, leaving, staying, timeout=timeout, progress=progress
        )
    return leaving


def _make_room(
    conn: Connection,
    change: ScalePlan,
    drained: Sequence[Runner],
    timeout: float,
) -> None:
    """Delete the servers that Heat would keep too long.

    :param drained: workers without blocks that HDFS needs, and without jobs.
        The servers of all other workers stay until Heat deletes them.
    """
    nodes = {node.name: node for node in drained}
    replaced = [worker for worker in change.replace if worker.name in nodes]
    # Marked before: the update must replace what does not exist any more.
    for worker in change.replace:
        stack_updates.mark_unhealthy(
            conn, worker.member, 'hvstack cluster scale'
        )
    stack_updates.delete_servers(
        conn,
        [worker.member for worker in replaced],
        with_volumes=True,
        timeout=timeout,
    )
    stack_updates.delete_servers(
        conn,
        [
            worker.member
            for worker in change.remove
            if worker.name in nodes
            and worker.member.volume_ids
            and not _is_answering(nodes[worker.name])
        ],
        with_volumes=False,
        timeout=timeout,
    )


def _is_answering(node: Runner) -> bool:
    try:
        return not node.run('true', timeout=60, check=False).returncode
    except errors.HVStackError:
        return False


def _update(
    conn: Connection,
    stack: Stack,
    change: ScalePlan,
    timeout: float,
    progress: Progress,
) -> StackOutputs:
    """Update a stack to the number of workers, and return its outputs."""
    # New workers come into HDFS after the update, which must not wait for
    # them; and Keystone takes an old signature no more.
    parameters: JsonObject = {'readiness': False}
    # A compute cluster has no workers with data.
    if change.after:
        parameters[_COUNTS['workers']] = change.after
    # An update that failed has left another number in Heat.
    if change.compute_after:
        parameters[_COUNTS['compute']] = change.compute_after
    for group, removed in (
        ('workers', change.remove),
        ('compute', change.remove_compute),
    ):
        if removed:
            parameters[_REMOVED[group]] = ','.join(
                worker.member.name for worker in removed
            )
    nodes = max(change.before, change.after)
    nodes += max(change.compute_before, change.compute_after)
    return stack_updates.update(
        conn,
        stack,
        parameters,
        timeout=stack_times.compute_stack_seconds(timeout, nodes),
        progress=progress,
    )
