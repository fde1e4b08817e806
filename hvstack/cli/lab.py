# SPDX-License-Identifier: Apache-2.0
"""``hvstack lab``: an OpenStack with hosts of its own on this machine."""

import argparse
import contextlib
import shlex

from cliff.command import Command
from cliff.lister import Lister

from hvstack import errors, extras, host_profiles, pid_files
from hvstack.cli import arguments
from hvstack.cli.tables import Row, Table
from hvstack.cloud import journal
from hvstack.cluster import acquired_hosts
from hvstack.lab import (
    clouds_yaml,
    doctor,
    hosts,
    lifecycle,
    requirements,
    settings,
)
from hvstack.lab.hosts import fake
from hvstack.lab.settings import (
    BACKENDS,
    CEPH_LAYOUTS,
    EXTRAS,
    RELEASE,
    RELEASES,
    LabSettings,
)
from hvstack.model.configuration import CPU_POLICIES
from hvstack.model.plain_data import JsonObject
from hvstack.progress import Progress
from hvstack.sweep import rallyenv


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--hosts',
        type=arguments.count,
        metavar='N',
        help='Number of lab hosts (default: 3).',
    )
    parser.add_argument(
        '--controllers',
        type=arguments.count,
        metavar='N',
        help='Number of these hosts that carry controllers. 2 is for separate '
        'controllers, and for a second compute cluster (default: 1).',
    )
    parser.add_argument(
        '--fake-hosts',
        type=arguments.count,
        metavar='N',
        help='Number of compute services without guests, for scheduler '
        'tests (default: 0).',
    )
    parser.add_argument(
        '--compute',
        choices=BACKENDS,
        help='Compute backend of the hosts. auto selects kvm if a '
        'kernel boots under it, else lxc (default: auto).',
    )
    parser.add_argument(
        '--host-compute',
        action='append',
        metavar='HOST=BACKEND',
        help='Compute backend of one host. Can be repeated.',
    )
    parser.add_argument(
        '--dedicated',
        action='append',
        metavar='HOST=CPUS',
        help='CPUs of a kvm or qemu host for guests with dedicated '
        'CPUs, such as hv-host3=1 (hv-host3= for none). The '
        'remaining CPUs are shared. Can be repeated.',
    )
    parser.add_argument(
        '--host-mode',
        choices=CPU_POLICIES,
        help='dedicated: all CPUs of the worker hosts with kvm or qemu, '
        'except the first CPU, are for guests with dedicated CPUs; '
        'shared: none is. Cannot be combined with --dedicated.',
    )


def _add_fake_hosts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--fake-profile',
        metavar='PROFILE',
        help='Host profile whose sockets, threads, cells, memory, pages '
        'and disks every fake host reports: its name (vsphere6, '
        'vsan, amd) or its YAML file (default: 16 CPUs, half of '
        'them dedicated).',
    )
    parser.add_argument(
        '--fake-cpu-policy',
        choices=CPU_POLICIES,
        help='CPU policy of the fake hosts with a profile (default: '
        'dedicated).',
    )
    parser.add_argument(
        '--racks',
        type=arguments.count,
        metavar='N',
        help='Number of availability zones for the workers (default: 0, '
        'none).',
    )


def _add_services(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        '--with',
        dest='extra',
        choices=EXTRAS,
        help='ceph: Ceph with four disks, and Cinder with a volume '
        'type for each of three disks and one for all disks. lvm: Cinder '
        'with a volume group on each host for each of its two disks, which '
        'needs modules of the kernel. Both need a kvm or qemu host '
        '(default: without).',
    )
    group.add_argument(
        '--without',
        choices=EXTRAS,
        help='Stop the component. Its data is kept.',
    )
    parser.add_argument(
        '--ceph-copies',
        type=arguments.count,
        metavar='N',
        help="Number of copies of volumes of type 'ceph' in Ceph. 1 is "
        'for benchmarks: a lost disk loses data (default: 3).',
    )
    parser.add_argument(
        '--ceph-layouts',
        nargs='*',
        choices=CEPH_LAYOUTS,
        metavar='LAYOUT',
        help='Layouts of Ceph with pools and volume types of their own, for '
        'the studies of vsan: copies (1, 2, 3 copies), groups (2, 3, 4 groups '
        'of disks), affinity (the first copy on the disk of the host). '
        'Without a layout: none (default: none).',
    )
    parser.add_argument(
        '--release',
        choices=RELEASES,
        help='Release of OpenStack, such as that of a cloud for which '
        'flavors and stacks are tried in the lab. A lab keeps its release '
        f'(default: {RELEASE}).',
    )
    parser.add_argument(
        '--untested',
        action='store_true',
        default=None,
        help='Continue on a release of Debian or Ubuntu on which '
        'hvstack was not tested (default: reject it).',
    )


