# SPDX-License-Identifier: Apache-2.0
"""The lab's hosts: several physical hosts' worth of Nova on one machine."""

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hvstack import errors, paths, shell
from hvstack.lab import settings
from hvstack.lab.hosts import backend, fake, host, nova, sizes
from hvstack.lab.hosts.host_status import HostStatus
from hvstack.lab.hosts.sizes import HostSize
from hvstack.lab.settings import LabSettings
from hvstack.progress import Progress

#: Where bare metal's hosts are described for whoever measures them.
BASELINE = settings.LAB / 'baseline.json'
_READY_SECONDS = 240


def planned(wanted: LabSettings, *, probing: bool = True) -> list[HostSize]:
    """Return the hosts that settings ask for, with real backends.

    :param probing: try what ``auto`` is, if that is not known yet.
    :raises hvstack.errors.MissingPrerequisite: a backend cannot be had.
    :raises hvstack.errors.InputError: dedicated CPUs, or Ceph, where no
        guest could use them.
    """
    found = sizes.plan(
        wanted.change(
            compute=backend.resolve(wanted.compute, probing=probing),
            host_compute={
                name: backend.resolve(one, probing=probing)
                for name, one in wanted.host_compute.items()
            },
        )
    )
    backends = {one.name: one.backend for one in found}
    for name in wanted.options.get('dedicated', {}):
        if backends.get(name, 'lxc') == 'lxc':
            raise errors.InputError(
                f'--dedicated {name}: only a kvm or qemu host gives out '
                f'dedicated CPUs: take --host-compute {name}=qemu, or '
                f'--dedicated {name}= for none'
            )
    if wanted.ceph and all(one.backend == 'lxc' for one in found):
        raise errors.InputError(
            '--with ceph: all hosts are lxc, and containers cannot attach '
            'volumes of Ceph: take --compute qemu, or --host-compute '
            f'{found[-1].name}=qemu'
        )
    return found


def dedicated(wanted: LabSettings, mode: str) -> dict[str, str]:
    """Return the CPUs that guests get for themselves, by host.

    All of a worker's host, so that a configuration is the same hardware in
    either mode; an only host carries controllers too, which take shared ones.

    :param mode: ``shared`` for none, else ``dedicated``.
    """
    free = wanted.change(options={**wanted.options, 'dedicated': {}})
    first = int(wanted.hosts == 1)
    return {
        one.name: f'{first}-{one.cpus - 1}'
        for one in planned(free, probing=False)
        if mode == 'dedicated'
        and one.role == 'worker'
        and one.backend != 'lxc'
        and one.cpus > first
    }


def up(wanted: LabSettings, progress: Progress) -> None:
    """Bring the lab's hosts to what is wanted.

    Hosts too many go, unless they have servers; changed ones are started
    anew, unless they have servers.

    :raises hvstack.errors.Busy: servers are in the way; they are named.
    :raises hvstack.errors.DeadlineExceeded: a host does not come up.
    """
    hosts = planned(wanted)
    cloud = nova.connect()
    _drop_others(cloud, hosts)
    for one in hosts:
        if host.is_bare(one.name) and host.is_abandoned(one.name):
            progress.say(f'{one.name} was left without Nova: starting it anew')
            host.shut_down(one.name)
    backend.warn(hosts, progress)
    started = {}
    for one in hosts:
        since = _ensure(cloud, one, wanted, progress)
        if since is not None:
            started[one.name] = since
    names = [one.name for one in hosts if not host.is_bare(one.name)]
    # One that was up a moment ago still looks so.
    _wait(cloud, names, started)
    if started:
        nova.discover()
    nova.set_traits(cloud, [one for one in hosts if one.name in names])
    nova.set_zones(cloud, hosts)
    profiles = sizes.profiles(hosts, ceph=wanted.ceph).values()
    sizes.write_profiles(profiles)
    sizes.write_catalogues(profiles)
    write_baseline(hosts)
    fake.up(wanted, progress)


def _drop_others(cloud: Any, hosts: list[HostSize]) -> None:
    extra = set(host.known()) - {one.name for one in hosts}
    busy = nova.servers(cloud, extra) if extra else {}
    if busy:
        named = '; '.join(f'{k}: {", ".join(v)}' for k, v in busy.items())
        raise errors.Busy(
            f'hosts that are no longer wanted have servers ({named}): delete '
            'these first'
        )
    for name in sorted(extra):
        host.forget(name)
        nova.forget(cloud, name)


