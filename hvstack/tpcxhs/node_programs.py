# SPDX-License-Identifier: Apache-2.0
"""Phases whose programs run on the workers: fio, stress-ng and iperf3.

All workers run a program at the same time, for the same number of seconds. The
value of a phase is the sum of all: workers that share a host have together
what the host has.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from hvstack import errors, interrupts, seeded_random
from hvstack.burn_in import measures, pairs
from hvstack.burn_in.measures import MIB, Measure
from hvstack.burn_in.node_processes import (
    IPERF3_PORT,
    SHORT_SECONDS,
    NodeProcesses,
)
from hvstack.cluster import probe
from hvstack.cluster.base import Cluster, Node
from hvstack.hadoop.daemon_http import MAX_NODES_AT_ONCE
from hvstack.progress import Progress
from hvstack.results.workload_types import FIO, IPERF3, STRESS_NG

#: Seconds in which fio reads or writes the files of all disks.
FIO_SECONDS = 30
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
        self._processes = NodeProcesses(progress)

    def __enter__(self) -> 'NodePrograms':
        program = _MEASURES[self.phase].programs[0]

        def inspect(node: Node) -> None:
            try:
                parts = self._processes.inspect(node)
            except (errors.CommandError, ValueError) as exc:
                raise self._fail(str(exc), node) from exc
            if program in parts.missing:
                raise self._fail(f'{program} is not installed', node)

        with ThreadPoolExecutor(max_workers=MAX_NODES_AT_ONCE) as pool:
            list(pool.map(inspect, self.nodes))
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with interrupts.deferred(
            'hvstack is ending the programs on the nodes',
            self._processes.progress,
        ):
            self._processes.end(self.nodes)

    def _fail(
        self, reason: str, node: Node | None = None
    ) -> errors.RunFailedError:
        location = f' ({node.name})' if node else ''
        text = ' '.join(reason.split()).removesuffix('.')[-400:]
        return errors.RunFailedError(f'{self.phase} failed{location}: {text}.')

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
                nodes, commands, timeout=seconds + SHORT_SECONDS
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
        counts = [len(parts.disks) for parts in self._processes.parts.values()]
        mib = max(1, size_bytes // sum(counts) // MIB)
        for name, parts in self._processes.parts.items():
            for disk, free in parts.disks.items():
                if free < mib * MIB:
                    raise errors.InputError(
                        f'Cannot write a file of {mib} MiB ({name}: {disk}): '
                        f'{free // MIB} MiB are free. Use a smaller size, or '
                        'free disk space.'
                    )

        def build(verb: str) -> dict[str, str]:
            return {
                name: self._processes.wrap(
                    *('node-disks', verb, self._processes.token),
                    *(mib, FIO_SECONDS),
                    *parts.disks,
                )
                for name, parts in self._processes.parts.items()
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
            name: self._processes.wrap(
                *('burn-in-memory', 'all', parts.processors),
                *(measures.STREAM_SECONDS, 1),
            )
            for name, parts in self._processes.parts.items()
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
            command = self._processes.wrap(
                'burn-in-server', IPERF3_PORT, 3 * seconds
            )
            try:
                server.run(command, timeout=SHORT_SECONDS)
            except errors.CommandError as exc:
                raise self._fail(exc.tail, server) from exc
        return self._run(
            {
                client.name: self._processes.wrap(
                    *('burn-in-client', server.address, IPERF3_PORT),
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
