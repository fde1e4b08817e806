# SPDX-License-Identifier: Apache-2.0
"""From a configuration to a running stack: plan, publish, create, wait."""

import math
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from openstack.connection import Connection

from hvstack import errors, profiles
from hvstack.cloud import (
    flavors,
    hosts,
    keys,
    placement,
    quotas,
    ratios,
    servers,
    stacks,
    volumes,
)
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import environments, refusals, topology
from hvstack.cluster import hosts as bare
from hvstack.cluster.base import LOCAL_DROP_CACHES
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemons, osprofiles
from hvstack.hadoop.sizing import DEFAULT, NodeSizing, size_node
from hvstack.model.backends import refuse
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor, derive
from hvstack.model.host import HostProfile
from hvstack.model.slots import cluster_size
from hvstack.model.topology import Topology
from hvstack.progress import Progress


@dataclass(frozen=True)
class Plan:
    """Everything that is known of a cluster before anything is changed.

    :param providers: worker hosts' resource providers, UUID by name.
    :param workers: worker nodes in all.
    :param replication: min(3, worker hosts).
    :param environment: facts of the hosts that their guests cannot see.
    :param shared_kernel: the guests' page cache is this machine's.
    :param host_profiles: name and digest of the hosts' profile, by role.
    :param tuning: profile of Hadoop's settings.
    :param os_profile: of the nodes' operating system.
    :param volumes: of a worker, with storage ceph.
    :param volume_type: what their type says of itself.
    """

    configuration: Configuration
    worker: Flavor
    controller: Flavor
    providers: dict[str, str]
    workers: int
    replication: int
    backend: str
    sizing: NodeSizing
    environment: dict[str, Any] = field(default_factory=dict)
    shared_kernel: bool = False
    host_profiles: dict[str, dict[str, str]] = field(default_factory=dict)
    tuning: str = DEFAULT
    os_profile: str = osprofiles.DEFAULT
    volumes: Volumes = field(default_factory=Volumes)
    volume_type: dict[str, Any] = field(default_factory=dict)

    @property
    def ratios(self) -> dict[str, float]:
        """Ratios that Placement must have, by resource class."""
        return {
            'VCPU': self.configuration.cpu_ratio,
            'MEMORY_MB': self.configuration.ram_ratio,
        }

    def to_mapping(self) -> dict[str, Any]:
        """Return plain data, as ``--dry-run`` shows it."""
        return {
            'configuration': self.configuration.name,
            'backend': self.backend,
            'worker_hosts': sorted(self.providers),
            'workers': self.workers,
            'workers_per_host': self.configuration.instances,
            'replication': self.replication,
            'ratios': self.ratios,
            'tuning': self.tuning,
            'os_profile': self.os_profile,
            'worker_flavor': self.worker.to_mapping(),
            'controller_flavor': self.controller.to_mapping(),
        }


