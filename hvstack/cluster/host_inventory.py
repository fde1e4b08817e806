# SPDX-License-Identifier: Apache-2.0
"""Bare-metal hosts: what is known of one, and an inventory reached by SSH.

Hadoop runs from the guests' root file system, unpacked on each host and
entered by chroot: the same Hadoop, JRE and programs on both sides.
"""

import contextlib
import shlex
import threading
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hvstack import errors, processutils, textfile, yamlfile
from hvstack.cluster import actions, host_script
from hvstack.cluster.ssh import SSHNode
from hvstack.hadoop import os_profiles
from hvstack.model.strict_mapping import Fields

ROOT = '/var/lib/hvstack-bare/root'
_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
_MOST_MIB = 64 * 1024 * 1024
_FIELDS = (
    *('key', 'known_hosts', 'first_contact', 'rootfs', 'root', 'uid'),
    *('firewall', 'user', 'ssh_config', 'hosts'),
)
#: HDFS is in a directory of this name below ``data``, which hvstack creates.
DATA = 'hvstack-bare'


@dataclass(frozen=True)
class Command:
    """A command on a host.

    :param description: why it runs, for people.
    :param text: command line for the host's shell.
    :param archive: file that it reads; None for a command without input.
    """

    description: str
    text: str
    archive: Path | None = None


@dataclass(frozen=True)
class Reach(SSHNode):
    """A bare-metal host that ssh reaches.

    :param inside: program there that runs what follows it, such as chroot.
    """

    inside: tuple[str, ...] = ()

    def argv(self, command: str) -> list[str]:
        """Return the ssh command line."""
        inside = shlex.join([*self.inside, 'sh', '-c', command])
        return super().argv(f'{host_script.UMASK}; {inside}')


@dataclass(frozen=True)
class Host:
    """One bare-metal host.

    :param name: its host name.
    :param role: ``controller`` or ``worker``.
    :param address: of the interface that Hadoop's traffic takes.
    :param vcpus: CPUs that it reports.
    :param memory_mib: memory that it reports.
    :param enter: program that runs what follows it on the host.
    :param prepare: program that makes a lab host ready for Hadoop.
    :param rootfs: archive that is unpacked on a host that ssh reaches.
    :param release: action that undoes the preparation, also after a part of
        it; None for a host that is not prepared.
    :param cpu_cap: cores that it may use; None is all of them.
    :param memory_cap_mib: memory that it may use.
    :param reach: how ssh reaches it, instead of ``enter``.
    :param backend: compute backend of its guests, when Nova has it; only the
        lab's are known.
    :param wiped: disks whose content a user has confirmed to erase.
    """

    name: str
    role: str
    address: str
    vcpus: int
    memory_mib: int
    enter: tuple[str, ...]
    prepare: tuple[str, ...] = ()
    rootfs: Path | None = None
    release: actions.Action | None = None
    cpu_cap: float | None = None
    memory_cap_mib: int | None = None
    reach: Reach | None = None
    backend: str = ''
    wiped: frozenset[str] = frozenset()


def find_worker_size(hosts: Sequence[Host]) -> tuple[int, int]:
    """Return the CPUs and the memory in MiB that each worker has.

    :param hosts: hosts, at least one of them a worker.
    """
    workers = [host for host in hosts if host.role == 'worker']
    return (
        min(host.vcpus for host in workers),
        min(host.memory_mib for host in workers),
    )


