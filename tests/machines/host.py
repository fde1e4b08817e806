# SPDX-License-Identifier: Apache-2.0
"""Start one lab host with two guests, without the control plane.

``python -m tests.machines.host`` as root, on a machine without a lab. It
shows where libvirt puts containers, and that their weights and limits hold.
"""

import os
import sys
import time
from pathlib import Path

from hvstack import errors, processutils
from hvstack.lab import (
    bridges,
    lifecycle,
    process_cgroup,
    supervisord,
    systemd,
)
from hvstack.lab.hosts import cgroups, host, sizes
from hvstack.lab.settings import LabSettings
from tests.machines import processes
from tests.machines.caps import Caps

NAME = 'hv-host1'
CORES = 0.65
SECONDS = 30
#: Weight of guests by name. They compete on one CPU.
GUESTS = {'heavy': 300, 'light': 100}
GUEST_MIB = 64
#: Ratios that are accepted for these weights.
MIN_RATIO, MAX_RATIO = 1.8, 4.2
_XML = """<domain type='lxc'>
  <name>{name}</name>
  <memory unit='MiB'>{memory}</memory>
  <vcpu cpuset='0'>1</vcpu>
  <cputune><shares>{weight}</shares></cputune>
  <os>
    <type>exe</type>
    <init>/bin/busybox</init>
    <initarg>sh</initarg>
    <initarg>-c</initarg>
    <initarg>while :; do :; done</initarg>
  </os>
  <devices>
    <filesystem type='mount'>
      <source dir='{root}'/>
      <target dir='/'/>
    </filesystem>
    <console type='pty'/>
  </devices>
</domain>
"""


def start_guest(name: str, weight: int, size: sizes.HostSize) -> None:
    """Start a container that keeps a CPU busy."""
    root = host.directory(size.name) / 'guests' / name
    for directory in ('bin', 'dev', 'proc', 'sys', 'run', 'tmp'):
        (root / directory).mkdir(parents=True, exist_ok=True)
    processutils.run(['cp', '/bin/busybox', root / 'bin/busybox'])
    path = root.with_suffix('.xml')
    path.write_text(
        _XML.format(name=name, memory=GUEST_MIB, weight=weight, root=root)
    )
    virsh(size.name, 'create', str(path))


def virsh(name: str, *args: str) -> str:
    """Run virsh for the containers of a host."""
    argv = ('virsh', '-q', '-c', 'lxc:///', *args)
    return host.enter(name, *argv, timeout=120).stdout


def group(name: str, guest: str) -> Path:
    """Return the version 2 cgroup of a guest."""
    [path] = cgroups.directories(name)[0].glob(f'machine*/*{guest}*')
    return path


def cpu_seconds(path: Path) -> float:
    """Return the CPU time of a version 2 cgroup."""
    return int((path / 'cpu.stat').read_text().split()[1]) / 1e6


def check(size: sizes.HostSize, kernel_ratio: float) -> list[str]:
    """Check a running host; return the failed checks.

    :param kernel_ratio: ratio that the kernel gives to the same weights
        without libvirt.
    """
    failed = []

    def result(title: str, passed: bool, detail: object) -> None:
        print(f'{"ok  " if passed else "FAIL"} {title}: {detail}', flush=True)
        if not passed:
            failed.append(title)

    for name, weight in GUESTS.items():
        start_guest(name, weight, size)
        path = group(size.name, name)
        for file, value in (
            ('cpu.weight', str(weight)),
            ('memory.max', str(GUEST_MIB << 20)),
            ('cpuset.cpus', '0'),
        ):
            actual = (path / file).read_text().strip()
            result(f'{name} {file}', actual == value, actual)
    guests = [group(size.name, name) for name in GUESTS]
    before = [cpu_seconds(path) for path in guests]
    begin = time.monotonic()
    time.sleep(SECONDS)
    span = time.monotonic() - begin
    heavy, light = (
        (cpu_seconds(path) - used) / span
        for path, used in zip(guests, before, strict=True)
    )
    used_text = f'{heavy:.3f} and {light:.3f} cores'
    result('both guests', heavy + light < 1.1 * CORES, used_text)
    title, ratio = 'guests of weights 300 and 100', heavy / light
    detail = f'{used_text}, ratio {ratio:.2f}'
    if MIN_RATIO < kernel_ratio < MAX_RATIO:
        result(title, MIN_RATIO < ratio < MAX_RATIO, detail)
    else:
        print(
            f'not checked: {title}: {detail}; Linux {os.uname().release} '
            f'gives {kernel_ratio:.2f} to 1 to such groups without libvirt'
        )
    console = host.enter(size.name, 'cat', '/proc/self/cgroup').stdout.strip()
    result('what is entered', console == '0::/agents', console)
    if processes.main():
        failed.append('processes')
    return failed


def check_supervisor() -> list[str]:
    """Start and stop the control plane's supervisor, without programs."""
    supervisord.ensure()
    members = process_cgroup.members()
    paths = {
        Path(f'/proc/{pid}/cgroup').read_text(encoding='utf-8').strip()
        for pid in members
    }
    supervisord.shutdown()
    passed = len(members) == 1 and not process_cgroup.members()
    print(f'{"ok  " if passed else "FAIL"} supervisor: {paths}', flush=True)
    return [] if passed else ['supervisor']


def require_no_lab() -> None:
    """Refuse a machine with a lab: the host, the bridges would be the lab's.

    :raises SystemExit: a lab runs, or one that is stopped has such a host.
    """
    path = host.directory(NAME)
    if lifecycle.owner() is not None or path.exists():
        raise SystemExit(
            f'Cannot start {NAME}: this machine has a lab ({path}). Run this '
            'on a machine without a lab.'
        )


def main() -> int:
    """Start a host, check it and remove it."""
    require_no_lab()
    settings = LabSettings(
        hosts=1,
        compute='lxc',
        options={
            'host_sizes': {
                NAME: {'cpu_cap': CORES, 'memory_mib': 1536, 'cpus': 1}
            }
        },
    )
    # As on a machine that is large enough; agents of Nova do not stay.
    [size] = sizes.plan(settings, memory=sizes.minimum_mib(1))
    failed = check_supervisor()
    kernel_ratio = Caps().measure_nested_weights()
    bridges.ensure()
    host.configure(size, {})
    host.start(size)
    try:
        processutils.wait_for(
            lambda: 'RUNNING' in host.agents(size.name).values(),
            'the supervisor of the host to answer',
            timeout=60,
            get_reason=lambda: host.log_tail(size.name),
        )
        host.supervisorctl(size.name, 'stop', 'nova-compute', 'metadata')
        processutils.wait_for(
            lambda: virsh(size.name, 'list') is not None,
            'libvirtd to answer',
            timeout=60,
            get_reason=lambda: host.log_tail(size.name, 'libvirtd'),
        )
        print(virsh(size.name, 'version'))
        failed += check(size, kernel_ratio)
    except errors.HVStackError as exc:
        print(f'FAIL {exc}')
        failed.append(str(exc))
    finally:
        host.forget(size.name)
        bridges.remove()
        systemd.stop_slice()
    if systemd.directory('').exists():
        failed.append('slice remains')
    if cgroups.names():
        failed.append('cgroups remain')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
