# SPDX-License-Identifier: Apache-2.0
"""Runs of programs on the workers themselves: fio, stress-ng and iperf3."""

import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, processutils
from hvstack.cluster.base import Node
from hvstack.model.configuration import parse
from hvstack.progress import Progress
from hvstack.results import selfcheck
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.record_data import RunRecord
from hvstack.results.run_id import RunId
from hvstack.results.workload_types import (
    FIO,
    IPERF3,
    STRESS_NG,
    WorkloadType,
)
from hvstack.tpcxhs import node_programs, run
from hvstack.tpcxhs.result import RunSpec
from hvstack.tpcxhs.workload import Workload
from tests.unit.burn_in import fake
from tests.unit.burn_in.fake import BurnInNode
from tests.unit.results import factory
from tests.unit.tpcxhs.test_run import Hadoop, Some

#: 64 MiB for each of the eight disks of four nodes.
SIZE = 8 * 64 * 2**20


@dataclass
class SomeWorkers(Some):
    """A cluster with workers that run the programs of a burn-in."""

    measured: list[BurnInNode] = field(default_factory=list)

    @property
    def workers(self) -> Sequence[Node]:
        return self.measured


class NodeProgramsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.nodes = fake.make_nodes(4, per_host=2)

    def measure(self, phase: str) -> float:
        cluster = SomeWorkers(Hadoop(), measured=self.nodes)
        return node_programs.measure(
            phase, cluster, SIZE, Progress(stream=io.StringIO())
        )

    def meet(self, program: str, count: int) -> None:
        """Let a program wait until as many of them run."""
        barrier = threading.Barrier(count, timeout=5)

        def answer(name: str) -> None:
            if name == program:
                barrier.wait()

        for node in self.nodes:
            node.answer = answer

    def test_all_disks_of_all_workers_at_once(self) -> None:
        self.nodes[3].factor = 0.5
        self.meet('disk', 8)
        self.assertEqual(700.0, self.measure('fio write'))
        written = [
            command
            for node in self.nodes
            for command in node.commands
            if 'fio --name' in command
        ]
        self.assertEqual(8, len(written))
        for command in written:
            self.assertRegex(command, r'set -- write /srv/data/\d \w+ 64 60')

    def test_read_rate(self) -> None:
        self.assertEqual(800.0, self.measure('fio read'))

    def test_memory_of_all_workers_at_once(self) -> None:
        self.meet('memory', 4)
        self.assertAlmostEqual(
            4 * 7500 * 1.048576, self.measure('stress-ng stream')
        )

    def test_each_host_is_in_one_pair(self) -> None:
        for count, pairs in ((2, 1), (3, 1), (4, 2), (6, 3)):
            self.nodes = fake.make_nodes(count)
            self.meet('client', pairs)
            self.assertEqual(940.0 * pairs, self.measure('iperf3'))
            self.assertEqual([], self.nodes[0].site.overlaps)
        self.nodes = fake.make_nodes(2, per_host=2)
        error = self.assertRaises(
            errors.RunFailedError, self.measure, 'iperf3'
        )
        self.assertEqual(
            'iperf3 failed: all workers are on one host. Use another '
            'configuration.',
            str(error),
        )

    def test_a_value_that_is_missing(self) -> None:
        self.nodes[1].answer = lambda program: (
            processutils.Result(1, '', 'fio: no space left')
            if program == 'disk'
            else None
        )
        error = self.assertRaises(
            errors.RunFailedError, self.measure, 'fio write'
        )
        self.assertEqual(
            'fio write failed (w1): fio: no space left.', str(error)
        )
        for node in self.nodes:
            self.assertEqual(set(), node.stored)
            self.assertEqual(1, node.programs.count('end'))

    def test_files_that_do_not_fit(self) -> None:
        for node in self.nodes:
            node.answer = lambda program: (
                processutils.Result(
                    0, 'disk 100000 /srv/data/0\nprocessors 2\n', ''
                )
                if program == 'node'
                else None
            )
        error = self.assertRaises(errors.InputError, self.measure, 'fio write')
        self.assertIn('Cannot write a test file of 128 MiB', str(error))


def list_phases(run_record: RunRecord) -> list[str]:
    """Return the phases that contradict other fields of a record."""
    names = [name for name, _ in selfcheck.contradictions(run_record)]
    return [name for name in names if name.startswith('phases')]


class RunTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.nodes = fake.make_nodes(2)

    def measure(self, workload_type: WorkloadType, size: int) -> RunRecord:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        spec = RunSpec(
            RunId('devices', parse('i1'), 0),
            Workload(size, 2, 2, 2, type=workload_type),
            FileRunStore(directory),
        )
        cluster = SomeWorkers(Hadoop(), measured=self.nodes)
        return run.measure(cluster, spec)

    def test_record(self) -> None:
        for workload_type, size, values in (
            (FIO, SIZE // 100 * 100, [400.0, 400.0]),
            (STRESS_NG, 100, [15728.64]),
            (IPERF3, 100, [940.0]),
        ):
            run_record = self.measure(workload_type, size)
            self.assertEqual('', run_record.reason)
            self.assertEqual(workload_type.name, run_record.sut.workload)
            self.assertNotIn('map_tasks', run_record.sut.facts)
            self.assertEqual(
                list(workload_type.phases), run_record.phase_names
            )
            self.assertEqual(
                values, [phase.reported for phase in run_record.phases]
            )
            self.assertEqual([], list_phases(run_record))
            changed = factory.edit(run_record, 'phases/0/reported', 0)
            self.assertEqual(
                [f'phases.{workload_type.phases[0]}'], list_phases(changed)
            )

    def test_data_need_not_fit_in_hdfs(self) -> None:
        """No block is written."""
        self.assertEqual('', self.measure(FIO, 2 * 10**9).reason)

    def test_run_that_fails(self) -> None:
        self.nodes[0].answer = lambda program: (
            processutils.Result(1, '', 'no memory')
            if program == 'memory'
            else None
        )
        run_record = self.measure(STRESS_NG, 100)
        self.assertFalse(run_record.valid)
        self.assertEqual(
            'stress-ng stream failed (w0): no memory.', run_record.reason
        )
