# SPDX-License-Identifier: Apache-2.0
"""Number of hosts of a cluster, which all runs of a sweep must share.

A cluster is as large as the hosts that are up. The runs of a smaller one are
not comparable with the earlier runs of the sweep, but a search would count
their rates. The variants of a study, which have sweeps of their own, are
compared with each other as well. The sides of trials can differ in their
hosts, but all trials of a side must share them.
"""

from hvstack import errors
from hvstack.cluster.base import Cluster
from hvstack.cluster.plan import CONTROLLERS, ClusterPlan
from hvstack.model.configuration import Configuration
from hvstack.model.target import parse_target
from hvstack.nouns import format_noun
from hvstack.rally_plugins.task_state import TaskState
from hvstack.rally_plugins.workload_args import WorkloadArgs
from hvstack.results import comparability, run_id
from hvstack.sweep import sweep_store

#: Fact of a record: the number of hosts of all nodes.
FACT = 'hosts'


def check_plan(task: TaskState, args: WorkloadArgs, plan: ClusterPlan) -> None:
    """Check that no cluster on the hosts of a plan was refused.

    Otherwise each further configuration of a Rally task would create a
    cluster without measuring it.

    :raises hvstack.errors.HostsChangedError: one was refused.
    """
    if FACT in args.allow:
        return
    reason = task.refused_hosts.get(_get_key(task, args, plan))
    if reason:
        raise errors.HostsChangedError(reason)


def check_cluster(
    task: TaskState, args: WorkloadArgs, plan: ClusterPlan, cluster: Cluster
) -> None:
    """Check that a cluster has as many hosts as earlier runs of its sweep.

    Only runs with the same storage count, which can have a trait of its own,
    and with the same controllers, which can have hosts of their own.

    :raises hvstack.errors.HostsChangedError: it has more, or fewer.
    """
    if FACT in args.allow:
        return
    sweep = task.sweep_id(args)
    count = len({node.host for node in cluster.nodes})
    expected = _read_count(sweep, plan)
    if expected in (None, count):
        return
    reason = (
        f"Cannot continue '{run_id.parse_execution_id(sweep)}': the cluster "
        f'is on {format_noun(count, "host")}, and earlier runs were on '
        f'{expected}, so that they are not comparable. If a host is down, '
        "start it, then resume; otherwise, begin another one ('sweep: new' in "
        'a Rally task).'
    )
    task.refused_hosts[_get_key(task, args, plan)] = reason
    raise errors.HostsChangedError(reason)


def _read_count(sweep: str, plan: ClusterPlan) -> int | None:
    """Return the number of hosts of the first comparable run, if known.

    :param sweep: name of the sweep.
    :param plan: cluster plan, whose storage and controllers the run has.
    """
    store = sweep_store.open_store()
    group = _get_group(sweep)
    if group == (sweep, ''):
        runs = store.list_runs(sweep)
    else:
        runs = [
            run
            for run in store.list_all_runs()
            if _get_group(run.sweep) == group
        ]
    for run in runs:
        target = parse_target(run.configuration)
        if (
            not run.valid
            or not isinstance(target, Configuration)
            or target.storage != plan.spec.configuration.storage
        ):
            continue
        record = store.load_run(run)
        controllers = record.sut.facts.get('controllers', CONTROLLERS[0])
        if controllers == plan.spec.controllers:
            return comparability.get_host_count(record)
    return None


def _get_group(sweep: str) -> tuple[str, str]:
    """Return the study or the trials of a sweep, whose sweeps share hosts.

    :param sweep: name of the sweep.
    :returns: ID of the study or of the trials, and the side of trials.
    """
    execution = run_id.parse_execution_id(sweep)
    is_side = execution != sweep and execution.startswith('trials-')
    return execution, sweep[-1] if is_side else ''


def _get_key(
    task: TaskState, args: WorkloadArgs, plan: ClusterPlan
) -> tuple[str | frozenset[str], ...]:
    """Return the key of the clusters with the same expected hosts."""
    return (
        *_get_group(task.sweep_id(args)),
        plan.spec.configuration.storage,
        plan.spec.controllers,
        frozenset(plan.hosts.providers),
    )