class Up(Command):
    """Start the lab, resume an interrupted start, or change the lab.

    Without other options, the command changes nothing in a running lab.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the options; those not given stay as they were."""
        parser = super().get_parser(prog_name)
        _add_hosts(parser)
        _add_fake_hosts(parser)
        _add_services(parser)
        return parser

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Bring it up."""
        names = (
            'hosts',
            'controllers',
            'fake_hosts',
            'compute',
            'racks',
            'ceph_copies',
            'untested',
            'release',
        )
        changes: dict[
            str, int | str | bool | dict[str, str] | tuple[str, ...]
        ] = {
            name: value
            for name in names
            if (value := getattr(parsed_args, name)) is not None
        }
        if parsed_args.ceph_layouts is not None:
            changes['ceph_layouts'] = tuple(parsed_args.ceph_layouts)
        for extra in EXTRAS:
            if extra in (parsed_args.extra, parsed_args.without):
                changes[extra] = extra == parsed_args.extra
        if parsed_args.host_compute is not None:
            changes['host_compute'] = _pairs(
                '--host-compute', parsed_args.host_compute, 'hv-host3=qemu'
            )
        options: JsonObject = {}
        if parsed_args.dedicated is not None:
            pairs = _pairs('--dedicated', parsed_args.dedicated, 'hv-host3=1')
            options['dedicated'] = {
                host: cpus for host, cpus in pairs.items() if cpus
            }
        if parsed_args.fake_profile is not None:
            options['fake_profile'] = fake.from_profile(
                host_profiles.load(parsed_args.fake_profile),
                parsed_args.fake_cpu_policy or 'dedicated',
            )
        elif parsed_args.fake_cpu_policy is not None:
            raise errors.InputError(
                'Cannot use --fake-cpu-policy without --fake-profile. Add '
                '--fake-profile.'
            )

        def change(before: LabSettings) -> LabSettings:
            merged = {**before.options, **options}
            after = before.change(**changes, options=merged)
            if parsed_args.ceph_layouts and not after.ceph:
                raise errors.InputError(
                    'Cannot use --ceph-layouts: the lab has no Ceph. Add '
                    '--with ceph.'
                )
            if parsed_args.host_mode is None:
                return after
            cpus = hosts.dedicated(after, parsed_args.host_mode)
            return after.change(options={**merged, 'dedicated': cpus})

        progress = Progress()
        lifecycle.up(change, progress)
        progress.say(
            'the lab is up: after \'eval "$(hvstack lab env)"\', use '
            f"'openstack --os-cloud {clouds_yaml.ADMIN_CLOUD} ...', or "
            f'{clouds_yaml.MEMBER_CLOUD} for its member'
        )


def _pairs(
    option: str, assignments: list[str], example: str
) -> dict[str, str]:
    pairs = {}
    for word in assignments:
        host, mark, value = word.partition('=')
        if not mark:
            raise errors.InputError(
                f'Cannot use {option} {word}: it is not HOST=VALUE. Use a '
                f'host and a value, such as {example}.'
            )
        pairs[host] = value
    return pairs


def name_holders(progress: Progress) -> None:
    """Say which processes will miss the lab: what they measure is lost."""
    # A file that is not an hvstack file is no reason to keep a lab.
    with contextlib.suppress(errors.InputError, OSError, ValueError):
        for pid in sorted(journal.holders() | acquired_hosts.holders()):
            progress.warn(
                f'the lab is in use, which will fail: process {pid}, '
                f'{pid_files.command(pid)[:100]}'
            )


class Down(Command):
    """Stop the lab and keep its data."""

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Stop it."""
        requirements.check_root()
        progress = Progress()
        name_holders(progress)
        lifecycle.down(progress)


