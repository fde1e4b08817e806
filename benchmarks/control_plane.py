#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the lab takes to stop and start, and what it costs when idle.

Stops and starts the lab of this machine; its data stays. Run it as root with
the Python of the virtual environment: .venv/bin/python
benchmarks/control_plane.py
"""

import sys
import time
from pathlib import Path

import psutil

from hvstack import processutils
from hvstack.lab import lifecycle, process_cgroup

HVSTACK = Path(sys.executable).with_name('hvstack')
#: Goal for the control plane's memory in MiB.
GOAL_PSS = 3 * 1024
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


def main() -> int:
    """Measure and print; status 1 if the memory goal is missed."""
    print(f'down               {seconds("down"):7.1f} s')
    print(f'up after down      {seconds("up"):7.1f} s')
    print(f'up on a running lab{seconds("up"):7.1f} s')
    before = cpu()
    time.sleep(IDLE)
    print(f'idle               {(cpu() - before) / IDLE:7.1%} of a core')
    for part in lifecycle.parts():
        print(f'{part.name:24} {part.pss_mib:8.1f} MiB')
    pss = lifecycle.control_pss()
    print(f'{"control plane (PSS)":24} {pss:8.1f} MiB, goal {GOAL_PSS}')
    return int(pss > GOAL_PSS)


if __name__ == '__main__':
    sys.exit(main())
