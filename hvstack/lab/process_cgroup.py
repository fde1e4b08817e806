# SPDX-License-Identifier: Apache-2.0
"""Finding every process of the control plane, whatever became of its parent.

All of them are children of one supervisord, which is put into a cgroup of
its own first: after a SIGKILL of supervisord the orphans are still known.
Limits are not set here, so any hierarchy will do. Where systemd owns the
cgroups, that of supervisord's unit is used.
"""

import json
import time
from pathlib import Path

from hvstack import errors, paths, pid_files
from hvstack.cluster import lab_groups
from hvstack.lab import systemd

#: Name of the cgroup below a hierarchy's root.
NAME = 'hvstack-control'


def _hierarchies() -> list[Path]:
    hierarchies: list[Path] = []
    for line in (
        Path('/proc/self/mounts').read_text('utf-8', 'replace').splitlines()
    ):
        _, mount_point, fs_type, options = line.split()[:4]
        if fs_type == 'cgroup2':
            hierarchies.insert(0, Path(mount_point))
        elif fs_type == 'cgroup' and 'freezer' in options.split(','):
            hierarchies.append(Path(mount_point))
    return hierarchies


def _groups() -> list[Path]:
    """Return the directories that can hold the control plane's processes."""
    if systemd.owns_cgroups():
        return [systemd.directory(systemd.CONTROL_UNIT)]
    return [root / NAME for root in _hierarchies()]


def join(pid: int) -> None:
    """Put a process, and all that it will start, into the cgroup.

    :raises hvstack.errors.MissingPrerequisiteError: no hierarchy can be
        written.
    """
    for root in _hierarchies():
        try:
            (root / NAME).mkdir(exist_ok=True)
            (root / NAME / 'cgroup.procs').write_text(
                f'{pid}\n', encoding='utf-8'
            )
            return
        except OSError:
            continue
    raise errors.MissingPrerequisiteError(
        'Cannot track the processes of the lab: no cgroup hierarchy is '
        'writable (cgroup2 or freezer). Use a dedicated machine or a '
        'privileged container.'
    )


def record() -> None:
    """Record the groups of the control plane, for the meter of the machine."""
    data = {
        'boot': pid_files.boot(),
        'inodes': {
            str(group): group.stat().st_ino
            for group in _groups()
            if group.exists()
        },
    }
    paths.write_whole(
        lab_groups.CONTROL_PLANE, json.dumps(data, indent=1) + '\n'
    )


def members() -> set[int]:
    """Return the process ids of the control plane."""
    member_pids: set[int] = set()
    for group in _groups():
        try:
            text = (group / 'cgroup.procs').read_text(encoding='utf-8')
        except OSError:
            continue
        member_pids |= {int(word) for word in text.split()}
    return member_pids


def wait_reaped(ended_pids: set[int], seconds: float = 10) -> None:
    """Wait until ended processes are no zombies any more.

    Some machines' PID 1 takes its time to collect them.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(Path(f'/proc/{pid}').exists() for pid in ended_pids):
            return
        time.sleep(0.1)


def end(grace: float = 0) -> None:
    """End every process of the control plane and drop the cgroup."""
    for _ in range(3):
        remaining = members()
        if not remaining:
            break
        pid_files.end(remaining, grace=grace)
    lab_groups.CONTROL_PLANE.unlink(missing_ok=True)
    for group in _groups():
        try:
            group.rmdir()
        except OSError:
            continue
