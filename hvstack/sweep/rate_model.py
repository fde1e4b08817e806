# SPDX-License-Identifier: Apache-2.0
"""Linear model of the rates of a search space, with interactions.

The logarithm of the rate of a cluster is the sum of a mean, an effect of each
value of a parameter, an effect of each pair of values of two parameters, the
drift of the machine, and a random part. All effects have a normal prior with
mean 0, so that few runs shrink them (Bayesian ridge regression). The model is
kept as a Gaussian process over the configurations: its covariance is that of
the effects, and a run adds one row to a Cholesky factor (Rasmussen and
Williams, "Gaussian Processes for Machine Learning", algorithm 2.1).

The scale of the effects and the scatter of a cluster are not known. Each pair
of their possible values is a hypothesis, whose weight is its likelihood in the
runs so far and in earlier sweeps.
"""

import bisect
import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import mul

from hvstack.results.estimator import MAX_HISTORY_DEGREES, Scatter
from hvstack.sweep.effects import Effects

#: Standard deviation of the mean log rate, which is not known.
MEAN = 1.0
#: Drift: standard deviation of the slope in log rate per run, and of a pace
#: that wanders. The paces of two runs whose times differ by 1 have a
#: correlation of 1/e.
SLOPE, WANDER = 0.008, 0.01
#: Possible scales of the effects, and standard deviation of the logarithm of
#: the scale in its prior, a normal one: the effects have that of the papers.
SCALES, SCALE_DEVIATION = (0.5, 1.0, 2.0), 0.35
#: Possible standard deviations of the scatter.
DEVIATIONS = (0.02, 0.03, 0.04, 0.052, 0.066, 0.083, 0.105, 0.14)
#: Prior of the scatter without earlier sweeps, with so few degrees of freedom
#: that the runs correct it. All priors of this model were chosen by the losses
#: that simulated searches expect and have, whether clusters scatter by 4 or by
#: 8 %, and judged by searches on other surfaces (benchmarks/strategies.py,
#: doc/source/user/sweeps.md).
PRIOR_SCATTER = Scatter(0.03**2, 1)
#: Degrees of freedom of earlier sweeps that give the prior of the scatter one
#: more degree; it gets two more at most.
DEGREES_PER_EXTRA = 6
#: Hypotheses with a smaller part of the weight are left out.
MIN_WEIGHT = 0.02
#: Number of configurations that are considered for the next run.
MAX_CANDIDATES = 32

_PEAK = 1 / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class SearchRun:
    """Cluster of a search.

    :param row: index of its configuration in the search space.
    :param log_rate: logarithm of its rate.
    :param time: start time, in units in which the pace of the machine wanders.
    """

    row: int
    log_rate: float
    time: float


@dataclass(frozen=True)
class Hypothesis:
    """Assumption about a search space.

    :param scale: factor of the standard deviations of all effects.
    :param deviation: standard deviation of the scatter of a cluster.
    """

    scale: float
    deviation: float

    def compute_log_weight(self, scatter: Scatter) -> float:
        """Return the logarithm of the prior.

        :param scatter: scatter of earlier sweeps, or its prior.
        """
        return -(
            scatter.degrees * math.log(self.deviation)
            + scatter.squares / (2 * self.deviation**2)
            + (math.log(self.scale) / SCALE_DEVIATION) ** 2 / 2
        )


HYPOTHESES = tuple(
    itertools.starmap(Hypothesis, itertools.product(SCALES, DEVIATIONS))
)


def _multiply(first: Iterable[float], second: Iterable[float]) -> float:
    """Return the inner product of two vectors; the shorter one ends it."""
    product: float = sum(map(mul, first, second))
    return product