def plan(
    conn: Connection,
    configuration: Configuration,
    options: Any,
    replication: int | None = None,
    workers: int | None = None,
    tuning: str = DEFAULT,
    os_profile: str = osprofiles.DEFAULT,
    asked: Volumes | None = None,
) -> Plan:
    """Derive a cluster for a cloud and refuse what it cannot honour.

    Nothing is changed.

    :param conn: an administrator's.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :param replication: of HDFS; by default 3, or the number of worker hosts
        if that is less.
    :param workers: by default as many as the hosts have slots for.
    :param tuning: profile of Hadoop's settings.
    :param os_profile: of the nodes' operating system.
    :param asked: other volumes on Ceph than the usual ones.
    :raises hvstack.errors.InputError: the configuration does not fit the
        hosts or their backend, there are more replicas than hosts or more
        workers than slots, no such profiles or no such volume type.
    :raises hvstack.errors.CloudError: the hosts are not as the profile says.
    """
    osprofiles.settings(os_profile)
    profile = profiles.load(options.host_profile)
    chief = profiles.load(controller_profile(options))
    trait = profile.traits.get('worker')
    known = {one.name: one for one in hosts.hypervisors(conn)}
    providers = {
        name: uuid
        for name, uuid in placement.providers(conn, trait).items()
        if name in known and known[name].up
    }
    if not providers:
        raise errors.CloudError(
            f"no host for workers is up (profile '{profile.name}', trait "
            f"{trait or 'none'}): see 'openstack hypervisor list'"
        )
    refusals.disks(profile, configuration)
    backend = hosts.backend(
        [known[name] for name in providers], options.backend
    )
    refused = refuse(configuration, backend)
    if refused:
        raise errors.InputError(refused)
    worker = derive(
        profile,
        configuration,
        'worker',
        cpu_shares=profile.cpu_cap is not None,
    )
    controller = derive(
        chief,
        configuration,
        'controller',
        cpu_shares=chief.cpu_cap is not None,
    )
    slots = _workers(profile, configuration, len(providers))
    count = slots if workers is None else workers
    refusals.workers(count, slots, configuration, len(providers))
    worker_hosts = min(len(providers), count)
    replicas = min(3, worker_hosts) if replication is None else replication
    refusals.replication(replicas, worker_hosts)
    refusals.volumes(configuration, asked)
    on_ceph = (
        configuration.storage == 'ceph' and not configuration.disk_pinning
    )
    return Plan(
        configuration=configuration,
        worker=worker,
        controller=controller,
        providers=providers,
        workers=count,
        replication=replicas,
        backend=backend,
        sizing=size_node(worker.vcpus, worker.ram, tuning=tuning),
        environment=_environment(conn, profile, backend, known, providers),
        shared_kernel=backend == 'lxc' and profile.cpu_cap is not None,
        host_profiles={
            flavor.role: {'name': one.name, 'digest': one.digest}
            for flavor, one in ((worker, profile), (controller, chief))
        },
        tuning=tuning,
        os_profile=os_profile,
        volumes=asked or Volumes(),
        volume_type=(
            volumes.check(conn, asked or Volumes()) if on_ceph else {}
        ),
    )


def controller_profile(options: Any) -> str:
    """Return the profile of the controllers' hosts."""
    if options.controller_profile:
        return str(options.controller_profile)
    host = str(options.host_profile)
    return 'lab-controller' if host == 'lab-worker' else host


def _workers(
    profile: HostProfile, configuration: Configuration, hosts_up: int
) -> int:
    if profile.traits.get('worker'):
        # Only the workers' own hosts have the trait.
        return configuration.instances * hosts_up
    return cluster_size(
        profile, configuration, hosts_up, controllers='combined'
    ).workers


def _environment(
    conn: Connection,
    profile: HostProfile,
    backend: str,
    known: dict[str, hosts.Hypervisor],
    providers: dict[str, str],
) -> dict[str, Any]:
    found = hosts.versions(conn, [known[name] for name in providers])
    facts = {'backend': backend, **found}
    if profile.cpu_cap is not None and bare.LAB.exists():
        facts |= bare.environment(bare.read())
    return facts


def publish(
    admin: Connection, wanted: Plan, project_ids: list[str]
) -> dict[str, str]:
    """Publish a plan's flavors and return their ids by role.

    :raises hvstack.errors.CloudError: Nova refused.
    """
    return {
        flavor.role: flavors.publish(admin, flavor, project_ids).id
        for flavor in (wanted.worker, wanted.controller)
    }


def layout(
    wanted: Plan,
    flavor_ids: dict[str, str],
    *,
    image: str,
    network: str,
    key_name: str,
) -> environments.Layout:
    """Return what the template is to be told of a plan."""
    # Disks that are passed through come with the flavor, not as volumes.
    passed = 'pci_passthrough:alias' in wanted.worker.extra_specs
    disks, disk_gb = wanted.worker.disks, wanted.worker.disk_size_gb
    if wanted.volumes.count is not None:
        # As much room, on more or fewer volumes.
        disk_gb = disks * disk_gb // wanted.volumes.count
        disks = wanted.volumes.count
    return environments.Layout(
        configuration=wanted.configuration,
        worker_flavor=flavor_ids['worker'],
        controller_flavor=flavor_ids['controller'],
        sizing=wanted.sizing,
        tuning=wanted.tuning,
        os_profile=wanted.os_profile,
        node_setup=osprofiles.fragment(wanted.os_profile),
        controller_vcpus=wanted.controller.vcpus,
        workers=wanted.workers,
        workers_per_host=_per_host(wanted),
        replication=wanted.replication,
        image=image,
        network=network,
        key_name=key_name,
        disk_types=environments.disk_types(
            wanted.configuration, 0 if passed else disks, wanted.volumes.type
        ),
        disk_gb=disk_gb or 1,
        deployment=min(2, wanted.configuration.instances),
        # Bare metal, which figures are compared with, runs none.
        secondary_namenode=False,
    )


