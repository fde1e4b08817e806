# SPDX-License-Identifier: Apache-2.0
"""When a sweep ends."""

import random

import testtools

from hvstack.model.target import BARE_METAL
from hvstack.results import percentages, stopping
from hvstack.results.estimator import ClusterRate, History, Scatter
from hvstack.results.stats import CorrectedRates


class GoalTest(testtools.TestCase):
    def build(
        self,
        passes: int,
        history: History | None = None,
        wander: float = 0.0,
    ) -> CorrectedRates:
        """Return the rates of two configurations after some passes."""
        source = random.Random(1)
        clusters = [
            ClusterRate(
                row,
                number,
                log + wander * (number % 2) + source.gauss(0, 0.02),
            )
            for number in range(passes)
            for row, log in ((BARE_METAL, 0.0), ('a', -0.1), ('b', -0.2))
        ]
        return percentages.correct_rates(clusters, history)[0]

    def find_end(
        self,
        history: History | None = None,
        half_width: float = 30.0,
        wander: float = 0.0,
    ) -> int:
        """Return the number of passes after which the goal is reached."""
        goal = stopping.Goal(half_width)
        return next(
            passes
            for passes in range(1, 100)
            if goal.is_reached(self.build(passes, history, wander))
        )

    def test_minimum_of_passes(self) -> None:
        scatter = Scatter(20 * 0.03**2, 20)
        history = History(scatter, scatter)
        self.assertEqual(8, self.find_end())
        self.assertEqual(3, self.find_end(history))
        self.assertEqual(4, self.find_end(history, wander=0.5))
        # So few degrees of freedom say little about the variance.
        for degrees, expected in ((2, 8), (9, 8), (10, 3)):
            scatter = Scatter(degrees * 0.03**2, degrees)
            end = self.find_end(History(scatter, scatter))
            self.assertEqual(expected, end)
        # An F test distinguishes this history from the sweep.
        other = Scatter(20.0, 20)
        self.assertEqual(8, self.find_end(History(other, other)))

    def test_every_interval_is_narrow_enough(self) -> None:
        end = self.find_end(half_width=1.5)
        self.assertGreater(end, 8)
        for passes, is_narrow in ((end - 1, False), (end, True)):
            rates = self.build(passes)
            margins = [rates.compute_ratio(name).margin or 0 for name in 'ab']
            self.assertEqual(is_narrow, max(margins) <= 1.5)

    def test_no_more_passes_than_the_maximum(self) -> None:
        goal = stopping.Goal(half_width=0.0)
        self.assertFalse(goal.is_reached(self.build(stopping.MAX_PASSES - 1)))
        self.assertTrue(goal.is_reached(self.build(stopping.MAX_PASSES)))

    def test_next_look_is_after_the_next_pass(self) -> None:
        for half_width, expected in ((30.0, 8), (0.1, 9)):
            goal = stopping.Goal(half_width)
            passes = goal.count_passes(self.build(8), ['a', 'b'])
            self.assertEqual(expected, passes)

    def test_a_pass_is_complete_with_all_rows(self) -> None:
        rates = percentages.fit_rates(
            {'a': [1.0, 1.1, 1.2], 'b': [1.0]}, [1.0, 1.1]
        )
        self.assertEqual(1, stopping.count_passes(rates))
        self.assertEqual(2, stopping.count_passes(rates, ['a']))
        self.assertEqual(0, stopping.count_passes(rates, ['a', 'c']))
        self.assertEqual(0, stopping.count_passes(rates, []))

    def test_without_bare_metal_there_is_no_pass(self) -> None:
        rates = percentages.fit_rates({'a': [1.0, 1.1]}, [])
        self.assertEqual(0, stopping.count_passes(rates))
        self.assertFalse(stopping.Goal().is_reached(rates))
