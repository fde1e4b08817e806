# SPDX-License-Identifier: Apache-2.0
"""Runs of NNBench and MRBench, with results of Hadoop 3.5.0.

The files ``micro_benchmarks/*.txt`` are results of its programs with two map
tasks, whose jobs ran in one JVM with local files.
"""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import fixtures
import testtools

from hvstack import processutils
from hvstack.hadoop.job_history import JobHistory, Task
from hvstack.model.configuration import parse
from hvstack.results import selfcheck
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.record_data import RunRecord
from hvstack.results.run_id import RunId
from hvstack.results.workload_types import MRBENCH, NNBENCH, WorkloadType
from hvstack.tpcxhs import run
from hvstack.tpcxhs.result import RunResult, RunSpec
from hvstack.tpcxhs.workload import Workload
from tests.unit.results import factory
from tests.unit.tpcxhs.test_run import Hadoop, Some

RESULTS = Path(__file__).parent / 'micro_benchmarks'
MAPS = 2


def read(name: str) -> str:
    return (RESULTS / f'{name}.txt').read_text()


@dataclass
class Node(Hadoop):
    """A controller that runs NNBench and MRBench.

    :param results: names of the results that they print, in order.
    :param inputs: records of input of each job.
    """

    results: list[str] = field(default_factory=list)
    inputs: int = MAPS
    programs: list[str] = field(default_factory=list)

    def answer(self, command: str) -> str:
        if '/counters' in command:
            counter = {
                'name': 'MAP_INPUT_RECORDS',
                'totalCounterValue': self.inputs,
                'mapCounterValue': self.inputs,
            }
            group = {'counterGroupName': 'x.TaskCounter', 'counter': [counter]}
            return json.dumps({'jobCounters': {'counterGroup': [group]}})
        return (
            super()
            .answer(command)
            .replace('"mapsTotal": 6', f'"mapsTotal": {MAPS}')
        )

    def run(self, command: str, **kwargs: object) -> processutils.Result:  # type: ignore[override]
        if 'MRBench' not in command:
            return super().run(command, **kwargs)  # type: ignore[arg-type]
        time.sleep(0.002)
        name = self.results[len(self.programs)]
        self.programs.append(command)
        log = f'INFO mapreduce.Job: Running job: job_1_{len(self.programs)}\n'
        status = 255 if name.endswith('missing') else 0
        return processutils.Result(status, read(name), log)


class MicroBenchmarksTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.gateway = Node(
            results=['nnbench', 'nnbench-open', 'nnbench-delete']
        )
        self.maps = MAPS

    def run_once(self, workload_type: WorkloadType = NNBENCH) -> RunResult:
        self.gateway.programs.clear()
        workload = Workload(100, 2, self.maps, 1, type=workload_type)
        return run.run(Some(self.gateway), workload)

    def measure(self, workload_type: WorkloadType) -> RunRecord:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        spec = RunSpec(
            RunId('micro', parse('i1'), 0),
            Workload(100, 2, self.maps, 1, type=workload_type),
            FileRunStore(directory),
        )
        return run.measure(Some(self.gateway), spec)

    def test_nnbench(self) -> None:
        run_result = self.run_once()
        self.assertEqual('', run_result.reason)
        self.assertEqual(
            [
                ('NNBench create', 216.0),
                ('NNBench open', 686.0),
                ('NNBench delete', 594.0),
            ],
            [(phase.name, phase.reported) for phase in run_result.phases],
        )
        for program, text in zip(
            ('nnbench', 'nnbench-open', 'nnbench-delete'),
            self.gateway.programs,
            strict=True,
        ):
            self.assertIn(f'set -- {program} /benchmarks/tpcx-hs 2 ', text)
            self.assertIn('barrier_seconds=60', text)

    def test_mrbench(self) -> None:
        self.gateway.results = ['mrbench']
        run_result = self.run_once(MRBENCH)
        self.assertEqual('', run_result.reason)
        (phase,) = run_result.phases
        self.assertEqual(('MRBench', 12.124), (phase.name, phase.reported))
        (program,) = self.gateway.programs
        self.assertIn('set -- mrbench /benchmarks/tpcx-hs 2 ', program)

    def test_mrbench_of_other_jobs(self) -> None:
        self.maps, self.gateway.results = 3, ['mrbench']
        self.assertIn(
            'MRBench failed: MRBench reports jobs with 2 lines',
            self.run_once(MRBENCH).reason,
        )
        self.gateway.results = ['nnbench']
        self.assertIn('MRBench reports no time', self.run_once(MRBENCH).reason)

    def test_operations_that_are_missing(self) -> None:
        self.maps = 3
        self.assertIn(
            'NNBench create failed: NNBench: 1000 of 1500 file operations',
            self.run_once().reason,
        )

    def test_files_that_are_missing(self) -> None:
        self.gateway.results[1] = 'nnbench-missing'
        self.assertIn(
            'NNBench open exited with status 255', self.run_once().reason
        )

    def test_inputs_that_are_missing(self) -> None:
        self.gateway.inputs = 1
        self.assertIn(
            'MAP_INPUT_RECORDS of NNBench create is 1, not 2',
            self.run_once().reason,
        )

    def test_maps_that_start_late(self) -> None:
        """Hadoop 3.5 does not count them."""
        self.assertIn('missed the barrier: 0', read('nnbench'))
        delay = 0.0

        def load(
            _: object, ids: list[str], __: int
        ) -> tuple[dict[str, JobHistory], dict[str, str]]:
            tasks = [
                Task('t0', 'map', '10.0.0.1', 0, 9, 1, 1),
                Task('t1', 'map', '10.0.0.1', 1795970000 + delay, 9, 1, 1),
                Task('t2', 'reduce', '10.0.0.1', 1e10, 9, 1, 1),
            ]
            return {job_id: JobHistory(tasks) for job_id in ids}, {}

        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.hadoop.job_history.load_histories', load
            )
        )
        self.assertEqual('', self.run_once().reason)
        delay = 1e6
        self.assertIn(
            'NNBench failed: NNBench create: 1 map task started too late. '
            'Use fewer maps',
            self.run_once().reason,
        )

    def test_record(self) -> None:
        for workload_type, names in (
            (NNBENCH, self.gateway.results),
            (MRBENCH, ['mrbench']),
        ):
            self.gateway.results = names
            self.gateway.programs.clear()
            run_record = self.measure(workload_type)
            self.assertEqual('', run_record.reason)
            self.assertEqual(workload_type.name, run_record.sut.workload)
            self.assertEqual(MAPS, run_record.sut.facts['map_tasks'])
            self.assertEqual(set(), list_fields(run_record))
            for path, value, field_name in (
                ('environment/map_tasks', 4, 'environment.map_tasks'),
                ('phases/0/reported', 0, f'phases.{workload_type.jobs[0]}'),
                (
                    *('phases/0/counters', {'MAP_INPUT_RECORDS': 5}),
                    f'counters of {workload_type.jobs[0]}',
                ),
                ('phases/0/maps', 3, 'maps'),
            ):
                edited = factory.edit(run_record, path, value)
                self.assertEqual({field_name}, list_fields(edited))


def list_fields(run_record: RunRecord) -> set[str]:
    """Return the fields that contradict others."""
    names = {name for name, _ in selfcheck.contradictions(run_record)}
    return {name for name in names if not name.startswith('seen.')} - {
        'environment.backend'
    }