def _per_host(wanted: Plan) -> int:
    return max(
        wanted.configuration.instances,
        math.ceil(wanted.workers / len(wanted.providers)),
    )


def launch(
    admin: Connection,
    tenant: Connection,
    wanted: Plan,
    flavor_ids: dict[str, str],
    name: str,
    options: Any,
    progress: Progress | None = None,
) -> tuple[StackCluster, dict[str, Any]]:
    """Create a plan's stack, wait until Hadoop sees every worker.

    :param admin: looks at Placement; None of its rights make the stack.
    :param tenant: whose stack it is.
    :param name: of the stack: lower case letters, digits and dashes.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :returns: the cluster and the stack's outputs.
    :raises hvstack.errors.HVStackError: one of these failed; what was made
        is in the journal.
    """
    laid_out = layout(
        wanted,
        flavor_ids,
        image=options.image,
        network=options.network,
        key_name=name,
    )
    quotas.check(
        tenant, refusals.needs(laid_out, wanted.worker, wanted.controller)
    )
    key = keys.create(tenant, name)
    stack_id = stacks.create(
        tenant,
        name,
        environments.folder() / environments.TEMPLATE,
        environments.parameters(laid_out),
        environments.files(laid_out),
    )
    outputs = stacks.wait(
        tenant, stack_id, timeout=options.stack_timeout, progress=progress
    )
    ratios.check(admin, wanted.providers, wanted.ratios)
    cluster = StackCluster.from_outputs(
        outputs,
        key,
        name=name,
        processors=wanted.sizing.processors,
        ram_mib=wanted.worker.ram,
        environment=wanted.environment,
        seen=seen(admin, wanted, outputs),
        drop_command=LOCAL_DROP_CACHES if wanted.shared_kernel else None,
        tuning=wanted.tuning,
    )
    try:
        settle(
            cluster,
            topology.of_nodes(topology.nodes(tenant, outputs)),
            options.ready_timeout,
            progress,
        )
    except BaseException:
        cluster.close()
        raise
    return cluster, outputs


def settle(
    cluster: StackCluster,
    places: Topology,
    ready_timeout: float,
    progress: Progress | None = None,
) -> None:
    """Wait until Hadoop on a complete stack sees every worker in its place.

    :param places: the template knows no zones, and not the controller's own
        host.
    :param ready_timeout: seconds.
    :raises hvstack.errors.HVStackError: it does not.
    """
    if progress is not None:
        progress.say('  stack complete, waiting for HDFS and YARN')
    daemons.wait_ready(cluster, ready_timeout)
    topology.refresh(cluster, places, progress=progress)


def seen(
    admin: Connection, wanted: Plan, outputs: dict[str, Any]
) -> dict[str, Any]:
    """Return what Nova and Placement have while the cluster is there.

    All workers have one flavor: the first stands for them.
    """
    controller, workers = outputs['controller'], outputs['workers']
    ids = {one['name']: one['server_id'] for one in [controller, *workers]}
    on_ceph: dict[str, Any] = {}
    if wanted.volume_type:
        on_ceph['volumes'] = {
            'of_a_worker': wanted.volumes.count or wanted.worker.disks,
            **wanted.volume_type,
        }
        if found := volumes.pools(wanted.volume_type):
            on_ceph['ceph_pools'] = found
    return {
        **on_ceph,
        'hvstack': metadata.version('hvstack'),
        'host_profile': wanted.host_profiles,
        'flavor': {
            'worker': servers.flavor(admin, workers[0]['server_id']),
            'controller': servers.flavor(admin, controller['server_id']),
        },
        'inventory': placement.seen_inventories(admin, wanted.providers),
        'allocations': placement.allocations(admin, ids),
        'allocation_ratio': {
            'during': one_for_all(ratios.current(admin, wanted.providers))
        },
    }


def one_for_all(by_host: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return ratios once where all hosts have the same ones."""
    values = list(by_host.values())
    if all(value == values[0] for value in values):
        return dict(values[0])
    return dict(by_host)
