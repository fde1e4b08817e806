# SPDX-License-Identifier: Apache-2.0
"""The cgroup that caps a host: agents and guests together.

Three kinds of machine have the same caps: cgroup version 1; version 2 where
systemd is PID 1, which owns the tree, so that every host is a scope with
``Delegate=yes``; and version 2 without systemd, where the groups are plain
directories. Under version 2 processes live in leaves only: a host's agents
in the group ``agents``, next to libvirt's ``machine``.

A group belongs to hvstack if it is recorded with its inode and the boot, not
because of its name.
"""

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from hvstack import errors, jsonfile, paths, pid_files, processutils, speed
from hvstack.lab import systemd

ROOT = Path('/sys/fs/cgroup')
#: Version 1 controllers that a host's cgroup exists in.
CONTROLLERS = (
    'cpu',
    'cpuacct',
    'cpuset',
    'memory',
    'devices',
    'freezer',
    'blkio',
    'pids',
)
#: Version 2 controllers that caps and libvirt need.
UNIFIED_CONTROLLERS = ('cpu', 'cpuset', 'io', 'memory', 'pids')
#: Length of the scheduler's period, in microseconds.
PERIOD = 100_000
#: Group of a host's own processes under version 2.
LEAF = 'agents'

#: A file for each host, as hosts are started and stopped at the same time.
_RECORDS = paths.RUN / 'cgroups'


def version() -> int:
    """Return the machine's cgroup version, 1 or 2."""
    return 2 if (ROOT / 'cgroup.controllers').exists() else 1


def has_units() -> bool:
    """Tell whether systemd owns the cgroup tree, so that hosts are units."""
    return systemd.owns_cgroups()


def unit(name: str) -> str:
    """Return the name of a host's unit where systemd is PID 1."""
    return f'hvstack-{name}.scope'


def check() -> None:
    """Refuse a machine whose cgroups cannot cap a host.

    Nothing is changed.

    :raises hvstack.errors.MissingPrerequisiteError: a controller is missing,
        or the cgroup tree cannot be used.
    """
    if version() == 1:
        missing = [c for c in CONTROLLERS if not (ROOT / c / 'tasks').exists()]
        if missing:
            raise errors.MissingPrerequisiteError(
                f'Cannot cap lab hosts ({ROOT}): the cgroup controllers '
                f'{", ".join(missing)} are not mounted. Mount each with '
                f"'mount -t cgroup -o NAME cgroup {ROOT}/NAME'."
            )
        return
    existing = (
        (ROOT / 'cgroup.controllers').read_text(encoding='utf-8').split()
    )
    missing = [c for c in UNIFIED_CONTROLLERS if c not in existing]
    if missing:
        raise errors.MissingPrerequisiteError(
            f'Cannot cap lab hosts ({ROOT}/cgroup.controllers): the cgroup '
            f'controllers {", ".join(missing)} are missing. Boot without '
            'cgroup_disable and cgroup_no_v1, or give the container all '
            'controllers.'
        )
    if not os.access(ROOT / 'cgroup.subtree_control', os.W_OK) or (
        os.statvfs(ROOT).f_flag & os.ST_RDONLY
    ):
        raise errors.MissingPrerequisiteError(
            f'Cannot cap lab hosts ({ROOT}): the cgroup tree is read-only. '
            'Use a virtual machine, or a privileged container.'
        )
    enabled = (
        (ROOT / 'cgroup.subtree_control').read_text(encoding='utf-8').split()
    )
    if (
        not has_units()
        # Only the root of the whole tree has no type, and may have processes
        # next to children with controllers.
        and (ROOT / 'cgroup.type').exists()
        and not set(UNIFIED_CONTROLLERS) <= set(enabled)
        and (ROOT / 'cgroup.procs').read_text(encoding='utf-8').strip()
    ):
        raise errors.MissingPrerequisiteError(
            f'Cannot cap lab hosts ({ROOT}/cgroup.subtree_control): the '
            'cgroup of this container has processes, so that it cannot have '
            'children with controllers. Move the processes to a child with '
            f"'mkdir {ROOT}/init; for p in $(cat {ROOT}/cgroup.procs); do "
            f"echo $p >{ROOT}/init/cgroup.procs; done'."
        )


def directories(name: str) -> list[Path]:
    """Return the directories that are a host's cgroup."""
    if has_units():
        return [systemd.directory(unit(name))]
    if version() == 2:
        return [ROOT / name]
    return [ROOT / controller / name for controller in CONTROLLERS]


