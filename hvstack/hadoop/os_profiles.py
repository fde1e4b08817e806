# SPDX-License-Identifier: Apache-2.0
"""OS profiles: operating system settings of the papers, as a shell fragment.

Each profile is a YAML file in ``hvstack/share/hadoop/os-profiles``. The papers
contradict each other (large pages are on in vsphere6, off in amd
and vsan), so only a whole profile can be chosen. Paths in the fragment begin
with ``$HVSTACK_ROOT``, which only tests set.
"""

import functools
import shlex
from dataclasses import dataclass
from enum import Enum

from hvstack import share, shell_scripts
from hvstack.hadoop import profile_files
from hvstack.model.strict_mapping import to_dataclass

DEFAULT = 'vsphere6'
#: File of a node that lists the settings that were applied or not.
STATE = '/etc/hvstack/os-profile.state'
#: File of a node with the fragment, which runs before the daemons start.
SETUP = '/etc/hvstack/node-setup'
#: File of a bare-metal host with the blank data disks that hvstack checked:
#: each line has a device and the UUID of the file system to create.
DISKS = '/etc/hvstack/disks'
#: The kernel of a bare-metal host mounts what mkfs.xfs of the guests creates.
#: Linux before 5.10 mounts no file system with these features, which mkfs.xfs
#: enables.
_OLD_XFS = """case $(uname -r) in
[0-4].* | 5.[0-9] | 5.[0-9][!0-9]*) os_xfs=,bigtime=0,inobtcount=0 ;;
esac"""
#: Directory below which data disks are mounted, with a number from 0 each.
DATA = '/srv/data'
#: Beginning of the names of directories in :data:`DATA` on file systems that
#: the host has mounted (``hvstack/share/shell/host-disks.sh``).
MOUNT_POINT = 'mount-'
_DIRECTORY = share.HADOOP / 'os-profiles'


class Kind(Enum):
    """Way in which a setting is applied."""

    #: ``/proc/sys``, by its dotted name.
    SYSCTL = 'sysctl'
    #: A file of ``/sys/kernel/mm/transparent_hugepage``.
    THP = 'thp'
    #: A resource limit of the daemons and of later logins.
    LIMIT = 'limit'
    #: mkfs of the data disks: the name is the file system.
    MKFS = 'mkfs'
    #: Mount options of the data disks.
    MOUNT = 'mount'
    #: A setting that the node does not apply itself.
    ELSEWHERE = 'elsewhere'


@dataclass(frozen=True)
class Setting:
    """A setting of an OS profile.

    :param kind: way in which the setting is applied.
    :param name: name of the setting.
    :param value: value of the setting.
    :param source: section or table of the paper.
    :param reason: effect of the setting, or why the node does not apply it
        itself.
    """

    kind: Kind
    name: str
    value: str
    source: str
    reason: str


@dataclass(frozen=True)
class _Profile:
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class _Step:
    """An OS profile with the first sections of another profile.

    :param base: name of the other profile.
    :param last_section: last section whose settings apply.
    """

    base: str
    last_section: str


def list_names() -> list[str]:
    """Return the names of all OS profiles."""
    return profile_files.list_names(_DIRECTORY)


@functools.cache
def settings(profile: str) -> tuple[Setting, ...]:
    """Return the settings of an OS profile, in the order of application.

    :param profile: name of the OS profile.
    :raises hvstack.errors.InputError: the profile does not exist.
    """
    document = profile_files.read(_DIRECTORY, profile, 'OS')
    if 'base' in document.data:
        step = to_dataclass(_Step, document.data, document.source_location())
        return tuple(
            setting
            for setting in settings(step.base)
            if setting.source <= step.last_section
        )
    return to_dataclass(
        _Profile, document.data, document.source_location()
    ).settings


def kernel_settings(profile: str) -> list[str]:
    """Return the names of the kernel settings of an OS profile.

    :param profile: name of the OS profile.
    :returns: names such as ``sysctl.vm.swappiness`` and ``thp.enabled``.
    :raises hvstack.errors.InputError: the profile does not exist.
    """
    return [
        f'{setting.kind.value}.{setting.name}'
        for setting in settings(profile)
        if setting.kind in (Kind.SYSCTL, Kind.THP)
    ]


def label(profile: str) -> str:
    """Return the label of the file systems that an OS profile creates.

    :param profile: name of the OS profile.
    :returns: empty if the profile does not say how to create them.
    :raises hvstack.errors.InputError: the profile does not exist.
    """
    kinds = {setting.kind for setting in settings(profile)}
    return f'hv-{profile}' if Kind.MKFS in kinds else ''


