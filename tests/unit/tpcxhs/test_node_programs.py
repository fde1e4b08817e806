# SPDX-License-Identifier: Apache-2.0
"""Runs of programs on the workers themselves: fio, stress-ng and iperf3."""

import io
import json
import shlex
from collections.abc import Callable, Sequence
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
    TESTDFSIO,
    WorkloadType,
)
from hvstack.tpcxhs import node_programs, run
from hvstack.tpcxhs.result import RunSpec
from hvstack.tpcxhs.workload import Workload
from tests.unit.burn_in import fake, outputs
from tests.unit.cluster.fake import FakeCluster, FakeNode
from tests.unit.results import factory
from tests.unit.tpcxhs.test_run import Hadoop, Some

MIB = 2**20
#: 64 MiB for each of the eight disks of four nodes.
SIZE = 8 * 64 * MIB
#: A part of each program, by its name. The longest program is the first.
PROGRAMS = {
    'node': 'nproc',
    'end': 'list_programs',
    'disks': 'lay-out',
    'memory': 'stress-ng --stream',
    'server': 'iperf3 --server',
    'client': 'iperf3 --client',
}


def format_fio(direction: str, rates: Sequence[float]) -> str:
    """Return the output of fio with a job for each rate in bytes/s."""
    return json.dumps(
        {'jobs': [{'error': 0, direction: {'bw_bytes': r}} for r in rates]}
    )


def split_arguments(program: str, count: int) -> list[str]:
    """Return the first arguments of a program, which can have many lines."""
    reader = shlex.shlex(program, posix=True)
    reader.whitespace_split = True
    return [str(reader.get_token()) for _ in range(2 + count)][2:]


@dataclass
class Worker(FakeNode):
    """A worker with two disks, whose programs start at a given time.

    :param host: its physical host.
    :param rate: rate of a disk in MB/s.
    :param started: programs that were started, with their arguments.
    :param delays: seconds after which they were to start.
    :param answer: function that replaces the result of a program; it returns
        None for the default result.
    """

    host: str = ''
    rate: float = 100
    started: list[tuple[str, list[str]]] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    answer: Callable[[str], processutils.Result | None] = lambda _: None

    def run(  # type: ignore[override]
        self, command: str, *, check: bool = True, **_: object
    ) -> processutils.Result:
        if command == 'true':
            return processutils.Result(0, '', '')
        if 'cat "$1/status"' in command:
            return self.collect(check=check)
        if 'setsid' in command:
            delay, later = split_arguments(command, 2)
            self.delays.append(float(delay))
            self.start(later)
            return processutils.Result(0, '/tmp/out\n', '')
        self.start(command)
        return self.collect(check=check)

    def start(self, command: str) -> None:
        program = command
        if command.startswith('env '):
            program = shlex.split(command)[-1]
        name = next(name for name, part in PROGRAMS.items() if part in program)
        self.commands.append(command)
        line = program.partition('\n')[0]
        self.started.append((name, shlex.split(line)[2:]))

    def collect(self, *, check: bool) -> processutils.Result:
        name, arguments = self.started[-1]
        result = self.answer(name)
        if result is None:
            result = processutils.Result(0, self.print(name, arguments), '')
        if check and result.returncode:
            raise errors.CommandError([self.name], 1, result.stderr)
        return result

    def print(self, name: str, arguments: list[str]) -> str:
        if name == 'disks':
            return format_fio(arguments[0], [self.rate * 1e6] * 2)
        return {
            'node': fake.NODE,
            'memory': outputs.STREAM,
            'client': outputs.iperf3(940e6, 940e6),
        }.get(name, '')


def make_workers(count: int, per_host: int = 1) -> list[Worker]:
    """Return workers.

    :param per_host: number of workers of a host.
    """
    cluster = FakeCluster()
    return [
        Worker(
            *(f'w{index}', f'10.0.0.{index}', cluster),
            host=f'h{index // per_host}',
        )
        for index in range(count)
    ]


@dataclass
class SomeWorkers(Some):
    """A cluster with workers that run programs of their own."""

    measured: list[Worker] = field(default_factory=list)

    @property
    def workers(self) -> Sequence[Node]:
        return self.measured


class NodeProgramsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.nodes = make_workers(4, per_host=2)
        self.log = io.StringIO()

    def measure(self, phase: str) -> float:
        cluster = SomeWorkers(Hadoop(), measured=self.nodes)
        return node_programs.measure(
            phase, cluster, SIZE, Progress(stream=self.log)
        )

    def list_started(self, name: str) -> list[list[str]]:
        return [
            arguments
            for node in self.nodes
            for program, arguments in node.started
            if program == name
        ]

    def test_all_disks_of_all_workers_at_once(self) -> None:
        self.nodes[3].rate = 50
        self.assertEqual(700.0, self.measure('fio write'))
        for node in self.nodes:
            # All files are laid out before the first one is written.
            verbs = [
                arguments[0]
                for name, arguments in node.started
                if name == 'disks'
            ]
            self.assertEqual(['lay-out', 'write'], verbs)
            self.assertEqual(2, len(node.delays))
        for arguments in self.list_started('disks'):
            self.assertEqual('64', arguments[2])
            self.assertEqual(str(node_programs.FIO_SECONDS), arguments[3])
            self.assertEqual(['/srv/data/0', '/srv/data/1'], arguments[4:])

    def test_read_rate(self) -> None:
        self.assertEqual(800.0, self.measure('fio read'))

    def test_workers_without_disks(self) -> None:
        self.nodes[3].role = 'compute'
        self.assertEqual(600.0, self.measure('fio read'))
        self.assertAlmostEqual(
            4 * 7500 * 1.048576, self.measure('stress-ng stream')
        )

    def test_memory_of_all_workers_at_once(self) -> None:
        self.assertAlmostEqual(
            4 * 7500 * 1.048576, self.measure('stress-ng stream')
        )
        self.assertEqual([1] * 4, [len(node.delays) for node in self.nodes])
        self.assertEqual(
            [['all', '2', '10', '1']] * 4, self.list_started('memory')
        )

    def test_each_host_is_in_one_pair(self) -> None:
        for count, number in ((2, 1), (3, 1), (4, 2), (6, 3)):
            self.nodes = make_workers(count)
            self.assertEqual(940.0 * number, self.measure('iperf3'))
            servers = [
                arguments[0] for arguments in self.list_started('client')
            ]
            self.assertEqual(number, len(set(servers)))
            self.assertEqual(number, len(self.list_started('server')))
            busy = [
                node
                for node in self.nodes
                if {'server', 'client'} & {name for name, _ in node.started}
            ]
            self.assertEqual(2 * number, len(busy))

    def test_workers_of_one_host(self) -> None:
        self.nodes = make_workers(2, per_host=2)
        error = self.assertRaises(
            errors.RunFailedError, self.measure, 'iperf3'
        )
        self.assertEqual(
            'iperf3 failed: all workers are on one host.', str(error)
        )

    def test_programs_that_fail(self) -> None:
        """The others end, and all files are deleted."""
        self.nodes[1].answer = lambda name: (
            processutils.Result(1, '', 'fio: no space left')
            if name == 'disks'
            else None
        )
        error = self.assertRaises(
            errors.RunFailedError, self.measure, 'fio write'
        )
        self.assertEqual('fio write failed: fio: no space left.', str(error))
        ends = self.list_started('end')
        self.assertEqual(4, len(ends))
        for arguments in ends:
            self.assertEqual(['/srv/data/0', '/srv/data/1'], arguments[1:])

    def test_a_value_that_is_missing(self) -> None:
        self.nodes[2].answer = lambda name: (
            processutils.Result(0, 'no memory\n', '')
            if name == 'memory'
            else None
        )
        error = self.assertRaises(
            errors.RunFailedError, self.measure, 'stress-ng stream'
        )
        self.assertIn('stress-ng stream failed (w2): ', str(error))

    def test_files_that_remain(self) -> None:
        self.nodes[0].answer = lambda name: (
            processutils.Result(255, '', 'no route') if name == 'end' else None
        )
        self.assertEqual(800.0, self.measure('fio read'))
        self.assertIn('w0: the files .hvstack-burn-in-', self.log.getvalue())

    def test_program_that_is_not_installed(self) -> None:
        self.nodes[1].answer = lambda name: (
            processutils.Result(0, f'{fake.NODE}missing iperf3\n', '')
            if name == 'node'
            else None
        )
        error = self.assertRaises(
            errors.RunFailedError, self.measure, 'iperf3'
        )
        self.assertEqual(
            'iperf3 failed (w1): iperf3 is not installed.', str(error)
        )

    def test_files_that_do_not_fit(self) -> None:
        for node in self.nodes:
            node.answer = lambda name: (
                processutils.Result(
                    0, 'disk 100000 /srv/data/0\nprocessors 2\n', ''
                )
                if name == 'node'
                else None
            )
        error = self.assertRaises(errors.InputError, self.measure, 'fio write')
        self.assertEqual(
            'Cannot write a file of 128 MiB (w0: /srv/data/0): 97 MiB are '
            'free. Use a smaller size, or free disk space.',
            str(error),
        )


def list_phases(run_record: RunRecord) -> list[str]:
    """Return the phases that contradict other fields of a record."""
    names = [name for name, _ in selfcheck.contradictions(run_record)]
    return [name for name in names if name.startswith('phases')]


class RunTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.nodes = make_workers(2)
        self.gateway = Hadoop()

    def measure(self, workload_type: WorkloadType, size: int) -> RunRecord:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        spec = RunSpec(
            RunId('devices', parse('i1'), 0),
            Workload(size, 2, 2, 2, type=workload_type),
            FileRunStore(directory),
        )
        cluster = SomeWorkers(self.gateway, measured=self.nodes)
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
        self.gateway.remaining = 10**9
        self.assertEqual('', self.measure(FIO, 10**9).reason)
        self.assertRaises(errors.InputError, self.measure, TESTDFSIO, 10**9)

    def test_run_that_fails(self) -> None:
        self.nodes[0].answer = lambda name: (
            processutils.Result(1, '', 'no memory')
            if name == 'memory'
            else None
        )
        run_record = self.measure(STRESS_NG, 100)
        self.assertFalse(run_record.valid)
        self.assertEqual(
            'stress-ng stream failed: no memory.', run_record.reason
        )
