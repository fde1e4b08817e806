# SPDX-License-Identifier: Apache-2.0
"""Test the causes that a report names."""

import json
from collections.abc import Collection, Sequence
from typing import Any

import testtools

from hvstack.report import (
    build_page,
    build_results,
    explanation,
    format_details,
    format_table,
)
from hvstack.report.explanation import CAUSE_TEXTS, Explanation
from hvstack.report.sweep_report import build_report
from hvstack.results.record_data import RunRecord
from hvstack.results.time_account import Cause
from tests.unit.report.test_page import Page
from tests.unit.results import factory
from tests.unit.results.timed_runs import CAP, Model, timed_sweep

#: Sweeps of a test with noise.
SWEEPS = 20
#: Fact that differs if the hosts of guests have other caps.
ALLOWED = ('caps',)


def explain(
    records: Sequence[RunRecord], allow: Collection[str] = ()
) -> Explanation:
    built = explanation.build_explanation(build_report(records, allow=allow))
    assert built is not None
    return built


def named(records: Sequence[RunRecord]) -> list[Cause]:
    return [item.cause for item in explain(records).named_causes]


class NamedCauses(testtools.TestCase):
    def check_largest(self, cause: Cause, model: Model) -> None:
        built = explain(timed_sweep(model))
        self.assertEqual(cause, built.named_causes[0].cause)
        share = built.gap.compute_share(built.named_causes[0].whole.seconds)
        self.assertTrue(80 < share < 110, built.sentence)
        self.assertIn(CAUSE_TEXTS[cause].title, built.sentence)

    def test_less_cpu_time_for_the_tasks(self) -> None:
        self.check_largest(Cause.THROTTLING, Model(speed=0.7))

    def test_more_cpu_time_of_the_tasks(self) -> None:
        self.check_largest(Cause.TASKS, Model(cpu=1.3))

    def test_slow_disk(self) -> None:
        self.check_largest(Cause.DISK, Model(disk=15))

    def test_uneven_split(self) -> None:
        self.check_largest(Cause.UNEVEN, Model(uneven=0.2))

    def test_agents(self) -> None:
        self.check_largest(Cause.AGENTS, Model(agents=0.3))

    def test_jvm_starts(self) -> None:
        self.check_largest(Cause.JVMS, Model(jvms=0.3))

    def test_part_of_the_network(self) -> None:
        built = explain(timed_sweep(Model(timeouts=100, waiting=20)))
        self.assertEqual(
            [Cause.NETWORK], [item.cause for item in built.named_causes]
        )
        self.assertTrue(30 < built.unattributed_percent < 60)

    def test_equal_sides_have_no_cause(self) -> None:
        unnamed = [
            seed
            for seed in range(SWEEPS)
            if not named(timed_sweep(Model(noise=0.05), seed))
        ]
        self.assertGreaterEqual(len(unnamed), SWEEPS - 1)

    def test_no_spurious_cause_of_a_difference(self) -> None:
        """The intervals of all causes hold together."""
        only_disk = [
            seed
            for seed in range(SWEEPS)
            if named(timed_sweep(Model(disk=15), seed)) == [Cause.DISK]
        ]
        self.assertGreaterEqual(len(only_disk), SWEEPS - 1)

    def test_the_sign_must_be_that_of_the_difference(self) -> None:
        records = timed_sweep(Model(cpu=1.4), baseline=Model(disk=5), passes=6)
        built = explain(records)
        self.assertNotIn(
            Cause.DISK, [item.cause for item in built.named_causes]
        )
        self.assertIn('other differences offset', built.sentence)

    def test_without_noise_equal_sides_have_no_cause(self) -> None:
        self.assertEqual([], named(timed_sweep(Model(noise=0.0))))


