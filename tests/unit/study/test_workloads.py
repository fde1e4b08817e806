# SPDX-License-Identifier: Apache-2.0
"""Studies of TestDFSIO, and of TeraSort without checks of its data."""

import io
import re
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, host_profiles, share
from hvstack.progress import Progress
from hvstack.rally_plugins import output
from hvstack.report import page_cache, sweep_report
from hvstack.results import record
from hvstack.results.record_data import RunRecord
from hvstack.results.workload_types import TYPES
from hvstack.study import (
    claim_results,
    definition,
    paper_comparison,
    study_page,
    study_plan,
    study_report,
    study_run,
    study_store,
    verdicts,
)
from hvstack.sweep import run_times, sweep_store
from tests.unit.results import factory
from tests.unit.sweep.directories import SweepDirectories

CLAIM: dict[str, Any] = {
    'text': 'A single replica is written faster.',
    'variant': 'one',
    'against': 'two',
    'measure': 'write throughput',
    'rule': 'faster',
}
CONTENT: dict[str, Any] = {
    'question': 'Is a single replica written faster?',
    'base': {'workload': 'testdfsio', 'files': 6},
    'variants': {'one': {'replication': 1}, 'two': {'replication': 2}},
    'claims': [CLAIM],
}
SIZE = 100_000_000


def parse(**changes: Any) -> definition.Study:
    return definition.parse_study('mine', {**CONTENT, **changes}, 'mine.yaml')


