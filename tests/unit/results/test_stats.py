# SPDX-License-Identifier: Apache-2.0
"""Test the statistics against simulations and tables."""

import math

import testtools
from hypothesis import given, settings
from hypothesis import strategies as st

from hvstack import errors
from hvstack.results.stats import (
    Percent,
    choose,
    choose_winner,
    compute_bare_metal,
    compute_percents,
    compute_t_quantile,
    correct_drift,
    fit_drift,
    is_without_difference,
    pool_variance,
)

RATES = st.lists(st.floats(0.01, 100), min_size=1, max_size=5)


class Quantile(testtools.TestCase):
    """Student's t against published tables."""

    def test_95_percent(self) -> None:
        table = {
            1: 12.7062,
            2: 4.3027,
            3: 3.1824,
            4: 2.7764,
            5: 2.5706,
            9: 2.2622,
            10: 2.2281,
            29: 2.0452,
            30: 2.0423,
            120: 1.9799,
        }
        for degrees, value in table.items():
            self.assertAlmostEqual(value, compute_t_quantile(degrees), 4)

    def test_99_percent(self) -> None:
        self.assertAlmostEqual(63.6567, compute_t_quantile(1, 0.99), 4)
        self.assertAlmostEqual(3.2498, compute_t_quantile(9, 0.99), 4)

    def test_nonsense(self) -> None:
        self.assertRaises(ValueError, compute_t_quantile, 0)
        self.assertRaises(ValueError, compute_t_quantile, 3, 1.0)


class Pooling(testtools.TestCase):
    """One variance for all rows."""

    def test_degrees_of_freedom(self) -> None:
        self.assertEqual(
            4,
            pool_variance(
                [[1, 2], [3, 4], [5], [], [1, 2, 3]]
            ).degrees_of_freedom,
        )

    def test_one_run_each_has_none(self) -> None:
        self.assertEqual((None, 0), vars_of(pool_variance([[1], [2]])))

    def test_by_hand(self) -> None:
        # Logs 0 and 2, and 5 and 9: squares 2 and 8, over 2 degrees.
        rows = [[1, math.exp(2)], [math.exp(5), math.exp(9)]]
        deviation = pool_variance(rows).deviation or 0
        self.assertAlmostEqual(math.sqrt(5), deviation)


def vars_of(instance: object) -> tuple[object, ...]:
    """Return a dataclass' values."""
    return tuple(vars(instance).values())


class Percents(testtools.TestCase):
    """Percent of bare metal with its interval."""

    def test_by_hand(self) -> None:
        base = [math.exp(1), math.exp(1.2)]
        rates = [math.exp(0.9), math.exp(1.1)]
        percent = compute_percents({'i1': rates}, base)['i1']
        # Squares 0.02 + 0.02 over 2 degrees; t is 4.3027.
        half = 4.302653 * math.sqrt(0.02) * math.sqrt(1 / 2 + 1 / 2)
        self.assertAlmostEqual(100 * math.exp(-0.1), percent.percent)
        self.assertAlmostEqual(half, percent.half_width or 0, 5)
        self.assertAlmostEqual(
            100 * math.exp(-0.1 - half), percent.low or 0, 3
        )
        self.assertAlmostEqual(
            100 * math.exp(-0.1 + half), percent.high or 0, 3
        )
        self.assertEqual((2, 2, 2), (percent.runs, percent.baseline_runs, 2))
        self.assertEqual(2, percent.degrees_of_freedom)
        self.assertAlmostEqual(
            100 * math.exp(0.9 - 1), percent.performance_ratio
        )

    def test_a_single_run_borrows_the_others_spread(self) -> None:
        percents = compute_percents({'a': [5], 'b': [4, 4.2]}, [6])
        self.assertIsNotNone(percents['a'].low)
        self.assertEqual(1, percents['a'].degrees_of_freedom)

    def test_no_interval_without_any_repeat(self) -> None:
        percent = compute_percents({'a': [5]}, [10])['a']
        self.assertAlmostEqual(50, percent.percent)
        self.assertEqual((None, None), (percent.low, percent.high))
        self.assertFalse(is_without_difference(percent))

    def test_over_100_is_valid(self) -> None:
        percent = compute_percents({'a': [20, 20.1]}, [10, 10.1])['a']
        self.assertTrue(190 < percent.percent < 210)
        self.assertFalse(is_without_difference(percent))

    def test_inside_the_interval_is_no_difference(self) -> None:
        percents = compute_percents(
            {'near': [9.9, 10.2], 'far': [5, 5.1]}, [10, 10.3, 9.8]
        )
        self.assertTrue(is_without_difference(percents['near']))
        self.assertFalse(is_without_difference(percents['far']))

    def test_the_interval_is_closed(self) -> None:
        def make_percent(low: float, high: float) -> Percent:
            return Percent(100, low, high, 2, 2, 0.1, 2, 100)

        self.assertTrue(is_without_difference(make_percent(100, 101)))
        self.assertTrue(is_without_difference(make_percent(99, 100)))
        self.assertFalse(is_without_difference(make_percent(100.1, 101)))
        self.assertFalse(is_without_difference(make_percent(98, 99.9)))

    def test_a_row_without_runs_is_left_out(self) -> None:
        self.assertEqual({}, compute_percents({'a': []}, [1, 2]))

    def test_bad_input(self) -> None:
        for rates, base in (
            ([1.0], []),
            ([0.0], [1.0]),
            ([1.0], [-1.0]),
            ([math.nan], [1.0]),
            ([math.inf], [1.0]),
        ):
            self.assertRaises(
                errors.InputError, compute_percents, {'a': rates}, base
            )
        self.assertRaises(errors.InputError, compute_bare_metal, {}, [])

    def test_performance_runs_of_as_many(self) -> None:
        # The slowest of two of (8, 9, 10) is 8, 8 or 9.
        percent = compute_percents({'a': [5, 6]}, [8, 9, 10])['a']
        self.assertAlmostEqual(100 * 5 / (25 / 3), percent.performance_ratio)

    def test_bare_metal_is_100(self) -> None:
        percent = compute_bare_metal({'a': [3, 4]}, [10, 11])
        self.assertEqual(100, percent.percent)
        self.assertTrue((percent.low or 0) < 100 < (percent.high or 0))
        self.assertIsNone(compute_bare_metal({}, [10]).low)

    @settings(max_examples=100)
    @given(RATES, RATES, st.floats(0.1, 10))
    def test_properties(
        self, rates: list[float], base: list[float], factor: float
    ) -> None:
        percent = compute_percents({'a': rates}, base)['a']
        if percent.low is not None and percent.high is not None:
            slack = 1e-9 * percent.percent
            self.assertTrue(percent.low - slack <= percent.percent)
            self.assertTrue(percent.percent <= percent.high + slack)
        # Faster hardware under both sides changes nothing.
        scaled = compute_percents(
            {'a': [rate * factor for rate in rates]},
            [rate * factor for rate in base],
        )['a']
        self.assertAlmostEqual(1, scaled.percent / percent.percent, 6)
        # Against itself it is 100.
        same = compute_percents({'a': base}, base)['a']
        self.assertAlmostEqual(100, same.percent, 6)
        self.assertAlmostEqual(100, same.performance_ratio, 6)


