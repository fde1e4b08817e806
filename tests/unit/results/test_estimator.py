# SPDX-License-Identifier: Apache-2.0
"""Rows and passes by least squares."""

import math
import random

import testtools

from hvstack.model.target import BARE_METAL
from hvstack.results import percentages
from hvstack.results.estimator import (
    ClusterRate,
    History,
    Scatter,
    SweepFit,
    fit_sweep,
    pool_scatter,
)


def build_clusters(
    logs: dict[str, list[float | tuple[float, ...]]],
) -> list[ClusterRate]:
    """Return clusters from the log rates of each row in each pass."""
    return [
        ClusterRate(row, number, log)
        for row, passes in logs.items()
        for number, values in enumerate(passes)
        for log in (values if isinstance(values, tuple) else (values,))
    ]


def fit(
    logs: dict[str, list[float | tuple[float, ...]]],
    history: History | None = None,
) -> SweepFit:
    """Return the fit of log rates by row and pass."""
    return fit_sweep(build_clusters(logs), BARE_METAL, history)


class PassesTest(testtools.TestCase):
    def test_by_hand(self) -> None:
        sweep_fit = fit({BARE_METAL: [0.0, 1.0, 5.0], 'a': [0.2, 1.3, 4.9]})
        difference = sweep_fit.compare('a')
        # The differences are 0.2, 0.3 and -0.1.
        self.assertAlmostEqual(0.4 / 3, difference.log_ratio)
        self.assertEqual(2, difference.degrees)
        variance = 0.26 / 3 / 2  # of the differences, from their mean
        self.assertAlmostEqual(
            math.sqrt(variance / 3), difference.error or 0, 9
        )

    def test_passes_are_taken_out(self) -> None:
        rows = {
            BARE_METAL: [(0.01, -0.02), (0.0, 0.03), (0.02, -0.01)],
            'a': [-0.1, -0.13, -0.08],
            'b': [-0.2, -0.17, -0.22],
        }
        shifted = {
            name: [
                tuple(log + shift for log in logs)
                if isinstance(logs, tuple)
                else logs + shift
                for logs, shift in zip(passes, (0.0, 0.5, -0.3), strict=True)
            ]
            for name, passes in rows.items()
        }
        plain, moved = fit(rows), fit(shifted)
        for name in ('a', 'b'):
            first, second = plain.compare(name), moved.compare(name)
            self.assertAlmostEqual(first.log_ratio, second.log_ratio)
            self.assertAlmostEqual(first.error or 0, second.error or 0)
        # 12 clusters, 3 rows and 3 passes.
        self.assertEqual(7, plain.own.total.degrees)
        self.assertEqual(3, plain.passes)
        self.assertTrue(moved.wanders)
        self.assertFalse(plain.wanders)
        self.assertAlmostEqual(0.4, moved.pass_deviation, 1)

    def test_incomplete_passes(self) -> None:
        """The effect of a missing run is not that of its pass."""
        sweep_fit = fit_sweep(
            [
                ClusterRate(BARE_METAL, 0, 0.0),
                ClusterRate('a', 0, -0.1),
                ClusterRate('b', 0, -0.2),
                # The machine became slow, and 'b' did not run.
                ClusterRate(BARE_METAL, 1, -1.0),
                ClusterRate('a', 1, -1.1),
            ],
            BARE_METAL,
        )
        self.assertAlmostEqual(-0.1, sweep_fit.compare('a').log_ratio)
        self.assertAlmostEqual(-0.2, sweep_fit.compare('b').log_ratio)
        self.assertAlmostEqual(-0.1, sweep_fit.compare('b', 'a').log_ratio)
        self.assertEqual(1, sweep_fit.own.total.degrees)

    def test_least_squares(self) -> None:
        """No other effects have a smaller sum of squares."""
        source = random.Random(3)
        clusters = [
            ClusterRate(row, number, source.gauss(0, 1))
            for row in (BARE_METAL, 'a', 'b', 'c')
            for number in range(4)
            if (row, number) not in {('a', 1), ('c', 0), ('c', 3)}
        ]
        sweep_fit = fit_sweep(clusters, BARE_METAL)
        effects = dict(zip(sweep_fit.rows, sweep_fit.effects, strict=True))
        residuals = [
            cluster.log_rate
            - effects[cluster.row]
            - sweep_fit.pass_effects[int(str(cluster.pass_id))]
            for cluster in clusters
        ]
        squares = math.fsum(residual**2 for residual in residuals)
        self.assertAlmostEqual(squares, sweep_fit.own.total.squares)
        for selected in (*effects, *range(4)):
            rest = math.fsum(
                residual
                for residual, cluster in zip(residuals, clusters, strict=True)
                if selected in (cluster.row, cluster.pass_id)
            )
            self.assertAlmostEqual(0, rest)

    def test_rows_without_a_pass_in_common(self) -> None:
        clusters = [
            ClusterRate(BARE_METAL, ('other', number), log)
            for number, log in enumerate((0.0, 0.2))
        ] + [
            ClusterRate('a', ('own', number), log)
            for number, log in enumerate((0.3, 0.5))
        ]
        sweep_fit = fit_sweep(clusters, BARE_METAL)
        self.assertTrue(sweep_fit.is_merged)
        difference = sweep_fit.compare('a')
        self.assertAlmostEqual(0.3, difference.log_ratio)
        self.assertEqual(2, difference.degrees)
        self.assertAlmostEqual(math.sqrt(0.02), difference.error or 0)

    def test_without_bare_metal_the_first_row_is_the_reference(self) -> None:
        sweep_fit = fit({'a': [0.0, 0.1], 'b': [0.3, 0.2]})
        self.assertIsNone(sweep_fit.baseline)
        self.assertAlmostEqual(0.2, sweep_fit.compare('b').log_ratio)

    def test_a_single_pass_has_no_deviation(self) -> None:
        sweep_fit = fit({BARE_METAL: [(0.0, 0.1)], 'a': [(0.2, 0.4)]})
        self.assertEqual(0.0, sweep_fit.pass_deviation)
        self.assertFalse(sweep_fit.wanders)

    def test_equal_rates_do_not_scatter(self) -> None:
        sweep_fit = fit({row: [0.0, 0.0] for row in (BARE_METAL, 'a', 'b')})
        self.assertEqual(0.0, sweep_fit.compare('a').error)
        self.assertEqual(0.5, sweep_fit.correlation)

    def test_one_pass_of_single_runs_has_no_error(self) -> None:
        difference = fit({BARE_METAL: [0.0], 'a': [0.1]}).compare('a')
        self.assertAlmostEqual(0.1, difference.log_ratio)
        self.assertIsNone(difference.error)


