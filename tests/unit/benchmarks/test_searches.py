# SPDX-License-Identifier: Apache-2.0
"""The benchmark of strategies plays until the ratio of losses is told."""

from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import testtools

from tests.unit.benchmarks import load

strategies = load('strategies')


class PlaySetsTest(testtools.TestCase):
    """Sets of surfaces whose expected loss is a multiple of the loss."""

    def setUp(self) -> None:
        super().setUp()
        self.pool: Executor = ThreadPoolExecutor(1)
        self.addCleanup(self.pool.shutdown)

    def play(self, ratio: float, spread: float) -> list[Any]:
        """Return the results of up to four sets of 100 surfaces.

        :param ratio: expected loss over the mean loss.
        :param spread: difference of the losses of even and odd surfaces.
        """
        return strategies.play_sets(
            self.pool,
            lambda seed: strategies.SweepResult(
                10, 19, 1 + (spread if seed % 2 else -spread), ratio
            ),
            range(1000, 1400, 100),
        )

    def test_ratio_within_its_limits(self) -> None:
        results = self.play(1.0, 0.2)
        self.assertEqual(100, len(results))
        self.assertTrue(strategies.is_ratio_decided(results))

    def test_ratio_outside_its_limits(self) -> None:
        self.assertEqual(100, len(self.play(1.5, 0.2)))
        self.assertEqual(100, len(self.play(0.5, 0.2)))

    def test_interval_across_a_limit(self) -> None:
        # 1.22 +- 0.24 with one set, 1.22 +- 0.12 with four.
        results = self.play(1.22, 1.0)
        self.assertEqual(400, len(results))
        ratio, error = strategies.compute_ratio(results)
        self.assertAlmostEqual(1.22, ratio)
        self.assertAlmostEqual(1.22 / 400**0.5, error)

    def test_more_sets_decide(self) -> None:
        # 0.93 +- 0.18 with one set, 0.93 +- 0.13 with two.
        self.assertEqual(200, len(self.play(0.93, 1.0)))

    def test_strategy_without_an_expected_loss(self) -> None:
        results = strategies.play_sets(
            self.pool,
            lambda seed: strategies.SweepResult(10, 0, 1.0),
            range(0, 50, 50),
        )
        self.assertEqual(50, len(results))