class Drifts(testtools.TestCase):
    """Drift of the baseline."""

    def test_by_hand(self) -> None:
        # Log rates 0, 1, 1, 2 at hours 0 to 3: slope 3/5, squares left 1/5.
        drift = fit_drift([0, 1, 2, 3], [1, math.e, math.e, math.e**2])
        assert drift
        self.assertAlmostEqual(0.6, drift.slope)
        # s^2 is 0.2 / 2, Sxx is 5, and t with 2 degrees is 4.3027.
        half = 4.302653 * math.sqrt(0.1 / 5)
        self.assertAlmostEqual(half, drift.half_width, 5)
        self.assertFalse(drift.applied)
        self.assertAlmostEqual(
            100 * (math.exp(0.6) - 1), drift.percent_an_hour[0]
        )

    def test_too_few_runs(self) -> None:
        self.assertIsNone(fit_drift([0, 1, 2], [1, 2, 3]))
        self.assertIsNone(fit_drift([1, 1, 1, 1], [1, 2, 3, 4]))

    def test_it_is_taken_out(self) -> None:
        # Everything slows down by 10 % an hour; truly i1 has 90 %.
        hours = [0.0, 1.0, 2.0, 3.0, 4.0]
        noise = [1.001, 0.999, 1.0, 0.999, 1.001]
        base = [
            n * math.exp(-0.1 * h) for n, h in zip(noise, hours, strict=True)
        ]
        drift = fit_drift(hours, base)
        assert drift and drift.applied
        late = {'i1': [3.5, 3.7]}
        runs = {'i1': [0.9 * math.exp(-0.1 * h) for h in late['i1']]}
        plain = compute_percents(runs, base)['i1']
        fair = compute_percents(runs, base, drift, late)['i1']
        self.assertTrue(plain.percent < 80)
        self.assertAlmostEqual(90, fair.percent, 0)
        # One degree of freedom goes to the slope: 1 + 4 - 1.
        self.assertEqual(4, fair.degrees_of_freedom)
        self.assertEqual(plain.performance_ratio, fair.performance_ratio)
        spread = pool_variance(
            [drift.correct_rates(runs['i1'], late['i1']),
             drift.correct_rates(base, hours)], 1
        )  # fmt: skip
        # Mean times 3.6 and 2, Sxx 10; t with 4 degrees is 2.7764.
        half = 2.776445 * (spread.deviation or 0)
        half *= math.sqrt(1 / 2 + 1 / 5 + 1.6**2 / 10)
        self.assertAlmostEqual(half, fair.half_width or 0, 6)

    def test_a_line_is_not_extended(self) -> None:
        base = [math.exp(-0.1 * n + 0.001 * (n % 2)) for n in range(5)]
        drift = fit_drift([0.0, 1.0, 2.0, 3.0, 4.0], base)
        assert drift and drift.applied
        runs = {'in': [0.9, 0.8], 'later': [0.9, 0.8], 'before': [0.9]}
        hours = {'in': [1.0, 4.0], 'later': [3.0, 4.1], 'before': [-90.0]}
        fair = correct_drift(runs, base, drift, hours)
        self.assertEqual(('later', 'before'), fair.outside)
        self.assertEqual([0.9, 0.8], fair.rows['later'])
        self.assertNotEqual([0.9, 0.8], fair.rows['in'])
        self.assertEqual(1, fair.dof_penalty)
        # Its mean time is no matter then.
        self.assertEqual(0, fair.slope_variance('before'))
        self.assertEqual(0, fair.slope_variance('later', 'before'))
        self.assertEqual(
            fair.slope_variance('in'), fair.slope_variance('in', 'later')
        )
        self.assertLess(0, fair.slope_variance('in'))
        # The percentage is that without a drift, as base has no more of it.
        del runs['in']
        plain = compute_percents(runs, base)
        self.assertEqual(plain, compute_percents(runs, base, drift, hours))
        self.assertEqual(
            ('later', 'before'),
            correct_drift(runs, base, drift, hours).outside,
        )

    def test_no_drift_is_not_applied(self) -> None:
        base = [1.0, 1.02, 0.98, 1.01, 0.99]
        drift = fit_drift([0, 1, 2, 3, 4], base)
        assert drift
        self.assertFalse(drift.applied)
        runs = {'a': [1.0, 1.1]}
        self.assertEqual(
            compute_percents(runs, base),
            compute_percents(runs, base, drift, {'a': [1, 2]}),
        )
        flat = fit_drift([0, 1, 2, 3], [2, 2, 2, 2])
        self.assertFalse(flat and flat.applied)


