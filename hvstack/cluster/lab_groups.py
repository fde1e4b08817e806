# SPDX-License-Identifier: Apache-2.0
"""Control groups of a lab on this machine: of its hosts and control plane.

The lab records its groups with their inodes and the boot. Hosts that a group
of the same name does not belong to are not the lab's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hvstack import errors, jsonfile, paths, pid_files

#: A file for each lab host; :mod:`hvstack.lab.hosts.cgroups` writes them.
RECORDS_DIR = paths.RUN / 'cgroups'
#: Groups of the control plane; :mod:`hvstack.lab.process_cgroup` writes it.
CONTROL_PLANE = paths.RUN / 'control-plane.json'
#: Group of the guests below that of a host; libvirt creates it.
GUESTS = 'machine'


@dataclass(frozen=True)
class HostGroup:
    """Control group of a lab host, with all its agents and guests.

    :param name: name of the host.
    :param weighed: directory whose weight applies to the host.
    :param accounted: directory with the CPU time of the host.
    """

    name: str
    weighed: Path
    accounted: Path

    def read_cpu_seconds(self) -> float:
        """Return the CPU time that the host has used so far.

        :raises OSError: the host was powered off.
        """
        return _read_cpu_seconds(self.accounted)

    def read_guest_seconds(self) -> float:
        """Return the CPU time that all guests of the host have used so far.

        :returns: 0 if libvirt has started no guest yet.
        :raises OSError: the host was powered off.
        """
        guests = self.accounted / GUESTS
        return _read_cpu_seconds(guests) if guests.exists() else 0.0


def _read_cpu_seconds(group: Path) -> float:
    """Return the CPU time of a group and of the groups in it."""
    usage = group / 'cpuacct.usage'
    if usage.exists():
        return int(usage.read_text(encoding='utf-8')) / 1e9
    text = (group / 'cpu.stat').read_text(encoding='utf-8')
    values = dict(line.split(maxsplit=1) for line in text.splitlines())
    return int(values['usage_usec']) / 1e6


def list_names() -> list[str]:
    """Return the names of the lab hosts that run on this machine."""
    return sorted(
        path.stem
        for path in RECORDS_DIR.glob('*.json')
        if _find_host(path.stem) is not None
    )


def find_hosts(names: Iterable[str]) -> list[HostGroup]:
    """Return the groups of hosts, if all of them are lab hosts.

    :param names: names of the hosts; none for hosts of other clouds.
    :returns: empty if a host is not a running lab host of this machine.
    """
    groups = []
    for name in sorted(names):
        group = _find_host(name)
        if group is None:
            return []
        groups.append(group)
    return groups


def _find_host(name: str) -> HostGroup | None:
    directories = [
        path
        for path, inode in _load(RECORDS_DIR / f'{name}.json').items()
        if _has_inode(path, inode)
    ]
    by_controller = {path.parent.name: path for path in directories}
    weighed, accounted = (
        by_controller.get(controller) for controller in ('cpu', 'cpuacct')
    )
    if weighed and accounted:
        return HostGroup(name, weighed, accounted)
    unified = [path for path in directories if (path / 'cpu.stat').exists()]
    return HostGroup(name, unified[0], unified[0]) if unified else None


def _has_inode(path: Path, inode: int) -> bool:
    try:
        return path.stat().st_ino == inode
    except OSError:
        return False


def list_control_plane() -> set[int]:
    """Return the processes of the lab's control plane; empty if unknown."""
    pids: set[int] = set()
    for path in _load(CONTROL_PLANE):
        try:
            text = (path / 'cgroup.procs').read_text(encoding='utf-8')
        except OSError:
            continue
        pids |= {int(word) for word in text.split()}
    return pids


def _load(path: Path) -> dict[Path, int]:
    """Return recorded groups of this boot with their inodes."""
    try:
        data = jsonfile.load_if_whole(path)
    except errors.HVStackError:
        return {}
    inodes = data.get('inodes')
    if data.get('boot') != pid_files.boot() or not isinstance(inodes, dict):
        return {}
    return {
        Path(name): inode
        for name, inode in inodes.items()
        if isinstance(inode, int)
    }
