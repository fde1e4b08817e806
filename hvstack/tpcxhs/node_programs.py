# SPDX-License-Identifier: Apache-2.0
"""Phases whose programs run on the workers: fio, stress-ng and iperf3.

All workers run a program at the same time, for the same number of seconds. The
value of a phase is the sum of all: workers that share a host have together
what the host has.
"""

import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from hvstack import errors, interrupts, seeded_random, shell_scripts
from hvstack.burn_in import measures, pairs
from hvstack.burn_in.measures import MIB, Measure, NodeParts
from hvstack.cluster import probe
from hvstack.cluster.base import Cluster, Node
from hvstack.hadoop import os_profiles
from hvstack.hadoop.daemon_http import MAX_NODES_AT_ONCE
from hvstack.progress import Progress
from hvstack.results.workload_types import FIO, IPERF3, STRESS_NG

#: Seconds in which fio reads or writes the files of all disks.
FIO_SECONDS = 30
#: Maximum time of a short program, and what others need besides their own.
_SHORT_SECONDS = 60
#: Port of the server of iperf3, its default.
_PORT = 5201
#: Slowest disk, in MiB/s, that can lay out its file in time.
_MIN_MIB_RATE = 1


class NodePrograms:
    """Programs on the workers of a cluster, which end with the context.

    :param phase: name of the phase.
    :param nodes: workers that run the program.
    :param progress: receives a line if the programs cannot be ended.
    """

    def __init__(
        self, phase: str, nodes: Sequence[Node], progress: Progress
    ) -> None:
        self.phase = phase
        self.nodes = nodes
        self.progress = progress
        self._token = secrets.token_hex(8)
        self._parts: dict[str, NodeParts] = {}

    def __enter__(self) -> 'NodePrograms':
        script = shell_scripts.render('burn-in-node', os_profiles.DATA)
        program = _MEASURES[self.phase].programs[0]

        def inspect(node: Node) -> NodeParts:
            try:
                result = node.run(script, timeout=_SHORT_SECONDS)
                parts = measures.parse_node(result.stdout)
            except (errors.CommandError, ValueError) as exc:
                raise self._fail(str(exc), node) from exc
            if program in parts.missing:
                raise self._fail(f'{program} is not installed', node)
            return parts

        with ThreadPoolExecutor(max_workers=MAX_NODES_AT_ONCE) as pool:
            inspected = pool.map(inspect, self.nodes)
            for node, parts in zip(self.nodes, inspected, strict=True):
                self._parts[node.name] = parts
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with interrupts.deferred(
            'hvstack is ending the programs on the nodes', self.progress
        ):
            self._end()

    def _end(self) -> None:
        """End the programs on the nodes, and delete their files."""

        def end(node: Node) -> None:
            disks = self._parts[node.name].disks
            script = shell_scripts.render('burn-in-end', self._token, *disks)
            try:
                node.run(script, timeout=_SHORT_SECONDS)
            except errors.HVStackError:
                self.progress.say(
                    f'{node.name}: the files .hvstack-burn-in-{self._token} '
                    'may remain on its data disks'
                )

        with ThreadPoolExecutor(max_workers=MAX_NODES_AT_ONCE) as pool:
            list(pool.map(end, self.nodes))

    def _fail(
        self, reason: str, node: Node | None = None
    ) -> errors.RunFailedError:
        location = f' ({node.name})' if node else ''
        text = ' '.join(reason.split()).removesuffix('.')[-400:]
        return errors.RunFailedError(f'{self.phase} failed{location}: {text}.')

    def _wrap(self, script: str, *args: str | int) -> str:
        """Return a command whose processes have the token."""
        program = shell_scripts.render(script, *args)
        return shlex.join(
            ['env', f'HVSTACK_BURN_IN={self._token}', 'sh', '-c', program]
        )

    def _run(
        self,
        commands: Mapping[str, str],
        seconds: int,
        parse: Callable[[str], float],
    ) -> float:
        """Run a command on each node at the same time.

        :param commands: commands by the name of the node.
        :param seconds: time of the commands without login, start and end.
        :param parse: function that returns the value of an output; it raises
            ValueError without one.
        :returns: sum of the values.
        :raises hvstack.errors.RunFailedError: a command failed.
        """
        nodes = [node for node in self.nodes if node.name in commands]
        try:
            results = probe.run_together(
                nodes, commands, timeout=seconds + _SHORT_SECONDS
            )
        except errors.CommandError as exc:
            raise self._fail(exc.tail or str(exc)) from exc
        total = 0.0
        for node, result in zip(nodes, results, strict=True):
            try:
                total += parse(result.stdout)
            except ValueError as exc:
                raise self._fail(str(exc), node) from exc
        return total

    def use_disks(self, size_bytes: int) -> float:
        """Read or write files on all disks, and return the MB/s.

        :param size_bytes: size of all files together.
        :raises hvstack.errors.InputError: a disk has too little space.
        """
        verb = self.phase.rpartition(' ')[2]
        counts = [len(parts.disks) for parts in self._parts.values()]
        mib = max(1, size_bytes // sum(counts) // MIB)
        for name, parts in self._parts.items():
            for disk, free in parts.disks.items():
                if free < mib * MIB:
                    raise errors.InputError(
                        f'Cannot write a file of {mib} MiB ({name}: {disk}): '
                        f'{free // MIB} MiB are free. Use a smaller size, or '
                        'free disk space.'
                    )

        def build(verb: str) -> dict[str, str]:
            return {
                name: self._wrap(
                    *('node-disks', verb, self._token, mib, FIO_SECONDS),
                    *parts.disks,
                )
                for name, parts in self._parts.items()
            }

        layout_seconds = mib * max(counts) // _MIN_MIB_RATE
        self._run(build('lay-out'), layout_seconds, lambda _: 0.0)
        return self._run(
            build(verb),
            FIO_SECONDS,
            lambda text: measures.parse_fio(text, verb),
        )

    def use_memory(self) -> float:
        """Run the stressor "stream" on all processors; return the MB/s."""
        commands = {
            name: self._wrap(
                *('burn-in-memory', 'all', parts.processors),
                *(measures.STREAM_SECONDS, 1),
            )
            for name, parts in self._parts.items()
        }
        return self._run(
            commands, 2 * measures.STREAM_SECONDS, measures.parse_stream
        )

    def use_network(self) -> float:
        """Send between disjoint pairs of hosts, and return the Mbit/s.

        :raises hvstack.errors.RunFailedError: all workers share a host.
        """
        hosts = len({node.host for node in self.nodes})
        # Each host is in one pair at most, or in none.
        selected = pairs.select_pairs(
            self.nodes, max(1, hosts // 2), seeded_random.build_generator(1)
        ).selected
        if not selected:
            raise self._fail('all workers are on one host')
        seconds = round(measures.NETWORK.timeout_seconds)
        for _, server in selected:
            command = self._wrap('burn-in-server', _PORT, 3 * seconds)
            try:
                server.run(command, timeout=_SHORT_SECONDS)
            except errors.CommandError as exc:
                raise self._fail(exc.tail, server) from exc
        return self._run(
            {
                client.name: self._wrap(
                    *('burn-in-client', server.address, _PORT),
                    measures.NETWORK_SECONDS,
                )
                for client, server in selected
            },
            seconds,
            measures.parse_iperf3,
        )


#: Measure of a burn-in with the program of each phase.
_MEASURES: dict[str, Measure] = {
    **dict.fromkeys(FIO.phases, measures.DISK_WRITE),
    **dict.fromkeys(STRESS_NG.phases, measures.MEMORY),
    **dict.fromkeys(IPERF3.phases, measures.NETWORK),
}


def measure(
    phase: str, cluster: Cluster, size_bytes: int, progress: Progress
) -> float:
    """Run the program of a phase on all workers, and return the sum.

    :param phase: name of the phase.
    :param cluster: cluster with the workers.
    :param size_bytes: size of the files of fio on all disks together.
    :param progress: where to report.
    :raises hvstack.errors.InputError: a data disk has too little space.
    :raises hvstack.errors.RunFailedError: a value was not measured.
    """
    # Workers that compute alone have no data disks.
    nodes = [
        node
        for node in cluster.workers
        if phase not in FIO.phases or node.role != 'compute'
    ]
    with NodePrograms(phase, nodes, progress) as programs:
        if phase in FIO.phases:
            return programs.use_disks(size_bytes)
        if phase in STRESS_NG.phases:
            return programs.use_memory()
        return programs.use_network()
