# SPDX-License-Identifier: Apache-2.0
"""Which workers of a stack go, and which others replace."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hvstack import errors
from hvstack.cloud import stack_updates
from hvstack.nouns import format_noun
from hvstack.results.typed_json import JsonObject


@dataclass(frozen=True)
class Worker:
    """A worker of a stack.

    :param name: its host name.
    :param host: ``hostId``; empty where an update failed to make it.
    :param member: its place in the stack.
    :param slot: number of its slot, counted from that of the next new worker.
        Without disk pinning, all workers are in one.
    """

    name: str
    host: str
    member: stack_updates.Member
    slot: int = 0

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

    def to_mapping(self) -> JsonObject:
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
        workers with data, or without compute workers.
    """
    _check_request(workers, after, replace, compute, compute_after)
    removed = _choose_removed(workers, after, going, replace)
    staying = [worker for worker in workers if worker not in removed]
    apart = _count_apart(staying, node_groups)
    if removed and apart < replication:
        unit = 'hosts' if node_groups else 'nodes'
        raise errors.InputError(
            f'Cannot remove {format_noun(len(removed), "worker")}: the '
            f'{after} other workers would be on {apart} {unit}, and HDFS '
            f'stores the {replication} replicas of a block on different '
            f'{unit}. Use more workers, or decrease dfs.replication and the '
            'replication of the files ("hdfs dfs -setrep").'
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


def _check_request(
    workers: Sequence[Worker],
    after: int,
    replace: Collection[str],
    compute: Sequence[Worker],
    compute_after: int | None,
) -> None:
    """Check that the stack has the workers that a request is about.

    :raises hvstack.errors.InputError: as :func:`plan`.
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
    if after and not workers:
        raise errors.InputError(
            f'Cannot use {after} workers: the stack is a compute cluster, '
            'and its HDFS belongs to another stack. Use --compute-workers.'
        )


def _count_apart(workers: Sequence[Worker], node_groups: bool) -> int:
    """Return on how many hosts or nodes HDFS can store replicas apart."""
    return len(
        {
            worker.host if node_groups else worker.name
            for worker in workers
            if worker.host
        }
    )


def refuse_endless_drain(
    workers: Sequence[Worker],
    change: ScalePlan,
    replication: int,
    *,
    live: Collection[str],
    node_groups: bool = True,
) -> None:
    """Refuse to replace workers whose blocks no other host may have.

    HDFS does not end the decommissioning of a live DataNode before other
    DataNodes have all replicas. It does not wait for a dead one.

    :param workers: workers with data.
    :param change: what :func:`plan` returned for them.
    :param replication: of HDFS.
    :param live: names of the workers whose DataNode is alive.
    :param node_groups: as for :func:`plan`.
    :raises hvstack.errors.InputError: there are fewer other hosts, or nodes,
        than replicas.
    """
    replaced = [worker for worker in workers if worker in change.replace]
    names = [worker.name for worker in replaced if worker.name in live]
    apart = _count_apart(
        [worker for worker in workers if worker not in change.leaving],
        node_groups,
    )
    if not names or apart >= replication:
        return
    unit = 'hosts' if node_groups else 'nodes'
    raise errors.InputError(
        f'Cannot replace {", ".join(names)}: the workers that stay are on '
        f'{apart} {unit}, and HDFS stores the {replication} replicas of a '
        f'block on different {unit}. First add workers on other {unit}, or '
        "stop the DataNode of the worker and wait until 'hdfs dfsadmin "
        "-report -dead' lists it. If 'openstack stack check' has failed for "
        'a server that runs again, check the stack again.'
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
        slot_counts = Counter(worker.slot for worker in staying)
        chosen = max(
            staying,
            key=lambda worker: (
                worker.unhealthy or worker.name in replace,
                worker.name in going,
                # A new worker gets the slot of its number: those slots become
                # free that the next numbers belong to.
                *(slot_counts[worker.slot], -worker.slot),
                counts[worker.host],
                int(worker.member.name),
            ),
        )
        staying.remove(chosen)
        removed.append(chosen)
    return removed
