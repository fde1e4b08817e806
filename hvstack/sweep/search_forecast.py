# SPDX-License-Identifier: Apache-2.0
"""Simulation of a search, to say how many runs it needs before it starts."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from hvstack.results.estimator import ClusterRate
from hvstack.sweep.rate_model import PRIOR_SCATTER, Hypothesis
from hvstack.sweep.rate_search import (
    MAX_LOSS,
    MAX_STEP,
    WANDER_HOURS,
    RateSearch,
)
from hvstack.sweep.strategies import MeasuredRates, ModelBased

#: Expected losses whose runs are forecast, as shares of the rate.
LOSSES = (0.04, 0.02, MAX_LOSS)
#: Seed of the simulation.
_SEED = 'forecast'
#: Number of samples of the rates, number of simulated searches, and number of
#: configurations of all simulated searches together.
_SAMPLES, _MAX_SEARCHES, _MIN_SEARCHES, _CONFIGURATIONS = 48, 40, 4, 1500


@dataclass(frozen=True)
class SimulatedSearch:
    """Simulated remainder of a search.

    :param losses: expected loss of the answer before each run, and at the
        end, as shares of the rate.
    :param configurations: number of measured configurations.
    """

    losses: tuple[float, ...]
    configurations: int

    @property
    def clusters(self) -> int:
        """Number of clusters of the remainder."""
        return len(self.losses) - 1

    def count_clusters(self, loss: float) -> int | None:
        """Return the number of clusters until an expected loss.

        :param loss: expected loss as a share of the rate.
        :returns: None if the search ends before.
        """
        for clusters, value in enumerate(self.losses):
            if value <= loss:
                return clusters
        return None


@dataclass(frozen=True)
class SearchForecast:
    """Forecast of a search.

    :param searches: simulated searches.
    :param confirmation_runs: number of runs that confirm the answer.
    """

    searches: tuple[SimulatedSearch, ...]
    confirmation_runs: int

    @property
    def expected_loss(self) -> float:
        """Mean expected loss at the end of the search."""
        return statistics.fmean(item.losses[-1] for item in self.searches)

    def count_clusters(self, loss: float) -> tuple[int, int, int] | None:
        """Return quantiles of the number of clusters until a loss.

        :param loss: expected loss as a share of the rate.
        :returns: the 10, 50 and 90 % quantiles; None if half of the searches
            end before.
        """
        counts = [item.count_clusters(loss) for item in self.searches]
        reached = [
            item.clusters if count is None else count
            for item, count in zip(self.searches, counts, strict=True)
        ]
        if 2 * counts.count(None) >= len(counts):
            return None
        return compute_quantiles(reached)

    @property
    def clusters(self) -> tuple[int, int, int]:
        """Quantiles of the number of clusters of the search."""
        return compute_quantiles([item.clusters for item in self.searches])


def compute_quantiles(values: Sequence[int]) -> tuple[int, int, int]:
    """Return the 10, 50 and 90 % quantiles of numbers."""
    ordered = sorted(values)
    low, middle, high = (
        ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.5, 0.9)
    )
    return low, middle, high


def forecast_search(
    strategy: ModelBased,
    measured: MeasuredRates | None = None,
    *,
    measure_baseline: bool = True,
) -> SearchForecast:
    """Simulate the remainder of a search.

    The true rates are samples of the model, with the scatter that is the most
    likely. The same arguments always give the same result.

    :param strategy: strategy of the sweep.
    :param measured: runs so far; None before the first run.
    :param measure_baseline: whether the confirmation measures bare metal.
    """
    measured = measured or MeasuredRates({})
    possible = strategy.space.possible
    count = _CONFIGURATIONS // len(possible)
    return SearchForecast(
        tuple(
            _simulate(strategy, measured, number)
            for number in range(max(_MIN_SEARCHES, min(_MAX_SEARCHES, count)))
        ),
        strategy.count_confirmation_runs(measure_baseline=measure_baseline),
    )


def _simulate(
    strategy: ModelBased, measured: MeasuredRates, number: int
) -> SimulatedSearch:
    settings = strategy.settings
    scatter = settings.scatter if settings.scatter.degrees else PRIOR_SCATTER
    hypothesis = Hypothesis(1.0, max(1e-3, math.sqrt(scatter.variance)))
    possible = strategy.space.possible
    search = RateSearch(
        possible,
        replace(
            settings,
            seed=f'{_SEED}{number}',
            samples=_SAMPLES,
            hypotheses=(hypothesis,),
        ),
    )
    clusters = list(measured.search)
    rates = dict(
        zip(
            [item.name for item in possible],
            search.draw_rates(clusters),
            strict=True,
        )
    )
    normals = _draw_normals(number)
    hour = clusters[-1].hour if clusters else 0.0
    step = MAX_STEP * WANDER_HOURS
    losses = []
    rows: set[str] = set()
    while True:
        status = search.get_status(clusters, measured.excluded)
        if status is None:
            return SimulatedSearch((0.0,), 0)
        losses.append(status.expected_loss)
        if status.next_configuration is None:
            return SimulatedSearch(tuple(losses), len(rows))
        name = status.next_configuration.name
        rows.add(name)
        hour += step
        noise = hypothesis.deviation * normals[len(losses) - 1]
        clusters.append(ClusterRate(name, 0, rates[name] + noise, hour))


def _draw_normals(number: int) -> list[float]:
    """Return random numbers for the scatter of a simulated search."""
    return NormalDist().samples(1000, seed=f'{_SEED}-scatter{number}')
