# SPDX-License-Identifier: Apache-2.0
"""Actions that release bare-metal hosts, as the journal stores them.

The journal never stores a program. An entry names an action with typed
arguments, and the code here builds the program from them.
"""

import ipaddress
import re
import sys
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar

from hvstack import errors, paths
from hvstack.cluster import host_script
from hvstack.cluster.ssh import SSHNode
from hvstack.hadoop import os_profiles
from hvstack.model.strict_mapping import Fields
from hvstack.results.typed_json import Json, JsonObject

#: Known host keys and connections: the same for every process, since any
#: later process may have to release hosts.
SSH = paths.STATE / 'ssh'
NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9.-]{0,62}', re.ASCII)
#: A directory whose name means nothing else to a shell.
DIRECTORY = re.compile(r'(/[A-Za-z0-9][A-Za-z0-9._-]*){2,}', re.ASCII)
#: A disk. The kernel's own names, such as /dev/sda, are other disks after the
#: next boot.
_DISK = re.compile(
    r'/dev/disk/by-(id|path)/[A-Za-z0-9][A-Za-z0-9:._+-]*', re.ASCII
)
#: A mount point, or the file of a loop device.
_MOUNT_POINT = re.compile(r'(/[A-Za-z0-9][A-Za-z0-9._-]*)+', re.ASCII)
#: What becomes of the file systems that hvstack creates on disks.
KEEP, CLEAR = 'keep', 'clear'
#: No user of a Linux distribution, container or Samba has this number.
UID = 1_879_091_000
_USER = re.compile(r'[A-Za-z_][A-Za-z0-9_.-]{0,31}', re.ASCII)
_FIREWALL = re.compile(r'hv_[0-9a-f]{16}', re.ASCII)
_VALUE = re.compile(r'[A-Za-z0-9][A-Za-z0-9 ._+-]{0,99}', re.ASCII)


def lab_command(verb: str, name: str) -> list[str]:
    """Return the program that prepares or releases a lab host.

    :param verb: ``prepare`` or ``release``.
    :param name: name of the lab host.
    """
    # -P: no module is loaded from the current directory.
    return [
        sys.executable,
        '-P',
        '-m',
        'hvstack.lab.hosts.bare_metal',
        verb,
        name,
    ]


@dataclass(frozen=True)
class ReleaseLabHost:
    """Return a lab host to Nova.

    :param name: name of the lab host.
    """

    action: ClassVar[str] = 'release-lab-host'
    name: str

    def argv(self) -> list[str]:
        """Return the program that does it."""
        return lab_command('release', self.name)


@dataclass(frozen=True)
class ReleaseSSHHost:
    """End Hadoop on a host that ssh reaches, and undo the preparation.

    The run of another user or machine on the host does not end, unless the
    release is forced. Nothing of this user is to be released there then.

    :param name: host name.
    :param address: IP address.
    :param root: directory of the root file system on the host.
    :param key: private key file.
    :param data: directory of HDFS on the host; empty if it is in ``root``.
    :param settings: settings of the kernel to restore, by their names in
        :func:`hvstack.hadoop.os_profiles.kernel_settings`.
    :param disks: disks on which Hadoop created file systems, and mount points
        below which hvstack created a directory, with UUIDs.
    :param firewall: name of the firewall's table or chain; empty without.
    :param uid: user ID of Hadoop's processes.
    :param known_hosts: file with host keys; empty accepts the key of the
        first contact.
    :param user: user that logs in, see
        :class:`hvstack.cluster.ssh.SSHNode`.
    :param ssh_config: configuration file of ssh; empty for none.
    :param is_forced: whether it ends the run of another user or machine.
    :param after: :data:`KEEP` leaves the file systems that hvstack created on
        the disks, :data:`CLEAR` erases them.
    """

    action: ClassVar[str] = 'release-ssh-host'
    name: str
    address: str
    root: str
    key: str
    data: str = ''
    settings: dict[str, str] = field(default_factory=dict)
    disks: dict[str, str] = field(default_factory=dict)
    firewall: str = ''
    uid: int = UID
    known_hosts: str = ''
    after: str = KEEP
    user: str = 'root'
    ssh_config: str = ''
    is_forced: bool = False

    def argv(self) -> list[str]:
        """Return the program that does it."""
        return self.on_host(self.command)

    @property
    def command(self) -> str:
        """Command line for the shell of root on the host."""
        verb = (
            ('release',)
            if self.is_forced
            else ('release_mine', host_script.build_holder())
        )
        return host_script.command(
            *verb, self.root, self.data, self.after, *self.changes()
        )

    def changes(self) -> list[str]:
        """Return the changes to undo in the format of the host's program."""
        changes = [f'{name}={value}' for name, value in self.settings.items()]
        changes += [f'used.{uuid}={disk}' for disk, uuid in self.disks.items()]
        if self.firewall:
            changes.append(f'firewall.{self.uid}={self.firewall}')
        return changes

    def on_host(self, command: str) -> list[str]:
        """Return the program that runs a command on the host.

        :param command: command line for the shell of root.
        """
        node = self.node
        return ['ssh', *node.options(), *node.build_remote_args(command)]

    @property
    def node(self) -> SSHNode:
        """How ssh reaches the host."""
        return SSHNode(
            name=self.name,
            address=self.address,
            role='',
            host=self.name,
            key=Path(self.key),
            directory=SSH,
            known_hosts=Path(self.known_hosts) if self.known_hosts else None,
            config=Path(self.ssh_config) if self.ssh_config else None,
            user=self.user,
        )