class SidesTest(testtools.TestCase):
    """Guests and bare metal that scatter differently."""

    def setUp(self) -> None:
        super().setUp()
        self.source = random.Random(5)

    def build(
        self, guests: float, bare_metal: float, passes: int = 12
    ) -> SweepFit:
        return fit(
            {
                BARE_METAL: [
                    (
                        self.source.gauss(0, bare_metal),
                        self.source.gauss(0, bare_metal),
                    )
                    for _ in range(passes)
                ],
                **{
                    name: [self.source.gauss(0, guests) for _ in range(passes)]
                    for name in 'abc'
                },
            }
        )

    def test_both_sides_count(self) -> None:
        for guests, bare_metal in ((0.02, 0.2), (0.2, 0.02)):
            squares = []
            splits = 0
            for _ in range(30):
                sweep_fit = self.build(guests, bare_metal)
                splits += sweep_fit.is_split
                squares.append(
                    (
                        (sweep_fit.compare('a').error or 0) ** 2,
                        (sweep_fit.compare('a', 'b').error or 0) ** 2,
                    )
                )
            self.assertGreater(splits, 25)
            means = [
                math.fsum(column) / 30 for column in zip(*squares, strict=True)
            ]
            self.assertAlmostEqual(
                1, means[0] / (guests**2 / 12 + bare_metal**2 / 24), delta=0.2
            )
            self.assertAlmostEqual(
                1, means[1] / (guests**2 / 12 * 2), delta=0.2
            )

    def test_mean_of_bare_metal(self) -> None:
        """Its interval has its own variance, or one that is too large."""
        for guests, bare_metal, per_cent in (
            (0.02, 0.2, range(85, 116)),
            (0.2, 0.02, range(200, 10_000)),
        ):
            fits = [self.build(guests, bare_metal) for _ in range(30)]
            split = [item for item in fits if item.is_split]
            self.assertGreater(len(split), 20)
            squares = []
            for item in split:
                difference = item.estimate_baseline()
                assert difference.error
                squares.append(difference.error**2)
                pooled = math.sqrt(item.pooled.variance / 24)
                self.assertGreater(difference.error, 0.9999 * pooled)
                is_pooled = difference.degrees == item.pooled.degrees
                self.assertEqual(guests > bare_metal, is_pooled)
            mean = math.fsum(squares) / len(squares)
            self.assertIn(round(100 * mean / (bare_metal**2 / 24)), per_cent)

    def test_guests_with_equal_rates(self) -> None:
        """Bare metal scatters, which says nothing about the guests."""
        rows: dict[str, list[float | tuple[float, ...]]] = {
            BARE_METAL: [(0.1, -0.1), (-0.2, 0.2), (0.1, -0.1)],
            'a': [0.0, 0.0, 0.0],
            'b': [0.0, 0.0, 0.0],
        }
        sweep_fit = fit(rows)
        self.assertTrue(sweep_fit.is_split)
        difference = sweep_fit.compare('a', 'b')
        self.assertEqual((0.0, 1), (difference.error, difference.degrees))

    def test_equal_sides_share_a_variance(self) -> None:
        splits = sum(self.build(0.1, 0.1).is_split for _ in range(100))
        self.assertLess(splits, 6)


