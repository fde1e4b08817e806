# SPDX-License-Identifier: Apache-2.0
"""What workloads of one Rally process share: sweeps, what is skipped."""

import contextlib
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fixtures
import testtools

from hvstack import conf, errors
from hvstack.cli import journey, report
from hvstack.cloud import flavors, hostmode, journal, keys, ratios, stacks
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import hosts
from hvstack.cluster.stack import StackCluster
from hvstack.model.configuration import parse
from hvstack.progress import Progress
from hvstack.rally_plugins import contexts, scenario, session, slas
from hvstack.results import record, skips
from hvstack.results.record import BARE_METAL
from hvstack.sweep import state
from hvstack.sweep.plan import Step
from hvstack.tpcxhs.workload import Workload
from tests.unit.cluster.test_hosts import entry
from tests.unit.results import factory

SIZE = 10**11


def workload(**more: Any) -> dict[str, Any]:
    return {
        'sweep': 'new',
        'configuration': 'i1-ceph',
        'sizes': [SIZE, SIZE],
        **more,
    }


class SessionTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('SWEEPS_DIR', 'RECORDS_DIR'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.sweep.state.{name}', folder / name
                )
            )
        state.RECORDS_DIR.mkdir()
        for name, where in (
            ('cluster.hosts.TAKEN', folder / 'taken'),
            ('cloud.journal.FOLDER', folder / 'journal'),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', where))
        # No cloud is asked here.
        options = conf.load(())
        path = folder / 'baseline.json'
        path.write_text(
            json.dumps([entry('c', 'controller'), entry('w', 'worker')])
        )
        options.set_override('baseline_hosts', str(path), 'sweep')
        self.here = session.TaskState(None, None, options)  # type: ignore[arg-type]
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.rally_plugins.session._STATES', [self.here]
            )
        )

    def flavors(self, **more: Any) -> contexts.FlavorsContext:
        one = contexts.FlavorsContext.__new__(contexts.FlavorsContext)
        one.config = workload(**more)
        one.context = {}
        return one

    def test_a_new_sweep_for_what_compares(self) -> None:
        first = self.here.sweep_id(workload())
        self.assertTrue(first.startswith('rally-'))
        self.assertEqual(
            first, self.here.sweep_id(workload(configuration='i2'))
        )
        others = {
            self.here.sweep_id(workload(replication=1)),
            self.here.sweep_id(workload(sizes=[2 * SIZE])),
        }
        self.assertEqual(2, len(others - {first}))

    def test_a_set_up_is_a_sweep_of_its_own(self) -> None:
        made = [
            self.here.sweep_id(workload(setup=setup))
            for setup in (None, {'disks': 2}, {'tuning': 'amd'}, {'disks': 2})
        ]
        self.assertEqual(made[1], made[3])
        self.assertEqual(3, len(set(made)))

    def test_an_auto_sweep_has_no_set_up(self) -> None:
        error = self.assertRaises(
            errors.InputError,
            self.here.sweep_id,
            workload(
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
            self.here.node_settings(workload(setup={'tuning': 'vsan'})),
        )
        usual = self.here.workload(SIZE, workload())
        stock = self.here.workload(SIZE, workload(setup={'tuning': 'stock'}))
        self.assertNotEqual(usual.maps, stock.maps)

    def test_a_set_up_chooses_the_volumes(self) -> None:
        self.assertIsNone(
            session.requested_volumes(workload(setup={'tuning': 'amd'}))
        )
        setup = {'disks': 3, 'volume_type': 't', 'copies': 2, 'osd_groups': 4}
        self.assertEqual(
            Volumes('t', 3, 2, 4),
            session.requested_volumes(workload(setup=setup)),
        )

    def test_a_plan_is_asked_for_the_set_up(self) -> None:
        asked: dict[str, Any] = {}

        def plan(*_: object, **more: Any) -> None:
            asked.update(more)
            raise errors.InputError('enough')

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cluster.launch.plan', plan)
        )
        setup = {'tuning': 'amd', 'os_profile': 'stock', 'disks': 2}
        self.flavors(skip=True, setup=setup).setup()
        self.assertEqual(
            {
                'tuning': 'amd',
                'os_profile': 'stock',
                'requested_volumes': Volumes(count=2),
            },
            asked,
        )

    def test_bare_metal_is_not_measured_alone(self) -> None:
        one = contexts.BaselineContext.__new__(contexts.BaselineContext)
        one.config = workload(
            configuration=BARE_METAL, sweep='mine', skip=True
        )
        one.context = {}
        one.setup()
        self.assertIn('no configuration', self.here.skip_reason)
        self.here.skip_reason = ''
        factory.save(
            factory.run('i1', 0, 50, size=SIZE, sweep='mine'),
            state.RECORDS_DIR,
        )
        self.assertRaises(errors.HVStackError, one.setup)
        self.assertEqual('', self.here.skip_reason)

    def bare(self, **more: Any) -> contexts.BaselineContext:
        one = contexts.BaselineContext.__new__(contexts.BaselineContext)
        one.config = workload(
            configuration=BARE_METAL, sizes=[SIZE], **{'sweep': 's', **more}
        )
        one.context = {}
        return one

    def done(self, **more: Any) -> None:
        """Leave the record of the workload's only run."""
        given = {'size': SIZE, 'sweep': 's', **more}
        factory.save(
            factory.run(BARE_METAL, 0, 50, **given), state.RECORDS_DIR
        )

    def taken(self) -> hosts.BareHosts:
        """Have a cluster of hosts, as a context would."""
        path = Path(self.here.options.sweep.baseline_hosts)
        self.here.cluster = hosts.BareHosts.from_file(path)
        return self.here.cluster

    def test_a_cluster_is_left_for_the_next_size(self) -> None:
        cluster = self.taken()
        self.done()
        self.bare(keep=True).cleanup()
        self.assertIs(cluster, self.here.cluster)
        # To the same, which still has a run to do, it need not be made.
        following = self.bare(sweep='other')
        following.setup()
        self.assertIs(cluster, self.here.cluster)
        following.cleanup()
        self.assertIsNone(self.here.cluster)
        self.assertIsNone(self.here.retained)

    def test_a_cluster_on_which_a_run_failed_is_left_to_nobody(self) -> None:
        self.taken()
        self.done(reason='its disk died')
        self.bare(keep=True).cleanup()
        self.assertIsNone(self.here.cluster)

    def test_a_cluster_that_another_workload_has_no_use_for(self) -> None:
        self.taken()
        self.done()
        self.bare(keep=True).cleanup()
        # Even where the next one has nothing left to do.
        self.bare(setup={'os_profile': 'stock'}).setup()
        self.assertIsNone(self.here.cluster)
        self.assertIsNone(self.here.retained)

    def test_volumes_are_nothing_to_bare_metal(self) -> None:
        cluster = self.taken()
        self.done()
        self.bare(keep=True, setup={'disks': 2}).cleanup()
        self.bare(sweep='other', setup={'disks': 3}).setup()
        self.assertIs(cluster, self.here.cluster)

    def test_a_cluster_gets_other_settings_of_hadoop(self) -> None:
        given: list[tuple[Any, ...]] = []

        def reconfigure(
            cluster: Any, sized: Any, *, replication: int, tuning: str
        ) -> None:
            given.append((sized, replication, tuning))
            cluster.tuning = tuning

        for name, stands_in in (
            ('rally_plugins.contexts.reconfigure', reconfigure),
            ('tpcxhs.run.warm_up', lambda *_: None),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', stands_in))
        cluster = self.taken()
        self.done()
        self.bare(keep=True).cleanup()
        following = self.bare(
            sweep='other',
            replication=1,
            setup={'tuning': 'amd'},
            keep=True,
        )
        following.setup()
        self.assertEqual([(cluster.sized('amd'), 1, 'amd')], given)
        # Once is enough.
        following.setup()
        self.done(sweep='other')
        following.cleanup()
        self.bare(
            sweep='third', replication=1, setup={'tuning': 'amd'}
        ).setup()
        self.assertEqual(1, len(given))
        self.assertIs(cluster, self.here.cluster)

    def test_a_kept_cluster_asks_no_cloud(self) -> None:
        cluster = self.taken()
        self.done()
        self.bare(keep=True).cleanup()
        # There is no connection here, as Nova has no hosts then.
        self.bare(sweep='other', skip=True, before='i1').setup()
        self.assertEqual('', self.here.skip_reason)
        self.assertIs(cluster, self.here.cluster)
        last = self.bare(sweep='other', skip=True)
        last.setup()
        self.assertIn('no configuration', self.here.skip_reason)
        last.cleanup()
        self.assertEqual('', self.here.skip_reason)
        self.assertIsNone(self.here.cluster)

    def test_a_stack_that_was_left_is_deleted(self) -> None:
        undone: list[tuple[str, ...]] = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.undo.undo',
                lambda found, _: undone.append(
                    tuple(one.kind for one in found)
                ),
            )
        )
        kinds = flavors.KIND, hostmode.KIND, ratios.KIND, stacks.KIND
        for kind in (*kinds, keys.KIND):
            journal.note(kind, {'name': 'x'})
        node = {'name': 'n', 'address': 'a', 'server_id': 's'}
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.host_keys.DIRECTORY',
                Path(self.useFixture(fixtures.TempDir()).path),
            )
        )
        cluster = StackCluster.from_outputs(
            {'controller': node, 'workers': [node]},
            Path('key'),
            name='hv-x',
            processors=1,
        )
        self.here.cluster = cluster
        self.here.retained = ('i1-ceph',), (None, 'hvstack')
        self.done()
        self.bare().setup()
        self.assertEqual(
            [('stack', 'keypair'), ('ratio',), ('host_mode',), ('flavor',)],
            undone,
        )
        self.assertIsNone(self.here.cluster)
        assert cluster.folder
        self.assertFalse(cluster.folder.exists())

    def test_hosts_are_switched_by_the_operators_command(self) -> None:
        asked: list[tuple[Any, ...]] = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.hostmode.switch',
                lambda _, *words: asked.append(words[:3]),
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cluster.hosts.LAB', Path('/none'))
        )
        self.here.options.set_override('host_profile', 'vsphere6', 'cloud')
        self.here.plan = SimpleNamespace(  # type: ignore[assignment]
            configuration=parse('i1-dedicated'), providers={'h0': 'p0'}
        )
        one = contexts.HostModeContext.__new__(contexts.HostModeContext)
        one.config = workload(configuration='i1-dedicated')
        one.context = {}
        one.setup()
        self.assertEqual([], asked)
        self.here.options.set_override(
            'host_mode_command', 'switch {mode}', 'sweep'
        )
        one.setup()
        self.assertEqual([({'h0': 'p0'}, 'dedicated', 'switch {mode}')], asked)

    def test_nothing_begins_after_ctrl_c(self) -> None:
        # In a run, and while the report's charts are made after it.
        for where in ('_measure_runs', '_add_output'):
            tried: list[Any] = []

            def interrupted(*words: Any, tried: list[Any] = tried) -> None:
                tried.append(words)
                raise KeyboardInterrupt

            self.here.interrupted = False
            self.here.cluster = object()  # type: ignore[assignment]
            config = workload(configuration=BARE_METAL)
            one = scenario.TPCxHS.__new__(scenario.TPCxHS)
            with contextlib.ExitStack() as patched:
                for name, value in (
                    (
                        '_measure_runs',
                        lambda *_: [factory.run(BARE_METAL, 0, 60)],
                    ),
                    (where, interrupted),
                ):
                    patched.enter_context(
                        fixtures.MonkeyPatch(
                            f'hvstack.rally_plugins.scenario.{name}', value
                        )
                    )
                # Rally's runner goes on with the next iteration and workload.
                for number, _ in enumerate(self.here.steps(config), 1):
                    one.context = {'iteration': number}
                    self.assertRaises(KeyboardInterrupt, one.run, **config)
            self.assertEqual(1, len(tried), where)
            self.assertRaises(KeyboardInterrupt, self.flavors().setup)

    def test_what_the_cloud_lacks_is_skipped(self) -> None:
        self.flavors(skip=True, without=['ceph']).setup()
        self.assertEqual(
            'i1-ceph: this cloud has no Ceph', self.here.skip_reason
        )
        self.assertIsNone(self.here.plan)
        # It is no failed run, and later contexts do nothing.
        self.assertEqual([], record.load_all(state.RECORDS_DIR))
        contexts.ClusterContext.setup(self.flavors())  # type: ignore[arg-type]
        drawn: list[dict[str, Any]] = []
        one = SimpleNamespace(
            add_output=lambda complete: drawn.append(complete)
        )
        for name in ('i1-ceph', BARE_METAL):
            scenario._report_skipped(  # type: ignore[arg-type]
                *(one, self.here, 's', name)
            )
        self.assertTrue(slas.is_skipped({'output': {'complete': drawn}}))
        # A report of its runs says so, wherever their folder is.
        skipped = {'i1-ceph': 'this cloud has no Ceph'}
        self.assertEqual(skipped, skips.load_skips(state.RECORDS_DIR, 's'))
        other = state.RECORDS_DIR.rename(state.RECORDS_DIR.parent / 'moved')
        runs = [factory.run('i1', 0, 50, sweep='s')]
        self.assertEqual((), journey.of(runs).skipped)
        told = journey.of(runs, other)
        self.assertEqual(
            ['skipped: i1-ceph: this cloud has no Ceph'], told.lines()
        )
        for form in ('csv', 'junit', 'html', 'json'):
            self.assertIn(
                'has no Ceph', report.render(runs, form, folder=other)
            )
        # Once it was measured, it is no longer said.
        runs.append(factory.run('i1-ceph', 0, 50, sweep='s'))
        self.assertEqual((), journey.of(runs, other).skipped)

    def test_emulated_runs_have_no_percentage(self) -> None:
        runs = [
            factory.run(BARE_METAL, 0, 50),
            factory.run('i1', 0, 60, backend='qemu'),
        ]
        drawn: list[dict[str, Any]] = []
        one = SimpleNamespace(add_output=lambda **given: drawn.append(given))
        scenario._add_output(  # type: ignore[arg-type]
            *(one, self.here, runs[1], runs, ())
        )
        (table,) = [
            given['complete']['data']['rows']
            for given in drawn
            if given.get('complete', {}).get('title') == slas.PERCENT
        ]
        self.assertEqual('emulated, not compared', table[1][2])
        self.assertEqual([], slas.list_figures(
            {'output': {'additive': [
                given['additive'] for given in drawn if 'additive' in given
                and given['additive']['title'] == slas.PERCENT
            ]}}, slas.PERCENT,
        ))  # fmt: skip

    def test_without_leave_it_fails(self) -> None:
        self.assertRaises(
            errors.InputError, self.flavors(without=['ceph']).setup
        )
        (failed, again) = record.load_all(state.RECORDS_DIR)
        self.assertEqual((False, False), (failed.valid, again.valid))
        self.assertIn('no Ceph', failed.reason)

    def test_no_baseline_fails_before_anything_is_made(self) -> None:
        error = self.assertRaises(
            errors.InputError, self.flavors(baseline='auto').setup
        )
        self.assertIn("baseline 'auto'", str(error))

    def plan(self, workers: int, backend: str = 'kvm') -> None:
        self.here.plan = SimpleNamespace(  # type: ignore[assignment]
            sizing=SimpleNamespace(containers=4),
            workers=workers,
            backend=backend,
            tuning='hvstack',
            replication=2,
            providers={'a': 'uuid-a', 'b': 'uuid-b'},
        )

    def no_hosts(self) -> None:
        self.here.options.set_override('baseline_hosts', '/none', 'sweep')

    def test_storage_of_the_start_is_the_decks_where_the_cloud_has_it(
        self,
    ) -> None:
        asked: list[object] = []

        def storage(*_: object) -> tuple[str, str]:
            asked.append(_)
            return 'ceph', 'one copy'

        for name, stands_in in (
            ('choose_storage', storage),
            ('get_backend', lambda *_: 'kvm'),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.sweep.lacks.{name}', stands_in)
            )
        self.here.options.set_override('host_profile', 'vsphere6', 'cloud')

        def named(name: str, **more: Any) -> str:
            config = workload(configuration=name, **more)
            (step, _) = self.here.steps(config)
            return step.configuration

        deck = {'storage': 'deck'}
        self.assertEqual(parse('i2-ceph').name, named('i2', **deck))
        self.assertEqual(parse('i4-ceph').name, named('i4', **deck))
        self.assertEqual(1, len(asked))
        for name, more in (
            ('i1', {}),
            ('i1-local', deck),
            ('i1', {**deck, 'without': ['ceph']}),
        ):
            self.assertEqual(parse('i1').name, named(name, **more))
        self.assertEqual(BARE_METAL, named(BARE_METAL, **deck))
        self.assertEqual(1, len(asked))

    def test_time_left_is_said_before_a_workload(self) -> None:
        stream = io.StringIO()
        self.here.progress.stream = stream
        quick = state.create_sweep(['i1'], 1, SIZE)
        one = self.bare(sweep=quick.id)
        self.here.options.set_override('baseline_hosts', '/none', 'sweep')
        self.assertRaises(errors.InputError, one.setup)
        self.assertIn('left: 4 runs', stream.getvalue())
        # A sweep of plain Rally's has no marker.
        stream.truncate(0)
        self.bare(sweep='mine')
        self.here.announce(workload(sweep='mine'))
        self.assertNotIn('left', stream.getvalue())

    def test_tasks_of_a_cloud_without_bare_metal(self) -> None:
        self.no_hosts()
        self.plan(workers=2)
        small = self.here.workload(SIZE, workload())
        self.plan(workers=4)
        large = self.here.workload(SIZE, workload(replication=1))
        self.assertEqual((2, 1), (small.replication, large.replication))
        self.assertEqual((6, 14), (small.maps, large.maps))
        config = workload(replication=1, sizes=[SIZE // 1000])
        # As many on each host, for data of any size that it asks for.
        for size in (SIZE // 1000, SIZE):
            self.assertEqual(2, self.here.workload(size, config).maps)
        # Bare metal itself cannot do without its hosts.
        self.assertRaises(
            errors.InputError,
            self.here.workload,
            *(SIZE, workload(configuration=BARE_METAL)),
        )

    def test_emulated_guests_do_little(self) -> None:
        self.plan(workers=2, backend='qemu')
        self.assertEqual(
            Workload(SIZE, 2, 1, 1, one_jvm=True),
            self.here.workload(SIZE, workload()),
        )
        stream = io.StringIO()
        self.here.progress = Progress(stream=stream)
        self.here.cluster = self.taken()
        contexts._warm_up(self.here, workload(), 'i2')
        self.assertIn('no warm-up, its CPUs are emulated', stream.getvalue())
        self.plan(workers=2)
        self.assertGreater(self.here.workload(SIZE, workload()).maps, 1)

    def test_tasks_are_those_of_a_baselines_record(self) -> None:
        self.no_hosts()
        self.plan(workers=40)
        self.done(sweep='imported')
        found = self.here.workload(SIZE, workload(baseline='imported'))
        self.assertEqual(
            (2, 6, 6), (found.replication, found.maps, found.reduces)
        )

    def test_a_baseline_of_another_workload_costs_no_run(self) -> None:
        self.done(sweep='imported')
        for given, words in (
            ({'sizes': [2 * SIZE]}, f'size_bytes {SIZE} instead of'),
            ({'replication': 3}, 'replication 2 instead of 3'),
            ({'kit': '/kit'}, 'derived True instead of False'),
        ):
            config = {'sweep': f's{len(words)}', 'baseline': 'imported'}
            one = self.flavors(**config, **given)
            error = self.assertRaises(errors.InputError, one.setup)
            self.assertIn(words, str(error))
            self.assertNotIn('\n', str(error))
        self.assertTrue(self.here.load_baselines(workload(baseline='auto')))

    def test_a_baseline_has_the_replication_that_a_run_would_have(
        self,
    ) -> None:
        made = factory.run(BARE_METAL, 0, 50, size=SIZE, sweep='imported')
        made.replication = 1
        factory.save(made, state.RECORDS_DIR)
        config = workload(baseline='imported')
        self.plan(workers=2)
        # The file's one host can hold one copy, whatever the cluster could.
        self.assertEqual(1, len(self.here.load_baselines(config)))
        self.no_hosts()
        error = self.assertRaises(
            errors.InputError, self.here.load_baselines, config
        )
        self.assertIn('replication 1 instead of 2', str(error))

    def test_a_cluster_that_cannot_be_planned_without_hosts(self) -> None:
        self.no_hosts()
        self.assertRaises(
            errors.InputError, self.flavors(without=['ceph']).setup
        )
        failed = record.load_all(state.RECORDS_DIR)[0]
        self.assertIn('no Ceph', failed.reason)

    def test_kit_records_what_a_pair_lacks(self) -> None:
        asked: list[tuple[int, list[int]]] = []

        def runs(
            *_: object, index: int, run_numbers: list[int], **__: Any
        ) -> list:
            asked.append((index, run_numbers))
            return []

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.tpcxhs.kit.measure_runs', runs)
        )
        config = workload(sweep='mine', kit='/kit')
        for index in (0, 1):
            step = Step(BARE_METAL, index, SIZE)
            scenario._measure_runs(None, self.here, config, step, None)  # type: ignore[arg-type]
            made = factory.run(BARE_METAL, index, 50, size=SIZE, sweep='mine')
            factory.save(made, state.RECORDS_DIR)
        self.assertEqual([(0, [1, 2]), (0, [2])], asked)
