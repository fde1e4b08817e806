# SPDX-License-Identifier: Apache-2.0
"""``hvstack cluster environment``: what Heat's own client needs."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from cliff.command import Command
from openstack.connection import Connection

from hvstack import conf, errors, paths
from hvstack.cli import arguments, hadoop_options
from hvstack.cli.cluster import add_connection, add_readiness
from hvstack.cli.options import add_cloud
from hvstack.cloud import (
    connection,
    credentials,
    servers,
    stack_times,
    zones,
)
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import (
    heat_environment,
    launch,
    node_counts,
    planner,
    shared_hdfs,
    validation,
)
from hvstack.cluster.plan import (
    CONTROLLERS,
    ClusterPlan,
    ClusterSpec,
    ProjectResources,
    StackResources,
)
from hvstack.conf import CloudOptions
from hvstack.model.configuration import parse
from hvstack.progress import Progress
from hvstack.results.typed_json import JsonObject

_LEAST = {
    'hosts': 1,
    'controller_slots': 0,
    'disks': 1,
    'disk_gb': 1,
    'compute_per_host': 1,
}


class Environment(Command):
    """Write an environment for heat-templates/hadoop-cluster.yaml.

    It contains the site files of Hadoop, which are computed from the flavors,
    and all other parameters of the template. Create the stack with 'openstack
    stack create -t heat-templates/hadoop-cluster.yaml -e FILE NAME', with
    files of heat-templates/environments after it. The command needs no rights
    of an administrator and changes nothing.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the cluster."""
        parser = super().get_parser(prog_name)
        add_cloud(parser)
        count_kwargs: dict[str, Any] = {
            'type': arguments.count,
            'metavar': 'N',
        }
        parser.add_argument(
            'file',
            metavar='FILE',
            nargs='?',
            help='File to write (default: standard output).',
        )
        parser.add_argument(
            '--configuration',
            default='i1',
            metavar='NAME',
            help='Full or short name, such as i2-ceph (default: i1).',
        )
        parser.add_argument('--worker-flavor', required=True, metavar='NAME')
        parser.add_argument(
            '--controller-flavor',
            metavar='NAME',
            help='Flavor of the controllers (default: that of the workers).',
        )
        parser.add_argument('--key-name', required=True, metavar='NAME')
        parser.add_argument(
            '--hosts',
            **count_kwargs,
            required=True,
            help='Number of physical hosts of the workers.',
        )
        parser.add_argument(
            '--controller-slots',
            **count_kwargs,
            default=0,
            help='Number of slots of these hosts that the controllers '
            'use (default: 0, because the controllers have '
            'separate hosts).',
        )
        parser.add_argument(
            '--workers',
            **count_kwargs,
            help='Total number of workers (default: one in every '
            'remaining slot).',
        )
        parser.add_argument(
            '--replication',
            **count_kwargs,
            help='Number of replicas in HDFS (default: 3, or the number '
            'of hosts if that is less).',
        )
        parser.add_argument(
            '--controllers',
            choices=CONTROLLERS,
            default=CONTROLLERS[0],
            help='Number of controllers: one node or two (default: '
            '%(default)s).',
        )
        parser.add_argument(
            '--deployment',
            type=arguments.count,
            choices=range(1, 5),
            help='Deployment of the HVE paper (default: 1 or 2, '
            'according to the configuration).',
        )
        add_connection(parser)
        _add_hdfs(parser)
        _add_resources(parser, count_kwargs)
        hadoop_options.add(parser)
        hadoop_options.add_handlers(parser)
        parser.add_argument(
            '--gateway',
            action='store_true',
            help='Create an additional node for clients in a slot of '
            'these hosts.',
        )
        add_readiness(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Refuse what cannot work, else write it."""
        text = yaml.safe_dump(self._environment(parsed_args), sort_keys=False)
        if parsed_args.file is None:
            sys.stdout.write(text)
        else:
            paths.write_output(Path(parsed_args.file), text)

    def _environment(self, args: argparse.Namespace) -> JsonObject:
        options = conf.load().cloud
        profiles = hadoop_options.chosen(args)
        configuration = parse(args.configuration)
        for name, minimum in _LEAST.items():
            if getattr(args, name) < minimum:
                raise errors.InputError(
                    f'Cannot use --{name.replace("_", "-")} '
                    f'{getattr(args, name)}: it is too small. Use {minimum} '
                    'or more.'
                )
        spec = ClusterSpec(
            configuration,
            workers=args.workers,
            controllers=args.controllers,
            vnic=args.vnic,
            stateless_security_group=args.stateless_security_group,
            availability_zone=args.availability_zone,
            deployment=args.deployment,
            gateway=args.gateway,
            readiness=args.readiness,
            volumes=Volumes(args.volume_type, args.disks),
            replication=args.replication,
            namenode_handlers=hadoop_options.handlers(args),
            tuning=profiles['tuning'],
            os_profile=profiles['os_profile'],
        )
        resources = ProjectResources(
            worker_flavor=args.worker_flavor,
            hosts=args.hosts,
            key_name=args.key_name,
            controller_flavor=args.controller_flavor,
            compute_flavor=args.compute_flavor,
            controller_slots=args.controller_slots,
            compute_per_host=args.compute_per_host,
            disk_gb=args.disk_gb,
            image=args.image,
            network=args.network,
            node_groups=args.node_groups,
        )
        if args.hdfs_of is None:
            # Invalid numbers are refused without a cloud.
            nodes = node_counts.count_nodes(spec, resources)
            conn = connection.connect(args.os_cloud)
            plan = planner.plan_with_flavors(
                conn, spec, resources, nodes, options
            )
        else:
            _refuse_hdfs_options(args)
            conn = connection.connect(args.os_cloud)
            plan = _plan_compute_cluster(
                conn, args.hdfs_of, spec, resources, options
            )
        if plan.stack.zone:
            zones.check(conn, plan.stack.zone)
        servers.image(conn, plan.stack.image)
        servers.check_key_pair(conn, plan.stack.key_name)
        node_count = validation.needs(plan).instances
        _check_network(conn, plan.stack, args.network, node_count)
        _report_credential(conn, options, node_count)
        _report_timeout(plan, options, node_count)
        if heat_environment.controllers_first(plan):
            Progress().say(
                'the controllers come first, and wait for their topology: '
                "give it to them with 'hvstack cluster topology NAME "
                "--refresh' once the stack is complete"
            )
        return heat_environment.environment(plan)


