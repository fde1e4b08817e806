# SPDX-License-Identifier: Apache-2.0
"""Options of hvstack, read with oslo.config from ``hvstack.conf``.

A sample with all of them is ``hvstack/share/hvstack.conf.sample``.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from oslo_config import cfg, iniparser

from hvstack import errors, paths, textfile
from hvstack.conf_values import LiteralOptions, explain_refusal

#: File that 'hvstack lab up' writes.
LAB_FILE = paths.STATE / 'lab' / 'hvstack.conf'
#: Where the file is looked for; what is in a later one wins.
FILES = (LAB_FILE, paths.ETC / 'hvstack.conf', paths.STATE / 'hvstack.conf')

#: A week: a longer time-out is a mistyped unit.
_MAX_SECONDS = 7 * 24 * 3600

_CLOUD = (
    cfg.StrOpt(
        'os_cloud',
        help='Entry of clouds.yaml that is used if neither --os-cloud '
        'nor OS_CLOUD names an entry.',
    ),
    cfg.StrOpt(
        'host_profile',
        default='lab-worker',
        help="Host profile of the workers' hosts: a name, or a YAML file.",
    ),
    cfg.StrOpt(
        'controller_profile',
        help="Host profile of the controllers' hosts (default: "
        'lab-controller with lab-worker, otherwise the value of '
        'host_profile).',
    ),
    cfg.StrOpt(
        'backend',
        choices=('kvm', 'lxc', 'qemu'),
        help="Compute backend of the workers' hosts. The API of Nova "
        'distinguishes lxc from the others, but not kvm from qemu. '
        'By default, hvstack assumes kvm, except in the lab.',
    ),
    cfg.StrOpt(
        'image', default='hvstack-hadoop', help='Guest image with Hadoop.'
    ),
    cfg.StrOpt(
        'network',
        default='provider',
        help='Network of the clusters. This machine must reach it.',
    ),
    cfg.StrOpt(
        'macvtap_network',
        default='direct',
        help='Network of clusters whose nodes are connected past the virtual '
        'switches of the hosts (vnic: macvtap). This machine must reach it. '
        'The default is the network of a lab.',
    ),
    cfg.StrOpt(
        'macvtap_vnic_type',
        default='baremetal',
        choices=(
            ('baremetal', 'Neutron binds the ports without a PCI device'),
            ('direct', 'a virtual function of a PCI device (SR-IOV)'),
            ('macvtap', 'a macvtap device on such a virtual function'),
        ),
        help='VNIC type of the ports on macvtap_network. The default is that '
        'of a lab.',
    ),
    cfg.StrOpt(
        'availability_zone',
        help='Availability zone of Nova for all nodes of the clusters. '
        'Volumes are in the zone of Cinder with the same name, if there is '
        'one. By default, Nova and Cinder choose.',
    ),
    cfg.IntOpt(
        'stack_timeout',
        default=900,
        min=60,
        max=_MAX_SECONDS,
        help='Maximum time until a stack is complete or deleted, in seconds, '
        'in addition to 6 seconds for each node.',
    ),
    cfg.StrOpt(
        'host_key_source',
        default='heat',
        choices=(
            ('heat', "every node sends its key to Heat's CFN API"),
            ('console', "hvstack reads the keys from Nova's console log"),
        ),
        help='Source of the ssh host keys of the nodes. hvstack '
        'connects only to nodes whose key it has. Use console if '
        'nodes cannot reach the CloudFormation API of Heat; '
        'containers and bare metal may have no console log.',
    ),
    cfg.StrOpt(
        'ssh_config',
        help='Configuration file of ssh for connections to the nodes of '
        'clusters, for example with a ProxyJump or a Port. The user, the '
        'key and the host keys are always those of hvstack. If the '
        'output ssh of a stack is a floating IP, hvstack reaches the '
        'other nodes through it, without such a file. By default, hvstack '
        'reads no configuration of ssh.',
    ),
    cfg.BoolOpt(
        'try_trust',
        default=False,
        help='Create stacks with an application credential, although '
        'Keystone seems to deny trusts to it.',
    ),
    cfg.IntOpt(
        'max_resources_per_stack',
        default=1000,
        min=-1,
        max=10**6,
        help='Value of max_resources_per_stack in heat.conf, which the '
        'Heat API does not expose. hvstack rejects larger stacks '
        'before it calls Heat. -1 means no limit.',
    ),
    cfg.IntOpt(
        'ready_timeout',
        default=300,
        min=30,
        max=_MAX_SECONDS,
        help='Maximum time until all workers have registered with HDFS '
        'and YARN, in seconds, in addition to 1 second for each node.',
    ),
)

_HADOOP = (
    cfg.StrOpt(
        'tuning',
        choices=(
            *('hvstack', 'lab', 'vsphere6', 'vsan', 'amd', 'stock'),
            *('amd-3.1.1', 'amd-3.1.3', 'amd-3.1.5', 'amd-3.1.6'),
        ),
        help='Tuning profile of Hadoop, for guests and bare metal. The '
        'default is lab for the hosts of a lab, and hvstack for all others.',
    ),
    cfg.StrOpt(
        'os_profile',
        default='vsphere6',
        choices=(
            *('vsphere6', 'vsan', 'amd', 'stock'),
            *('amd-2.4.1', 'amd-3.3.1'),
        ),
        help='OS profile of the nodes. Run records contain the settings '
        'that a node cannot apply.',
    ),
)

_BENCHMARK = (
    cfg.IntOpt(
        'phase_timeout',
        default=0,
        min=0,
        max=_MAX_SECONDS,
        help='Deadline of each phase of a run in seconds. 0 computes it from '
        'the size of the data, the hosts, and the earlier runs of the sweep. '
        'A phase that makes progress continues after its deadline.',
    ),
    cfg.IntOpt(
        'stall_timeout',
        default=900,
        min=30,
        max=_MAX_SECONDS,
        help='Maximum time without progress of the jobs, in seconds, before '
        'a phase is stopped after its deadline. YARN and MapReduce need 600 '
        'seconds before they replace a lost node or task.',
    ),
    cfg.StrOpt(
        'sweep_budget',
        default='',
        help='Maximum number of runs of a sweep with the strategy '
        'model-based, such as 40, or of hours, such as 2.5h, with those of '
        'the confirmation. Empty for no limit.',
    ),
    cfg.BoolOpt(
        'drop_caches',
        default=True,
        help='Drop the page caches below all nodes before each run. Set it to '
        'false for all runs of a comparison, also those on bare metal, if '
        'guests or hosts cannot do so.',
    ),
    cfg.BoolOpt(
        'lift_caps',
        default=True,
        help='Lift the CPU caps of lab hosts while a sweep measures nothing: '
        'clusters are created and Hadoop starts in less time. The caps are in '
        'force from the probe before a run until its last phase has ended.',
    ),
)

_SWEEP = (
    cfg.StrOpt(
        'baseline_hosts',
        default=str(paths.STATE / 'lab' / 'baseline.json'),
        sample_default='/var/lib/hvstack/lab/baseline.json',
        help='Inventory file of the bare-metal hosts.',
    ),
    cfg.StrOpt(
        'host_mode_command',
        help="Shell command that switches the workers' hosts between "
        'shared and dedicated CPUs; {mode} in it is replaced by '
        'shared or dedicated. hvstack runs it while the hosts have '
        'no servers. Without the command, configurations with '
        'dedicated CPUs are skipped on hosts in shared mode. The '
        "default for the lab is 'hvstack lab up --host-mode "
        "{mode}'.",
    ),
)

_TELEMETRY = (
    cfg.FloatOpt(
        'interval',
        default=5.0,
        min=0,
        max=3600,
        help='Seconds between samples of CPU, disk and network use of '
        'the nodes during a run; 0 disables telemetry.',
    ),
    cfg.BoolOpt(
        'compute_hosts',
        default=True,
        help='Sample /proc of the compute hosts during the runs of guests, '
        'by ssh to the addresses in the inventory of baseline_hosts. hvstack '
        'writes nothing on the hosts. A host that cannot be measured fails '
        'no run.',
    ),
)


_RECORDS = (
    cfg.StrOpt(
        'connection',
        secret=True,
        help='URL of the database with the run records, as SQLAlchemy reads '
        'it: sqlite:////var/lib/hvstack/records.sqlite for a file, or '
        'postgresql+psycopg://USER@HOST/NAME for a PostgreSQL server that a '
        'team shares. The file ~/.pgpass can contain the password. Requires '
        'the extra sql. By default, the records are files in the directory '
        'records of the state directory.',
    ),
    cfg.BoolOpt(
        'unsigned',
        default=False,
        help='Count run records and evidence that are not signed by a trusted '
        'key, such as those of older releases. Reports say how many of them '
        'they use. The option --unsigned does so for a single command.',
    ),
)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return all options, for oslo.config's sample and for Rally."""
    return [
        ('benchmark', list(_BENCHMARK)),
        ('cloud', list(_CLOUD)),
        ('hadoop', list(_HADOOP)),
        ('records', list(_RECORDS)),
        ('sweep', list(_SWEEP)),
        ('telemetry', list(_TELEMETRY)),
    ]