def _ensure(
    cloud: Any, one: HostSize, wanted: LabSettings, progress: Progress
) -> float | None:
    """Configure and start one host.

    :returns: when, in seconds since the epoch; None if it ran already.
    """
    running = host.pid(one.name) is not None
    before = _recorded(one.name)
    now = repr(one)
    if running and before and before != now:
        busy = nova.servers(cloud, [one.name])
        if busy:
            raise errors.Busy(
                f'{one.name} has servers ({", ".join(busy[one.name])}): '
                'delete these before its backend or size is changed'
            )
        host.shut_down(one.name)
        running = False
    stale = host.configure(one, wanted.options)
    if running and not host.is_bare(one.name):
        # Starts what has another command now, and what is new.
        host.supervisorctl(one.name, 'update')
        if stale:
            host.supervisorctl(one.name, 'restart', *sorted(stale))
    if running:
        return None
    progress.say(
        f'{one.name}: {one.backend}, {one.cpu_cap:g} cores and '
        f'{one.memory_mib} MiB shared by all in it, reports {one.cpus} CPUs'
    )
    if not (host.folder(one.name) / 'nova' / 'compute_id').exists():
        # Nova refuses to start as a host that it knows but that has lost
        # its identity: a new host of an old name.
        nova.forget(cloud, one.name)
    # Not before: until it is shut down, it reports.
    since = time.time()
    host.start(one)
    paths.write_whole(_record_path(one.name), now)
    return since


def _record_path(name: str) -> Path:
    return host.folder(name) / 'size'


def _recorded(name: str) -> str:
    path = _record_path(name)
    return path.read_text(encoding='utf-8') if path.exists() else ''


def power_on(one: HostSize, progress: Progress) -> None:
    """Start a host that was off and wait until Nova says it is up.

    :raises hvstack.errors.DeadlineExceeded: it does not come up.
    """
    wanted = settings.load() or LabSettings()
    cloud = nova.connect()
    since = _ensure(cloud, one, wanted, progress)
    if since is not None:
        _wait(cloud, [one.name], {one.name: since})


def _wait(cloud: Any, names: list[str], since: Mapping[str, float]) -> None:
    def why() -> str:
        states = nova.computes(cloud)
        late = [name for name in names if states.get(name) != 'up'] or names
        return f'{", ".join(late)}: ' + host.log_tail(late[0], 'nova-compute')

    shell.wait_for(
        lambda: nova.ready(cloud, names, since),
        'hosts to be up in Nova and Neutron',
        timeout=_READY_SECONDS,
        interval=1,
        why=why,
    )


def down(wanted: LabSettings) -> None:
    """Stop all hosts, also those of a crashed lab; their data stays."""
    fake.down(wanted)
    with ThreadPoolExecutor() as pool:
        list(pool.map(host.shut_down, host.known()))
    host.detach_loops(host.HOSTS)


def destroy(wanted: LabSettings) -> None:
    """Remove everything that hosts ever had."""
    fake.destroy(wanted)
    for name in host.known():
        host.forget(name)
    host.detach_loops(host.HOSTS)


def status(wanted: LabSettings) -> list[HostStatus]:
    """Look at every host; change nothing."""
    found: list[HostStatus] = []
    if not host.known():
        return found
    try:
        hosts = planned(wanted, probing=False)
    except errors.HVStackError:
        return found
    for one in hosts:
        states = host.agents(one.name)
        state = 'off'
        if states:
            good = all(word == 'RUNNING' for word in states.values())
            state = 'up' if good else 'starting'
        if host.is_bare(one.name) and states:
            state = 'bare'
        guests = host.guests(one.name) if state == 'up' else []
        scale = ' (scale model)' if one.cpu_cap < one.cpus else ''
        found.append(
            HostStatus(
                one.name,
                state,
                host.memory_mib(one.name),
                f'{one.backend}, {one.role}, {one.cpus} CPUs reported, cap '
                f'{one.cpu_cap:g} cores{scale} {one.memory_mib} MiB, '
                f'{len(guests)} guests' + (f', {one.zone}' * bool(one.zone)),
            )
        )
    return [*found, *fake.status(wanted)]


def write_baseline(hosts: list[HostSize]) -> None:
    """Describe the hosts for a baseline: how to enter and prepare them."""
    entries = []
    for one in hosts:
        here = host.folder(one.name)
        entries.append(
            {
                'name': one.name,
                'role': one.role,
                'address': one.tunnel,
                'vcpus': one.cpus,
                'memory_mib': one.memory_mib,
                'cpu_cap': one.cpu_cap,
                'memory_cap_mib': one.memory_mib,
                'backend': one.backend,
                'enter': [str(here / 'enter-bare')],
                'lab': True,
            }
        )
    paths.write_whole(BASELINE, json.dumps(entries, indent=1) + '\n')


def find(name: str) -> HostSize:
    """Return a host of the lab's by name.

    :raises hvstack.errors.InputError: there is none of that name.
    """
    hosts = planned(settings.load() or LabSettings())
    for one in hosts:
        if one.name == name:
            return one
    raise errors.InputError(
        f"there is no lab host '{name}': take one of "
        f'{", ".join(one.name for one in hosts)}'
    )
