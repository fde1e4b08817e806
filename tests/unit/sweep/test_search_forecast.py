# SPDX-License-Identifier: Apache-2.0
"""Budget of a search, and its forecast before it starts."""

import json
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, host_profiles
from hvstack.results.estimator import ClusterRate, Scatter
from hvstack.sweep import forecast, search_space, strategies
from hvstack.sweep.budget import Budget, parse_budget
from hvstack.sweep.rate_search import SearchSettings
from hvstack.sweep.search_forecast import (
    SearchForecast,
    SimulatedSearch,
    forecast_search,
)
from hvstack.sweep.strategies import (
    MeasuredRates,
    ModelBased,
    limit_passes,
)
from tests.unit.cli.runner import run_command

PLAN = (
    *('sweep', 'plan', '--host', 'vsphere6', '--backend', 'kvm'),
    *('--values', 'instances=1,2,4', 'cpu_ratio=1,2'),
)


def create_strategy(**settings: Any) -> ModelBased:
    space = search_space.explore_space(
        search_space.parse_space(['instances=1,2,4', 'cpu_ratio=1,2']),
        host_profiles.load('vsphere6'),
        'kvm',
    )
    strategy = strategies.create_strategy(
        'model-based', space, 6, SearchSettings('sweep', **settings)
    )
    assert isinstance(strategy, ModelBased)
    return strategy


class BudgetTest(testtools.TestCase):
    def test_runs_or_hours(self) -> None:
        self.assertEqual(Budget(), parse_budget(''))
        self.assertEqual(Budget(runs=40), parse_budget('40'))
        self.assertEqual(Budget(hours=2.5), parse_budget('2.5h'))
        for text in ('0', '0h', '-1', '2.5', 'h', '1e9', '99999', '3 h'):
            exc = self.assertRaises(errors.InputError, parse_budget, text)
            self.assertIn('--budget', str(exc))

    def test_search_has_what_the_confirmation_leaves(self) -> None:
        self.assertIsNone(Budget().count_clusters(19, 1, 100))
        self.assertEqual(21, Budget(runs=40).count_clusters(19, 1, None))
        # A pair of runs of the kit shares a cluster.
        self.assertEqual(10, Budget(runs=40).count_clusters(19, 2, None))
        self.assertEqual(17, Budget(hours=1).count_clusters(19, 1, 100))
        # How long a run takes is known after the first one.
        self.assertIsNone(Budget(hours=1).count_clusters(19, 1, None))
        self.assertEqual(1, Budget(hours=0.1).count_clusters(19, 1, 100))
        self.assertRaises(errors.InputError, Budget(runs=19).check, 19)
        Budget(runs=20).check(19)


class SearchForecastTest(testtools.TestCase):
    def test_quantiles(self) -> None:
        searches = [
            SimulatedSearch((0.1, 0.05, *([0.03] * index), 0.01), 3)
            for index in range(11)
        ]
        self.assertEqual(
            (3, 7, 11), SearchForecast(tuple(searches), 19).clusters
        )
        result = SearchForecast(tuple(searches), 19)
        self.assertEqual((1, 1, 1), result.count_clusters(0.05))
        self.assertEqual((3, 7, 11), result.count_clusters(0.01))
        self.assertIsNone(result.count_clusters(0.005))
        self.assertAlmostEqual(0.01, result.expected_loss)

    def test_more_scatter_needs_more_runs(self) -> None:
        quiet, noisy = (
            forecast_search(
                create_strategy(scatter=Scatter(20 * deviation**2, 20))
            )
            for deviation in (0.02, 0.09)
        )
        self.assertLess(quiet.clusters[1], noisy.clusters[1])
        # 6 passes of two configurations, with bare metal, and at the end.
        self.assertEqual(19, quiet.confirmation_runs)
        self.assertLess(quiet.expected_loss, 0.011)

    def test_same_arguments_have_the_same_forecast(self) -> None:
        scatter = Scatter(20 * 0.05**2, 20)
        first, second = (
            forecast_search(create_strategy(scatter=scatter)) for _ in 'ab'
        )
        self.assertEqual(first, second)

    def test_budget_limits_the_search(self) -> None:
        result = forecast_search(create_strategy(max_runs=3))
        self.assertGreaterEqual(3, result.clusters[2])
        self.assertGreater(result.expected_loss, 0.01)

    def test_remaining_runs(self) -> None:
        strategy = create_strategy(scatter=Scatter(20 * 0.03**2, 20))
        names = [item.name for item in strategy.space.possible]
        low, high = forecast.estimate_sweep(strategy)
        self.assertLess(19, low.runs)
        self.assertLess(low.runs, high.runs)
        clusters = [
            ClusterRate(name, 0, float(name == names[1]), index / 20)
            for index, name in enumerate(names * 2)
        ]
        low, high = forecast.estimate_sweep(
            strategy, MeasuredRates({}, search=clusters)
        )
        self.assertEqual((19, 19), (low.runs, high.runs))
        winner, runner_up = (
            request.configuration
            for request in strategy.request_runs(
                MeasuredRates({}, search=clusters)
            )
        )
        _, high = forecast.estimate_sweep(
            strategy,
            MeasuredRates(
                {winner: [1.0] * 5, runner_up: [1.0] * 6}, search=clusters
            ),
        )
        # The winner, and bare metal before it and at the end.
        self.assertEqual(3, high.runs)

    def test_search_that_ends_with_a_small_difference(self) -> None:
        """Some simulated searches, with fewer samples, continue it."""
        strategy = create_strategy(scatter=Scatter(20 * 0.05**2, 20))
        names = [item.name for item in strategy.space.possible]
        measured = MeasuredRates(
            {},
            search=[
                ClusterRate(name, 0, 0.06 * (name == names[1]), index / 20)
                for index, name in enumerate(names * 2)
            ],
        )
        search = forecast_search(strategy, measured)
        self.assertEqual(3, search.clusters[2])
        low, high = forecast.estimate_sweep(strategy, measured)
        self.assertEqual((19, 19), (low.runs, high.runs))