def commands(
    host: Host,
    action: actions.ReleaseSSHHost,
    members: Sequence[str],
    os_profile: str,
) -> dict[str, Command]:
    """Return the commands that prepare a host that ssh reaches, by name.

    They are run in this order, ``unpack`` only if ``claim`` prints another
    stamp than :func:`stamp`.

    :param members: addresses of all hosts.
    :param os_profile: its settings are read, before Hadoop's start makes
        them.
    """
    assert host.rootfs
    root, data = action.root, action.data
    disks = [
        text
        for disk, disk_uuid in action.disks.items()
        for text in (disk, disk_uuid, 'wipe' if disk in host.wiped else '')
    ]
    firewall = f'firewall.{action.uid}={action.firewall}'
    own = (host_script.build_holder(), root, data, action.after)
    archive_stamp = host_script.stamp(host.rootfs)
    steps = {
        'release': Command(
            'End and unmount what an earlier run left',
            host_script.command('release_own', *own),
        ),
        'host': _build_host_check(host),
        'claim': Command(
            'Create the directories, or check that hvstack created them',
            host_script.command('claim', root, data, own[0]),
        ),
        'unpack': Command(
            'Unpack the root file system, unless it is unpacked already',
            host_script.command('unpack', root, archive_stamp),
            host.rootfs,
        ),
        'mount': Command(
            'Mount what Hadoop needs in the root file system',
            host_script.command(
                'mount_root', root, data, host.address, host.name
            ),
        ),
        'check': Command(
            'Check the user ID and the disks, and write them down for Hadoop',
            host_script.command(
                'check',
                root,
                str(action.uid),
                os_profiles.label(os_profile),
                *disks,
            ),
        ),
        'settings': Command(
            'Record the settings of the kernel that the OS profile changes',
            host_script.command(
                'settings',
                root,
                *((firewall,) if action.firewall else ()),
                *os_profiles.kernel_settings(os_profile),
            ),
        ),
    }
    if action.firewall:
        steps['firewall'] = Command(
            'Let Hadoop exchange packets with the hosts of the inventory only',
            host_script.command(
                'open_firewall', action.firewall, str(action.uid), *members
            ),
        )
    return steps


def _build_host_check(host: Host) -> Command:
    return Command(
        'Check the size of the host, and that ports of Hadoop are free',
        host_script.command(
            'check_host',
            host.address,
            *(str(host.vcpus), str(host.memory_mib)),
            *(str(host.cpu_cap or ''), str(host.memory_cap_mib or '')),
        ),
    )


def prepare(
    host: Host,
    members: Sequence[str],
    os_profile: str,
    timeout: float,
    is_ended: threading.Event,
) -> dict[str, str]:
    """Prepare a host that ssh reaches.

    :param members: addresses of all hosts.
    :param os_profile: profile of the host's operating system.
    :param timeout: seconds for each command.
    :param is_ended: set to run no other command.
    :returns: settings of the kernel that are to be restored.
    :raises hvstack.errors.CommandError: a command failed.
    :raises hvstack.errors.MissingPrerequisiteError: the login shell prints a
        text of its own.
    """
    action = host.release
    assert isinstance(action, actions.ReleaseSSHHost) and host.rootfs
    actions.SSH.mkdir(parents=True, exist_ok=True)
    unpacked, settings = '', {}
    archive_stamp = host_script.stamp(host.rootfs)
    for name, item in commands(host, action, members, os_profile).items():
        if is_ended.is_set():
            break
        if name == 'unpack' and unpacked == archive_stamp:
            continue
        argv = action.on_host(item.text)
        if item.archive:
            archive = str(item.archive)
            argv = ['sh', '-c', 'exec "$@" <"$0"', archive, *argv]
        with action.node.limit_connections():
            result = processutils.run(
                argv,
                timeout=timeout,
                display_argv=[f'{host.name}:', *item.description.split()],
            )
        if name == 'release':
            _check_greeting(host, result.stdout)
        elif name == 'claim':
            unpacked = result.stdout.strip()
        elif name == 'settings':
            for line in result.stdout.splitlines():
                setting, _, value = line.partition('=')
                settings[setting] = value
    return settings


