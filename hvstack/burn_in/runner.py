# SPDX-License-Identifier: Apache-2.0
"""Execution of a burn-in on the nodes of a cluster.

Two nodes of one physical host never measure at the same time, because they
would share what is measured. Nodes of different hosts measure their disks,
memory and processors at the same time; pairs of hosts measure the network one
after the other.
"""

import statistics
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from hvstack import errors, interrupts, processutils, seeded_random
from hvstack.burn_in import jobs, measures, pairs
from hvstack.burn_in.measures import Measure
from hvstack.burn_in.node_processes import (
    IPERF3_PORT,
    SHORT_SECONDS,
    NodeProcesses,
    shorten,
)
from hvstack.burn_in.outliers import RowVerdict, Subject, compare
from hvstack.cluster.base import Node
from hvstack.hadoop.daemon_http import MAX_NODES_AT_ONCE, HadoopNodes
from hvstack.progress import Progress

#: All measures in the order of the output.
ALL_MEASURES = (*measures.MEASURES, *jobs.JOBS)
#: Free space of a data disk as a multiple of its test file.
_FREE_RATIO = 2


@dataclass(frozen=True)
class BurnInPlan:
    """What a burn-in measures.

    :param measures: measures in the order of the output.
    :param rounds: number of values of each row.
    :param size_bytes: size of the test file of a disk.
    :param max_pairs: maximum number of pairs of hosts.
    :param seed: seed of the order, and of the sample of the pairs.
    """

    measures: Sequence[Measure] = ALL_MEASURES
    rounds: int = 3
    size_bytes: int = 256_000_000
    max_pairs: int = 30
    seed: int = 1

    @property
    def size_mib(self) -> int:
        """Size of the test file in whole MiB, at least 1."""
        return max(1, self.size_bytes // measures.MIB)


@dataclass
class BurnInRow:
    """A row of the result: one part of the cluster with one measure.

    :param measure: its measure.
    :param subject: the part.
    :param nodes: its node, or the two nodes of a pair.
    :param args: arguments of the program.
    :param values: value of each round.
    :param reason: why it was not measured, or not in each round.
    """

    measure: Measure
    subject: Subject
    nodes: tuple[Node, ...] = ()
    args: tuple[str | int, ...] = ()
    values: list[float] = field(default_factory=list)
    reason: str = ''

    @property
    def value(self) -> float | None:
        """Median of the rounds; None if no round was measured."""
        return statistics.median(self.values) if self.values else None


class BurnIn:
    """A burn-in of nodes, such as those of a cluster.

    :param nodes: nodes with their physical hosts.
    :param plan: what is measured.
    :param progress: where its steps are reported.
    :param cluster: cluster of the nodes for measures of Hadoop; None if the
        nodes run no Hadoop.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        plan: BurnInPlan,
        progress: Progress,
        cluster: HadoopNodes | None = None,
    ) -> None:
        self.nodes = nodes
        self.plan = plan
        self.progress = progress
        self.cluster = cluster
        self.processes = NodeProcesses(progress)
        #: Sentences about pairs that are not measured.
        self.notes: list[str] = []
        self._random = seeded_random.build_generator(plan.seed)
        self._is_stopped = threading.Event()

    def prepare(self) -> list[BurnInRow]:
        """Inspect the nodes and return the rows of the result, without values.

        :raises hvstack.errors.InputError: a data disk or HDFS has too little
            space.
        :raises hvstack.errors.HostKeyError: the host key of a node is not
            the recorded one.
        """
        reasons: dict[str, str] = {}

        def inspect(node: Node) -> None:
            try:
                self.processes.inspect(node)
            except errors.HostKeyError:
                raise
            except (errors.HVStackError, ValueError) as exc:
                reasons[node.name] = shorten(exc)

        with ThreadPoolExecutor(max_workers=MAX_NODES_AT_ONCE) as pool:
            list(pool.map(inspect, self.nodes))
        self._check_space()
        if self.cluster and self.cluster.gateway.name not in reasons:
            jobs.check_space(
                self.plan.measures, self.cluster, self.plan.size_mib
            )
        rows: list[BurnInRow] = []
        for measure in self.plan.measures:
            if measure.scope == 'node':
                for node in self.nodes:
                    rows += self._list_rows(measure, node, reasons)
            elif measure.scope == 'pair':
                rows += self._list_pairs(measure, reasons)
            elif self.cluster is not None:
                rows.append(self._make_job(measure, self.cluster, reasons))
        return rows

    def _check_space(self) -> None:
        if not any(
            'fio' in measure.programs for measure in self.plan.measures
        ):
            return
        needed = _FREE_RATIO * self.plan.size_mib * measures.MIB
        for name, parts in self.processes.parts.items():
            for disk, free in parts.disks.items():
                if free < needed:
                    raise errors.InputError(
                        f'Cannot write a test file of {self.plan.size_mib} '
                        f'MiB ({name}: {disk}): {free // measures.MIB} MiB '
                        f'are free, and {needed // measures.MIB} MiB are '
                        'needed. Use a smaller --size, or free disk space.'
                    )

    def _list_rows(
        self, measure: Measure, node: Node, reasons: dict[str, str]
    ) -> list[BurnInRow]:
        """Return the rows of a node for a measure."""

        def subject(where: str) -> Subject:
            return Subject((node.name,), (node.host,), where, node.role)

        parts = self.processes.parts.get(node.name)
        if parts is None:
            reason = reasons[node.name]
            return [BurnInRow(measure, subject(''), reason=reason)]
        missing = measures.find_missing_program(measure, parts)
        if missing:
            reason = f'{missing} is not installed'
            return [BurnInRow(measure, subject(''), reason=reason)]
        return [
            BurnInRow(measure, subject(part.where), (node,), part.args)
            for part in measures.list_parts(
                measure, parts, self.processes.token, self.plan.size_mib
            )
        ]

    def _list_pairs(
        self, measure: Measure, reasons: dict[str, str]
    ) -> list[BurnInRow]:
        """Return the rows of the pairs of hosts."""
        host_pairs = pairs.select_pairs(
            self.nodes, self.plan.max_pairs, self._random
        )
        selected = host_pairs.selected
        if len(selected) < host_pairs.total:
            self.notes.append(
                f'{measure.name}: a sample of {len(selected)} of the '
                f'{host_pairs.total} pairs of hosts (seed {self.plan.seed})'
            )
        if not selected:
            self.notes.append(
                f'{measure.name}: not measured, because all nodes are on one '
                'physical host'
            )
        rows = []
        for pair in selected:
            subject = Subject(
                tuple(node.name for node in pair),
                tuple(node.host for node in pair),
                'pair',
                '-'.join(sorted({node.role for node in pair})),
            )
            reason = next(
                (
                    reasons.get(node.name, '')
                    or f'iperf3 is not installed on {node.name}'
                    for node in pair
                    if node.name in reasons
                    or 'iperf3' in self.processes.parts[node.name].missing
                ),
                '',
            )
            args = (pair[1].address, IPERF3_PORT, measures.NETWORK_SECONDS)
            rows.append(
                BurnInRow(
                    measure, subject, () if reason else pair, args, [], reason
                )
            )
        return rows

    def _make_job(
        self, measure: Measure, cluster: HadoopNodes, reasons: dict[str, str]
    ) -> BurnInRow:
        """Return the row of a job, which a node of the NameNode starts."""
        subject = Subject((), (), 'cluster', 'cluster')
        gateway = next(
            node for node in self.nodes if node.name == cluster.gateway.name
        )
        if gateway.name in reasons:
            return BurnInRow(measure, subject, reason=reasons[gateway.name])
        args = jobs.list_args(
            measure, cluster, self.processes.token, self.plan.size_mib
        )
        return BurnInRow(measure, subject, (gateway,), args)

    def run(self, rows: Sequence[BurnInRow]) -> None:
        """Measure all rows in each round, in random order.

        Whatever happens, the programs on the nodes are ended and their files
        are deleted.

        :param rows: rows of :meth:`prepare`; they receive the values.
        """
        try:
            for index in range(1, self.plan.rounds + 1):
                order = self._random.sample(
                    self.plan.measures, len(self.plan.measures)
                )
                for measure in order:
                    measured = [
                        row
                        for row in rows
                        if row.measure == measure and row.nodes
                    ]
                    if measured:
                        self._run_measure(index, measure, measured)
        finally:
            self._is_stopped.set()
            with interrupts.deferred(
                'hvstack is ending the burn-in on the nodes', self.progress
            ):
                self.processes.end(self.nodes)
                if any(row.measure in jobs.JOBS and row.nodes for row in rows):
                    self._end_jobs()

    def _run_measure(
        self, index: int, measure: Measure, rows: list[BurnInRow]
    ) -> None:
        """Measure the rows of one measure once."""
        self.progress.say(
            f'round {index} of {self.plan.rounds}: {measure.name} '
            f'({len(rows)} values)'
        )
        self._random.shuffle(rows)
        if measure.scope == 'pair':
            for row in rows:
                self._measure_pair(row)
            return
        if measure.scope == 'cluster':
            for row in rows:
                self._measure(row, row.nodes[0])
            return
        by_host: dict[str, list[BurnInRow]] = {}
        for row in rows:
            by_host.setdefault(row.nodes[0].host, []).append(row)
        self._run_hosts(list(by_host.values()))

    def _run_hosts(self, queues: Sequence[list[BurnInRow]]) -> None:
        """Measure the rows of a host in turn, those of all hosts at once."""

        def run_queue(queue: Sequence[BurnInRow]) -> None:
            for row in queue:
                if self._is_stopped.is_set():
                    return
                self._measure(row, row.nodes[0])

        pool = ThreadPoolExecutor(
            max_workers=min(MAX_NODES_AT_ONCE, len(queues))
        )
        try:
            for future in [pool.submit(run_queue, queue) for queue in queues]:
                future.result()
        except BaseException:
            self._is_stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            with interrupts.deferred(
                'hvstack is ending the burn-in on the nodes', self.progress
            ):
                # The threads wait for programs on the nodes.
                self.processes.end(self.nodes)
                pool.shutdown()
            raise
        pool.shutdown()

    def _measure_pair(self, row: BurnInRow) -> None:
        """Measure the network between the nodes of a pair."""
        client, server = row.nodes
        seconds = round(2 * row.measure.timeout_seconds)
        try:
            result = self._run_program(
                server, SHORT_SECONDS, 'burn-in-server', IPERF3_PORT, seconds
            )
            if result.returncode:
                row.reason = f'{server.name}: ' + measures.explain_failure(
                    row.measure, result.stdout, result.stderr
                )
                return
            self._measure(row, client)
        except errors.HVStackError as exc:
            row.reason = shorten(exc)
        finally:
            self.processes.end([server])

    def _measure(self, row: BurnInRow, node: Node) -> None:
        """Run the program of a row on a node, and add its value."""
        measure = row.measure
        timeout = measure.timeout_seconds
        if measure.scope == 'cluster':
            # The data of a worker, with at least 1 MiB in a second.
            timeout += self.plan.size_mib
        try:
            result = self._run_program(
                node, timeout, measure.script, *row.args
            )
            if result.returncode:
                raise ValueError(
                    measures.explain_failure(
                        measure, result.stdout, result.stderr
                    )
                )
            row.values.append(measure.parse(result.stdout))
        except ValueError as exc:
            row.reason = str(exc)
        except errors.HVStackError as exc:
            row.reason = shorten(exc)
            self.processes.end([node])
            if measure.scope == 'cluster':
                self._end_jobs()

    def _run_program(
        self, node: Node, timeout: float, script: str, *args: str | int
    ) -> processutils.Result:
        """Run a shell program whose processes have the token."""
        return node.run(
            self.processes.wrap(script, *args), timeout=timeout, check=False
        )

    def _end_jobs(self) -> None:
        """End the jobs, and delete their files in HDFS."""
        if self.cluster is None:
            return
        try:
            jobs.end_jobs(self.cluster, self.processes.token)
        except errors.HVStackError as exc:
            self.progress.say(
                f'HDFS: /benchmarks/hvstack-burn-in-{self.processes.token} '
                f'may remain ({shorten(exc)})'
            )


def compare_rows(
    rows: Sequence[BurnInRow], threshold: float
) -> list[RowVerdict]:
    """Compare the rows of each measure.

    :param rows: rows with their values.
    :param threshold: percent by which an outlier is worse than the others.
    :returns: a verdict for each row, in their order.
    """
    verdicts: dict[int, RowVerdict] = {}
    for name in {row.measure.name: None for row in rows}:
        indexes = [
            index for index, row in enumerate(rows) if row.measure.name == name
        ]
        measure = rows[indexes[0]].measure
        compared = compare(
            [rows[index].subject for index in indexes],
            [rows[index].values for index in indexes],
            threshold=threshold,
            larger_is_better=measure.larger_is_better,
            host_rows=measure.host_rows,
        )
        for index, verdict in zip(indexes, compared, strict=True):
            row = rows[index]
            verdicts[index] = (
                verdict
                if row.values
                else RowVerdict(None, f'not measured: {row.reason}')
            )
    return [verdicts[index] for index in range(len(rows))]
