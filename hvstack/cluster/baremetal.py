# SPDX-License-Identifier: Apache-2.0
"""Bare-metal hosts: what is known of one, and an inventory reached by SSH.

Hadoop runs from the guests' root file system, unpacked on each host and
entered by chroot: the same Hadoop, JRE and programs on both sides. Without
``rootfs`` the hosts themselves have what the guest image has.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

from hvstack import errors, yamlfile
from hvstack.cluster import actions
from hvstack.cluster.ssh import SSHNode
from hvstack.model.fields import Fields

ROOT = '/var/lib/hvstack-bare/root'
_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
_MOST_MIB = 64 * 1024 * 1024

#: $1 the root file system, $2 a folder for data or nothing, $3 address, $4
#: name. The copies of /dev must not take the host's with them when they go.
_MOUNT = """
set -e
mount --bind "$1" "$1"
mount --make-private "$1"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
mount --rbind /dev "$1/dev"
mount --make-rslave "$1/dev"
mount -t tmpfs -o mode=755 tmpfs "$1/run"
if [ -n "$2" ]; then
    mkdir -p "$2"
    mount --bind "$2" "$1/srv"
fi
printf '127.0.0.1 localhost\\n%s %s\\n' "$3" "$4" >"$1/etc/hosts"
"""
#: Runs here: $1 archive, $2 its stamp, $3 the root file system, $4 what ends
#: and $5 what mounts it, both for the host's shell, $6 the folder of host
#: keys; then ssh's words.
_PREPARE = """
archive=$1 stamp=$2 root=$3 end=$4 mount=$5
mkdir -p "$6"
shift 6
"$@" "$end" || exit 1
if [ "$("$@" "cat $root.stamp 2>/dev/null")" != "$stamp" ]; then
    "$@" "rm -rf $root $root.stamp && mkdir -p $root &&
        tar -x -C $root && echo $stamp >$root.stamp" <"$archive" || exit 1
fi
exec "$@" "$mount"
"""


@dataclass(frozen=True)
class Reach(SSHNode):
    """A bare-metal host that ssh reaches.

    :param inside: program there that runs what follows it, such as chroot.
    """

    inside: tuple[str, ...] = ()

    def argv(self, command: str) -> list[str]:
        """Return the ssh command line."""
        return super().argv(shlex.join([*self.inside, 'sh', '-c', command]))


@dataclass(frozen=True)
class Host:
    """One bare-metal host.

    :param name: its host name.
    :param role: ``controller`` or ``worker``.
    :param address: of the interface that Hadoop's traffic takes.
    :param vcpus: CPUs that it reports.
    :param memory_mib: memory that it reports.
    :param enter: program that runs what follows it on the host.
    :param prepare: program that makes it ready for Hadoop; none if empty.
    :param release: action that undoes this, also when it was not ready;
        None if ``prepare`` is empty.
    :param cpu_cap: cores that it may use; None is all of them.
    :param memory_cap_mib: memory that it may use.
    :param reach: how ssh reaches it, instead of ``enter``.
    :param backend: compute backend of its guests, when Nova has it; only the
        lab's are known.
    """

    name: str
    role: str
    address: str
    vcpus: int
    memory_mib: int
    enter: tuple[str, ...]
    prepare: tuple[str, ...] = ()
    release: actions.Action | None = None
    cpu_cap: float | None = None
    memory_cap_mib: int | None = None
    reach: Reach | None = None
    backend: str = ''


def inventory(path: Path) -> list[Host]:
    """Read an inventory of hosts that ssh reaches as root.

    :raises hvstack.errors.InputError: one line with file, field, remedy.
    """
    document = yamlfile.load(path)
    top = Fields(
        document.data, document.place(), ('key', 'rootfs', 'root', 'hosts')
    )
    key = _file(top, 'key')
    rootfs = _file(top, 'rootfs') if top.has('rootfs') else None
    root = actions.directory(top, 'root', ROOT)
    items = top.raw('hosts')
    if not isinstance(items, list):
        raise top.wrong('hosts', 'is no list, give name, role and address')
    return [
        _host(
            Fields(
                item,
                document.place(),
                (
                    *('name', 'role', 'address', 'vcpus', 'memory_mib'),
                    *('data', 'root'),
                    *('cpu_cap', 'memory_cap_mib'),
                ),
                f'hosts.{number}',
            ),
            key,
            rootfs,
            root,
        )
        for number, item in enumerate(items)
    ]


def _host(fields: Fields, key: Path, rootfs: Path | None, root: str) -> Host:
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
        key=key,
        folder=actions.SSH,
        inside=(*chroot, 'chroot', root) if rootfs else (),
    )
    prepare: tuple[str, ...] = ()
    action: actions.Action | None = None
    if rootfs:
        ssh = ('ssh', *reach.options(), f'root@{address}')
        action = actions.ReleaseSSHHost(name, address, root, str(key))
        end = action.argv()[-1]
        mount = shlex.join(
            ['sh', '-c', _MOUNT, 'm', root, data, address, name]
        )
        prepare = (
            *('sh', '-c', _PREPARE, 'prepare', str(rootfs)),
            *(_stamp(rootfs), root, end, mount, str(actions.SSH), *ssh),
        )
    return Host(
        name=name,
        role=reach.role,
        address=address,
        vcpus=fields.integer('vcpus', 1, 4096),
        memory_mib=fields.integer('memory_mib', 1, _MOST_MIB),
        enter=(),
        prepare=prepare,
        release=action,
        cpu_cap=_optional(fields, 'cpu_cap'),
        memory_cap_mib=fields.integer('memory_cap_mib', 1, _MOST_MIB)
        if fields.has('memory_cap_mib')
        else None,
        reach=reach,
    )


def _optional(fields: Fields, name: str) -> float | None:
    return fields.number(name, 0.01, 4096) if fields.has(name) else None


def _file(fields: Fields, name: str) -> Path:
    path = Path(fields.text(name)).expanduser().absolute()
    if not path.is_file():
        raise fields.wrong(name, f"is '{path}', and there is no such file")
    return path


def _stamp(path: Path) -> str:
    """Return what changes with an archive: its content takes long to read."""
    status = path.stat()
    return f'{status.st_size}-{status.st_mtime_ns}'


def check_roles(path: Path, hosts: list[Host]) -> list[Host]:
    """Return hosts that a cluster can be made of.

    :raises hvstack.errors.InputError: no host has a role, or two one name.
    """
    roles = [host.role for host in hosts]
    if 'controller' not in roles or 'worker' not in roles:
        raise errors.InputError(
            f"{path}: needs a host with 'role' controller and one with worker"
        )
    if len({host.name for host in hosts}) < len(hosts):
        raise errors.InputError(
            f"{path}: two hosts have the same 'name', give each its own"
        )
    return hosts
