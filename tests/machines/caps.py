# SPDX-License-Identifier: Apache-2.0
"""Measure the caps of lab hosts on the machine where this runs.

``python -m tests.machines.caps`` as root: on cgroup version 1, on version 2
with systemd and without it the same figures must come out.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hvstack import errors, processutils, shell_scripts
from hvstack.cluster import sampler
from hvstack.lab import systemd
from hvstack.lab.hosts import cgroups

HOST = 'caps-host'
CORES = 0.65
MEMORY_MIB = 160
#: Length of a measurement.
SECONDS = 20
_LOOP = ('/bin/sh', '-c', 'while :; do :; done')
_HOG = (
    sys.executable,
    '-c',
    'x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1',
)
#: Memory of a guest without that of its interpreter, which has 8 MiB.
_GUEST_MIB = 88
_GUEST = (
    sys.executable,
    '-c',
    f'import time\nx = bytearray({_GUEST_MIB} << 20)\n'
    'for i in range(0, len(x), 4096): x[i] = 1\n'
    'time.sleep(3600)',
)


class Caps:
    """One host's cgroup without a host, and processes in it."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.failures: list[str] = []

    def check(self, title: str, passed: bool, detail: object) -> None:
        """Print one result and count it."""
        print(f'{"ok  " if passed else "FAIL"} {title}: {detail}', flush=True)
        if not passed:
            self.failures.append(title)

    def start(self, argv: Sequence[str], groups: Sequence[Path]) -> int:
        """Start a program that is in its groups before it runs."""
        joins = ''.join(f'echo $$ >{g}/cgroup.procs; ' for g in groups)
        process = subprocess.Popen(
            ['/bin/sh', '-c', f'set -e; {joins}exec "$@"', 'caps', *argv]
        )
        self.processes.append(process)
        return process.pid

    @contextmanager
    def host(self) -> Iterator[None]:
        """Create the host's cgroup as a lab host's start does."""
        joined = cgroups.create(HOST, CORES, MEMORY_MIB)
        process = subprocess.Popen([*joined, 'sleep', 'infinity'])
        self.processes.append(process)
        try:
            processutils.wait_for(
                lambda: process.pid in cgroups.members(HOST),
                'the first process to be in the host',
                timeout=30,
                interval=0.1,
            )
            cgroups.admit(HOST, process.pid)
            if cgroups.version() == 2:
                cgroups.enable_controllers(cgroups.directories(HOST)[0])
            yield
        finally:
            cgroups.remove(HOST)
            for child in self.processes:
                child.wait()

    def guest(self, name: str, weight: int) -> list[Path]:
        """Create a guest's groups as libvirt does, below the host's.

        :param weight: share of the guest in multiples of the default.
        """
        groups = []
        for top in cgroups.directories(HOST):
            group = top / name
            group.mkdir(exist_ok=True)
            groups.append(group)
            for file, value in (
                ('cpu.weight', 100 * weight),
                ('cpu.shares', 1024 * weight),
            ):
                if (group / file).exists():
                    (group / file).write_text(str(value))
            for file in ('cpuset.cpus', 'cpuset.mems'):
                if cgroups.version() == 1 and (group / file).exists():
                    (group / file).write_text((top / file).read_text())
        return groups

    def cores(self, groups: Sequence[Sequence[Path]]) -> list[float]:
        """Return the CPU time that groups use, in cores."""
        begin = time.monotonic()
        before = [_cpu_seconds(group) for group in groups]
        time.sleep(SECONDS)
        span = time.monotonic() - begin
        return [
            (_cpu_seconds(group) - used) / span
            for group, used in zip(groups, before, strict=True)
        ]

    def kill(self, pids: Sequence[int]) -> None:
        """End processes."""
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def run(self) -> list[str]:
        """Measure everything; return the titles of failures."""
        print(
            f'cgroup version {cgroups.version()}, '
            f'units of systemd: {cgroups.has_units()}'
        )
        cgroups.check()
        with self.host():
            self._cpu_cap('busy loops in a host')
            self._shares()
            self._memory()
            self._memory_ratio()
            self._sampler()
            if cgroups.has_units():
                self._reload()
            self._below()
        self.check('removed', not cgroups.exists(HOST), 'no group remains')
        self.check('names', HOST not in cgroups.names(), cgroups.names())
        if cgroups.has_units():
            state = processutils.run(
                ['systemctl', 'show', '-p', 'LoadState', cgroups.unit(HOST)]
            ).stdout.strip()
            self.check('unit removed', 'not-found' in state, state)
        else:
            self._foreign()
        return self.failures

    def _cpu_cap(self, title: str) -> None:
        before = _throttled()
        pids = [
            self.start(_LOOP, cgroups.entrances(HOST))
            for _ in range(os.cpu_count() or 1)
        ]
        [cores] = self.cores([cgroups.directories(HOST)])
        self.kill(pids)
        throttled = _throttled() - before
        # Other programs on a busy machine leave less than the cap.
        self.check(
            f'{title} of {CORES} cores',
            cores < 1.1 * CORES
            and (throttled > 0 or os.getloadavg()[0] > (os.cpu_count() or 1)),
            f'{cores:.3f} cores, throttled in {throttled} periods',
        )

    def _shares(self) -> None:
        guests = [self.guest('heavy', 3), self.guest('light', 1)]
        # They compete on one CPU: on several, a quota ends before weights
        # count.
        cpu = str(min(os.sched_getaffinity(0)))
        pids = [
            self.start(('taskset', '-c', cpu, *_LOOP), groups)
            for groups in guests
        ]
        heavy, light = self.cores(guests)
        self.kill(pids)
        self.check(
            'two guests with shares 3 and 1',
            2.25 < heavy / light < 3.75 and heavy + light < 1.1 * CORES,
            f'{heavy:.3f} and {light:.3f} cores, ratio {heavy / light:.2f}',
        )

    def measure_nested_weights(self) -> float:
        """Return the ratio of guests with weights of 3 and 1 in a group.

        libvirt has a group for all guests of a host. No program but the
        kernel takes part in this: some kernels do not divide the time of a
        cap by the weights of groups within a group.
        """
        with self.host():
            top = cgroups.directories(HOST)[0]
            (top / 'machine').mkdir()
            cgroups.enable_controllers(top / 'machine')
            guests = [self.guest('machine/heavy', 3)]
            guests.append(self.guest('machine/light', 1))
            pids = [
                self.start(('taskset', '-c', '0', *_LOOP), groups)
                for groups in guests
            ]
            heavy, light = self.cores(guests)
            self.kill(pids)
        return heavy / light

    def _memory(self) -> None:
        before = cgroups.oom_kills(HOST)
        self.start(_HOG, self.guest('heavy', 1))
        status = self.processes[-1].wait(300)
        killed = cgroups.oom_kills(HOST) - before
        self.check(
            f'400 MiB in a host of {MEMORY_MIB} MiB',
            status == -signal.SIGKILL and killed == 1,
            f'status {status}, {killed} killed because of the cap',
        )
        self.check(
            'the other processes of the host survive',
            self.processes[0].poll() is None,
            f'{len(cgroups.members(HOST))} processes',
        )

    def _memory_ratio(self) -> None:
        """Two guests have 1.2 times the memory of the host, and use it."""
        before = cgroups.oom_kills(HOST)
        first = self.start(_GUEST, self.guest('heavy', 1))
        # Two that grow at the same time can both be killed: the kernel gives
        # up waiting for the memory of the first one if this is busy.
        processutils.wait_for(
            lambda: _resident_mib(first) > _GUEST_MIB,
            'the first guest to use its memory',
            timeout=300,
        )
        self.start(_GUEST, self.guest('light', 1))
        guests = self.processes[-2:]
        processutils.wait_for(
            lambda: any(guest.poll() is not None for guest in guests),
            'a guest to be killed',
            timeout=300,
        )
        time.sleep(2)
        states = [guest.poll() for guest in guests]
        killed = cgroups.oom_kills(HOST) - before
        self.check(
            f'two guests of 96 MiB in a host of {MEMORY_MIB} MiB (M = 1.2)',
            sorted(states, key=str) == [-signal.SIGKILL, None]
            and killed == 1
            and self.processes[0].poll() is None,
            f'status {states}, {killed} killed because of the cap',
        )
        self.kill([guest.pid for guest in guests if guest.poll() is None])

    def _sampler(self) -> None:
        """Run the telemetry sampler as a process of the host."""
        path = Path('/run/hvstack-caps')
        path.mkdir(exist_ok=True)
        (path / 'sampler').write_text(shell_scripts.load('cgroup-sampler'))
        loop = self.start(_LOOP, cgroups.entrances(HOST))
        text = path / 'samples'
        argv = f'sh {path}/sampler 1 10 127.0.0.1 >{text}'
        self.start(['/bin/sh', '-c', argv], cgroups.entrances(HOST))
        self.processes[-1].wait(120)
        self.kill([loop])
        _, rates, *_ = sampler.cgroup(text.read_text())
        cpu_rates = [rate for rate in rates['cpu'] if rate is not None]
        mean = sum(cpu_rates) / len(cpu_rates)
        self.check(
            'telemetry sampler',
            0 < mean < 1.2 * CORES and 'throttled' in rates,
            f'{mean:.3f} cores, throttled {rates.get("throttled")}',
        )

    def _reload(self) -> None:
        processutils.run(['systemctl', 'daemon-reload'])
        self._cpu_cap('after daemon-reload, busy loops in a host')

    def _below(self) -> None:
        """Every process names a group below the host's as its own."""
        paths = {
            line.partition('::')[2]
            for pid in cgroups.members(HOST)
            for line in Path(f'/proc/{pid}/cgroup')
            .read_text(encoding='utf-8')
            .splitlines()
            if line.startswith('0::')
        }
        if cgroups.version() == 1:
            return
        prefix = '/' + str(
            cgroups.entrances(HOST)[0].relative_to(cgroups.ROOT)
        )
        self.check('in leaves only', paths == {prefix}, paths)
        if cgroups.has_units():
            self.check('in the slice', systemd.SLICE in prefix, prefix)

    def _foreign(self) -> None:
        """Check that a cgroup that hvstack did not create is refused."""
        group = cgroups.directories(HOST)[0]
        group.mkdir()
        try:
            cgroups.create(HOST, CORES, MEMORY_MIB)
        except errors.BusyError as exc:
            self.check('foreign group', True, exc)
        else:
            self.check('foreign group', False, 'it was taken over')
        group.rmdir()


def _throttled() -> int:
    """Return in how many periods the host's quota was used up."""
    text = (cgroups.directories(HOST)[0] / 'cpu.stat').read_text()
    return int(text.split('nr_throttled ')[1].split()[0])


def _resident_mib(pid: int) -> int:
    """Return the memory of a process in MiB."""
    text = Path(f'/proc/{pid}/statm').read_text(encoding='utf-8')
    return int(text.split()[1]) * os.sysconf('SC_PAGE_SIZE') >> 20


def _cpu_seconds(groups: Sequence[Path]) -> float:
    readers: dict[str, Callable[[str], float]] = {
        'cpu.stat': lambda text: int(text.split()[1]) / 1e6,
        'cpuacct.usage': lambda text: int(text) / 1e9,
    }
    name = 'cpu.stat' if cgroups.version() == 2 else 'cpuacct.usage'
    for group in groups:
        if (group / name).exists():
            return readers[name]((group / name).read_text())
    raise errors.MissingPrerequisiteError(f'{groups[0]} has no {name}')


if __name__ == '__main__':
    sys.exit(1 if Caps().run() else 0)
