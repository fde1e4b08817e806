# SPDX-License-Identifier: Apache-2.0
"""Cinder's LVM driver in the lab: local volumes on the hosts.

Each host that is no container host has a volume group for each data disk and
a cinder-volume with Nova's name of the host, so that InstanceLocalityFilter
places a volume on the host of its server. The NVMe target of the kernel
exports the volumes over TCP: Linux serves iSCSI outside of network namespaces
only.
"""

from openstack.connection import Connection

from hvstack import errors, processutils
from hvstack.lab import (
    cinder,
    constants,
    control_plane,
    database,
    hosts,
    identity,
    kernel_modules,
    services,
    settings,
    stages,
    supervisord,
)
from hvstack.lab.bridges import LVM_MARK
from hvstack.lab.hosts import host, volume_groups
from hvstack.lab.settings import LabSettings
from hvstack.lab.stages import Stage

#: Servers by name and host; asked of the database, Nova need not run.
_SERVERS = (
    'SELECT hostname, host FROM nova.instances WHERE deleted = 0 '
    'AND host IS NOT NULL;'
)
#: Seconds until all backends are up: each host starts a process per backend.
_READY_SECONDS = 180


def plan(lab_settings: LabSettings) -> list[Stage]:
    """Return the stages that prepare local volumes, or stop Cinder."""
    if lab_settings.lvm:
        return [Stage('local volumes', 60, prepare)]
    if stages.marked(LVM_MARK) is None:
        return []
    return [Stage('taking LVM away', 120, leave)]


def plan_types(lab_settings: LabSettings) -> list[Stage]:
    """Return the stage after the start of the hosts, if there is one."""
    if not lab_settings.lvm:
        return []
    return [
        Stage('volume types', 300, lambda: fill(identity.connect())),
    ]


def prepare() -> None:
    """Load what the hosts need of the kernel.

    :raises hvstack.errors.MissingPrerequisiteError: the kernel lacks it.
    """
    stages.mark(LVM_MARK)
    kernel_modules.load()


def check_change(lab_settings: LabSettings) -> None:
    """Refuse to add or to remove local volumes that are in use.

    The hosts must be started again for both. A lab that is stopped is checked
    later, when its database answers.

    :param lab_settings: settings of the lab as it is to be.
    :raises hvstack.errors.BusyError: volumes or servers are in the way.
    """
    before = settings.load() or LabSettings()
    if before.lvm == lab_settings.lvm or not supervisord.alive():
        return
    if not lab_settings.lvm:
        _check_volumes()
    option = 'with' if lab_settings.lvm else 'without'
    changed = {
        size.name
        for size in hosts.planned(before, probing=False)
        if size.backend != 'lxc' and host.pid(size.name) is not None
    }
    rows = [line.split('\t') for line in database.sql(_SERVERS).splitlines()]
    names = sorted(name for name, host_name in rows if host_name in changed)
    if names:
        raise errors.BusyError(
            f'Cannot use --{option} lvm: the hosts must be started again, and '
            f'they have servers ({", ".join(names)}). Delete these servers '
            'first.'
        )


def _check_volumes() -> None:
    volumes = volume_groups.list_volumes()
    if volumes:
        raise errors.BusyError(
            'Cannot remove LVM from the lab: Cinder has volumes on its hosts '
            f'({", ".join(volumes)}). Delete these volumes, or the clusters '
            'that have them, first.'
        )


def leave() -> None:
    """Stop Cinder in a lab that is to be without; the disks' files stay.

    The hosts lose their volume groups when they are started again.

    :raises hvstack.errors.BusyError: volumes exist; they are named.
    """
    _check_volumes()
    # A lab that is to have Ceph instead starts Cinder again.
    names = [service.name for service in services.cinder()]
    control_plane.halt(names)
    for name in names:
        supervisord.remove(name)
    stages.unmark(LVM_MARK)


def stays() -> list[str]:
    """Return a line with the modules that stay loaded after the lab."""
    if stages.marked(LVM_MARK) is None:
        return []
    names = ' '.join(name for name, _, _ in kernel_modules.PARTS)
    return [f'modules of the kernel that stay until the next boot: {names}']


def fill(admin: Connection) -> None:
    """Wait for the backends of all hosts, and create the volume types.

    :param admin: the administrator's openstacksdk connection.
    :raises hvstack.errors.DeadlineExceededError: a backend does not come up.
    """
    expected = {
        f'{name}@{slot}'
        for name in list_names()
        if host.pid(name) is not None and not host.is_bare(name)
        for slot in constants.LOCAL_SLOTS
    }

    def list_late() -> list[str]:
        existing = {
            pool.name.partition('#')[0]
            for pool in admin.block_storage.backend_pools()
        }
        return sorted(expected - existing)

    def describe_late() -> str:
        late = list_late()
        if not late:
            return ''
        name = late[0].partition('@')[0]
        return f'{", ".join(late)}: {host.log_tail(name, "cinder-volume")}'

    processutils.wait_for(
        lambda: not list_late(),
        "Cinder's backends on the hosts to be up",
        timeout=_READY_SECONDS,
        interval=1,
        get_reason=describe_late,
    )
    types = {
        slot: f"Data disk {index} of the server's host, one copy"
        for index, slot in enumerate(constants.LOCAL_SLOTS, 1)
    }
    cinder.create_types(admin, types, {})


def list_names() -> list[str]:
    """Return the names of the hosts that have local volumes."""
    lab_settings = settings.load() or LabSettings()
    return [
        size.name
        for size in hosts.planned(lab_settings, probing=False)
        if volume_groups.find(size)
    ]


def list_hosts() -> dict[str, str]:
    """Return the faults of the local volumes of running hosts, by name.

    The text of a host without a fault is empty.
    """
    reasons = {}
    for name in list_names():
        if host.pid(name) is None or host.is_bare(name):
            continue
        attached = volume_groups.list_attached(host.directory(name))
        missing = sorted(set(constants.LOCAL_SLOTS) - set(attached))
        state = host.agents(name).get('cinder-volume', 'missing')
        reasons[name] = '; '.join(
            [f'{slot} has no loop device' for slot in missing]
            + [f'cinder-volume is {state}'] * (state != 'RUNNING')
        )
    return reasons
