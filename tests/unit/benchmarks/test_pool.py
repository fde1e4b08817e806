# SPDX-License-Identifier: Apache-2.0
"""Trials of whole clusters of a pool, and the caps that it changes."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import journal
from hvstack.results import stats
from hvstack.results.estimator import ClusterRate
from tests.unit.benchmarks import load
from tests.unit.results import factory
from tests.unit.results.timed_runs import (
    CORES,
    CPU_SECONDS,
    THROTTLED,
    Model,
    timed_run,
)

pool = load('pool')
resampling = load('resampling')


def draw_side(seed: int, count: int, mean: float = 0.0) -> list[ClusterRate]:
    """Return clusters whose log rates scatter by 3 %."""
    source = random.Random(seed)
    return [
        ClusterRate('x', None, mean + source.gauss(0, 0.03), hour)
        for hour in range(count)
    ]


class ResamplingTest(testtools.TestCase):
    COUNT = 300

    def test_equal_sides(self) -> None:
        side = draw_side(1, 40)
        summary = resampling.summarize(
            resampling.resample(side, 3, self.COUNT)
        )
        self.assertAlmostEqual(0.95, summary.contain, delta=0.03)
        self.assertAlmostEqual(100, summary.percent, delta=0.7)
        self.assertAlmostEqual(
            1, summary.contain + summary.slower + summary.faster
        )
        self.assertEqual(3, summary.clusters)

    def test_pace_that_wanders(self) -> None:
        """Pairs of neighbors have it in common, so that 95 % contain 100."""
        contain = []
        for seed in range(6):
            source, level, side = random.Random(seed), 0.0, []
            for index in range(24):
                level = 0.9 * level + source.gauss(0, 0.03)
                rate = level + source.gauss(0, 0.02)
                side.append(ClusterRate('x', None, rate, index / 10))
            percents = resampling.resample(side, 8, 100)
            contain.append(resampling.summarize(percents).contain)
        self.assertAlmostEqual(0.95, sum(contain) / 6, delta=0.025)

    def test_slower_side(self) -> None:
        effect = math.log(0.8)
        sides = draw_side(2, 20), draw_side(3, 20, effect)
        percents = resampling.resample_until(*sides, 4.0, self.COUNT)
        summary = resampling.summarize(percents)
        self.assertEqual(1, summary.slower)
        self.assertAlmostEqual(80, summary.percent, delta=2)
        # Few clusters are narrow by chance; without a goal, all are drawn.
        counts = {percent.clusters for percent in percents}
        self.assertEqual(8, min(counts))
        for percent in percents:
            if percent.clusters < 20:
                self.assertLessEqual(percent.margin, 4)
        all_drawn = resampling.resample_until(*sides, 0.1, 5)
        self.assertEqual({20}, {percent.clusters for percent in all_drawn})
        faster = resampling.summarize(
            resampling.resample_until(*sides[::-1], 4.0, self.COUNT)
        )
        self.assertGreater(faster.faster, 0.98)

    def test_no_cluster_is_on_both_sides(self) -> None:
        side = [
            replace(cluster, log_rate=log)
            for cluster, log in zip(
                draw_side(1, 4), (0.0, 0.1, 0.25, 0.7), strict=True
            )
        ]
        percents = {
            round(percent.percent, 6)
            for percent in resampling.resample(side, 2, 200)
        }
        # Two pairs of neighbors, each in both directions.
        self.assertEqual(4, len(percents))
        self.assertNotIn(100.0, percents)

    def test_neighbors_in_time_are_a_pass(self) -> None:
        """A drift that both sides have in common widens no interval."""
        side_a, side_b = (
            [
                ClusterRate('x', None, 0.1 * hour + noise, hour)
                for hour, noise in zip(hours, (0.0, 0.01, 0.0), strict=True)
            ]
            for hours in ((4.0, 0.0, 2.0), (2.0, 4.0, 0.0))
        )
        percent = resampling.compare(resampling.pair_neighbors(side_a, side_b))
        self.assertAlmostEqual(100, percent.percent, delta=0.1)
        self.assertLess(percent.margin, 5)

    def test_pool_that_is_too_small(self) -> None:
        side = draw_side(1, 7)
        for size in (1, 4):
            self.assertRaises(
                errors.InputError, resampling.resample, side, size
            )
        self.assertRaises(
            errors.InputError, resampling.resample_until, side, side, 4.0
        )

    def test_the_seed_decides(self) -> None:
        side = draw_side(1, 12)
        first, second, other = (
            resampling.resample(side, 3, 20, seed) for seed in (1, 1, 2)
        )
        self.assertEqual(first, second)
        self.assertNotEqual(first, other)

    def test_order(self) -> None:
        order = resampling.order_clusters('x', 8)
        self.assertEqual(order, resampling.order_clusters('x', 8))
        self.assertNotEqual(order, resampling.order_clusters('y', 8))
        for side in resampling.SIDES:
            self.assertEqual(
                list(range(8)),
                [index for item, index in order if item == side],
            )


class EffectTest(testtools.TestCase):
    """The model has a known time in which the caps bind."""

    def setUp(self) -> None:
        super().setUp()
        self.model = Model(noise=0)
        self.run_a = timed_run('i1', 0, self.model, random.Random(0))

    def test_bounds(self) -> None:
        bounds = resampling.bound_effect([self.run_a], 85, 2)
        factor = 1 + self.model.jvms + self.model.agents
        binding = factor * sum(CPU_SECONDS.values()) / CORES
        share = binding / self.run_a.total_seconds
        self.assertAlmostEqual(share, bounds.max_share)
        throttled = THROTTLED * (1 + self.model.jvms)
        withheld = 2 * 2 - CORES
        self.assertAlmostEqual(
            throttled * sum(CPU_SECONDS.values()) / withheld,
            bounds.min_share * self.run_a.total_seconds,
        )
        self.assertLess(bounds.min_share, share)
        # Fewer CPUs that could wait are longer throttled.
        fewer = resampling.bound_effect([self.run_a], 85, 1)
        self.assertGreater(fewer.min_share, bounds.min_share)
        self.assertLessEqual(fewer.min_share, bounds.max_share)

    def test_effect(self) -> None:
        """The slower side of the model is where the bounds say."""
        run_b = timed_run(
            *('i1', 0, replace(self.model, speed=0.85), random.Random(0))
        )
        bounds = resampling.bound_effect([self.run_a], 85, 2)
        percent = 100 * self.run_a.total_seconds / run_b.total_seconds
        self.assertAlmostEqual(
            percent, bounds.compute_rate(bounds.max_share), delta=0.01
        )
        self.assertGreater(bounds.compute_rate(bounds.min_share), percent)
        self.assertEqual(100, bounds.compute_rate(0.0))
        self.assertAlmostEqual(85, bounds.compute_rate(1.0))

    def test_caps_with_an_effect_that_is_large_enough(self) -> None:
        bounds = resampling.EffectBounds(0.45, 0.67, 90)
        self.assertAlmostEqual(4.8, bounds.effect, delta=0.1)
        self.assertEqual(80, bounds.choose_percent())
        enough = replace(bounds, percent=80)
        self.assertGreater(enough.effect, 8)
        self.assertAlmostEqual(0.4 * enough.effect, enough.half_width)
        none = resampling.EffectBounds(0.0, 0.0, 90)
        self.assertIsNone(none.choose_percent())

    def test_interval_that_overlaps_the_bounds(self) -> None:
        bounds = resampling.EffectBounds(0.45, 0.67, 80)
        for low, high, is_inside in (
            *((80, 86, True), (89, 95, True), (95, 105, False)),
            *((60, 80, False), (86, 88, True)),
        ):
            percent = stats.build_percent(
                *(math.log(math.sqrt(low * high) / 100),),
                *(math.log(high / low) / 2, 5, [1.0], [1.0], None),
            )
            self.assertEqual(is_inside, bounds.contains(percent), (low, high))

    def test_record_without_counters(self) -> None:
        for record in (
            factory.edit(self.run_a, 'seen/telemetry', ...),
            factory.edit(self.run_a, 'environment/caps', ...),
        ):
            error = self.assertRaises(
                errors.InputError, resampling.bound_effect, [record], 85, 2
            )
            self.assertIn(record.id, str(error))


class CapsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.journal.DIRECTORY', self.directory / 'journal'
            )
        )
        self.calls: list[float] = []

    def run_sides(self, failure: BaseException | None = None) -> None:
        with pool.changed_caps(self.calls.append) as change:
            for percent in (100.0, 85.0, 85.0, 100.0, 85.0):
                change(percent)
            (entry,) = journal.own()
            self.assertEqual(pool.KIND, entry.kind)
            if failure:
                raise failure

    def test_restored_at_the_end(self) -> None:
        self.run_sides()
        self.assertEqual([85, 100, 85, 100], self.calls)
        self.assertEqual([], journal.entries())

    def test_restored_after_an_interruption(self) -> None:
        self.assertRaises(
            KeyboardInterrupt, self.run_sides, KeyboardInterrupt()
        )
        self.assertEqual(100, self.calls[-1])
        self.assertEqual([], journal.entries())

    def test_kept_if_they_cannot_be_restored(self) -> None:
        def fail(percent: float) -> None:
            raise errors.RunFailedError('Cannot start a host. Start it.')

        with (
            testtools.ExpectedException(errors.RunFailedError),
            pool.changed_caps(fail),
        ):
            pass
        self.assertEqual(1, len(journal.entries()))

    def test_restored_after_a_sigkill(self) -> None:
        entry = journal.note(pool.KIND, {'name': 'x'})
        pool.recover_caps(self.calls.append)
        # This process still runs.
        self.assertEqual([], self.calls)
        data: dict[str, Any] = json.loads(
            entry.path.read_text(encoding='utf-8')
        )
        entry.path.write_text(
            json.dumps({**data, 'start': data['start'] + 1}), encoding='utf-8'
        )
        pool.recover_caps(self.calls.append)
        self.assertEqual([100], self.calls)
        self.assertEqual([], journal.entries())

    def test_clusters_of_this_pool_alone_are_deleted(self) -> None:
        deleted: list[str] = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'fresh_clusters.delete_cluster', deleted.append
            )
        )
        for name in ('p-a0', 'p-b12', 'p-2-a0', 'p-other', 'q-a0'):
            journal.hand_over([journal.note('stack', {})], f'cluster {name}')
        pool.fresh_clusters.delete_remains('p')
        self.assertEqual(['p-a0', 'p-b12'], deleted)

    def test_minutes(self) -> None:
        pending = [('b', 0), ('a', 0), ('b', 1)]
        single, three = (
            pool.estimate_minutes(items, 10**8)
            for items in (pending[1:2], pending)
        )
        self.assertAlmostEqual(3 * single + 4 * pool.CAP_MINUTES, three)

    def test_design(self) -> None:
        for clusters, percent in ((1, 85), (4, 100), (4, 5)):
            self.assertRaises(
                errors.InputError, pool.PoolDesign, clusters, percent
            )
