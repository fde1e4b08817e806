# SPDX-License-Identifier: Apache-2.0
"""Changes of the compute workers of a workload's cluster after a run."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from hvstack import errors
from hvstack.cloud import (
    host_keys,
    journal,
    keypairs,
    stack_times,
    stack_updates,
    stacks,
    undo,
)
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.cluster import (
    compute_cluster,
    scale,
    scale_plan,
    scale_room,
    topology_refresh,
)
from hvstack.cluster.base import Cluster
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import site_files
from hvstack.nouns import format_noun
from hvstack.rally_plugins.task_state import TaskState
from hvstack.rally_plugins.workload_args import WorkloadArgs
from hvstack.tpcxhs.compute_scaling import ComputeScalingSpec
from hvstack.tpcxhs.second_cluster import SecondClusterSpec

#: For the deletion of the files of a few jobs.
_DELETE_SECONDS = 120


def plan_scaling(
    task: TaskState, args: WorkloadArgs
) -> ComputeScalingSpec | None:
    """Return the change of the compute workers after a run; None for none.

    :param task: state of the Rally process.
    :param args: arguments of the workload.
    """
    count = args.setup.later.scaled_compute
    if not count or not isinstance(task.cluster, StackCluster):
        return None
    return ComputeScalingSpec(
        count, lambda *change: resize(task, *change), _close
    )


def plan_second_cluster(
    task: TaskState, args: WorkloadArgs
) -> SecondClusterSpec | None:
    """Return the second compute cluster after a run; None for none.

    :param task: state of the Rally process.
    :param args: arguments of the workload.
    """
    count = args.setup.later.second_cluster
    if not count or not isinstance(task.cluster, StackCluster):
        return None
    return SecondClusterSpec(
        count,
        lambda *change: resize(task, *change),
        _close,
        lambda first: create_second(task, count, first),
    )


@contextlib.contextmanager
def create_second(
    task: TaskState, count: int, first: Cluster
) -> Iterator[Cluster]:
    """Create a compute cluster on the HDFS of a cluster, and delete it.

    :param task: state of the Rally process.
    :param count: number of compute workers.
    :param first: cluster with the HDFS.
    :returns: the compute cluster, as its own controller sees it.
    :raises hvstack.errors.HVStackError: the stack was not created.
    """
    assert task.plan is not None
    assert isinstance(first, StackCluster)
    plan = compute_cluster.plan_on_hdfs(
        task.tenant, task.plan, first.name, count
    ).with_key(first.name, task.flavor_ids)
    name = f'{first.name}-second'
    try:
        with task.progress.stage(
            f'second compute cluster: stack {name} '
            f'({format_noun(count, "compute worker")})'
        ):
            compute = compute_cluster.create(
                *(task.tenant, plan, name, first, task.options.cloud),
                task.progress,
            )
        with compute:
            yield replace(
                compute,
                gateway=compute.manager,
                resourcemanager=None,
                hdfs=None,
            )
    finally:
        task.progress.say(f'deleting the stack {name}')
        journal_entries = [
            journal_entry
            for journal_entry in journal.own()
            if journal_entry.kind == stacks.KIND
            and journal_entry.data.get('name') == name
        ]
        undo.undo(journal_entries, task.connections)
        directory = site_files.CLUSTER_DIRECTORY.replace('%STACK%', name)
        first.gateway.run(
            f'hdfs dfs -rm -r -f -skipTrash {directory}',
            timeout=_DELETE_SECONDS,
            check=False,
        )


def resize(task: TaskState, count: int, job_seconds: float) -> StackCluster:
    """Change the number of compute workers of the current cluster.

    The workload continues with the new cluster, which its context closes.

    :param task: state of the Rally process.
    :param count: new number of compute workers.
    :param job_seconds: maximum number of seconds of a job, which a compute
        worker that goes waits for.
    :raises hvstack.errors.HVStackError: the cluster cannot be changed, or a
        service does not answer.
    """
    cluster = task.cluster
    if not isinstance(cluster, StackCluster):
        raise errors.InputError(
            'Cannot change the number of compute workers: the workload has no '
            'stack. Add the contexts hvstack_flavors and hvstack_cluster.'
        )
    options, conn = task.options.cloud, task.tenant
    access = SSHAccess.of(
        keypairs.DIRECTORY / cluster.name, options.ssh_config
    )

    def open_cluster(outputs: StackOutputs) -> StackCluster:
        return StackCluster.from_outputs(
            outputs,
            access,
            name=cluster.name,
            processors=cluster.processors,
            facts=cluster.facts,
            tuning=cluster.tuning,
            console=host_keys.console_of(conn),
            console_timeout=options.ready_timeout,
        )

    stack = stack_updates.settled(
        conn,
        cluster.name,
        timeout=options.stack_timeout,
        progress=task.progress,
    )
    outputs = stacks.outputs(conn, cluster.name)
    nodes = topology_refresh.nodes(conn, outputs)
    workers = scale.workers(conn, stack, nodes)
    change = scale_plan.plan(
        *(workers, len(workers), scale.replication(cluster.gateway)),
        going=scale.going(cluster),
        compute=scale.workers(conn, stack, nodes, 'compute'),
        compute_after=count,
        node_groups=topology_refresh.grouped(cluster.gateway),
    )
    scale_room.refuse(
        conn, stack, change, nodes, options.max_resources_per_stack
    )
    after = scale.scale(
        *(conn, stack, cluster, change, open_cluster),
        timeouts=scale.ScaleTimeouts(
            max(job_seconds, options.stack_timeout),
            stack_times.compute_ready_seconds(
                options.ready_timeout, change.after + change.compute_after
            ),
        ),
        progress=task.progress,
    )
    task.cluster = changed = open_cluster(after)
    return changed


def _close(cluster: Cluster) -> None:
    """Close the connections of a cluster that was changed."""
    if isinstance(cluster, StackCluster):
        cluster.close()