def _refuse_hdfs_options(args: argparse.Namespace) -> None:
    """Refuse options for nodes that a compute cluster does not have.

    :raises hvstack.errors.InputError: an option is not valid with
        ``--hdfs-of``.
    """
    for option, is_valid, remedy in (
        ('--workers', args.workers is None, '--compute-per-host'),
        ('--deployment', args.deployment is None, 'no --deployment'),
        (
            '--controllers separate',
            args.controllers != 'separate',
            '--controllers combined',
        ),
        ('--controller-slots', args.controller_slots == 0, '--hosts'),
    ):
        if not is_valid:
            raise errors.InputError(
                f'Cannot use {option} with --hdfs-of {args.hdfs_of}: a '
                'compute cluster has compute workers and a single controller '
                f'without a NameNode. Use {remedy}.'
            )


def _plan_compute_cluster(
    conn: Connection,
    stack: str,
    spec: ClusterSpec,
    resources: ProjectResources,
    options: CloudOptions,
) -> ClusterPlan:
    """Plan a compute cluster on the HDFS of a stack.

    :param stack: name of the stack with the HDFS.
    :raises hvstack.errors.HVStackError: the stack has no HDFS that the
        compute cluster can use.
    """
    hdfs = shared_hdfs.read(
        conn,
        stack,
        image=resources.image,
        network=resources.network,
        node_groups=resources.node_groups,
    )
    spec = replace(spec, deployment=hdfs.deployment)
    return planner.plan_with_flavors(
        conn,
        spec,
        replace(resources, image=hdfs.image, network=hdfs.network),
        node_counts.count_compute_nodes(spec, resources, hdfs),
        options,
        hdfs,
    )


