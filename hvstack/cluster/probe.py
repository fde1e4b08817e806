# SPDX-License-Identifier: Apache-2.0
"""What nodes are and really get, as seen from within."""

import math
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hvstack import errors, processutils, shell_scripts
from hvstack.cluster import lab_groups
from hvstack.cluster.base import Node
from hvstack.hadoop import os_profiles
from hvstack.hadoop.daemon_http import MAX_NODES_AT_ONCE, run_on_nodes
from hvstack.model.host_disks import BARE_METAL, DiskUse

_TIME = re.compile(r'(\d+)m([\d.]+)s')
_HASHED = re.compile(r'hashed \d+')
#: Seconds between the last request of a node to start a command, if it takes
#: as long as expected, and the start of the command.
_START_SECONDS = 1.0
#: Seconds after the timeout of a command for which a node keeps its output:
#: the other nodes are collected in waves.
_KEEP_SECONDS = 300

#: A process killed in a capped group, or one of Hadoop's anywhere. Others that
#: the machine kills are no matter of the run.
_OOM = re.compile(
    r'oom-kill:constraint=CONSTRAINT_MEMCG|oom-kill:.*,task=java,'
    r'|[Oo]ut of memory: Killed process \d+ \(java\)'
)
#: Group whose limit was reached, and the line that follows, without a group.
_LIMITED_GROUP = re.compile(r'oom_memcg=([^,]*)')
_FOLLOWING = 'Memory cgroup out of memory'


def facts(node: Node) -> dict[str, str]:
    """Return the facts of a node's hardware and software."""
    hardware = shell_scripts.load('hardware')
    software = shell_scripts.render('node-facts', node.address)
    return _read_facts(node, hardware + software)


def disks(nodes: Sequence[Node]) -> DiskUse:
    """Return the data disks of bare-metal hosts, which have equal ones.

    Where hosts differ, the values of all of them are named.

    :param nodes: a worker per host.
    :returns: nothing but the access if a host does not know its disks.
    """
    program = shell_scripts.render('data-disks', os_profiles.DATA)
    results = run_on_nodes(nodes, program, timeout=60)
    rows = [
        [line.split() for line in result.stdout.splitlines()]
        for result in results
    ]
    if not all(rows):
        return DiskUse(BARE_METAL)
    return DiskUse(
        BARE_METAL,
        _merge(len(host_rows) for host_rows in rows),
        str(_merge(kind for host_rows in rows for _, kind, _ in host_rows)),
        _merge(int(gb) for host_rows in rows for _, _, gb in host_rows),
    )


def _merge(values: Iterable[int | str]) -> int | str:
    """Return the value of all, or a text with each value once."""
    unique = sorted(set(values), key=str)
    return unique[0] if len(unique) == 1 else ' or '.join(map(str, unique))


def host(node: Node) -> dict[str, str]:
    """Return the facts of a host that guests and Nova do not report."""
    hardware = shell_scripts.load('hardware')
    return _read_facts(node, hardware + shell_scripts.load('host-facts'))


def _read_facts(node: Node, script: str) -> dict[str, str]:
    lines = node.run(script, timeout=60).stdout.splitlines()
    return dict(line.split('=', 1) for line in lines if '=' in line)


@dataclass(frozen=True)
class BusyResult:
    """What a node did while it was busy.

    :param cpu_seconds: CPU time of its busy processes.
    :param seconds: time from their start to their end.
    :param hashed_bytes: bytes that they hashed; 0 if the kernel of the node
        does not count them.
    """

    cpu_seconds: float
    seconds: float
    hashed_bytes: int = 0

    @property
    def cores(self) -> float:
        """CPU seconds per second."""
        return round(self.cpu_seconds / self.seconds, 3)


def measure_busy(
    nodes: Sequence[Node], processors: int, seconds: int = 3
) -> dict[str, BusyResult]:
    """Keep all nodes busy at the same time.

    :param processors: busy processes on each.
    :returns: what each did, by node.
    :raises hvstack.errors.CommandError: a node cannot be measured.
    """
    command = shell_scripts.render('busy', processors, seconds)
    timeout = seconds * 10 + 60
    if len(nodes) <= MAX_NODES_AT_ONCE:
        results = run_on_nodes(nodes, command, timeout=timeout)
    else:
        results = run_together(nodes, command, timeout=timeout)
    return {
        node.name: parse_busy(result.stdout)
        for node, result in zip(nodes, results, strict=True)
    }


