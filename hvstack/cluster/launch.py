# SPDX-License-Identifier: Apache-2.0
"""From a configuration to a running stack: plan, publish, create, wait."""

import math
from dataclasses import dataclass, field
from importlib import metadata
from itertools import chain
from typing import Any

from openstack.connection import Connection

from hvstack import errors, host_profiles, share
from hvstack.cloud import (
    allocation_ratios,
    cluster_flavors,
    credentials,
    host_keys,
    hypervisors,
    keypairs,
    placement,
    quotas,
    servers,
    stacks,
    volumes,
)
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import bare_metal as bare
from hvstack.cluster import (
    heat_environment,
    probe,
    topology_refresh,
    validation,
)
from hvstack.cluster.base import LOCAL_DROP_CACHES
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemons, os_profiles
from hvstack.hadoop.sizing import DEFAULT, NodeSizing, size_node
from hvstack.model.cluster_size import compute_cluster_size
from hvstack.model.compute_backends import (
    timeout_factor,
    unsupported_parameter,
)
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor, derive_flavor
from hvstack.model.host import HostProfile
from hvstack.model.topology import Topology
from hvstack.progress import Progress
from hvstack.results.comparability import HOST_FACTS

#: Of a flavor whose disks are a host's own, passed through.
_PASSED = 'pci_passthrough:alias'
#: Until then nodes have told Heat what is wrong (readiness_timeout).
_SIGNAL_SECONDS = 900