class PassesTest(testtools.TestCase):
    """Passes of two configurations and bare metal, and a last run."""

    def test_passes_with_a_budget(self) -> None:
        for passes, max_runs, runs_per_cluster, expected in (
            (6, 19, 1, 6),
            (6, 18, 1, 5),
            (6, 4, 1, 1),
            (6, -3, 1, 1),
            # Pairs of the kit are not divided, and none is added.
            (6, 18, 2, 4),
            (3, 10, 2, 3),
            (6, 3, 2, 2),
            (1, 3, 2, 1),
        ):
            self.assertEqual(
                expected,
                limit_passes(
                    *(13, passes, max_runs, runs_per_cluster),
                    measure_baseline=True,
                ),
            )
        self.assertEqual(5, limit_passes(13, 6, 10, 1, measure_baseline=False))


class PlanTest(testtools.TestCase):
    def plan(self, *args: str) -> tuple[int, str, str]:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        return run_command(*PLAN, '--records', str(directory), *args)

    def test_plan_says_runs_and_hours(self) -> None:
        options = ('--strategy', 'model-based', '--run-seconds', '100')
        status, out, err = self.plan(*options, '-f', 'json')
        self.assertEqual(0, status, err)
        plan = json.loads(out)
        search = plan['search']
        self.assertEqual(6, plan['runs_of_each'])
        self.assertEqual(19, search['confirmation_runs'])
        last = search['losses'][-1]
        self.assertEqual(1.0, last['expected_loss_percent'])
        self.assertAlmostEqual(last['runs'][1] / 36, last['hours'][1])
        self.assertEqual(
            [search['runs'][0] + 19, search['runs'][2] + 19], plan['runs']
        )
        status, out, _ = self.plan(*options)
        self.assertIn('expected loss of at most 1 %: after about', out)
        self.assertIn('19 runs confirm its answer', out)

    def test_plan_has_the_budget(self) -> None:
        options = ('-f', 'json', '--strategy', 'model-based')
        _, out, _ = self.plan(*options, '--budget', '24')
        self.assertEqual(5, json.loads(out)['search']['runs'][2])
        seconds = ('--run-seconds', '90', '--setup-seconds', '60')
        _, out, _ = self.plan(*options, *seconds, '--budget', '1h')
        self.assertEqual(5, json.loads(out)['search']['runs'][2])
        self.useFixture(
            fixtures.EnvironmentVariable('OS_BENCHMARK__SWEEP_BUDGET', '23')
        )
        _, out, _ = self.plan(*options)
        self.assertEqual(4, json.loads(out)['search']['runs'][2])
        # Another strategy has no search.
        status, _, err = self.plan('--strategy', 'full-factorial')
        self.assertEqual(0, status, err)
        for args in (
            ('--strategy', 'full-factorial', '--budget', '40'),
            ('--strategy', 'model-based', '--budget', '19'),
            ('--strategy', 'model-based', '--budget', 'much'),
            (*options, *seconds, '--budget', '0.75h'),
        ):
            status, _, err = self.plan(*args)
            self.assertNotEqual(0, status)
            self.assertIn('--budget', err)