Action = ReleaseLabHost | ReleaseSSHHost
_ACTIONS: dict[str, type[Action]] = {
    action.action: action for action in (ReleaseLabHost, ReleaseSSHHost)
}


def dump(action: Action) -> JsonObject:
    """Return an action as the journal stores it."""
    return {'action': action.action, **asdict(action)}


def load(data: Json, path: Path) -> Action:
    """Return an action that the journal stores.

    :param data: the JSON object of one host.
    :param path: the journal's file, for errors.
    :raises hvstack.errors.InputError: the action is unknown, an argument is
        not valid, or an older release wrote the entry.
    """
    if isinstance(data, dict) and 'release' in data:
        raise errors.InputError(
            f'Cannot release the bare-metal host {data.get("name")!r:.60} '
            f'({path}): the entry contains a program, as older releases of '
            'hvstack wrote it. Check on the host that no Hadoop process and '
            f'no mount remains, then delete {path}.'
        )
    name = data.get('action') if isinstance(data, dict) else None
    if not isinstance(name, str) or name not in _ACTIONS:
        raise errors.InputError(
            f'Cannot release bare-metal hosts ({path}): the action '
            f'{name!r:.60} is not one of {", ".join(_ACTIONS)}. Check the '
            f'hosts that the file names, then delete {path}.'
        )
    if name == ReleaseLabHost.action:
        fields = Fields(data, str(path), ('action', 'name'))
        return ReleaseLabHost(host_name(fields))
    fields = Fields(
        data, str(path), ('action', *ReleaseSSHHost.__dataclass_fields__)
    )
    key = fields.text('key')
    known_hosts = fields.raw('known_hosts') or ''
    ssh_config = fields.raw('ssh_config') or ''
    for name, file in (
        ('key', key),
        ('known_hosts', known_hosts or '/'),
        ('ssh_config', ssh_config or '/'),
    ):
        if not str(file).startswith('/'):
            raise fields.error(name, 'is not an absolute path. Correct it')
    settings = _texts(fields, 'settings')
    allowed = {
        setting
        for profile in (os_profiles.list_names() if settings else ())
        for kernel_setting in os_profiles.kernel_settings(profile)
        for setting in (
            kernel_setting,
            # A host can have a number of bytes instead.
            re.sub('^(sysctl.vm.dirty_.*)ratio$', r'\1bytes', kernel_setting),
        )
    }
    for name, value in settings.items():
        if name not in allowed or not _VALUE.fullmatch(value):
            raise fields.error(
                f'settings.{name}', f'is {value!r:.60}. Correct it'
            )
    disks = _texts(fields, 'disks')
    for disk, disk_uuid in disks.items():
        check_disk(fields, 'disks', disk)
        if not is_uuid(disk_uuid):
            raise fields.error(
                f'disks.{disk}', f'is {disk_uuid!r:.60}. Use a UUID'
            )
    firewall = fields.raw('firewall') or ''
    if firewall and not _FIREWALL.fullmatch(str(firewall)):
        raise fields.error('firewall', f'is {firewall!r:.60}. Correct it')
    return ReleaseSSHHost(
        host_name(fields),
        address(fields),
        directory(fields, 'root'),
        key,
        directory(fields, 'data') if fields.raw('data') else '',
        settings,
        disks,
        str(firewall),
        user_id(fields),
        str(known_hosts),
        after(fields),
        user_name(fields),
        str(ssh_config),
    )


