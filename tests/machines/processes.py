# SPDX-License-Identifier: Apache-2.0
"""Check in which cgroups the processes of running lab hosts are.

``python -m tests.machines.processes`` as root, on the machine of a lab.
"""

import sys
from pathlib import Path

from hvstack import processutils
from hvstack.lab import systemd
from hvstack.lab.hosts import cgroups, host


def groups(name: str) -> dict[str, list[str]]:
    """Return the commands of a host's processes by version 2 cgroup."""
    pid = host.pid(name)
    namespace = Path(f'/proc/{pid}/ns/mnt').readlink()
    commands: dict[str, list[str]] = {}
    members = cgroups.members(name)
    for process in Path('/proc').glob('[0-9]*'):
        try:
            if (
                process.joinpath('ns/mnt').readlink() != namespace
                and int(process.name) not in members
            ):
                continue
            lines = process.joinpath('cgroup').read_text().splitlines()
            command = process.joinpath('comm').read_text().strip()
        except OSError:
            continue
        for line in lines:
            if line.startswith('0::'):
                commands.setdefault(line[3:], []).append(command)
    return commands


def check(name: str) -> bool:
    """Print a host's groups; return whether all are leaves of its own."""
    top = '/' + str(cgroups.directories(name)[0].relative_to(cgroups.ROOT))
    passed = True
    for group, commands in sorted(groups(name).items()):
        path = cgroups.ROOT / group[1:]
        below = group.startswith(f'{top}/')
        leaf = not any(
            child.is_dir()
            and (child / 'cgroup.procs').exists()
            and 'memory' in (path / 'cgroup.subtree_control').read_text()
            for child in path.iterdir()
        )
        passed = passed and below and leaf
        print(
            f'{"ok  " if below and leaf else "FAIL"} {group}: '
            f'{", ".join(sorted(set(commands)))}'
        )
    return passed


def main() -> int:
    """Check all hosts, also after systemd has read its units again."""
    names = cgroups.names()
    failed = [name for name in names if not check(name)]
    if systemd.owns_cgroups():
        processutils.run(['systemctl', 'daemon-reload'])
        print('after daemon-reload:')
        failed += [name for name in names if not check(name)]
    return 1 if failed or not names else 0


if __name__ == '__main__':
    sys.exit(main())
