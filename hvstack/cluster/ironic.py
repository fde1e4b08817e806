# SPDX-License-Identifier: Apache-2.0
"""Bare metal by Ironic: whole machines as a Heat stack of the same templates.

Nova knows all of Ironic's machines as one host, so each is a node group of
its own here, as hosts are that are taken without Nova.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any

from openstack.connection import Connection

from hvstack import errors, share
from hvstack.cloud import (
    cluster_flavors,
    host_keys,
    keypairs,
    placement,
    quotas,
    servers,
    stacks,
    undo,
)
from hvstack.cluster import (
    heat_environment,
    launch,
    probe,
    topology_refresh,
    validation,
)
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import os_profiles, sizing
from hvstack.hadoop.daemon_http import run_on_nodes
from hvstack.model.configuration import Configuration
from hvstack.progress import Progress

#: The environment file that puts Ironic's machines in place of guests.
ENVIRONMENT = 'ironic.yaml'
#: Resource classes of machines: Ironic's, and any of an operator's own.
_CLASS = 'CUSTOM_'
#: What a hypervisor shares out, and Ironic does not.
_OF_GUESTS = {'VCPU', 'PCPU', 'MEMORY_MB'}
#: Machines are written, and boot twice at the pace of their firmware.
_DEPLOY_SECONDS = 3600
_READY_SECONDS = 900
#: Firmware and kernel keep a part of a machine's memory for themselves.
_MEMORY_OFF = 0.1


@dataclass(frozen=True)
class Machines:
    """What is known before a machine is taken.

    :param layout: what the template is told.
    :param vcpus: CPUs of a worker, as its flavor says.
    :param ram: its MiB, likewise.
    """

    layout: heat_environment.Layout
    vcpus: int
    ram: int


@dataclass
class MachineCluster(StackCluster):
    """A cluster of bare-metal machines that is a Heat stack of ours."""

    evidence: dict[str, Any] = field(default_factory=dict)

    def environment(self) -> dict[str, Any]:
        """Return what must agree between comparable runs.

        Nothing stands between these nodes and their hardware.
        """
        return {
            'hosts': len(self.nodes),
            'worker_hosts': self.worker_hosts,
            **probe.facts(self.workers[0]),
            **self.external_facts,
        }

    def observe(self) -> dict[str, Any]:
        """Return what is observed, not what was asked for."""
        return {
            'workers': len(self.workers),
            'worker_hosts': self.worker_hosts,
            'host_vcpus': self.processors,
            'host_memory_mib': self.ram_mib,
            'host_cpu_share': probe.cpu_shares(self.workers, self.processors),
            'caps': None,
            **self.evidence,
        }


def plan(
    conn: Connection,
    flavor: str,
    workers: int,
    *,
    options: Any,
    controller_flavor: str | None = None,
    image: str | None = None,
    replication: int | None = None,
    tuning: str = sizing.DEFAULT,
    os_profile: str = os_profiles.DEFAULT,
) -> Machines:
    """Size a cluster of machines and refuse what cannot be.

    Nothing is changed.

    :param conn: of the project that gets the stack.
    :param flavor: name or id of the workers'.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :param controller_flavor: the workers' by default.
    :param image: for machines, where the guests' does not boot on them.
    :param replication: of HDFS, min(3, workers) by default.
    :raises hvstack.errors.InputError: no such flavor, or one of guests; more
        replicas than workers; no room in the project's quotas.
    """
    if workers < 1:
        raise errors.InputError(f'--workers is {workers}: give 1 or more')
    worker = _machine(conn, flavor)
    controller = _machine(conn, controller_flavor or flavor)
    copies = min(3, workers) if replication is None else replication
    validation.replication(copies, workers)
    layout = heat_environment.Layout(
        configuration=Configuration(),
        worker_flavor=worker.id,
        controller_flavor=controller.id,
        sizing=sizing.size_node(
            worker.vcpus, worker.ram, tuning=tuning, native=True
        ),
        tuning=tuning,
        os_profile=os_profile,
        node_setup=os_profiles.fragment(os_profile),
        controller_vcpus=controller.vcpus,
        workers=workers,
        workers_per_host=1,
        replication=copies,
        image=image or options.image,
        network=options.network,
        key_name='',
        host_keys=options.host_key_source == 'heat',
        # Hosts that are taken without Nova run none either.
        secondary_namenode=False,
    )
    # Machines are in no server group.
    needed = validation.needs(layout, worker, controller)
    quotas.check(
        conn, replace(needed, server_groups=0, server_group_members=0)
    )
    return Machines(layout, worker.vcpus, worker.ram)


def _machine(conn: Connection, name: str) -> Any:
    """Return a flavor that takes a whole machine.

    :raises hvstack.errors.InputError: it would be a guest: no bare metal.
    """
    flavor = cluster_flavors.visible(conn, name)
    specs = flavor.extra_specs or {}
    if not any(
        key.startswith(f'resources:{_CLASS}') and value == '1'
        for key, value in specs.items()
    ):
        raise errors.InputError(
            f"flavor '{flavor.name}' takes no machine of Ironic's: its "
            'servers would be guests; take one with '
            "'resources:CUSTOM_<resource "
            'class>=1\' (Ironic, "Create flavors for use with the Bare Metal '
            'service")'
        )
    return flavor


@contextmanager
def acquire_machines(
    conn: Connection, machines: Machines, options: Any, progress: Progress
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
            outputs, key = _create(conn, machines, name, options, progress)
            cluster = _cluster(conn, machines, name, outputs, key)
            _check(cluster)
            launch.wait_until_ready(
                cluster,
                topology_refresh.of_nodes(
                    [
                        replace(node, host=node.name)
                        for node in topology_refresh.nodes(conn, outputs)
                    ]
                ),
                max(options.ready_timeout, _READY_SECONDS),
                progress,
                controllers_first=heat_environment.controllers_first(
                    machines.layout
                ),
            )
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
    machines: Machines,
    name: str,
    options: Any,
    progress: Progress,
) -> tuple[dict[str, Any], Any]:
    """Create the stack; return its outputs and the private key's file."""
    key = keypairs.create(conn, name)
    layout = replace(machines.layout, key_name=name)
    template_dir = share.HEAT_TEMPLATES
    stack_id = stacks.create(
        conn,
        name,
        template_dir / heat_environment.TEMPLATE,
        # With node groups, as every other cluster that is compared with it.
        heat_environment.parameters(layout),
        [
            *heat_environment.files(layout),
            template_dir / 'environments' / ENVIRONMENT,
        ],
    )
    outputs = stacks.wait(
        conn,
        stack_id,
        timeout=max(options.stack_timeout, _DEPLOY_SECONDS),
        progress=progress,
    )
    return outputs, key