def _check_greeting(host: Host, output: str) -> None:
    """Refuse a host whose login shell prints a text before each command.

    The text would be taken for a part of what the commands print.

    :param output: output of a command that prints nothing.
    :raises hvstack.errors.MissingPrerequisiteError: it has a text.
    """
    greeting = ' '.join(output.split())
    user = host.reach.user if host.reach else 'root'
    if greeting:
        raise errors.MissingPrerequisiteError(
            f'Cannot prepare {host.name}: the login shell of {user} prints '
            f'"{greeting[:80]}" before each command. Let files such as '
            '~/.bashrc print texts only in interactive shells.'
        )


def inventory(path: Path) -> list[Host]:
    """Read an inventory of hosts that ssh reaches.

    :raises hvstack.errors.InputError: one line with file, field, remedy.
    """
    document = yamlfile.load(path)
    top = Fields(document.data, document.source_location(), _FIELDS)
    login = _Login(
        _file(top, 'key'),
        _known_hosts(top),
        actions.user_name(top),
        _file(top, 'ssh_config') if top.has('ssh_config') else None,
    )
    rootfs = _file(top, 'rootfs')
    root = actions.directory(top, 'root', ROOT)
    uid = actions.user_id(top)
    is_open = top.choice('firewall', ('members', 'none'), 'members') == 'none'
    items = top.raw('hosts')
    if not isinstance(items, list):
        raise top.error(
            'hosts', 'is not a list. Write name, role and address of each host'
        )
    hosts = [
        _host(
            Fields(
                item,
                document.source_location(),
                (
                    *('name', 'role', 'address', 'vcpus', 'memory_mib'),
                    *('data', 'disks', 'after', 'root'),
                    *('cpu_cap', 'memory_cap_mib'),
                ),
                f'hosts.{index}',
            ),
            login,
            rootfs,
            root,
            '' if is_open else actions.new_firewall(),
            uid,
        )
        for index, item in enumerate(items)
    ]
    _check_addresses(top, hosts)
    return hosts


def _check_addresses(top: Fields, hosts: Sequence[Host]) -> None:
    """Refuse a machine with two workers: it would count as two hosts."""
    names_by_address: dict[str, str] = {}
    for host in hosts:
        if host.role != 'worker':
            continue
        other = names_by_address.setdefault(host.address, host.name)
        if other != host.name:
            raise top.error(
                'hosts',
                f"is not valid: {other} and {host.name} have the 'address' "
                f'{host.address}. Correct one of them',
            )


@dataclass(frozen=True)
class _Login:
    """How ssh logs in to each host, see :class:`SSHNode`."""

    key: Path
    known_hosts: Path | None
    user: str
    config: Path | None


def _host(
    fields: Fields,
    login: _Login,
    rootfs: Path,
    root: str,
    firewall: str,
    uid: int,
) -> Host:
    name = actions.host_name(fields)
    address = actions.address(fields)
    root = actions.directory(fields, 'root', root)
    data = actions.directory(fields, 'data') if fields.has('data') else ''
    chroot = ('env', '-i', 'HOME=/root', 'LANG=C.UTF-8', f'PATH={_PATH}')
    reach = Reach(
        name=name,
        address=address,
        role=fields.choice('role', ('controller', 'worker')),
        host=name,
        key=login.key,
        directory=actions.SSH,
        known_hosts=login.known_hosts,
        config=login.config,
        user=login.user,
        inside=(*chroot, 'chroot', root),
    )
    return Host(
        name=name,
        role=reach.role,
        address=address,
        vcpus=fields.integer('vcpus', 1, 4096),
        memory_mib=fields.integer('memory_mib', 1, _MOST_MIB),
        enter=(),
        rootfs=rootfs,
        release=actions.ReleaseSSHHost(
            name,
            address,
            root,
            str(login.key),
            f'{data}/{DATA}' if data else '',
            disks={disk: str(uuid.uuid4()) for disk in _disks(fields, data)},
            firewall=firewall,
            uid=uid,
            known_hosts=str(login.known_hosts or ''),
            after=actions.after(fields),
            user=login.user,
            ssh_config=str(login.config or ''),
        ),
        cpu_cap=_optional(fields, 'cpu_cap'),
        memory_cap_mib=fields.integer('memory_cap_mib', 1, _MOST_MIB)
        if fields.has('memory_cap_mib')
        else None,
        reach=reach,
    )


