# SPDX-License-Identifier: Apache-2.0
"""From a plan to a running cluster: publish, create, wait."""

import functools
from collections.abc import Callable, Sequence

from openstack.connection import Connection

from hvstack import errors, processutils, share
from hvstack.cloud import (
    allocation_ratios,
    cluster_flavors,
    host_keys,
    keypairs,
    stack_times,
    stacks,
)
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.cluster import (
    heat_environment,
    local_volumes,
    observation,
    planner,
    topology_refresh,
    validation,
)
from hvstack.cluster.base import LOCAL_DROP_CACHES, ClusterFacts
from hvstack.cluster.plan import ClusterPlan
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.conf import CloudOptions
from hvstack.hadoop import daemons
from hvstack.model.compute_backends import timeout_factor
from hvstack.model.topology import Topology
from hvstack.nouns import format_noun
from hvstack.progress import Progress

#: Seconds in which a server that Heat replaced boots and sends its host key.
_NEW_KEY_SECONDS = 120


def publish(
    admin: Connection, plan: ClusterPlan, project_ids: list[str]
) -> dict[str, str]:
    """Publish a plan's flavors and return their ids by role.

    :raises hvstack.errors.CloudError: Nova refused.
    """
    return {
        flavor.role: cluster_flavors.publish(admin, flavor, project_ids).id
        for flavor in (plan.flavors.worker, plan.flavors.controller)
    }


def launch(
    admin: Connection,
    tenant: Connection,
    plan: ClusterPlan,
    flavor_ids: dict[str, str],
    name: str,
    options: CloudOptions,
    progress: Progress | None = None,
) -> tuple[StackCluster, StackOutputs]:
    """Create a plan's stack, wait until Hadoop sees every worker.

    :param admin: looks at Placement; None of its rights make the stack.
    :param tenant: whose stack it is.
    :param name: of the stack: lower case letters, digits and dashes.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :returns: the cluster and the stack's outputs.
    :raises hvstack.errors.HVStackError: one of these failed; what was made
        is in the journal.
    """
    access = SSHAccess.of(keypairs.DIRECTORY / name, options.ssh_config)
    planner.check(tenant, plan, options)
    local_volumes.check_hosts(admin, plan)
    plan = plan.with_key(name, flavor_ids)
    keypairs.create(tenant, name)
    outputs = create_stack(
        tenant, plan, name, compute_stack_timeout(plan, options), progress
    )
    allocation_ratios.check(
        admin,
        plan.hosts.providers,
        plan.ratios,
        shared=plan.is_shared,
    )
    cluster = open_cluster(
        admin, tenant, plan, outputs, access, name=name, options=options
    )
    ready_timeout = compute_ready_timeout(plan, options)
    try:
        retry_with_new_host_keys(
            tenant,
            name,
            lambda: wait_until_ready(
                cluster,
                topology_refresh.of_nodes(
                    topology_refresh.nodes(tenant, outputs)
                ),
                ready_timeout,
                progress,
                controllers_first=heat_environment.controllers_first(plan),
            ),
        )
        warning = describe_missing_hosts(
            topology_refresh.nodes(tenant, outputs), plan.nodes.replication
        )
        if warning and plan.node_groups and plan.hdfs is None:
            (progress or Progress()).warn(warning)
        return cluster, outputs
    except BaseException:
        cluster.close()
        raise


def open_cluster(
    admin: Connection,
    tenant: Connection,
    plan: ClusterPlan,
    outputs: StackOutputs,
    access: SSHAccess,
    *,
    name: str,
    options: CloudOptions,
) -> StackCluster:
    """Return the cluster of a complete stack, with the facts of its cloud.

    :param admin: connection of an administrator.
    :param tenant: connection of the project of the stack.
    :param plan: plan of the cluster.
    :param outputs: outputs of the stack.
    :param access: private key of the key pair of the stack.
    :param name: name of the stack.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :raises hvstack.errors.HVStackError: an output is missing, or a service
        does not answer.
    """
    observed = observation.observe_cloud(
        admin, plan, outputs
    ) | local_volumes.observe(admin, plan, outputs)
    cluster = StackCluster.from_outputs(
        outputs,
        access,
        name=name,
        processors=plan.sizing.processors,
        facts=ClusterFacts(
            plan.hosts.environment | observation.storage(plan, observed),
            observed,
            plan.flavors.worker.ram,
            LOCAL_DROP_CACHES if plan.hosts.shared_kernel else None,
        ),
        tuning=plan.spec.tuning,
        console=host_keys.console_of(tenant),
        console_timeout=compute_ready_timeout(plan, options),
    )
    cluster.find_moved = functools.partial(
        observation.list_moved, tenant, outputs
    )
    return cluster


