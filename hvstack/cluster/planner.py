# SPDX-License-Identifier: Apache-2.0
"""Planning of clusters: the rules between a specification and a plan.

The hosts are known to an operator (:func:`plan_cluster`), described by a user
without admin rights (:func:`plan_with_flavors`), or whole machines of Ironic
(:func:`plan_machines`). Nothing is changed.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from openstack.compute.v2.flavor import Flavor as NovaFlavor
from openstack.connection import Connection

from hvstack import errors, host_profiles
from hvstack.cloud import (
    credentials,
    hypervisors,
    nova_flavors,
    quotas,
    servers,
    stack_times,
    stateless_groups,
    user_data,
    volumes,
    zones,
)
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import (
    baseline_hosts,
    heat_environment,
    node_counts,
    validation,
    worker_hosts,
)
from hvstack.cluster.plan import (
    ClusterDisks,
    ClusterFlavors,
    ClusterHosts,
    ClusterPlan,
    ClusterSpec,
    NodeCounts,
    ProjectResources,
    SharedHDFS,
    StackResources,
)
from hvstack.conf import CloudOptions
from hvstack.hadoop import os_profiles
from hvstack.hadoop.hdfs_heaps import HDFSCapacity
from hvstack.hadoop.sizing import NodeSizing, add_hdfs_heaps, size_node
from hvstack.model import pinned_disks
from hvstack.model.compute_backends import unsupported_parameter
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor, derive_flavor
from hvstack.model.host import HostProfile
from hvstack.model.vnics import MACVTAP, NORMAL

#: Beginning of the resource classes of whole machines: Ironic's, and any of
#: an operator.
MACHINE_CLASS = 'CUSTOM_'


def plan_cluster(
    conn: Connection, spec: ClusterSpec, options: CloudOptions
) -> ClusterPlan:
    """Plan a cluster whose flavors hvstack derives and publishes.

    :param conn: connection of an administrator.
    :param spec: requested cluster.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :raises hvstack.errors.InputError: the configuration does not fit the
        hosts, their compute backend or the deployment, there are more
        replicas than hosts or more workers than slots, or a profile, the
        volume type or the network for macvtap does not exist, or the cloud
        has no stateless security groups.
    :raises hvstack.errors.CloudError: the hosts differ from the host profile.
    """
    configuration = spec.configuration
    os_profiles.settings(spec.os_profile)
    profile = host_profiles.load(options.host_profile)
    profiles = {
        'worker': profile,
        'controller': host_profiles.load(get_controller_profile(options)),
    }
    up = worker_hosts.list_up(conn, _get_zone(spec, options))
    providers = worker_hosts.find_workers(conn, profile, configuration, up)
    validation.disks(profile, configuration)
    if spec.deployment is not None:
        validation.deployment(spec.deployment, configuration)
    if spec.controllers == 'separate':
        worker_hosts.check_controllers(conn, profiles['controller'], up)
    hosts = [up[name] for name in providers]
    _require_network(conn, spec, options)
    backend = hypervisors.backend(
        hosts, options.backend or baseline_hosts.lab_backend(profile)
    )
    _require_supported(configuration, profile, backend)
    worker, controller = (
        derive_flavor(host_profile, configuration, role)
        for role, host_profile in profiles.items()
    )
    nodes = node_counts.count_nodes_on_hosts(spec, profile, len(providers))
    validation.volumes(configuration, spec.volumes)
    requested_volumes = spec.volumes or Volumes()
    validation.readiness(spec.readiness, nodes.controllers_first)
    disks = node_counts.plan_disks(configuration, worker, requested_volumes)
    return ClusterPlan(
        spec=spec,
        nodes=nodes,
        flavors=ClusterFlavors(worker, controller),
        sizing=_size_nodes(
            *(spec, worker, controller),
            capacity=node_counts.measure_hdfs(nodes, worker, disks),
        ),
        stack=_get_stack_resources(conn, spec, options),
        disks=replace(
            disks,
            volume_type=volumes.check(conn, requested_volumes)
            if configuration.storage == 'ceph'
            and not configuration.disk_pinning
            else None,
        ),
        hosts=ClusterHosts(
            providers,
            backend,
            worker_hosts.collect_facts(conn, profile, backend, hosts)
            | worker_hosts.describe_disks(
                conn, hosts, profile, configuration, requested_volumes
            ),
            shared_kernel=backend == 'lxc' and profile.policy.shared_kernel,
            profiles=_describe_profiles(profiles),
        ),
        node_groups=spec.node_groups,
        node_setup=os_profiles.fragment(spec.os_profile),
        secondary_namenode=(
            profile.policy.secondary_namenode
            if spec.secondary_namenode is None
            else spec.secondary_namenode
        ),
    )


def _describe_profiles(
    profiles: Mapping[str, HostProfile],
) -> dict[str, dict[str, str]]:
    """Return name and digest of the host profile by role."""
    return {
        role: {'name': profile.name, 'digest': profile.digest}
        for role, profile in profiles.items()
    }


def _require_network(
    conn: Connection, spec: ClusterSpec, options: CloudOptions
) -> None:
    """Check that a cloud has the network past the virtual switches, if needed.

    :raises hvstack.errors.InputError: the network does not exist.
    """
    if spec.vnic != MACVTAP:
        return
    missing = servers.explain_missing_macvtap(conn, options.macvtap_network)
    if missing:
        raise errors.InputError(missing)


def _size_nodes(
    spec: ClusterSpec,
    worker: Flavor,
    controller: Flavor,
    *,
    native: bool = False,
    own_hdfs: bool = True,
    capacity: HDFSCapacity | None = None,
) -> NodeSizing:
    """Return the sizes of Hadoop on nodes with these flavors.

    :param spec: requested cluster.
    :param worker: flavor of the nodes that run tasks.
    :param controller: flavor of the controllers.
    :param native: whether the nodes are whole machines.
    :param own_hdfs: whether the cluster has a NameNode.
    :param capacity: disks for HDFS; None if their size is unknown, or if the
        cluster has no NameNode.
    :raises hvstack.errors.InputError: a flavor is too small.
    """
    namenode = own_hdfs and spec.controllers != 'separate'
    sizing = size_node(
        worker.vcpus,
        worker.ram,
        tuning=spec.tuning,
        native=native,
        controller_mib=controller.ram,
        namenode=namenode,
    )
    return add_hdfs_heaps(
        *(sizing, capacity),
        tuning=spec.tuning,
        memory_mib=worker.ram,
        controller_mib=controller.ram,
        namenode=namenode,
    )


def _require_supported(
    configuration: Configuration, profile: HostProfile, backend: str
) -> None:
    """Check that the hosts of a profile can provide a configuration.

    :raises hvstack.errors.InputError: they cannot.
    """
    refused = unsupported_parameter(
        configuration, backend
    ) or pinned_disks.explain_unsupported(profile, configuration)
    if refused:
        raise errors.InputError(refused)


def get_controller_profile(
    options: CloudOptions, host: str | None = None
) -> str:
    """Return the host profile of the controllers.

    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :param host: host profile of the workers; None for that of the options.
    """
    if options.controller_profile:
        return str(options.controller_profile)
    host = host or str(options.host_profile)
    return 'lab-controller' if host == 'lab-worker' else host


def _get_stack_resources(
    conn: Connection,
    spec: ClusterSpec,
    options: CloudOptions,
    image: str | None = None,
    network: str | None = None,
) -> StackResources:
    if spec.vnic == MACVTAP:
        default_network = options.macvtap_network
        vnic_type = options.macvtap_vnic_type
    else:
        default_network, vnic_type = options.network, NORMAL
    network = network or default_network
    validation.security_group(spec)
    zone = _get_zone(spec, options)
    return StackResources(
        image=image or options.image,
        network=network,
        vnic_type=vnic_type,
        port_security=vnic_type == NORMAL
        or servers.has_port_security(conn, network),
        reply_cidrs=stateless_groups.list_reply_cidrs(conn, network)
        if spec.stateless_security_group
        else (),
        signal_seconds=stack_times.compute_signal_seconds(
            options.stack_timeout
        ),
        host_keys=options.host_key_source == 'heat',
        zone=zone,
        volume_zone=zone if zone and zones.has_volumes(conn, zone) else '',
    )


def _get_zone(spec: ClusterSpec, options: CloudOptions) -> str:
    """Return the availability zone of the nodes; empty for any."""
    return spec.availability_zone or options.availability_zone or ''


def check(
    tenant: Connection, plan: ClusterPlan, options: CloudOptions
) -> None:
    """Check that a project can create the stack of a plan.

    :param tenant: connection of the project.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :raises hvstack.errors.InputError: a quota or Heat's limit is too small,
        the user data is too large, the image or a volume type does not exist
        or cannot be used, nodes cannot use the network, or the credential
        cannot create a stack.
    :raises hvstack.errors.MissingPrerequisiteError: volumes without Cinder.
    """
    node_count = validation.needs(plan).instances
    credentials.check(
        tenant, options, nodes=node_count, backend=plan.hosts.backend
    )
    _check_template(plan, options)
    servers.check_image(
        tenant,
        plan.stack.image,
        (plan.flavors.worker, plan.flavors.controller),
    )
    servers.check_network(
        tenant, plan.stack.network, node_count, plan.stack.port_security
    )
    _check_project(tenant, plan)


def _check_template(plan: ClusterPlan, options: CloudOptions) -> None:
    validation.readiness(
        plan.spec.readiness, heat_environment.controllers_first(plan)
    )
    validation.disk_size(plan)
    validation.stack(plan, options.max_resources_per_stack)
    user_data.check(heat_environment.parameters(plan))


def _check_project(conn: Connection, plan: ClusterPlan) -> None:
    volumes.refuse_unknown(conn, chain(*plan.disks.types))
    quotas.check(conn, validation.needs(plan))


def plan_with_flavors(
    conn: Connection,
    spec: ClusterSpec,
    resources: ProjectResources,
    nodes: NodeCounts,
    options: CloudOptions,
    hdfs: SharedHDFS | None = None,
) -> ClusterPlan:
    """Plan a cluster of existing flavors, without admin rights.

    :param conn: connection of the project.
    :param spec: requested cluster.
    :param resources: what exists for the project.
    :param nodes: result of :func:`hvstack.cluster.node_counts.count_nodes`.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :param hdfs: HDFS of another stack; None for an HDFS of this cluster.
    :raises hvstack.errors.InputError: a flavor or a volume type does not
        exist, a flavor has another CPU policy, or a quota or Heat's limit is
        too small.
    :raises hvstack.errors.MissingPrerequisiteError: volumes without Cinder.
    """
    worker_name = resources.worker_flavor
    names = {
        'worker': worker_name,
        'controller': resources.controller_flavor or worker_name,
        'compute': resources.compute_flavor or worker_name,
    }
    flavors_in_nova = {
        role: nova_flavors.find_visible(conn, name)
        for role, name in names.items()
    }
    running = 'compute' if nodes.compute_workers else 'worker'
    for flavor in {
        flavors_in_nova[role].name: flavors_in_nova[role]
        for role in ('worker', running)
    }.values():
        validation.flavor(flavor.name, flavor.extra_specs, spec.configuration)
    flavors = {
        role: nova_flavors.to_flavor(flavor, role)
        for role, flavor in flavors_in_nova.items()
    }
    volume = spec.volumes or Volumes(count=1)
    worker_specs = flavors_in_nova['worker'].extra_specs or {}
    passed = node_counts.PASSED_THROUGH in worker_specs
    disks = ClusterDisks(
        node_counts.get_disk_types(
            spec.configuration, 0 if passed else volume.count or 1, volume.type
        ),
        resources.disk_gb,
        local=node_counts.has_local_volumes(spec.configuration, worker_specs),
    )
    plan = ClusterPlan(
        spec=spec,
        nodes=nodes,
        flavors=ClusterFlavors(
            flavors['worker'], flavors['controller'], flavors['compute']
        ),
        sizing=_size_nodes(
            *(spec, flavors[running], flavors['controller']),
            own_hdfs=hdfs is None,
            capacity=node_counts.measure_hdfs(nodes, flavors['worker'], disks)
            if hdfs is None
            else None,
        ),
        stack=replace(
            _get_stack_resources(
                conn, spec, options, resources.image, resources.network
            ),
            key_name=resources.key_name,
        ),
        disks=disks,
        node_setup=os_profiles.fragment(spec.os_profile),
        secondary_namenode=hdfs is None,
        node_groups=resources.node_groups and spec.node_groups,
        hdfs=hdfs,
    )
    _check_template(plan, options)
    _check_project(conn, plan)
    return plan


def plan_machines(
    conn: Connection,
    spec: ClusterSpec,
    flavor: str,
    controller_flavor: str | None,
    options: CloudOptions,
    image: str | None = None,
) -> ClusterPlan:
    """Plan a cluster of whole machines that Ironic provides.

    :param conn: connection of the project that gets the stack.
    :param spec: requested cluster, with the number of workers.
    :param flavor: name or ID of the flavor of the workers.
    :param controller_flavor: None uses the flavor of the workers.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :param image: image of the machines; None uses that of the guests.
    :raises hvstack.errors.InputError: a flavor does not exist or is one of
        guests, there are more replicas than workers, or a quota is too small.
    """
    workers = spec.workers or 0
    if workers < 1:
        raise errors.InputError(
            f'Cannot plan a cluster of Ironic nodes: --workers is {workers}. '
            'Use 1 or more.'
        )
    flavors_in_nova = {
        'worker': _find_machine_flavor(conn, flavor),
        'controller': _find_machine_flavor(conn, controller_flavor or flavor),
    }
    replication = (
        min(3, workers) if spec.replication is None else spec.replication
    )
    validation.replication(replication, workers)
    worker, controller = (
        nova_flavors.to_flavor(nova_flavor, role)
        for role, nova_flavor in flavors_in_nova.items()
    )
    plan = ClusterPlan(
        spec=spec,
        nodes=NodeCounts(workers, 1, replication),
        flavors=ClusterFlavors(
            worker,
            controller,
            ids={role: item.id for role, item in flavors_in_nova.items()},
        ),
        sizing=_size_nodes(spec, worker, controller, native=True),
        stack=_get_stack_resources(conn, spec, options, image),
        node_setup=os_profiles.fragment(spec.os_profile),
    )
    # Machines are in no server group.
    needed = validation.needs(plan)
    quotas.check(
        conn, replace(needed, server_groups=0, server_group_members=0)
    )
    return plan


def _find_machine_flavor(conn: Connection, name: str) -> NovaFlavor:
    """Return a flavor of Nova that uses a whole machine.

    :raises hvstack.errors.InputError: its servers would be guests.
    """
    flavor = nova_flavors.find_visible(conn, name)
    specs = flavor.extra_specs or {}
    if not any(
        key.startswith(f'resources:{MACHINE_CLASS}') and value == '1'
        for key, value in specs.items()
    ):
        raise errors.InputError(
            f"Cannot use flavor '{flavor.name}': it has no resource class of "
            'Ironic, so its servers would be guests. Use a flavor with '
            "'resources:CUSTOM_<resource class>=1' (Ironic, \"Create flavors "
            'for use with the Bare Metal service").'
        )
    return flavor
