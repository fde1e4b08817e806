# SPDX-License-Identifier: Apache-2.0
"""Specifications and plans of clusters.

A specification contains what a user requests. A plan contains everything that
:mod:`hvstack.cluster.planner` computes before anything is created.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hvstack.cloud import stack_times
from hvstack.cloud.volumes import Volumes, VolumeType
from hvstack.cluster.base import Fact
from hvstack.hadoop import os_profiles
from hvstack.hadoop.daemon_options import DaemonOptions
from hvstack.hadoop.sizing import DEFAULT, NodeSizing
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor
from hvstack.model.vnics import NORMAL
from hvstack.results.typed_json import JsonObject

#: Numbers of controllers: one node with the NameNode and the ResourceManager,
#: or a node for each.
CONTROLLERS = ('combined', 'separate')


@dataclass(frozen=True)
class ClusterSpec:
    """Cluster as a user requests it.

    :param configuration: configuration of the workers.
    :param workers: number of workers; None uses all slots. In deployments 3
        and 4, the number of data workers.
    :param controllers: one of :data:`CONTROLLERS`.
    :param deployment: deployment of the HVE paper, 1 to 4; None uses 1 or 2,
        depending on the number of instances. In deployment 3, a host has one
        data worker and its other slots have compute workers; in deployment 4,
        it has as many data workers as compute workers.
    :param gateway: whether the cluster has a separate node for clients.
    :param readiness: whether the nodes report to Heat when their daemons run.
    :param volumes: volumes of a worker on Ceph; None uses the defaults.
    :param tuning: tuning profile.
    :param os_profile: OS profile of the nodes.
    :param replication: number of HDFS replicas; None uses 3, or the number of
        hosts with workers if it is smaller.
    :param namenode_handlers: ``dfs.namenode.handler.count``; None uses the
        value of the tuning profile.
    :param secondary_namenode: whether the first worker has a
        SecondaryNameNode, as in the papers; None uses the default of the
        hosts. Bare metal, which results are compared with, has none.
    :param node_groups: whether Hadoop may know which nodes share a host, as
        the HVE paper proposes.
    :param vnic: one of :data:`hvstack.model.vnics.VNICS`.
    :param stateless_security_group: whether hosts do not track the
        connections of the nodes.
    :param availability_zone: availability zone of the nodes; empty for that
        of the configuration file.
    """

    configuration: Configuration = field(default_factory=Configuration)
    workers: int | None = None
    controllers: str = CONTROLLERS[0]
    deployment: int | None = None
    gateway: bool = False
    readiness: bool = False
    volumes: Volumes | None = None
    tuning: str = DEFAULT
    os_profile: str = os_profiles.DEFAULT
    replication: int | None = None
    namenode_handlers: int | None = None
    secondary_namenode: bool | None = False
    node_groups: bool = True
    vnic: str = NORMAL
    stateless_security_group: bool = False
    availability_zone: str = ''

    @property
    def hve_deployment(self) -> int:
        """Deployment of the HVE paper, also if none was requested."""
        return self.deployment or min(2, self.configuration.instances)

    @property
    def controller_count(self) -> int:
        """Number of controllers."""
        return 2 if self.controllers == 'separate' else 1


@dataclass(frozen=True)
class ProjectResources:
    """Flavors, hosts and disks that exist for a project without admin rights.

    :param worker_flavor: name or ID of the flavor of the workers.
    :param hosts: number of physical hosts for workers.
    :param key_name: key pair of the nodes.
    :param controller_flavor: None uses the flavor of the workers.
    :param compute_flavor: flavor of compute workers; None uses the flavor of
        the workers.
    :param controller_slots: number of slots of these hosts that all
        controllers occupy; 0 if they have other hosts.
    :param compute_per_host: number of compute workers per host in the
        deployments 3 and 4.
    :param disk_gb: size of a volume in GB.
    :param image: None uses the image of ``hvstack.conf``.
    :param network: None uses the network of ``hvstack.conf``.
    :param node_groups: whether Hadoop knows which nodes share a host.
    """

    worker_flavor: str
    hosts: int
    key_name: str
    controller_flavor: str | None = None
    compute_flavor: str | None = None
    controller_slots: int = 0
    compute_per_host: int = 2
    disk_gb: int = 10
    image: str | None = None
    network: str | None = None
    node_groups: bool = True


@dataclass(frozen=True)
class NodeCounts:
    """Numbers of nodes and replicas of a cluster.

    :param workers: number of workers; those with a DataNode if there are
        compute workers.
    :param workers_per_host: maximum number of workers on a host.
    :param replication: number of HDFS replicas.
    :param compute_workers: number of nodes with only a NodeManager.
    :param compute_per_host: maximum number of compute workers on a host.
    :param controller_slots: number of slots of the workers' hosts that a
        controller occupies; 0 if it has another host.
    :param gateway: whether the cluster has a separate node for clients.
    :param controllers_first: whether controllers are created before all other
        nodes, and wait for a topology.
    """

    workers: int
    workers_per_host: int
    replication: int
    compute_workers: int = 0
    compute_per_host: int = 0
    controller_slots: int = 0
    gateway: bool = False
    controllers_first: bool = False


@dataclass(frozen=True)
class ClusterFlavors:
    """Flavors of the nodes.

    :param compute: flavor of compute workers; None for that of the workers.
    :param ids: IDs in Nova by role; without an ID, Heat gets the name.
    """

    worker: Flavor
    controller: Flavor
    compute: Flavor | None = None
    ids: Mapping[str, str] = field(default_factory=dict)

    def get_reference(self, role: str) -> str:
        """Return the ID, or else the name, of a flavor.

        :param role: ``worker``, ``controller`` or ``compute``.
        """
        if role == 'compute' and self.compute is None:
            role = 'worker'
        flavor: Flavor = getattr(self, role)
        return self.ids.get(role, flavor.name)


@dataclass(frozen=True)
class ClusterDisks:
    """Volumes of the workers.

    :param types: volume type of each data disk of a worker, for each slot of
        a host; without disk pinning, for one slot.
    :param size_gb: size of a volume in GB.
    :param volume_type: description of the volume type on Ceph.
    :param local: whether the volumes must be on the host of their worker.
    """

    types: tuple[tuple[str, ...], ...] = ((),)
    size_gb: int = 1
    volume_type: VolumeType | None = None
    local: bool = False


@dataclass(frozen=True)
class StackResources:
    """Existing resources of the project that the stack uses.

    :param image: image of the nodes.
    :param network: network of the nodes.
    :param key_name: key pair of the nodes.
    :param vnic_type: VNIC type of the nodes' ports in Neutron.
    :param port_security: whether the network has port security, without
        which no port has a security group.
    :param reply_cidrs: networks whose replies reach nodes with a stateless
        security group.
    :param host_keys: whether nodes send their public SSH host keys to Heat,
        and the stack waits for them; otherwise, the keys are on the consoles.
    :param signal_seconds: seconds on an ordinary server for the signals of a
        node.
    :param zone: availability zone of the nodes; empty for any.
    :param volume_zone: availability zone of their volumes; empty for any.
    """

    image: str
    network: str
    key_name: str = ''
    vnic_type: str = NORMAL
    port_security: bool = True
    reply_cidrs: tuple[str, ...] = ()
    host_keys: bool = True
    signal_seconds: float = stack_times.DEFAULT_SIGNAL_SECONDS
    zone: str = ''
    volume_zone: str = ''


@dataclass(frozen=True)
class SharedHDFS:
    """HDFS of another stack that a compute cluster uses.

    :param stack_id: ID of the stack.
    :param address: IP address of the NameNode.
    :param port: port of the NameNode.
    :param security_group: ID of the security group of the stack's nodes.
    :param image: image of the stack's nodes.
    :param network: network of the stack's nodes.
    :param replication: number of replicas of a new file.
    :param worker_hosts: number of hosts that store data.
    :param deployment: deployment of the HVE paper that both stacks make, 3 or
        4.
    """

    stack_id: str
    address: str
    port: int
    security_group: str
    image: str
    network: str
    replication: int
    worker_hosts: int
    deployment: int


@dataclass(frozen=True)
class ClusterHosts:
    """Hosts of the workers, as the operator knows them.

    :param providers: UUIDs of the resource providers by host name.
    :param backend: compute backend.
    :param environment: facts of the hosts that the guests cannot see.
    :param shared_kernel: whether all guests share the page cache of this
        machine.
    :param profiles: name and digest of the host profile by role.
    """

    providers: dict[str, str] = field(default_factory=dict)
    backend: str = ''
    environment: dict[str, Fact] = field(default_factory=dict)
    shared_kernel: bool = False
    profiles: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterPlan:
    """Everything that is computed before a cluster is created.

    :param sizing: containers and heaps of the nodes that run tasks.
    :param node_setup: shell commands of the OS profile for every node.
    :param node_groups: whether Hadoop knows which nodes share a host; false
        if Nova does not know it either.
    :param hdfs: HDFS of another stack; None for an HDFS of this cluster.
    :param daemon_options: options of the JVMs of daemons.
    """

    spec: ClusterSpec
    nodes: NodeCounts
    flavors: ClusterFlavors
    sizing: NodeSizing
    stack: StackResources
    disks: ClusterDisks = field(default_factory=ClusterDisks)
    hosts: ClusterHosts = field(default_factory=ClusterHosts)
    node_setup: str = ''
    secondary_namenode: bool = False
    node_groups: bool = True
    hdfs: SharedHDFS | None = None
    daemon_options: DaemonOptions = ()

    @property
    def ratios(self) -> dict[str, float]:
        """Allocation ratios that Placement must have, by resource class."""
        return {
            'VCPU': self.spec.configuration.cpu_ratio,
            'MEMORY_MB': self.spec.configuration.ram_ratio,
        }

    @property
    def is_shared(self) -> bool:
        """Whether the guests use VCPU inventory instead of PCPU."""
        return self.spec.configuration.cpu_policy == 'shared'

    def with_key(
        self, key_name: str, flavor_ids: Mapping[str, str]
    ) -> 'ClusterPlan':
        """Return the plan with the names of resources that exist now.

        :param key_name: key pair of the nodes.
        :param flavor_ids: IDs of the published flavors by role.
        """
        return replace(
            self,
            stack=replace(self.stack, key_name=key_name),
            flavors=replace(self.flavors, ids=flavor_ids),
        )

    def to_mapping(self) -> JsonObject:
        """Return plain data, as ``--dry-run`` shows it."""
        return {
            'configuration': self.spec.configuration.name,
            'backend': self.hosts.backend,
            'worker_hosts': sorted(self.hosts.providers),
            'controllers': self.spec.controllers,
            'vnic': self.spec.vnic,
            'stateless_security_group': self.spec.stateless_security_group,
            'deployment': self.spec.hve_deployment,
            'workers': self.nodes.workers,
            'workers_per_host': self.nodes.workers_per_host,
            'compute_workers': self.nodes.compute_workers,
            'compute_per_host': self.nodes.compute_per_host,
            'replication': self.nodes.replication,
            'secondary_namenode': self.secondary_namenode,
            'gateway': 'its own node' if self.nodes.gateway else 'controller',
            'readiness': self.spec.readiness,
            'ratios': self.ratios,
            'tuning': self.spec.tuning,
            'os_profile': self.spec.os_profile,
            'worker_flavor': self.flavors.worker.to_mapping(),
            'controller_flavor': self.flavors.controller.to_mapping(),
        }
