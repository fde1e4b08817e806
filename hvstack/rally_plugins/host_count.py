# SPDX-License-Identifier: Apache-2.0
"""Number of hosts of a cluster, which all runs of a sweep must share.

A cluster is as large as the hosts that are up. The runs of a smaller one are
not comparable with the earlier runs of the sweep, but a search would count
their rates.
"""

from hvstack import errors
from hvstack.cluster.base import Cluster
from hvstack.cluster.plan import ClusterPlan
from hvstack.model.configuration import Configuration
from hvstack.model.target import parse_target
from hvstack.nouns import format_noun
from hvstack.rally_plugins.task_state import TaskState
from hvstack.rally_plugins.workload_args import WorkloadArgs
from hvstack.results import comparability
from hvstack.sweep import sweep_store

#: Fact of a record: the number of hosts of all nodes.
FACT = 'hosts'


def check_plan(task: TaskState, args: WorkloadArgs, plan: ClusterPlan) -> None:
    """Check that no cluster on the hosts of a plan was refused.

    Otherwise each further configuration of a Rally task would create a
    cluster without measuring it.

    :raises hvstack.errors.HostsChangedError: one was refused.
    """
    reason = task.refused_hosts.get(_get_key(task, args, plan))
    if reason:
        raise errors.HostsChangedError(reason)


def check_cluster(
    task: TaskState, args: WorkloadArgs, plan: ClusterPlan, cluster: Cluster
) -> None:
    """Check that a cluster has as many hosts as earlier runs of its sweep.

    Only runs with the same storage count, which can have a trait of its own.

    :raises hvstack.errors.HostsChangedError: it has more, or fewer.
    """
    if FACT in args.allow:
        return
    sweep = task.sweep_id(args)
    count = len({node.host for node in cluster.nodes})
    expected = _read_count(sweep, plan.spec.configuration.storage)
    if expected in (None, count):
        return
    reason = (
        f"Cannot continue sweep '{sweep}': the cluster is on "
        f'{format_noun(count, "host")}, and earlier runs were on {expected}, '
        'so that they are not comparable. If a host is down, start it, then '
        "resume the sweep; otherwise, begin another sweep ('sweep: new' in a "
        'Rally task).'
    )
    task.refused_hosts[_get_key(task, args, plan)] = reason
    raise errors.HostsChangedError(reason)


def _read_count(sweep: str, storage: str) -> int | None:
    """Return the number of hosts of the first run with a storage, if known."""
    store = sweep_store.open_store()
    for run in store.list_runs(sweep):
        target = parse_target(run.configuration)
        if (
            run.valid
            and isinstance(target, Configuration)
            and target.storage == storage
        ):
            return comparability.get_host_count(store.load_run(run))
    return None


def _get_key(
    task: TaskState, args: WorkloadArgs, plan: ClusterPlan
) -> tuple[str, frozenset[str]]:
    return task.sweep_id(args), frozenset(plan.hosts.providers)
