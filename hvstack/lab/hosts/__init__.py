# SPDX-License-Identifier: Apache-2.0
"""The lab's hosts: several physical hosts' worth of Nova on one machine."""

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from openstack.connection import Connection

from hvstack import errors, paths, processutils
from hvstack.lab import settings
from hvstack.lab.hosts import (
    agent_use,
    backend,
    fake,
    host,
    loop_devices,
    nova,
    sizes,
    volume_groups,
)
from hvstack.lab.hosts.host_status import HostStatus
from hvstack.lab.hosts.sizes import HostSize
from hvstack.lab.settings import LabSettings
from hvstack.nouns import format_noun
from hvstack.progress import Progress

#: Where bare metal's hosts are described for whoever measures them.
BASELINE = settings.LAB / 'baseline.json'
_READY_SECONDS = 240


def planned(
    lab_settings: LabSettings, *, probing: bool = True
) -> list[HostSize]:
    """Return the hosts that settings ask for, with real backends.

    :param probing: try what ``auto`` is, if that is not known yet.
    :raises hvstack.errors.MissingPrerequisiteError: a backend cannot be had.
    :raises hvstack.errors.InputError: dedicated CPUs, or volumes, where no
        guest could use them.
    """
    hosts = sizes.plan(
        lab_settings.change(
            compute=backend.resolve(lab_settings.compute, probing=probing),
            host_compute={
                name: backend.resolve(compute, probing=probing)
                for name, compute in lab_settings.host_compute.items()
            },
        )
    )
    backends = {size.name: size.backend for size in hosts}
    for name in lab_settings.get_option('dedicated'):
        if backends.get(name, 'lxc') == 'lxc':
            raise errors.InputError(
                f'Cannot use --dedicated {name}: only a kvm or qemu host '
                f'provides dedicated CPUs. Use --host-compute {name}=qemu, or '
                f'--dedicated {name}= for no dedicated CPUs.'
            )
    extra = 'ceph' if lab_settings.ceph else 'lvm' if lab_settings.lvm else ''
    if extra and all(size.backend == 'lxc' for size in hosts):
        kind = 'volumes of Ceph' if lab_settings.ceph else 'volumes'
        raise errors.InputError(
            f'Cannot use --with {extra}: all hosts are lxc, and containers '
            f'cannot attach {kind}. Use --compute qemu, or --host-compute '
            f'{hosts[-1].name}=qemu.'
        )
    return hosts


def dedicated(lab_settings: LabSettings, mode: str) -> dict[str, str]:
    """Return the CPUs that guests get for themselves, by host.

    All of a worker's host, so that a configuration is the same hardware in
    either mode; an only host carries controllers too, which take shared ones.

    :param mode: ``shared`` for none, else ``dedicated``.
    """
    free = lab_settings.change(
        options={**lab_settings.options, 'dedicated': {}}
    )
    first = int(lab_settings.hosts == 1)
    return {
        size.name: f'{first}-{size.cpus - 1}'
        for size in planned(free, probing=False)
        if mode == 'dedicated'
        and size.role == 'worker'
        and size.backend != 'lxc'
        and size.cpus > first
    }


def up(lab_settings: LabSettings, progress: Progress) -> None:
    """Bring the lab's hosts to what is wanted.

    Hosts too many go, unless they have servers; changed ones are started
    again, unless they have servers.

    :raises hvstack.errors.BusyError: servers are in the way; they are named.
    :raises hvstack.errors.DeadlineExceededError: a host does not come up.
    """
    hosts = planned(lab_settings)
    cloud = nova.connect()
    _drop_others(cloud, hosts)
    for size in hosts:
        if host.is_bare(size.name) and host.is_abandoned(size.name):
            progress.say(
                f'{size.name} was left without Nova: starting it again'
            )
            host.shut_down(size.name)
    backend.warn(hosts, progress)
    started = {}
    for size in hosts:
        since = _ensure(cloud, size, lab_settings, progress)
        if since is not None:
            started[size.name] = since
    names = [size.name for size in hosts if not host.is_bare(size.name)]
    # One that was up a moment ago still looks so.
    _wait(cloud, names, started)
    if started:
        nova.discover()
    nova.set_traits(cloud, [size for size in hosts if size.name in names])
    nova.set_zones(cloud, hosts)
    profiles = sizes.profiles(
        hosts, ceph=lab_settings.ceph, lvm=lab_settings.lvm
    ).values()
    sizes.write_profiles(profiles)
    sizes.write_catalogues(profiles)
    write_baseline(hosts)
    fake.up(lab_settings, progress)


