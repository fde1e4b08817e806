# SPDX-License-Identifier: Apache-2.0
"""What the cluster's template is given: environment files and parameters.

A tenant may give the same to ``openstack stack create``, with other files of
``heat-templates/environments`` on top.
"""

from pathlib import Path

import yaml

from hvstack import share
from hvstack.cloud import stack_times, user_data
from hvstack.cluster.plan import ClusterPlan
from hvstack.hadoop import master_node, site_files
from hvstack.model.vnics import NORMAL
from hvstack.results.typed_json import JsonObject

TEMPLATE = 'hadoop-cluster.yaml'


def files(plan: ClusterPlan) -> list[Path]:
    """Return the environment files of a plan; later ones win."""
    configuration = plan.spec.configuration
    names = [
        'network-existing',
        f'deployment-{plan.spec.hve_deployment}',
        f'storage-{configuration.storage}',
        f'cpu-{configuration.cpu_policy}',
        f'controllers-{plan.spec.controllers}'
        if plan.hdfs is None
        else 'compute-cluster',
    ]
    if configuration.disk_pinning:
        names.append('disk-pinning-on')
    if plan.nodes.gateway:
        names.append('gateway-on')
    return [
        share.HEAT_TEMPLATES / 'environments' / f'{name}.yaml'
        for name in names
    ]


def controllers_first(plan: ClusterPlan) -> bool:
    """Return whether controllers come first, and wait for a topology.

    They do in a large cluster, too: the paths of all its workers would be
    more user data than Nova takes.
    """
    return bool(parameters(plan).get('controllers_first'))


def parameters(plan: ClusterPlan) -> JsonObject:
    """Return the template's parameters that the files do not set."""
    spec, nodes, stack = plan.spec, plan.nodes, plan.stack
    site = site_files.render_site_files(
        plan.sizing,
        replication=nodes.replication,
        tuning=spec.tuning,
        namenode_handlers=spec.namenode_handlers,
        node_groups=plan.node_groups,
        location_properties=site_files.TOPOLOGY_PROPERTIES
        if plan.hdfs is None
        else site_files.SHARED_HDFS_PROPERTIES,
    )
    values: JsonObject = {
        'image': stack.image,
        'network': stack.network,
        'key_name': stack.key_name,
        'worker_flavor': plan.flavors.get_reference('worker'),
        'controller_flavor': plan.flavors.get_reference('controller'),
        'worker_count': nodes.workers,
        'workers_per_host': nodes.workers_per_host,
        'secondary_namenode': plan.secondary_namenode,
        'node_groups': plan.node_groups,
        'readiness': spec.readiness,
        'host_keys': stack.host_keys,
        'core_site': site['core-site.xml'],
        'hdfs_site': site['hdfs-site.xml'],
        'yarn_site': site['yarn-site.xml'],
        'mapred_site': site['mapred-site.xml'],
        'hadoop_env': site_files.render_hadoop_env(
            plan.sizing, plan.daemon_options
        ),
        'node_setup': plan.node_setup,
        'tuning': spec.tuning,
        'os_profile': spec.os_profile,
        'worker_env': site_files.render_node_env(
            site_files.WORKER_ROLES, plan.sizing.processors
        ),
        'controller_env': site_files.render_node_env(
            site_files.CONTROLLER_ROLES, plan.flavors.controller.vcpus
        ),
        'volume_types': [list(slot_types) for slot_types in plan.disks.types],
        'disk_gb': plan.disks.size_gb,
    }
    if plan.sizing.has_master_node:
        values |= {
            'manager_roles': site_files.list_manager_roles(plan.sizing),
            'manager_setup': master_node.render_setup(plan.sizing),
        }
    signal_seconds = stack_times.scale_signal_seconds(stack.signal_seconds)
    if signal_seconds > stack_times.DEFAULT_SIGNAL_SECONDS:
        values['readiness_timeout'] = signal_seconds
    values |= _list_connection_parameters(plan)
    if plan.disks.local:
        values['local_volumes'] = True
    if nodes.compute_workers:
        values |= {
            'compute_count': nodes.compute_workers,
            'compute_per_host': nodes.compute_per_host,
            'compute_flavor': plan.flavors.get_reference('compute'),
            'compute_env': values['worker_env'],
        }
    if plan.hdfs is not None:
        # The environment file has a number that the template accepts.
        del values['worker_count']
        values |= {
            'hdfs_stack': plan.hdfs.stack_id,
            'hdfs_address': plan.hdfs.address,
            'hdfs_port': plan.hdfs.port,
            'hdfs_security_group': plan.hdfs.security_group,
        }
    if (
        nodes.controllers_first
        or user_data.compute_size(values) > user_data.MAX_SIZE
    ):
        values['controllers_first'] = True
    return values


def _list_connection_parameters(plan: ClusterPlan) -> JsonObject:
    """Return zones, and how hosts connect nodes, if not as by default."""
    values: JsonObject = {}
    if plan.stack.zone:
        values['availability_zone'] = plan.stack.zone
    if plan.stack.volume_zone:
        values['volume_zone'] = plan.stack.volume_zone
    if plan.stack.vnic_type != NORMAL:
        values['vnic_type'] = plan.stack.vnic_type
    if not plan.stack.port_security:
        values['port_security'] = False
    if plan.spec.stateless_security_group:
        values['stateless_security_group'] = True
        values['reply_cidrs'] = list(plan.stack.reply_cidrs)
    return values


def environment(plan: ClusterPlan) -> JsonObject:
    """Return one environment with everything in it, for Heat's own client.

    Files that it names are named in full: it may be put anywhere.
    """
    registry: dict[str, str] = {}
    values: JsonObject = {}
    for path in files(plan):
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
        'parameters': values | parameters(plan),
    }