def fragment(
    profile: str = DEFAULT,
    *,
    disk_table: bool = False,
    shared_kernel: bool = False,
) -> str:
    """Return a shell fragment that applies an OS profile to a node.

    The fragment succeeds even if settings cannot be applied, also with
    ``set -eu``, but fails if a disk of the disk table cannot be mounted. It
    prints these settings and lists them in :data:`STATE`. The limits apply to
    the shell that runs the fragment, or to the process ``$OS_PID``, so this
    shell must start the daemons. Run the fragment at every boot.

    :param profile: name of the OS profile.
    :param disk_table: whether the data disks are those in the file
        :data:`DISKS`; a blank disk gets a file system. Without this file, a
        virtual machine uses all disks that are not in use, and waits until
        their number is that in its node.env (``DISKS``).
    :param shared_kernel: whether the node shares its kernel with other nodes
        but is not a container that the fragment recognizes, such as a lab
        host.
    :raises hvstack.errors.InputError: the profile does not exist.
    """
    chosen = settings(profile)
    lines = [f'os_profile={profile}']
    if disk_table:
        lines += [
            f'DISK_TABLE=${{HVSTACK_ROOT:-}}{DISKS}',
            'DATA_DISKS=$(sed "s/ .*//" "$DISK_TABLE" | tr "\\n" " ")',
            _OLD_XFS,
        ]
    if shared_kernel:
        lines.append('SHARED_KERNEL=yes')
    # User data has a maximum size.
    functions = ''.join(
        line
        for line in shell_scripts.load('os-profile').splitlines(keepends=True)
        if not line.startswith('#')
    )
    lines.append(
        '\n' + functions.replace('@STATE@', STATE).replace('@DATA@', DATA)
    )
    disks = {Kind.MKFS: ('', ''), Kind.MOUNT: ('', '')}
    for setting in chosen:
        if setting.kind in disks:
            disks[setting.kind] = (setting.name, setting.value)
        elif setting.kind is Kind.ELSEWHERE:
            call = _shell_call(
                'os_not_set', setting.name, setting.value, setting.reason
            )
            lines.append(f'{call} # {setting.source}')
        else:
            call = _shell_call(
                f'os_{setting.kind.value}', setting.name, setting.value
            )
            lines.append(f'{call} # {setting.source}')
    lines.append('os_wait')
    if disk_table:
        lines += _skip_mounted(disks[Kind.MKFS], disks[Kind.MOUNT])
    lines += [
        _shell_call('os_disks', *disks[Kind.MKFS], disks[Kind.MOUNT][1]),
        *(['fi'] if disk_table else []),
        'os_directories',
    ]
    return '\n'.join(lines) + '\n'


def _skip_mounted(mkfs: tuple[str, str], mount: tuple[str, str]) -> list[str]:
    """Return lines for file systems that the host itself has mounted.

    They list the settings that hvstack does not apply to these file systems,
    and end with a condition: other disks exist, or there is only the root
    disk.

    :param mkfs: file system and options of mkfs; empty without any.
    :param mount: name and value of the mount options; empty without any.
    """
    reason = 'the host mounted the file system'
    settings_of_disks = [
        (name, value)
        for name, value in ((f'mkfs.{mkfs[0]}', mkfs[1]), ('mount', mount[1]))
        if name != 'mkfs.' and (name, value) != ('mount', '')
    ]
    return [
        f'os_mounted=$os_root{DATA}/{MOUNT_POINT}0',
        'if mountpoint -q "$os_mounted" 2>/dev/null; then',
        *(
            f'    {_shell_call("os_not_set", name, value, reason)}'
            for name, value in settings_of_disks
        ),
        '    :',
        'fi',
        'if [ -n "$DATA_DISKS" ] ||',
        '    ! mountpoint -q "$os_mounted" 2>/dev/null; then',
    ]


def _shell_call(*args: str) -> str:
    return ' '.join(shlex.quote(arg) for arg in args)


@dataclass(frozen=True)
class OSProfileResult:
    """Settings of an OS profile that a node has applied or not.

    :param profile: name of the profile; empty if the fragment has not run.
    :param applied: settings in force, as ``name=value``.
    :param not_set: settings that could not be applied, as
        ``name=value: reason``.
    """

    profile: str
    applied: tuple[str, ...]
    not_set: tuple[str, ...]


def parse_state(text: str) -> OSProfileResult:
    """Return the result of an OS profile from the content of :data:`STATE`."""
    lines = text.splitlines()
    lines_by_prefix: dict[str, list[str]] = {
        'profile ': [],
        'set ': [],
        'not set ': [],
    }
    for line in lines:
        for start, state_lines in lines_by_prefix.items():
            if line.startswith(start):
                state_lines.append(line.removeprefix(start))
    return OSProfileResult(
        profile=''.join(lines_by_prefix['profile '][-1:]),
        applied=tuple(lines_by_prefix['set ']),
        not_set=tuple(lines_by_prefix['not set ']),
    )