def _drop_others(cloud: Connection, hosts: list[HostSize]) -> None:
    extra = set(host.list_names()) - {size.name for size in hosts}
    busy = nova.servers(cloud, extra) if extra else {}
    if busy:
        named = '; '.join(f'{k}: {", ".join(v)}' for k, v in busy.items())
        raise errors.BusyError(
            f'Cannot remove hosts from the lab: they have servers ({named}). '
            'Delete these servers first.'
        )
    volumes = volume_groups.list_volumes(extra) if extra else []
    if volumes:
        raise errors.BusyError(
            'Cannot remove hosts from the lab: Cinder has volumes on them '
            f'({", ".join(volumes)}). Delete these volumes first.'
        )
    for name in sorted(extra):
        host.forget(name)
        nova.forget(cloud, name)
        volume_groups.forget(name)


def _ensure(
    cloud: Connection,
    size: HostSize,
    lab_settings: LabSettings,
    progress: Progress,
) -> float | None:
    """Configure and start one host.

    :returns: when, in seconds since the epoch; None if it ran already.
    """
    running = host.pid(size.name) is not None
    before = _recorded(size.name)
    now = repr(size)
    if running and before and before != now:
        busy = nova.servers(cloud, [size.name])
        if busy:
            raise errors.BusyError(
                f'Cannot change the backend or the size of {size.name}: it '
                f'has servers ({", ".join(busy[size.name])}). Delete these '
                'servers first.'
            )
        host.shut_down(size.name)
        running = False
    stale = host.configure(size, lab_settings.options)
    if running and not host.is_bare(size.name):
        # Starts what has another command now, and what is new.
        host.supervisorctl(size.name, 'update')
        if stale:
            host.supervisorctl(size.name, 'restart', *sorted(stale))
    if running:
        return None
    progress.say(
        f'{size.name}: {size.backend}, {size.cpu_cap:g} cores and '
        f'{size.memory_mib} MiB shared by all in it, reports {size.cpus} CPUs'
    )
    if not (host.directory(size.name) / 'nova' / 'compute_id').exists():
        # Nova refuses to start as a host that it knows but that has lost
        # its identity: a new host of an old name.
        nova.forget(cloud, size.name)
    # Not before: until it is shut down, it reports.
    since = time.time()
    host.start(size)
    paths.write_whole(_record_path(size.name), now)
    return since


def _record_path(name: str) -> Path:
    return host.directory(name) / 'size'


def _recorded(name: str) -> str:
    path = _record_path(name)
    return path.read_text(encoding='utf-8') if path.exists() else ''


def power_on(size: HostSize, progress: Progress) -> None:
    """Start a host that was off and wait until Nova says it is up.

    :raises hvstack.errors.DeadlineExceededError: it does not come up.
    """
    lab_settings = settings.load() or LabSettings()
    cloud = nova.connect()
    since = _ensure(cloud, size, lab_settings, progress)
    if since is not None:
        _wait(cloud, [size.name], {size.name: since})


def _wait(
    cloud: Connection, names: list[str], since: Mapping[str, float]
) -> None:
    def describe_late_hosts() -> str:
        states = nova.computes(cloud)
        late = [name for name in names if states.get(name) != 'up'] or names
        return f'{", ".join(late)}: ' + host.log_tail(late[0], 'nova-compute')

    def stopped_hosts() -> list[str]:
        return [name for name in since if host.pid(name) is None]

    processutils.wait_for(
        lambda: bool(stopped_hosts()) or nova.ready(cloud, names, since),
        'hosts to be up in Nova and Neutron',
        timeout=_READY_SECONDS,
        interval=1,
        get_reason=describe_late_hosts,
    )
    for name in stopped_hosts():
        raise errors.HVStackError(
            f'Cannot start {name}: its first process ended: '
            f'{host.log_tail(name)}. Check the log.'
        )
    _wait_for_backends(cloud, names, since)


