# SPDX-License-Identifier: Apache-2.0
"""Percent of bare metal, with confidence intervals for a few runs.

Effects multiply the rates, so all formulas use the logarithms of rates. The
effects of configurations, bare metal and passes are those of
:mod:`hvstack.results.estimator`. The interval of a percentage holds for all
configurations of a sweep together (Dunnett's quantile), because a report
names those that are slower or faster than bare metal. The best configuration
is compared with all others by Tukey's studentized range, because it was not
selected before the measurement.

A comparison without passes, such as that of two sweeps, pools the variance
within rows: the difference of the means of two rows has the variance
s^2 (1/n + 1/m), and the degrees of freedom of s^2 give the quantile of
Student's t (Montgomery, "Design and Analysis of Experiments", two-sample t
procedures and one-way analysis of variance).

The drift is the least-squares line through the baseline runs over time (same
book, simple linear regression). Passes take out most of it; the line corrects
for what remains within a pass.
"""

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from hvstack import errors
from hvstack.results import quantiles
from hvstack.results.estimator import Difference, SweepFit
from hvstack.results.quantiles import compute_t_quantile

#: Minimum number of baseline runs for a drift: a line through three points
#: has a single degree of freedom.
DRIFT_RUNS = 4
#: An interval that is within this distance from 100, in points, shows that
#: the rates do not differ; a wider one does not show it.
EQUIVALENCE_POINTS = 3.0
#: Replaces an interval that does not exist, or that is too wide to report.
TOO_FEW_RUNS = 'too few runs for an interval'