def entrances(name: str) -> list[Path]:
    """Return the directories that a host's own processes are put into.

    Under version 2 a group with controllers for its children has no
    processes of its own: agents get a group next to libvirt's.
    """
    if version() == 2:
        return [path / LEAF for path in directories(name)]
    return directories(name)


def hierarchies() -> dict[str, list[str]]:
    """Return which controllers are mounted together, by mount options.

    Many machines mount ``cpu,cpuacct`` as one: then neither can be mounted
    alone.
    """
    together: dict[Path, list[str]] = {}
    for controller in CONTROLLERS:
        together.setdefault((ROOT / controller).resolve(), []).append(
            controller
        )
    return {','.join(group): group for group in together.values()}


def create(name: str, cpu_cap: float, memory_mib: int) -> list[str]:
    """Create a host's cgroup with its caps.

    :param name: host name.
    :param cpu_cap: cores that all processes of the host share.
    :param memory_mib: memory that they share, in MiB.
    :returns: the command that runs a program, given as further arguments, in
        the host's cgroup. Under systemd the group begins and ends with the
        processes that the command starts.
    :raises hvstack.errors.BusyError: a cgroup of this name exists, and hvstack
        did not create it.
    :raises hvstack.errors.MissingPrerequisiteError: the kernel rejects a cap.
    """
    for path in foreign(name):
        raise errors.BusyError(
            f'Cannot create the cgroup of {name} ({path}): it exists and was '
            'not created by hvstack. End its processes and remove it.'
        )
    _store(name, {str(path): 0 for path in directories(name)})
    if has_units():
        return _scope(name, cpu_cap, memory_mib)
    for path in (*directories(name), *entrances(name)):
        path.mkdir(exist_ok=True)
    record(name)
    _write_caps(name, cpu_cap, memory_mib)
    joins = '; '.join(
        f'echo $$ >{path}/cgroup.procs' for path in directories(name)
    )
    return ['/bin/sh', '-c', f'set -e; {joins}; exec "$@"', name]


def _scope(name: str, cpu_cap: float, memory_mib: int) -> list[str]:
    """Return the command that starts a host's scope.

    A scope's processes are children of the command, as on other machines;
    Delegate=yes makes systemd leave everything below it alone.
    """
    properties = {
        'Delegate': 'yes',
        'CPUQuota': f'{cpu_cap * 100:.1f}%',
        'CPUQuotaPeriodSec': f'{PERIOD // 1000}ms',
        'MemoryMax': str(memory_mib * 1024 * 1024),
        'MemorySwapMax': '0',
        # libvirt's guests are threads and processes of one host.
        'TasksMax': 'infinity',
        'TimeoutStopSec': '20s',
    }
    return [
        *('systemd-run', '--scope', '--quiet', '--collect'),
        *('--unit', unit(name), '--slice', systemd.SLICE),
        f'--description=hvstack lab host {name}',
        *(f'--property={key}={value}' for key, value in properties.items()),
        '--',
    ]


def _write_caps(name: str, cpu_cap: float, memory_mib: int) -> None:
    quota = round(cpu_cap * PERIOD)
    memory = memory_mib * 1024 * 1024
    if version() == 2:
        enable_controllers(ROOT)
        values = {
            'cpu.max': f'{quota} {PERIOD}',
            'memory.max': str(memory),
            'memory.swap.max': '0',
        }
        files = {key: ROOT / name / key for key in values}
    else:
        cpuset = ROOT / 'cpuset'
        values = {
            'cpuset.cpus': (cpuset / 'cpuset.cpus')
            .read_text(encoding='utf-8')
            .strip(),
            'cpuset.mems': (cpuset / 'cpuset.mems')
            .read_text(encoding='utf-8')
            .strip(),
            'cpu.cfs_period_us': str(PERIOD),
            'cpu.cfs_quota_us': str(quota),
            'memory.limit_in_bytes': str(memory),
        }
        files = {
            key: ROOT / key.partition('.')[0] / name / key for key in values
        }
    for key, value in values.items():
        try:
            files[key].write_text(value, encoding='utf-8')
        except OSError as exc:
            if key == 'memory.swap.max':
                # The kernel counts no swap.
                continue
            raise errors.MissingPrerequisiteError(
                f'Cannot cap {name} ({files[key]}): writing {value} failed: '
                f'{exc.strerror}. Use a kernel with this controller.'
            ) from exc


def enable_controllers(path: Path) -> None:
    """Give the children of a version 2 group all controllers.

    :raises hvstack.errors.MissingPrerequisiteError: the kernel refuses.
    """
    controllers = ' '.join(f'+{name}' for name in UNIFIED_CONTROLLERS)
    try:
        (path / 'cgroup.subtree_control').write_text(
            controllers, encoding='utf-8'
        )
    except OSError as exc:
        raise errors.MissingPrerequisiteError(
            f'Cannot enable cgroup controllers ({path}/cgroup.subtree_control'
            f'): {exc.strerror}. Move the processes of {path} to a child '
            'group.'
        ) from exc