def run_together(
    nodes: Sequence[Node], command: str | Mapping[str, str], *, timeout: int
) -> list[processutils.Result]:
    """Run a command on many nodes, which all start it at the same time.

    A process of ssh for each node would be too many for this machine, and
    waves of them would leave the processors of a host to some of its nodes.
    The nodes get the command with the seconds until it starts, which need not
    have equal clocks.

    :param nodes: nodes to run the command on.
    :param command: command line for ``sh -c``, or that of each node by its
        name.
    :param timeout: maximum number of seconds of the command.
    :returns: results in the order of the nodes.
    :raises hvstack.errors.HVStackError: the command failed, or a node does not
        answer; the error is that of the first such node.
    """
    started_at = time.monotonic()
    # Also opens the connections: no request takes longer than this one.
    run_on_nodes(nodes, 'true', timeout=60)
    now = time.monotonic()
    start_at = now + 2 * (now - started_at) + _START_SECONDS

    def start(node: Node) -> str:
        delay = max(0.0, start_at - time.monotonic())
        program = shell_scripts.render(
            *('run-later', f'{delay:.2f}'),
            command if isinstance(command, str) else command[node.name],
            timeout + _KEEP_SECONDS,
        )
        return node.run(program, timeout=60).stdout.strip()

    def collect(node: Node, directory: str) -> processutils.Result:
        seconds = timeout + math.ceil(max(0.0, start_at - time.monotonic()))
        program = shell_scripts.render('collect-output', directory, seconds)
        return node.run(program, timeout=seconds + 60)

    with ThreadPoolExecutor(max_workers=MAX_NODES_AT_ONCE) as pool:
        directories = list(pool.map(start, nodes))
        return list(pool.map(collect, nodes, directories))


def parse_busy(text: str) -> BusyResult:
    """Return the result that the busy loop printed.

    :raises hvstack.errors.CommandError: it printed something else.
    """
    lines = text.splitlines()
    hashed_bytes = sum(
        int(line.split()[1]) for line in lines if _HASHED.fullmatch(line)
    )
    lines = [line for line in lines if not _HASHED.fullmatch(line)]
    try:
        uptime_before, ended = (float(line.split()[0]) for line in lines[:2])
        spent = sum(
            int(minutes) * 60 + float(seconds)
            for minutes, seconds in _TIME.findall(lines[3])
        )
        result = BusyResult(spent, ended - uptime_before, hashed_bytes)
        _ = result.cores
    except (ValueError, IndexError, ZeroDivisionError) as exc:
        raise errors.CommandError(['times'], 0, text) from exc
    return result


def oom_lines(nodes: Sequence[Node]) -> set[str]:
    """Return the kernel's lines about the OOM killer.

    Nodes of one machine see the same kernel's log. A node whose log cannot
    be read adds none.
    """
    logs = run_on_nodes(nodes, 'dmesg', check=False, timeout=60)
    return set().union(*(oom(log.stdout) for log in logs))


def oom(log: str) -> set[str]:
    """Pick the lines about the OOM killer.

    Where the lab runs, the log is that of a machine with other groups, too:
    only the limits of lab hosts count.
    """
    hosts = lab_groups.list_names()
    return {
        line
        for line in log.splitlines()
        if _OOM.search(line) and not (hosts and _is_foreign(line, hosts))
    }


def _is_foreign(line: str, hosts: Collection[str]) -> bool:
    """Tell whether a line is about the limit of a group of another owner.

    :param hosts: names of the lab hosts.
    """
    if _FOLLOWING in line:
        # The line before it names the group.
        return True
    limited = _LIMITED_GROUP.search(line)
    if limited is None:
        return False
    names = {f'hvstack-{name}.scope' for name in hosts} | set(hosts)
    return names.isdisjoint(limited[1].split('/'))


def memory(nodes: Sequence[Node]) -> dict[str, int]:
    """Return each node's memory in MiB, as it sees it."""
    results = run_on_nodes(
        nodes, "sed -n 's/^MemTotal: *//p' /proc/meminfo", timeout=60
    )
    return {
        node.name: int(result.stdout.split()[0]) // 1024
        for node, result in zip(nodes, results, strict=True)
        if result.stdout.split()
    }