def variables(options: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the variables that override options in another process.

    :param options: values by option by group.
    :returns: environment variables, as oslo.config reads them.
    """
    return {
        f'OS_{group}__{name}'.upper(): value
        for group, values in options.items()
        for name, value in values.items()
    }


class _File(iniparser.BaseParser):
    """Options of a file, with the line and the text of each.

    oslo.config itself ignores sections and options that it does not know.

    :param path: the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.section = ''
        self.options: dict[tuple[str, str], tuple[int, str]] = {}

    def new_section(self, section: str) -> None:
        """Note the section of the options that follow."""
        names = [group for group, _ in list_opts()]
        if section not in ('DEFAULT', *names):
            raise self._error(
                f"section '{section}' is unknown. Use one of "
                f'{", ".join(names)}.'
            )
        self.section = section

    def assignment(self, key: str, value: list[str]) -> None:
        """Check an option."""
        text = '\n'.join(value)
        options_by_name = {
            (group, option.dest): option
            for group, options in list_opts()
            for option in options
        }
        name = (self.section, key.replace('-', '_'))
        if name not in options_by_name:
            sections = [
                group for group, dest in options_by_name if dest == name[1]
            ]
            names = [
                dest
                for group, dest in options_by_name
                if group == self.section
            ]
            remedy = (
                f'Move it to [{sections[0]}].'
                if sections
                else f'Use one of {", ".join(names) or "no option"}.'
            )
            raise self._error(
                f"option '{key}' is unknown in [{self.section}]. {remedy}"
            )
        if name in self.options:
            raise self._error(f"option '{key}' is duplicated. Delete one.")
        if textfile.printable(text) != text:
            raise self._error(
                f"option '{key}' has a control character. Remove it."
            )
        reason = explain_refusal(options_by_name[name], text)
        if reason:
            printed = '***' if options_by_name[name].secret else text[:60]
            raise self._error(f"option '{key}' is '{printed}', {reason}")
        self.options[name] = (self.lineno, text)

    def parse_exc(  # type: ignore[override]
        self, message: str, lineno: int, line: str | None = None
    ) -> Exception:
        """Return the error for a line that is not an option."""
        self.lineno = lineno
        return self._error(f'{message}. Write options as name = value.')

    def _error(self, reason: str) -> errors.InputError:
        text = textfile.printable(reason)
        return errors.InputError(
            f'{self.path}:{self.lineno}: Cannot read the options: '
            f'{text.removesuffix(".")}.'
        )


def _check_variables() -> None:
    """Refuse values of environment variables that options cannot have.

    :raises hvstack.errors.InputError: a variable has such a value.
    """
    for group, options in list_opts():
        for option in options:
            name = f'OS_{group}__{option.dest}'.upper()
            value = os.environ.get(name)
            if value is None:
                continue
            reason = explain_refusal(option, value)
            if reason or textfile.printable(value) != value:
                reason = reason or 'has a control character. Remove it.'
                printed = (
                    '***' if option.secret else textfile.printable(value[:60])
                )
                raise errors.InputError(
                    f'Cannot read environment variable {name}: '
                    f"'{printed}' "
                    f'{reason.removesuffix(".")}.'
                )


class CloudOptions(Protocol):
    """Options of the group ``cloud``; None without a value."""

    os_cloud: str | None
    host_profile: str
    controller_profile: str | None
    backend: str | None
    image: str
    network: str
    macvtap_network: str
    macvtap_vnic_type: str
    availability_zone: str | None
    stack_timeout: int
    host_key_source: str
    ssh_config: str | None
    try_trust: bool
    max_resources_per_stack: int
    ready_timeout: int


class HadoopOptions(Protocol):
    """Options of the group ``hadoop``; None without a value."""

    tuning: str | None
    os_profile: str


class BenchmarkOptions(Protocol):
    """Options of the group ``benchmark``."""

    phase_timeout: int
    stall_timeout: int
    sweep_budget: str
    drop_caches: bool
    lift_caps: bool


class SweepOptions(Protocol):
    """Options of the group ``sweep``; None without a value."""

    baseline_hosts: str
    host_mode_command: str | None


class TelemetryOptions(Protocol):
    """Options of the group ``telemetry``."""

    interval: float
    compute_hosts: bool


class RecordsOptions(Protocol):
    """Options of the group ``records``; None without a value."""

    connection: str | None
    unsigned: bool


class ConfOptions(Protocol):
    """Options of ``hvstack.conf`` by group."""

    benchmark: BenchmarkOptions
    cloud: CloudOptions
    hadoop: HadoopOptions
    records: RecordsOptions
    sweep: SweepOptions
    telemetry: TelemetryOptions

    def set_override(self, name: str, override: str, group: str) -> None:
        """Set an option to another value than that of the file."""


def load(files: tuple[Path, ...] = FILES) -> ConfOptions:
    """Return the options that are in force.

    :param files: later files override earlier ones; missing ones are
        ignored.
    :raises hvstack.errors.InputError: a file cannot be read, or has an
        unknown section or option, or a value is not valid.
    """
    conf = LiteralOptions()
    for group, options in list_opts():
        conf.register_opts(options, group=group)
    # A link that leads nowhere is a mistake, not a missing file.
    existing = [path for path in files if os.path.lexists(path)]
    for path in existing:
        _File(path).parse(textfile.read(path).splitlines(keepends=True))
    _check_variables()
    try:
        conf(
            args=[],
            project='hvstack',
            default_config_files=[str(path) for path in existing],
            default_config_dirs=[],
        )
        for group, options in list_opts():
            for option in options:
                getattr(getattr(conf, group), option.dest)
    except (cfg.Error, ValueError) as exc:
        raise errors.InputError(
            f'Cannot read hvstack.conf: {str(exc).removesuffix(".")}. Compare '
            'it with hvstack.conf.sample.'
        ) from exc
    options_by_group: ConfOptions = conf
    return options_by_group
