#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the lab takes to stop and start, and what it costs when idle.

Stops and starts the lab of this machine; its data stays. A lab that a process
of hvstack uses, or that has servers, is not stopped. --memory does not stop
the lab, and prints the memory of its programs alone. Run it as root with the
Python of the virtual environment: .venv/bin/python benchmarks/control_plane.py
"""

import argparse
import itertools
import sys
import time
from pathlib import Path

import psutil

from hvstack import errors, pid_files, processutils
from hvstack.cloud import journal
from hvstack.cluster import acquired_hosts
from hvstack.lab import hosts, lifecycle, process_cgroup, settings
from hvstack.lab.hosts import nova

HVSTACK = Path(sys.executable).with_name('hvstack')
#: Goal for the control plane's memory in MiB.
GOAL_PSS = 2048
#: Seconds over which idle CPU time is measured.
IDLE = 30


def seconds(*args: str) -> float:
    """Return how long a lab command takes."""
    begin = time.monotonic()
    processutils.run([HVSTACK, 'lab', *args], timeout=1800)
    return time.monotonic() - begin


def cpu() -> float:
    """Return the CPU seconds that the control plane has used."""
    total = 0.0
    for pid in process_cgroup.members():
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def require_unused() -> None:
    """Check that the lab can be stopped without harm.

    A process with a state directory of its own is not noticed until it has a
    server.

    :raises hvstack.errors.BusyError: a process uses it, or it has servers.
    """
    pids = sorted(journal.holders() | acquired_hosts.holders())
    if pids:
        raise errors.BusyError(
            f'Cannot stop the lab: process {pids[0]} uses it '
            f'({pid_files.command(pids[0])[:100]}). Wait until the process '
            'ends, or measure the memory alone with --memory.'
        )
    planned = hosts.planned(settings.load() or settings.LabSettings())
    servers = nova.servers(nova.connect(), [host.name for host in planned])
    if servers:
        names = ', '.join(sorted(itertools.chain(*servers.values())))
        raise errors.BusyError(
            f'Cannot stop the lab: it has the servers {names}. Delete them, '
            'or measure the memory alone with --memory.'
        )


def print_durations() -> None:
    """Stop and start the lab, and print the seconds and the idle CPU time."""
    print(f'down               {seconds("down"):7.1f} s')
    print(f'up after down      {seconds("up"):7.1f} s')
    print(f'up on a running lab{seconds("up"):7.1f} s')
    before = cpu()
    time.sleep(IDLE)
    print(f'idle               {(cpu() - before) / IDLE:7.1%} of a core')


def main() -> int:
    """Measure and print; status 1 if the memory goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        '--memory',
        action='store_true',
        help='Print the memory alone, without a stop of the lab.',
    )
    args = parser.parse_args()
    if not args.memory:
        try:
            require_unused()
            print_durations()
        except errors.HVStackError as exc:
            print(f'{Path(__file__).name}: {exc}', file=sys.stderr)
            return exc.exit_code
    for part in lifecycle.parts():
        print(f'{part.name:24} {part.pss_mib:8.1f} MiB')
    pss = lifecycle.control_pss()
    print(f'{"control plane (PSS)":24} {pss:8.1f} MiB, goal {GOAL_PSS}')
    return int(pss > GOAL_PSS)


if __name__ == '__main__':
    sys.exit(main())
