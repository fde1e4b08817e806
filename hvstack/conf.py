# SPDX-License-Identifier: Apache-2.0
"""Options of hvstack, read with oslo.config from ``hvstack.conf``.

A sample with all of them is ``hvstack/share/hvstack.conf.sample``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oslo_config import cfg

from hvstack import errors, paths

#: Where the file is looked for; what is in a later one wins.
FILES = (Path('/etc/hvstack/hvstack.conf'), paths.STATE / 'hvstack.conf')

_CLOUD = (
    cfg.StrOpt(
        'os_cloud',
        help='Entry of clouds.yaml to use where neither --os-cloud nor '
        'OS_CLOUD names one.',
    ),
    cfg.StrOpt(
        'host_profile',
        default='lab-worker',
        help="Profile of the workers' hosts: a name, or a YAML file.",
    ),
    cfg.StrOpt(
        'controller_profile',
        help="Profile of the controllers' hosts; lab-controller beside "
        'lab-worker, else the same as host_profile.',
    ),
    cfg.StrOpt(
        'backend',
        choices=('kvm', 'lxc', 'qemu'),
        help="Compute backend of the workers' hosts. Nova's API tells lxc "
        'from the others, but not kvm from qemu: that is taken for kvm, but '
        'on the lab.',
    ),
    cfg.StrOpt(
        'image', default='hvstack-hadoop', help='Guest image with Hadoop.'
    ),
    cfg.StrOpt(
        'network',
        default='provider',
        help='Network of the clusters; this machine must reach it.',
    ),
    cfg.IntOpt(
        'stack_timeout',
        default=900,
        min=60,
        help='Seconds that a stack may take to be complete, or deleted.',
    ),
    cfg.IntOpt(
        'max_resources_per_stack',
        default=1000,
        min=-1,
        help="Heat's option of this name, which Heat tells nobody: what it "
        'would not take is refused before. -1 is no limit.',
    ),
    cfg.IntOpt(
        'ready_timeout',
        default=300,
        min=30,
        help='Seconds until HDFS and YARN must see every worker.',
    ),
)

_HADOOP = (
    cfg.StrOpt(
        'tuning',
        default='hvstack',
        choices=(
            *('hvstack', 'vsphere6', 'vsan', 'amd', 'stock'),
            *('amd-3.1.1', 'amd-3.1.3', 'amd-3.1.5', 'amd-3.1.6'),
        ),
        help="Tuning profile of Hadoop's settings, of guests and of bare "
        'metal.',
    ),
    cfg.StrOpt(
        'os_profile',
        default='vsphere6',
        choices=(
            *('vsphere6', 'vsan', 'amd', 'stock'),
            *('amd-2.4.1', 'amd-3.3.1'),
        ),
        help="Profile of the nodes' operating system. What a node cannot set "
        'is in the run records.',
    ),
)

_SWEEP = (
    cfg.StrOpt(
        'baseline_hosts',
        default=str(paths.STATE / 'lab' / 'baseline.json'),
        sample_default='/var/lib/hvstack/lab/baseline.json',
        help='File that names the bare-metal hosts.',
    ),
    cfg.StrOpt(
        'host_mode_command',
        help="Shell command that switches the workers' hosts between shared "
        'and dedicated CPUs; {mode} in it becomes shared or dedicated. It is '
        'run while no server is on them. Without it, configurations with '
        'dedicated CPUs are skipped on hosts in shared mode. For the lab, '
        "'hvstack lab up --host-mode {mode}' by default.",
    ),
)

_TELEMETRY = (
    cfg.FloatOpt(
        'interval',
        default=5.0,
        min=0,
        help="Seconds between samples of the nodes' CPU, disks and network "
        'during a run; 0 takes none.',
    ),
)


_RECORDS = (
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
        ('cloud', list(_CLOUD)),
        ('hadoop', list(_HADOOP)),
        ('records', list(_RECORDS)),
        ('sweep', list(_SWEEP)),
        ('telemetry', list(_TELEMETRY)),
    ]


def variables(options: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return what lets another process take options before the files'.

    :param options: values by option by group.
    :returns: environment variables, as oslo.config reads them.
    """
    return {
        f'OS_{group}__{name}'.upper(): value
        for group, values in options.items()
        for name, value in values.items()
    }


def load(files: tuple[Path, ...] = FILES) -> Any:
    """Return the options that are in force.

    :raises hvstack.errors.InputError: a file cannot be read, or a value in
        it is wrong.
    """
    conf = cfg.ConfigOpts()
    for group, options in list_opts():
        conf.register_opts(options, group=group)
    try:
        conf(
            args=[],
            project='hvstack',
            default_config_files=[str(f) for f in files if f.exists()],
            default_config_dirs=[],
        )
        for group, options in list_opts():
            for option in options:
                getattr(getattr(conf, group), option.dest)
    except (cfg.Error, ValueError) as exc:
        raise errors.InputError(
            f'hvstack.conf: {exc}; look at hvstack.conf.sample'
        ) from exc
    return conf