class Destroy(Command):
    """Remove the lab and its data.

    Run records, keys and the journal of all clouds are kept, and installed
    packages and their users as well. The command lists them.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--keep-cache',
            action='store_true',
            help='Keep the guest images and the virtual environment of '
            'the services.',
        )
        parser.add_argument(
            '--records',
            action='store_true',
            help='Also delete run records, sweeps, keys and the '
            'journal. hvstack rejects this while the journal '
            'contains changes to another cloud.',
        )
        return parser

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Remove it."""
        requirements.check_root()
        progress = Progress()
        name_holders(progress)
        lines = lifecycle.destroy(
            progress,
            keep_cache=parsed_args.keep_cache,
            records=parsed_args.records,
        )
        for line in lines:
            self.app.stdout.write(f'{line}\n')


class Status(Lister):
    """Show the programs, hosts, compute backends and memory of the lab."""

    @extras.required('lab')
    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Look at everything; change nothing."""
        requirements.check_root()
        rows: list[Row] = [
            ('program', part.name, part.state, part.pss_mib, _age(part.uptime))
            for part in lifecycle.parts()
        ]
        rows.append(('sum', 'control plane', '', lifecycle.control_pss(), ''))
        rows += [
            ('host', host.name, host.state, host.memory_mib, host.summary)
            for host in hosts.status(settings.load() or LabSettings())
        ]
        return ('Kind', 'Name', 'State', 'Memory MiB', 'Detail'), rows


def _age(seconds: int) -> str:
    hours, remainder = divmod(seconds, 3600)
    return (
        f'up {hours}:{remainder // 60:02d}:{remainder % 60:02d}'
        if seconds
        else ''
    )


class Env(Command):
    """Print the shell variables of the lab: eval "$(hvstack lab env)"."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--member',
            action='store_true',
            help='Use the member of the tenant instead of the administrator.',
        )
        parser.add_argument(
            '--variables',
            action='store_true',
            help='Print OS_* variables with the password, for programs '
            'that do not read clouds.yaml.',
        )
        parser.add_argument(
            '--rally',
            action='store_true',
            help="Also create hvstack's Rally database and its environment "
            "for the lab, and print a shell function 'rally' that uses them. "
            "The user's own Rally database is not changed.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print export lines."""
        if not clouds_yaml.OURS.exists():
            raise errors.MissingPrerequisiteError(
                'Cannot print the variables of the lab: the lab does not '
                "exist on this machine. Run 'hvstack lab up'."
            )
        name = (
            clouds_yaml.MEMBER_CLOUD
            if parsed_args.member
            else clouds_yaml.ADMIN_CLOUD
        )
        lines = {
            'OS_CLIENT_CONFIG_FILE': str(clouds_yaml.OURS),
            'OS_CLOUD': name,
        }
        if parsed_args.variables:
            lines = variables(clouds_yaml.entries()[name])
        if parsed_args.rally:
            rallyenv.ensure_environment(name)
            lines |= rallyenv.VARIABLES
        for key, value in lines.items():
            self.app.stdout.write(f'export {key}={shlex.quote(value)}\n')
        if parsed_args.rally:
            options = shlex.join(rallyenv.build_config_args())
            self.app.stdout.write(
                f'rally() {{ command rally {options} "$@"; }}\n'
            )


def variables(entry: clouds_yaml.CloudEntry) -> dict[str, str]:
    """Return a cloud of ``clouds.yaml`` as ``OS_*`` variables."""
    auth = {f'OS_{key.upper()}': value for key, value in entry['auth'].items()}
    return {
        **auth,
        'OS_REGION_NAME': entry['region_name'],
        'OS_IDENTITY_API_VERSION': str(entry['identity_api_version']),
        'OS_COMPUTE_API_VERSION': entry['compute_api_version'],
    }


class Doctor(Lister):
    """Check the machine and the lab, and show remedies; change nothing."""

    @extras.required('lab')
    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Run every check."""
        rows: list[tuple[str, ...]] = [
            (
                diagnosis.check,
                diagnosis.state,
                diagnosis.detail,
                diagnosis.remedy,
            )
            for diagnosis in doctor.examine()
        ]
        return ('Check', 'State', 'Detail', 'Remedy'), rows