def _check_network(
    conn: Connection,
    resources: StackResources,
    requested: str | None,
    nodes: int,
) -> None:
    """Refuse a network that was requested, else report it.

    The environment file network-new.yaml creates a network, so that the
    network of hvstack.conf need not exist.

    :param conn: connection of the project.
    :param resources: resources in the environment.
    :param requested: value of ``--network``.
    :param nodes: number of nodes of the stack.
    """
    try:
        servers.check_network(
            conn, resources.network, nodes, resources.port_security
        )
    except errors.InputError as exc:
        if requested is not None:
            raise
        Progress().warn(str(exc))


def _report_credential(
    conn: Connection, options: CloudOptions, nodes: int
) -> None:
    """Report that the credential of this command cannot create the stack.

    The environment is the same for every credential of the user, so that the
    command does not refuse to write it.

    :param conn: connection of the project.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :param nodes: number of nodes of the stack.
    """
    try:
        credentials.check(conn, options, nodes=nodes)
    except errors.InputError as exc:
        Progress().warn(str(exc))


def _report_timeout(
    plan: ClusterPlan, options: CloudOptions, nodes: int
) -> None:
    """Report that Heat would end the creation of a large stack.

    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :param nodes: number of nodes of the stack.
    """
    minutes = stack_times.compute_heat_minutes(
        launch.compute_stack_timeout(plan, options)
    )
    if minutes > stack_times.DEFAULT_HEAT_MINUTES:
        Progress().warn(
            f'{nodes} nodes may need more than an hour, after which Heat ends '
            'the creation of a stack by default: create the stack with '
            f"'openstack stack create --timeout {minutes}'"
        )


def _add_hdfs(parser: argparse.ArgumentParser) -> None:
    """Add the option for the HDFS of another stack."""
    parser.add_argument(
        '--hdfs-of',
        metavar='STACK',
        help='Describe a compute cluster, which has a ResourceManager, a '
        'JobHistory server and --compute-per-host compute workers per '
        'host, and uses the HDFS of this stack of the same project '
        '(default: an HDFS of its own).',
    )


def _add_resources(
    parser: argparse.ArgumentParser, count_kwargs: dict[str, Any]
) -> None:
    """Add compute workers, volumes, image and network."""
    parser.add_argument(
        '--compute-per-host',
        **count_kwargs,
        default=2,
        help='Number of compute workers per host of deployments 3 and 4, and '
        'of a compute cluster (default: 2).',
    )
    parser.add_argument(
        '--compute-flavor',
        metavar='NAME',
        help='Flavor of the compute workers (default: that of the workers).',
    )
    parser.add_argument(
        '--disks',
        **count_kwargs,
        default=1,
        help='Number of volumes per worker, if workers have volumes '
        '(default: 1). With disk pinning, a host has this number '
        'of disks per instance.',
    )
    parser.add_argument(
        '--disk-gb',
        **count_kwargs,
        default=10,
        help='Size of each volume in GB (default: 10).',
    )
    parser.add_argument(
        '--volume-type',
        default='ceph',
        metavar='NAME',
        help='Volume type without disk pinning (default: ceph).',
    )
    parser.add_argument(
        '--node-groups',
        action=argparse.BooleanOptionalAction,
        default=True,
        help='Tell Hadoop which nodes share a host, according to hostId '
        'in Nova. Use --no-node-groups for Ironic nodes '
        '(ironic.yaml), which Nova reports as one host (default: '
        '--node-groups).',
    )
    parser.add_argument('--image', metavar='NAME')
    parser.add_argument('--network', metavar='NAME')
