# SPDX-License-Identifier: Apache-2.0
"""``hvstack doctor``: is a cloud ready for a cluster."""

import argparse
from pathlib import Path

from cliff.lister import Lister

from hvstack import conf, errors, host_profiles
from hvstack.cli import arguments
from hvstack.cli.options import add_cloud, add_zone
from hvstack.cli.tables import Table
from hvstack.cloud import connection, doctor, host_checks
from hvstack.cloud.diagnosis import NOTE, CloudNeeds, Diagnosis
from hvstack.cluster import disk_check, planner
from hvstack.model.cluster_size import compute_cluster_size
from hvstack.model.configuration import Configuration, parse
from hvstack.model.flavor import derive_flavor
from hvstack.model.host import HostProfile


def _check_disks(
    profile: HostProfile, configuration: Configuration, path: Path
) -> list[Diagnosis]:
    """Return whether the guests use the disks of bare metal."""
    reason = disk_check.explain(profile, configuration, path)
    if not reason:
        return []
    return [
        Diagnosis(
            'disks of the baseline',
            NOTE,
            reason,
            "Name the same disks in 'disks' of the inventory "
            "(baseline_hosts in [sweep]), or correct 'disks' of the host "
            'profile',
        )
    ]


class Doctor(Lister):
    """Check whether a cloud can run a cluster; change nothing.

    The exit status is 1 if a check fails, or if a service that must be queried
    is missing or denies access. Properties that no API reports are "not
    checked"; they do not change the exit status.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_cloud(parser)
        parser.add_argument(
            '--configuration',
            default='i1',
            metavar='NAME',
            help='Configuration of the cluster, such as i4-dedicated '
            '(default: i1).',
        )
        parser.add_argument(
            '--host',
            metavar='PROFILE',
            help="Host profile of the workers' hosts (default: "
            'host_profile of hvstack.conf).',
        )
        parser.add_argument(
            '--workers',
            type=arguments.count,
            metavar='N',
            help='Number of workers (default: the maximum).',
        )
        add_zone(parser)
        parser.add_argument(
            '--volume-type',
            action='append',
            default=[],
            metavar='NAME',
            help='Volume type of the workers. Can be repeated.',
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Turn a fault into the exit status."""
        self.faulty = False
        return int(super().run(parsed_args) or self.faulty)

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Look at the cloud."""
        worker_count = parsed_args.workers
        if worker_count is not None and worker_count < 1:
            raise errors.InputError(
                f'Cannot use --workers {worker_count}: a cluster has at least '
                '1 worker. Use 1 or more.'
            )
        loaded = conf.load()
        if parsed_args.host:
            loaded.set_override('host_profile', parsed_args.host, 'cloud')
        options = loaded.cloud
        zone = parsed_args.availability_zone or options.availability_zone or ''
        profile = host_profiles.load(options.host_profile)
        controller_profile = host_profiles.load(
            planner.get_controller_profile(options)
        )
        configuration = parse(parsed_args.configuration)
        conn = connection.connect(parsed_args.os_cloud)
        trait = profile.traits.get('worker')
        unknown: list[Diagnosis] = []
        try:
            host_count = len(
                host_checks.workers_hosts(conn, profile, configuration, zone)
            )
        except errors.CloudError as exc:
            host_count = 0
            unknown.append(doctor.unseen("number of workers' hosts", exc))
        host_count = max(host_count, 1)
        if trait:
            # Only the workers' own hosts have the trait.
            workers, controllers = configuration.instances * host_count, 1
        else:
            size = compute_cluster_size(
                profile, configuration, max(host_count, 2)
            )
            workers, controllers = size.workers, size.controllers
        role = 'controller' if controllers == 1 else 'namenode'
        unknown += _check_disks(
            profile, configuration, Path(loaded.sweep.baseline_hosts)
        )
        diagnoses = unknown + doctor.examine(
            conn,
            CloudNeeds(
                profile=profile,
                configuration=configuration,
                nodes=(
                    (
                        derive_flavor(profile, configuration),
                        worker_count or workers,
                    ),
                    (
                        derive_flavor(controller_profile, configuration, role),
                        controllers,
                    ),
                ),
                image=options.image,
                network=options.network,
                volume_types=tuple(parsed_args.volume_type),
                zone=zone,
                sends_host_keys=options.host_key_source == 'heat',
            ),
        )
        self.faulty = any(diagnosis.bad for diagnosis in diagnoses)
        return ('Check', 'State', 'Detail', 'Remedy', 'nova.conf'), [
            (
                diagnosis.check,
                diagnosis.state,
                diagnosis.detail,
                diagnosis.remedy,
                diagnosis.nova_conf,
            )
            for diagnosis in diagnoses
        ]