def admit(name: str, pid: int) -> None:
    """Put a process into a host's own group, and record the group.

    :param pid: process of the host that is still in the group above.
    """
    for path in entrances(name):
        path.mkdir(exist_ok=True)
        (path / 'cgroup.procs').write_text(str(pid), encoding='utf-8')
    record(name)


def record(name: str) -> None:
    """Record the inodes of a host's groups, which identify them."""
    _store(
        name,
        {
            str(path): path.stat().st_ino
            for path in directories(name)
            if path.exists()
        },
    )


def _store(name: str, inodes: Mapping[str, int]) -> None:
    data = {'boot': pid_files.boot(), 'inodes': inodes}
    paths.write_whole(
        _RECORDS / f'{name}.json', json.dumps(data, indent=1) + '\n'
    )


def _load(name: str) -> dict[str, int]:
    """Return the recorded groups of a host in this boot with their inodes."""
    data = jsonfile.load_if_whole(_RECORDS / f'{name}.json')
    inodes = data.get('inodes')
    if data.get('boot') != pid_files.boot() or not isinstance(inodes, dict):
        return {}
    return {
        path: inode for path, inode in inodes.items() if isinstance(inode, int)
    }


def foreign(name: str) -> list[Path]:
    """Return the directories of a host's name that hvstack did not create."""
    inodes = _load(name)
    unrecorded = []
    for path in directories(name):
        if not path.exists():
            continue
        # 0 was recorded just before the directory was created.
        if inodes.get(str(path)) not in (0, path.stat().st_ino):
            unrecorded.append(path)
    return unrecorded


def _tree(top: Path) -> list[Path]:
    """Return a group and all groups below it, parents first.

    The kernel and systemd remove groups at any time: unlike Path.rglob,
    os.walk passes over those.
    """
    return [Path(path) for path, _, _ in os.walk(top)]


def members(name: str) -> set[int]:
    """Return the processes in a host's cgroup, its guests' included."""
    processes: set[int] = set()
    for top in directories(name):
        for path in _tree(top):
            try:
                text = (path / 'cgroup.procs').read_text(encoding='utf-8')
            except OSError:
                continue
            processes |= {int(word) for word in text.split()}
    return processes - {os.getpid()}


def exists(name: str) -> bool:
    """Tell whether anything of a host's cgroup exists."""
    return any(path.exists() for path in directories(name))


def remove(name: str, seconds: float = 20) -> None:
    """End all processes in a host's cgroup and remove it.

    A group that hvstack did not create is left alone.

    :param seconds: how long processes may take to end.
    :raises hvstack.errors.DeadlineExceededError: a process does not end.
    """
    if foreign(name):
        return
    deadline = time.monotonic() + seconds * speed.factor()
    while True:
        for pid in members(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if _drop(name):
            break
        if time.monotonic() > deadline:
            raise errors.DeadlineExceededError(
                f'Cannot remove the cgroup of {name}: its processes '
                f'{sorted(members(name))} still run {seconds:.0f} s after '
                'SIGKILL. Run the command again.'
            )
        time.sleep(0.1)
    if has_units():
        # Its processes are gone; this waits until systemd has noticed.
        processutils.run(['systemctl', 'stop', unit(name)], check=False)
    (_RECORDS / f'{name}.json').unlink(missing_ok=True)


def _drop(name: str) -> bool:
    for top in directories(name):
        for path in reversed(_tree(top)):
            try:
                path.rmdir()
            except OSError:
                continue
    return not exists(name)


def names() -> list[str]:
    """Return the hosts that have a cgroup, also those of a crashed lab."""
    recorded = [path.stem for path in _RECORDS.glob('*.json')]
    return sorted(
        name for name in recorded if exists(name) and not foreign(name)
    )


def oom_kills(name: str) -> int:
    """Return how many processes the kernel killed because of a host's cap."""
    if version() == 2:
        # Events of a group count those of all groups below it.
        files = [path / 'memory.events' for path in directories(name)]
    else:
        top = ROOT / 'memory' / name
        files = [path / 'memory.oom_control' for path in _tree(top)]
    total = 0
    for file in files:
        try:
            lines = file.read_text(encoding='utf-8').splitlines()
        except OSError:
            continue
        total += sum(int(x.split()[1]) for x in lines if 'oom_kill ' in x)
    return total