class SlowedGuests(testtools.TestCase):
    """Causes as tests/long provokes them, with three clusters of each side.

    The data is small: jobs start for as long as they compute.
    """

    baseline = Model(cpu=0.25)

    def check(self, cause: Cause, records: list[RunRecord]) -> Explanation:
        """Check all pairs together, and each of them alone."""
        for pair in range(0, len(records), 2):
            gap = explain(records[pair : pair + 2], ALLOWED).gap
            largest = max(gap.causes, key=lambda item: item.whole.seconds)
            self.assertEqual(cause, largest.cause)
        built = explain(records, ALLOWED)
        self.assertEqual(cause, built.named_causes[0].cause, built.sentence)
        return built

    def sweep(self, model: Model, **arguments: Any) -> list[RunRecord]:
        return timed_sweep(
            model, passes=3, baseline=self.baseline, **arguments
        )

    def test_half_of_the_cap(self) -> None:
        caps = {f'hv-host{n}': {'cpu': CAP / 2} for n in (1, 2, 3)}
        records = self.sweep(Model(cpu=0.25, speed=0.5), caps=caps)
        self.check(Cause.THROTTLING, records)

    def test_quota_of_the_guests(self) -> None:
        """The caps of the hosts are those of bare metal."""
        records = [
            factory.edit(
                run,
                'seen/flavor/worker/extra_specs',
                {'quota:cpu_quota': '30000'},
            )
            if run.kind == 'configuration'
            else run
            for run in self.sweep(Model(cpu=0.25, speed=0.5))
        ]
        self.check(Cause.THROTTLING, records)

    def test_slow_reads_of_programs(self) -> None:
        """Only HSGen reads them; the bytes of HSSort are no waiting."""
        built = self.check(Cause.DISK, self.sweep(Model(cpu=0.25, reads=25)))
        disk = built.named_causes[0].phases
        self.assertGreater(disk['HSGen'].seconds, 20)
        self.assertLess(abs(disk['HSSort'].seconds), 0.5)

    def test_all_tasks_on_one_worker(self) -> None:
        self.check(Cause.UNEVEN, self.sweep(Model(cpu=0.25, uneven=0.5)))

    def test_nothing_is_provoked(self) -> None:
        unnamed = [
            seed
            for seed in range(SWEEPS)
            if not named(
                timed_sweep(
                    self.baseline, seed, passes=3, baseline=self.baseline
                )
            )
        ]
        self.assertGreaterEqual(len(unnamed), SWEEPS - 1)


class Sentence(testtools.TestCase):
    def test_shares_add_up(self) -> None:
        built = explain(timed_sweep(Model(cpu=1.3, waiting=8)))
        shares = [
            built.gap.compute_share(item.whole.seconds)
            for item in built.named_causes
        ]
        self.assertAlmostEqual(100, sum(shares) + built.unattributed_percent)
        self.assertIn(
            f'{built.unattributed_percent:.0f} % of the gap is not attributed',
            built.sentence,
        )

    def test_faster(self) -> None:
        built = explain(timed_sweep(Model(cpu=0.7)))
        self.assertIn('takes less than bare metal', built.sentence)
        # A change would close the gap by making the configuration slower.
        self.assertNotEqual([], built.named_causes)
        self.assertEqual([], built.remedies)
        self.assertEqual(Cause.TASKS, built.named_causes[0].cause)

    def test_nothing_explains_it(self) -> None:
        text = explain(timed_sweep(Model(waiting=15))).sentence
        self.assertIn('No recorded cause', text)
        self.assertIn('100 % of the gap is not attributed', text)

    def test_not_told_apart(self) -> None:
        built = explain(timed_sweep(Model(noise=0.05), seed=1))
        self.assertIn('not told apart from bare metal', built.sentence)
        self.assertEqual([], built.remedies)

    def test_causes_that_offset_each_other(self) -> None:
        """Without a difference no cause is named, told apart or not."""
        built = explain(timed_sweep(Model(cpu=0.85, disk=6.3)))
        self.assertIn('not told apart from bare metal', built.sentence)
        self.assertEqual([], built.named_causes)
        self.assertIn(
            (Cause.DISK, True),
            [
                (item.cause, item.whole.is_told_apart)
                for item in built.gap.causes
            ],
        )

    def test_too_few_clusters(self) -> None:
        built = explain(timed_sweep(Model(disk=15), passes=1))
        self.assertIn('too few clusters', built.sentence)
        self.assertEqual([], built.named_causes)

    def test_refused_comparison_has_none(self) -> None:
        records = timed_sweep(Model(disk=15), cpu_model='Opteron')
        built = build_report(records)
        self.assertIsNone(explanation.build_explanation(built))
        self.assertIsNone(build_results(build_report(records))['explanation'])
        for text in (
            format_table(build_report(records)),
            format_details(build_report(records)),
            build_page(build_report(records)),
        ):
            self.assertNotIn('of the gap', text)
            self.assertNotIn('no cause is', text)

    def test_refused_row_beside_a_comparable_one(self) -> None:
        """A refused row contributes nothing, not even variance."""
        records = timed_sweep(Model(disk=15))
        refused = timed_sweep(
            Model(disk=40), 9, configuration='i2', cpu_model='Opteron'
        )[1::2]
        self.assertEqual(
            explain(records).gap,
            explain([*records, *refused]).gap,
        )


