# SPDX-License-Identifier: Apache-2.0
"""One lab host: namespaces, network and agents, from power-on to power-off.

A host is a set of namespaces (mount, UTS, IPC, PID, network, cgroup) with a
PID 1 of its own under a cgroup that caps everything in it. As all paths in
it are private, its configuration differs from another's in names only.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hvstack import errors, pid_files, processutils
from hvstack.lab import bridges, constants, render, settings, venv
from hvstack.lab.hosts import (
    cgroups,
    loop_devices,
    numa,
    sizes,
    switch_setup,
    volume_groups,
)
from hvstack.lab.hosts.sizes import HostSize
from hvstack.model.host import NumaCell

HOSTS = settings.LAB / 'hosts'
#: Link of the first host alone. By it, OVN gives the guests past Open vSwitch
#: their addresses and metadata. On the link of the guests, the switch would
#: copy all their packets.
_GATEWAY_LINK = 'eth3'
#: Name of each link outside without the host's number, its bridge, and its
#: name inside, in order.
_LINKS = (
    ('hv-mgmt', 'hv-mgmt', 'eth0'),
    ('hv-prov', 'hv-prov', 'eth1'),
    ('hv-data', 'hv-data', 'eth2'),
    ('hv-gate', 'hv-data', _GATEWAY_LINK),
)
_DIRECTORIES = (
    'bin',
    'sys',
    'etc/libvirt/hooks',
    'libvirt',
    'drivers',
    'ovs',
    'log/openvswitch',
    'log/libvirt/qemu',
    'log/libvirt/lxc',
    'nova/instances',
    'nova/lock',
    'neutron',
    'bare',
)
#: (template, target below the host's directory, mode, agent that reads it)
_FILES = (
    ('init.j2', 'init', 0o755, ''),
    ('enter.j2', 'enter', 0o755, ''),
    ('enter-bare.j2', 'enter-bare', 0o755, ''),
    ('supervisord.conf.j2', 'supervisord.conf', 0o600, ''),
    ('nova.conf.j2', 'nova.conf', 0o600, 'nova-compute'),
    ('metadata.ini.j2', 'metadata.ini', 0o600, 'metadata'),
    ('libvirtd.conf.j2', 'libvirtd.conf', 0o600, 'libvirtd'),
    ('qemu.conf.j2', 'etc/libvirt/qemu.conf', 0o600, 'libvirtd'),
    ('lxc.conf.j2', 'etc/libvirt/lxc.conf', 0o600, 'libvirtd'),
    ('lxc-hook.j2', 'etc/libvirt/hooks/lxc', 0o755, 'libvirtd'),
    ('losetup.j2', 'bin/losetup', 0o755, ''),
)
#: File systems that the machine unmounts are unmounted in hosts, too.
#: What a host mounts is mounted in this host alone.
_NAMESPACES = (
    *('unshare', '-m', '-u', '-i', '-p', '-f', '-n', '-C'),
    *('--propagation', 'slave'),
)
#: Where libvirt keeps keys, below a host's directory.
_LIBVIRT_SECRETS = 'etc/libvirt/secrets'
#: (agent, program, module, what it may do as root)
_PYTHON_AGENTS = (
    (
        'nova-compute',
        'nova-compute',
        'nova.cmd.compute',
        (
            'nova.privsep:sys_admin_pctxt',
            'vif_plug_ovs.privsep:vif_plug',
            'os_brick.privileged:default',
        ),
    ),
    (
        'metadata',
        'neutron-ovn-metadata-agent',
        'neutron.cmd.agents.ovn_metadata',
        (
            'neutron.privileged:default',
            'neutron.privileged:namespace_cmd',
            'neutron.privileged:link_cmd',
            'neutron.privileged:ovs_vsctl_cmd',
        ),
    ),
)


def directory(name: str) -> Path:
    """Return where a host keeps everything."""
    return HOSTS / name


def pid(name: str) -> int | None:
    """Return a host's PID 1, as the machine numbers it, if it runs."""
    return pid_files.read(directory(name) / 'pid.json')


