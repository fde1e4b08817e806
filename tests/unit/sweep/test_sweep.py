# SPDX-License-Identifier: Apache-2.0
"""Plan, state and task file of a sweep."""

import dataclasses
import itertools
import json
import re

import jinja2
import testtools
import yaml

from hvstack import errors, share
from hvstack.cli import demo
from hvstack.cli.sweep import SIZE_BYTES
from hvstack.hadoop import site_files
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL, BareMetal, parse_target
from hvstack.rally_plugins import contexts, output, scenario
from hvstack.rally_plugins.workload_args import WORKLOAD_SCHEMA
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.run_store import IndexedRun
from hvstack.sweep import quick_sweeps, run_order, sweep_store
from tests.unit.call_count import count_calls
from tests.unit.results import factory
from tests.unit.sweep.directories import SweepDirectories

SPEC = {
    'strategy': 'one-at-a-time',
    'values': {'instances': [1, 2]},
    'start': {},
    'host': 'vsan',
    'backend': 'kvm',
}
DIRECTORY = share.RALLY_TASKS
TASKS = jinja2.Environment(loader=jinja2.FileSystemLoader(DIRECTORY))


class PlanTest(testtools.TestCase):
    def test_bare_metal_before_each_and_at_the_end(self) -> None:
        steps = [
            [(step.label, step.index, step.size_bytes) for step in workload]
            for workload in run_order.build_quick_workloads(
                [parse('i1'), parse('i2-c2')], 2, 1000
            )
        ]
        self.assertEqual(
            [
                [('bare metal', 0, 1000)],
                [('i1', 0, 1000)],
                [('i2-c2', 0, 1000)],
                [('bare metal', 1, 1000)],
                [('i2-c2', 1, 1000)],
                [('i1', 1, 1000)],
                [('bare metal', 2, 1000), ('bare metal', 3, 500)],
            ],
            steps,
        )

    def test_nonsense(self) -> None:
        for configurations, runs in (([], 2), ([parse('i1')], 0)):
            self.assertRaises(
                errors.InputError,
                run_order.build_quick_workloads,
                configurations,
                runs,
                100,
            )

    def test_bare_metal_in_between(self) -> None:
        """Over a crash, the order is that of a sweep without one."""
        workloads = [
            run_order.build_workload(parse('i1'), first, [1000] * count)
            for first, count in ((0, 1), (1, 2), (3, 1), (4, 1))
        ]
        order = [
            (workload[0].label, workload[0].index)
            for workload in run_order.insert_baselines(workloads, 2, 7, 1)
        ]
        self.assertEqual(
            [('i1', 0), ('bare metal', 7), ('i1', 1), ('bare metal', 8),
             ('i1', 3), ('i1', 4)],
            order,
        )  # fmt: skip
        counts = [run_order.count_baselines(n, 4) for n in (0, 1, 2, 3)]
        self.assertEqual([0, 1, 1, 2], counts)