def _wait_for_backends(
    cloud: Connection, names: list[str], since: Mapping[str, float]
) -> None:
    """Wait until Cinder reports the local volumes of hosts as usable."""
    chosen = [
        name
        for name in names
        if volume_groups.is_used_by(host.directory(name))
    ]
    if chosen:
        processutils.wait_for(
            lambda: volume_groups.are_backends_up(cloud, chosen, since),
            f"Cinder's backends on {', '.join(chosen)} to be up",
            timeout=_READY_SECONDS,
            interval=1,
            get_reason=lambda: host.log_tail(chosen[0], 'cinder-volume'),
        )


def down(lab_settings: LabSettings) -> None:
    """Stop all hosts, also those of a crashed lab; their data stays."""
    fake.down(lab_settings)
    with ThreadPoolExecutor() as pool:
        list(pool.map(host.shut_down, host.list_names()))
    loop_devices.detach(host.HOSTS)


def destroy(lab_settings: LabSettings) -> None:
    """Remove everything that hosts ever had."""
    fake.destroy(lab_settings)
    for name in host.list_names():
        host.forget(name)
    loop_devices.detach(host.HOSTS)


def status(lab_settings: LabSettings) -> list[HostStatus]:
    """Look at every host; change nothing."""
    statuses: list[HostStatus] = []
    if not host.list_names():
        return statuses
    try:
        hosts = planned(lab_settings, probing=False)
    except errors.HVStackError:
        return statuses
    for size in hosts:
        states = host.agents(size.name)
        state = 'off'
        if states:
            good = all(word == 'RUNNING' for word in states.values())
            state = 'up' if good else 'starting'
        if host.is_bare(size.name) and states:
            state = 'bare'
        guests = host.guests(size.name) if state == 'up' else []
        scale = ' (scale model)' if size.cpu_cap < size.cpus else ''
        statuses.append(
            HostStatus(
                size.name,
                state,
                agent_use.measure_memory_mib(size.name),
                f'{size.backend}, {size.role}, {size.cpus} CPUs reported, cap '
                f'{size.cpu_cap:g} cores{scale} {size.memory_mib} MiB, '
                f'{format_noun(len(guests), "guest")}'
                + _describe_disks(size)
                + (f', {size.zone}' * bool(size.zone)),
            )
        )
    return [*statuses, *fake.status(lab_settings)]


def _describe_disks(size: HostSize) -> str:
    """Return how many of its local disks a host has, if it has any."""
    volumes = volume_groups.find(size)
    if volumes is None:
        return ''
    attached = volume_groups.list_attached(host.directory(size.name))
    return f', {len(attached)} of {len(volumes.groups)} local disks'


def write_baseline(hosts: list[HostSize]) -> None:
    """Describe the hosts for a baseline: how to enter and prepare them."""
    entries = []
    for size in hosts:
        host_dir = host.directory(size.name)
        entries.append(
            {
                'name': size.name,
                'role': size.role,
                'address': size.data,
                'vcpus': size.cpus,
                'memory_mib': size.memory_mib,
                'cpu_cap': size.cpu_cap,
                'memory_cap_mib': size.memory_mib,
                'backend': size.backend,
                'enter': [str(host_dir / 'enter-bare')],
                'lab': True,
            }
        )
    paths.write_whole(BASELINE, json.dumps(entries, indent=1) + '\n')


def find(name: str) -> HostSize:
    """Return a host of the lab's by name.

    :raises hvstack.errors.InputError: the host does not exist.
    """
    hosts = planned(settings.load() or LabSettings())
    for size in hosts:
        if size.name == name:
            return size
    raise errors.InputError(
        f"Cannot find lab host '{name}': the lab does not have this host. "
        f'Choose one of {", ".join(size.name for size in hosts)}.'
    )
