# SPDX-License-Identifier: Apache-2.0
"""``hvstack cluster environment``: what Heat's own client needs."""

import argparse
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from cliff.command import Command

from hvstack import conf, errors, paths
from hvstack.cli import arguments, hadoop_options
from hvstack.cli.cluster import add_readiness
from hvstack.cli.options import add_cloud
from hvstack.cloud import cluster_flavors, connection, quotas, stacks, volumes
from hvstack.cluster import heat_environment, validation
from hvstack.hadoop import os_profiles
from hvstack.hadoop.sizing import size_node
from hvstack.model.configuration import parse
from hvstack.progress import Progress

_LEAST = {
    'hosts': 1,
    'controller_slots': 0,
    'disks': 1,
    'disk_gb': 1,
    'compute_per_host': 1,
}


class Environment(Command):
    """Write an environment for heat-templates/hadoop-cluster.yaml.

    It has Hadoop's files, computed from the flavors, and all else that the
    template asks for. Create the stack with 'openstack stack create -t
    heat-templates/hadoop-cluster.yaml -e FILE NAME', with files of
    heat-templates/environments after it. Needs no administrator's rights,
    and changes nothing.
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
            help='to write (default: standard output)',
        )
        parser.add_argument(
            '--configuration',
            default='i1',
            metavar='NAME',
            help='full or short name, such as i2-ceph (default: i1)',
        )
        parser.add_argument('--worker-flavor', required=True, metavar='NAME')
        parser.add_argument(
            '--controller-flavor',
            metavar='NAME',
            help="(default: the workers')",
        )
        parser.add_argument('--key-name', required=True, metavar='NAME')
        parser.add_argument(
            '--hosts',
            **count_kwargs,
            required=True,
            help='physical hosts that the workers are on',
        )
        parser.add_argument(
            '--controller-slots',
            **count_kwargs,
            default=0,
            help='slots of these hosts that all controllers take (default: '
            '0, they have hosts of their own)',
        )
        parser.add_argument(
            '--workers',
            **count_kwargs,
            help='in all (default: one in every slot that is left)',
        )
        parser.add_argument(
            '--replication', **count_kwargs, help='(default: 3, or the hosts)'
        )
        parser.add_argument(
            '--controllers',
            choices=heat_environment.CONTROLLERS,
            default=heat_environment.CONTROLLERS[0],
            help='one node or two (default: %(default)s)',
        )
        parser.add_argument(
            '--deployment',
            type=arguments.count,
            choices=range(1, 5),
            help='of the HVE paper (default: 1 or 2, by the configuration)',
        )
        parser.add_argument(
            '--compute-per-host',
            **count_kwargs,
            default=2,
            help='compute workers of deployments 3 and 4 (default: 2)',
        )
        parser.add_argument(
            '--compute-flavor', metavar='NAME', help="(default: the workers')"
        )
        parser.add_argument(
            '--disks',
            **count_kwargs,
            default=1,
            help='volumes of each worker, if it has any (default: 1); with '
            'disk pinning a host has instances times as many disks',
        )
        parser.add_argument(
            '--disk-gb',
            **count_kwargs,
            default=10,
            help='of each (default: 10)',
        )
        parser.add_argument(
            '--volume-type',
            default='ceph',
            metavar='NAME',
            help='without disk pinning (default: ceph)',
        )
        parser.add_argument(
            '--node-groups',
            action=argparse.BooleanOptionalAction,
            default=True,
            help="tell Hadoop which nodes share a host, by Nova's hostId; "
            'without it for bare metal (ironic.yaml), whose machines Nova '
            'knows as one host (default: --node-groups)',
        )
        parser.add_argument('--image', metavar='NAME')
        parser.add_argument('--network', metavar='NAME')
        hadoop_options.add(parser)
        hadoop_options.add_handlers(parser)
        parser.add_argument(
            '--gateway',
            action='store_true',
            help='a node more for clients, in a slot of these hosts',
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

    def _environment(self, args: argparse.Namespace) -> dict[str, object]:
        options = conf.load().cloud
        profiles = hadoop_options.chosen(args)
        configuration = parse(args.configuration)
        for name, minimum in _LEAST.items():
            if getattr(args, name) < minimum:
                raise errors.InputError(
                    f'--{name.replace("_", "-")} is {getattr(args, name)}: '
                    f'give {minimum} or more'
                )
        slots = configuration.instances * args.hosts
        slots -= args.controller_slots + args.gateway
        workers = slots if args.workers is None else args.workers
        validation.workers(workers, slots, configuration, args.hosts)
        # A host that a controller fills carries no worker.
        nodes = 2 if args.controllers == 'separate' else 1
        filled = nodes * (
            args.controller_slots // nodes // configuration.instances
        )
        hosts = min(args.hosts - filled, workers)
        replicas = (
            min(3, hosts) if args.replication is None else args.replication
        )
        validation.replication(replicas, hosts, args.node_groups)
        deployment = args.deployment or min(2, configuration.instances)
        if deployment < 3:
            # In 3 and 4 compute workers have places beside these slots.
            validation.deployment(deployment, configuration)
        validation.readiness(args.readiness, args.controllers == 'separate')
        conn = connection.connect(args.os_cloud)
        worker = cluster_flavors.visible(conn, args.worker_flavor)
        controller = cluster_flavors.visible(
            conn, args.controller_flavor or args.worker_flavor
        )
        compute = cluster_flavors.visible(
            conn, args.compute_flavor or args.worker_flavor
        )
        apart = deployment > 2
        running = compute if apart else worker
        for flavor in {
            flavor.name: flavor for flavor in (worker, running)
        }.values():
            validation.flavor(flavor.name, flavor.extra_specs, configuration)
        layout = heat_environment.Layout(
            configuration=configuration,
            worker_flavor=worker.name,
            controller_flavor=controller.name,
            sizing=size_node(
                running.vcpus, running.ram, tuning=profiles['tuning']
            ),
            tuning=profiles['tuning'],
            os_profile=profiles['os_profile'],
            node_setup=os_profiles.fragment(profiles['os_profile']),
            controller_vcpus=controller.vcpus,
            namenode_handlers=hadoop_options.handlers(args),
            workers=workers,
            workers_per_host=configuration.instances,
            replication=replicas,
            image=args.image or options.image,
            network=args.network or options.network,
            key_name=args.key_name,
            controllers=args.controllers,
            # Workers leave single slots on many hosts.
            controllers_first=args.controller_slots > 1,
            disk_types=heat_environment.disk_types(
                configuration, args.disks, args.volume_type
            ),
            disk_gb=args.disk_gb,
            deployment=deployment,
            compute_workers=args.hosts * args.compute_per_host if apart else 0,
            compute_per_host=args.compute_per_host,
            compute_flavor=compute.name if apart else '',
            node_groups=args.node_groups,
            gateway=args.gateway,
            readiness=args.readiness,
            host_keys=options.host_key_source == 'heat',
        )
        validation.stack(layout, options.max_resources_per_stack)
        volumes.refuse_unknown(conn, chain(*layout.disk_types))
        quotas.check(
            conn, validation.needs(layout, worker, controller, compute)
        )
        parameters = heat_environment.parameters(layout)
        stacks.refuse_user_data(parameters)
        validation.readiness(
            args.readiness, bool(parameters.get('controllers_first'))
        )
        if parameters.get('controllers_first'):
            Progress().say(
                'the controllers come first, and wait for their topology: '
                "give it to them with 'hvstack cluster topology NAME "
                "--refresh' once the stack is complete"
            )
        return heat_environment.environment(layout)
