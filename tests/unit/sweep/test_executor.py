# SPDX-License-Identifier: Apache-2.0
"""A sweep is begun, inspected and resumed from marker and records alone."""

import contextlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, host_profiles, share
from hvstack.cli import report, sweep_summary
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL
from hvstack.progress import Progress
from hvstack.report import sweep_report, sweep_rows
from hvstack.results import passes, record, record_data, stopping
from hvstack.results.cloud_identity import parse_cloud
from hvstack.sweep import (
    executor,
    forecast,
    quick_sweeps,
    search_space,
    sweep_store,
)
from hvstack.sweep.executor import SweepStatus
from hvstack.sweep.search_space import ParameterValues, Space
from hvstack.sweep.sweep_store import Sweep, SweepSpec
from tests.unit.cli.runner import run_command
from tests.unit.cloud import fake
from tests.unit.results import factory
from tests.unit.sweep.directories import BaselineHosts, SweepDirectories

SIZE = 1_000_000


def sweep_spec(area: Space, **options: Any) -> SweepSpec:
    return SweepSpec(
        *('one-at-a-time', area.parameter_values, area.start),
        *('vsphere6', 'kvm'),
        **options,
    )


def begin_and_save(
    area: Space, spec: SweepSpec, runs: int, size_bytes: int
) -> Sweep:
    """Begin a sweep as 'sweep run' does, with its marker."""
    sweep = executor.begin_sweep(area, spec, runs, size_bytes)
    sweep_store.save_sweep(sweep)
    return sweep


class CourseTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(SweepDirectories())
        self.tasks: list[list[tuple[str, int, int]]] = []
        self.baselines: set[str] = set()
        self.cloud = self.useFixture(
            fake.FakeCloud(
                services={'image': fake.GLANCE, 'network': fake.NEUTRON}
            )
        )
        self.cloud.resources()
        self.conn = self.cloud.connect()
        self.useFixture(BaselineHosts())
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallytask.run_task', self.rally
            )
        )
        self.remaining_runs = 100
        area = search_space.explore_space(
            search_space.parse_space(['instances=1,2,4']),
            host_profiles.load('vsphere6'),
            'kvm',
        )
        self.sweep = begin_and_save(area, sweep_spec(area), 2, SIZE)
        self.host = 'vsphere6'
        self.broken = ''
        self.scatter = 0.0
        self.is_away = False

    def rally(
        self,
        task: str,
        task_args: dict,
        sweep: str,
        _: Progress,
        options: dict,
    ) -> None:
        """Stand in for Rally: leave the records of its runs."""
        self.assertEqual('sweep.yaml', task)
        self.assertEqual(self.host, options['cloud']['host_profile'])
        self.assertEqual('hvstack', options['hadoop']['tuning'])
        self.baselines.add(task_args['baseline'])
        name_in_records = task_args['sweep']
        for workload in task_args['workloads']:
            name = workload['configuration']
            first, sizes = workload['first_index'], workload['sizes']
            facts: dict[str, Any] = {}
            if name != BARE_METAL:
                facts['backend'] = options['cloud']['backend']
            if self.is_away and name != BARE_METAL:
                continue
            self.tasks.append([(name, first, len(sizes))])
            for index in range(len(sizes)):
                if self.remaining_runs == 0:
                    return
                self.remaining_runs -= 1
                seconds = 100.0 if name.startswith('i2') else 110.0
                # Whatever the order of the runs, which the ID of the sweep
                # decides.
                number = sum(map(ord, name)) + 3 * (first + index) ** 2
                seconds += self.scatter * (number % 7 - 3)
                bad = self.broken and name.startswith(self.broken)
                run_record = factory.run(
                    *(name, first + index, seconds),
                    sweep=name_in_records,
                    size=SIZE,
                    reason='its cluster died' if bad else '',
                    observations={
                        'cluster': f'{name_in_records}-{name}-{first}'
                    },
                    **facts,
                )
                location = passes.locate_run(
                    sweep_store.load_records(name_in_records),
                    run_record.configuration,
                    SIZE,
                    run_record.observations.cluster,
                )
                run_record = record_data.add_observations(
                    run_record,
                    {
                        'pass': location.pass_number,
                        'position': location.position,
                    },
                )
                factory.save(run_record, sweep_store.RECORDS_DIR)

    def test_run_ends_with_a_winner(self) -> None:
        status = executor.run_sweep(self.sweep, Progress())
        self.assertEqual([], status.workloads)
        assert status.choice
        self.assertTrue(status.choice.best.startswith('i2-'))
        self.assertTrue(sweep_store.list_sweeps()[-1].finished)
        self.assertEqual(self.sweep.spec, sweep_store.list_sweeps()[-1].spec)

    def test_a_report_tells_the_way_and_what_was_skipped(self) -> None:
        area = search_space.explore_space(
            search_space.parse_space(['instances=1,2', 'cpu_ratio=1,2']),
            host_profiles.load('vsphere6'),
            'kvm',
        )
        sweep = begin_and_save(area, sweep_spec(area), 2, SIZE)
        records = executor.run_sweep(sweep, Progress()).records
        summary = sweep_summary.of(records)
        self.assertEqual(
            ['i1-c2'], [skipped.name for skipped in summary.skipped]
        )
        self.assertTrue(summary.way[0].startswith('instances 2'), summary.way)
        self.assertIn('+10 %', summary.way[0])
        self.assertIn('skipped: i1-c2: ', summary.lines()[0])
        data = json.loads(report.render(records, 'json'))
        self.assertEqual(list(summary.way), data['way'])
        self.assertIn('i1-c2', report.render(records, 'csv'))
        # What is broken takes only this part away, and is named.
        path = next(sweep_store.SWEEPS_DIR.glob(f'{sweep.id}.json'))
        path.write_text('{')
        broken = sweep_summary.of(records)
        self.assertEqual(((), ()), (broken.way, broken.skipped))
        self.assertIn(str(path), broken.unreadable[0])

    def test_emulated_runs_need_no_bare_metal(self) -> None:
        sweep = replace(
            self.sweep, spec=replace(self.sweep.spec, backend='qemu')
        )
        status = executor.run_sweep(sweep, Progress())
        names = {name for task in self.tasks for name, _, _ in task}
        self.assertNotIn(BARE_METAL, names)
        self.assertEqual([], status.workloads)
        self.assertEqual('', forecast.format_remaining(sweep))

    def test_passes_until_the_intervals_are_narrow(self) -> None:
        area = search_space.explore_space(
            search_space.parse_space(['instances=1,2']),
            host_profiles.load('vsphere6'),
            'kvm',
        )
        spec = replace(
            sweep_spec(area), strategy='full-factorial', half_width=5.0
        )
        sweep = begin_and_save(area, spec, 2, SIZE)
        self.assertIn(sweep, sweep_store.list_sweeps())
        # Killed in between, it ends with the same runs.
        self.remaining_runs = 7
        self.assertRaises(
            errors.RunFailedError, executor.run_sweep, sweep, Progress()
        )
        self.remaining_runs = 100
        status = executor.run_sweep(sweep, Progress())
        # These runs do not scatter, but no earlier sweep exists.
        self.assertEqual(
            {8},
            {len(status.measured.get_rates(c)) for c in area.possible},
        )
        for wrong_spec in (
            replace(spec, strategy='one-at-a-time'),
            replace(spec, half_width=-1.0),
            replace(spec, strategy='model-based', baseline='auto'),
            replace(spec, baseline='auto'),
            replace(spec, backend='qemu'),
        ):
            error = self.assertRaises(
                errors.InputError,
                executor.begin_sweep,
                *(area, wrong_spec, 2, SIZE),
            )
            self.assertIn('--half-width', str(error))

    def test_outage(self) -> None:
        """Bare metal can be measured while a service of the cloud is away."""
        self.is_away = True
        for count in (1, 2):
            self.assertRaises(
                errors.RunFailedError,
                executor.run_sweep,
                self.sweep,
                Progress(),
            )
            records = record.load_all(sweep_store.RECORDS_DIR)
            self.assertGreaterEqual(3 * count, len(list(records)))
        self.is_away = False
        status = executor.run_sweep(self.sweep, Progress())
        self.assertEqual([], status.excluded_labels)

    def test_resume_runs_each_once(self) -> None:
        executor.run_sweep(self.sweep, Progress())
        whole = sorted(
            (run_record.configuration, run_record.index)
            for run_record in record.load_all(sweep_store.RECORDS_DIR)
        )
        for path in sweep_store.RECORDS_DIR.glob('*.json'):
            path.unlink()
        # Ended after each number of runs, again and again.
        for run_count in (1, 2, 3):
            self.remaining_runs = run_count
            self.assertRaises(
                errors.RunFailedError,
                executor.run_sweep,
                self.sweep,
                Progress(),
            )
        self.remaining_runs = 100
        executor.run_sweep(self.sweep, Progress())
        self.assertEqual(
            whole,
            sorted(
                (run_record.configuration, run_record.index)
                for run_record in record.load_all(sweep_store.RECORDS_DIR)
            ),
        )

    def begin_search(self, **options: Any) -> Sweep:
        area = executor.build_space(self.sweep.spec, self.sweep.tuning)
        spec = replace(sweep_spec(area, **options), strategy='model-based')
        return begin_and_save(area, spec, 3, SIZE)

    def test_resume_with_an_edited_host_profile(self) -> None:
        """Runs of two kinds of hardware, or of two flavors, were compared."""
        profile = share.HOST_PROFILES / 'vsphere6.yaml'
        text = profile.read_text()
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'own.yaml'
        path.write_text(text)
        self.host = str(path)
        area = executor.build_space(self.sweep.spec, 'hvstack')
        spec = replace(self.sweep.spec, host=self.host)
        sweep = begin_and_save(area, spec, 2, SIZE)
        sweep = sweep_store.load_sweep(
            sweep_store.SWEEPS_DIR / f'{sweep.id}.json'
        )
        path.write_text(text.replace('262144', '131072'))
        error = self.assertRaises(
            errors.InputError, executor.run_sweep, sweep, Progress()
        )
        self.assertIn(f"the host profile '{path}' has changed", str(error))
        self.assertEqual([], self.tasks)
        path.write_text(text)
        executor.run_sweep(sweep, Progress())

    def test_answer_with_an_edited_host_profile(self) -> None:
        """The marker decides which configurations a sweep has."""
        text = (share.HOST_PROFILES / 'vsphere6.yaml').read_text()
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'own.yaml'
        self.host = str(path)
        for before, after, labels in (
            # Not even the start, i1, fits.
            (262144, 1200, []),
            (262144, 4096, ['i1', 'i2']),
            (4096, 262144, ['i1', 'i2', 'i4']),
        ):
            path.write_text(text.replace('262144', str(before)))
            spec = replace(self.sweep.spec, host=self.host)
            area = executor.build_space(spec, 'hvstack')
            spec = replace(spec, strategy='model-based')
            sweep = begin_and_save(area, spec, 3, SIZE)
            status = executor.run_sweep(sweep, Progress())
            path.write_text(text.replace('262144', str(after)))
            profile = host_profiles.load(self.host)
            possible = []
            for item in (parse('i1'), parse('i2'), parse('i4')):
                with contextlib.suppress(errors.InputError):
                    search_space.check_possible(
                        item, profile, 'kvm', (), 'hvstack'
                    )
                    possible.append(item.label)
            self.assertEqual(labels, possible)
            again = executor.load_status(sweep)
            self.assertEqual(
                (status.decision, status.choice, []),
                (again.decision, again.choice, again.workloads),
            )
            space = again.strategy.space
            self.assertEqual(area.possible, space.possible)
            self.assertEqual(
                {item.name: 'it could not exist when the sweep began'
                 for item in area.skipped},
                {item.name: item.reason for item in space.skipped},
            )  # fmt: skip

    def test_search_is_confirmed(self) -> None:
        """The runs of the search and of the confirmation stay apart."""
        sweep = self.begin_search()
        status = executor.run_sweep(sweep, Progress())
        self.assertEqual([], status.workloads)
        assert status.decision
        self.assertTrue(status.decision.winner.startswith('i2-'))
        self.assertTrue(status.decision.is_finished)
        self.assertEqual(status.decision.clusters, len(status.search_records))
        # No bare metal in the search, and every run has its own cluster.
        names = [o.configuration for o in status.search_records]
        self.assertNotIn(BARE_METAL, names)
        self.assertEqual(
            len(names),
            len({o.observations.cluster for o in status.search_records}),
        )
        confirmed = [o.configuration for o in status.records]
        for name in (status.decision.winner, status.decision.runner_up):
            self.assertEqual(3, confirmed.count(name))
        # One in each pass, and the last run.
        self.assertEqual(4, confirmed.count(BARE_METAL))
        self.assertEqual(10, len(confirmed))
        self.assertEqual(
            {0, 1, 2},
            {o.observations.pass_number for o in status.records},
        )
        assert status.choice
        self.assertEqual(status.decision.winner, status.choice.selected)
        # The task compares no run of the search with a baseline.
        self.assertEqual({''}, self.baselines)

    def test_percentage_of_the_confirmation_alone(self) -> None:
        sweep = self.begin_search()
        status = executor.run_sweep(sweep, Progress())
        stored = list(sweep_store.open_store().iter_sweeps())
        decision = status.decision
        reports = [
            sweep_report.build_report(
                records, history_records=history, decision=decision
            )
            for records, history in (
                (status.records, stored),
                (status.records, []),
                (status.search_records, stored),
            )
        ]
        for built in reports[:2]:
            rows = {row.configuration: row for row in built.rows}
            assert decision
            self.assertEqual(
                {decision.winner, decision.runner_up, BARE_METAL}, set(rows)
            )
            percent = rows[decision.winner].percent
            assert percent
            self.assertEqual((3, 4), (percent.clusters,
                                      percent.baseline_clusters))  # fmt: skip
            self.assertEqual(0, built.pooled.history)
            self.assertIn('i2 is selected: 110.0 %', built.headline)
            self.assertIn('is lost by this choice', built.headline)
        self.assertEqual(
            {sweep_rows.SEARCH}, {row.status for row in reports[2].rows}
        )
        self.assertEqual({None}, {row.percent for row in reports[2].rows})
        self.assertIn('No percentage', reports[2].headline)
        # Not with bare metal of another sweep either.
        mixed = [
            *status.search_records,
            *(o for o in status.records if o.kind == 'baseline'),
        ]
        built = sweep_report.build_report(mixed)
        self.assertEqual(
            {None},
            {o.percent for o in built.rows if o.configuration != BARE_METAL},
        )

    def test_killed_search_continues(self) -> None:
        sweep = self.begin_search()
        counts = []
        for run_count in (2, 3, 1, 100):
            self.remaining_runs = run_count
            if run_count < 100:
                self.assertRaises(
                    errors.RunFailedError,
                    executor.run_sweep,
                    sweep,
                    Progress(),
                )
            else:
                executor.run_sweep(sweep, Progress())
            status = executor.load_status(sweep)
            counts.append(len([*status.records, *status.search_records]))
        # The same runs as without an interruption, in the same order.
        for path in sweep_store.RECORDS_DIR.glob('*.json'):
            path.unlink()
        again = executor.run_sweep(sweep, Progress())
        self.assertEqual(
            [2, 5, 6, len([*again.records, *again.search_records])], counts
        )
        self.assertEqual(
            *(
                [
                    (o.sweep, o.configuration, o.index)
                    for o in (*part.search_records, *part.records)
                ]
                for part in (again, status)
            )
        )
        assert status.decision and again.decision
        self.assertEqual(status.decision.winner, again.decision.winner)

    def call(self, *args: str) -> str:
        status, out, err = run_command(*args)
        self.assertEqual(0, status, err)
        return out

    def test_report_before_and_after_the_confirmation(self) -> None:
        sweep = self.begin_search()
        directory = str(sweep_store.RECORDS_DIR)
        options = ('--records', directory)
        self.remaining_runs = 3
        self.assertRaises(
            errors.RunFailedError, executor.run_sweep, sweep, Progress()
        )
        for args in ((), (sweep.id,), (f'{sweep.id}-search',)):
            text = ' '.join(self.call('report', *args, *options).split())
            self.assertIn('The search is not finished', text)
            self.assertIn('No percentage: the runs of a search', text)
        fields = json.loads(self.call('sweep', 'show', sweep.id, '-f', 'json'))
        self.assertIn('is lost by this choice', fields['Search'])
        self.assertEqual(3, fields['Runs'])
        self.remaining_runs = 100
        status = executor.run_sweep(sweep, Progress())
        data = json.loads(self.call('report', *options, '-f', 'json'))
        assert status.decision
        self.assertEqual(sweep.id, data['sweep'])
        self.assertEqual(status.decision.winner, data['choice']['selected'])
        self.assertEqual(
            status.decision.clusters, data['decision']['clusters']
        )
        self.assertEqual(3, len(data['rows']))
        text = ' '.join(self.call('report', sweep.id, *options).split())
        self.assertIn('i2 is selected: 110.0 % of bare metal (95 %', text)
        self.assertIn('The search selects i2 after', text)
        sweep_rows = json.loads(self.call('sweep', 'list', '-f', 'json'))
        self.assertEqual(
            [str(sum(o.valid for o in (*status.records,
                                       *status.search_records)))],
            [row['Runs'] for row in sweep_rows if row['ID'] == sweep.id],
        )  # fmt: skip
        self.assertNotIn(
            f'{sweep.id}-search', [row['ID'] for row in sweep_rows]
        )

    def test_budget(self) -> None:
        for budget, error in (('10', True), ('11', False), ('x', True)):
            if error:
                self.assertRaises(
                    errors.InputError, self.begin_search, budget=budget
                )
                continue
            sweep = self.begin_search(budget=budget)
            self.assertIn(sweep, sweep_store.list_sweeps())
            status = executor.run_sweep(sweep, Progress())
            # The confirmation has 10 of the runs.
            self.assertEqual(1, len(status.search_records))
            self.assertEqual(10, len(status.records))
        area = executor.build_space(self.sweep.spec, self.sweep.tuning)
        self.assertRaises(
            errors.InputError,
            executor.begin_sweep,
            *(area, sweep_spec(area, budget='40'), 2, SIZE),
        )

    def test_budget_of_hours_uses_the_times_of_the_runs(self) -> None:
        # A run takes 100 or 110 s, and the next one begins at once. The ID of
        # a sweep is the seed of its search, which measures both here.
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.sweep_store.create_id',
                lambda prefix: f'{prefix}-two',
            )
        )
        sweep = self.begin_search(budget='0.4h')
        status = executor.run_sweep(sweep, Progress())
        self.assertEqual(3, len(status.search_records))
        self.assertEqual(10, len(status.records))

    def test_budget_of_hours_that_is_too_small(self) -> None:
        # Six or seven runs fit into it, and --runs 3 alone needs ten.
        sweep = self.begin_search(budget='0.2h')
        status = executor.run_sweep(sweep, Progress())
        self.assertEqual(1, len(status.search_records))
        self.assertEqual(4, len(status.records))
        self.assertEqual({1}, self.count_confirmed(status))
        self.assertEqual([], executor.load_status(sweep).workloads)
        # The next sweep knows how long a run takes.
        records = record.load_all(sweep_store.RECORDS_DIR)
        end = max(run_record.ended for run_record in records)
        with fixtures.MonkeyPatch(
            'hvstack.sweep.sweep_store.format_now', lambda: end
        ):
            error = self.assertRaises(
                errors.InputError, self.begin_search, budget='0.2h'
            )
            self.begin_search(budget='0.4h')
        self.assertRegex(
            str(error),
            r'^Cannot use --budget 0\.2h: [67] runs of 1\d\d s fit into it, '
            'and the confirmation alone needs 10 runs. Use ',
        )

    def test_budget_of_hours_ignores_runs_of_other_backends(self) -> None:
        """Emulated CPUs are many times slower."""
        for backend in ('qemu', 'kvm'):
            run_record = factory.run(
                *('i1', 0, 1800),
                sweep=f'earlier-{backend}',
                size=SIZE,
                started='2026-11-01T00:00:00Z',
                backend=backend,
            )
            factory.save(run_record, sweep_store.RECORDS_DIR)
            if backend == 'qemu':
                self.begin_search(budget='0.4h')
            else:
                self.assertRaises(
                    errors.InputError, self.begin_search, budget='0.4h'
                )

    def test_budget_of_hours_ignores_runs_of_other_clouds(self) -> None:
        """Several clouds can share a store of records."""
        for cloud in ('https://two:5000', 'https://one:5000'):
            run_record = factory.run(
                *('i1', 0, 1800),
                sweep=f'earlier-{cloud[8:11]}',
                size=SIZE,
                started='2026-11-01T00:00:00Z',
                backend='kvm',
                observations={'cloud': asdict(parse_cloud(cloud))},
            )
            factory.save(run_record, sweep_store.RECORDS_DIR)
            options = {'budget': '0.4h', 'cloud': 'https://one:5000 north'}
            if cloud == 'https://two:5000':
                self.begin_search(**options)
            else:
                self.assertRaises(
                    errors.InputError, self.begin_search, **options
                )

    def test_failed_runs_use_the_budget(self) -> None:
        self.broken = 'i2-'
        sweep = self.begin_search(budget='15')
        status = executor.run_sweep(sweep, Progress())
        self.assertEqual(2, sum(not o.valid for o in status.search_records))
        self.assertGreaterEqual(
            15, len([*status.records, *status.search_records])
        )

    def confirm(
        self, kit: str = '', min_passes: int = 3, **options: Any
    ) -> SweepStatus:
        """Run a search whose confirmation has a half width.

        :param min_passes: minimum number of passes without earlier sweeps.
        """
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.results.stopping.MIN_PASSES', min_passes
            )
        )
        sweep = self.begin_search(half_width=5.0, **options)
        assert sweep.spec
        sweep = replace(sweep, spec=replace(sweep.spec, kit=kit))
        status = executor.run_sweep(sweep, Progress())
        self.assertEqual([], status.workloads)
        return status

    def count_confirmed(self, status: SweepStatus) -> set[int]:
        """Return the numbers of runs of the confirmed configurations."""
        assert status.search
        return {
            len(status.measured.get_rates(item))
            for item in status.search.confirmed_configurations
        }

    def test_confirmation_ends_when_its_intervals_are_narrow(self) -> None:
        # These runs do not scatter, but no earlier sweep exists.
        status = self.confirm(min_passes=stopping.MIN_PASSES)
        self.assertEqual({8}, self.count_confirmed(status))
        configurations = [
            item for item in status.records if item.kind == 'configuration'
        ]
        self.assertEqual(16, len(configurations))

    def test_confirmation_continues_until_its_intervals_are_narrow(
        self,
    ) -> None:
        self.scatter = 1.5
        status = self.confirm()
        (count,) = self.count_confirmed(status)
        self.assertGreater(count, 3)
        assert status.search
        for item in status.search.confirmed_configurations:
            margin = status.corrected_rates.compute_ratio(item.name).margin
            self.assertLessEqual(margin or 100, 5.0)

    def test_earlier_sweeps_shorten_the_confirmation(self) -> None:
        # Each has 5 degrees of freedom.
        self.save_sweep('earlier', '2026-11-21T04:00:00Z', 0.05)
        self.save_sweep('another', '2026-11-21T03:00:00Z', 0.05)
        self.scatter = 0.5
        self.assertEqual({3}, self.count_confirmed(self.confirm(min_passes=8)))

    def test_few_earlier_runs_do_not_shorten_the_confirmation(self) -> None:
        self.save_sweep('earlier', '2026-11-21T04:00:00Z', 0.05)
        self.scatter = 0.5
        self.assertEqual({8}, self.count_confirmed(self.confirm(min_passes=8)))

    def test_later_sweeps_do_not_change_a_finished_sweep(self) -> None:
        self.scatter = 1.5
        status = self.confirm()
        sweep = sweep_store.load_sweep(
            sweep_store.SWEEPS_DIR / f'{status.records[0].sweep}.json'
        )
        # The marker has the time of this test, and the runs have another one.
        sweep = replace(sweep, started=status.search_records[0].started)
        self.save_sweep('later', '2026-11-23T00:00:00Z')
        again = executor.load_status(sweep)
        self.assertEqual([], again.workloads)
        self.assertEqual(status.corrected_rates, again.corrected_rates)
        reports = [
            sweep_report.build_report(
                status.records,
                history_records=stored,
                decision=status.decision,
            )
            for stored in (sweep_store.open_store().iter_sweeps(), [])
        ]
        self.assertEqual(reports[1].headline, reports[0].headline)

    def test_confirmation_stays_in_its_budget(self) -> None:
        """It has the runs that the search leaves."""
        status = self.confirm(budget='20', min_passes=10)
        self.assertLessEqual(
            len([*status.records, *status.search_records]), 20
        )
        # Another pass has three runs.
        self.assertGreater(
            len([*status.records, *status.search_records]), 20 - 3
        )
        (count,) = self.count_confirmed(status)
        self.assertGreater(count, 3)

    def test_confirmation_with_pairs_of_the_kit(self) -> None:
        status = self.confirm(kit='/kit')
        self.assertEqual({6}, self.count_confirmed(status))

    def test_failed_configuration_is_not_searched(self) -> None:
        self.broken = 'i2-'
        sweep = self.begin_search()
        status = executor.run_sweep(sweep, Progress())
        assert status.decision
        self.assertFalse(status.decision.winner.startswith('i2-'))
        self.assertEqual(['i2'], status.excluded_labels)
        failed = [o for o in status.search_records if not o.valid]
        self.assertEqual(2, len(failed))

    def save_sweep(
        self, name: str, started: str, scatter: float = 1.0
    ) -> None:
        """Save a sweep of two configurations that scatter much."""
        for index in range(12):
            seconds = 50 + scatter * index * index
            run_record = factory.run(
                *(f'i{1 + index % 2}', index // 2, seconds),
                sweep=name,
                size=SIZE,
                started=started,
                backend='kvm',
            )
            factory.save(run_record, sweep_store.RECORDS_DIR)

    def test_decision_does_not_change_with_its_confirmation(self) -> None:
        """Neither the confirmation nor later sweeps count in the search."""
        sweep = replace(self.begin_search(), started='2026-11-21T05:00:00Z')
        status = executor.run_sweep(sweep, Progress())
        assert status.search
        self.assertIsNone(status.search.next_configuration)
        self.assertEqual(0, status.strategy.settings.scatter.degrees)
        self.save_sweep('later', '2026-11-21T06:00:00Z')
        self.assertEqual(status.decision, executor.load_status(sweep).decision)
        # The confirmation does not count if the clock was set back.
        for started, degrees in (
            ('2026-11-21T05:59:00Z', 0),
            ('2026-11-22T05:00:00Z', 5),
        ):
            again = executor.load_status(replace(sweep, started=started))
            self.assertEqual(degrees, again.strategy.settings.scatter.degrees)

    def test_pairs_of_the_kit_are_one_cluster_of_the_search(self) -> None:
        sweep = self.begin_search()
        sweep = replace(sweep, spec=replace(sweep.spec, kit='/kit'))
        status = executor.load_status(sweep)
        ((first, second),) = status.workloads
        self.assertEqual([0, 1], [first.index, second.index])
        self.remaining_runs = 1
        self.assertRaises(
            errors.RunFailedError, executor.run_sweep, sweep, Progress()
        )
        status = executor.load_status(sweep)
        self.assertEqual(1, len([*status.records, *status.search_records]))
        # The second run of the pair stands alone.
        (workload,) = status.workloads
        self.assertEqual([1], [step.index for step in workload])
        self.assertEqual(first.configuration, workload[0].configuration)

    def test_search_is_compared_with_no_baseline(self) -> None:
        for index in range(2):
            run_record = factory.run(
                *(BARE_METAL, index, 90), sweep='imported', size=SIZE
            )
            factory.save(run_record, sweep_store.RECORDS_DIR)
        sweep = self.begin_search(baseline='imported')
        self.remaining_runs = 2
        self.assertRaises(
            errors.RunFailedError, executor.run_sweep, sweep, Progress()
        )
        self.assertEqual({''}, self.baselines)
        self.remaining_runs = 100
        status = executor.run_sweep(sweep, Progress())
        self.assertEqual({'', 'imported'}, self.baselines)
        self.assertEqual(6, len(status.records))

    def resume(self, *args: str) -> tuple[int, str, str]:
        """Return status, output and progress of the command."""
        with (
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallyenv.ensure_environment', lambda *_: None
            ),
            fixtures.MonkeyPatch(
                'hvstack.cloud.connection.connect', lambda *_: self.conn
            ),
            fixtures.MonkeyPatch(
                'hvstack.sweep.recovery.recover', lambda *_: []
            ),
        ):
            return run_command('sweep', 'resume', '--os-cloud', 'x', *args)

    def test_a_cluster_that_dies_does_not_end_the_sweep(self) -> None:
        self.broken = 'i4-'
        status, out, err = self.resume()
        self.assertEqual(6, status)
        message = err.splitlines()[-1]
        self.assertIn('1 configuration failed (i4), and the others', message)
        # The others were measured, this one was tried once more.
        self.assertIn('i2', out)
        tries = [
            run_record
            for run_record in record.load_all(sweep_store.RECORDS_DIR)
            if run_record.configuration.startswith('i4-')
        ]
        self.assertEqual({False}, {run_record.valid for run_record in tries})
        self.assertEqual(2, sum(run_record.index == 0 for run_record in tries))

    def test_bare_metal_that_fails_is_told_by_the_status(self) -> None:
        self.broken = BARE_METAL
        status, _, err = self.resume()
        self.assertEqual(6, status)
        message = err.splitlines()[-1]
        self.assertRegex(
            message, r'^\d runs on bare metal failed, and the others'
        )

    def test_each_step_says_what_it_gained(self) -> None:
        status, _, err = self.resume()
        self.assertEqual(0, status, err)
        lines = [line.partition('] ')[2] for line in err.splitlines()]
        # One cluster on bare metal and two passes leave nothing to estimate.
        first = lines.index(
            'i1: 100.0 % of bare metal (too few runs for an interval)'
        )
        (gain,) = [line for line in lines if 'instances 2' in line]
        self.assertIn('step before: instances 2 +10 % (95 % ', gain)
        (better,) = [line for line in lines if line.startswith('i2: ')]
        self.assertIn('110.0 % of bare metal (95 % interval', better)
        # Each when it is known, and once.
        self.assertLess(first, lines.index(gain))
        self.assertEqual(1, len([o for o in lines if o.startswith('i1: ')]))

    def test_how_much_is_left(self) -> None:
        self.assertIn(
            'left: 10 runs, no run of this size',
            forecast.format_remaining(self.sweep),
        )
        # As long as those of another sweep on this backend, until it has runs
        # of its own.
        factory.save(
            factory.run(
                *('i1', 0, 9000),
                sweep='emulated',
                size=SIZE,
                started='2026-11-21T06:00:00Z',
                backend='qemu',
            ),
            sweep_store.RECORDS_DIR,
        )
        factory.save(
            factory.run(
                *(BARE_METAL, 0, 600),
                sweep='other',
                size=SIZE,
                started='2026-11-21T05:00:00Z',
            ),
            sweep_store.RECORDS_DIR,
        )
        self.assertRegex(
            forecast.format_remaining(self.sweep),
            r'^about 100 minutes left, until about (\w+ )?\d\d:\d\d: '
            '10 runs of 600 s$',
        )
        self.remaining_runs = 3
        self.assertRaises(
            errors.RunFailedError, executor.run_sweep, self.sweep, Progress()
        )
        self.assertIn('7 runs of 110 s', forecast.format_remaining(self.sweep))
        self.remaining_runs = 100
        executor.run_sweep(self.sweep, Progress())
        self.assertEqual('', forecast.format_remaining(self.sweep))

    def test_how_much_of_a_quick_sweep_is_left(self) -> None:
        quick = sweep_store.create_sweep([parse('i1'), parse('i2')], 2, SIZE)
        self.assertIn('left: 8 runs', forecast.format_remaining(quick))
        factory.save(
            factory.run(BARE_METAL, 0, 7200, sweep=quick.id, size=SIZE),
            sweep_store.RECORDS_DIR,
        )
        self.assertRegex(
            forecast.format_remaining(quick),
            r'^about 14.0 hours left, until about (\w+ )?\d\d:\d\d: '
            '7 runs of 7200 s$',
        )

    def test_a_named_baseline_takes_the_place_of_bare_metal(self) -> None:
        for index in range(2):
            run_record = factory.run(
                *(BARE_METAL, index, 90), sweep='imported', size=SIZE
            )
            factory.save(run_record, sweep_store.RECORDS_DIR)
        area = executor.build_space(self.sweep.spec, self.sweep.tuning)
        sweep = begin_and_save(
            *(area, sweep_spec(area, baseline='imported', allow=('caps',))),
            *(2, SIZE),
        )
        status, out, err = self.resume(sweep.id)
        self.assertEqual(0, status, err)
        self.assertNotIn(
            BARE_METAL, {name for task in self.tasks for name, *_ in task}
        )
        self.assertEqual({'imported'}, self.baselines)
        self.assertIn('90.0', out)
        self.assertIn(
            sweep.spec,
            [stored_sweep.spec for stored_sweep in sweep_store.list_sweeps()],
        )

    def test_baselines_that_were_measured_later(self) -> None:
        """They change no percentage of a sweep that used auto."""

        def save_baseline(name: str, seconds: float, started: str) -> None:
            for index in range(2):
                run_record = factory.run(
                    *(BARE_METAL, index, seconds),
                    sweep=name,
                    size=SIZE,
                    started=started,
                )
                factory.save(run_record, sweep_store.RECORDS_DIR)

        save_baseline('before', 90, '2026-11-21T05:00:00Z')
        area = executor.build_space(self.sweep.spec, self.sweep.tuning)
        sweep = begin_and_save(
            *(area, sweep_spec(area, baseline='auto'), 2, SIZE)
        )
        outputs = [self.resume(sweep.id)]
        save_baseline('later', 45, '2026-11-28T05:00:00Z')
        outputs += [
            self.resume(sweep.id),
            self.resume(sweep.id, '--baseline', 'auto'),
        ]
        self.assertEqual([0, 0, 0], [status for status, *_ in outputs])
        first, again, other = (out for _, out, _ in outputs)
        self.assertEqual(first, again)
        # Unless the baseline is requested again.
        self.assertIn('i2 is best: 90.0 % of bare metal', first)
        self.assertIn('i2 is best: 45.0 % of bare metal', other)

    def test_a_misspelt_allowance_is_told_at_once(self) -> None:
        status, _, err = self.resume('--allow', 'cpas')
        self.assertEqual(2, status)
        self.assertIn("--allow 'cpas'", err)
        self.assertEqual([], self.tasks)

    def broken_record(self, sweep: str) -> Path:
        run_record = factory.run('i4', 0, 50, sweep=sweep, size=SIZE)
        path = factory.save(run_record, sweep_store.RECORDS_DIR)
        data = json.loads(path.read_text())
        path.write_text(json.dumps({**data, 'rate': 2 * data['rate']}))
        return path

    def test_a_broken_record_of_another_sweep_is_passed_over(self) -> None:
        self.broken_record('other')
        (sweep_store.RECORDS_DIR / 'torn.json').write_text('{"sweep": "')
        self.assertEqual(0, self.resume()[0])
        plan = self.call(
            *('sweep', 'plan', '--host', 'vsphere6', '--backend', 'kvm'),
            *('--records', str(sweep_store.RECORDS_DIR), '--size', f'{SIZE}'),
            *('--values', 'instances=1,2'),
        )
        self.assertIn('about 0.', plan)

    def test_a_broken_record_leaves_the_list(self) -> None:
        path = self.broken_record(self.sweep.id)
        quick = sweep_store.create_sweep([parse('i1')], 1, SIZE)
        rows = json.loads(self.call('sweep', 'list', '-f', 'json'))
        runs = {row['ID']: row['Runs'] for row in rows}
        self.assertEqual('0 of 4', runs[quick.id])
        self.assertIn(str(path), runs[self.sweep.id])

    def test_a_broken_record_stops_its_own_sweep(self) -> None:
        path = self.broken_record(self.sweep.id)
        status, _, err = self.resume()
        self.assertEqual(2, status)
        self.assertIn(str(path), err.splitlines()[-1])
        self.assertEqual([], self.tasks)

    def test_rally_that_does_nothing_is_no_endless_loop(self) -> None:
        self.remaining_runs = 0
        error = self.assertRaises(
            errors.RunFailedError, executor.run_sweep, self.sweep, Progress()
        )
        self.assertIn('sweep resume', str(error))
        self.assertEqual(1, len(self.tasks))

    def test_host_profile_that_is_gone(self) -> None:
        sweep = sweep_store.Sweep(
            *('sweep-1', (parse('i1'),), 2, SIZE, '2026-11-21T05:45:00Z'),
            spec=sweep_store.SweepSpec(
                'one-at-a-time',
                ParameterValues(instances=(1, 2)),
                *(parse('i1'), 'gone.yaml', 'lxc'),
            ),
        )
        error = self.assertRaises(
            errors.InputError, executor.load_status, sweep
        )
        self.assertEqual(
            "Cannot read the search space of sweep 'sweep-1' (host profile "
            "'gone.yaml'): Cannot read gone.yaml: the file does not exist. "
            'Use another file.',
            str(error),
        )

    def test_quick_sweep_has_no_strategy(self) -> None:
        quick = sweep_store.create_sweep([parse('i1')], 2, SIZE)
        self.assertRaises(errors.InputError, executor.load_status, quick)
        # Nor does the quick one take a strategy's for its own.
        sweep, again = quick_sweeps.resume_or_begin(
            [parse('i1'), parse('i2'), parse('i4')], 2, SIZE
        )
        self.assertIsNone(sweep.spec)
        self.assertFalse(again)