def bare_record(name: str) -> Path:
    """Return the file that says for whom a host is without Nova."""
    return directory(name) / 'bare.json'


def is_bare(name: str) -> bool:
    """Tell whether a host is prepared for bare metal."""
    return bare_record(name).exists()


def is_abandoned(name: str) -> bool:
    """Tell whether whoever prepared a host for bare metal is gone."""
    return pid_files.read(bare_record(name)) is None


def programs(host: HostSize) -> list[tuple[str, str, int]]:
    """Return name, command and start order of what a host runs."""
    host_dir = directory(host.name)
    socket = 'unix:/run/openvswitch/db.sock'
    every = [
        (
            'ovsdb',
            'ovsdb-server /etc/openvswitch/conf.db '
            '--remote=punix:/run/openvswitch/db.sock '
            '--remote=db:Open_vSwitch,Open_vSwitch,manager_options',
            10,
        ),
        # The priority that ovs-ctl gives it: guests' packets wait for it.
        ('ovs', f'nice -n -10 ovs-vswitchd --pidfile {socket}', 20),
        (
            'switch-setup',
            f'{venv.program("python")} -I -S {switch_setup.__file__} '
            f'{host.tunnel}/24',
            20,
        ),
        ('ovn', f'ovn-controller {socket}', 30),
        ('libvirtd', f'libvirtd -f {host_dir}/libvirtd.conf', 30),
        (
            'nova-compute',
            f'{host_dir}/bin/nova-compute --config-file {host_dir}/nova.conf',
            50,
        ),
        (
            'metadata',
            f'{host_dir}/bin/neutron-ovn-metadata-agent '
            f'--config-file {host_dir}/metadata.ini',
            50,
        ),
    ]
    if host.backend != 'lxc':
        every.append(('virtlogd', 'virtlogd', 25))
    if volume_groups.find(host):
        program = f'{host_dir}/bin/cinder-volume'
        config = f'{host_dir}/cinder.conf'
        every.append(
            ('cinder-volume', f'{program} --config-file {config}', 50)
        )
    return every


def configure(host: HostSize, options: dict[str, Any]) -> set[str]:
    """Write a host's files.

    :param options: ``dedicated``: CPUs by host name, as Nova writes sets of
        them, that are dedicated to guests; the other CPUs are shared.
    :returns: the agents that read another file than before, so that they
        must be started again.
    """
    host_dir = directory(host.name)
    volumes = volume_groups.prepare(host, host_dir)
    for name in _DIRECTORIES:
        (host_dir / name).mkdir(parents=True, exist_ok=True)
    dedicated = options.get('dedicated', {}).get(host.name, '')
    # A file of hvstack stands for the others.
    needed = (host_dir, venv.directory(), Path(switch_setup.__file__))
    context = {
        'host': host,
        'directory': host_dir,
        # Mount points have no links.
        'kept_paths': [path.resolve() for path in needed],
        'programs': programs(host),
        'cells': _cells(host),
        'cgroup_version': cgroups.version(),
        'hierarchies': cgroups.hierarchies(),
        'cgroups': [str(path) for path in cgroups.entrances(host.name)],
        'dedicated': dedicated,
        'shared': sizes.rest_of(dedicated, host.cpus),
        'volumes': volumes,
    }
    stale = set()
    if not settings.has_ceph():
        shutil.rmtree(host_dir / _LIBVIRT_SECRETS, ignore_errors=True)
    for template, target, mode, agent in _files(host):
        if render.write(
            f'host/{template}', host_dir / target, mode=mode, context=context
        ):
            stale.add(agent)
    agents = _PYTHON_AGENTS + (volume_groups.AGENTS if volumes else ())
    for agent, program, module, contexts in agents:
        names = {**context, 'module': module, 'contexts': contexts}
        path = host_dir / 'bin' / program
        if render.write('host/agent.j2', path, mode=0o755, context=names):
            stale.add(agent)
    for file, text in _texts(host).items():
        path = host_dir / file
        content = text.encode('utf-8', 'surrogateescape')
        if not path.exists() or path.read_bytes() != content:
            # In place: the running host has these files bind-mounted.
            path.write_bytes(content)
    return stale - {''}


