# SPDX-License-Identifier: Apache-2.0
"""Nodes that answer the programs of a burn-in."""

import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hvstack import errors, processutils
from tests.unit.burn_in import outputs
from tests.unit.cluster.fake import FakeCluster, FakeNode

NODE = 'disk 2000000 /srv/data/0\ndisk 2000000 /srv/data/1\nprocessors 2\n'
#: A part of each program, by the name of the program.
PROGRAMS = {
    'node': 'nproc',
    'disk': 'fio --name',
    'memory': 'stress-ng --stream',
    'busy': 'sha256sum',
    'server': 'iperf3 --server',
    'client': 'iperf3 --client',
    'end': 'list_programs',
    'job': 'TestDFSIO',
    'capacity': 'name=FSNamesystemState',
    'replication': 'dfs.replication',
    'apps': '/ws/v1/cluster/apps',
    'kill': 'application -kill',
    'delete': '/webhdfs/',
    'remove': 'hdfs dfs -rm',
}
OUTPUTS = {
    'node': NODE,
    'memory': outputs.STREAM,
    'busy': outputs.BUSY,
    'server': '',
    'client': outputs.iperf3(940e6, 940e6),
    'end': '',
    'job': outputs.DFSIO,
    'capacity': '{"beans": [{"CapacityRemaining": 4000000000}]}',
    'replication': '2\n',
    'apps': '{"apps": null}',
    'kill': '',
    'delete': '{"boolean": true}',
    'remove': '',
}


@dataclass
class Site:
    """What nodes share: the programs that run on each host at a moment.

    :param overlaps: hosts on which two nodes measured at the same time.
    :param busy_hosts: largest number of hosts that measured at the same time.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    running: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    busy_hosts: int = 0

    def begin(self, host: str) -> None:
        with self.lock:
            if host in self.running:
                self.overlaps.append(host)
            self.running.append(host)
            self.busy_hosts = max(self.busy_hosts, len(self.running))

    def end(self, host: str) -> None:
        with self.lock:
            self.running.remove(host)


@dataclass
class BurnInNode(FakeNode):
    """A node with two data disks, which stores the files of programs.

    :param host: its physical host.
    :param factor: rate of its disks, 1 for 100 MB/s.
    :param answer: function that replaces the answer to a program; it
        returns None for the default answer.
    """

    host: str = ''
    site: Site = field(default_factory=Site)
    factor: float = 1
    answer: Callable[[str], processutils.Result | None] = lambda _: None
    programs: list[str] = field(default_factory=list)
    stored: set[str] = field(default_factory=set)

    def run(
        self,
        command: str,
        *,
        timeout: float = 600,
        check: bool = True,
        stdin: str | None = None,
        on_timeout: Callable[[], float] | None = None,
    ) -> processutils.Result:
        program = next(
            name for name, part in PROGRAMS.items() if part in command
        )
        with self.site.lock:
            self.programs.append(program)
        self.commands.append(command)
        args = shlex.split(_find_program(command).partition('\n')[0])[2:]
        measures = program in ('disk', 'memory', 'busy', 'client')
        if measures:
            self.site.begin(self.host)
        try:
            result = self._run(program, args, command)
        finally:
            if measures:
                self.site.end(self.host)
        if check and result.returncode:
            raise errors.CommandError([self.name], 1, result.stderr)
        return result

    def _run(
        self, program: str, args: list[str], command: str
    ) -> processutils.Result:
        if program == 'disk':
            # The program's own trap does not run if the node is unreachable.
            self.stored.add(f'{args[1]}/.hvstack-burn-in-{args[2]}')
        if program == 'end':
            self.stored -= {
                f'{disk}/.hvstack-burn-in-{args[0]}' for disk in args[1:]
            }
        time.sleep(0.001)
        answer = self.answer(program)
        if answer is not None:
            return answer
        if program == 'disk':
            self.stored.discard(f'{args[1]}/.hvstack-burn-in-{args[2]}')
            text = outputs.fio(args[0], 100e6 * self.factor)
            return processutils.Result(0, text, '')
        return processutils.Result(0, OUTPUTS[program], '')


def _find_program(command: str) -> str:
    """Return a shell program without the variable that marks it."""
    if command.startswith('env '):
        return shlex.split(command)[-1]
    return command


def make_nodes(count: int, per_host: int = 1) -> list[BurnInNode]:
    """Return workers.

    :param count: number of nodes.
    :param per_host: number of nodes of a host.
    """
    site = Site()
    cluster = FakeCluster()
    return [
        BurnInNode(
            f'w{index}',
            f'10.0.0.{index}',
            cluster,
            host=f'h{index // per_host}',
            site=site,
        )
        for index in range(count)
    ]
