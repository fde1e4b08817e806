# SPDX-License-Identifier: Apache-2.0
"""Bare metal by Ironic: whole machines as a Heat stack of the same templates.

Nova knows all of Ironic's machines as one host, so each is a node group of
its own here, as hosts are that are taken without Nova.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import metadata

from openstack.connection import Connection

from hvstack import errors, share
from hvstack.cloud import (
    host_keys,
    keypairs,
    placement,
    servers,
    stack_times,
    stacks,
    undo,
)
from hvstack.cloud.stack_outputs import (
    OutputNode,
    StackOutputs,
    require_nodes,
)
from hvstack.cluster import (
    heat_environment,
    launch,
    probe,
    probe_gate,
    topology_refresh,
    validation,
)
from hvstack.cluster.base import ClusterFacts, Fact
from hvstack.cluster.plan import ClusterPlan
from hvstack.cluster.planner import MACHINE_CLASS
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.conf import CloudOptions
from hvstack.hadoop.daemon_http import run_on_nodes
from hvstack.progress import Progress
from hvstack.results.typed_json import JsonObject

#: The environment file that puts Ironic's machines in place of guests.
ENVIRONMENT = 'ironic.yaml'
#: What a hypervisor shares out, and Ironic does not.
_OF_GUESTS = {'VCPU', 'PCPU', 'MEMORY_MB'}
#: Machines are written, and boot twice at the pace of their firmware.
_DEPLOY_SECONDS = 3600
_READY_SECONDS = 900
#: Firmware and kernel keep a part of a machine's memory for themselves.
_MEMORY_OFF = 0.1


@dataclass
class MachineCluster(StackCluster):
    """A cluster of bare-metal machines that is a Heat stack of hvstack."""

    def environment(self) -> dict[str, Fact]:
        """Return the facts that must agree between comparable runs.

        Nothing stands between these nodes and their hardware.
        """
        return {
            'hosts': len(self.nodes),
            'worker_hosts': self.worker_hosts,
            **probe.facts(self.workers[0]),
            **probe.disks(self.workers).to_facts(),
            **self.facts.environment,
        }

    def observe(self) -> JsonObject:
        """Return the observed facts, not the requested ones."""
        result = probe_gate.measure(self.workers, self.processors, {})
        return {
            'workers': len(self.workers),
            'worker_hosts': self.worker_hosts,
            'host_vcpus': self.processors,
            'host_memory_mib': self.facts.ram_mib,
            'host_cpu_share': result.shares,
            'probe': result.facts,
            'caps': None,
            **self.facts.observed,
        }


@contextmanager
def acquire_machines(
    conn: Connection,
    plan: ClusterPlan,
    options: CloudOptions,
    progress: Progress,
) -> Iterator[MachineCluster]:
    """Take the machines and start Hadoop on them; give them back at the end.

    :param conn: an administrator's in the project that gets the stack: it
        looks at Placement, too.
    :raises hvstack.errors.HVStackError: the stack fails, or its nodes are no
        such machines; what was made is undone.
    """
    name = f'hv-bare-{secrets.token_hex(3)}'
    cluster = None
    failure: errors.HVStackError | None = None
    try:
        with progress.stage(f'bare metal: stack {name}'):
            outputs, access = _create(conn, plan, name, options, progress)
            cluster = _cluster(conn, plan, name, outputs, access)
            _start(conn, plan, cluster, outputs, options, progress)
        yield cluster
    except errors.HVStackError as exc:
        failure = exc
        raise
    finally:
        if cluster is not None:
            cluster.close()
        progress.say('bare metal: give the machines back')
        if failure is None:
            undo.undo_own([conn], progress)
        else:
            undo.undo_failed(failure, [conn], progress)


def _create(
    conn: Connection,
    plan: ClusterPlan,
    name: str,
    options: CloudOptions,
    progress: Progress,
) -> tuple[StackOutputs, SSHAccess]:
    """Create the stack; return its outputs and the access to its nodes."""
    access = SSHAccess.of(keypairs.DIRECTORY / name, options.ssh_config)
    keypairs.create(conn, name)
    plan = plan.with_key(name, plan.flavors.ids)
    template_dir = share.HEAT_TEMPLATES
    timeout = stack_times.compute_stack_seconds(
        max(options.stack_timeout, _DEPLOY_SECONDS),
        validation.needs(plan).instances,
    )
    stack_id = stacks.create(
        conn,
        name,
        template_dir / heat_environment.TEMPLATE,
        # With node groups, as every other cluster that is compared with it.
        heat_environment.parameters(plan),
        [
            *heat_environment.files(plan),
            template_dir / 'environments' / ENVIRONMENT,
        ],
        timeout=timeout,
    )
    outputs = stacks.wait(conn, stack_id, timeout=timeout, progress=progress)
    return outputs, access


def _start(
    conn: Connection,
    plan: ClusterPlan,
    cluster: MachineCluster,
    outputs: StackOutputs,
    options: CloudOptions,
    progress: Progress,
) -> None:
    """Check the machines, and wait until Hadoop on them is ready.

    A machine that Heat deployed again has another host key.
    """

    def start() -> None:
        _check(cluster)
        launch.wait_until_ready(
            cluster,
            topology_refresh.of_nodes(
                [
                    replace(node, host=node.name)
                    for node in topology_refresh.nodes(conn, outputs)
                ]
            ),
            stack_times.compute_ready_seconds(
                max(options.ready_timeout, _READY_SECONDS),
                len(cluster.nodes),
            ),
            progress,
            controllers_first=heat_environment.controllers_first(plan),
        )

    launch.retry_with_new_host_keys(conn, cluster.name, start, _READY_SECONDS)


def _cluster(
    conn: Connection,
    plan: ClusterPlan,
    name: str,
    outputs: StackOutputs,
    access: SSHAccess,
) -> MachineCluster:
    controllers = require_nodes(outputs, 'controller')
    workers = require_nodes(outputs, 'workers')
    ids = {node.name: node.server_id for node in (*controllers, *workers)}
    allocations = placement.allocations(conn, ids)
    for node, resources in allocations.items():
        custom = {
            resource_class
            for resource_class in resources
            if resource_class.startswith(MACHINE_CLASS)
        }
        # A guest may have a class of an operator's own besides.
        if not custom or _OF_GUESTS & set(resources):
            raise errors.CloudError(
                f'Cannot measure bare metal on {node}: its server uses '
                f'{", ".join(sorted(resources)) or "nothing"} of the host and '
                'is not an Ironic node, but a guest. Use a flavor with a '
                'resource class of Ironic.'
            )
    # Nova has all machines on one host: each is its own here.
    own: JsonObject = {
        'controller': _alone(controllers[0]),
        'workers': [_alone(worker) for worker in workers],
    }
    return MachineCluster.from_outputs(
        own,
        access,
        name=name,
        processors=plan.flavors.worker.vcpus,
        facts=ClusterFacts(
            observed={
                'hvstack': metadata.version('hvstack'),
                'flavor': {
                    'worker': asdict(
                        servers.flavor(conn, workers[0].server_id)
                    ),
                    'controller': asdict(
                        servers.flavor(conn, controllers[0].server_id)
                    ),
                },
                'allocations': allocations,
            },
            ram_mib=plan.flavors.worker.ram,
        ),
        tuning=plan.spec.tuning,
        console=host_keys.console_of(conn),
        console_timeout=_READY_SECONDS,
    )


def _alone(node: OutputNode) -> JsonObject:
    return asdict(replace(node, host_id=node.name))


def _check(cluster: MachineCluster) -> None:
    """Hold machines against their flavor, by which Hadoop was sized.

    :raises hvstack.errors.CloudError: a worker has other CPUs or memory.
    """
    memory = probe.memory(cluster.workers)
    counts = run_on_nodes(cluster.workers, 'nproc', timeout=60)
    for node, result in zip(cluster.workers, counts, strict=True):
        cpus, mib = int(result.stdout), memory[node.name]
        off = abs(mib / cluster.facts.ram_mib - 1)
        if cpus != cluster.processors or off > _MEMORY_OFF:
            raise errors.CloudError(
                f'Cannot measure bare metal on {node.name}: it has {cpus} '
                f'CPUs and {mib} MiB, but its flavor has {cluster.processors} '
                f'CPUs and {cluster.facts.ram_mib} MiB, which determine the '
                'settings of Hadoop. Set the CPUs and the memory of the '
                'Ironic node in the flavor.'
            )