@dataclass(frozen=True)
class Plan:
    """Everything that is known of a cluster before anything is changed.

    :param providers: worker hosts' resource providers, UUID by name.
    :param workers: worker nodes in all; those with a DataNode, where there
        are compute workers beside them.
    :param replication: min(3, worker hosts).
    :param environment: facts of the hosts that their guests cannot see.
    :param shared_kernel: the guests' page cache is this machine's.
    :param host_profiles: name and digest of the hosts' profile, by role.
    :param tuning: profile of Hadoop's settings.
    :param os_profile: of the nodes' operating system.
    :param controllers: ``combined`` or ``separate``.
    :param deployment: of the HVE paper; None for 1 or 2, by the instances.
    :param compute_workers: nodes with a NodeManager alone, in all.
    :param controller_slots: of the workers' hosts that each controller
        takes; 0 where it has a host of its own.
    :param namenode_handlers: ``dfs.namenode.handler.count``, None for the
        tuning's.
    :param secondary_namenode: one on the first worker.
    :param gateway: a node of its own for clients; else they are served by
        the controller.
    :param readiness: nodes tell Heat when their daemons run.
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
    os_profile: str = os_profiles.DEFAULT
    controllers: str = heat_environment.CONTROLLERS[0]
    deployment: int | None = None
    compute_workers: int = 0
    controller_slots: int = 0
    namenode_handlers: int | None = None
    secondary_namenode: bool = False
    gateway: bool = False
    readiness: bool = False
    volumes: Volumes = field(default_factory=Volumes)
    volume_type: dict[str, Any] = field(default_factory=dict)

    @property
    def shares(self) -> tuple[int, int]:
        """Slots of a host for workers, and for compute workers beside them."""
        return _shares(self.configuration.instances, self.deployment)

    @property
    def controllers_first(self) -> bool:
        """Whether controllers come first, since they may else find no host.

        Workers leave single slots on many hosts.
        """
        return (
            self.controllers == 'separate'
            or self.compute_workers > 0
            or self.controller_slots > 1
        )

    @property
    def ratios(self) -> dict[str, float]:
        """Ratios that Placement must have, by resource class."""
        return {
            'VCPU': self.configuration.cpu_ratio,
            'MEMORY_MB': self.configuration.ram_ratio,
        }

    @property
    def shared(self) -> bool:
        """Whether its guests take VCPU, not PCPU."""
        return self.configuration.cpu_policy == 'shared'

    def to_mapping(self) -> dict[str, Any]:
        """Return plain data, as ``--dry-run`` shows it."""
        return {
            'configuration': self.configuration.name,
            'backend': self.backend,
            'worker_hosts': sorted(self.providers),
            'controllers': self.controllers,
            'deployment': self.deployment
            or min(2, self.configuration.instances),
            'workers': self.workers,
            'workers_per_host': self.shares[0],
            'compute_workers': self.compute_workers,
            'compute_per_host': self.shares[1],
            'replication': self.replication,
            'secondary_namenode': self.secondary_namenode,
            'gateway': 'its own node' if self.gateway else 'controller',
            'readiness': self.readiness,
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
    os_profile: str = os_profiles.DEFAULT,
    *,
    controllers: str = heat_environment.CONTROLLERS[0],
    deployment: int | None = None,
    namenode_handlers: int | None = None,
    secondary_namenode: bool | None = False,
    gateway: bool = False,
    readiness: bool = False,
    requested_volumes: Volumes | None = None,
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
    :param controllers: one of :data:`environments.CONTROLLERS`.
    :param deployment: of the HVE paper, 1 to 4; by default 1 or 2. In 3 a
        host's slots are one data worker's and compute workers', in 4 half
        and half; compute workers fill all of theirs.
    :param namenode_handlers: ``dfs.namenode.handler.count`` instead of the
        tuning's.
    :param secondary_namenode: one on the first worker; None for the papers'
        way, which is that, but on the lab, where memory is short. Bare
        metal, which figures are compared with, runs none.
    :param gateway: take a node more, for clients; on the lab only where
        the workers leave a slot.
    :param readiness: have nodes tell Heat when their daemons run.
    :param requested_volumes: other volumes on Ceph than the usual ones.
    :raises hvstack.errors.InputError: the configuration does not fit the
        hosts, their backend or the deployment, there are more replicas than
        hosts or more workers than slots, no such profiles or no such volume
        type.
    :raises hvstack.errors.CloudError: the hosts are not as the profile says.
    """
    os_profiles.settings(os_profile)
    profile = host_profiles.load(options.host_profile)
    controller_host_profile = host_profiles.load(controller_profile(options))
    trait = profile.traits.get('worker')
    hypervisors_by_name = {
        hypervisor.name: hypervisor
        for hypervisor in hypervisors.hypervisors(conn)
    }
    providers = {
        name: uuid
        for name, uuid in placement.providers(conn, trait).items()
        if name in hypervisors_by_name and hypervisors_by_name[name].up
    }
    if not providers:
        raise errors.CloudError(
            f"no host for workers is up (profile '{profile.name}', trait "
            f"{trait or 'none'}): see 'openstack hypervisor list'"
        )
    validation.disks(profile, configuration)
    if deployment is not None:
        validation.deployment(deployment, configuration)
    if controllers == 'separate':
        able = placement.providers(
            conn, controller_host_profile.traits.get('controller')
        )
        up = sum(
            name in hypervisors_by_name and hypervisors_by_name[name].up
            for name in able
        )
        validation.controllers(controllers, up, controller_host_profile)
    backend = hypervisors.backend(
        [hypervisors_by_name[name] for name in providers],
        options.backend or bare.lab_backend(profile),
    )
    refused = unsupported_parameter(configuration, backend)
    if refused:
        raise errors.InputError(refused)
    worker = derive_flavor(
        profile,
        configuration,
        'worker',
        cpu_shares=profile.cpu_cap is not None,
    )
    controller = derive_flavor(
        controller_host_profile,
        configuration,
        'controller',
        cpu_shares=controller_host_profile.cpu_cap is not None,
    )
    room = _room(
        profile, configuration, len(providers), controllers, deployment
    )
    slots = room.workers
    if gateway and profile.cpu_cap is not None:
        # The lab: workers before clients.
        gateway = workers is not None and workers < slots
    slots -= gateway
    count = slots if workers is None else workers
    validation.workers(count, slots, configuration, len(providers))
    worker_hosts = min(room.hosts, count)
    replicas = min(3, worker_hosts) if replication is None else replication
    validation.replication(replicas, worker_hosts)
    validation.volumes(configuration, requested_volumes)
    on_ceph = (
        configuration.storage == 'ceph' and not configuration.disk_pinning
    )
    cluster_plan = Plan(
        configuration=configuration,
        worker=worker,
        controller=controller,
        providers=providers,
        workers=count,
        replication=replicas,
        backend=backend,
        sizing=size_node(worker.vcpus, worker.ram, tuning=tuning),
        environment=_environment(
            conn, profile, backend, hypervisors_by_name, providers
        ),
        shared_kernel=backend == 'lxc' and profile.cpu_cap is not None,
        host_profiles={
            flavor.role: {
                'name': host_profile.name,
                'digest': host_profile.digest,
            }
            for flavor, host_profile in (
                (worker, profile),
                (controller, controller_host_profile),
            )
        },
        tuning=tuning,
        os_profile=os_profile,
        controllers=controllers,
        deployment=deployment,
        compute_workers=room.compute,
        controller_slots=room.controller_slots,
        namenode_handlers=namenode_handlers,
        secondary_namenode=(
            profile.cpu_cap is None
            if secondary_namenode is None
            else secondary_namenode
        ),
        gateway=gateway,
        readiness=readiness,
        volumes=requested_volumes or Volumes(),
        volume_type=(
            volumes.check(conn, requested_volumes or Volumes())
            if on_ceph
            else {}
        ),
    )
    validation.readiness(readiness, cluster_plan.controllers_first)
    return cluster_plan


