# SPDX-License-Identifier: Apache-2.0
"""Test the difference of the time of a configuration and bare metal."""

import statistics
from collections.abc import Sequence

import testtools

from hvstack.results import time_gap
from hvstack.results.quantiles import compute_t_quantile
from hvstack.results.record_data import RunRecord
from hvstack.results.time_account import Cause
from hvstack.results.time_gap import SecondsDifference, TimeGap
from tests.unit.results.timed_runs import Model, timed_sweep

NAME = 'i1-c1-m1-local-shared-unpinned'


def estimate(records: Sequence[RunRecord]) -> TimeGap:
    gap = time_gap.estimate_gap(
        {NAME: [r for r in records if r.kind != 'baseline']},
        [r for r in records if r.kind == 'baseline'],
        NAME,
    )
    assert gap is not None
    return gap


class Gap(testtools.TestCase):
    def test_difference_of_pairs(self) -> None:
        """One cluster of each row in a pass: the differences of pairs."""
        records = timed_sweep(Model(disk=5))
        pairs = [
            guest.total_seconds - bare_metal.total_seconds
            for bare_metal, guest in zip(
                records[::2], records[1::2], strict=True
            )
        ]
        whole = estimate(records).whole
        self.assertAlmostEqual(statistics.fmean(pairs), whole.seconds)
        error = statistics.stdev(pairs) / len(pairs) ** 0.5
        self.assertAlmostEqual(
            compute_t_quantile(len(pairs) - 1) * error, whole.half_width
        )

    def test_causes_add_up(self) -> None:
        gap = estimate(timed_sweep(Model(cpu=1.2, uneven=0.1)))
        self.assertAlmostEqual(
            gap.whole.seconds, sum(item.whole.seconds for item in gap.causes)
        )
        for name, phase in gap.phases.items():
            self.assertAlmostEqual(
                phase.seconds,
                sum(item.phases[name].seconds for item in gap.causes),
            )

    def test_runs_of_a_cluster_are_one_value(self) -> None:
        """The same runs a second time on each cluster narrow nothing."""
        records = timed_sweep(Model(disk=5))
        self.assertEqual(
            estimate(records).whole, estimate([*records, *records]).whole
        )

    def test_intervals_of_causes_hold_together(self) -> None:
        gap = estimate(timed_sweep(Model(disk=5)))
        causes = {item.cause: item.whole for item in gap.causes}
        # Throttling, steal, the network and uneven tasks have no seconds.
        single, together = (
            compute_t_quantile(4, confidence) for confidence in (0.95, 0.99)
        )
        records = timed_sweep(Model(disk=5))
        pairs = [
            sum(
                guest.phases[n].job.counters['CPU_MILLISECONDS']
                - bare_metal.phases[n].job.counters['CPU_MILLISECONDS']
                for n in (0, 2, 4)
            )
            / 1300
            for bare_metal, guest in zip(
                records[::2], records[1::2], strict=True
            )
        ]
        error = statistics.stdev(pairs) / len(pairs) ** 0.5
        self.assertAlmostEqual(
            together * error, causes[Cause.TASKS].half_width
        )
        self.assertLess(single, together)

    def test_no_runs(self) -> None:
        self.assertIsNone(time_gap.estimate_gap({NAME: []}, [], NAME))


class Difference(testtools.TestCase):
    def test_zero_inside(self) -> None:
        self.assertFalse(SecondsDifference(1.0, 1.5).is_told_apart)
        self.assertTrue(SecondsDifference(-2.0, 1.5).is_told_apart)

    def test_no_interval(self) -> None:
        self.assertFalse(SecondsDifference(5.0, None).is_told_apart)
        self.assertIsNone(SecondsDifference(5.0, None).bounds)

    def test_rounding_is_no_difference(self) -> None:
        self.assertFalse(SecondsDifference(1e-12, 1e-13).is_told_apart)
