# SPDX-License-Identifier: Apache-2.0
"""Local volumes of a lab host: a volume group for each of its data disks.

A data disk is a sparse file below the host's directory, on a loop device of
the machine. LVM's configuration for the host accepts these devices only, so
that no command for it scans or changes a volume group of another program.
Volume groups and exports have the lab's ID in their names.

The devices are the kernel's, hence the machine's: they do not end with the
processes of the host, and are released when it is turned off.
"""

import re
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from openstack.connection import Connection

from hvstack import errors, processutils
from hvstack.lab import (
    constants,
    database,
    render,
    services,
    settings,
    stages,
    supervisord,
    venv,
)
from hvstack.lab.hosts import nvmet
from hvstack.lab.hosts.nova import parse_report
from hvstack.lab.hosts.sizes import (
    LOCAL_DISKS,
    HostSize,
    management_address,
)

#: Number of the NVMe port of the first host, less one. The numbers belong to
#: the machine; low ones are those that users choose.
_PORT_IDS = 25100
#: Below a host's directory.
_DISKS = 'disks'
_LVM = 'lvm'
_BLOCK_DEVICES = Path('/sys/block')
_DEVICES = Path('/dev')
_RUN_LVM = Path('/run/lvm')
#: What runs on a host with volume groups, as agents are listed.
AGENTS = (
    (
        'cinder-volume',
        'cinder-volume',
        'cinder.cmd.volume',
        ('cinder.privsep:sys_admin_pctxt', 'os_brick.privileged:default'),
    ),
)
#: Volumes of Cinder by ID and host.
_VOLUMES = (
    'SELECT id, host FROM cinder.volumes WHERE deleted = 0 '
    "AND host LIKE 'hv-host%@disk-slot-%';"
)


@dataclass(frozen=True)
class LocalVolumes:
    """What the files of a host say of its local volumes.

    :param prefix: Cinder's ``target_prefix``: exports begin with it.
    :param port_id: number of the host's NVMe port.
    :param groups: name of the volume group of each slot.
    :param host_id: UUID of the host's NVMe initiator.
    :param program: Python module that exports volumes.
    :param port: TCP port of exports.
    """

    prefix: str
    port_id: int
    groups: dict[str, str]
    host_id: str
    program: str = nvmet.__file__
    port: int = constants.VOLUME_PORT

    @property
    def host_nqn(self) -> str:
        """Name of the host's NVMe initiator."""
        return f'nqn.2014-08.org.nvmexpress:uuid:{self.host_id}'

    @property
    def texts(self) -> dict[str, str]:
        """Small files that name the initiator, by path."""
        return {
            'etc/nvme/hostnqn': f'{self.host_nqn}\n',
            'etc/nvme/hostid': f'{self.host_id}\n',
        }


def describe(name: str) -> LocalVolumes:
    """Return the names that the local volumes of a host have.

    :param name: name of the host.
    """
    lab_id = settings.ensure_lab_id()
    return LocalVolumes(
        prefix=f'hvstack-{lab_id}-{name}',
        port_id=_PORT_IDS + _number(name),
        groups={
            # The device mapper doubles dashes, and has 127 characters for
            # the names of group and volume together.
            slot: f'hvstack-{lab_id[:8]}-{name}-{slot}'
            for slot in constants.LOCAL_SLOTS
        },
        host_id=str(uuid.uuid5(uuid.UUID(lab_id), name)),
    )


def find(size: HostSize) -> LocalVolumes | None:
    """Return the local volumes of a host; None if it has none."""
    has_volumes = settings.has_lvm() and size.backend != 'lxc'
    return describe(size.name) if has_volumes else None


def prepare(size: HostSize, directory: Path) -> LocalVolumes | None:
    """Create the directories for the local volumes of a host, if it has any.

    The password of the database is removed from another host.

    :param directory: directory of the host.
    """
    volumes = find(size)
    if volumes is None:
        (directory / 'cinder.conf').unlink(missing_ok=True)
        return None
    for name in ('cinder', 'etc/nvme', 'mysql'):
        (directory / name).mkdir(parents=True, exist_ok=True)
    return volumes


def _number(name: str) -> int:
    return int(re.sub(r'\D', '', name))


def attach(name: str, directory: Path) -> None:
    """Attach the data disks of a host, and activate its volumes.

    Missing disks and volume groups are created.

    :param name: name of the host.
    :param directory: directory of the host.
    :raises hvstack.errors.CommandError: losetup or LVM failed.
    """
    volumes = describe(name)
    for part in (_DISKS, _LVM, f'{_LVM}/lock'):
        (directory / part).mkdir(exist_ok=True)
    loops = {
        slot: _attach_disk(directory / _DISKS / f'{slot}.img')
        for slot in volumes.groups
    }
    render.write(
        'host/lvm.conf.j2',
        directory / _LVM / 'lvm.conf',
        context={
            'directory': directory,
            'loops': list(loops.values()),
        },
    )
    existing = set(
        _lvm(directory, 'vgs', '--noheadings', '-o', 'vg_name').split()
    )
    for slot, group in volumes.groups.items():
        if group not in existing:
            # udev of the machine does not activate its volumes.
            create = ('vgcreate', '--yes', '--setautoactivation', 'n', group)
            _lvm(directory, *create, loops[slot])
        _lvm(directory, 'vgchange', '--activate', 'y', group)


