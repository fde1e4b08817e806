# SPDX-License-Identifier: Apache-2.0
"""CPU time and memory of the agents of a lab host, without its guests."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hvstack.lab.hosts import cgroups, host

_TICKS = os.sysconf('SC_CLK_TCK')


@dataclass(frozen=True)
class AgentUse:
    """Process of a host.

    :param pid: its number on the machine.
    :param program: name of its program.
    :param memory_mib: its memory in MiB (PSS).
    :param cpu_seconds: CPU time since its start.
    """

    pid: int
    program: str
    memory_mib: float
    cpu_seconds: float


def list_agents(name: str) -> list[AgentUse]:
    """Return the processes of a host, without those of its guests.

    :param name: name of the host.
    """
    init_pid = host.pid(name)
    if init_pid is None:
        return []
    namespace = Path(f'/proc/{init_pid}/ns/pid').readlink()
    return list(_read_agents(name, namespace))


def measure_memory_mib(name: str) -> float:
    """Return the memory of a host's agents in MiB (PSS), without guests."""
    return round(sum(agent.memory_mib for agent in list_agents(name)), 1)


def _read_agents(name: str, namespace: Path) -> Iterator[AgentUse]:
    for pid in cgroups.members(name):
        directory = Path(f'/proc/{pid}')
        try:
            if (directory / 'ns/pid').readlink() != namespace:
                continue
            arguments = (directory / 'cmdline').read_bytes().split(b'\0')
            # After the name, which can contain blanks and parentheses.
            times = _read(directory / 'stat').rpartition(')')[2]
            lines = _read(directory / 'smaps_rollup').splitlines()
        except OSError:
            # It has ended.
            continue
        yield AgentUse(
            int(pid),
            _find_program([os.fsdecode(item) for item in arguments]),
            sum(
                int(line.split()[1]) / 1024
                for line in lines
                if line.startswith('Pss:')
            ),
            sum(map(int, times.split()[11:13])) / _TICKS,
        )


def _read(path: Path) -> str:
    # Names of programs have any bytes.
    return path.read_text(encoding='utf-8', errors='replace')


def _find_program(arguments: list[str]) -> str:
    """Return the name of a program, of a script instead of its interpreter.

    :param arguments: command line; a process can have replaced it by a title
        such as ``neutron-ovn-metadata-agent (/usr/bin/python ...)``.
    """
    if not arguments[0]:
        return 'unnamed'
    program = Path(arguments[0].split()[0]).name
    if program.startswith('python'):
        for argument in arguments[1:]:
            if argument and not argument.startswith('-'):
                return Path(argument).name
    return program
