# SPDX-License-Identifier: Apache-2.0
"""A plan says what is measured, how long it takes, and what it decides."""

from typing import Any

import testtools

from hvstack import host_profiles
from hvstack.results import record
from hvstack.study import definition, study_plan
from hvstack.study.study_store import StartedStudy
from hvstack.sweep import sweep_store
from tests.unit.results import factory
from tests.unit.sweep.directories import SweepDirectories

CLAIM = {'text': 'It is so.', 'variant': 'a', 'against': 'b', 'rule': 'faster'}
COUNT = {'text': 'It is so.', 'variant': 'a', 'measure': 'missing blocks'}


class ConditionTest(testtools.TestCase):
    def check_condition(self, expected: str, **changes: Any) -> None:
        study = definition.parse_study(
            'mine',
            {
                'question': 'Is it so?',
                'base': {'lost_hosts': 1},
                'variants': {'a': {}, 'b': {'replication': 1}},
                'claims': [{**changes}],
            },
            'mine.yaml',
        )
        self.assertEqual(expected, study.claims[0].condition)

    def test_sentences(self) -> None:
        self.check_condition(
            "Holds if 'a' has more than 100 % of the rate of 'b'.", **CLAIM
        )
        self.check_condition(
            "Holds if 'a' has 97 to 103 % of the HSSort rate of 'b'.",
            **{**CLAIM, 'phase': 'HSSort', 'rule': {'within': 3}},
        )
        self.check_condition(
            "Holds if no run of 'a' has missing blocks.", **COUNT, rule='none'
        )
        self.check_condition(
            "Holds if a run of 'a' has missing blocks.", **COUNT, rule='some'
        )
        self.check_condition(
            "Holds if at least 95 % of the maps of 'a' are local.",
            **{**COUNT, 'measure': 'local maps'},
            rule={'at_least': 95},
        )

    def test_throughput(self) -> None:
        claim = definition.load('vsphere6-testdfsio').claims[0]
        self.assertEqual(
            "Holds if '1 replica' has more than 100 % of the write throughput "
            "of '2 replicas'.",
            claim.condition,
        )


class PlanTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(SweepDirectories())

    def plan(
        self, skipped: dict[str, str] | None = None, **changes: Any
    ) -> study_plan.StudyPlan:
        study = definition.parse_study(
            'mine',
            {
                'question': 'Is it so?',
                'size': '200MB',
                'passes': 2,
                'variants': {'a': {}, 'b': {'size_factor': 10000}},
                'claims': [CLAIM],
                **changes,
            },
            'mine.yaml',
        )
        return study_plan.build_plan(
            StartedStudy('', study, '', 'vsphere6', 'kvm', skipped or {}),
            host_profiles.load('vsphere6'),
            sweep_store.open_store(),
        )

    def save_run(
        self,
        losses: list[dict[str, float]] | None = None,
        *,
        configuration: str = 'i2',
        seconds: float = 600.0,
        backend: str = 'kvm',
        size: int = 200_000_000,
    ) -> None:
        facts: dict[str, Any] = {'backend': backend} if backend else {}
        run = factory.run(
            *(configuration, 0, seconds),
            size=size,
            sweep='losses' if losses else f's-{configuration}',
            **facts,
        )
        if losses:
            run = factory.edit(run, 'seen/host_losses', losses)
            run = factory.edit(run, 'seen/host_loss_method', 'powered off')
        record.save(run, sweep_store.RECORDS_DIR)

    def test_data_in_memory(self) -> None:
        """The memory of a host of vsphere6 has 256 GiB."""
        plan = self.plan()
        self.assertEqual(['a'], plan['in_memory'])
        text = '\n'.join(study_plan.format_plan(plan))
        self.assertIn('can hold the data of a, so disks are not', text)
        self.assertIn('Hosts: vsphere6, backend kvm', text)
        self.assertIn('- b: i1, size_factor 10000; 2 TB', text)
        plan = self.plan({'b': 'no Ceph'})
        text = '\n'.join(study_plan.format_plan(plan))
        self.assertIn('can hold the data, so disks are not measured', text)
        self.assertEqual([], self.plan(size='30TB')['in_memory'])

    def test_claims_about_skipped_variants(self) -> None:
        (claim,) = self.plan({'b': 'no Ceph'})['claims']
        self.assertTrue(
            claim.endswith("Cannot be tested here: 'b' is skipped."), claim
        )

    def test_width_of_the_intervals(self) -> None:
        """Two passes of two variants have a single degree of freedom."""
        plan = self.plan()
        self.assertEqual(12.71, plan['interval_factor'])
        self.assertIsNone(plan['max_deviation_percent'])
        plan = self.plan(passes=8, claims=[{**CLAIM, 'rule': {'within': 3}}])
        # 2.365 for seven degrees of freedom, and half of eight passes.
        self.assertEqual(1.18, plan['interval_factor'])
        self.assertEqual(2.54, plan['max_deviation_percent'])
        text = '\n'.join(study_plan.format_plan(plan))
        self.assertIn('will be about ±1.2 times the standard dev', text)
        self.assertIn('can hold if this deviation is less than 2.5 %.', text)
        for changes in (
            {'passes': 1},
            {'skipped': {'b': 'no Ceph'}},
        ):
            plan = self.plan(**changes)
            self.assertIsNone(plan['interval_factor'])
            text = '\n'.join(study_plan.format_plan(plan))
            self.assertEqual('passes' in changes, 'no intervals' in text)

    def test_unknown_duration(self) -> None:
        """Without a run of the workload, no other run says its time."""
        self.save_run()
        plan = self.plan(
            variants={'a': {}, 'b': {'workload': 'terasort', 'lost_hosts': 1}},
            claims=[{**COUNT, 'variant': 'b', 'rule': 'none'}],
        )
        self.assertIsNone(plan['seconds_range'])
        self.assertIn(
            '4 runs on new clusters in 2 passes: the duration is unknown '
            'until runs with data of 200 MB (terasort) were measured with the '
            'backend kvm.',
            '\n'.join(study_plan.format_plan(plan)),
        )

    def test_duration_by_runs_with_other_data(self) -> None:
        """A time grows at most in proportion to the data."""
        self.save_run()
        variants = {'a': {}, 'b': {'size_factor': 3}}
        plan = self.plan(variants=variants)
        self.assertIsNone(plan['seconds'])
        self.assertEqual((2400, 4800), plan['seconds_range'])
        self.assertEqual(
            [(600, 600), (600, 1800)],
            [item['run_seconds_range'] for item in plan['variants']],
        )
        self.assertIn(
            '4 runs on new clusters in 2 passes: about 40 to 80 minutes by '
            'the records of runs with other data: no record contains data of '
            '600 MB (tpcx-hs), and the time of a run is assumed to grow at '
            'most in proportion to its data, without the time for clusters, '
            'which no record contains.',
            '\n'.join(study_plan.format_plan(plan)),
        )
        # Half of the data takes no more time, and at least half of it.
        plan = self.plan(variants={'a': {}, 'b': {'size_factor': 0.5}})
        self.assertEqual((1800, 2400), plan['seconds_range'])
        # The nearest size is that with the smallest factor.
        self.save_run(configuration='i1', seconds=3000.0, size=800_000_000)
        plan = self.plan(variants=variants)
        self.assertEqual((5700, 7200), plan['seconds_range'])

    def test_runs_of_another_backend(self) -> None:
        """Emulated runs take many times as long."""
        variants = {'a': {}, 'b': {'replication': 1}}
        self.save_run(backend='qemu')
        plan = self.plan(variants=variants, size='400MB')
        self.assertIsNone(plan['seconds_range'])
        self.assertIsNone(self.plan(variants=variants)['seconds'])
        self.save_run(configuration='bare-metal', seconds=60.0, backend='')
        self.assertEqual(240, self.plan(variants=variants)['seconds'])

    def test_losses_of_hosts(self) -> None:
        """They take longer than the run after which they happen."""
        changes: Any = {
            'variants': {'a': {}, 'b': {'lost_hosts': 2, 'loss_rounds': 5}}
        }
        self.save_run()
        plan = self.plan(**changes)
        self.assertEqual(2400, plan['seconds'])
        text = '\n'.join(study_plan.format_plan(plan))
        self.assertIn('without the time for clusters and losses of ho', text)
        self.save_run([{'hosts': 2, 'seconds': 300.0}])
        plan = self.plan(**changes)
        # Two runs of each variant, and five losses after each run of one.
        self.assertEqual(2400 + 2 * 5 * 300, plan['seconds'])
        text = '\n'.join(study_plan.format_plan(plan))
        self.assertIn('without the time for clusters, which no', text)
