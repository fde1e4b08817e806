# SPDX-License-Identifier: Apache-2.0
"""Control groups of a lab in a temporary directory."""

import json
import os
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import fixtures

from hvstack import pid_files
from hvstack.cluster import lab_groups
from hvstack.cluster.lab_groups import HostGroup


def enter_in_child(context: AbstractContextManager[object]) -> int:
    """Enter a context in another process, which does not leave it.

    :returns: process to end with :func:`kill`.
    """
    source, sink = os.pipe()
    pid = os.fork()
    if not pid:
        context.__enter__()
        os.write(sink, b'.')
        while True:
            signal.pause()
    os.close(sink)
    with os.fdopen(source, 'rb') as stream:
        assert stream.read(1)
    return pid


def kill(pid: int) -> None:
    """End a process of :func:`enter_in_child` without any clean-up."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


class SystemdScope(fixtures.Fixture):
    """Unit of a lab host in hvstack's slice, whose changes are recorded."""

    def _setUp(self) -> None:
        root = Path(self.useFixture(fixtures.TempDir()).path)
        self.slice_dir = root / 'hvstack.slice'
        self.scope = self.slice_dir / 'hvstack-hv-host1.scope'
        self.scope.mkdir(parents=True)
        self.group = HostGroup('hv-host1', self.scope, self.scope)
        self._commands: list[list[str]] = []

        def run(argv: list[str], **_: Any) -> None:
            self._commands.append(argv)

        self.useFixture(fixtures.MonkeyPatch('hvstack.processutils.run', run))

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Units and the properties that systemd was told to set."""
        return [(argv[-2], argv[-1]) for argv in self._commands]


class LabTree(fixtures.Fixture):
    """Groups of lab hosts as the lab records them.

    :param version: version of the control groups.
    :param names: names of the hosts.
    """

    def __init__(self, version: int, *names: str) -> None:
        super().__init__()
        self.version = version
        self.names = names

    def _setUp(self) -> None:
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        self.records = self.root / 'run' / 'cgroups'
        self.records.mkdir(parents=True)
        for name, target in (
            ('lab_groups.RECORDS_DIR', self.records),
            ('lab_groups.CONTROL_PLANE', self.root / 'run/control.json'),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.cluster.{name}', target)
            )
        for name in self.names:
            paths = self.list_directories(name)
            for path in paths:
                path.mkdir(parents=True)
            self.set_usage(name, 0)
            self.weight(name).write_text(
                '1024\n' if self.version == 1 else '100\n'
            )
            self.set_cap(name, 0.65)
            self.write_record(self.records / f'{name}.json', paths)

    def list_directories(self, name: str) -> list[Path]:
        """Return the directories that are the group of a host."""
        if self.version == 2:
            return [self.root / 'cgroup' / name]
        controllers = ('cpu', 'cpuacct', 'memory')
        return [self.root / 'cgroup' / item / name for item in controllers]

    def weight(self, name: str) -> Path:
        """Return the file of the weight of a host."""
        if self.version == 2:
            return self.list_directories(name)[0] / 'cpu.weight'
        return self.list_directories(name)[0] / 'cpu.shares'

    def cap(self, name: str) -> Path:
        """Return the file of the CPU cap of a host."""
        if self.version == 2:
            return self.list_directories(name)[0] / 'cpu.max'
        return self.list_directories(name)[0] / 'cpu.cfs_quota_us'

    def set_cap(self, name: str, cores: float) -> None:
        """Set the CPU cap of a host in cores."""
        quota = round(cores * 100_000)
        if self.version == 2:
            self.cap(name).write_text(f'{quota} 100000\n')
        else:
            self.cap(name).write_text(f'{quota}\n')
            self.cap(name).with_name('cpu.cfs_period_us').write_text(
                '100000\n'
            )

    def set_usage(self, name: str, seconds: float, group: str = '') -> None:
        """Set the CPU time of a host.

        :param group: group below that of the host; empty for the host.
        """
        directory = self.list_directories(name)[2 - self.version] / group
        directory.mkdir(exist_ok=True)
        if self.version == 2:
            text = f'usage_usec {round(seconds * 1e6)}\nuser_usec 1\n'
            # A reader of the kernel's file sees all of it.
            new = self.root / 'cpu.stat.new'
            new.write_text(text)
            new.rename(directory / 'cpu.stat')
        else:
            usage = directory / 'cpuacct.usage'
            usage.write_text(f'{round(seconds * 1e9)}\n')

    def write_record(self, file: Path, paths: list[Path]) -> None:
        """Record groups as the lab does."""
        inodes = {str(path): path.stat().st_ino for path in paths}
        file.write_text(
            json.dumps({'boot': pid_files.boot(), 'inodes': inodes}),
            encoding='utf-8',
        )

    def set_control_plane(self, *pids: int) -> None:
        """Set the processes of the control plane."""
        group = self.root / 'control'
        group.mkdir(exist_ok=True)
        (group / 'cgroup.procs').write_text('\n'.join(map(str, pids)))
        self.write_record(lab_groups.CONTROL_PLANE, [group])