def check(data: Json, path: Path) -> None:
    """Refuse a host that no release of hvstack stores.

    What another release stored is left to :func:`load`, so that it stops
    only the release of its host.

    :param data: the JSON object of one host.
    :param path: the journal's file, for errors.
    :raises hvstack.errors.InputError: the host, or an argument of an action
        that this release knows, is not valid.
    """
    if isinstance(data, dict):
        action = data.get('action')
        is_newer = isinstance(action, str) and action not in _ACTIONS
        if 'release' in data or is_newer:
            fields = Fields(data, str(path), list(data))
            host_name(fields)
            if is_newer:
                fields.identifier('action')
            return
    load(data, path)


def _texts(fields: Fields, name: str) -> dict[str, str]:
    texts = fields.text_mapping(name) if fields.raw(name) else {}
    if texts is None:
        raise fields.error(name, 'is not a mapping of texts. Correct it')
    return texts


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID as Python writes it."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def new_firewall() -> str:
    """Return a name for a firewall table or chain that exists nowhere."""
    return f'hv_{uuid.uuid4().hex[:16]}'


def user_id(fields: Fields) -> int:
    """Return the field ``uid``, or the default for a missing field.

    :raises hvstack.errors.InputError: it is root's, or not a user ID.
    """
    return fields.integer('uid', 1, 2**31 - 2, UID)


def user_name(fields: Fields) -> str:
    """Return the field ``user``, or root for a missing field.

    :raises hvstack.errors.InputError: it is not the name of a user.
    """
    name = fields.text('user', 'root')
    if not _USER.fullmatch(name):
        raise fields.error(
            'user', f'is {name!r:.60}. Use the name of a user of the hosts'
        )
    return name


def check_disk(fields: Fields, name: str, disk: Json) -> str:
    """Return a disk if its name stays the same at the next boot.

    :param name: the field that it stands in.
    :param disk: link in ``/dev/disk/by-id`` or ``by-path``, the mount point
        of a file system, or the file of a loop device.
    :raises hvstack.errors.InputError: it is another name.
    """
    if isinstance(disk, str) and (
        _DISK.fullmatch(disk)
        or (
            _MOUNT_POINT.fullmatch(disk)
            and not disk.startswith(('/dev/', '/proc/', '/sys/'))
        )
    ):
        return disk
    raise fields.error(
        name,
        f'has {disk!r:.60}. Use a link in /dev/disk/by-id or '
        '/dev/disk/by-path, the mount point of a file system, or the file of '
        'a loop device',
    )


def after(fields: Fields) -> str:
    """Return the field ``after``, or the default for a missing field.

    :raises hvstack.errors.InputError: it is another text.
    """
    return fields.choice('after', (KEEP, CLEAR), KEEP)


def host_name(fields: Fields) -> str:
    """Return the field ``name``.

    :raises hvstack.errors.InputError: it is not a host name.
    """
    name = fields.text('name')
    if not NAME.fullmatch(name):
        raise fields.error(
            'name', 'is not a host name. Use letters, digits, - and dots'
        )
    return name


def address(fields: Fields) -> str:
    """Return the field ``address``.

    :raises hvstack.errors.InputError: it is not an IPv4 address.
    """
    text = fields.text('address')
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise fields.error(
            'address', 'is not an IPv4 address. Use one such as 192.0.2.11'
        ) from None


def directory(fields: Fields, name: str, default: str | None = None) -> str:
    """Return a field that names a directory of a host.

    :param default: value of a missing field; None refuses a missing field.
    :raises hvstack.errors.InputError: it is not such a directory.
    """
    path = fields.text(name, default)
    if not DIRECTORY.fullmatch(path):
        raise fields.error(
            name,
            f"is '{path}'. Use a directory such as /var/lib/hvstack-bare/root",
        )
    return path