class _Sample:
    """Sample of the posterior of the log rates.

    :param prior_rates: sample of the prior.
    """

    def __init__(self, prior_rates: list[float]) -> None:
        self.prior_rates = prior_rates
        self.rates = list(prior_rates)
        self.weights: list[float] = []
        self.pace = 0.0

    def add_weight(self, weight: float, column: Sequence[float]) -> None:
        """Correct the sample by a run.

        :param weight: weight of the run.
        :param column: column of the run in the Cholesky factor.
        """
        self.weights.append(weight)
        self.rates = [
            rate + value * weight
            for rate, value in zip(self.rates, column, strict=True)
        ]


class Posterior:
    """Posterior of the rates under one hypothesis."""

    def __init__(self, effects: Effects, hypothesis: Hypothesis) -> None:
        self.effects = effects
        self.hypothesis = hypothesis
        self.square = hypothesis.scale**2
        self.runs: list[SearchRun] = []
        self.log_likelihood = 0.0
        self.means = [0.0] * effects.count
        self.variances = [
            MEAN**2 + self.square * line[row]
            for row, line in enumerate(effects.covariances)
        ]
        # Columns by configuration and by run, and the Cholesky factor by run.
        self._columns: list[list[float]] = [[] for _ in range(effects.count)]
        self._run_columns: list[list[float]] = []
        self._factor: list[list[float]] = []
        self._pivots: list[float] = []
        self._innovations: list[float] = []
        self._samples: dict[int, _Sample] = {}

    def _list_drift(self, time: float) -> list[float]:
        """Return the covariances of the drifts of all runs and a new one."""
        count = len(self.runs)
        return [
            SLOPE**2 * index * count + WANDER**2 * math.exp(run.time - time)
            for index, run in enumerate(self.runs)
        ]

    def _solve(self, values: Sequence[float]) -> list[float]:
        """Return the solution of a triangular system with the factor."""
        solution: list[float] = []
        for value, line, pivot in zip(
            values, self._factor, self._pivots, strict=True
        ):
            solution.append((value - _multiply(line, solution)) / pivot)
        return solution

    def _predict(
        self, row: int, drift: Sequence[float]
    ) -> tuple[list[float], float]:
        """Return the column and the variance of a new run.

        :param row: index of its configuration.
        :param drift: column of its drift.
        """
        column = [
            own + part
            for own, part in zip(self._columns[row], drift, strict=True)
        ]
        count = len(self.runs)
        variance = (
            MEAN**2
            + self.square * self.effects.covariances[row][row]
            + (SLOPE * count) ** 2
            + WANDER**2
            + self.hypothesis.deviation**2
            - _multiply(column, column)
        )
        return column, variance

    def add(self, run: SearchRun) -> None:
        """Add a run."""
        drift = self._solve(self._list_drift(run.time))
        column, variance = self._predict(run.row, drift)
        pivot = math.sqrt(variance)
        innovation = (
            run.log_rate - _multiply(column, self._innovations)
        ) / pivot
        covariances = self.effects.covariances[run.row]
        values = []
        for row, own in enumerate(self._columns):
            value = (
                MEAN**2
                + self.square * covariances[row]
                - _multiply(column, own)
            ) / pivot
            own.append(value)
            values.append(value)
            self.means[row] += value * innovation
            self.variances[row] -= value * value
        self._run_columns.append(values)
        self._factor.append(column)
        self._pivots.append(pivot)
        self._innovations.append(innovation)
        self.runs.append(run)
        self.log_likelihood -= math.log(pivot) + innovation**2 / 2

    def draw(self, samples: Iterable[int]) -> list[list[float]]:
        """Return samples of the posterior of the log rates.

        A sample of the prior is corrected by the runs as the means are
        (Matheron's rule).

        :param samples: indexes of the samples.
        """
        return [self._draw_sample(sample) for sample in samples]

    def _draw_sample(self, number: int) -> list[float]:
        """Return a sample, which later runs only correct further."""
        if number not in self._samples:
            mean = MEAN * self.effects.draw_mean()[2 * number]
            self._samples[number] = _Sample(
                [
                    mean + self.hypothesis.scale * value
                    for value in self.effects.prior_samples[number]
                ]
            )
        sample = self._samples[number]
        for index in range(len(sample.weights), len(self.runs)):
            sample.add_weight(
                self._weigh(number, sample, index), self._run_columns[index]
            )
        return sample.rates

    def _weigh(self, number: int, sample: '_Sample', index: int) -> float:
        """Return the correction of a sample by a run.

        :param number: number of the sample.
        :param sample: sample that is corrected by all runs before.
        :param index: index of the run.
        """
        run = self.runs[index]
        move, noise = self.effects.draw_noise(index)[
            2 * number : 2 * number + 2
        ]
        slope = self.effects.draw_mean()[2 * number + 1]
        wander = 0.0
        if index:
            wander = math.exp(self.runs[index - 1].time - run.time)
        sample.pace = wander * sample.pace + WANDER * move * math.sqrt(
            1 - wander**2
        )
        log_rate = (
            sample.prior_rates[run.row]
            + sample.pace
            + SLOPE * slope * index
            + self.hypothesis.deviation * noise
        )
        return (
            run.log_rate
            - log_rate
            - _multiply(self._factor[index], sample.weights)
        ) / self._pivots[index]

    def _list_covariances(
        self, rows: Sequence[int]
    ) -> dict[int, dict[int, float]]:
        """Return the covariances of the rates of some rows."""
        table: dict[int, dict[int, float]] = {row: {} for row in rows}
        for index, row in enumerate(rows):
            column = self._columns[row]
            covariances = self.effects.covariances[row]
            for other in rows[: index + 1]:
                table[row][other] = table[other][row] = (
                    MEAN**2
                    + self.square * covariances[other]
                    - _multiply(column, self._columns[other])
                )
        return table

    def select_next(
        self, leader: int, rows: Sequence[int], time: float
    ) -> int:
        """Return the row whose run reduces the expected loss most.

        The loss is that of the leader against each other configuration, with
        the variances after the run (LL criterion of Chick, Branke and
        Schmidt, "Sequential Sampling to Myopically Maximize the Expected
        Value of Information", 2010).

        :param leader: row with the smallest expected loss.
        :param rows: rows that are considered.
        :param time: expected start time of the run.
        """
        drift = self._solve(self._list_drift(time))
        others = [row for row in rows if row != leader]
        differences = [self.means[row] - self.means[leader] for row in others]
        table = self._list_covariances(rows)
        variances = [
            table[row][row] + table[leader][leader] - 2 * table[row][leader]
            for row in others
        ]
        drifts = {row: _multiply(self._columns[row], drift) for row in rows}
        losses = {}
        for row in rows:
            _, variance = self._predict(row, drift)
            covariances = table[row]
            base = covariances[leader] - drifts[leader]
            losses[row] = sum(
                compute_expected_gain(
                    difference,
                    before
                    - (covariances[other] - drifts[other] - base) ** 2
                    / variance,
                )
                for other, difference, before in zip(
                    others, differences, variances, strict=True
                )
            )
        return min(rows, key=lambda row: losses[row])