def _files(host: HostSize) -> Iterable[tuple[str, str, int, str]]:
    yield from _FILES
    if volume_groups.find(host):
        yield 'cinder.conf.j2', 'cinder.conf', 0o600, 'cinder-volume'
    if host.backend != 'lxc' and settings.has_ceph():
        # The key that QEMU attaches volumes with, by Cinder's name for it.
        secret = (
            f'{_LIBVIRT_SECRETS}/{constants.generated_uuid("ceph_libvirt")}'
        )
        for suffix in ('xml', 'base64'):
            yield (
                f'ceph-secret.{suffix}.j2',
                f'{secret}.{suffix}',
                0o600,
                'libvirtd',
            )


def _cells(host: HostSize) -> tuple[NumaCell, ...]:
    return numa.choose_cells(host.backend, host.cpus, host.memory_mib)


def _texts(host: HostSize) -> dict[str, str]:
    """Return the small files that make a host look like a machine."""
    last = host.cpus - 1
    volumes = volume_groups.find(host)
    users, groups = (
        Path(name).read_text(encoding='utf-8', errors='surrogateescape')
        for name in ('/etc/passwd', '/etc/group')
    )
    if 'libvirt-qemu:' not in users:
        users += 'libvirt-qemu:x:64055:64055::/var/lib/libvirt:/bin/false\n'
        groups += 'libvirt-qemu:x:64055:\n'
    return {
        **{
            f'sys/meminfo{cell.id}': ''.join(
                f'Node {cell.id} {key + ":":<12}{mib * 1024:>12} kB\n'
                for key, mib in (
                    ('MemTotal', cell.memory_mib),
                    ('MemFree', cell.memory_mib),
                    ('MemUsed', 0),
                )
            )
            for cell in _cells(host)
        },
        'sys/cpus': f'0-{last}\n' if last else '0\n',
        'sys/cpumap': f'{numa.format_mask(host.cpus)}\n',
        'etc/hosts': f'127.0.0.1 localhost\n{host.mgmt} {host.name}\n',
        'etc/hostname': f'{host.name}\n',
        'etc/machine-id': f'{host.number:032x}\n',
        **(volumes.texts if volumes else {}),
        'etc/passwd': users,
        'etc/group': groups,
        'etc/libvirt/libvirt.conf': '',
    }


def start(host: HostSize) -> None:
    """Power a host on; returns before its agents answer.

    :raises hvstack.errors.HVStackError: it cannot be started; nothing of it
        is left running.
    """
    if pid(host.name) is not None:
        return
    power_off(host.name)
    joined = cgroups.create(host.name, host.cpu_cap, host.memory_mib)
    try:
        if volume_groups.find(host):
            volume_groups.attach(host.name, directory(host.name))
        _launch(host, joined)
    except BaseException:
        power_off(host.name)
        raise