def _known_hosts(fields: Fields) -> Path | None:
    """Return the file with host keys; None accepts those of first contact."""
    accepts = fields.choice('first_contact', ('accept', 'refuse'), 'refuse')
    if fields.has('known_hosts'):
        return _file(fields, 'known_hosts')
    if accepts == 'accept':
        return None
    raise fields.error(
        'known_hosts',
        'is missing. Name a file with the host keys of all hosts, or set '
        "'first_contact: accept' to trust whoever answers first",
    )


def _disks(fields: Fields, data: str) -> list[str]:
    disks = fields.raw('disks') or []
    if not isinstance(disks, list):
        raise fields.error(
            'disks',
            'is not a list. Name each disk, such as [/dev/disk/by-id/ata-A], '
            'or delete the field',
        )
    names = [actions.check_disk(fields, 'disks', disk) for disk in disks]
    for disk in names:
        if names.count(disk) > 1:
            raise fields.error('disks', f'has {disk} twice. Delete one')
        if disk == data:
            raise fields.error('disks', f"has {disk}, as 'data'. Delete one")
    return names


def select_wiped(hosts: Sequence[Host], wiped: Collection[str]) -> list[Host]:
    """Return the hosts with the disks whose content is to be erased.

    :param wiped: host and disk, such as ``node2:/dev/disk/by-id/ata-A``.
    :raises hvstack.errors.InputError: the inventory has no such disk.
    """
    disks: dict[str, set[str]] = {}
    by_name = {host.name: host for host in hosts}
    for text in wiped:
        name, _, disk = text.partition(':')
        host = by_name.get(name)
        action = host.release if host else None
        names = (
            list(action.disks)
            if isinstance(action, actions.ReleaseSSHHost)
            else []
        )
        if disk not in names:
            raise errors.InputError(
                f"Cannot erase '{text[:200]}' (--wipe): the inventory has no "
                "such disk. Use HOST:DISK with a disk of the host's 'disks'"
                + (f': {", ".join(names)}.' if names else '.')
            )
        disks.setdefault(name, set()).add(disk)
    return [
        replace(host, wiped=frozenset(disks.get(host.name, ())))
        for host in hosts
    ]


def describe(host: Host, disks: Collection[str], timeout: float) -> list[str]:
    """Return the contents of disks, such as ``ext4`` or ``blank``.

    :param timeout: seconds.
    :raises hvstack.errors.CommandError: a disk does not exist, or the host
        cannot be reached.
    """
    action = host.release
    assert isinstance(action, actions.ReleaseSSHHost)
    actions.SSH.mkdir(parents=True, exist_ok=True)
    result = processutils.run(
        action.on_host(host_script.command('describe', *disks)),
        timeout=timeout,
        display_argv=[f'{host.name}:', 'read', 'the', 'disks'],
    )
    contents = {
        disk: content
        for disk, _, content in (
            line.partition('\t') for line in result.stdout.splitlines()
        )
    }
    return [contents.get(disk) or 'unknown' for disk in disks]


def _optional(fields: Fields, name: str) -> float | None:
    return fields.number(name, 0.01, 4096) if fields.has(name) else None


def _file(fields: Fields, name: str) -> Path:
    text = fields.text(name)
    path = Path(text)
    # Without such a user, '~user' stays as it is.
    with contextlib.suppress(RuntimeError):
        path = path.expanduser()
    path = path.absolute()
    if not textfile.is_regular(path):
        raise fields.error(
            name,
            f"is '{str(path)[:200]}', which does not exist. Create the file",
        )
    return path
