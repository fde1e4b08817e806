# SPDX-License-Identifier: Apache-2.0
"""Execution of a burn-in on nodes that are not real."""

import io

import testtools

from hvstack import errors, processutils
from hvstack.burn_in import measures
from hvstack.burn_in.runner import (
    BurnIn,
    BurnInPlan,
    BurnInRow,
    compare_rows,
)
from hvstack.progress import Progress
from tests.unit.burn_in import fake, outputs
from tests.unit.burn_in.fake import BurnInNode


class BurnInTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = io.StringIO()

    def make(self, nodes: list[BurnInNode], **changes: object) -> BurnIn:
        plan = BurnInPlan(**changes)  # type: ignore[arg-type]
        return BurnIn(nodes, plan, Progress(stream=self.log))

    def run_all(
        self, nodes: list[BurnInNode], **changes: object
    ) -> list[BurnInRow]:
        burn_in = self.make(nodes, **changes)
        rows = burn_in.prepare()
        burn_in.run(rows)
        return rows

    def test_rows(self) -> None:
        rows = self.run_all(fake.make_nodes(3))
        self.assertEqual(
            {
                'disk write': 6,
                'disk read': 6,
                'memory': 3,
                'cpu': 3,
                'network': 3,
            },
            {
                measure.name: sum(row.measure == measure for row in rows)
                for measure in measures.MEASURES
            },
        )
        for row in rows:
            self.assertEqual(3, len(row.values), str(row))
            self.assertEqual('', row.reason)
        self.assertEqual(100.0, rows[0].value)
        self.assertEqual(('w0', 'w1'), rows[-3].subject.nodes)
        self.assertEqual(('h0', 'h1'), rows[-3].subject.hosts)

    def test_nodes_of_a_host_measure_one_after_the_other(self) -> None:
        nodes = fake.make_nodes(6, per_host=2)
        self.run_all(nodes)
        self.assertEqual([], nodes[0].site.overlaps)
        self.assertEqual(3, nodes[0].site.busy_hosts)

    def test_pairs_measure_one_after_the_other(self) -> None:
        nodes = fake.make_nodes(4)
        self.run_all(nodes, measures=(measures.NETWORK,))
        self.assertEqual(1, nodes[0].site.busy_hosts)

    def test_order(self) -> None:
        """It differs between rounds, and follows from the seed."""
        orders = []
        for seed in (1, 1, 2):
            nodes = fake.make_nodes(2, per_host=2)
            self.run_all(nodes, seed=seed, rounds=4)
            orders.append([node.programs for node in nodes])
        self.assertEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], orders[2])

    def test_a_slow_disk_and_a_slow_host(self) -> None:
        nodes = fake.make_nodes(4)
        nodes[2].factor = 0.5
        rows = self.run_all(nodes)
        verdicts = compare_rows(rows, 10)
        self.assertEqual(
            {('disk write', 'h2'), ('disk read', 'h2')},
            {
                (row.measure.name, verdict.host)
                for row, verdict in zip(rows, verdicts, strict=True)
                if verdict.is_outlier
            },
        )

    def test_files_are_deleted_after_a_failure(self) -> None:
        nodes = fake.make_nodes(3)
        nodes[1].answer = lambda program: (
            processutils.Result(255, '', 'no route')
            if program == 'disk'
            else None
        )
        rows = self.run_all(nodes)
        self.assertEqual(set(), set().union(*(n.stored for n in nodes)))
        failed = [row for row in rows if not row.values]
        self.assertEqual(4, len(failed))
        self.assertEqual({'no route'}, {row.reason for row in failed})
        texts = {
            verdict.text
            for row, verdict in zip(rows, compare_rows(rows, 10), strict=True)
            if not row.values
        }
        self.assertEqual({'not measured: no route'}, texts)

    def test_programs_are_ended_after_a_time_out(self) -> None:
        def answer(program: str) -> None:
            if program == 'memory':
                raise errors.DeadlineExceededError('It took too long.')

        nodes = fake.make_nodes(3)
        nodes[0].answer = answer
        rows = self.run_all(nodes, measures=(measures.MEMORY,), rounds=2)
        self.assertEqual('the program did not end in time', rows[0].reason)
        # After each of them, and in the end.
        self.assertEqual(3, nodes[0].programs.count('end'))
        self.assertEqual(1, nodes[1].programs.count('end'))

    def test_an_interrupt(self) -> None:
        """Programs are ended, files are deleted, and no round follows."""

        def answer(program: str) -> None:
            if program == 'disk':
                raise KeyboardInterrupt

        nodes = fake.make_nodes(3)
        nodes[2].answer = answer
        burn_in = self.make(nodes, measures=(measures.DISK_READ,))
        rows = burn_in.prepare()
        self.assertRaises(KeyboardInterrupt, burn_in.run, rows)
        self.assertEqual(set(), set().union(*(n.stored for n in nodes)))
        for node in nodes:
            self.assertIn('end', node.programs)
            self.assertLess(node.programs.count('disk'), 3)

    def test_files_that_remain_are_named(self) -> None:
        nodes = fake.make_nodes(3)
        nodes[0].answer = lambda program: (
            processutils.Result(1, '', 'read-only')
            if program == 'end'
            else None
        )
        self.run_all(nodes, measures=(measures.CPU,), rounds=1)
        self.assertIn('w0: the files .hvstack-burn-in-', self.log.getvalue())
        self.assertIn('read-only', self.log.getvalue())

    def test_a_node_that_does_not_answer(self) -> None:
        nodes = fake.make_nodes(4)
        nodes[3].answer = lambda program: processutils.Result(
            255, '', 'no route'
        )
        rows = self.run_all(nodes, rounds=1)
        missing = [row for row in rows if not row.values]
        # Each measure has a row of the node, and the network three pairs.
        self.assertEqual(7, len(missing))
        self.assertEqual({'no route'}, {row.reason for row in missing})
        self.assertEqual(['node'], nodes[3].programs)

    def test_another_host_key(self) -> None:
        def answer(_program: str) -> None:
            raise errors.HostKeyError('Another key.')

        nodes = fake.make_nodes(2)
        nodes[0].answer = answer
        self.assertRaises(errors.HostKeyError, self.make(nodes).prepare)

    def test_missing_programs(self) -> None:
        nodes = fake.make_nodes(3)
        nodes[0].answer = lambda program: (
            processutils.Result(
                0, fake.NODE + 'missing fio\nmissing iperf3\n', ''
            )
            if program == 'node'
            else None
        )
        rows = self.run_all(nodes, rounds=1)
        self.assertEqual(
            {
                ('disk write', 'fio is not installed'),
                ('disk read', 'fio is not installed'),
                ('network', 'iperf3 is not installed on w0'),
            },
            {(row.measure.name, row.reason) for row in rows if row.reason},
        )

    def test_too_little_space(self) -> None:
        nodes = fake.make_nodes(1)
        # 2 GB are free.
        for size, measure in (
            (1_100_000_000, measures.DISK_READ),
            (1_000_000_000, measures.DISK_WRITE),
            (1_100_000_000, measures.CPU),
        ):
            burn_in = self.make(nodes, measures=(measure,), size_bytes=size)
            if measure == measures.DISK_READ:
                error = self.assertRaises(errors.InputError, burn_in.prepare)
                self.assertIn('w0: /srv/data/0', str(error))
                self.assertIn('--size', str(error))
            else:
                self.assertEqual(
                    {'w0'}, {row.subject.nodes[0] for row in burn_in.prepare()}
                )

    def test_server_that_does_not_start(self) -> None:
        nodes = fake.make_nodes(2)
        nodes[1].answer = lambda program: (
            processutils.Result(1, '', 'iperf3: error - address in use')
            if program == 'server'
            else None
        )
        rows = self.run_all(nodes, measures=(measures.NETWORK,), rounds=1)
        self.assertEqual('w1: iperf3: error - address in use', rows[0].reason)
        self.assertIn('end', nodes[1].programs)

    def test_a_round_that_fails(self) -> None:
        results = iter([outputs.STREAM, outputs.STREAM_SHORT, outputs.STREAM])
        nodes = fake.make_nodes(1)
        nodes[0].answer = lambda program: (
            processutils.Result(0, next(results), '')
            if program == 'memory'
            else None
        )
        (row,) = self.run_all(nodes, measures=(measures.MEMORY,))
        self.assertEqual(2, len(row.values))
        self.assertIn('too short', row.reason)

    def test_one_host(self) -> None:
        burn_in = self.make(fake.make_nodes(2, per_host=2))
        rows = burn_in.prepare()
        self.assertNotIn('network', {row.measure.name for row in rows})
        self.assertIn('one physical host', burn_in.notes[0])