def _launch(host: HostSize, joined: list[str]) -> None:
    host_dir = directory(host.name)
    with (host_dir / 'log' / 'init.log').open('ab') as log:
        process = subprocess.Popen(
            [
                *joined,
                *constants.FIRST_VICTIM,
                *_NAMESPACES,
                str(host_dir / 'init'),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd='/',
            env={
                'PATH': f'{venv.directory()}/bin:/usr/local/sbin:'
                '/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
                'LANG': 'C.UTF-8',
            },
        )
    children = Path(f'/proc/{process.pid}/task/{process.pid}/children')

    def child() -> int:
        try:
            child_pids = children.read_text(encoding='utf-8').split()
        except OSError:
            return 0
        # The shell's own child is not it: wait until unshare has forked.
        name = Path(f'/proc/{process.pid}/comm')
        if (
            not child_pids
            or name.read_text(encoding='utf-8').strip() != 'unshare'
        ):
            return 0
        return int(child_pids[0])

    processutils.wait_for(
        lambda: process.poll() is not None or child() != 0,
        f'{host.name} to start',
        timeout=10,
        interval=0.02,
    )
    if process.poll() is not None:
        raise errors.CommandError(
            ['unshare', host.name], process.returncode, log_tail(host.name)
        )
    init_pid = child()
    # Its child, the host's PID 1, goes there by itself.
    cgroups.admit(host.name, process.pid)
    pid_files.write(host_dir / 'pid.json', init_pid)
    for name, bridge, inside in _LINKS:
        if inside == _GATEWAY_LINK and host.number != 1:
            continue
        outside = f'{name}{host.number}'
        bridges.delete(outside)
        processutils.run(
            [
                *('ip', 'link', 'add', outside, 'type', 'veth'),
                *('peer', 'name', inside, 'netns', str(init_pid)),
            ]
        )
        bridges.claim(outside)
        processutils.run(['ip', 'link', 'set', outside, 'master', bridge])
        processutils.run(['ip', 'link', 'set', outside, 'up'])


def power_off(name: str) -> None:
    """Cut a host's power: everything in it ends at once."""
    init_pid = pid(name)
    if init_pid is not None:
        os.kill(init_pid, signal.SIGKILL)
    if cgroups.exists(name):
        cgroups.remove(name)
    (directory(name) / 'pid.json').unlink(missing_ok=True)
    bare_record(name).unlink(missing_ok=True)
    digits = re.sub(r'\D', '', name)
    try:
        # By the links, connections to its exports are closed in order.
        volume_groups.release(name, directory(name))
    finally:
        for link, _, _ in _LINKS:
            bridges.delete(f'{link}{digits}')
    loop_devices.detach(directory(name))
    (directory(name) / 'bare.raw').unlink(missing_ok=True)


def enter(
    name: str, *argv: str, timeout: float = 60, check: bool = True
) -> processutils.Result:
    """Run a program in a host, under its cap.

    :raises hvstack.errors.CommandError: it failed, or the host is off.
    """
    return processutils.run(
        [directory(name) / 'enter', *argv], timeout=timeout, check=check
    )


def supervisorctl(name: str, *args: str, timeout: float = 90) -> str:
    """Drive a host's supervisord; returns what it says."""
    config = str(directory(name) / 'supervisord.conf')
    return enter(
        name,
        venv.program('supervisorctl'),
        *('-c', config),
        *args,
        timeout=timeout,
        check=False,
    ).stdout


def agents(name: str) -> dict[str, str]:
    """Return each agent's state as supervisord names it."""
    if pid(name) is None:
        return {}
    lines = supervisorctl(name, 'status').splitlines()
    return {
        columns[0]: columns[1]
        for line in lines
        if len(columns := line.split()) > 1
    }


def shut_down(name: str) -> None:
    """Stop a host in an orderly way: guests first, then its agents."""
    if pid(name) is not None:
        try:
            supervisorctl(name, 'stop', 'nova-compute', 'metadata')
            supervisorctl(name, 'stop', 'all')
        except errors.HVStackError:
            pass
    power_off(name)


def guests(name: str) -> list[str]:
    """Return the running guests of a host, by libvirt's names."""
    if pid(name) is None:
        return []
    guest_names = []
    for uri in ('lxc:///', 'qemu:///system'):
        done = enter(
            name, 'virsh', '-q', '-c', uri, 'list', '--name', check=False
        )
        if done.returncode == 0:
            guest_names += done.stdout.split()
    return guest_names


def log_tail(name: str, agent: str = 'init') -> str:
    """Return a log's last lines and its path."""
    path = directory(name) / 'log' / f'{agent}.log'
    try:
        text = path.read_text(errors='replace', encoding='utf-8')[-6000:]
    except FileNotFoundError:
        return f'no log at {path}'
    return f'{processutils.tail(text, 8)}\n(log: {path})'


def list_names() -> list[str]:
    """Return every host that has a directory or a cgroup, in order."""
    names = set(cgroups.names())
    if HOSTS.exists():
        names |= {path.name for path in HOSTS.glob('hv-host*')}
    return sorted(names, key=lambda name: int(re.sub(r'\D', '', name) or 0))


def forget(name: str) -> None:
    """Remove a host's files; it is powered off first."""
    power_off(name)
    shutil.rmtree(directory(name), ignore_errors=True)