@dataclass(frozen=True)
class Percent:
    """Percent of bare metal of a configuration.

    :param percent: 100 x ratio of the geometric means, without the effects of
        the passes; more than 100 is faster than bare metal.
    :param low: lower bound of the 95 % interval; None without an interval.
        The intervals of all configurations of a sweep hold together.
    :param high: upper bound of the 95 % interval; None without an interval.
    :param runs: number of valid runs of the configuration.
    :param baseline_runs: number of valid runs on bare metal.
    :param clusters: number of clusters on which the configuration ran. The
        interval is that of clusters, not of runs.
    :param baseline_clusters: number of clusters on bare metal.
    :param half_width: half width of the interval of the logarithm of the
        ratio; None without an interval.
    :param row_half_width: half width of the interval of this row alone, by
        Student's t; None without an interval.
    :param degrees_of_freedom: degrees of freedom of the variance.
    :param performance_ratio: 100 x rate of the performance run / rate of the
        performance run on bare metal.
    """

    percent: float
    low: float | None
    high: float | None
    runs: int
    baseline_runs: int
    half_width: float | None
    degrees_of_freedom: int
    performance_ratio: float
    clusters: int = 0
    baseline_clusters: int = 0
    row_half_width: float | None = None

    @property
    def margin(self) -> float | None:
        """Half of the interval in points; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2

    @property
    def reported_bounds(self) -> tuple[float, float] | None:
        """Bounds of the interval in reports for people; None without any.

        An interval that contains 100, and whose half is more than the
        percentage itself, says nothing about the rates: such as 0 to 379104.5
        with a single degree of freedom. An interval that excludes 100 is the
        reason of a verdict, and is always reported.
        """
        if self.low is None or self.high is None:
            return None
        is_too_wide = self.high - self.low > 2 * self.percent
        if is_too_wide and contains_100(self):
            return None
        return self.low, self.high


@dataclass(frozen=True)
class Pooled:
    """Variance of the logarithms of rates within rows.

    :param deviation: square root of the variance; None without any degree of
        freedom.
    :param degrees_of_freedom: degrees of freedom of the variance.
    :param history: degrees of freedom that come from earlier sweeps.
    """

    deviation: float | None
    degrees_of_freedom: int
    history: int = 0


@dataclass(frozen=True)
class Drift:
    """Change of the bare-metal rate over the sweep.

    :param slope: slope of the logarithm of the rate per hour.
    :param half_width: half width of the 95 % interval of the slope.
    :param hours: start times of the baseline runs in hours.
    """

    slope: float
    half_width: float
    hours: tuple[float, ...]

    @property
    def applied(self) -> bool:
        """Whether rates are corrected: the interval does not contain 0."""
        return abs(self.slope) > max(self.half_width, 1e-9)

    @property
    def percent_an_hour(self) -> tuple[float, float, float]:
        """Change of the rate in percent per hour, and its interval."""
        low, high = self.slope - self.half_width, self.slope + self.half_width
        return (
            100 * math.expm1(self.slope),
            100 * math.expm1(low),
            100 * math.expm1(high),
        )


@dataclass(frozen=True)
class CorrectedRates:
    """Rates of a sweep, corrected for its passes and its drift.

    :param rows: rates of the clusters of each configuration.
    :param base: rates of the clusters on bare metal.
    :param fit: effects of rows and passes; None without any cluster.
    :param drift: drift that is corrected within the passes; None without
        correction.
    """

    rows: Mapping[str, Sequence[float]]
    base: Sequence[float]
    fit: SweepFit | None = None
    drift: Drift | None = None

    @functools.cached_property
    def pooled(self) -> Pooled:
        """Variance around the effects of rows and passes."""
        if self.fit is None or not self.fit.own.total.degrees:
            return Pooled(None, 0)
        return Pooled(
            math.sqrt(self.fit.pooled.variance),
            self.fit.pooled.degrees,
            self.fit.history_degrees,
        )

    def compute_ratio(self, name: str, other: str | None = None) -> Percent:
        """Return the rates of a row in percent of another row.

        :param name: name of the row.
        :param other: name of the reference row; None uses the baseline, and
            an interval that holds for all rows together.
        """
        assert self.fit is not None
        difference = self.fit.compare(name, other)
        row_half = half = _compute_half_width(difference)
        if other is None and difference.error is not None:
            half = difference.error * quantiles.compute_dunnett_quantile(
                len(self.rows), difference.degrees, self.fit.correlation
            )
        return build_percent(
            difference.log_ratio,
            half,
            difference.degrees,
            self.rows[name],
            self.rows[other] if other else self.base,
            row_half,
        )

    def compute_bare_metal(self) -> Percent:
        """Return the row of bare metal: 100 with the interval of its mean.

        :raises hvstack.errors.InputError: no baseline.
        """
        if not self.base or self.fit is None:
            raise errors.InputError(
                'Cannot find a valid run on bare metal. Run a baseline first.'
            )
        difference = self.fit.estimate_baseline()
        half = _compute_half_width(difference)
        return build_percent(
            0.0, half, difference.degrees, self.base, self.base, half
        )

    def is_slower(self, name: str, best: str) -> bool:
        """Return whether a row is slower than the best one.

        The best row is known after the measurement only, so the quantile is
        that of all pairs (Tukey and Kramer).

        :param name: name of the row.
        :param best: name of the row with the highest rate.
        """
        assert self.fit is not None
        difference = self.fit.compare(name, best)
        if difference.error is None:
            return False
        quantile = quantiles.compute_range_quantile(
            len(self.rows), difference.degrees
        )
        limit = quantile / math.sqrt(2) * difference.error
        return difference.log_ratio < -limit


@dataclass(frozen=True)
class Choice:
    """Best configuration of a sweep.

    :param best: name of the configuration with the highest geometric mean.
    :param tied: names of the configurations without a significant difference
        to the best.
    :param selected: name of the cheapest of the best and the tied
        configurations.
    """

    best: str
    tied: tuple[str, ...]
    selected: str

    @property
    def winner(self) -> str | None:
        """Name of the best configuration; None in a tie."""
        return None if self.tied else self.best


def fit_drift(hours: Sequence[float], rates: Sequence[float]) -> Drift | None:
    """Return the drift of the baseline; None with too few runs.

    :param hours: start times of the runs in hours.
    :param rates: rates of the valid runs on bare metal.
    :raises hvstack.errors.InputError: a rate is not a positive number.
    """
    logs = compute_logs(rates)
    if len(logs) < DRIFT_RUNS or not _sum_squares(hours):
        return None
    hour, log = _mean(hours), _mean(logs)
    slope = math.fsum(
        (x - hour) * (y - log) for x, y in zip(hours, logs, strict=True)
    ) / _sum_squares(hours)
    residual = math.fsum(
        (y - log - slope * (x - hour)) ** 2
        for x, y in zip(hours, logs, strict=True)
    )
    degrees = len(logs) - 2
    error = math.sqrt(residual / degrees / _sum_squares(hours))
    return Drift(slope, compute_t_quantile(degrees) * error, tuple(hours))


def choose_winner(
    corrected_rates: CorrectedRates,
    cost: Callable[[str], tuple[float, ...]],
    eligible_names: Collection[str],
) -> Choice | None:
    """Return the best configuration of a sweep for a report.

    Configurations that are not slower than the best one, with all pairs
    considered together, are tied with it.

    :param corrected_rates: rates of the sweep.
    :param cost: function that returns the cost of a configuration; the
        cheapest tied configuration is selected.
    :param eligible_names: names of the configurations that may be selected.
    :returns: None without any run.
    """
    fit = corrected_rates.fit
    names = [name for name in corrected_rates.rows if name in eligible_names]
    if fit is None or not names:
        return None
    effects = dict(zip(fit.rows, fit.effects, strict=True))
    best = max(names, key=lambda name: effects[name])
    tied = [
        name
        for name in names
        if name != best and not corrected_rates.is_slower(name, best)
    ]
    return Choice(best, tuple(tied), min([best, *tied], key=cost))


def pool_variance(rows: Sequence[Sequence[float]]) -> Pooled:
    """Return the pooled variance of the logarithms of rates.

    :param rows: rates of the valid runs of each row.
    """
    squares = 0.0
    degrees = 0
    for row in rows:
        logs = compute_logs(row)
        if len(logs) < 2:
            continue
        mean = math.fsum(logs) / len(logs)
        squares += math.fsum((log - mean) ** 2 for log in logs)
        degrees += len(logs) - 1
    if degrees < 1:
        return Pooled(None, 0)
    return Pooled(math.sqrt(squares / degrees), degrees)


def compute_ratio(
    rates: Sequence[float],
    base: Sequence[float],
    spread: Pooled,
    comparisons: int = 1,
) -> Percent:
    """Return rates in percent of other rates, without passes.

    :param rates: rates of one or more clusters.
    :param base: rates of the reference clusters.
    :param spread: variance pooled over all rows.
    :param comparisons: number of ratios whose intervals hold together.
    :raises hvstack.errors.InputError: a rate is not a positive number.
    """
    log = _mean(compute_logs(rates)) - _mean(compute_logs(base))
    degrees = spread.degrees_of_freedom
    half = row_half = None
    if spread.deviation is not None:
        error = spread.deviation * math.sqrt(1 / len(rates) + 1 / len(base))
        row_half = compute_t_quantile(degrees) * error
        level = quantiles.compute_joint_level(comparisons)
        half = compute_t_quantile(degrees, level) * error
    return build_percent(log, half, degrees, rates, base, row_half)


def build_percent(
    log_ratio: float,
    half_width: float | None,
    degrees: int,
    rates: Sequence[float],
    base: Sequence[float],
    row_half_width: float | None,
) -> Percent:
    """Return the percentage of an estimated ratio.

    :param log_ratio: logarithm of the ratio.
    :param half_width: half width of its interval; None without any.
    :param degrees: degrees of freedom of the variance.
    :param rates: rates of the clusters of the row.
    :param base: rates of the clusters of the reference row.
    :param row_half_width: half width of the interval of this row alone.
    """
    return Percent(
        percent=100 * math.exp(log_ratio),
        low=None
        if half_width is None
        else 100 * math.exp(log_ratio - half_width),
        high=None
        if half_width is None
        else 100 * math.exp(log_ratio + half_width),
        runs=len(rates),
        baseline_runs=len(base),
        half_width=half_width,
        degrees_of_freedom=degrees,
        performance_ratio=compute_performance_ratio(rates, base),
        clusters=len(rates),
        baseline_clusters=len(base),
        row_half_width=row_half_width,
    )


def contains_100(percent: Percent) -> bool:
    """Return whether the interval contains 100; False without an interval."""
    if percent.low is None or percent.high is None:
        return False
    return percent.low <= 100 <= percent.high


def classify(percent: Percent | None) -> str:
    """Return the kind of difference that an interval shows.

    :param percent: rates in percent of other rates; None without any.
    :returns: ``no difference`` only if the whole interval is within
        :data:`EQUIVALENCE_POINTS` of 100; otherwise an interval that contains
        100 is ``not told apart``, or :data:`TOO_FEW_RUNS` if it is not
        reported.
    """
    if percent is None or percent.reported_bounds is None:
        return TOO_FEW_RUNS
    if not contains_100(percent):
        return 'slower' if percent.percent < 100 else 'faster'
    low, high = percent.reported_bounds
    if low >= 100 - EQUIVALENCE_POINTS and high <= 100 + EQUIVALENCE_POINTS:
        return 'no difference'
    return 'not told apart'


def describe(percent: Percent | None) -> str:
    """Return the kind of difference, with the margin if it is not known."""
    kind = classify(percent)
    if percent is None or kind != 'not told apart':
        return kind
    return f'{kind} (±{percent.margin:.1f} points)'


def _compute_half_width(difference: Difference) -> float | None:
    if difference.error is None:
        return None
    return compute_t_quantile(difference.degrees) * difference.error


def compute_performance_ratio(
    rates: Sequence[float], baseline: Sequence[float]
) -> float:
    """Return 100 x performance run / performance run on bare metal.

    The performance run is the slower run of a pair. The slowest of many runs
    is slower than that of a pair. The side with more runs is therefore
    averaged over all groups with as many runs as the other side.
    """
    size = min(len(rates), len(baseline))
    return (
        100
        * _compute_expected_slowest(rates, size)
        / _compute_expected_slowest(baseline, size)
    )


def _compute_expected_slowest(rates: Sequence[float], size: int) -> float:
    """Return the expected slowest rate of ``size`` randomly selected runs.

    In ascending order, the i-th rate is the slowest of all groups that
    consist of it and of faster runs.
    """
    ordered = sorted(rates)
    count = len(ordered)
    return math.fsum(
        # The quotient of two numbers that are too large for a float.
        rate
        * (math.comb(count - 1 - index, size - 1) / math.comb(count, size))
        for index, rate in enumerate(ordered)
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _sum_squares(values: Sequence[float]) -> float:
    """Return the sum of squared distances from the mean."""
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values)


def compute_logs(rates: Sequence[float]) -> list[float]:
    """Return the logarithms of rates.

    :raises hvstack.errors.InputError: a rate is not a positive number.
    """
    for rate in rates:
        if not rate > 0 or not math.isfinite(rate):
            raise errors.InputError(
                f'Cannot use rate {rate}: it is not positive. Use valid runs.'
            )
    return [math.log(rate) for rate in rates]