def _attach_disk(path: Path) -> str:
    """Return the loop device of a data disk, which is created if missing."""
    # An interrupted start leaves an empty file.
    if not path.exists() or path.stat().st_size == 0:
        path.touch(mode=0o600)
        processutils.run(['truncate', '-s', f'{LOCAL_DISKS.size_gb}GB', path])
    listing = processutils.run(
        ['losetup', '--noheadings', '--output', 'NAME', '--associated', path]
    ).stdout
    if listing.strip():
        return listing.split()[0]
    return processutils.run(
        ['losetup', '--find', '--show', path]
    ).stdout.strip()


def _lvm(directory: Path, *argv: str, check: bool = True) -> str:
    """Run a command of LVM on the disks of a host only; return its output."""
    return processutils.run(
        argv,
        env={'LVM_SYSTEM_DIR': str(directory / _LVM), 'LC_ALL': 'C'},
        check=check,
        timeout=60,
    ).stdout


def list_attached(directory: Path) -> list[str]:
    """Return the slots of a host whose disks have a loop device."""
    slots = []
    for file in _BLOCK_DEVICES.glob('loop*/loop/backing_file'):
        try:
            path = Path(file.read_text(encoding='utf-8').rstrip('\n'))
        except OSError:
            # It was detached meanwhile.
            continue
        if path.parent == directory / _DISKS:
            slots.append(path.stem)
    return sorted(slots)


def release(name: str, directory: Path) -> None:
    """Remove the exports of a host, and deactivate its volumes.

    The host's processes have ended; its loop devices are detached by
    :func:`hvstack.lab.hosts.loop_devices.detach` afterwards. A host without
    local volumes is not changed.

    :param name: name of the host.
    :param directory: directory of the host.
    :raises hvstack.errors.BusyError: a volume is still in use.
    """
    if not (directory / _DISKS).is_dir():
        return
    volumes = describe(name)
    try:
        nvmet.disconnect(volumes.prefix, volumes.host_nqn)
        nvmet.remove_exports(volumes.prefix, management_address(_number(name)))
    except nvmet.CFSError as exc:
        raise errors.BusyError(
            f'Cannot release the volumes of {name}: {exc}. Run the command '
            'again.'
        ) from exc
    for group in volumes.groups.values():
        if _list_active(group):
            deactivate = ('vgchange', '--activate', 'n', group)
            _lvm(directory, *deactivate, check=False)
        for device in _list_active(group):
            # LVM does not find a group without its configuration.
            processutils.run(
                ['dmsetup', 'remove', '--noudevsync', '--retry', device],
                check=False,
            )
        remaining = _list_active(group)
        if remaining:
            raise errors.BusyError(
                f'Cannot release the volumes of {name}: {remaining[0]} is in '
                "use ('dmsetup info'). End the process, then run the command "
                'again.'
            )
        shutil.rmtree(_DEVICES / group, ignore_errors=True)
        # Where LVM's rules for udev note groups that were seen.
        (_RUN_LVM / 'vgs_online' / group).unlink(missing_ok=True)


def _list_active(group: str) -> list[str]:
    """Return the device mapper's names of active volumes of a group."""
    # LVM separates group and volume by one dash, and doubles others.
    prefix = group.replace('-', '--') + '-'
    names = []
    for file in _BLOCK_DEVICES.glob('dm-*/dm/name'):
        try:
            text = file.read_text(encoding='utf-8').strip()
        except OSError:
            continue
        if text.startswith(prefix) and not text.startswith(f'{prefix}-'):
            names.append(text)
    return sorted(names)


def is_used_by(directory: Path) -> bool:
    """Return whether a host was configured with local volumes.

    :param directory: directory of the host.
    """
    return (directory / 'cinder.conf').exists()


def are_backends_up(
    cloud: Connection, names: Iterable[str], since: Mapping[str, float]
) -> bool:
    """Return whether Cinder reports all backends of hosts as up.

    :param names: names of hosts with local volumes.
    :param since: when hosts were started, by name, in seconds since the
        epoch; earlier reports do not count.
    """
    up = {
        service.host
        for service in cloud.block_storage.services(binary='cinder-volume')
        if service.state == 'up'
        and parse_report(service.updated_at)
        > since.get(service.host.partition('@')[0], -1.0)
    }
    return up >= {
        f'{name}@{slot}' for name in names for slot in constants.LOCAL_SLOTS
    }


def forget(name: str) -> None:
    """Remove the backends of a host that no longer exists from Cinder."""
    if not settings.has_lvm():
        return
    for slot in constants.LOCAL_SLOTS:
        processutils.run(
            [
                venv.program('cinder-manage'),
                *('--config-file', str(services.CINDER.target)),
                *('service', 'remove', 'cinder-volume', f'{name}@{slot}'),
            ],
            env=supervisord.environment(),
            # It fails if there never was such a backend.
            check=False,
        )


def list_volumes(host_names: Iterable[str] | None = None) -> list[str]:
    """Return the IDs of Cinder's volumes on hosts; on all hosts by default.

    The database is asked: Cinder need not run.

    :raises hvstack.errors.CommandError: the database does not answer.
    """
    if stages.marked('schema:cinder') is None:
        return []
    chosen = None if host_names is None else set(host_names)
    rows = [line.split('\t') for line in database.sql(_VOLUMES).splitlines()]
    return sorted(
        volume_id
        for volume_id, backend in rows
        if chosen is None or backend.partition('@')[0] in chosen
    )