def compute_expected_gain(difference: float, variance: float) -> float:
    """Return the mean of the positive part of a normal variable.

    :param difference: mean of the variable.
    :param variance: its variance; less than 0 by rounding counts as 0.
    """
    if variance <= 1e-12:
        return max(0.0, difference)
    deviation = math.sqrt(variance)
    ratio = difference / deviation
    return deviation * (
        _PEAK * math.exp(-ratio * ratio / 2)
        + ratio * 0.5 * math.erfc(-ratio / math.sqrt(2))
    )


class RateModel:
    """Rates of a search space under all hypotheses.

    :param effects: prior of the effects.
    :param scatter: scatter of earlier sweeps; None without them.
    :param hypotheses: possible scales and scatters.
    """

    def __init__(
        self,
        effects: Effects,
        scatter: Scatter | None = None,
        hypotheses: Sequence[Hypothesis] = HYPOTHESES,
    ) -> None:
        self.effects = effects
        prior = PRIOR_SCATTER
        if scatter is not None and scatter.degrees:
            prior = scatter.limit(MAX_HISTORY_DEGREES)
            # The mean of the variance is then that of earlier sweeps. With
            # their own degrees of freedom it would be higher (mean of the
            # inverse gamma distribution), and the search would expect more
            # than it loses. A variance of few degrees, which can be small by
            # chance, keeps the higher mean.
            extra = min(2, prior.degrees // DEGREES_PER_EXTRA)
            prior = Scatter(prior.squares, prior.degrees + extra)
        self._posteriors = [Posterior(effects, item) for item in hypotheses]
        self._priors = [item.compute_log_weight(prior) for item in hypotheses]
        self._runs: list[SearchRun] = []

    def add(self, run: SearchRun) -> None:
        """Add a run to all hypotheses."""
        # Differences alone are of interest: the prior of the mean is that of
        # rates near the first one.
        origin = self._runs[0].log_rate if self._runs else run.log_rate
        self._runs.append(run)
        run = replace(run, log_rate=run.log_rate - origin)
        for posterior in self._posteriors:
            posterior.add(run)

    def list_weights(self) -> list[float]:
        """Return the weight of each hypothesis; 0 below the minimum."""
        logs = [
            prior + posterior.log_likelihood
            for prior, posterior in zip(
                self._priors, self._posteriors, strict=True
            )
        ]
        highest = max(logs)
        weights = [math.exp(value - highest) for value in logs]
        total = sum(weights)
        weights = [
            weight if weight >= MIN_WEIGHT * total else 0.0
            for weight in weights
        ]
        total = sum(weights)
        return [weight / total for weight in weights]

    def compute_losses(self, rows: Collection[int]) -> dict[int, float]:
        """Return the expected loss of each row against the best one.

        The loss is that of the rate, as a share of 1.

        :param rows: rows that can be selected.
        """
        weights = self.list_weights()
        ends = list(itertools.accumulate(weights))
        # Each hypothesis has its share of the samples.
        owners: dict[int, list[int]] = {}
        for sample in range(self.effects.samples):
            share = (sample + 0.5) / self.effects.samples
            owner = min(bisect.bisect_left(ends, share), len(ends) - 1)
            owners.setdefault(owner, []).append(sample)
        expm1 = math.expm1
        gains: list[list[float]] = []
        for owner, samples in owners.items():
            for values in self._posteriors[owner].draw(samples):
                rates = list(map(values.__getitem__, rows))
                highest = max(rates)
                gains.append([expm1(rate - highest) for rate in rates])
        columns = zip(*gains, strict=True)
        return {
            row: (0.0 - sum(column)) / len(gains)
            for row, column in zip(rows, columns, strict=True)
        }

    def draw_rates(self) -> list[float]:
        """Return a sample of the log rates under the likeliest hypothesis."""
        origin = self._runs[0].log_rate if self._runs else 0.0
        (sample,) = self._select_likeliest().draw([0])
        return [origin + value for value in sample]

    def _select_likeliest(self) -> Posterior:
        weights = self.list_weights()
        likeliest = max(range(len(weights)), key=weights.__getitem__)
        return self._posteriors[likeliest]

    def select_best(self, rows: Iterable[int]) -> int:
        """Return the row with the highest expected rate.

        :param rows: rows that can be selected; not empty.
        """
        return max(rows, key=self._select_likeliest().means.__getitem__)

    def select_next(
        self, leader: int, rows: Collection[int], time: float
    ) -> int:
        """Return the row whose run reduces the expected loss most.

        :param leader: row with the smallest expected loss.
        :param rows: rows that can be selected, in order of preference.
        :param time: expected start time of the run.
        """
        posterior = self._select_likeliest()
        ranked = sorted(
            rows,
            key=lambda row: (
                posterior.means[row]
                + math.sqrt(max(0.0, posterior.variances[row]))
            ),
            reverse=True,
        )
        candidates = {leader, *ranked[:MAX_CANDIDATES]}
        return posterior.select_next(
            leader, [row for row in rows if row in candidates], time
        )
