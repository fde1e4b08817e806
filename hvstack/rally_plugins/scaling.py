# SPDX-License-Identifier: Apache-2.0
"""Change of the number of compute workers of a workload's cluster."""

from hvstack import errors
from hvstack.cloud import (
    host_keys,
    keypairs,
    stack_times,
    stack_updates,
    stacks,
)
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.cluster import (
    scale,
    scale_plan,
    scale_room,
    topology_refresh,
)
from hvstack.cluster.base import Cluster
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.rally_plugins.task_state import TaskState
from hvstack.rally_plugins.workload_args import WorkloadArgs
from hvstack.tpcxhs.compute_scaling import ComputeScalingSpec


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