class HistoryTest(testtools.TestCase):
    ROWS = {
        BARE_METAL: [0.0, 0.1, -0.05, 0.02, 0.04],
        'a': [0.1, 0.05, 0.0, 0.06, 0.01],
    }

    def test_it_is_pooled_once(self) -> None:
        own = fit(self.ROWS).own.total
        self.assertEqual(4, own.degrees)
        wider = Scatter(2 * own.variance * 3, 3)
        sweep_fit = fit(self.ROWS, History(wider, wider))
        self.assertEqual(7, sweep_fit.pooled.degrees)
        self.assertEqual(3, sweep_fit.history_degrees)
        self.assertAlmostEqual(
            own.variance * (4 + 6) / 7, sweep_fit.pooled.variance
        )
        difference = sweep_fit.compare('a')
        self.assertEqual(7, difference.degrees)
        self.assertAlmostEqual(
            math.sqrt(sweep_fit.pooled.variance * 2 / 5),
            difference.error or 0,
        )

    def test_no_more_than_the_sweep_and_twenty(self) -> None:
        own = Scatter(4.0, 4)
        pooled = pool_scatter(own, Scatter(400.0, 200))
        self.assertEqual(8, pooled.degrees)
        self.assertAlmostEqual((4 + 8) / 8, pooled.variance)
        self.assertEqual(
            70, pool_scatter(Scatter(50.0, 50), Scatter(110.0, 100)).degrees
        )

    def test_another_variance_is_dropped(self) -> None:
        own = Scatter(20.0, 20)
        for factor in (9.0, 1 / 9):
            history = Scatter(20.0 * factor, 20)
            self.assertTrue(own.differs(history))
            self.assertEqual(own, pool_scatter(own, history))
        self.assertFalse(own.differs(Scatter(40.0, 20)))

    def test_it_never_narrows_the_variance(self) -> None:
        own = Scatter(8.0, 4)
        self.assertEqual(own, pool_scatter(own, Scatter(20.0, 20)))

    def test_nothing_to_pool(self) -> None:
        history = Scatter(20.0, 20)
        self.assertEqual(Scatter(), pool_scatter(Scatter(), history))
        own = Scatter(1.0, 3)
        self.assertEqual(own, pool_scatter(own, Scatter()))


class DriftTest(testtools.TestCase):
    """What remains of a drift within a pass."""

    def test_it_is_taken_out(self) -> None:
        # Everything slows down by 10 % an hour; truly, i1 has 90 %.
        noise = [0.001, -0.001, 0.0, -0.001, 0.001]
        clusters = [
            ClusterRate(row, number, log - 0.1 * hour + error, hour)
            for number, error in enumerate(noise)
            for row, log, hour in (
                (BARE_METAL, 0.0, 2.0 * number),
                ('i1', math.log(0.9), 2.0 * number + 1),
            )
        ]
        plain = fit_sweep(clusters, BARE_METAL).compare('i1')
        self.assertAlmostEqual(math.log(0.9) - 0.1, plain.log_ratio)
        rates, drift = percentages.correct_rates(clusters)
        assert drift and drift.applied
        self.assertEqual(drift, rates.drift)
        self.assertAlmostEqual(90, rates.compute_ratio('i1').percent, 1)
