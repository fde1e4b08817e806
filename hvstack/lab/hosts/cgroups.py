# SPDX-License-Identifier: Apache-2.0
"""The cgroup that caps a host: agents and guests together.

Written for version 1, where it was tried, and for version 2.
"""

import os
import signal
import time
from pathlib import Path

from hvstack import errors

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
#: Length of the scheduler's period, in microseconds.
PERIOD = 100_000


def version() -> int:
    """Return the machine's cgroup version, 1 or 2."""
    return 2 if (ROOT / 'cgroup.controllers').exists() else 1


def check(untested: bool) -> None:
    """Refuse what was never tried.

    :raises hvstack.errors.MissingPrerequisite: one line with the remedy.
    """
    if version() == 2:
        if not untested:
            raise errors.MissingPrerequisite(
                'this machine has cgroup version 2, on which lab hosts were '
                "not tried: go on with 'hvstack lab up --untested', or boot "
                'with systemd.unified_cgroup_hierarchy=0'
            )
        return
    missing = [c for c in CONTROLLERS if not (ROOT / c / 'tasks').exists()]
    if missing:
        raise errors.MissingPrerequisite(
            f'cgroup controllers {", ".join(missing)} are not mounted below '
            f'{ROOT}: mount them (mount -t cgroup -o NAME cgroup {ROOT}/NAME)'
        )


def folders(name: str) -> list[Path]:
    """Return the folders that are a host's cgroup."""
    if version() == 2:
        return [ROOT / name]
    return [ROOT / controller / name for controller in CONTROLLERS]


def entrances(name: str) -> list[Path]:
    """Return the folders that a host's own processes are put into.

    Under version 2 a group with controllers for its children has no
    processes of its own: agents get a group beside libvirt's.
    """
    if version() == 2:
        return [ROOT / name / 'agents']
    return folders(name)


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


def create(name: str, cpu_cap: float, memory_mib: int) -> None:
    """Make a host's cgroup with its caps.

    :param cpu_cap: cores.
    :raises hvstack.errors.MissingPrerequisite: the kernel refuses.
    """
    quota = round(cpu_cap * PERIOD)
    memory = memory_mib * 1024 * 1024
    for folder in (*folders(name), *entrances(name)):
        folder.mkdir(exist_ok=True)
    if version() == 2:
        values = {
            'cpu.max': f'{quota} {PERIOD}',
            'memory.max': str(memory),
            'memory.swap.max': '0',
        }
        where = {key: ROOT / name / key for key in values}
        (ROOT / 'cgroup.subtree_control').write_text(
            '+cpu +cpuset +io +memory +pids', encoding='utf-8'
        )
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
        where = {
            key: ROOT / key.partition('.')[0] / name / key for key in values
        }
    for key, value in values.items():
        try:
            where[key].write_text(value, encoding='utf-8')
        except OSError as exc:
            if key == 'memory.swap.max':
                continue
            raise errors.MissingPrerequisite(
                f'{where[key]}: cannot write {value}: {exc.strerror}'
            ) from exc


def members(name: str) -> set[int]:
    """Return the processes in a host's cgroup, its guests' included."""
    found: set[int] = set()
    for top in folders(name):
        for folder in (top, *(p for p in top.rglob('*') if p.is_dir())):
            try:
                text = (folder / 'cgroup.procs').read_text(encoding='utf-8')
            except OSError:
                continue
            found |= {int(word) for word in text.split()}
    return found - {os.getpid()}


def exists(name: str) -> bool:
    """Tell whether anything of a host's cgroup is there."""
    return any(folder.exists() for folder in folders(name))


def remove(name: str, seconds: float = 20) -> None:
    """End whatever runs in a host's cgroup and remove it.

    :raises hvstack.errors.DeadlineExceeded: a process does not end.
    """
    deadline = time.monotonic() + seconds
    while True:
        for pid in members(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if _drop(name):
            return
        if time.monotonic() > deadline:
            raise errors.DeadlineExceeded(
                f'cgroup {name} still has processes '
                f'{sorted(members(name))} after {seconds:.0f} s of SIGKILL'
            )
        time.sleep(0.1)


def _drop(name: str) -> bool:
    for top in folders(name):
        if not top.exists():
            continue
        inner = sorted((p for p in top.rglob('*') if p.is_dir()), reverse=True)
        for folder in (*inner, top):
            try:
                folder.rmdir()
            except OSError:
                continue
    return not exists(name)


def names() -> list[str]:
    """Return the hosts that have a cgroup, also those of a crashed lab."""
    where = ROOT if version() == 2 else ROOT / 'cpu'
    return sorted(path.name for path in where.glob('hv-host*'))


def oom_kills(name: str) -> int:
    """Return how many processes the kernel killed for a host's cap."""
    top = ROOT / name if version() == 2 else ROOT / 'memory' / name
    file = 'memory.events' if version() == 2 else 'memory.oom_control'
    total = 0
    for folder in (top, *(p for p in top.rglob('*') if p.is_dir())):
        try:
            lines = (folder / file).read_text(encoding='utf-8').splitlines()
        except OSError:
            continue
        total += sum(int(x.split()[1]) for x in lines if 'oom_kill ' in x)
        if version() == 2:
            break
    return total
