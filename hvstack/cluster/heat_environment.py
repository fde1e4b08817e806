# SPDX-License-Identifier: Apache-2.0
"""What the cluster's template is given: environment files and parameters.

A tenant may give the same to ``openstack stack create``, with other files of
``heat-templates/environments`` on top.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hvstack import share
from hvstack.cloud import stacks
from hvstack.hadoop import site_files
from hvstack.hadoop.sizing import DEFAULT, NodeSizing
from hvstack.model.configuration import Configuration

TEMPLATE = 'hadoop-cluster.yaml'
CONTROLLERS = ('combined', 'separate')


@dataclass(frozen=True)
class Layout:
    """A cluster as its template sees it.

    :param worker_flavor: name or id.
    :param controller_flavor: name or id.
    :param sizing: of a worker.
    :param controller_vcpus: what a controller's JVMs are told.
    :param workers: in all.
    :param workers_per_host: at most.
    :param replication: of HDFS.
    :param controllers: one of :data:`CONTROLLERS`.
    :param disk_types: volume type of each data disk of a worker, for each
        slot of a host; without disk pinning for one.
    :param disk_gb: size of each.
    :param deployment: of the HVE paper, 1 to 4.
    :param compute_workers: nodes with a NodeManager alone; the workers then
        have a DataNode alone, and ``sizing`` is of these.
    :param compute_flavor: name or id; the workers' where empty.
    :param secondary_namenode: one on the first worker.
    :param controllers_first: they come before all other nodes, and wait for
        a topology, whatever the files say; see also :func:`controllers_first`.
    :param namenode_handlers: ``dfs.namenode.handler.count``, None for the
        tuning's.
    :param gateway: a node more, for clients alone, with the worker's flavor.
    :param host_keys: nodes send Heat their public ssh host keys, and the
        stack waits for the keys; without it they are on the consoles.
    :param readiness: the stack waits until every node says that its daemons
        run; not with ``controllers_first``.
    :param node_groups: Hadoop is told which nodes share a physical host;
        off where Nova does not know, such as with Ironic's machines.
    :param node_setup: shell commands of every node, by its OS profile.
    """

    configuration: Configuration
    worker_flavor: str
    controller_flavor: str
    sizing: NodeSizing
    controller_vcpus: int
    workers: int
    workers_per_host: int
    replication: int
    image: str
    network: str
    key_name: str
    controllers: str = CONTROLLERS[0]
    disk_types: Sequence[Sequence[str]] = field(default_factory=lambda: [[]])
    disk_gb: int = 1
    deployment: int = 1
    compute_workers: int = 0
    compute_per_host: int = 1
    compute_flavor: str = ''
    secondary_namenode: bool = True
    tuning: str = DEFAULT
    os_profile: str = ''
    node_setup: str = ''
    controllers_first: bool = False
    namenode_handlers: int | None = None
    node_groups: bool = True
    readiness: bool = False
    gateway: bool = False
    host_keys: bool = True


def disk_types(
    configuration: Configuration, disks: int, volume_type: str = 'ceph'
) -> list[list[str]]:
    """Return the volume type of each of a worker's disks, for each slot.

    With disk pinning, volume types name a host's disks, ``disk-slot-1`` and
    on, and each slot has as many as a worker.

    :param disks: of a worker.
    :param volume_type: of all disks without disk pinning.
    """
    if not configuration.disk_pinning:
        ceph = configuration.storage == 'ceph'
        return [[volume_type] * disks if ceph else []]
    return [
        [f'disk-slot-{slot * disks + disk + 1}' for disk in range(disks)]
        for slot in range(configuration.instances)
    ]


def files(layout: Layout) -> list[Path]:
    """Return the environment files of a layout; later ones win."""
    names = [
        'network-existing',
        f'deployment-{layout.deployment}',
        f'storage-{layout.configuration.storage}',
        f'cpu-{layout.configuration.cpu_policy}',
        f'controllers-{layout.controllers}',
    ]
    if layout.configuration.disk_pinning:
        names.append('disk-pinning-on')
    if layout.gateway:
        names.append('gateway-on')
    return [
        share.HEAT_TEMPLATES / 'environments' / f'{name}.yaml'
        for name in names
    ]


def controllers_first(layout: Layout) -> bool:
    """Return whether controllers come first, and wait for a topology.

    They do in a large cluster, too: the places of all its workers would be
    more user data than Nova takes.
    """
    return bool(parameters(layout).get('controllers_first'))


def parameters(layout: Layout) -> dict[str, Any]:
    """Return the template's parameters that the files do not set."""
    site = site_files.render_site_files(
        layout.sizing,
        replication=layout.replication,
        tuning=layout.tuning,
        namenode_handlers=layout.namenode_handlers,
        node_groups=layout.node_groups,
    )
    values: dict[str, Any] = {
        'image': layout.image,
        'network': layout.network,
        'key_name': layout.key_name,
        'worker_flavor': layout.worker_flavor,
        'controller_flavor': layout.controller_flavor,
        'worker_count': layout.workers,
        'workers_per_host': layout.workers_per_host,
        'secondary_namenode': layout.secondary_namenode,
        'node_groups': layout.node_groups,
        'readiness': layout.readiness,
        'host_keys': layout.host_keys,
        'core_site': site['core-site.xml'],
        'hdfs_site': site['hdfs-site.xml'],
        'yarn_site': site['yarn-site.xml'],
        'mapred_site': site['mapred-site.xml'],
        'hadoop_env': site_files.render_hadoop_env(layout.sizing),
        'node_setup': layout.node_setup,
        'tuning': layout.tuning,
        'os_profile': layout.os_profile,
        'worker_env': site_files.render_node_env(
            site_files.WORKER_ROLES, layout.sizing.processors
        ),
        'controller_env': site_files.render_node_env(
            site_files.CONTROLLER_ROLES, layout.controller_vcpus
        ),
        'volume_types': [list(slot_types) for slot_types in layout.disk_types],
        'disk_gb': layout.disk_gb,
    }
    if layout.compute_workers:
        values |= {
            'compute_count': layout.compute_workers,
            'compute_per_host': layout.compute_per_host,
            'compute_flavor': layout.compute_flavor,
            'compute_env': values['worker_env'],
        }
    if (
        layout.controllers_first
        or stacks.user_data(values) > stacks.MOST_USER_DATA
    ):
        values['controllers_first'] = True
    return values


def environment(layout: Layout) -> dict[str, Any]:
    """Return one environment with everything in it, for Heat's own client.

    Files that it names are named in full: it may be put anywhere.
    """
    registry: dict[str, str] = {}
    values: dict[str, Any] = {}
    for path in files(layout):
        content = yaml.safe_load(path.read_text(encoding='utf-8'))
        for alias, target in content.get('resource_registry', {}).items():
            registry[alias] = (
                str((path.parent / target).resolve())
                if target.endswith('.yaml')
                else target
            )
        values |= content.get('parameters', {})
    return {
        'resource_registry': registry,
        'parameters': values | parameters(layout),
    }