def controller_profile(options: Any) -> str:
    """Return the profile of the controllers' hosts."""
    if options.controller_profile:
        return str(options.controller_profile)
    host = str(options.host_profile)
    return 'lab-controller' if host == 'lab-worker' else host


def _shares(instances: int, deployment: int | None) -> tuple[int, int]:
    """Return a host's slots for workers, and for compute workers."""
    if deployment == 3:
        return 1, instances - 1
    if deployment == 4:
        return instances - instances // 2, instances // 2
    return instances, 0


@dataclass(frozen=True)
class _Room:
    """What there is room for beside the controllers.

    :param workers: most of them.
    :param hosts: that carry them then.
    :param compute: compute workers.
    :param controller_slots: that each controller takes of these hosts'.
    """

    workers: int
    hosts: int
    compute: int = 0
    controller_slots: int = 0


def _room(
    profile: HostProfile,
    configuration: Configuration,
    hosts_up: int,
    controllers: str,
    deployment: int | None,
) -> _Room:
    nodes = 1 if controllers == 'combined' else 2
    slots, compute = _shares(configuration.instances, deployment)
    if profile.traits.get('worker') or compute:
        # Only the workers' own hosts have the trait. Without it, controllers
        # come first, and as many hosts' slots are left to them: in what is
        # left of these the scheduler may mix both kinds of workers.
        if not profile.traits.get('worker'):
            hosts_up = max(0, hosts_up - nodes)
        return _Room(slots * hosts_up, hosts_up, compute * hosts_up)
    size = compute_cluster_size(
        profile, configuration, hosts_up, controllers='combined'
    )
    controller_slots = size.slots_per_controller
    return _Room(
        size.workers - (nodes - 1) * controller_slots,
        hosts_up - nodes * (controller_slots == configuration.instances),
        controller_slots=controller_slots,
    )


def _environment(
    conn: Connection,
    profile: HostProfile,
    backend: str,
    hypervisors_by_name: dict[str, hypervisors.Hypervisor],
    providers: dict[str, str],
) -> dict[str, Any]:
    versions = hypervisors.versions(
        conn, [hypervisors_by_name[name] for name in providers]
    )
    facts = {'backend': backend, **versions}
    if profile.cpu_cap is not None and bare.LAB.exists():
        facts |= bare.environment(bare.read(bare.LAB))
        own = probe.host(bare.lab_machine())
        # Containers see the hosts' hardware themselves.
        skip = HOST_FACTS if backend == 'lxc' else ()
        facts |= {k: own[k] for k in own if k not in skip}
    return facts


def publish(
    admin: Connection, cluster_plan: Plan, project_ids: list[str]
) -> dict[str, str]:
    """Publish a plan's flavors and return their ids by role.

    :raises hvstack.errors.CloudError: Nova refused.
    """
    return {
        flavor.role: cluster_flavors.publish(admin, flavor, project_ids).id
        for flavor in (cluster_plan.worker, cluster_plan.controller)
    }