def _cluster(
    conn: Connection,
    machines: Machines,
    name: str,
    outputs: Mapping[str, Any],
    key: Any,
) -> MachineCluster:
    nodes = [outputs['controller'], *outputs['workers']]
    ids = {node['name']: node['server_id'] for node in nodes}
    allocations = placement.allocations(conn, ids)
    for node, resources in allocations.items():
        custom = {
            resource_class
            for resource_class in resources
            if resource_class.startswith(_CLASS)
        }
        # A guest may have a class of an operator's own besides.
        if not custom or _OF_GUESTS & set(resources):
            raise errors.CloudError(
                f'{node} takes {", ".join(sorted(resources)) or "nothing"} of '
                "its host, no machine of Ironic's: it is a guest, and no "
                'bare metal'
            )
    # Nova has all machines on one host: each is its own here.
    own = {
        'controller': _alone(outputs['controller']),
        'workers': [_alone(worker) for worker in outputs['workers']],
    }
    cluster = MachineCluster.from_outputs(
        own,
        key,
        name=name,
        processors=machines.vcpus,
        ram_mib=machines.ram,
        tuning=machines.layout.tuning,
        console=host_keys.console_of(conn),
        console_timeout=_READY_SECONDS,
    )
    cluster.evidence = {
        'hvstack': metadata.version('hvstack'),
        'flavor': {
            'worker': servers.flavor(conn, ids[outputs['workers'][0]['name']]),
            'controller': servers.flavor(conn, nodes[0]['server_id']),
        },
        'allocations': allocations,
    }
    return cluster


def _alone(node: Mapping[str, Any]) -> dict[str, Any]:
    return {**node, 'host_id': node['name']}


def _check(cluster: MachineCluster) -> None:
    """Hold machines against their flavor, by which Hadoop was sized.

    :raises hvstack.errors.CloudError: a worker has other CPUs or memory.
    """
    memory = probe.memory(cluster.workers)
    counts = run_on_nodes(cluster.workers, 'nproc', timeout=60)
    for node, result in zip(cluster.workers, counts, strict=True):
        cpus, mib = int(result.stdout), memory[node.name]
        off = abs(mib / cluster.ram_mib - 1)
        if cpus != cluster.processors or off > _MEMORY_OFF:
            raise errors.CloudError(
                f'{node.name} has {cpus} CPUs and {mib} MiB, its flavor says '
                f'{cluster.processors} and {cluster.ram_mib}: Hadoop is sized '
                "by the flavor, give it the machine's"
            )