class DefinitionTest(testtools.TestCase):
    def check_error(self, expected: str, **changes: Any) -> None:
        error = self.assertRaises(errors.InputError, parse, **changes)
        self.assertIn(expected, str(error))

    def test_workload(self) -> None:
        study = parse()
        self.assertEqual(
            ['testdfsio'], [workload.name for workload in study.workloads]
        )
        self.assertEqual(
            {'workload': 'testdfsio'}, study.variants[0].setup.to_mapping()
        )
        self.assertEqual(
            'i1, replication 1, files 6, workload testdfsio',
            study.variants[0].describe(),
        )

    def test_default(self) -> None:
        """The default is a setting that records do not contain."""
        claim = {**CLAIM, 'measure': 'rate'}
        default = parse(base={'maps': 6}, claims=[claim])
        explicit = parse(
            base={'maps': 6, 'workload': 'tpcx-hs'}, claims=[claim]
        )
        self.assertEqual(default.variants, explicit.variants)
        self.assertEqual({}, default.variants[0].setup.to_mapping())

    def test_errors_name_the_field(self) -> None:
        self.check_error(
            "mine.yaml: 'base.workload' is 'dfsio'. Use one of tpcx-hs",
            base={'workload': 'dfsio'},
        )
        for name in ('maps', 'reduces', 'output_replication'):
            self.check_error(
                f"'variants.one.{name}' does not apply to the workload "
                "'testdfsio'",
                base={'workload': 'testdfsio', name: 2},
            )
        self.check_error(
            "'variants.one.files' does not apply to the workload 'terasort'",
            base={'workload': 'terasort', 'files': 2},
        )
        self.check_error(
            "'claims.0.measure' is 'write throughput', which the workload "
            "'terasort' does not have. Use one of rate",
            base={'workload': 'terasort'},
        )
        for measure in ('local maps', 'blocks on one host'):
            self.check_error(
                "'claims.0.measure'", claims=[{**CLAIM, 'measure': measure}]
            )
        self.check_error(
            "'claims.0.phase' does not apply to 'write throughput'",
            claims=[{**CLAIM, 'phase': 'TestDFSIO write'}],
        )
        self.check_error(
            "'claims.0.phase' is 'HSSort'. Use one of TestDFSIO write",
            claims=[{**CLAIM, 'measure': 'rate', 'phase': 'HSSort'}],
        )

    def test_options_of_daemons(self) -> None:
        variants: dict[str, Any] = {
            'one': {'daemon.namenode': '-XX:+UseG1GC'},
            'two': {},
        }
        study = parse(variants=variants)
        self.assertEqual(
            {
                'workload': 'testdfsio',
                'daemons': {'namenode': '-XX:+UseG1GC'},
            },
            study.variants[0].setup.to_mapping(),
        )
        self.assertIn(
            'daemon.namenode -XX:+UseG1GC', study.variants[0].describe()
        )
        self.assertEqual(
            {'daemon_options'},
            claim_results.list_varied_facts(*study.variants),
        )
        self.check_error(
            "mine.yaml: 'variants.one' is not valid: Cannot set the JVM "
            "options of the daemon 'namenode': hvstack does not know 'x'",
            variants=variants | {'one': {'daemon.namenode': 'x'}},
        )

    def test_workloads_without_data(self) -> None:
        for name, measure in (
            ('nnbench', 'create rate'),
            ('mrbench', 'small job rate'),
        ):
            variants = {'one': {'maps': 2}, 'two': {'maps': 4}}
            claim = {**CLAIM, 'measure': measure}
            study = parse(
                base={'workload': name}, variants=variants, claims=[claim]
            )
            # The smallest data set, of which no rate is computed.
            self.assertEqual(100, study.get_size(study.variants[0]))
            self.assertEqual(2, study.variants[0].count_maps(100))
            self.assertEqual(
                {'map_tasks'},
                claim_results.list_varied_facts(*study.variants),
            )
            for setting, value in (
                *(('files', 2), ('replication', 1), ('size_factor', 2)),
                *(('file_size', '1MB'), ('reduces', 2)),
            ):
                self.check_error(
                    f"'variants.one.{setting}' does not apply to the "
                    f"workload '{name}'",
                    base={'workload': name, setting: value},
                    variants={'one': {}, 'two': {}},
                    claims=[claim],
                )
            for other in ('rate', 'write throughput', 'received bytes'):
                self.check_error(
                    f"'claims.0.measure' is '{other}', which the workload "
                    f"'{name}' does not have. Use one of missing blocks, "
                    f'{measure}',
                    base={'workload': name},
                    variants=variants,
                    claims=[{**CLAIM, 'measure': other}],
                )

    def test_programs_on_the_workers(self) -> None:
        for name, measure in (
            ('fio', 'disk read rate'),
            ('stress-ng', 'memory rate'),
            ('iperf3', 'network rate'),
        ):
            base: dict[str, Any] = {'workload': name}
            variants: dict[str, Any] = {
                'one': {'configuration': 'i1'},
                'two': {'configuration': 'bare-metal'},
            }
            claim = {**CLAIM, 'measure': measure}
            study = parse(base=base, variants=variants, claims=[claim])
            self.assertEqual(
                SIZE if name == 'fio' else 100,
                study.get_size(study.variants[0]),
            )
            for setting, value in (
                *(('maps', 2), ('replication', 1), ('tuning', 'vsphere6')),
                *(('file_size', '1MB'), ('reduces', 2), ('lost_hosts', 1)),
            ):
                self.check_error(
                    f"'variants.one.{setting}' does not apply to the "
                    f"workload '{name}'",
                    base={**base, setting: value},
                    variants=variants,
                    claims=[claim],
                )
            self.check_error(
                f"'variants.one.workload' is '{name}', which uses no settings "
                "of Hadoop. Delete those that begin with 'hadoop.'",
                base={**base, 'daemon.namenode': '-XX:+UseG1GC'},
                variants=variants,
                claims=[claim],
            )
            for other in ('rate', 'missing blocks', 'received bytes'):
                self.check_error(
                    f"'claims.0.measure' is '{other}', which the workload "
                    f"'{name}' does not have. Use one of ",
                    base=base,
                    variants=variants,
                    claims=[{**CLAIM, 'measure': other}],
                )

    def test_only_data_by_time_is_compared(self) -> None:
        for workload_type in TYPES.values():
            measures = [item.measure for item in workload_type.reported]
            study = parse(
                base={'configuration': 'i1', 'workload': workload_type.name},
                variants={'one': {}, 'two': {'configuration': 'i2'}},
                claims=[{**CLAIM, 'measure': (measures or ['rate'])[0]}],
            )
            published = paper_comparison.list_published(study)
            self.assertEqual(
                workload_type.name in ('tpcx-hs', 'terasort', 'testdfsio'),
                bool(published.variants),
                workload_type.name,
            )

    def test_a_claim_compares_runs_of_one_workload(self) -> None:
        for measure in ('write throughput', 'rate'):
            self.check_error(
                "mine.yaml: 'claims.0.against' is a variant with the workload "
                "'terasort', and 'one' has 'testdfsio'",
                base={'configuration': 'i1'},
                variants={
                    'one': {'workload': 'testdfsio'},
                    'two': {'workload': 'terasort'},
                },
                claims=[{**CLAIM, 'measure': measure}],
            )

    def test_a_table_is_about_one_workload(self) -> None:
        table = {'source': 'Table 2', 'columns': ['TeraSort']}
        changes: dict[str, Any] = {
            'paper': 'vsphere6',
            'base': {'workload': 'terasort'},
            'variants': {
                'one': {'row': '1 VM'},
                'two': {'row': '4 VMs', 'workload': 'tpcx-hs'},
                'three': {},
            },
            'claims': [{**CLAIM, 'measure': 'rate', 'against': 'three'}],
        }
        self.check_error(
            "'variants.two.row' is that of a variant with the workload "
            "'tpcx-hs'",
            table=table,
            **changes,
        )
        self.check_error(
            "'table.phase' is 'HSSort', which the workload 'terasort'",
            table={**table, 'phase': 'HSSort'},
            **changes,
        )

    def test_studies_of_the_package(self) -> None:
        study = definition.load('hve-locality')
        self.assertEqual(
            ['terasort', 'testdfsio'], [item.name for item in study.workloads]
        )
        throughputs = [
            claim.published
            for claim in study.claims
            if claim.measure == 'read throughput'
        ]
        self.assertEqual(2, len(throughputs))
        self.assertNotIn(None, throughputs)


class ReportTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(SweepDirectories())
        #: MB/s of TestDFSIO when it writes, by number of replicas.
        self.rates = {1: 60.0, 2: 40.0}
        self.files = 6
        self.count = 0
        self.arguments: list[dict[str, Any]] = []

    def rally(
        self, task: str, args: dict[str, Any], *_: object, records_sweep: str
    ) -> None:
        """Leave the record that Rally would leave."""
        (workload,) = args['workloads']
        self.assertEqual(workload['sweep'], records_sweep)
        self.arguments.append(workload)
        self.count += 1
        run = self.build_run(workload, workload['setup']['workload'])
        record.save(run, sweep_store.RECORDS_DIR)

    def build_run(self, workload: dict[str, Any], name: str) -> RunRecord:
        """Return the record of a run of a workload."""
        number = workload['first_index']
        run = factory.run(
            *(workload['configuration'], number, 100 + number),
            size=workload['size'],
            sweep=workload['sweep'],
            started=f'2026-11-24T{self.count:02}:00:00Z',
        )
        replication = workload.get('replication', 2)
        phases = factory.stored_phases(run)
        seconds = run.total_seconds
        if name == 'terasort':
            phases = [
                phases[0] | {'name': 'TeraGen', 'seconds': seconds * 0.4},
                phases[2]
                | {'name': 'TeraSort', 'seconds': seconds * 0.6}
                | {'locality': {'node': 5, 'node_group': 1, 'rack': 0}},
            ]
        elif name == 'mrbench':
            phases = [
                {
                    'name': 'MRBench',
                    'seconds': seconds,
                    'job_id': 'job_1_1',
                    'counters': {'MAP_INPUT_RECORDS': workload['maps']},
                    'reported': (20 if workload['maps'] > 2 else 30)
                    * (1 + number / 10)
                    + number / 9,
                }
            ]
            run = factory.edit(run, 'environment/map_tasks', workload['maps'])
            run = factory.edit(run, 'maps', workload['maps'])
            run = factory.edit(run, 'reduces', 1)
        elif name == 'fio':
            is_bare = workload['configuration'] == 'bare-metal'
            phases = [
                {
                    'name': f'fio {verb}',
                    'seconds': seconds / 2,
                    'reported': (100 if is_bare else 99) + number / 9,
                }
                for verb in ('write', 'read')
            ]
        else:
            # The passes differ as well.
            rate = self.rates[replication] * (1 + number / 10) + number / 9
            phases = [
                {
                    'name': f'TestDFSIO {verb}',
                    'seconds': seconds / 2,
                    'job_id': f'job_1_{verb}',
                    'counters': {
                        'HDFS_BYTES_READ': SIZE,
                        'HDFS_BYTES_WRITTEN': SIZE,
                    },
                    'reported': value,
                }
                for verb, value in (('write', rate), ('read', 70.0 + number))
            ]
            run = factory.edit(run, 'environment/files', self.files)
            run = factory.edit(run, 'maps', self.files)
            run = factory.edit(run, 'reduces', 1)
        run = factory.edit(run, 'phases', phases)
        run = factory.edit(run, 'replication', replication)
        return factory.edit(run, 'environment/workload', name)

    def run_study(self, **changes: Any) -> study_report.StudyReport:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallytask.run_task', self.rally
            )
        )
        started = study_store.create(parse(**changes), 'lab', 'lxc', {})
        self.stream = io.StringIO()
        stored = study_run.run_study(started, Progress(stream=self.stream))
        return study_report.build_report(started, stored)

    def test_remaining_time(self) -> None:
        """It follows from the runs so far, which begin at each full hour."""
        self.run_study()
        lines = [
            line[8:]
            for line in self.stream.getvalue().splitlines()
            if ' left, ' in line
        ]
        # A single run has no time between two clusters.
        self.assertEqual(
            'about 12 minutes left, and the time for clusters', lines[0]
        )
        self.assertEqual(
            [f'about {hours}.0 hours' for hours in (6, 5, 4, 3)]
            + ['about 120 minutes', 'about 60 minutes'],
            [line.partition(' left, until about ')[0] for line in lines[1:]],
        )

    def test_edited_host_profile(self) -> None:
        profile = share.HOST_PROFILES / 'vsphere6.yaml'
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'own.yaml'
        path.write_text(profile.read_text())
        created = study_store.create(parse(), str(path), 'kvm', {})
        path.write_text(profile.read_text().replace('262144', '131072'))
        started = study_store.load(created.id)
        self.assertEqual(created, started)
        error = self.assertRaises(
            errors.InputError, study_run.run_study, started, Progress()
        )
        self.assertIn(f"the host profile '{path}' has changed", str(error))

    def test_arguments(self) -> None:
        self.run_study()
        self.assertEqual(8, len(self.arguments))
        for workload in self.arguments:
            self.assertEqual({'workload': 'testdfsio'}, workload['setup'])
            self.assertEqual(6, workload['maps'])
            self.assertNotIn('reduces', workload)

    def test_verdicts_are_about_the_throughput(self) -> None:
        """The runs take equally long: only the reported values differ."""
        report = self.run_study(
            claims=[
                CLAIM,
                {**CLAIM, 'rule': {'at_least': 80}},
                {**CLAIM, 'measure': 'read throughput', 'rule': {'within': 3}},
                {**CLAIM, 'measure': 'rate', 'rule': {'within': 3}},
            ]
        )
        self.assertEqual(
            [verdicts.HOLDS, verdicts.FAILS, verdicts.HOLDS, verdicts.HOLDS],
            [result.verdict for result in report.claims],
        )
        percent = report.claims[0].percent
        assert percent is not None
        self.assertTrue(148 < percent.percent < 151, percent)
        text = study_page.format_text(report)
        self.assertIn('one against two, write throughput', text)
        self.assertIn('Workload TestDFSIO:', text)
        self.assertIn('TestDFSIO write', text)
        # Means of 60, 66.1, 72.2 and 78.3 MB/s.
        self.assertIn('(69.2 MB/s)', text)
        self.assertNotIn('HSSort', text)
        self.assertIn('are not results of TPCx-HS', text)
        self.assertNotIn('derived from', text)
        page = study_page.build_page(report)
        self.assertIn('TestDFSIO read s', page)
        self.assertIn('69.2 MB/s', page)
        self.assertNotIn('HSSort s', page)
        data: Any = study_report.to_mapping(report)
        self.assertEqual('TestDFSIO write', data['claims'][0]['phase'])
        self.assertEqual(
            {'read throughput', 'write throughput'},
            set(data['variants'][0]['reported']),
        )

    def test_other_numbers_of_files_are_not_compared(self) -> None:
        report = self.run_study(passes=2)
        self.assertEqual(verdicts.HOLDS, report.claims[0].verdict)
        build = self.build_run

        def build_run(workload: dict[str, Any], name: str) -> RunRecord:
            self.files = 6 * workload['replication']
            return build(workload, name)

        self.useFixture(
            fixtures.MonkeyPatch(
                'tests.unit.study.test_workloads.ReportTest.build_run',
                lambda _, *args: build_run(*args),
            )
        )
        changes: dict[str, Any] = {'base': {'workload': 'testdfsio'}}
        report = self.run_study(**changes)
        self.assertIn('files is 6 here and 12', report.claims[0].reason)
        variants = {
            'one': {'replication': 1, 'files': 6},
            'two': {'replication': 2, 'files': 12},
        }
        report = self.run_study(**changes, variants=variants)
        self.assertEqual('', report.claims[0].reason)

    def test_two_workloads_in_a_study(self) -> None:
        """Each has a table, a fit and measures of its own."""
        report = self.run_study(
            base={'configuration': 'i1'},
            variants={
                'sort': {'workload': 'terasort'},
                'one': {'workload': 'testdfsio', 'replication': 1},
                'two': {'workload': 'testdfsio'},
            },
            claims=[
                CLAIM,
                {
                    'text': 'The maps of the sort are local.',
                    'variant': 'sort',
                    'measure': 'local maps',
                    'rule': {'at_least': 50},
                },
                {**CLAIM, 'measure': 'rate', 'rule': {'within': 3}},
            ],
        )
        self.assertEqual(
            [verdicts.HOLDS] * 3, [item.verdict for item in report.claims]
        )
        self.assertIn("100.0 % of TeraSort's maps", report.claims[1].measured)
        # Only the runs of TestDFSIO belong to the fit.
        for index in (0, 2):
            percent = report.claims[index].percent
            assert percent is not None
            self.assertEqual(3, percent.degrees_of_freedom)
        text = study_page.format_text(report)
        self.assertIn('Workload TeraSort:', text)
        self.assertIn('Workload TestDFSIO:', text)
        self.assertEqual((), report.comparison.variants)

    def test_small_jobs(self) -> None:
        study = parse(
            base={'workload': 'mrbench'},
            variants={'one': {'maps': 2}, 'two': {'maps': 4}},
            claims=[{**CLAIM, 'measure': 'small job rate'}],
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallytask.run_task', self.rally
            )
        )
        started = study_store.create(study, 'lab', 'lxc', {})
        plan = study_plan.build_plan(
            started,
            host_profiles.load('vsphere6'),
            sweep_store.open_store(),
        )
        self.assertEqual([], plan['in_memory'])
        lines = study_plan.format_plan(plan)
        self.assertIn('- one: i1, maps 2, workload mrbench; no data', lines)
        self.assertIn('until runs with no data (mrbench)', ' '.join(lines))
        stored = study_run.run_study(started, Progress(stream=io.StringIO()))
        report = study_report.build_report(started, stored)
        self.assertEqual(
            [verdicts.HOLDS], [result.verdict for result in report.claims]
        )
        text = study_page.format_text(report)
        self.assertIn('one against two, small job rate', text)
        self.assertIn('1/min)', text)
        self.assertRegex(text, r'one +- +4 ')
        self.assertNotIn('smaller than the memory', text)
        self.assertIn('1/min', study_page.build_page(report))

    def test_programs_on_the_workers(self) -> None:
        report = self.run_study(
            base={'workload': 'fio'},
            variants={
                'one': {'configuration': 'i1'},
                'two': {'configuration': 'bare-metal'},
            },
            claims=[
                {
                    **CLAIM,
                    'measure': 'disk read rate',
                    'rule': {'within': 3},
                }
            ],
        )
        self.assertEqual(
            [verdicts.HOLDS], [result.verdict for result in report.claims]
        )
        # They run for a fixed time.
        self.assertEqual((), report.comparison.variants)
        text = study_page.format_text(report)
        self.assertIn('Workload fio:', text)
        self.assertIn('fio write', text)
        self.assertIn('MB/s)', text)
        self.assertNotIn('in percent of', text)
        self.assertNotIn('smaller than the memory', text)
        page = study_page.build_page(report)
        (table,) = re.findall(r'<table><caption>fio:.*?</table>', page, re.S)
        head, *rows = re.findall(r'<tr>(.*?)</tr>', table, re.S)
        for row in rows:
            self.assertEqual(
                len(re.findall('<th', head)), len(re.findall('<t[hd]', row))
            )
        records = sweep_store.open_store().load_records(
            self.arguments[0]['sweep']
        )
        error = self.assertRaises(
            errors.InputError, sweep_report.build_report, records
        )
        self.assertIn("the workload 'fio' runs for a fixed time", str(error))
        self.assertIsNone(output.build_interim_report(records))
        self.assertFalse(page_cache.fits_page_cache(records[0]))

    def test_times_of_runs(self) -> None:
        """Runs of another workload do not predict how long a run takes."""
        self.run_study()
        records = sweep_store.open_store().load_records
        runs = [
            run
            for number in (1, 2)
            for run in records(f'{self.arguments[0]["sweep"][:-1]}{number}')
        ]
        self.assertEqual(8, len(runs))
        median, _ = run_times.compute_median_times(runs, SIZE)
        self.assertIsNone(median)
        median, _ = run_times.compute_median_times(
            runs, SIZE, workload='testdfsio'
        )
        self.assertEqual(101.5, median)
