# SPDX-License-Identifier: Apache-2.0
"""What workloads of one Rally process share: sweeps, what is skipped."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fixtures
import testtools

from hvstack import conf, errors
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
