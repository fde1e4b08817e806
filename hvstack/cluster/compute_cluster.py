# SPDX-License-Identifier: Apache-2.0
"""A compute cluster on the HDFS of a cluster that exists already.

Its nodes have the flavors, the image, the network, the key pair and the
settings of that cluster.
"""

from dataclasses import replace

from openstack.connection import Connection

from hvstack.cloud import host_keys, keypairs, stacks
from hvstack.cluster import launch, planner, shared_hdfs, topology_refresh
from hvstack.cluster.plan import ClusterDisks, ClusterPlan, NodeCounts
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.conf import CloudOptions
from hvstack.hadoop import daemons
from hvstack.progress import Progress


def plan_on_hdfs(
    conn: Connection, plan: ClusterPlan, hdfs_stack: str, workers: int
) -> ClusterPlan:
    """Plan a compute cluster that shares the settings of a cluster.

    :param conn: connection of the project of the stack.
    :param plan: plan of the cluster, which has compute workers.
    :param hdfs_stack: name of its stack, whose key pair has the same name.
    :param workers: number of compute workers.
    :raises hvstack.errors.HVStackError: the stack has no HDFS that a compute
        cluster can use.
    """
    hdfs = shared_hdfs.read(
        conn,
        hdfs_stack,
        image=None,
        network=None,
        node_groups=plan.node_groups,
    )
    return replace(
        plan,
        spec=replace(
            plan.spec, controllers='combined', deployment=hdfs.deployment
        ),
        nodes=NodeCounts(
            workers=0,
            workers_per_host=1,
            replication=hdfs.replication,
            compute_workers=workers,
            compute_per_host=plan.nodes.compute_per_host,
            # The topology contains the nodes of both stacks.
            controllers_first=True,
        ),
        sizing=replace(plan.sizing, hdfs_heaps=None),
        stack=replace(
            plan.stack,
            image=hdfs.image,
            network=hdfs.network,
            key_name=hdfs_stack,
        ),
        disks=ClusterDisks(),
        secondary_namenode=False,
        hdfs=hdfs,
    )


def create(
    tenant: Connection,
    plan: ClusterPlan,
    name: str,
    first: StackCluster,
    options: CloudOptions,
    progress: Progress | None = None,
) -> StackCluster:
    """Create the stack of a compute cluster, and wait until it is ready.

    :param tenant: connection of the project of both stacks.
    :param plan: result of :func:`plan_on_hdfs`, with the flavors.
    :param name: name of the stack.
    :param first: cluster with the HDFS, which remains open.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :param progress: where to report; None reports nothing.
    :returns: the cluster, whose gateway has the NameNode of the first one.
    :raises hvstack.errors.HVStackError: one of these failed; the stack is in
        the journal.
    """
    planner.check(tenant, plan, options)
    outputs = launch.create_stack(
        tenant,
        plan,
        name,
        launch.compute_stack_timeout(plan, options),
        progress,
    )
    timeout = launch.compute_ready_timeout(plan, options)
    access = SSHAccess.of(
        keypairs.DIRECTORY / plan.stack.key_name, options.ssh_config
    )
    cluster, hdfs = (
        StackCluster.from_outputs(
            stack_outputs,
            access,
            name=stack_name,
            processors=first.processors,
            facts=first.facts,
            tuning=first.tuning,
            console=host_keys.console_of(tenant),
            console_timeout=timeout,
        )
        for stack_name, stack_outputs in (
            (name, outputs),
            (first.name, stacks.outputs(tenant, first.name)),
        )
    )
    compute = cluster.with_hdfs(hdfs)
    try:
        launch.retry_with_new_host_keys(
            tenant,
            name,
            lambda: launch.wait_until_ready(
                compute,
                shared_hdfs.combine(
                    tenant,
                    outputs,
                    topology_refresh.nodes(tenant, outputs),
                    # The first cluster keeps its virtual racks.
                    table=daemons.read_topology(compute.gateway),
                ),
                timeout,
                progress,
                controllers_first=True,
            ),
        )
        shared_hdfs.distribute_addresses(compute)
    except BaseException:
        compute.close()
        raise
    return compute
