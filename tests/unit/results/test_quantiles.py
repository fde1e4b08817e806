# SPDX-License-Identifier: Apache-2.0
"""Quantiles against published tables."""

import math
import time

import testtools

from hvstack.results import quantiles
from hvstack.results.quantiles import (
    compute_dunnett_quantile,
    compute_f_probability,
    compute_range_quantile,
    compute_share_interval,
    compute_t_quantile,
)

#: C. W. Dunnett, "New Tables for Multiple Comparisons with a Control",
#: Biometrics 20 (1964), table II: two-sided, joint confidence 95 %, equal
#: numbers of runs; 1 to 9 comparisons by degrees of freedom.
DUNNETT = {
    5: (2.57, 3.03, 3.29, 3.48, 3.62, 3.73, 3.82, 3.90, 3.97),
    10: (2.23, 2.57, 2.76, 2.89, 2.99, 3.07, 3.14, 3.19, 3.24),
    20: (2.09, 2.38, 2.54, 2.65, 2.73, 2.80, 2.86, 2.90, 2.95),
}
#: The same, table III: joint confidence 99 %.
DUNNETT_99 = {(2, 10): 3.53, (9, 10): 4.28}
#: H. L. Harter, "Tables of Range and Studentized Range", Annals of
#: Mathematical Statistics 31 (1960): upper 5 % points by number of rows and
#: degrees of freedom.
STUDENTIZED_RANGE = {
    (2, 1): 17.97,
    (3, 1): 26.98,
    (3, 2): 8.331,
    (20, 5): 8.208,
    (2, 10): 3.151,
    (3, 10): 3.877,
    (4, 10): 4.327,
    (5, 10): 4.654,
    (10, 10): 5.599,
    (3, 20): 3.578,
}


class DunnettTest(testtools.TestCase):
    def test_published_table(self) -> None:
        for degrees, row in DUNNETT.items():
            for comparisons, value in enumerate(row, 1):
                self.assertAlmostEqual(
                    value,
                    compute_dunnett_quantile(comparisons, degrees),
                    delta=0.0051,
                    msg=f'{comparisons} comparisons, {degrees} degrees',
                )
        for (comparisons, degrees), value in DUNNETT_99.items():
            quantile = compute_dunnett_quantile(
                comparisons, degrees, 0.5, 0.99
            )
            self.assertAlmostEqual(value, quantile, delta=0.0051)

    def test_between_t_and_bonferroni(self) -> None:
        for degrees in (1, 2, 3, 4, 7, 30, 500):
            for correlation in (0.0, 0.2, 0.5, 0.9):
                quantile = compute_dunnett_quantile(4, degrees, correlation)
                self.assertLess(compute_t_quantile(degrees), quantile)
                self.assertLess(
                    quantile, compute_t_quantile(degrees, 1 - 0.05 / 4)
                )

    def test_a_single_comparison_is_students_t(self) -> None:
        self.assertEqual(
            compute_t_quantile(7), compute_dunnett_quantile(1, 7, 0.3)
        )

    def test_nonsense(self) -> None:
        for arguments in ((0, 3, 0.5), (2, 3, 1.0), (2, 3, -0.1)):
            self.assertRaises(ValueError, compute_dunnett_quantile, *arguments)

    def test_a_table_takes_less_than_a_second(self) -> None:
        begin = time.thread_time()
        compute_dunnett_quantile(13, 37, 0.21)
        compute_range_quantile(14, 37)
        self.assertLess(time.thread_time() - begin, 1)


class RangeTest(testtools.TestCase):
    def test_published_table(self) -> None:
        for (rows, degrees), value in STUDENTIZED_RANGE.items():
            self.assertAlmostEqual(
                1,
                compute_range_quantile(rows, degrees) / value,
                delta=0.0003,
                msg=f'{rows} rows, {degrees} degrees',
            )

    def test_nonsense(self) -> None:
        self.assertRaises(ValueError, compute_range_quantile, 1, 10)

    def test_many_degrees_of_freedom_count_as_infinity(self) -> None:
        self.assertAlmostEqual(3.314, compute_range_quantile(3, 2000), 2)
        self.assertEqual(
            compute_range_quantile(3, 2000), compute_range_quantile(3, 2001)
        )


class FTest(testtools.TestCase):
    def test_published_table(self) -> None:
        # Upper 5 % and 1 % points (Abramowitz and Stegun, table 26.9).
        for ratio, degrees, other_degrees, level in (
            (161.4, 1, 1, 0.05),
            (3.33, 5, 10, 0.05),
            (2.12, 20, 20, 0.05),
            (2.94, 20, 20, 0.01),
            (99.0, 2, 2, 0.01),
        ):
            self.assertAlmostEqual(
                1 - level,
                compute_f_probability(ratio, degrees, other_degrees),
                delta=0.0006,
            )

    def test_symmetry(self) -> None:
        self.assertAlmostEqual(
            1,
            compute_f_probability(2.0, 3, 9)
            + compute_f_probability(0.5, 9, 3),
        )
        self.assertEqual(0, quantiles.compute_f_probability(0.0, 3, 9))

    def test_far_above_the_table(self) -> None:
        self.assertAlmostEqual(1, compute_f_probability(100.0, 20, 20))
        # With one degree of freedom each it is an angle.
        self.assertAlmostEqual(
            2 / math.pi * math.atan(1e4), compute_f_probability(1e8, 1, 1)
        )


class ShareTest(testtools.TestCase):
    def test_exact_binomial_limits(self) -> None:
        # Without or with only successes, the limit is a root of the tail.
        root = 0.025 ** (1 / 24)
        for part, total, low, high in (
            (0, 24, 0, 1 - root),
            (24, 24, root, 1),
            (1, 10, 0.0025286, 0.4450161),
            (10, 20, 0.2719578, 0.7280422),
        ):
            limits = compute_share_interval(part, total, 0.95)
            self.assertAlmostEqual(low, limits[0], places=5, msg=str(part))
            self.assertAlmostEqual(high, limits[1], places=5, msg=str(part))

    def test_one_trial(self) -> None:
        low, high = compute_share_interval(1, 1, 0.9)
        self.assertAlmostEqual(0.05, low, places=5)
        self.assertEqual(1, high)