class TaskFileTest(testtools.TestCase):
    """Rally's task and our plan are the same list of runs."""

    def render(
        self, name: str = 'quick.yaml', **task_args: object
    ) -> list[dict]:
        text = TASKS.get_template(name).render(**task_args)
        content = yaml.safe_load(text)
        self.assertEqual(2, content['version'])
        return [
            workload
            for subtask in content['subtasks']
            for workload in subtask['workloads']
        ]

    def steps(self, workloads: list[dict]) -> list[list[run_order.Step]]:
        return [
            run_order.build_workload(
                parse_target(args['configuration']),
                *(args['first_index'], args['sizes']),
            )
            for workload in workloads
            for args in workload['scenario'].values()
        ]

    def test_all_tasks_have_the_commands_size(self) -> None:
        sizes = {
            path.name: int(match[1])
            for path in sorted(DIRECTORY.glob('*.yaml'))
            # The task of the demo is shorter.
            if path.name != 'quick.yaml'
            and (
                match := re.search(
                    r'size_bytes \| default\((\d+)\)', path.read_text()
                )
            )
        }
        self.assertEqual(7, len(sizes))
        self.assertEqual({SIZE_BYTES}, set(sizes.values()), sizes)

    def test_default_is_the_demo(self) -> None:
        self.assertEqual(
            run_order.build_quick_workloads(
                list(map(parse, demo.CONFIGURATIONS)),
                demo.PASSES,
                demo.SIZE_BYTES,
            ),
            self.steps(self.render()),
        )

    def test_next_runs_of_a_strategy(self) -> None:
        expected = [
            [run_order.Step(BareMetal(), 3, 1000)],
            [run_order.Step(parse('i2'), n, 1000) for n in (1, 2)],
        ]
        workloads = self.render(
            'sweep.yaml',
            sweep='mine',
            workloads=[
                {
                    'configuration': steps[0].configuration,
                    'first_index': steps[0].index,
                    'sizes': [step.size_bytes for step in steps],
                }
                for steps in expected
            ],
        )
        self.assertEqual(expected, self.steps(workloads))
        self.assertEqual(['hvstack_baseline'], list(workloads[0]['contexts']))

    def test_arguments(self) -> None:
        workloads = self.render(
            sweep='mine', size_bytes=1000, runs=3, configurations=['i4']
        )
        self.assertEqual(
            run_order.build_quick_workloads([parse('i4')], 3, 1000),
            self.steps(workloads),
        )
        labels = [f'i{count}' for count in range(1, 13)]
        for count, runs in itertools.product(range(1, 13), (1, 3)):
            task_args = {'runs': runs, 'configurations': labels[:count]}
            self.assertEqual(
                run_order.build_quick_workloads(
                    list(map(parse, labels[:count])), runs, 1000
                ),
                self.steps(self.render(size_bytes=1000, **task_args)),
            )
        for workload in workloads:
            (args,) = workload['scenario'].values()
            self.assertEqual('mine', args['sweep'])
            self.assertEqual(
                len(args['sizes']), workload['runner']['serial']['times']
            )
            for config in workload['contexts'].values():
                self.assertEqual(args, config)
            self.assertEqual(
                set(), set(args) - set(WORKLOAD_SCHEMA['properties'])
            )

    def test_plugins_are_those_of_the_task(self) -> None:
        names = {
            plugin.get_name()
            for plugin in (
                contexts.FlavorsContext,
                contexts.HostModeContext,
                contexts.RatiosContext,
                contexts.ClusterContext,
                contexts.BaselineContext,
            )
        }
        used = {
            name for workload in self.render() for name in workload['contexts']
        }
        self.assertEqual(names, used)
        self.assertEqual('HVStack.tpcx_hs', scenario.TPCxHS.get_name())
        orders = [
            plugin.get_order()
            for plugin in (
                contexts.FlavorsContext,
                contexts.RatiosContext,
                contexts.ClusterContext,
            )
        ]
        self.assertEqual(sorted(orders), orders)


class StateTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.top = self.useFixture(SweepDirectories()).path
        self.records = self.top / 'records_dir'

    def test_an_unfinished_one_goes_on(self) -> None:
        first, again = quick_sweeps.resume_or_begin([parse('i1')], 2, 1000)
        self.assertFalse(again)
        self.assertEqual(
            (first, True), quick_sweeps.resume_or_begin([parse('i1')], 2, 1000)
        )
        other, again = quick_sweeps.resume_or_begin([parse('i1')], 3, 1000)
        self.assertFalse(again)
        sweep_store.finish_sweep(first)
        after, again = quick_sweeps.resume_or_begin([parse('i1')], 2, 1000)
        self.assertFalse(again)
        self.assertEqual(3, len({first.id, other.id, after.id}))

    def test_runs_on_other_hosts_are_another_sweep(self) -> None:
        first, _ = quick_sweeps.resume_or_begin(
            [parse('i1')], 2, 1000, hosts=2
        )
        sweep_store.open_store().append(
            factory.run('i1', 0, 50, sweep=first.id, hosts=3)
        )
        for hosts, resumed in ((3, True), (None, True), (2, False)):
            _, again = quick_sweeps.resume_or_begin(
                [parse('i1')], 2, 1000, hosts=hosts
            )
            self.assertEqual(resumed, again, hosts)

    def test_other_profiles_are_another_sweep(self) -> None:
        first, _ = quick_sweeps.resume_or_begin(
            [parse('i1')], 2, 1000, tuning='vsan'
        )
        self.assertEqual(
            'vsan', sweep_store.list_sweeps()[0].node_settings['tuning']
        )
        _, again = quick_sweeps.resume_or_begin([parse('i1')], 2, 1000)
        self.assertFalse(again)
        resumed, again = quick_sweeps.resume_or_begin(
            [parse('i1')], 2, 1000, tuning='vsan'
        )
        self.assertEqual((first, True), (resumed, again))

    def test_changed_profile_is_another_sweep(self) -> None:
        first, _ = quick_sweeps.resume_or_begin(
            [parse('i1')], 2, 1000, tuning='lab'
        )
        for digest, resumed in (
            (site_files.digest_settings('lab'), True),
            ('0123456789ab', False),
        ):
            factory.save(
                factory.run(
                    *('i1', int(resumed), 60),
                    sweep=first.id,
                    tuning='lab',
                    hadoop_profile=digest,
                ),
                self.records,
            )
            _, again = quick_sweeps.resume_or_begin(
                [parse('i1')], 2, 1000, tuning='lab'
            )
            self.assertEqual(resumed, again, digest)

    def test_only_valid_records_count(self) -> None:
        steps = run_order.build_workload(parse('i2'), 0, [1000, 1000])
        factory.save(factory.run('i2', 0, 60, size=1000), self.records)
        factory.save(
            factory.run('i2', 1, 60, size=1000, reason='killed'), self.records
        )
        # Another sweep's, another size's and bare metal's do not.
        factory.save(
            factory.run('i2', 1, 60, size=1000, sweep='old'), self.records
        )
        factory.save(factory.run('i2', 1, 60, size=2000), self.records)
        factory.save(factory.run(BARE_METAL, 1, 60, size=1000), self.records)
        store = FileRunStore(self.records)
        self.assertEqual(
            steps[1:], sweep_store.list_pending('quick', steps, store)
        )
        valid, failed = sweep_store.find_records('quick', steps[1], store)
        self.assertIsNone(valid)
        self.assertEqual('killed', failed.reason)

    def test_pending_steps_in_linear_time(self) -> None:
        class Store(FileRunStore):
            runs: list[IndexedRun]

            def list_runs(self, sweep: str) -> list[IndexedRun]:
                return self.runs

        factory.save(factory.run('i1', 0, 60, size=1000), self.records)
        store = Store(self.records)
        (run,) = FileRunStore(self.records).list_runs('quick')
        calls = []
        for count in (50, 200):
            steps = run_order.build_workload(parse('i1'), 1, [1000] * count)
            store.runs = [
                dataclasses.replace(run, index=index) for index in range(count)
            ]
            calls.append(
                count_calls(
                    lambda steps=steps: self.assertEqual(
                        steps[-1:],
                        sweep_store.list_pending('quick', steps, store),
                    )
                )
            )
        self.assertLess(calls[1], 6 * calls[0])

    def test_one_sweep_at_a_time(self) -> None:
        with sweep_store.lock_measurements():
            again = sweep_store.lock_measurements()
            self.assertRaises(errors.BusyError, again.__enter__)
        with sweep_store.lock_measurements():
            pass

    def test_half_written_marker(self) -> None:
        sweep = sweep_store.create_sweep([parse('i1')], 2, 1000)
        path = self.top / 'sweeps_dir' / f'{sweep.id}.json'
        path.write_text(path.read_text()[:20])
        other = sweep_store.create_sweep([parse('i2')], 2, 1000)
        sweeps, reasons = sweep_store.load_usable()
        self.assertEqual([other], sweeps)
        self.assertIn(str(path), reasons[0])
        # What may be the sweep to continue is not passed over.
        error = self.assertRaises(
            *(
                errors.InputError,
                quick_sweeps.resume_or_begin,
                [parse('i1')],
                2,
                1000,
            )
        )
        self.assertIn(str(path), str(error))

    def test_fields_of_a_marker(self) -> None:
        sweep = sweep_store.create_sweep([parse('i1')], 2, 1000)
        path = self.top / 'sweeps_dir' / f'{sweep.id}.json'
        data = json.loads(path.read_text('utf-8'))
        for field, value in (
            ('runs', 10**9),
            ('runs', []),
            ('id', 'another'),
            ('started', 'yesterday'),
            ('configurations', ['i1']),
            ('configurations', [{'instances': 0}]),
            ('configurations', [{'instances': '1'}]),
            ('configurations', 'i1'),
            ('finished', 'no'),
            ('spec', []),
            ('spec', {**SPEC, 'start': 'i1'}),
            ('spec', {**SPEC, 'start': {'cpu_policy': 'none'}}),
            ('spec', {**SPEC, 'values': ['instances=1']}),
            ('spec', {**SPEC, 'values': {'instances': [0]}}),
            ('spec', {**SPEC, 'values': {'sockets': [1]}}),
            ('spec', {**SPEC, 'missing_capabilities': ['x']}),
            ('schema', 3),
            ('schema', '2'),
            ('tuning', 'a\x1b[31m'),
            ('more', 1),
        ):
            path.write_text(json.dumps({**data, field: value}), 'utf-8')
            error = self.assertRaises(
                errors.InputError, sweep_store.load_sweep, path
            )
            self.assertIn(f"'{field}", str(error))
            self.assertIn(f'{path}:', str(error))

    def test_marker_that_is_not_a_mapping(self) -> None:
        sweep = sweep_store.create_sweep([parse('i1')], 2, 1000)
        path = self.top / 'sweeps_dir' / f'{sweep.id}.json'
        for content in ('null', 'true', '7', '[]', '"text"'):
            path.write_text(content, 'utf-8')
            error = self.assertRaises(
                errors.InputError, sweep_store.load_sweep, path
            )
            self.assertIn(str(path), str(error))

    def test_an_older_marker(self) -> None:
        """An unfinished sweep is refused, a finished one stops nothing."""
        sweep = sweep_store.create_sweep([parse('i1')], 2, 1000)
        path = self.top / 'sweeps_dir' / f'{sweep.id}.json'
        old = {
            'id': sweep.id,
            'configurations': ['i1'],
            'runs': 2,
            'size_bytes': 1000,
            'started': '2026-11-21T05:45:00Z',
            'finished': False,
            'course': None,
        }
        path.write_text(json.dumps(old), 'utf-8')
        sweeps, (reason,) = sweep_store.load_usable()
        self.assertEqual([], sweeps)
        self.assertIn(str(path), reason)
        self.assertIn('older release', reason)
        self.assertNotIn('\n', reason)
        error = self.assertRaises(
            errors.InputError,
            *(quick_sweeps.resume_or_begin, [parse('i1')], 2, 1000),
        )
        self.assertEqual(reason, str(error))
        for finished in (1, 'yes', None):
            path.write_text(json.dumps({**old, 'finished': finished}), 'utf-8')
            self.assertEqual(1, len(sweep_store.load_usable()[1]))
        path.write_text(json.dumps({**old, 'finished': True}), 'utf-8')
        self.assertEqual(([], []), sweep_store.load_usable())
        _, again = quick_sweeps.resume_or_begin([parse('i1')], 2, 1000)
        self.assertFalse(again)

    def test_a_marker_of_a_removed_strategy(self) -> None:
        """An unfinished sweep is refused, a finished one stops nothing."""
        sweep = sweep_store.create_sweep([parse('i1')], 2, 1000)
        path = self.top / 'sweeps_dir' / f'{sweep.id}.json'
        content = json.loads(path.read_text('utf-8'))
        content['spec'] = {**SPEC, 'strategy': 'racing'}
        path.write_text(json.dumps(content), 'utf-8')
        sweeps, (reason,) = sweep_store.load_usable()
        self.assertEqual([], sweeps)
        for text in (str(path), "'racing'", 'start a new sweep'):
            self.assertIn(text, reason)
        self.assertNotIn('\n', reason)
        path.write_text(json.dumps({**content, 'finished': True}), 'utf-8')
        self.assertEqual(([], []), sweep_store.load_usable())

    def test_an_older_marker_of_a_strategy_does_not_stop_the_demo(
        self,
    ) -> None:
        sweep_store.create_sweep([parse('i1')], 2, 1000)
        path = self.top / 'sweeps_dir' / 'sweep-20261121-054500-8f4a.json'
        path.write_text('{"finished": false}', 'utf-8')
        self.assertEqual(1, len(sweep_store.load_usable()[1]))
        _, again = quick_sweeps.resume_or_begin([parse('i1')], 2, 1000)
        self.assertTrue(again)

    def test_names(self) -> None:
        self.assertEqual('quick-1', sweep_store.check_name('quick-1'))
        for name in ('', '../x', 'a/b', '-x'):
            self.assertRaises(errors.InputError, sweep_store.check_name, name)

    def finished(self, sweep: sweep_store.Sweep) -> bool:
        return next(
            candidate.finished
            for candidate in sweep_store.list_sweeps()
            if candidate.id == sweep.id
        )

    def save_all(self, sweep: sweep_store.Sweep, **failed: dict) -> None:
        """Leave valid records, but failed ones of some configurations."""
        for step in sweep.list_steps():
            overrides = failed.get(
                step.label.replace('-', '_').replace('.', '_')
            )
            factory.save(
                factory.run(
                    step.configuration,
                    step.index,
                    60,
                    size=step.size_bytes,
                    sweep=sweep.id,
                    **(overrides or {}),
                ),
                self.records,
            )

    def test_a_complete_sweep_is_finished(self) -> None:
        sweep = sweep_store.create_sweep([parse('i1')], 2, 1000)
        self.save_all(sweep)
        demo._judge(sweep)
        self.assertTrue(self.finished(sweep))

    def test_only_promised_memory_may_be_missing(self) -> None:
        killed = {'reason': 'OOM', 'observations': {'killed': ['oom-kill: x']}}
        sweep = sweep_store.create_sweep(
            [parse('i1'), parse('i2-m1.2')], 2, 1000
        )
        self.save_all(sweep, i2_m1_2=killed)
        demo._judge(sweep)
        self.assertTrue(self.finished(sweep))
        for names, failed in (
            (['i1', 'i2'], {'i2': killed}),
            (['i2-m1.2'], {'i2_m1_2': {'reason': 'no idea'}}),
        ):
            sweep = sweep_store.create_sweep(list(map(parse, names)), 2, 1000)
            self.save_all(sweep, **failed)
            self.assertRaises(errors.RunFailedError, demo._judge, sweep)
            self.assertFalse(self.finished(sweep))

    def test_a_killed_run_is_not_repeated_at_once(self) -> None:
        killed = {'reason': 'OOM', 'observations': {'killed': ['oom-kill: x']}}
        sweep = sweep_store.create_sweep([parse('i2-m1.2')], 2, 1000)
        self.assertTrue(demo._repeatable(sweep))
        self.save_all(sweep, i2_m1_2=killed)
        self.assertFalse(demo._repeatable(sweep))
        other = sweep_store.create_sweep([parse('i1')], 2, 1000)
        self.save_all(other, i1={'reason': 'the cloud was away'})
        self.assertTrue(demo._repeatable(other))


class OutputTest(testtools.TestCase):
    """What Rally draws comes from the same function as the table."""

    def test_nothing_before_a_baseline(self) -> None:
        self.assertIsNone(
            output.build_interim_report([factory.run('i1', 0, 60)])
        )

    def test_percent(self) -> None:
        answer = output.build_interim_report(
            [factory.run(BARE_METAL, 0, 50), factory.run('i1', 0, 100)]
        )
        percents = {row.label: row.percent.percent for row in answer.rows}
        self.assertEqual(50.0, round(percents[parse('i1').label], 6))
        self.assertTrue(json.dumps(percents))
