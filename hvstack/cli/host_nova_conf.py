# SPDX-License-Identifier: Apache-2.0
"""``hvstack host nova-conf``: settings of hosts that hold all flavors."""

import argparse
import json

from cliff.command import Command

from hvstack import errors, host_profiles
from hvstack.cli import arguments
from hvstack.model import host_files
from hvstack.model.cluster_size import compute_cluster_size
from hvstack.model.configuration import (
    CPU_POLICIES,
    STORAGES,
    Configuration,
)
from hvstack.model.host import HostProfile
from hvstack.model.host_settings import (
    PAGE_KIB,
    HostSettings,
    compute_host_settings,
)
from hvstack.model.plain_data import JsonObject


class NovaConf(Command):
    """Print the settings of compute hosts and schedulers for a host profile.

    The numbers follow from the host profile: CPU set, reserved memory and huge
    pages of each NUMA cell, so that all flavors that are derived from the
    profile fit as often as they promise. The command needs no cloud and
    changes nothing.

    With --cpu-policy shared, all guests share the CPUs of a host, and sweeps
    can change the allocation ratios. With dedicated, each guest has CPUs, NUMA
    cells and huge pages of its own, and the ratios are 1. A host has one
    policy at a time.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'profile',
            metavar='PROFILE',
            help='Name or YAML file of a host profile.',
        )
        parser.add_argument(
            '--cpu-policy',
            choices=CPU_POLICIES,
            default=CPU_POLICIES[0],
            help='CPU policy of the guests (default: %(default)s).',
        )
        parser.add_argument(
            '--storage',
            choices=STORAGES,
            default=STORAGES[0],
            help='Storage of the workers (default: %(default)s).',
        )
        parser.add_argument(
            '--disk-pinning',
            action='store_true',
            help='Assign whole data disks to workers: with local storage, '
            'by a Cinder backend for each disk, or by PCI passthrough if the '
            'host profile has a pci_alias.',
        )
        parser.add_argument(
            '--host-pages',
            type=arguments.count,
            default=0,
            metavar='N',
            help='Number of huge pages in each NUMA cell for programs of the '
            'host, such as Open vSwitch with DPDK, in addition to those of '
            'the guests (default: 0).',
        )
        parser.add_argument(
            '--hosts',
            type=arguments.count,
            default=0,
            metavar='N',
            help='Number of hosts of a cluster, for the quotas in '
            'neutron.conf (default: no quotas).',
        )
        parser.add_argument(
            '--instances',
            type=arguments.count,
            default=1,
            metavar='I',
            help='Number of workers on each of these hosts (default: 1).',
        )
        parser.add_argument(
            '--file',
            choices=tuple(host_files.FILES),
            help='Print only this part: nova.conf of compute hosts, '
            'parameters of their kernel, nova.conf of the schedulers, '
            'cinder.conf of the volume services, cinder.conf of the '
            'schedulers or neutron.conf of the server (default: all).',
        )
        parser.add_argument(
            '--kolla',
            action='store_true',
            help='Print the path of each file in the configuration of '
            'kolla-ansible.',
        )
        parser.add_argument(
            '-f',
            '--format',
            choices=('text', 'json'),
            default='text',
            help='Output format (default: %(default)s).',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        profile = host_profiles.load(parsed_args.profile)
        configuration = Configuration(
            storage=parsed_args.storage,
            cpu_policy=parsed_args.cpu_policy,
            disk_pinning=parsed_args.disk_pinning,
        )
        if configuration.disk_pinning and not profile.disks:
            raise errors.InputError(
                f"Cannot assign whole disks (host profile '{profile.name}'): "
                "it has no 'disks'. Add their count and size to the profile, "
                'or omit --disk-pinning.'
            )
        settings = compute_host_settings(
            profile,
            configuration.cpu_policy,
            reserved_pages=parsed_args.host_pages,
        )
        texts = host_files.render_files(
            *(profile, configuration, settings),
            nodes=_count_nodes(
                profile, parsed_args.hosts, parsed_args.instances
            ),
        )
        if parsed_args.file:
            texts = {parsed_args.file: texts[parsed_args.file]}
        if parsed_args.format == 'json':
            data = _build_mapping(profile, configuration, settings)
            data['files'] = texts
            if parsed_args.kolla:
                data['kolla_paths'] = {
                    name: host_files.FILES[name] or None for name in texts
                }
            json.dump(data, self.app.stdout, indent=2)
            self.app.stdout.write('\n')
            return
        parts = []
        for name, text in texts.items():
            path = host_files.FILES[name]
            if parsed_args.kolla and path:
                text = f'# {path}\n{text}'
            parts.append(text)
        self.app.stdout.write('\n'.join(parts))


def _count_nodes(profile: HostProfile, hosts: int, instances: int) -> int:
    """Return the number of nodes of a cluster that uses all slots.

    :param hosts: number of hosts; 0 if it is unknown.
    :param instances: number of workers on a host.
    :raises hvstack.errors.InputError: no slot remains for a worker.
    """
    if not hosts:
        return 0
    size = compute_cluster_size(
        profile, Configuration(instances=instances), hosts
    )
    return size.workers + size.controllers


def _build_mapping(
    profile: HostProfile, configuration: Configuration, settings: HostSettings
) -> JsonObject:
    """Return the numbers of the settings as plain data."""
    return {
        'profile': profile.name,
        'cpu_policy': settings.cpu_policy,
        'storage': configuration.storage,
        'disk_pinning': configuration.disk_pinning,
        'cpu_set': settings.cpu_set,
        'memory_mib': settings.memory_mib,
        'guest_memory_mib': settings.guest_memory_mib,
        'reserved_host_memory_mb': settings.reserved_memory_mib,
        'huge_pages': [
            {
                'cell': cell.cell,
                'size_kib': PAGE_KIB,
                'count': cell.count,
                'reserved': cell.reserved,
            }
            for cell in settings.pages
        ],
        'kernel_parameters': settings.kernel_parameters,
    }
