# SPDX-License-Identifier: Apache-2.0
"""What workloads of one Rally process share: sweeps, what is skipped."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fixtures
import testtools

from hvstack import conf, errors
from hvstack.cloud.volumes import Volumes
from hvstack.rally_plugins import contexts, scenario, session, slas
from hvstack.results import record
from hvstack.results.record import BARE_METAL
from hvstack.sweep import state
from hvstack.sweep.plan import Step
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
        for name in ('FOLDER', 'RECORDS'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.sweep.state.{name}', folder / name
                )
            )
        state.RECORDS.mkdir()
        # No cloud is asked here.
        options = conf.load(())
        path = folder / 'baseline.json'
        path.write_text(
            json.dumps([entry('c', 'controller'), entry('w', 'worker')])
        )
        options.set_override('baseline_hosts', str(path), 'sweep')
        self.here = session.Session(None, None, options)  # type: ignore[arg-type]
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.rally_plugins.session._SESSIONS', [self.here]
            )
        )

    def flavors(self, **more: Any) -> contexts.Flavors:
        one = contexts.Flavors.__new__(contexts.Flavors)
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
        self.assertIn("sweep 'auto' with a 'setup'", str(error))

    def test_a_set_up_chooses_the_profiles(self) -> None:
        self.assertEqual(
            {'tuning': 'vsan', 'os_profile': 'vsphere6'},
            self.here.profiles(workload(setup={'tuning': 'vsan'})),
        )
        usual = self.here.workload(SIZE, workload())
        stock = self.here.workload(SIZE, workload(setup={'tuning': 'stock'}))
        self.assertNotEqual(usual.maps, stock.maps)

    def test_a_set_up_chooses_the_volumes(self) -> None:
        self.assertIsNone(session.volumes(workload(setup={'tuning': 'amd'})))
        setup = {'disks': 3, 'volume_type': 't', 'copies': 2, 'osd_groups': 4}
        self.assertEqual(
            Volumes('t', 3, 2, 4), session.volumes(workload(setup=setup))
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
                'asked': Volumes(count=2),
            },
            asked,
        )

    def test_bare_metal_is_not_measured_alone(self) -> None:
        one = contexts.Baseline.__new__(contexts.Baseline)
        one.config = workload(
            configuration=BARE_METAL, sweep='mine', skip=True
        )
        one.context = {}
        one.setup()
        self.assertIn('no configuration', self.here.skipped)
        self.here.skipped = ''
        record.save(
            factory.run('i1', 0, 50, size=SIZE, sweep='mine'), state.RECORDS
        )
        self.assertRaises(errors.HVStackError, one.setup)
        self.assertEqual('', self.here.skipped)

    def test_what_the_cloud_lacks_is_skipped(self) -> None:
        self.flavors(skip=True, without=['ceph']).setup()
        self.assertEqual('i1-ceph: this cloud has no Ceph', self.here.skipped)
        self.assertIsNone(self.here.plan)
        # It is no failed run, and later contexts do nothing.
        self.assertEqual([], record.load_all(state.RECORDS))
        contexts.Cluster.setup(self.flavors())  # type: ignore[arg-type]
        drawn: list[dict[str, Any]] = []
        one = SimpleNamespace(
            add_output=lambda complete: drawn.append(complete)
        )
        scenario._skipped(one, self.here)  # type: ignore[arg-type]
        self.assertTrue(slas.skipped({'output': {'complete': drawn}}))

    def test_without_leave_it_fails(self) -> None:
        self.assertRaises(
            errors.InputError, self.flavors(without=['ceph']).setup
        )
        (failed, again) = record.load_all(state.RECORDS)
        self.assertEqual((False, False), (failed.valid, again.valid))
        self.assertIn('no Ceph', failed.reason)

    def test_no_baseline_fails_before_anything_is_made(self) -> None:
        error = self.assertRaises(
            errors.InputError, self.flavors(baseline='auto').setup
        )
        self.assertIn("baseline 'auto'", str(error))

    def test_kit_records_what_a_pair_lacks(self) -> None:
        asked: list[tuple[int, list[int]]] = []

        def runs(*_: object, index: int, wanted: list[int], **__: Any) -> list:
            asked.append((index, wanted))
            return []

        self.useFixture(fixtures.MonkeyPatch('hvstack.tpcxhs.kit.runs', runs))
        config = workload(sweep='mine', kit='/kit')
        for index in (0, 1):
            step = Step(BARE_METAL, index, SIZE)
            scenario._runs(None, self.here, config, step, None)  # type: ignore[arg-type]
            made = factory.run(BARE_METAL, index, 50, size=SIZE, sweep='mine')
            record.save(made, state.RECORDS)
        self.assertEqual([(0, [1, 2]), (0, [2])], asked)
