# SPDX-License-Identifier: Apache-2.0
"""The model of the rates, and the search that uses it."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import fixtures
import testtools

from hvstack import host_profiles
from hvstack.model.configuration import Configuration, parse
from hvstack.results.estimator import ClusterRate, Scatter
from hvstack.sweep import effects, rate_model, search_space
from hvstack.sweep.effects import Effects
from hvstack.sweep.rate_model import (
    Hypothesis,
    RateModel,
    SearchRun,
)
from hvstack.sweep.rate_search import (
    LEADER_RUNS,
    MAX_LOSS,
    RateSearch,
    SearchSettings,
    SearchStatus,
)

#: Hours from one run to the next.
STEP = 0.05
HISTORY = Scatter(20 * 0.03**2, 20)
#: Rates with an interaction: C = 2 is good for I = 4 alone.
RATES = {'i1': -0.2, 'i2': -0.1, 'i2-c2': -0.15, 'i4': -0.12, 'i4-c2': 0.0}


def list_configurations(*values: str) -> tuple[Configuration, ...]:
    return search_space.explore_space(
        search_space.parse_space(values or ('instances=1,2', 'cpu_ratio=1,2')),
        host_profiles.load('vsphere6'),
        'kvm',
    ).possible


def invert(matrix: list[list[float]], values: list[float]) -> list[float]:
    """Return the solution of a linear system (Gauss-Jordan)."""
    size = len(matrix)
    work = [[*line, value] for line, value in zip(matrix, values, strict=True)]
    for pivot in range(size):
        scale = work[pivot][pivot]
        work[pivot] = [value / scale for value in work[pivot]]
        for row in range(size):
            factor = work[row][pivot]
            if row != pivot:
                work[row] = [
                    a - factor * b
                    for a, b in zip(work[row], work[pivot], strict=True)
                ]
    return [line[size] for line in work]


class RateModelTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.configurations = list_configurations()
        self.effects = Effects(self.configurations, 'test', 400)
        self.hypothesis = Hypothesis(1.0, 0.05)
        self.runs = [
            SearchRun(0, 0.0, 0.0),
            SearchRun(1, 0.1, 0.05),
            SearchRun(0, -0.02, 0.1),
            SearchRun(2, 0.2, 0.15),
        ]

    def fit(self, runs: Sequence[SearchRun]) -> rate_model.Posterior:
        posterior = rate_model.Posterior(self.effects, self.hypothesis)
        for run in runs:
            posterior.add(run)
        return posterior

    def covary(self, row: int, other: int) -> float:
        return rate_model.MEAN**2 + self.effects.covariances[row][other]

    def test_prior_is_that_of_effects_and_interactions(self) -> None:
        """The three configurations are i1, i2 and i2-c2."""
        names = [item.label for item in self.configurations]
        self.assertEqual(['i1', 'i2', 'i2-c2'], names)
        square, pair = effects.EFFECT**2, effects.INTERACTION**2
        table = self.effects.covariances
        self.assertAlmostEqual(
            2 * square + pair + effects.RESIDUAL**2, table[0][0]
        )
        # They share C = 1, or I = 2, or nothing.
        self.assertAlmostEqual(square, table[0][1])
        self.assertAlmostEqual(square, table[1][2])
        self.assertAlmostEqual(0.0, table[0][2])

    def test_samples_of_the_prior_have_its_covariance(self) -> None:
        samples = self.effects.prior_samples
        for row, other in ((0, 0), (0, 1), (0, 2)):
            mean = fmean(sample[row] * sample[other] for sample in samples)
            self.assertAlmostEqual(
                self.effects.covariances[row][other], mean, delta=0.003
            )

    def test_posterior_is_that_of_all_runs_at_once(self) -> None:
        posterior = self.fit(self.runs)
        matrix = [
            [
                self.covary(a.row, b.row)
                + rate_model.SLOPE**2 * i * j
                + rate_model.WANDER**2 * math.exp(-abs(a.time - b.time))
                + (i == j) * self.hypothesis.deviation**2
                for j, b in enumerate(self.runs)
            ]
            for i, a in enumerate(self.runs)
        ]
        weights = invert(matrix, [run.log_rate for run in self.runs])
        for row in range(3):
            column = [self.covary(row, run.row) for run in self.runs]
            mean = sum(a * b for a, b in zip(column, weights, strict=True))
            self.assertAlmostEqual(mean, posterior.means[row])
            variance = self.covary(row, row) - sum(
                a * b
                for a, b in zip(column, invert(matrix, column), strict=True)
            )
            self.assertAlmostEqual(variance, posterior.variances[row])

    def test_drift_is_taken_out(self) -> None:
        """Two equal configurations alternate on a machine that slows down."""
        runs = [
            SearchRun(index % 2, -0.01 * index, index * STEP)
            for index in range(12)
        ]
        self.hypothesis = Hypothesis(1.0, 0.005)
        posterior = self.fit(runs)
        difference = posterior.means[1] - posterior.means[0]
        # The mean of the second one is lower by 0.01.
        self.assertAlmostEqual(0.0, difference, delta=0.002)

    def test_samples_of_the_posterior(self) -> None:
        posterior = self.fit(self.runs)
        samples = posterior.draw(range(400))
        for row in range(3):
            values = [sample[row] for sample in samples]
            deviation = math.sqrt(posterior.variances[row])
            mean = fmean(values)
            self.assertAlmostEqual(
                posterior.means[row], mean, delta=4 * deviation / 20
            )
            square = fmean((value - mean) ** 2 for value in values)
            self.assertAlmostEqual(
                1.0, math.sqrt(square) / deviation, delta=0.15
            )

    def test_expected_gain(self) -> None:
        gain = rate_model.compute_expected_gain
        self.assertAlmostEqual(0.3989423, gain(0.0, 1.0))
        self.assertAlmostEqual(1.0833155, gain(1.0, 1.0))
        self.assertAlmostEqual(0.0833155, gain(-1.0, 1.0))
        self.assertEqual(0.5, gain(0.5, 0.0))
        self.assertEqual(0.0, gain(-0.5, -1e-18))

    def test_scatter_follows_history_and_runs(self) -> None:
        """Large residuals make hypotheses with a large scatter likely."""

        def expect(scatter: Scatter | None, noise: float) -> float:
            model = RateModel(self.effects, scatter)
            for index in range(12):
                log_rate = noise * (-1) ** (index // 3)
                model.add(SearchRun(index % 3, log_rate, index * STEP))
            return sum(
                weight * item.deviation
                for weight, item in zip(
                    model.list_weights(), rate_model.HYPOTHESES, strict=True
                )
            )

        small = Scatter(20 * 0.03**2, 20)
        self.assertLess(expect(small, 0.03), 0.04)
        self.assertGreater(expect(None, 0.1), 0.08)
        self.assertGreater(expect(small, 0.1), expect(small, 0.03))

    def expect_variance(self, degrees: int) -> float:
        """Return the expected variance over that of earlier sweeps."""
        ratios = []
        for deviation in (0.04, 0.05, 0.06, 0.07):
            history = Scatter(degrees * deviation**2, degrees)
            weights = RateModel(self.effects, history).list_weights()
            variance = sum(
                weight * item.deviation**2
                for weight, item in zip(
                    weights, rate_model.HYPOTHESES, strict=True
                )
            )
            ratios.append(variance / deviation**2)
        return fmean(ratios)

    def test_variance_of_earlier_sweeps_before_any_run(self) -> None:
        for degrees in (12, 20):
            self.assertAlmostEqual(
                1, self.expect_variance(degrees), delta=0.05
            )
        # A variance of few degrees can be small by chance.
        self.assertGreater(self.expect_variance(8), 1.05)
        self.assertGreater(self.expect_variance(4), 1.3)

    def test_effects_are_those_of_the_papers_before_any_run(self) -> None:
        weights = dict.fromkeys(rate_model.SCALES, 0.0)
        for weight, item in zip(
            RateModel(self.effects, Scatter(20 * 0.05**2, 20)).list_weights(),
            rate_model.HYPOTHESES,
            strict=True,
        ):
            weights[item.scale] += weight
        # exp(-(ln(2) / 0.35)**2 / 2), less the hypotheses of little weight.
        self.assertAlmostEqual(0.126, weights[0.5] / weights[1.0], delta=0.001)
        self.assertAlmostEqual(0.126, weights[2.0] / weights[1.0], delta=0.001)

    def add_runs(self, model: RateModel, shift: float = 0.0) -> RateModel:
        for index, run in enumerate(self.runs * 3):
            log_rate = run.log_rate + shift
            model.add(replace(run, log_rate=log_rate, time=STEP * index))
        return model

    def test_faster_hardware_changes_no_difference(self) -> None:
        first, second = (
            self.add_runs(RateModel(self.effects), shift)
            for shift in (0.0, 3.0)
        )
        for row, loss in first.compute_losses(range(3)).items():
            self.assertAlmostEqual(loss, second.compute_losses(range(3))[row])
        for slow, fast in zip(
            first.draw_rates(), second.draw_rates(), strict=True
        ):
            self.assertAlmostEqual(3.0, fast - slow)

    def test_unlikely_hypotheses_are_left_out(self) -> None:
        weights = self.add_runs(RateModel(self.effects)).list_weights()
        self.assertAlmostEqual(1.0, sum(weights))
        likely = [weight for weight in weights if weight]
        self.assertLess(len(likely), len(weights))
        self.assertLessEqual(rate_model.MIN_WEIGHT, min(likely))


class Surface:
    """Search on rates that are known."""

    def __init__(
        self,
        rates: dict[str, float],
        noise: float = 0.0,
        drift: float = 0.0,
        settings: SearchSettings | None = None,
    ) -> None:
        self.configurations = list_configurations(
            'instances=1,2,4', 'cpu_ratio=1,2'
        )
        self.rates = rates
        self.drift = drift
        self.noise = noise
        self.source = random.Random(7)
        self.settings = settings or SearchSettings('sweep', HISTORY)
        self.clusters: list[ClusterRate] = []
        self.search = RateSearch(self.configurations, self.settings)
        self.statuses: list[SearchStatus] = []

    @property
    def status(self) -> SearchStatus:
        return self.statuses[-1]

    @property
    def labels(self) -> list[str]:
        return [parse(cluster.row).label for cluster in self.clusters]

    def play(self) -> None:
        while self.step():
            assert len(self.clusters) < 100

    def step(self) -> bool:
        status = self.search.get_status(self.clusters)
        assert status
        self.statuses.append(status)
        configuration = status.next_configuration
        if configuration is None:
            return False
        hour = STEP * len(self.clusters)
        self.clusters.append(
            ClusterRate(
                configuration.name,
                0,
                self.rates.get(configuration.label, 0.0)
                + self.source.gauss(0, self.noise)
                + self.drift * hour,
                1000 + hour,
            )
        )
        return True


class RateSearchTest(testtools.TestCase):
    def test_search_ends_with_the_best(self) -> None:
        surface = Surface(RATES, noise=0.03)
        surface.play()
        self.assertEqual('i4-c2', surface.status.winner.label)
        self.assertLessEqual(surface.status.expected_loss, MAX_LOSS)
        self.assertLess(len(surface.clusters), 30)
        assert surface.status.runner_up
        self.assertNotEqual('i4-c2', surface.status.runner_up.label)
        for status in surface.statuses[:-1]:
            assert status.next_configuration
        self.assertEqual(len(surface.clusters), surface.status.runs)

    def test_drift_is_no_difference(self) -> None:
        """The rates fall by more than the configurations differ."""
        for drift in (-0.3, 0.3):
            surface = Surface(RATES, noise=0.01, drift=drift)
            surface.play()
            self.assertEqual('i4-c2', surface.status.winner.label)

    def test_leader_is_visited_again(self) -> None:
        equal = Surface(
            {},
            0.06,
            settings=SearchSettings(
                'equal', Scatter(20 * 0.085**2, 20), max_runs=30
            ),
        )
        equal.play()
        self.assertGreater(len(equal.clusters), 20)
        for number, status in enumerate(equal.statuses[:-1]):
            if number < LEADER_RUNS:
                continue
            recent = equal.labels[number + 1 - LEADER_RUNS : number]
            assert status.next_configuration
            self.assertIn(
                status.leader.label,
                [*recent, status.next_configuration.label],
            )

    def test_leader_is_visited_again_whatever_the_model_selects(self) -> None:
        configurations = list_configurations('instances=1,2,4')
        good, _, worst = (item.name for item in configurations)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rate_model.RateModel.select_next',
                lambda *_: 2,
            )
        )
        search = RateSearch(configurations, SearchSettings('sweep'))
        clusters = [
            ClusterRate(name, 0, 0.05 * (name == good), STEP * index)
            for index, name in enumerate([good] * 2 + [worst] * 4)
        ]
        names = []
        for count in (5, 6):
            status = search.get_status(clusters[:count])
            assert status and status.next_configuration
            self.assertEqual(good, status.leader.name)
            names.append(status.next_configuration.name)
        self.assertEqual([worst, good], names)

    def list_repeated(self, settings: SearchSettings) -> list[int]:
        """Return the numbers of the runs that were the second ones."""
        surface = Surface({}, 0.08, settings=settings)
        surface.play()
        return [
            number
            for number, label in enumerate(surface.labels)
            if surface.labels[:number].count(label) == 1
        ]

    def test_configurations_are_repeated_without_history(self) -> None:
        """The scatter is not known; of 6 configurations, each has a turn."""
        repeated = self.list_repeated(SearchSettings('sweep'))
        self.assertEqual([1, 3, 5], repeated[:3])
        budget = self.list_repeated(SearchSettings('sweep', max_runs=8))
        self.assertEqual([1, 3], budget[:2])
        self.assertNotIn(5, budget)
        others = self.list_repeated(SearchSettings('sweep', HISTORY))
        self.assertNotIn(1, others)

    def test_highest_rate_is_repeated_first(self) -> None:
        configurations = list_configurations('instances=1,2,4')
        first, second, third = (item.name for item in configurations)
        search = RateSearch(configurations, SearchSettings('sweep'))
        clusters = [
            ClusterRate(name, 0, rate, STEP * index)
            for index, (name, rate) in enumerate(
                [(first, 0.0), (second, 0.04), (third, 0.01)]
            )
        ]
        status = search.get_status(clusters)
        assert status and status.next_configuration
        self.assertEqual(second, status.next_configuration.name)

    def test_next_run_is_the_same_after_a_crash(self) -> None:
        surface = Surface(RATES, noise=0.06)
        surface.play()
        for count, status in enumerate(surface.statuses):
            if count % 4:
                continue
            again = RateSearch(surface.configurations, surface.settings)
            self.assertEqual(
                status, again.get_status(surface.clusters[:count])
            )
        # Runs that are not those of before: nothing of them remains.
        self.assertEqual(
            surface.statuses[1],
            surface.search.get_status(surface.clusters[:1]),
        )

    def test_order_depends_on_the_seed(self) -> None:
        firsts = set()
        for seed in range(8):
            search = RateSearch(
                list_configurations('instances=1,2,4', 'cpu_ratio=1,2'),
                SearchSettings(f'sweep-{seed}', samples=8),
            )
            status = search.get_status([])
            assert status
            firsts.add(status.next_configuration)
        self.assertGreater(len(firsts), 1)

    def test_cheaper_configuration_is_selected(self) -> None:
        """It is a little slower, by less than a search can distinguish."""
        configurations = list_configurations(
            'instances=1,2,4', 'cpu_ratio=1,2'
        )
        rates = {**RATES, 'i2': 0.0, 'i4-c2': 0.004}
        clusters = [
            ClusterRate(
                item.name, 0, rates.get(item.label, -0.1), STEP * index
            )
            for index, item in enumerate(configurations * 9)
        ]
        status = RateSearch(
            configurations, SearchSettings('sweep', HISTORY)
        ).get_status(clusters)
        assert status
        self.assertEqual('i4-c2', status.leader.label)
        self.assertEqual('i2', status.winner.label)
        self.assertEqual(status.leader, status.runner_up)
        self.assertLessEqual(status.expected_loss, MAX_LOSS)

    def test_budget_ends_the_search(self) -> None:
        surface = Surface(
            {}, 0.1, settings=SearchSettings('sweep', max_runs=3)
        )
        surface.play()
        self.assertEqual(3, len(surface.clusters))
        self.assertGreater(surface.status.expected_loss, MAX_LOSS)

    def test_excluded_configuration_is_never_selected(self) -> None:
        surface = Surface(RATES, noise=0.01)
        surface.play()
        excluded = {surface.status.winner}
        status = surface.search.get_status(surface.clusters, excluded)
        assert status
        self.assertNotEqual(surface.status.winner, status.winner)
        self.assertNotIn(status.runner_up, excluded)
        self.assertIsNone(
            surface.search.get_status(surface.clusters, surface.configurations)
        )

    def test_finished_search_requests_nothing(self) -> None:
        search = RateSearch(list_configurations(), SearchSettings('sweep'))
        status = search.get_status([], is_finished=True)
        assert status
        self.assertIsNone(status.next_configuration)
        single = RateSearch(
            list_configurations('instances=1'), SearchSettings('sweep')
        ).get_status([])
        assert single
        self.assertIsNone(single.next_configuration)
        self.assertIsNone(single.runner_up)
        self.assertEqual(0.0, single.expected_loss)
