#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the lab's hosts cost, and how long their power and bare metal take.

Takes the last host of a lab that is up, and has no servers on it, off and on.
Run it as root with the Python of the virtual environment: .venv/bin/python
benchmarks/hosts.py
"""

import argparse
import sys
import time
from pathlib import Path

from hvstack import processutils
from hvstack.lab import hosts, settings
from hvstack.lab.hosts import host, nova

HVSTACK = Path(sys.executable).with_name('hvstack')
#: Goal for the memory of one host's agents in MiB.
GOAL_PSS = 690


def seconds(*args: str) -> float:
    """Return how long a command about a host takes."""
    begin = time.monotonic()
    processutils.run([HVSTACK, 'lab', 'host', *args], timeout=600)
    return time.monotonic() - begin


def main() -> int:
    """Measure and print; status 1 if the memory goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    planned = hosts.planned(settings.load() or settings.LabSettings())
    last = planned[-1].name
    busy = nova.servers(nova.connect(), [last])
    if busy:
        print(f'{last} has servers: {", ".join(busy[last])}', file=sys.stderr)
        return 2
    for args in (('off',), ('on',), ('prepare',), ('release',)):
        print(f'{args[0]:24} {seconds(*args, last):8.1f} s')
    worst = 0.0
    for size in planned:
        pss = host.memory_mib(size.name)
        worst = max(worst, pss)
        print(f'{size.name:24} {pss:8.1f} MiB, goal {GOAL_PSS}')
    return int(worst > GOAL_PSS)


if __name__ == '__main__':
    sys.exit(main())