class Choices(testtools.TestCase):
    """A winner, or a tie."""

    COST = {'dear': 3, 'cheap': 1, 'slow': 0}

    def choose(self, **runs: list[float]) -> tuple[object, ...]:
        choice = choose(
            runs, pool_variance(list(runs.values())), self.COST.__getitem__
        )
        assert choice
        return choice.winner, choice.best, set(choice.tied), choice.selected

    def test_winner(self) -> None:
        self.assertEqual(
            ('dear', 'dear', set(), 'dear'),
            self.choose(dear=[10, 10.1], cheap=[9, 9.1], slow=[5, 5.1]),
        )

    def test_the_cheaper_of_a_tie(self) -> None:
        self.assertEqual(
            (None, 'dear', {'cheap'}, 'cheap'),
            self.choose(dear=[10, 10.5], cheap=[9.9, 10.3], slow=[5, 5.1]),
        )

    def test_further_variance_makes_a_tie(self) -> None:
        runs = {'dear': [10, 10.1], 'cheap': [9, 9.1]}
        spread = pool_variance(list(runs.values()))
        cost = self.COST.__getitem__
        for variance, best in ((0.0, 'dear'), (10.0, None)):
            choice = choose(
                runs, spread, cost, extra_variance=lambda _a, _b, m=variance: m
            )
            assert choice
            self.assertEqual(best, choice.winner)

    def test_without_intervals_all_are_tied(self) -> None:
        self.assertEqual(
            (None, 'dear', {'cheap', 'slow'}, 'slow'),
            self.choose(dear=[10], cheap=[9], slow=[5]),
        )

    def test_printed_intervals_that_overlap_are_a_tie(self) -> None:
        rows = {
            'dear': [10.0, 10.1, 10.05] * 3,
            'cheap': [9.8, 9.9, 9.85] * 3,
            'slow': [5, 5.1, 5.05] * 3,
        }
        cost = self.COST.__getitem__
        # Their ratio tells them apart; bare metal is hardly known.
        fair = correct_drift(rows, [10.0, 10.15])
        choice = choose(fair.rows, fair.pooled, cost)
        assert choice
        self.assertEqual('dear', choice.winner)
        named = choose_winner(fair, cost, rows)
        assert named
        self.assertEqual(
            (None, 'dear', ('cheap',), 'cheap'),
            (named.winner, named.best, named.tied, named.selected),
        )
        self.assertLess(
            fair.compute_ratio('dear').low or 0,
            fair.compute_ratio('cheap').high or 0,
        )
        # Without bare metal there is no such interval.
        self.assertEqual(
            choice, choose_winner(correct_drift(rows, []), cost, rows)
        )
        # What failed for good neither wins nor ties.
        restricted = choose_winner(fair, cost, {'cheap', 'slow'})
        assert restricted
        self.assertEqual('cheap', restricted.winner)

    def test_only_among_some(self) -> None:
        runs = {'dear': [10, 10.5], 'cheap': [9.9, 10.3], 'slow': []}
        choice = choose(
            runs, pool_variance([]), self.COST.__getitem__, ['dear']
        )
        assert choice
        self.assertEqual('dear', choice.winner)
        self.assertIsNone(choose({'slow': []}, pool_variance([]), len))
