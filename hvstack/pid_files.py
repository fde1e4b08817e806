# SPDX-License-Identifier: Apache-2.0
"""Pid files that cannot name a stranger.

The kernel gives a dead process' number to another one. A file here also
carries the start time and the machine's boot, so that a left-over file is
recognised as such.
"""

import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hvstack import errors, jsonfile, paths

_BOOT = Path('/proc/sys/kernel/random/boot_id')
_MACHINE = Path('/etc/machine-id')
#: Inode of the machine's first pid namespace, from which every process is
#: visible (PROC_PID_INIT_INO of include/linux/proc_ns.h).
_FIRST_NAMESPACE = 0xEFFFFFFC


def boot() -> str:
    """Return the id of the machine's current boot."""
    return _BOOT.read_text(encoding='utf-8').strip()


def machine() -> str:
    """Return the ID of this machine (machine-id(5)); empty if it has none."""
    try:
        return _MACHINE.read_text(encoding='utf-8').strip()
    except OSError:
        return ''


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot.

    :returns: ``None`` if the process does not exist or is a zombie.
    """
    try:
        text = Path(f'/proc/{pid}/stat').read_text('utf-8', 'replace')
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may itself hold spaces and parentheses.
    fields = text.rpartition(')')[2].split()
    return None if fields[0] == 'Z' else int(fields[19])


def namespace() -> int:
    """Return the inode of the pid namespace of this process."""
    return Path('/proc/self/ns/pid').stat().st_ino


@dataclass(frozen=True)
class Process:
    """Identity of a process, which a later process cannot have.

    :param pid: its number within its pid namespace.
    :param start: its start time in clock ticks since the boot.
    :param boot: id of the machine's boot.
    :param namespace: inode of its pid namespace; 0 in files of older
        releases means the namespace of the process that reads the file.
    :param machine: ID of the machine; empty in files of older releases, and
        on machines without an ID.
    """

    pid: int
    start: int
    boot: str
    namespace: int = 0
    machine: str = ''

    @classmethod
    def current(cls) -> Self:
        """Return the identity of this process."""
        start = start_time(os.getpid())
        assert start is not None
        return cls(os.getpid(), start, boot(), namespace(), machine())

    @property
    def is_elsewhere(self) -> bool:
        """Whether it ran on another machine with the same directories."""
        return bool(self.machine and machine() and self.machine != machine())

    def is_alive(self) -> bool | None:
        """Return whether the process runs.

        :returns: None if this process cannot know, because the process ran
            on another machine, or in a pid namespace that is not visible from
            here.
        """
        if self.is_elsewhere:
            return None
        if self.boot != boot():
            return False
        if self.namespace in (0, namespace()):
            return start_time(self.pid) == self.start
        if any(self._is_at(path) for path in Path('/proc').glob('[0-9]*')):
            return True
        # With the mount option hidepid, other users' processes are missing.
        complete = os.geteuid() == 0 or Path('/proc/1/status').exists()
        is_first = namespace() == _FIRST_NAMESPACE
        return False if is_first and complete else None

    def _is_at(self, path: Path) -> bool:
        """Return whether a directory of /proc is that of the process."""
        try:
            if start_time(int(path.name)) != self.start:
                return False
            status = (path / 'status').read_text(encoding='utf-8')
        except OSError:
            return False
        numbers = [
            line.split()[-1]
            for line in status.splitlines()
            if line.startswith('NSpid:')
        ]
        return numbers == [str(self.pid)]


def command(pid: int) -> str:
    """Return the command line of a process, empty if there is none."""
    try:
        args = Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
    except OSError:
        return ''
    return b' '.join(args).decode(errors='replace').strip()


def write(path: Path, pid: int) -> None:
    """Write a process' pid file.

    :raises hvstack.errors.CommandError: the process is gone already.
    """
    started = start_time(pid)
    if started is None:
        raise errors.CommandError([path.stem], 1, 'it ended at once')
    record = {'pid': pid, 'start': started, 'boot': boot()}
    paths.write_whole(path, json.dumps(record) + '\n')


def read(path: Path) -> int | None:
    """Return the pid in a pid file if that very process still runs."""
    record = jsonfile.load_if_whole(path)
    pid, started = record.get('pid'), record.get('start')
    if type(pid) is not int or type(started) is not int:
        return None
    if record.get('boot') != boot() or start_time(pid) != started:
        return None
    return pid


def end(pids: Iterable[int], *, grace: float) -> None:
    """End processes: ask, wait, then kill.

    :param grace: seconds between SIGTERM and SIGKILL; 0 kills at once.
    """
    alive = {
        pid: started
        for pid in pids
        if (started := start_time(pid)) is not None and pid != os.getpid()
    }
    steps = [(signal.SIGKILL, 10.0)]
    if grace > 0:
        steps.insert(0, (signal.SIGTERM, grace))
    for signal_number, seconds in steps:
        for pid in alive:
            try:
                os.kill(pid, signal_number)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + seconds
        while alive and time.monotonic() < deadline:
            alive = {p: s for p, s in alive.items() if start_time(p) == s}
            if alive:
                time.sleep(0.1)