class PairsTest(testtools.TestCase):
    def prepare(self, nodes: list[BurnInNode], pairs: int) -> BurnIn:
        burn_in = BurnIn(
            nodes,
            BurnInPlan((measures.NETWORK,), max_pairs=pairs),
            Progress(stream=io.StringIO()),
        )
        self.rows = burn_in.prepare()
        return burn_in

    def test_a_worker_of_each_host(self) -> None:
        nodes = fake.make_nodes(6, per_host=2)
        nodes[0].role = 'controller'
        burn_in = self.prepare(nodes, 30)
        self.assertEqual([], burn_in.notes)
        self.assertEqual(
            {('w1', 'w2'), ('w1', 'w4'), ('w2', 'w4')},
            {row.subject.nodes for row in self.rows},
        )

    def test_sample(self) -> None:
        burn_in = self.prepare(fake.make_nodes(32), 30)
        self.assertEqual(
            ['network: a sample of 30 of the 496 pairs of hosts (seed 1)'],
            burn_in.notes,
        )
        names = [name for row in self.rows for name in row.subject.nodes]
        counts = {names.count(f'w{index}') for index in range(32)}
        self.assertEqual({1, 2}, counts)
        first = [row.subject for row in self.rows]
        self.prepare(fake.make_nodes(32), 30)
        self.assertEqual(first, [row.subject for row in self.rows])

    def test_no_pair_is_duplicated(self) -> None:
        for count in (7, 8):
            total = count * (count - 1) // 2
            self.prepare(fake.make_nodes(count), total - 1)
            pairs = {frozenset(row.subject.nodes) for row in self.rows}
            self.assertEqual(total - 1, len(pairs))
            self.assertEqual({2}, {len(names) for names in pairs})

    def test_roles(self) -> None:
        """A pair with a controller is not compared with pairs of workers."""
        nodes = fake.make_nodes(3)
        nodes[0].role = 'controller'
        self.prepare(nodes, 30)
        self.assertEqual(
            {'worker', 'controller-worker'},
            {row.subject.group for row in self.rows},
        )