def layout(
    cluster_plan: Plan,
    flavor_ids: dict[str, str],
    *,
    image: str,
    network: str,
    key_name: str,
    host_keys: bool = True,
) -> heat_environment.Layout:
    """Return what the template is to be told of a plan.

    :param host_keys: see :class:`hvstack.cluster.heat_environment.Layout`.
    """
    # Disks that are passed through come with the flavor, not as volumes.
    passed = _PASSED in cluster_plan.worker.extra_specs
    disks, disk_gb = (
        cluster_plan.worker.disks,
        cluster_plan.worker.disk_size_gb,
    )
    if cluster_plan.volumes.count is not None:
        # As much room, on more or fewer volumes.
        disk_gb = disks * disk_gb // cluster_plan.volumes.count
        disks = cluster_plan.volumes.count
    return heat_environment.Layout(
        configuration=cluster_plan.configuration,
        worker_flavor=flavor_ids['worker'],
        controller_flavor=flavor_ids['controller'],
        sizing=cluster_plan.sizing,
        tuning=cluster_plan.tuning,
        os_profile=cluster_plan.os_profile,
        node_setup=os_profiles.fragment(cluster_plan.os_profile),
        controller_vcpus=cluster_plan.controller.vcpus,
        workers=cluster_plan.workers,
        workers_per_host=max(
            cluster_plan.shares[0],
            math.ceil(cluster_plan.workers / len(cluster_plan.providers)),
        ),
        replication=cluster_plan.replication,
        image=image,
        network=network,
        key_name=key_name,
        disk_types=heat_environment.disk_types(
            cluster_plan.configuration,
            0 if passed else disks,
            cluster_plan.volumes.type,
        ),
        disk_gb=disk_gb or 1,
        deployment=cluster_plan.deployment
        or min(2, cluster_plan.configuration.instances),
        controllers=cluster_plan.controllers,
        controllers_first=cluster_plan.controllers_first,
        compute_workers=cluster_plan.compute_workers,
        compute_per_host=max(1, cluster_plan.shares[1]),
        compute_flavor=flavor_ids['worker']
        if cluster_plan.compute_workers
        else '',
        namenode_handlers=cluster_plan.namenode_handlers,
        gateway=cluster_plan.gateway,
        readiness=cluster_plan.readiness,
        secondary_namenode=cluster_plan.secondary_namenode,
        host_keys=host_keys,
    )


def check(tenant: Connection, cluster_plan: Plan, options: Any) -> None:
    """Refuse a plan that its project has no room for; change nothing.

    :param tenant: whose stack it is.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :raises hvstack.errors.InputError: a quota or Heat's limit is too small,
        user data would be too large, there is no such image, no such volume
        types, or the credential cannot create a stack.
    :raises hvstack.errors.MissingPrerequisite: volumes without Cinder.
    """
    credentials.check(tenant, options)
    flavor_ids = {
        flavor.role: flavor.name
        for flavor in (cluster_plan.worker, cluster_plan.controller)
    }
    laid_out = layout(
        cluster_plan,
        flavor_ids,
        image=options.image,
        network=options.network,
        key_name='',
        host_keys=options.host_key_source == 'heat',
    )
    validation.readiness(
        cluster_plan.readiness, heat_environment.controllers_first(laid_out)
    )
    validation.stack(laid_out, options.max_resources_per_stack)
    stacks.refuse_user_data(heat_environment.parameters(laid_out))
    servers.image(tenant, options.image)
    volumes.refuse_unknown(tenant, chain(*laid_out.disk_types))
    quotas.check(
        tenant,
        validation.needs(
            laid_out, cluster_plan.worker, cluster_plan.controller
        ),
    )


