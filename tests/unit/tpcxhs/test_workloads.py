# SPDX-License-Identifier: Apache-2.0
"""Runs of other workloads than TPCx-HS: TestDFSIO, and TeraSort alone."""

import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, processutils
from hvstack.model.configuration import parse
from hvstack.results import comparability, record, selfcheck
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.record_data import RunRecord
from hvstack.results.run_id import RunId
from hvstack.results.workload_types import TERASORT, TESTDFSIO, TPCX_HS
from hvstack.tpcxhs import run
from hvstack.tpcxhs.deadlines import Limits, WorkerHosts
from hvstack.tpcxhs.result import RunResult, RunSpec
from hvstack.tpcxhs.workload import MIB, Workload
from tests.unit.burn_in import outputs
from tests.unit.results import factory
from tests.unit.tpcxhs.test_run import BYTES, Hadoop, Some

FILES = 6
#: Bytes in the counters of HDFS: files of a whole number of bytes.
COUNTED = BYTES // FILES * FILES


@dataclass
class DFSIONode(Hadoop):
    """A controller that runs TestDFSIO, too.

    :param output: result that TestDFSIO prints.
    :param status: its exit status.
    :param counted: value of the counters of HDFS.
    """

    output: str = outputs.DFSIO
    status: int = 0
    counted: int = COUNTED
    programs: list[str] = field(default_factory=list)

    def answer(self, command: str) -> str:
        if '/counters' in command and 'TestDFSIO' in ''.join(self.programs):
            counters = [
                {'name': name, 'totalCounterValue': self.counted}
                for name in ('HDFS_BYTES_READ', 'HDFS_BYTES_WRITTEN')
            ]
            group = {'counterGroupName': 'x.FileSystem', 'counter': counters}
            return json.dumps({'jobCounters': {'counterGroup': [group]}})
        return super().answer(command)

    def run(self, command: str, **kwargs: object) -> processutils.Result:  # type: ignore[override]
        if 'TestDFSIO' in command or 'hadoop jar' in command:
            # A record needs a time of more than 0.
            time.sleep(0.002)
        if 'TestDFSIO' in command:
            self.programs.append(command)
            number = len(self.programs)
            log = f'INFO mapreduce.Job: Running job: job_1_000{number}\n'
            if self.status:
                log += 'ERROR: no DataNode has room\n'
            return processutils.Result(self.status, self.output, log)
        return super().run(command, **kwargs)  # type: ignore[arg-type]


class WorkloadsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.gateway = DFSIONode()
        self.cluster = Some(self.gateway)
        self.workload = Workload(BYTES, 2, FILES, 1, type=TESTDFSIO)

    def run_once(self) -> RunResult:
        return run.run(self.cluster, self.workload)

    def measure(self) -> RunRecord:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        spec = RunSpec(
            RunId('dfsio', parse('i1'), 0),
            self.workload,
            FileRunStore(directory),
        )
        return run.measure(self.cluster, spec)

    def test_phases_of_testdfsio(self) -> None:
        run_result = self.run_once()
        self.assertEqual('', run_result.reason)
        self.assertEqual(
            [('TestDFSIO write', 52.429), ('TestDFSIO read', 52.429)],
            [(phase.name, phase.reported) for phase in run_result.phases],
        )
        self.assertEqual(
            ['job_1_0001', 'job_1_0002'],
            [phase.job_id for phase in run_result.phases],
        )
        for verb, program in zip(
            ('write', 'read'), self.gateway.programs, strict=True
        ):
            self.assertIn(
                f'set -- {verb} /benchmarks/tpcx-hs 6 1666666B', program
            )
            # A file is a block, and it fits.
            self.assertIn(f'-Ddfs.blocksize={2 * MIB}', program)
            self.assertIn('-Ddfs.replication=2', program)
        self.assertFalse(
            [x for x in self.gateway.commands if x.startswith('hadoop jar')]
        )

    def test_settings_of_jobs(self) -> None:
        self.workload = replace(
            self.workload, settings=(('dfs.client.read.shortcircuit', 'a b'),)
        )
        self.run_once()
        self.assertIn(
            '-Ddfs.client.read.shortcircuit=a b', self.gateway.programs[0]
        )

    def test_record_says_which_workload_it_is(self) -> None:
        run_record = self.measure()
        self.assertEqual('', run_record.reason)
        self.assertEqual('testdfsio', run_record.sut.workload)
        self.assertEqual(FILES, run_record.sut.facts['files'])
        self.assertEqual(52.429, run_record.phases[1].reported)
        # TPCx-HS is the default, so that its records do not change.
        self.assertEqual('tpcx-hs', factory.run('i1', 0, 9).sut.workload)

    def test_program_that_fails(self) -> None:
        self.gateway.status = 1
        run_result = self.run_once()
        self.assertIn(
            'TestDFSIO write exited with status 1', run_result.reason
        )
        self.assertIn('no DataNode has room', run_result.reason)
        self.assertEqual(1, len(self.gateway.programs))

    def test_program_that_reports_nothing(self) -> None:
        self.gateway.output = outputs.DFSIO.replace(': 50', ': NaN')
        self.assertIn(
            'TestDFSIO write failed: TestDFSIO reports no throughput',
            self.run_once().reason,
        )

    def test_bytes_that_are_missing(self) -> None:
        self.gateway.counted = COUNTED - 1
        self.assertIn(
            'HDFS_BYTES_WRITTEN of TestDFSIO write is', self.run_once().reason
        )

    def test_terasort_has_no_checks(self) -> None:
        self.workload = Workload(BYTES, 2, 6, 6, type=TERASORT)
        run_record = self.measure()
        self.assertEqual('', run_record.reason)
        self.assertEqual(
            ['TeraGen', 'TeraSort'],
            [phase.name for phase in run_record.phases],
        )
        commands = ' '.join(self.gateway.commands)
        self.assertNotIn('fsck', commands)
        self.assertNotIn('teravalidate', commands)
        self.assertEqual('terasort', run_record.sut.workload)

    def test_terasort_that_lost_records(self) -> None:
        self.workload = Workload(2 * BYTES, 2, 6, 6, type=TERASORT)
        self.assertIn(
            'MAP_OUTPUT_RECORDS of TeraGen is', self.run_once().reason
        )

    def test_workloads_are_never_compared(self) -> None:
        files, sort = self.measure(), factory.run('i1', 0, 9)
        lines = comparability.list_record_differences(
            *(files, sort), ('workload', 'files')
        )
        self.assertIn('workload is testdfsio here and missing there', lines)
        self.assertRaisesRegex(
            errors.InputError,
            "--allow 'workload'",
            comparability.check_fact_names,
            ['workload'],
            [files],
        )

    def test_numbers_of_files_must_agree(self) -> None:
        files = self.measure()
        other = factory.edit(files, 'environment/files', FILES + 1)
        self.assertEqual(
            ['files is 6 here and 7 there'],
            comparability.list_record_differences(files, other),
        )
        self.assertEqual(
            [], comparability.list_record_differences(files, other, ['files'])
        )

    def list_fields(self, run_record: RunRecord) -> set[str]:
        """Return the fields that contradict others.

        The cluster of the test knows nothing about Nova.
        """
        names = {name for name, _ in selfcheck.contradictions(run_record)}
        return {name for name in names if not name.startswith('seen.')} - {
            'environment.backend'
        }

    def test_contradictions(self) -> None:
        files = self.measure()
        self.assertEqual(set(), self.list_fields(files))
        for path, value, field_name in (
            ('environment/workload', 'sleep', 'environment.workload'),
            ('environment/workload', 'terasort', 'phases'),
            ('environment/workload', ..., 'phases'),
            ('environment/files', 4, 'environment.files'),
            ('phases/0/reported', 0, 'phases.TestDFSIO write'),
            ('phases/1/reported', ..., 'phases.TestDFSIO read'),
            (
                *('phases/1/counters', {'HDFS_BYTES_READ': 5}),
                'counters of TestDFSIO read',
            ),
            ('phases/0/job_id', '', 'job_id'),
            ('phases/1/job_id', 'job_1_0001', 'job_id'),
            ('phases/1/maps', FILES + 1, 'maps'),
            ('derived', False, 'environment.workload'),
        ):
            edited = factory.edit(files, path, value)
            self.assertIn(field_name, self.list_fields(edited), path)
        self.workload = Workload(BYTES, 2, 6, 6, type=TERASORT)
        self.gateway.programs.clear()
        sort = self.measure()
        self.assertEqual('', sort.reason)
        self.assertEqual(set(), self.list_fields(sort))
        for path, value, field_name in (
            ('phases/1/counters', {}, 'counters of TeraSort'),
            ('phases/0/maps', 1, 'maps'),
            ('phases/1/reduces', 1, 'reduces'),
        ):
            edited = factory.edit(sort, path, value)
            self.assertEqual({field_name}, self.list_fields(edited), path)

    def test_invalid_record_is_readable(self) -> None:
        self.gateway.status = 1
        run_record = self.measure()
        self.assertFalse(run_record.valid)
        self.assertEqual(set(), self.list_fields(run_record))
        self.assertTrue(record.format_document(run_record))


class WorkloadTest(testtools.TestCase):
    def test_space(self) -> None:
        """Only a sort has an output and intermediate data."""
        for workload_type, expected in (
            (TESTDFSIO, 2 * BYTES),
            (TERASORT, 4.5 * BYTES),
            (TPCX_HS, 4.5 * BYTES),
        ):
            workload = Workload(BYTES, 2, FILES, 1, type=workload_type)
            self.assertEqual(expected, workload.needed_bytes)

    def test_blocks(self) -> None:
        """A file of TestDFSIO is one block, whatever its reduce task."""
        self.assertEqual(
            4 * MIB, Workload(BYTES, 2, 3, 1, type=TESTDFSIO).block_bytes
        )

    def test_empty_files(self) -> None:
        self.assertRaisesRegex(
            errors.InputError,
            'Use fewer files',
            Workload,
            *(100, 1, 101, 1),
            type=TESTDFSIO,
        )

    def test_deadlines(self) -> None:
        hosts = WorkerHosts(2, 8, 2)
        for workload_type in (TESTDFSIO, TERASORT, TPCX_HS):
            workload = Workload(10**12, 2, 6, 6, type=workload_type)
            for limits in (Limits(), Limits(phase_timeout=60)):
                deadlines = limits.deadlines(workload, hosts)
                self.assertEqual(set(workload_type.jobs), set(deadlines))
