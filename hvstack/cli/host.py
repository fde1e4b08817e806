# SPDX-License-Identifier: Apache-2.0
"""``hvstack host``: profiles, written by hand or detected."""

import argparse
import json
import platform
from pathlib import Path

import yaml
from cliff.command import Command
from cliff.lister import Lister
from cliff.show import ShowOne

from hvstack import errors, host_profiles, processutils
from hvstack.cli import arguments
from hvstack.cli.options import add_cloud
from hvstack.cli.tables import Details, Table
from hvstack.model import host_detection
from hvstack.model.plain_data import Json, JsonObject

#: Directory in which the kernel shows the memory of NUMA nodes.
NODES = Path('/sys/devices/system/node')
_MEMINFO = Path('/proc/meminfo')
_LSCPU = ('lscpu', '-J', '-e=CPU,NODE,SOCKET,CORE,ONLINE')
#: All columns, because lsblk refuses a column that it does not know: that of
#: all mounts of a device exists from util-linux 2.37 on.
_LSBLK = ('lsblk', '-J', '-b', '-O')


class Detect(Command):
    """Print the profile of this machine, or of a host of a cloud, as YAML.

    Options supply the values that cannot be detected.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--name',
            help='Name of the profile (default: the name of the host).',
        )
        parser.add_argument(
            '--disks',
            metavar='DISKS',
            help='Data disks: count and size in GB such as 20x600, or '
            "'none', or names on this machine such as sdb,sdc "
            '(default for this machine: disks without content).',
        )
        parser.add_argument(
            '--rotational',
            choices=('yes', 'no'),
            help='Whether the data disks rotate (default for this '
            'machine: the value of the kernel).',
        )
        parser.add_argument(
            '--from-cloud',
            metavar='HOST',
            help='Name of a hypervisor of a cloud; its profile is '
            'printed instead of that of this machine.',
        )
        add_cloud(parser)
        for option, subject in (
            ('--sockets', 'sockets'),
            ('--threads', 'threads of a core'),
            ('--cells', 'equal NUMA cells'),
        ):
            parser.add_argument(
                option,
                type=arguments.count,
                metavar='N',
                help=f'{subject} of a host of a cloud, if no API reports it.',
            )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Look, and print what was found."""
        if parsed_args.from_cloud:
            data = _of_cloud(parsed_args)
        else:
            data = _of_machine(parsed_args)
        yaml.safe_dump(data, self.app.stdout, sort_keys=False, width=79)


def _rotational(parsed_args: argparse.Namespace) -> bool | None:
    answer = parsed_args.rotational
    return None if answer is None else answer == 'yes'


def _of_machine(parsed_args: argparse.Namespace) -> JsonObject:
    for option in ('sockets', 'threads', 'cells'):
        if getattr(parsed_args, option) is not None:
            raise errors.InputError(
                f'Cannot use --{option} without --from-cloud, because hvstack '
                f'detects the CPUs of this machine. Omit --{option}.'
            )
    memory = {
        int(
            path.parent.name.removeprefix('node')
        ): host_detection.parse_meminfo(path.read_text(encoding='utf-8'))
        for path in NODES.glob('node[0-9]*/meminfo')
    } or {
        0: host_detection.parse_meminfo(_MEMINFO.read_text(encoding='utf-8'))
    }
    name = platform.node().partition('.')[0].lower()
    return host_detection.build_profile(
        parsed_args.name or name,
        host_detection.parse_lscpu(_json(_LSCPU), memory),
        host_detection.select_data_disks(
            _json(_LSBLK), parsed_args.disks, _rotational(parsed_args)
        ),
    )


def _json(argv: tuple[str, ...]) -> Json:
    text = processutils.run(argv, timeout=60, env={'LC_ALL': 'C'}).stdout
    try:
        content: Json = json.loads(text)
        return content
    except ValueError as exc:
        raise errors.MissingPrerequisiteError(
            f"Cannot read the output of '{argv[0]} -J': it is not JSON "
            f'({exc}). Update util-linux.'
        ) from exc


def _of_cloud(parsed_args: argparse.Namespace) -> JsonObject:
    host = parsed_args.from_cloud
    if parsed_args.disks is None:
        raise errors.InputError(
            f'Cannot create a host profile ({host}): no API reports its data '
            'disks. Use --disks 20x600 with --rotational, or --disks none.'
        )
    disks = host_detection.parse_disks_option(
        parsed_args.disks, _rotational(parsed_args)
    )
    # Other commands for hosts do not need the time to import openstacksdk.
    from hvstack.cloud import connection, hypervisors, placement

    conn = connection.connect(parsed_args.os_cloud)
    provider = placement.providers(conn).get(host)
    if provider is None:
        raise errors.InputError(
            f"Cannot find host '{host}' in Placement. Use one of 'openstack "
            "hypervisor list'."
        )
    inventories = placement.inventories(conn, provider)['inventories']
    fields = host_detection.parse_inventories(
        host,
        inventories,
        placement.traits(conn, provider),
        hypervisors.cpu_info(conn, host),
        sockets=parsed_args.sockets,
        threads=parsed_args.threads,
        cells=parsed_args.cells,
    )
    name = host.partition('.')[0].lower()
    reserved = int(inventories['MEMORY_MB'].get('reserved', 0))
    return host_detection.build_profile(
        parsed_args.name or name, fields, disks, reserved
    )


class List(Lister):
    """List the host profiles of the search path."""

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Read them."""
        rows = []
        for name, path in host_profiles.list_paths().items():
            profile = host_profiles.load(name)
            rows.append(
                (
                    name,
                    profile.cpus,
                    profile.memory_mib,
                    len(profile.cells),
                    str(path),
                )
            )
        return ('name', 'cpus', 'memory_mib', 'cells', 'file'), rows


class Show(ShowOne):
    """Show a host profile with all computed values."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'profile',
            metavar='PROFILE',
            help='Name or YAML file of a host profile.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Details:
        """Read and show it."""
        profile = host_profiles.load(parsed_args.profile)
        fields = {
            **profile.to_mapping(),
            'cpus': profile.cpus,
            'digest': profile.digest,
        }
        return tuple(fields), tuple(fields.values())