def launch(
    admin: Connection,
    tenant: Connection,
    cluster_plan: Plan,
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
    check(tenant, cluster_plan, options)
    laid_out = layout(
        cluster_plan,
        flavor_ids,
        image=options.image,
        network=options.network,
        key_name=name,
        host_keys=options.host_key_source == 'heat',
    )
    key = keypairs.create(tenant, name)
    longer = timeout_factor(cluster_plan.backend)
    stack_id = stacks.create(
        tenant,
        name,
        share.HEAT_TEMPLATES / heat_environment.TEMPLATE,
        heat_environment.parameters(laid_out),
        heat_environment.files(laid_out),
    )
    outputs = stacks.wait(
        tenant,
        stack_id,
        timeout=longer * options.stack_timeout
        + (
            _SIGNAL_SECONDS
            if cluster_plan.readiness or laid_out.host_keys
            else 0
        ),
        progress=progress,
    )
    allocation_ratios.check(
        admin,
        cluster_plan.providers,
        cluster_plan.ratios,
        shared=cluster_plan.shared,
    )
    observed = observe_cloud(admin, cluster_plan, outputs)
    cluster = StackCluster.from_outputs(
        outputs,
        key,
        name=name,
        processors=cluster_plan.sizing.processors,
        ram_mib=cluster_plan.worker.ram,
        environment=cluster_plan.environment | storage(cluster_plan, observed),
        observed=observed,
        drop_command=LOCAL_DROP_CACHES if cluster_plan.shared_kernel else None,
        tuning=cluster_plan.tuning,
        console=host_keys.console_of(tenant),
        console_timeout=longer * options.ready_timeout,
    )
    try:
        wait_until_ready(
            cluster,
            topology_refresh.of_nodes(topology_refresh.nodes(tenant, outputs)),
            longer * options.ready_timeout,
            progress,
            controllers_first=heat_environment.controllers_first(laid_out),
        )
    except BaseException:
        cluster.close()
        raise
    return cluster, outputs


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
    if controllers_first:
        topology_refresh.provide_topology(
            cluster, expected_topology, ready_timeout
        )
    daemons.wait_ready(cluster, ready_timeout)
    topology_refresh.refresh(cluster, expected_topology, progress=progress)


def storage(cluster_plan: Plan, observed: dict[str, Any]) -> dict[str, Any]:
    """Return how data disks are reached that are none of the guest's own.

    :param observed: of :func:`observe_cloud`.
    """
    if _PASSED in cluster_plan.worker.extra_specs:
        return {'storage': 'PCI pass-through'}
    protocols = {
        backend['protocol'] for backend in observed.get('volume_backends', ())
    }
    return {'storage': ', '.join(sorted(protocols))} if protocols else {}


def observe_cloud(
    admin: Connection, cluster_plan: Plan, outputs: dict[str, Any]
) -> dict[str, Any]:
    """Return what Nova and Placement have while the cluster is there.

    All workers have one flavor, and all controllers: the first stands for
    them.
    """
    controller, workers = outputs['controller'], outputs['workers']
    other = outputs.get('resourcemanager')
    nodes = [
        *(controller, *([other] if other else [])),
        *(*workers, *(outputs.get('compute') or [])),
    ]
    ids = {node['name']: node['server_id'] for node in nodes}
    on_ceph: dict[str, Any] = {}
    if cluster_plan.volume_type:
        on_ceph['volumes'] = {
            'of_a_worker': cluster_plan.volumes.count
            or cluster_plan.worker.disks,
            **cluster_plan.volume_type,
        }
        if pools := volumes.pools(cluster_plan.volume_type):
            on_ceph['ceph_pools'] = pools
    configuration = cluster_plan.configuration
    if _PASSED not in cluster_plan.worker.extra_specs and (
        configuration.storage == 'ceph' or configuration.disk_pinning
    ):
        on_ceph['volume_backends'] = volumes.backends(
            admin, [worker['server_id'] for worker in workers]
        )
    return {
        **on_ceph,
        'hvstack': metadata.version('hvstack'),
        'host_profile': cluster_plan.host_profiles,
        'flavor': {
            'worker': servers.flavor(admin, workers[0]['server_id']),
            'controller': servers.flavor(admin, controller['server_id']),
        },
        'inventory': placement.seen_inventories(admin, cluster_plan.providers),
        'allocations': placement.allocations(admin, ids),
        'allocation_ratio': {
            'during': one_for_all(
                allocation_ratios.current(admin, cluster_plan.providers)
            )
        },
    }


def one_for_all(by_host: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return ratios once where all hosts have the same ones."""
    values = list(by_host.values())
    if all(value == values[0] for value in values):
        return dict(values[0])
    return dict(by_host)