def compute_stack_timeout(plan: ClusterPlan, options: CloudOptions) -> float:
    """Return the seconds on an ordinary server for the stack of a plan.

    They include those for the signals of its nodes.

    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    """
    nodes = validation.needs(plan).instances
    has_signals = plan.spec.readiness or plan.stack.host_keys
    return timeout_factor(
        plan.hosts.backend
    ) * stack_times.compute_stack_seconds(options.stack_timeout, nodes) + (
        stack_times.compute_signal_seconds(options.stack_timeout)
        if has_signals
        else 0
    )


def compute_ready_timeout(plan: ClusterPlan, options: CloudOptions) -> float:
    """Return the seconds until Hadoop of a complete stack must be ready.

    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    """
    nodes = validation.needs(plan).instances
    return timeout_factor(
        plan.hosts.backend
    ) * stack_times.compute_ready_seconds(options.ready_timeout, nodes)


def retry_with_new_host_keys(
    tenant: Connection,
    name: str,
    start: Callable[[], None],
    timeout: float = _NEW_KEY_SECONDS,
) -> None:
    """Start Hadoop on a new stack, again if a node gets another host key.

    Heat has the key of the first server of a node if it replaced that server
    after it had booted.

    :param tenant: connection of the project of the stack.
    :param name: name of the stack.
    :param start: connects to the nodes, and can be called again.
    :param timeout: seconds in which a server that Heat replaced boots and
        sends its host key.
    :raises hvstack.errors.HostKeyError: Heat gets no other key of a node
        whose key is refused.
    :raises hvstack.errors.HVStackError: ``start`` raised it.
    """
    while True:
        try:
            start()
            return
        except errors.HostKeyError:
            if not _renew_host_keys(tenant, name, timeout):
                raise


def _renew_host_keys(tenant: Connection, name: str, timeout: float) -> bool:
    """Return whether Heat gets another host key of a node of a new stack.

    :param name: name of the stack.
    :param timeout: seconds.
    """
    try:
        processutils.wait_for(
            lambda: host_keys.renew(name, stacks.outputs(tenant, name)),
            'another ssh host key',
            timeout=timeout,
            interval=2,
        )
    except errors.DeadlineExceededError:
        return False
    return True


def create_stack(
    tenant: Connection,
    plan: ClusterPlan,
    name: str,
    timeout: float,
    progress: Progress | None,
) -> StackOutputs:
    """Create the stack of a plan, and wait until it is complete.

    :param timeout: result of :func:`compute_stack_timeout`.
    :returns: outputs of the stack.
    :raises hvstack.errors.HVStackError: Heat rejected the stack, or the stack
        failed or was not complete in time.
    """
    stack_id = stacks.create(
        tenant,
        name,
        share.HEAT_TEMPLATES / heat_environment.TEMPLATE,
        heat_environment.parameters(plan),
        heat_environment.files(plan),
        timeout=timeout,
    )
    return stacks.wait(tenant, stack_id, timeout=timeout, progress=progress)


def wait_until_ready(
    cluster: StackCluster,
    expected_topology: Topology,
    ready_timeout: float,
    progress: Progress | None = None,
    *,
    controllers_first: bool = False,
) -> None:
    """Wait until Hadoop on a complete stack sees every worker in its place.

    :param expected_topology: topology of the nodes, with the zones and the
        host of the controller, which the template does not know.
    :param ready_timeout: seconds.
    :param controllers_first: they wait for their places before they start.
    :raises hvstack.errors.HVStackError: it does not.
    """
    if progress is not None:
        progress.say('  stack complete, waiting for HDFS and YARN')
    span = (progress or Progress()).span('start of Hadoop')
    with span:
        if controllers_first:
            topology_refresh.provide_topology(
                cluster, expected_topology, ready_timeout
            )
        daemons.wait_ready(cluster, ready_timeout)
        topology_refresh.refresh(
            cluster,
            expected_topology,
            timeout=ready_timeout,
            progress=progress,
        )


def describe_missing_hosts(
    nodes: Sequence[topology_refresh.StackNode], replication: int
) -> str:
    """Return a warning if too few hosts have workers for all replicas.

    Where workers leave slots of the hosts free, Nova chooses the hosts, and
    may fill one before it uses the next.

    :param nodes: nodes with their hosts.
    :param replication: requested number of HDFS replicas, which Hadoop keeps
        on different hosts.
    :returns: a sentence and its remedy; empty if there are enough hosts.
    """
    workers = [node for node in nodes if node.role == 'worker']
    hosts = {node.host for node in workers}
    if len(hosts) >= replication:
        return ''
    return (
        f'HDFS stores {len(hosts)} of {replication} replicas of each block: '
        f'the {format_noun(len(workers), "worker")} run on '
        f'{format_noun(len(hosts), "host")}, and Hadoop stores no two '
        'replicas of a block on one host. Create the cluster again without '
        '--workers, which uses all hosts, or with more workers.'
    )
