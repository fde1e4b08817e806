# SPDX-License-Identifier: Apache-2.0
"""What workloads of one Rally process share: sweeps, what is skipped."""

import contextlib
import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fixtures
import testtools

from hvstack import conf, errors
from hvstack.cli import report, sweep_summary
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import bare_metal, heat_environment
from hvstack.cluster.plan import (
    ClusterHosts,
    ClusterPlan,
    ClusterSpec,
    NodeCounts,
)
from hvstack.hadoop.sizing import NodeSizing
from hvstack.lab.hosts import sizes
from hvstack.lab.hosts.sizes import HostSize
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL, BareMetal
from hvstack.progress import Progress
from hvstack.rally_plugins import (
    contexts,
    output,
    scenario,
    slas,
    task_state,
)
from hvstack.rally_plugins.workload_args import (
    WorkloadArgs,
    parse_args,
)
from hvstack.results import record, skipped
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.record_data import RunRecord
from hvstack.sweep import sweep_store
from hvstack.sweep.run_order import Step
from hvstack.tpcxhs.result import RunSpec
from hvstack.tpcxhs.workload import Workload
from tests.unit.cluster.test_hosts import entry
from tests.unit.cluster.test_launch import vsan_plan
from tests.unit.results import factory
from tests.unit.sweep.directories import SweepDirectories

SIZE = 10**11
TB = 10**12


def workload(**overrides: Any) -> dict[str, Any]:
    return {
        'sweep': 'new',
        'configuration': 'i1-ceph',
        'sizes': [SIZE, SIZE],
        **overrides,
    }


def workload_args(**overrides: Any) -> WorkloadArgs:
    return parse_args(workload(**overrides))


def sizing(containers: int) -> NodeSizing:
    """Return the size of a worker whose tasks fill all containers."""
    return NodeSizing(containers, 512, 332, 99, 2, 512, 332, master_mib=384)


class SessionTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = self.useFixture(SweepDirectories()).path
        for name, target in (
            ('cluster.acquired_hosts.ACQUIRED_HOSTS_DIR', directory / 'taken'),
            ('cloud.journal.DIRECTORY', directory / 'journal'),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', target))
        # No cloud is asked here.
        options = conf.load(())
        path = directory / 'baseline.json'
        path.write_text(
            json.dumps([entry('c', 'controller'), entry('w', 'worker')])
        )
        options.set_override('baseline_hosts', str(path), 'sweep')
        self.state = task_state.TaskState(None, None, options)  # type: ignore[arg-type]
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.rally_plugins.task_state._STATES', [self.state]
            )
        )

    def flavors(self, **overrides: Any) -> contexts.FlavorsContext:
        context = contexts.FlavorsContext.__new__(contexts.FlavorsContext)
        context.config = workload(**overrides)
        context.context = {}
        return context

    def test_a_new_sweep_for_what_compares(self) -> None:
        first = self.state.sweep_id(workload_args())
        self.assertTrue(first.startswith('rally-'))
        self.assertEqual(
            first, self.state.sweep_id(workload_args(configuration='i2'))
        )
        others = {
            self.state.sweep_id(workload_args(replication=1)),
            self.state.sweep_id(workload_args(sizes=[2 * SIZE])),
        }
        self.assertEqual(2, len(others - {first}))

    def test_a_set_up_is_a_sweep_of_its_own(self) -> None:
        sweep_ids = [
            self.state.sweep_id(workload_args(setup=setup))
            for setup in (None, {'disks': 2}, {'tuning': 'amd'}, {'disks': 2})
        ]
        self.assertEqual(sweep_ids[1], sweep_ids[3])
        self.assertEqual(3, len(set(sweep_ids)))

    def test_an_auto_sweep_has_no_set_up(self) -> None:
        error = self.assertRaises(
            errors.InputError,
            self.state.sweep_id,
            workload_args(
                sweep='auto',
                setup={'disks': 2},
                shape={
                    'configurations': ['i1'],
                    'runs': 1,
                    'size_bytes': SIZE,
                },
            ),
        )
        self.assertIn("sweep 'auto' with 'setup'", str(error))

    def test_a_set_up_chooses_the_profiles(self) -> None:
        self.assertEqual(
            {'tuning': 'vsan', 'os_profile': 'vsphere6'},
            self.state.node_settings(workload_args(setup={'tuning': 'vsan'})),
        )
        default = self.state.workload(SIZE, workload_args())
        stock = self.state.workload(
            SIZE, workload_args(setup={'tuning': 'stock'})
        )
        self.assertNotEqual(default.maps, stock.maps)

    def test_a_set_up_chooses_the_volumes(self) -> None:
        self.assertIsNone(workload_args(setup={'tuning': 'amd'}).setup.volumes)
        setup = {'disks': 3, 'volume_type': 't', 'copies': 2, 'osd_groups': 4}
        self.assertEqual(
            Volumes('t', 3, 2, 4),
            workload_args(setup=setup).setup.volumes,
        )

    def test_a_plan_is_asked_for_the_set_up(self) -> None:
        specs: list[ClusterSpec] = []

        def plan(_: object, spec: ClusterSpec, __: object) -> None:
            specs.append(spec)
            raise errors.InputError('enough')

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cluster.planner.plan_cluster', plan)
        )
        setup = {'tuning': 'amd', 'os_profile': 'stock', 'disks': 2}
        self.flavors(skip=True, setup=setup).setup()
        (spec,) = specs
        self.assertEqual(
            ('amd', 'stock', Volumes(count=2)),
            (spec.tuning, spec.os_profile, spec.volumes),
        )

    def test_daemons_have_the_options_of_the_workload(self) -> None:
        """In guests, and on bare metal, where records contain them, too."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.planner.plan_cluster',
                lambda _, spec, __: vsan_plan(spec),
            )
        )
        expected = {'datanode': '-XX:+UseG1GC'}
        setup = {'daemons': expected}
        plan = contexts._plan_or_skip(
            self.state,
            workload_args(configuration='i4', setup=setup),
            parse('i4'),
        )
        assert plan is not None
        self.assertEqual(expected, plan.hosts.environment['daemon_options'])
        line = "JAVA_OPTS_datanode='-XX:-UseSerialGC -XX:+UseG1GC'\n"
        self.assertIn(line, heat_environment.parameters(plan)['hadoop_env'])

        def enter(hosts: bare_metal.BareHosts) -> None:
            raise errors.InputError(str(hosts.daemon_options))

        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.bare_metal.BareHosts.__enter__', enter
            )
        )
        context = self.baseline_context(setup=setup)
        error = self.assertRaises(errors.InputError, context.setup)
        self.assertEqual("(('datanode', '-XX:+UseG1GC'),)", str(error))
        self.assertRaisesRegex(
            errors.InputError,
            'does not know',
            workload_args,
            setup={'daemons': {'datanode': '-XX:+UseFooGC'}},
        )

    def test_data_that_the_disks_cannot_hold(self) -> None:
        """Two workers of vsan have 9.6 TB, and 5 TB need 22.5 TB."""
        backend = 'kvm'
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.planner.plan_cluster',
                lambda _, spec, __: replace(
                    plan := vsan_plan(spec),
                    hosts=replace(plan.hosts, backend=backend),
                ),
            )
        )

        def plan(size_bytes: int, **overrides: Any) -> ClusterPlan | None:
            return contexts._plan_or_skip(
                self.state,
                workload_args(
                    configuration='i4', sizes=[SIZE, size_bytes], **overrides
                ),
                parse('i4'),
            )

        error = self.assertRaises(errors.InputError, plan, 5 * TB)
        self.assertEqual(
            'Cannot sort 5000 GB: the run needs 22500 GB in HDFS (2 replicas '
            'of the input, 2 of the output, and half a replica for the sort), '
            'and the disks of 2 workers have 9600 GB. Use a smaller size, '
            'more hosts or larger disks.',
            str(error),
        )
        self.assertIsNone(plan(5 * TB, skip=True))
        self.assertIn('i4: Cannot sort 5000 GB', self.state.skip_reason)
        self.assertIsNotNone(plan(2 * TB))
        # Without the sort, or with a single replica of its output.
        self.assertIsNotNone(plan(4 * TB, setup={'workload': 'testdfsio'}))
        self.assertIsNotNone(
            plan(25 * TB // 10, setup={'output_replication': 1})
        )
        self.assertRaises(errors.InputError, plan, 25 * TB // 10)
        # Programs on the nodes write nothing to HDFS.
        self.assertIsNotNone(plan(6 * TB, setup={'workload': 'iperf3'}))
        # Containers write to the file system of their host.
        backend = 'lxc'
        self.assertIsNotNone(plan(5 * TB))

    def test_bare_metal_is_not_measured_alone(self) -> None:
        context = contexts.BaselineContext.__new__(contexts.BaselineContext)
        context.config = workload(
            configuration=BARE_METAL, sweep='mine', skip=True
        )
        context.context = {}
        context.setup()
        self.assertIn('no configuration', self.state.skip_reason)
        self.state.skip_reason = ''
        factory.save(
            factory.run('i1', 0, 50, size=SIZE, sweep='mine'),
            sweep_store.RECORDS_DIR,
        )
        self.assertRaises(errors.HVStackError, context.setup)
        self.assertEqual('', self.state.skip_reason)

    def baseline_context(self, **overrides: Any) -> contexts.BaselineContext:
        context = contexts.BaselineContext.__new__(contexts.BaselineContext)
        context.config = workload(
            configuration=BARE_METAL,
            sizes=[SIZE],
            **{'sweep': 's', **overrides},
        )
        context.context = {}
        return context

    def done(self, **overrides: Any) -> None:
        """Leave the record of the workload's only run."""
        run_kwargs = {'size': SIZE, 'sweep': 's', **overrides}
        factory.save(
            factory.run(BARE_METAL, 0, 50, **run_kwargs),
            sweep_store.RECORDS_DIR,
        )

    def acquire_hosts(self) -> bare_metal.BareHosts:
        """Have a cluster of hosts, as a context would."""
        path = Path(self.state.options.sweep.baseline_hosts)
        self.state.cluster = bare_metal.BareHosts.from_file(path)
        return self.state.cluster

    def test_hosts_are_switched_by_the_operators_command(self) -> None:
        calls: list[tuple[Any, ...]] = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.cpu_mode.switch',
                lambda _, *args: calls.append(args[:3]),
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.baseline_hosts.LAB', Path('/none')
            )
        )
        self.state.options.set_override('host_profile', 'vsphere6', 'cloud')
        self.state.plan = SimpleNamespace(  # type: ignore[assignment]
            spec=ClusterSpec(parse('i1-dedicated')),
            hosts=ClusterHosts({'h0': 'p0'}),
        )
        context = contexts.HostModeContext.__new__(contexts.HostModeContext)
        context.config = workload(configuration='i1-dedicated')
        context.context = {}
        context.setup()
        self.assertEqual([], calls)
        self.state.options.set_override(
            'host_mode_command', 'switch {mode}', 'sweep'
        )
        context.setup()
        self.assertEqual([({'h0': 'p0'}, 'dedicated', 'switch {mode}')], calls)

    def test_nothing_begins_after_ctrl_c(self) -> None:
        # In a run, and while the report's charts are made after it.
        for function_name in ('scenario._measure_runs', 'output.add_run'):
            calls: list[Any] = []

            def interrupted(*args: Any, calls: list[Any] = calls) -> None:
                calls.append(args)
                raise KeyboardInterrupt

            self.state.interrupted = False
            self.state.cluster = object()  # type: ignore[assignment]
            config = workload(configuration=BARE_METAL)
            benchmark = scenario.TPCxHS.__new__(scenario.TPCxHS)
            with contextlib.ExitStack() as patched:
                for name, value in (
                    (
                        'scenario._measure_runs',
                        lambda *_: [factory.run(BARE_METAL, 0, 60)],
                    ),
                    (function_name, interrupted),
                ):
                    patched.enter_context(
                        fixtures.MonkeyPatch(
                            f'hvstack.rally_plugins.{name}', value
                        )
                    )
                # Rally's runner starts the next iteration and workload.
                for iteration, _ in enumerate(
                    self.state.steps(parse_args(config)), 1
                ):
                    benchmark.context = {'iteration': iteration}
                    self.assertRaises(
                        KeyboardInterrupt, benchmark.run, **config
                    )
            self.assertEqual(1, len(calls), function_name)
            self.assertRaises(KeyboardInterrupt, self.flavors().setup)

    def test_what_the_cloud_lacks_is_skipped(self) -> None:
        self.flavors(skip=True, without=['ceph']).setup()
        self.assertEqual(
            'i1-ceph: this cloud has no Ceph', self.state.skip_reason
        )
        self.assertIsNone(self.state.plan)
        # It is no failed run, and later contexts do nothing.
        self.assertEqual([], record.load_all(sweep_store.RECORDS_DIR))
        contexts.ClusterContext.setup(self.flavors())  # type: ignore[arg-type]
        outputs: list[dict[str, Any]] = []
        benchmark = SimpleNamespace(
            add_output=lambda complete: outputs.append(complete)
        )
        for name in ('i1-ceph', BARE_METAL):
            scenario._report_skipped(
                benchmark,
                self.state,
                's',
                workload_args(configuration=name),
            )
        self.assertTrue(slas.is_skipped({'output': {'complete': outputs}}))
        # A report of its runs says so, wherever their directory is.
        reasons = {'i1-ceph': 'this cloud has no Ceph'}
        self.assertEqual(
            reasons, skipped.load_skips(sweep_store.open_store(), 's')
        )
        other = sweep_store.RECORDS_DIR.rename(
            sweep_store.RECORDS_DIR.parent / 'moved'
        )
        runs = [factory.run('i1', 0, 50, sweep='s')]
        self.assertEqual((), sweep_summary.of(runs).skipped)
        summary = sweep_summary.of(runs, FileRunStore(other))
        self.assertEqual(
            ['skipped: i1-ceph: this cloud has no Ceph'], summary.lines()
        )
        for form in ('csv', 'junit', 'html', 'json'):
            self.assertIn(
                'has no Ceph',
                report.render(runs, form, store=FileRunStore(other)),
            )
        # Once it was measured, it is no longer said.
        runs.append(factory.run('i1-ceph', 0, 50, sweep='s'))
        self.assertEqual(
            (), sweep_summary.of(runs, FileRunStore(other)).skipped
        )

    def test_emulated_runs_have_no_percentage(self) -> None:
        runs = [
            factory.run(BARE_METAL, 0, 50),
            factory.run('i1', 0, 60, backend='qemu'),
        ]
        outputs: list[dict[str, Any]] = []
        benchmark = SimpleNamespace(
            add_output=lambda **chart: outputs.append(chart)
        )
        output.add_run(benchmark, self.state.progress, runs[1], runs, ())
        (table,) = [
            chart['complete']['data']['rows']
            for chart in outputs
            if chart.get('complete', {}).get('title') == slas.PERCENT
        ]
        self.assertEqual('emulated, not compared', table[1][2])
        self.assertEqual([], slas.list_figures(
            {'output': {'additive': [
                chart['additive'] for chart in outputs
                if 'additive' in chart
                and chart['additive']['title'] == slas.PERCENT
            ]}}, slas.PERCENT,
        ))  # fmt: skip

    def test_first_percentages_say_what_their_interval_is(self) -> None:
        """An interval needs several clusters; the first has none."""
        stream = io.StringIO()
        progress = Progress(stream=stream)
        benchmark = SimpleNamespace(add_output=lambda **_: None)
        runs: list[RunRecord] = []
        for index, seconds in enumerate((50, 51, 50)):
            for name, factor in ((BARE_METAL, 1.0), ('i1', 1.25)):
                run_record = factory.run(name, index, factor * seconds)
                runs.append(run_record)
                output.add_run(benchmark, progress, run_record, runs, ())
        first, second, _ = (
            line.partition('] ')[2] for line in stream.getvalue().splitlines()
        )
        self.assertEqual(
            'so far: i1 at 80.0 % of bare metal (one run a side, no interval '
            'yet)',
            first,
        )
        self.assertIn('(2 runs of it, 2 of bare metal; 95 % interval', second)

    def test_without_leave_it_fails(self) -> None:
        self.assertRaises(
            errors.InputError, self.flavors(without=['ceph']).setup
        )
        (failed, again) = record.load_all(sweep_store.RECORDS_DIR)
        self.assertEqual((False, False), (failed.valid, again.valid))
        self.assertIn('no Ceph', failed.reason)

    def test_no_baseline_fails_before_anything_is_made(self) -> None:
        error = self.assertRaises(
            errors.InputError, self.flavors(baseline='auto').setup
        )
        self.assertIn("baseline 'auto'", str(error))

    def plan(
        self,
        workers: int,
        backend: str = 'kvm',
        replication: int = 2,
        hosts: str = 'ab',
    ) -> None:
        self.state.plan = SimpleNamespace(  # type: ignore[assignment]
            sizing=sizing(4),
            nodes=NodeCounts(workers, 1, replication),
            spec=ClusterSpec(),
            hosts=ClusterHosts({n: f'uuid-{n}' for n in hosts}, backend),
        )

    def test_tasks_of_each_platform(self) -> None:
        """vsphere6, Table 1: each platform has as many tasks as fill it."""
        path = Path(self.state.options.sweep.baseline_hosts)
        host = {'vcpus': 40, 'memory_mib': 262144}
        path.write_text(
            json.dumps(
                [
                    entry('c', 'controller') | host,
                    *(entry(f'w{n}', 'worker') | host for n in range(31)),
                ]
            ),
            encoding='utf-8',
        )
        size = 30 * 10**12
        for tuning, on_hosts, guests in (
            ('vsphere6', 682, 756),
            # Guests have the tasks of bare metal.
            ('hvstack', 2480, 2480),
        ):
            setup = {'tuning': tuning}
            bare = parse_args(
                workload(configuration=BARE_METAL, sizes=[size], setup=setup)
            )
            self.state.plan = None
            self.assertEqual(
                on_hosts, self.state.workload(size, bare).maps, tuning
            )
            # 4 VMs on each of 32 hosts, less two controllers.
            self.plan(126)
            assert self.state.plan is not None
            self.state.plan.sizing = sizing(12)  # type: ignore[misc]
            self.state.plan.spec = ClusterSpec(tuning=tuning)  # type: ignore[misc]
            configuration = parse_args(
                workload(configuration='i4', sizes=[size], setup=setup)
            )
            self.assertEqual(
                guests, self.state.workload(size, configuration).maps, tuning
            )

    def test_tasks_fill_all_compared_configurations(self) -> None:
        """The same number for bare metal and for each configuration."""
        path = Path(self.state.options.sweep.baseline_hosts)
        host = {'vcpus': 2, 'memory_mib': 5376}
        path.write_text(
            json.dumps(
                [
                    entry('c', 'controller') | host,
                    *(entry(f'w{n}', 'worker') | host for n in range(2)),
                ]
            ),
            encoding='utf-8',
        )
        size = HostSize('h', 2, 'worker', 0.65, 5376, 2, 768, 'lxc')
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.host_profiles.load', lambda _: sizes.profile(size)
            )
        )
        for compared, baseline, expected in (
            (['i1', 'i2'], '', 8),
            # 12 containers: three waves of 8 or two of 12.
            (['i1', 'i2-c2'], '', 24),
            # The recorded baseline did not know of them.
            (['i1', 'i2-c2'], 'imported', 8),
        ):
            for configuration in (BARE_METAL, compared[1]):
                args = workload_args(
                    configuration=configuration,
                    compared=compared,
                    baseline=baseline,
                    setup={'tuning': 'lab'},
                )
                self.assertEqual(
                    expected, self.state.workload(SIZE, args).maps, compared
                )
        shape = {'configurations': ['i2-c2'], 'runs': 1, 'size_bytes': SIZE}
        args = workload_args(sweep='auto', shape=shape)
        self.state.options.set_override('tuning', 'lab', 'hadoop')
        self.assertEqual(24, self.state.workload(SIZE, args).maps)

    def test_a_task_may_name_the_numbers_of_a_paper(self) -> None:
        args = workload_args(maps=682, reduces=620)
        run_workload = self.state.workload(SIZE, args)
        self.assertEqual((682, 620), (run_workload.maps, run_workload.reduces))

    def test_a_set_up_chooses_the_workload(self) -> None:
        sort = self.state.workload(SIZE, workload_args())
        self.assertEqual('tpcx-hs', sort.type.name)
        setup = {'workload': 'testdfsio'}
        files = self.state.workload(SIZE, workload_args(setup=setup))
        self.assertEqual('testdfsio', files.type.name)
        # As many files as a sort has, and the reduce task of TestDFSIO.
        self.assertEqual((sort.maps, 1), (files.maps, files.reduces))
        args = workload_args(setup=setup, maps=8)
        self.assertEqual(8, self.state.workload(SIZE, args).maps)

    def test_kit_has_no_other_workload(self) -> None:
        error = self.assertRaises(
            errors.InputError,
            workload_args,
            kit='/kit',
            setup={'workload': 'testdfsio'},
        )
        self.assertIn("'testdfsio' with TPC's kit", str(error))

    def test_kit_does_not_set_properties(self) -> None:
        """A record must not contain settings that no job had."""
        setup = {'hadoop': {'mapreduce.task.io.sort.factor': 64}}
        parse_args(workload(setup=setup))
        failure = self.assertRaises(
            errors.InputError, parse_args, workload(setup=setup, kit='/kit')
        )
        self.assertIn("with TPC's kit", str(failure))

    def no_hosts(self) -> None:
        self.state.options.set_override('baseline_hosts', '/none', 'sweep')

    def test_storage_of_the_start_is_the_decks_where_the_cloud_has_it(
        self,
    ) -> None:
        calls: list[object] = []

        def storage(*_: object) -> tuple[str, str]:
            calls.append(_)
            return 'ceph', 'one copy'

        for name, stands_in in (
            ('choose_storage', storage),
            ('get_backend', lambda *_: 'kvm'),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.sweep.capabilities.{name}', stands_in
                )
            )
        self.state.options.set_override('host_profile', 'vsphere6', 'cloud')

        def named(name: str, **overrides: Any) -> str:
            config = workload(configuration=name, **overrides)
            (step, _) = self.state.steps(parse_args(config))
            return step.configuration

        storage_args = {'storage': 'deck'}
        self.assertEqual(parse('i2-ceph').name, named('i2', **storage_args))
        self.assertEqual(parse('i4-ceph').name, named('i4', **storage_args))
        self.assertEqual(1, len(calls))
        for name, overrides in (
            ('i1', {}),
            ('i1-local', storage_args),
            ('i1', {**storage_args, 'without': ['ceph']}),
        ):
            self.assertEqual(parse('i1').name, named(name, **overrides))
        self.assertEqual(BARE_METAL, named(BARE_METAL, **storage_args))
        self.assertEqual(1, len(calls))

    def test_time_left_is_said_before_a_workload(self) -> None:
        stream = io.StringIO()
        self.state.progress.stream = stream
        quick = sweep_store.create_sweep([parse('i1')], 1, SIZE)
        context = self.baseline_context(sweep=quick.id)
        self.state.options.set_override('baseline_hosts', '/none', 'sweep')
        self.assertRaises(errors.InputError, context.setup)
        self.assertIn('left: 4 runs', stream.getvalue())
        # A sweep of plain Rally's has no marker.
        stream.truncate(0)
        self.baseline_context(sweep='mine')
        self.state.announce(workload_args(sweep='mine'))
        self.assertNotIn('left', stream.getvalue())

    def test_tasks_of_a_cloud_without_bare_metal(self) -> None:
        self.no_hosts()
        self.plan(workers=2)
        small = self.state.workload(SIZE, workload_args())
        self.plan(workers=4)
        large = self.state.workload(SIZE, workload_args(replication=1))
        self.assertEqual((2, 1), (small.replication, large.replication))
        self.assertEqual((8, 16), (small.maps, large.maps))
        config = workload(replication=1, sizes=[SIZE // 1000])
        # Small data fills the containers too, and the warm-up job as well.
        for size in (SIZE // 1000, SIZE):
            self.assertEqual(
                16, self.state.workload(size, parse_args(config)).maps
            )
        # Bare metal itself cannot do without its hosts.
        self.assertRaises(
            errors.InputError,
            self.state.workload,
            *(SIZE, workload_args(configuration=BARE_METAL)),
        )

    def test_resumed_sweep_without_bare_metal(self) -> None:
        """An older release had other numbers of tasks."""
        self.no_hosts()
        self.plan(workers=4)
        config = workload(sweep='s', configuration='i1')
        run_record = factory.run('i1', 0, 50, size=SIZE, sweep='s')
        run_record = factory.edit(run_record, 'replication', 1)
        factory.save(run_record, sweep_store.RECORDS_DIR)
        # The warm-up job has the same numbers.
        for size in (SIZE, SIZE // 1000):
            self.assertEqual(
                Workload(size, 1, 6, 6),
                self.state.workload(size, parse_args(config)),
            )
        for others in (
            {'sweep': 's2'},
            {'configuration': 'i2'},
            {'sizes': [2 * SIZE]},
        ):
            args = parse_args({**config, **others})
            self.assertEqual(16, self.state.workload(SIZE, args).maps)

    def test_compared_configurations_without_bare_metal(self) -> None:
        """All have the same numbers of tasks and of replicas."""
        self.no_hosts()
        self.state.options.set_override('host_profile', 'vsphere6', 'cloud')
        for tuning in ('hvstack', 'vsphere6'):
            workloads = []
            # A controller fills one of three hosts, or a slot of it.
            for name, workers, replication in (('i1', 2, 2), ('i2', 5, 3)):
                self.plan(workers, replication=replication, hosts='abc')
                args = workload_args(
                    configuration=name,
                    compared=['i1', 'i2'],
                    setup={'tuning': tuning},
                )
                workloads.append(self.state.workload(SIZE, args))
            first, second = workloads
            self.assertEqual((2, 2), (first.replication, second.replication))
            # The paper tuned the number for each platform.
            self.assertEqual(
                tuning == 'hvstack', first.maps == second.maps, tuning
            )
        args = workload_args(
            configuration='i2', compared=['i1', 'i2'], replication=3
        )
        self.assertEqual(3, self.state.workload(SIZE, args).replication)
        # Where none of the others can exist, the plan alone counts.
        args = workload_args(configuration='i2', compared=['i128'])
        alone = self.state.workload(SIZE, args)
        self.assertEqual((3, 20), (alone.replication, alone.maps))

    def test_emulated_guests_do_little(self) -> None:
        self.plan(workers=2, backend='qemu')
        self.assertEqual(
            Workload(SIZE, 2, 1, 1, one_jvm=True),
            self.state.workload(SIZE, workload_args()),
        )
        stream = io.StringIO()
        self.state.progress = Progress(stream=stream)
        self.state.cluster = self.acquire_hosts()
        contexts._warm_up(self.state, workload_args(), 'i2')
        self.assertIn('no warm-up, its CPUs are emulated', stream.getvalue())
        self.plan(workers=2)
        self.assertGreater(self.state.workload(SIZE, workload_args()).maps, 1)

    def test_tasks_are_those_of_a_baselines_record(self) -> None:
        self.no_hosts()
        self.plan(workers=40)
        self.done(sweep='imported')
        run_workload = self.state.workload(
            SIZE, workload_args(baseline='imported')
        )
        self.assertEqual(
            (2, 6, 6),
            (
                run_workload.replication,
                run_workload.maps,
                run_workload.reduces,
            ),
        )

    def test_a_baseline_of_another_workload_costs_no_run(self) -> None:
        self.done(sweep='imported')
        for overrides, message in (
            ({'sizes': [2 * SIZE]}, f'size_bytes {SIZE} instead of'),
            ({'replication': 3}, 'replication 2 instead of 3'),
            ({'kit': '/kit'}, 'derived True instead of False'),
        ):
            config = {'sweep': f's{len(message)}', 'baseline': 'imported'}
            context = self.flavors(**config, **overrides)
            error = self.assertRaises(errors.InputError, context.setup)
            self.assertIn(message, str(error))
            self.assertNotIn('\n', str(error))
        self.assertTrue(
            self.state.load_baselines(workload_args(baseline='auto'))
        )

    def test_a_baseline_has_the_replication_that_a_run_would_have(
        self,
    ) -> None:
        baseline = factory.run(BARE_METAL, 0, 50, size=SIZE, sweep='imported')
        baseline = factory.edit(baseline, 'replication', 1)
        factory.save(baseline, sweep_store.RECORDS_DIR)
        config = workload(baseline='imported')
        self.plan(workers=2)
        # The file's one host can hold one copy, whatever the cluster could.
        self.assertEqual(1, len(self.state.load_baselines(parse_args(config))))
        self.no_hosts()
        error = self.assertRaises(
            errors.InputError, self.state.load_baselines, parse_args(config)
        )
        self.assertIn('replication 1 instead of 2', str(error))

    def test_a_cluster_that_cannot_be_planned_without_hosts(self) -> None:
        self.no_hosts()
        self.assertRaises(
            errors.InputError, self.flavors(without=['ceph']).setup
        )
        failed = record.load_all(sweep_store.RECORDS_DIR)[0]
        self.assertIn('no Ceph', failed.reason)

    def test_kit_records_what_a_pair_lacks(self) -> None:
        calls: list[tuple[int, tuple[int, ...]]] = []

        def runs(_: object, spec: RunSpec, __: object) -> list:
            calls.append((spec.run_id.index, spec.run_numbers))
            self.assertEqual('auto', spec.baseline)
            return []

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.tpcxhs.kit.measure_runs', runs)
        )
        config = workload_args(sweep='mine', kit='/kit', baseline='auto')
        for index in (0, 1):
            step = Step(BareMetal(), index, SIZE)
            scenario._measure_runs(None, self.state, config, step, None)  # type: ignore[arg-type]
            baseline = factory.run(
                BARE_METAL, index, 50, size=SIZE, sweep='mine'
            )
            factory.save(baseline, sweep_store.RECORDS_DIR)
        self.assertEqual([(0, (1, 2)), (0, (2,))], calls)
