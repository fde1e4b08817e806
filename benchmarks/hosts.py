#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the lab's hosts cost, and how long their power and bare metal take.

Takes the last host of a lab that is up, and has no servers on it, off and on.
Then it prints the memory of the agents of all hosts, and the CPU time that
they use meanwhile. Run it as root with the Python of the virtual environment:
.venv/bin/python benchmarks/hosts.py [--seconds N] [--table-only]
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from hvstack import processutils
from hvstack.lab import hosts, settings
from hvstack.lab.hosts import agent_use, nova
from hvstack.lab.hosts.sizes import HostSize

HVSTACK = Path(sys.executable).with_name('hvstack')
#: Goals for the memory of one host's agents in MiB: those of lxc, and those of
#: the other backends, which have more of them.
LXC_GOAL_PSS, GOAL_PSS = 320, 690
#: Seconds in which the agents are watched.
SECONDS = 60


def measure_command(*args: str) -> float:
    """Return how long a command about a host takes in seconds."""
    begin = time.monotonic()
    processutils.run([HVSTACK, 'lab', 'host', *args], timeout=600)
    return time.monotonic() - begin


def print_agents(planned: Sequence[HostSize], seconds: float) -> bool:
    """Print what the agents of each host use; True if a goal is missed."""
    before = {
        agent.pid: agent.cpu_seconds
        for size in planned
        for agent in agent_use.list_agents(size.name)
    }
    time.sleep(seconds)
    #: MiB and percent of a CPU, by program and by host.
    rows: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    is_missed = False
    for size in planned:
        agents = agent_use.list_agents(size.name)
        for agent in agents:
            # An agent without an earlier figure has just started.
            cpu = agent.cpu_seconds - before.get(agent.pid, 0.0)
            row = rows[agent.program]
            mib, percent = row.get(size.name, (0.0, 0.0))
            row[size.name] = (
                mib + agent.memory_mib,
                percent + 100 * cpu / seconds,
            )
        goal = LXC_GOAL_PSS if size.backend == 'lxc' else GOAL_PSS
        is_missed |= sum(item.memory_mib for item in agents) > goal
    names = [size.name for size in planned]
    print(f'MiB (PSS) and % of a CPU in {seconds:g} s')
    print(f'{"agent":32}' + ''.join(f'{name:>17}' for name in names))
    rows['all'] = {
        name: (
            sum(row[name][0] for row in rows.values() if name in row),
            sum(row[name][1] for row in rows.values() if name in row),
        )
        for name in names
    }
    for program, row in rows.items():
        cells = (
            f'{row[name][0]:9.1f}{row[name][1]:6.1f} %' if name in row else ''
            for name in names
        )
        print(f'{program:32}' + ''.join(f'{cell:>17}' for cell in cells))
    return is_missed


def main() -> int:
    """Measure and print; status 1 if the memory goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        '--seconds',
        type=float,
        default=SECONDS,
        help='Seconds in which the agents are watched (default: %(default)s).',
    )
    parser.add_argument(
        '--table-only',
        action='store_true',
        help='Print the table of the agents, and take no host off.',
    )
    args = parser.parse_args()
    planned = hosts.planned(settings.load() or settings.LabSettings())
    if not args.table_only:
        last = planned[-1].name
        busy = nova.servers(nova.connect(), [last])
        if busy:
            print(
                f'{last} has servers: {", ".join(busy[last])}', file=sys.stderr
            )
            return 2
        for command in (('off',), ('on',), ('prepare',), ('release',)):
            print(f'{command[0]:24} {measure_command(*command, last):8.1f} s')
    return int(print_agents(planned, args.seconds))


if __name__ == '__main__':
    sys.exit(main())