class Forms(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.records = timed_sweep(Model(disk=15))
        self.explanation = explain(self.records)

    def test_short_answer_ends_with_the_sentence(self) -> None:
        text = ' '.join(format_table(build_report(self.records)).split())
        self.assertTrue(text.endswith(self.explanation.sentence), text)

    def test_details(self) -> None:
        text = format_details(build_report(self.records))
        self.assertIn(self.explanation.sentence, ' '.join(text.split()))
        line = next(
            line for line in text.splitlines() if line.startswith('busy disks')
        )
        difference = next(
            item.whole
            for item in self.explanation.gap.causes
            if item.cause == Cause.DISK
        )
        self.assertIn(f' {difference.seconds:.1f} ', line)
        self.assertIn(CAUSE_TEXTS[Cause.DISK].remedy[:40], text)

    def test_json(self) -> None:
        data = build_results(build_report(self.records))['explanation']
        json.dumps(data, allow_nan=False)
        self.assertEqual(self.explanation.sentence, data['sentence'])
        causes = {item['name']: item for item in data['causes']}
        self.assertEqual(
            ['disk'], [name for name in causes if causes[name]['named']]
        )
        self.assertAlmostEqual(
            data['gap']['seconds'],
            sum(item['seconds'] for item in causes.values()),
        )
        for phase, difference in data['phases'].items():
            self.assertAlmostEqual(
                difference['seconds'],
                sum(
                    item['phases'][phase]['seconds']
                    for item in causes.values()
                ),
            )
        self.assertEqual(['steal'], data['not_recorded'])

    def test_page(self) -> None:
        page = Page(build_page(build_report(self.records)))
        self.assertIn('explanation', page.attributes['id'])
        self.assertLess(
            page.text.index(self.explanation.sentence),
            page.text.index('Search path'),
        )
        self.assertIn(CAUSE_TEXTS[Cause.DISK].remedy, page.text)

    def test_counters_that_are_missing(self) -> None:
        """Their seconds are not attributed, and the report names them."""
        records = [
            factory.edit(record, 'seen/telemetry', ...)
            for record in self.records
        ]
        built = explain(records)
        self.assertEqual([], built.named_causes)
        self.assertIn(Cause.DISK, built.gap.unobserved)
        self.assertIn('busy disks', format_details(build_report(records)))
        self.assertIn('100 % of the gap', built.sentence)

    def test_counters_that_one_run_lacks(self) -> None:
        """A side without a counter does not look better than the other."""
        records = list(self.records)
        records[0] = factory.edit(records[0], 'seen/telemetry', ...)
        self.assertEqual([], explain(records).named_causes)

    def test_every_cause_has_texts(self) -> None:
        self.assertEqual(set(Cause), set(CAUSE_TEXTS))
