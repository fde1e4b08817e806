# SPDX-License-Identifier: Apache-2.0
"""Test the statistics against simulations and tables."""

import math

import testtools
from hypothesis import given, settings
from hypothesis import strategies as st

from hvstack import errors
from hvstack.results.percentages import fit_rates
from hvstack.results.quantiles import compute_t_quantile
from hvstack.results.stats import (
    TOO_FEW_RUNS,
    Percent,
    choose_winner,
    classify,
    compute_performance_ratio,
    compute_ratio,
    contains_100,
    describe,
    fit_drift,
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
        self.assertEqual((None, 0, 0), vars_of(pool_variance([[1], [2]])))

    def test_by_hand(self) -> None:
        # Logs 0 and 2, and 5 and 9: squares 2 and 8, over 2 degrees.
        rows = [[1, math.exp(2)], [math.exp(5), math.exp(9)]]
        deviation = pool_variance(rows).deviation or 0
        self.assertAlmostEqual(math.sqrt(5), deviation)


def vars_of(instance: object) -> tuple[object, ...]:
    """Return a dataclass' values."""
    return tuple(vars(instance).values())


def compute_percents(
    rates: dict[str, list[float]], base: list[float]
) -> dict[str, Percent]:
    """Return the percentages of rows that are not part of passes."""
    corrected_rates = fit_rates(rates, base)
    return {
        name: corrected_rates.compute_ratio(name)
        for name in corrected_rates.rows
    }


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
        self.assertAlmostEqual(half, percent.row_half_width or 0, 5)
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

    def test_two_rows_have_dunnetts_quantile(self) -> None:
        rates = {'a': [5.0, 5.1, 5.2], 'b': [4.0, 4.1, 4.2]}
        percent = compute_percents(rates, [6.0, 6.1, 6.2])['a']
        self.assertEqual(6, percent.degrees_of_freedom)
        # t is 2.4469 with 6 degrees of freedom, Dunnett's quantile 2.86.
        ratio = (percent.half_width or 0) / (percent.row_half_width or 1)
        self.assertAlmostEqual(2.86 / 2.4469, ratio, 2)

    def test_a_single_run_borrows_the_others_spread(self) -> None:
        percents = compute_percents({'a': [5], 'b': [4, 4.2]}, [6])
        self.assertIsNotNone(percents['a'].low)
        self.assertEqual(1, percents['a'].degrees_of_freedom)

    def test_no_interval_without_any_repeat(self) -> None:
        percent = compute_percents({'a': [5]}, [10])['a']
        self.assertAlmostEqual(50, percent.percent)
        self.assertEqual((None, None), (percent.low, percent.high))
        self.assertIsNone(percent.margin)
        self.assertFalse(contains_100(percent))

    def test_performance_runs_of_thousands_of_runs(self) -> None:
        rates = [5.0 + index % 2 for index in range(515)]
        base = [10.0 + index % 2 for index in range(1030)]
        self.assertAlmostEqual(50, compute_performance_ratio(rates, base), 6)

    def test_over_100_is_valid(self) -> None:
        percent = compute_percents({'a': [20, 20.1]}, [10, 10.1])['a']
        self.assertTrue(190 < percent.percent < 210)
        self.assertFalse(contains_100(percent))

    def test_inside_the_interval(self) -> None:
        percents = compute_percents(
            {'near': [9.9, 10.2], 'far': [5, 5.1]}, [10, 10.3, 9.8]
        )
        self.assertTrue(contains_100(percents['near']))
        self.assertFalse(contains_100(percents['far']))

    def test_the_interval_is_closed(self) -> None:
        def make_percent(low: float, high: float) -> Percent:
            return Percent(100, low, high, 2, 2, 0.1, 2, 100)

        self.assertTrue(contains_100(make_percent(100, 101)))
        self.assertTrue(contains_100(make_percent(99, 100)))
        self.assertFalse(contains_100(make_percent(100.1, 101)))
        self.assertFalse(contains_100(make_percent(98, 99.9)))

    def test_words(self) -> None:
        """Only an interval close to 100 shows that nothing differs."""
        for percent, low, high, kind in (
            (99.0, 97.0, 101.0, 'no difference'),
            (100.0, 97.0, 103.0, 'no difference'),
            (100.0, 96.9, 103.0, 'not told apart'),
            (90.0, 79.0, 102.5, 'not told apart'),
            (98.5, 97.5, 99.5, 'slower'),
            (101.5, 100.5, 102.5, 'faster'),
        ):
            row = Percent(percent, low, high, 2, 2, 0.1, 2, 100)
            self.assertEqual(kind, classify(row), (low, high))
        wide = Percent(90.0, 79.0, 102.5, 2, 2, 0.1, 2, 100)
        self.assertIn('11.8 points', describe(wide))
        self.assertNotIn('no difference', describe(None))

    def test_an_interval_without_a_statement_is_not_reported(self) -> None:
        for percent, low, high, kind in (
            (90.0, 0.0, 379104.5, TOO_FEW_RUNS),
            (100.0, 41.0, 241.1, TOO_FEW_RUNS),
            (30.0, 8.0, 112.0, TOO_FEW_RUNS),
            # As wide as the percentage on both sides.
            (100.0, 41.0, 241.0, 'not told apart'),
            # The interval shows that the rates differ.
            (30.0, 9.0, 99.0, 'slower'),
            (1000.0, 101.0, 9900.0, 'faster'),
        ):
            row = Percent(percent, low, high, 2, 2, 0.1, 1, 100)
            bounds = None if kind == TOO_FEW_RUNS else (low, high)
            self.assertEqual(bounds, row.reported_bounds, (low, high))
            self.assertEqual(kind, classify(row), (low, high))
            self.assertTrue(describe(row).startswith(kind))

    def test_a_row_without_runs_is_left_out(self) -> None:
        self.assertEqual({}, compute_percents({'a': []}, [1, 2]))

    def test_bad_input(self) -> None:
        for rates, base in (
            ([0.0], [1.0]),
            ([1.0], [-1.0]),
            ([math.nan], [1.0]),
            ([math.inf], [1.0]),
        ):
            self.assertRaises(
                errors.InputError, compute_percents, {'a': rates}, base
            )
        self.assertRaises(
            errors.InputError, fit_rates({'a': [1.0]}, []).compute_bare_metal
        )

    def test_performance_runs_of_as_many(self) -> None:
        # The slowest of two of (8, 9, 10) is 8, 8 or 9.
        percent = compute_percents({'a': [5, 6]}, [8, 9, 10])['a']
        self.assertAlmostEqual(100 * 5 / (25 / 3), percent.performance_ratio)

    def test_bare_metal_is_100(self) -> None:
        percent = fit_rates({'a': [3, 4]}, [10, 11]).compute_bare_metal()
        self.assertEqual(100, percent.percent)
        self.assertTrue((percent.low or 0) < 100 < (percent.high or 0))
        self.assertIsNone(fit_rates({}, [10]).compute_bare_metal().low)

    def test_bare_metal_that_scatters_more(self) -> None:
        """The variance of the configurations does not narrow its interval."""
        rows = {name: [5.0, 5.01] * 6 for name in 'abc'}
        base = [8.0, 12.0] * 6
        rates = fit_rates(rows, base)
        assert rates.fit and rates.fit.is_split
        percent = rates.compute_bare_metal()
        # Without passes, it is the interval of the mean of one sample.
        deviation = math.log(1.5) / 2 * math.sqrt(12 / 11)
        half = compute_t_quantile(11) * deviation / math.sqrt(12)
        self.assertEqual(11, percent.degrees_of_freedom)
        self.assertAlmostEqual(half, percent.half_width or 0)

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

    def test_no_drift_is_not_applied(self) -> None:
        base = [1.0, 1.02, 0.98, 1.01, 0.99]
        drift = fit_drift([0, 1, 2, 3, 4], base)
        assert drift
        self.assertFalse(drift.applied)
        flat = fit_drift([0, 1, 2, 3], [2, 2, 2, 2])
        self.assertFalse(flat and flat.applied)


class Choices(testtools.TestCase):
    """A winner, or a tie."""

    COST = {'dear': 3, 'cheap': 1, 'slow': 0}

    def choose(self, **runs: list[float]) -> tuple[object, ...]:
        choice = choose_winner(
            fit_rates(runs, []), self.COST.__getitem__, runs
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

    def test_without_intervals_all_are_tied(self) -> None:
        self.assertEqual(
            (None, 'dear', {'cheap', 'slow'}, 'slow'),
            self.choose(dear=[10], cheap=[9], slow=[5]),
        )

    def test_all_pairs_of_many_are_compared(self) -> None:
        # Student's t separates this pair, Tukey's range of 13 rows does
        # not: the best of 13 equal rows is often much better than some.
        rows = {'dear': [10.0, 10.4], 'cheap': [9.5, 9.8]}
        rows |= {f'row{index}': [9.6, 9.9] for index in range(11)}
        cost = (self.COST | dict.fromkeys(rows, 9) | self.COST).__getitem__
        fair = fit_rates(rows, [10.0, 10.15])
        ratio = compute_ratio(rows['cheap'], rows['dear'], fair.pooled)
        assert ratio.high
        self.assertLess(ratio.high, 100)
        named = choose_winner(fair, cost, rows)
        assert named
        self.assertIn('cheap', named.tied)
        self.assertEqual(
            (None, 'dear', 'cheap'),
            (named.winner, named.best, named.selected),
        )

    def test_the_best_of_a_report(self) -> None:
        rows = {
            'dear': [10.0, 10.1, 10.05] * 3,
            'cheap': [9.8, 9.9, 9.85] * 3,
            'slow': [5, 5.1, 5.05] * 3,
        }
        cost = self.COST.__getitem__
        # Bare metal is hardly known, but that affects all rows alike.
        fair = fit_rates(rows, [10.0, 10.15])
        named = choose_winner(fair, cost, rows)
        assert named
        self.assertEqual('dear', named.winner)
        # Without bare metal as well.
        self.assertEqual(named, choose_winner(fit_rates(rows, []), cost, rows))
        # What failed for good neither wins nor ties.
        restricted = choose_winner(fair, cost, {'cheap', 'slow'})
        assert restricted
        self.assertEqual('cheap', restricted.winner)
        self.assertIsNone(choose_winner(fair, cost, set()))
        self.assertIsNone(choose_winner(fit_rates({}, []), cost, rows))

    def test_only_among_some(self) -> None:
        runs = {'dear': [10, 10.5], 'cheap': [9.9, 10.3], 'slow': []}
        choice = choose_winner(
            fit_rates(runs, []), self.COST.__getitem__, ['dear']
        )
        assert choice
        self.assertEqual('dear', choice.winner)
        self.assertIsNone(
            choose_winner(fit_rates({'slow': []}, []), len, ['slow'])
        )
