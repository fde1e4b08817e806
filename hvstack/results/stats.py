# SPDX-License-Identifier: Apache-2.0
"""Percent of bare metal, with confidence intervals for a few runs.

Effects multiply the rates, so all formulas use the logarithms of rates. Two
runs of one configuration have a single degree of freedom. The variance is
therefore pooled over all rows including bare metal, which assumes that the
runs of all rows scatter by the same factor.

The difference of the means of two rows has the variance s^2 (1/n + 1/m). s^2
is pooled over the rows, and its degrees of freedom give the quantile of
Student's t (Montgomery, "Design and Analysis of Experiments", two-sample t
procedures and one-way analysis of variance). The drift is the least-squares
line through the baseline runs over time. The rates of runs between the first
and the last baseline run are corrected for it. The slope then adds
s^2 (u - v)^2 / Sxx to the variance, where u and v are the mean times of the
two rows (same book, simple linear regression).
"""

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hvstack import errors

#: Probability that the interval covers the true ratio.
CONFIDENCE = 0.95
#: Minimum number of baseline runs for a drift: a line through three points
#: has a single degree of freedom.
DRIFT_RUNS = 4


@dataclass(frozen=True)
class Percent:
    """Percent of bare metal of a configuration.

    :param percent: 100 x ratio of the geometric means; more than 100 is
        faster than bare metal.
    :param low: lower bound of the 95 % interval; None without an interval.
    :param high: upper bound of the 95 % interval; None without an interval.
    :param runs: number of valid runs of the configuration.
    :param baseline_runs: number of valid runs on bare metal.
    :param clusters: number of clusters on which the configuration ran. The
        interval is that of clusters, not of runs.
    :param baseline_clusters: number of clusters on bare metal.
    :param half_width: half width of the interval of the logarithm of the
        ratio; None without an interval.
    :param degrees_of_freedom: degrees of freedom of the pooled variance.
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


@dataclass(frozen=True)
class Pooled:
    """Variance of the logarithms of rates within rows.

    :param deviation: square root of the variance; None without any degree of
        freedom.
    :param degrees_of_freedom: sum of (runs - 1) over the rows.
    """

    deviation: float | None
    degrees_of_freedom: int


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

    def correct_rates(
        self, rates: Sequence[float], hours: Sequence[float]
    ) -> list[float]:
        """Return rates corrected to the mean time of the baseline runs.

        :param rates: rates of runs.
        :param hours: start times of these runs in hours.
        """
        centre = _mean(self.hours)
        return [
            rate * math.exp(-self.slope * (hour - centre))
            for rate, hour in zip(rates, hours, strict=True)
        ]

    def covers(self, hours: Sequence[float]) -> bool:
        """Return whether baseline runs precede and follow all of the runs.

        Otherwise, the line would have to be extrapolated.

        :param hours: start times of the runs in hours.
        """
        return min(self.hours) <= min(hours) and max(hours) <= max(self.hours)

    def slope_variance(
        self, row_hours: Sequence[float], other: Sequence[float]
    ) -> float:
        """Return the variance that the slope adds to a difference, in s^2.

        :param row_hours: start times of the runs of a row in hours.
        :param other: start times of the runs of the reference row in hours.
        """
        return (_mean(row_hours) - _mean(other)) ** 2 / _sum_squares(
            self.hours
        )


@dataclass(frozen=True)
class DriftCorrectedRates:
    """Rates of a sweep, corrected for the drift of bare metal.

    :param rows: rates of the valid runs of each configuration.
    :param base: rates of the baseline runs.
    :param drift: drift that the rates are corrected for; None without
        correction.
    :param hours: start times of the runs of each corrected row in hours.
    :param outside: names of rows that are not corrected, because baseline
        runs do not precede and follow all of their runs.
    """

    rows: Mapping[str, Sequence[float]]
    base: Sequence[float]
    drift: Drift | None = None
    hours: Mapping[str, Sequence[float]] = field(default_factory=dict)
    outside: tuple[str, ...] = ()

    @property
    def dof_penalty(self) -> int:
        """Degrees of freedom that the correction uses."""
        return 1 if self.drift else 0

    @functools.cached_property
    def pooled(self) -> Pooled:
        """Variance pooled over all rows and the baseline."""
        return pool_variance(
            [*self.rows.values(), self.base], self.dof_penalty
        )

    def slope_variance(self, name: str, other: str | None = None) -> float:
        """Return the variance that the slope adds to a difference, in s^2.

        :param name: name of a row.
        :param other: name of the reference row; None uses the baseline.
        """
        if self.drift is None:
            return 0.0
        # All rates are corrected to the mean time of the baseline.
        centre = self.drift.hours
        return self.drift.slope_variance(
            self.hours.get(name, centre),
            self.hours.get(other, centre) if other else centre,
        )

    def compute_ratio(self, name: str, other: str | None = None) -> Percent:
        """Return the rates of a row in percent of another row.

        :param name: name of the row.
        :param other: name of the reference row; None uses the baseline.
        :raises hvstack.errors.InputError: a rate is not a positive number.
        """
        return compute_ratio(
            self.rows[name],
            self.rows[other] if other else self.base,
            self.pooled,
            self.slope_variance(name, other),
        )


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
    logs = _compute_logs(rates)
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


def choose(
    runs: Mapping[str, Sequence[float]],
    spread: Pooled,
    cost: Callable[[str], Any],
    eligible_names: Collection[str] | None = None,
    extra_variance: Callable[[str, str], float] = lambda _name, _other: 0.0,
) -> Choice | None:
    """Return the best configuration and the tied configurations.

    The scatter of bare metal has the same effect on all percentages, so this
    function compares the ratio of two configurations. Without an interval all
    configurations are tied.

    :param runs: rates of the valid runs of each configuration, corrected for
        a drift.
    :param spread: pooled variance of the sweep.
    :param cost: function that returns the cost of a configuration; the
        cheapest tied configuration is selected.
    :param eligible_names: names of the configurations that may be selected;
        None allows all.
    :param extra_variance: variance of a difference in addition to that of
        the means, as in :func:`compute_ratio`.
    :returns: None without any run.
    """
    rows = {
        name: rates
        for name, rates in runs.items()
        if rates and (eligible_names is None or name in eligible_names)
    }
    if not rows:
        return None
    best = max(rows, key=lambda name: _mean(_compute_logs(rows[name])))
    tied = [
        name
        for name, rates in rows.items()
        if name != best
        and not _is_slower(
            compute_ratio(
                rates, rows[best], spread, extra_variance(name, best)
            )
        )
    ]
    cheapest = min([best, *tied], key=cost)
    return Choice(best, tuple(tied), cheapest)


def choose_winner(
    corrected_rates: DriftCorrectedRates,
    cost: Callable[[str], Any],
    eligible_names: Collection[str],
) -> Choice | None:
    """Return the best configuration of a sweep for a report.

    Configurations whose printed intervals overlap that of the best are tied,
    too. This is stricter than :func:`choose`, because both intervals include
    the scatter of bare metal.

    :param corrected_rates: rates of the sweep.
    :param cost: function that returns the cost of a configuration; the
        cheapest tied configuration is selected.
    :param eligible_names: names of the configurations that may be selected.
    :returns: None without any run.
    """
    choice = choose(
        corrected_rates.rows,
        corrected_rates.pooled,
        cost,
        eligible_names,
        corrected_rates.slope_variance,
    )
    if choice is None or not corrected_rates.base:
        return choice
    best = corrected_rates.compute_ratio(choice.best)
    tied = [
        name
        for name, rates in corrected_rates.rows.items()
        if rates and name in eligible_names and name != choice.best
        and (
            name in choice.tied
            or _is_overlapping(corrected_rates.compute_ratio(name), best)
        )
    ]  # fmt: skip
    return Choice(
        choice.best, tuple(tied), min([choice.best, *tied], key=cost)
    )


def _is_overlapping(percent: Percent, other: Percent) -> bool:
    """Return whether two intervals overlap as printed."""
    if percent.low is None or percent.high is None:
        return True
    if other.low is None or other.high is None:
        return True
    return round(percent.low, 1) <= round(other.high, 1) and round(
        other.low, 1
    ) <= round(percent.high, 1)


def _is_slower(percent: Percent) -> bool:
    return percent.high is not None and percent.high < 100


def pool_variance(
    rows: Sequence[Sequence[float]], dof_penalty: int = 0
) -> Pooled:
    """Return the pooled variance of the logarithms of rates.

    :param rows: rates of the valid runs of each row.
    :param dof_penalty: degrees of freedom that a correction uses: 1 for a
        drift.
    """
    squares = 0.0
    degrees = 0
    for row in rows:
        logs = _compute_logs(row)
        if len(logs) < 2:
            continue
        mean = math.fsum(logs) / len(logs)
        squares += math.fsum((log - mean) ** 2 for log in logs)
        degrees += len(logs) - 1
    degrees -= dof_penalty
    if degrees < 1:
        return Pooled(None, 0)
    return Pooled(math.sqrt(squares / degrees), degrees)


def correct_drift(
    runs: Mapping[str, Sequence[float]],
    baseline: Sequence[float],
    drift: Drift | None = None,
    hours: Mapping[str, Sequence[float]] | None = None,
) -> DriftCorrectedRates:
    """Return rates that are corrected for the drift of the baseline.

    :param runs: rates of the valid runs of each configuration; the result
        does not contain configurations without rates.
    :param baseline: rates of the valid runs on bare metal.
    :param drift: drift of the baseline; None corrects nothing.
    :param hours: start times of the runs of each configuration in hours; None
        corrects nothing.
    """
    rows = {name: rates for name, rates in runs.items() if rates}
    if drift is None or not drift.applied or hours is None:
        return DriftCorrectedRates(rows, baseline)
    inside = {n: hours[n] for n in rows if drift.covers(hours[n])}
    outside = tuple(name for name in rows if name not in inside)
    if not inside:
        # Correcting the baseline alone would hide its scatter.
        return DriftCorrectedRates(rows, baseline, outside=outside)
    return DriftCorrectedRates(
        {
            name: drift.correct_rates(rates, inside[name])
            if name in inside
            else rates
            for name, rates in rows.items()
        },
        drift.correct_rates(baseline, drift.hours),
        drift,
        inside,
        outside,
    )


def compute_percents(
    runs: Mapping[str, Sequence[float]],
    baseline: Sequence[float],
    drift: Drift | None = None,
    hours: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, Percent]:
    """Return the percent of bare metal of every row.

    :param runs: as in :func:`correct_drift`, as all other parameters.
    :raises hvstack.errors.InputError: no baseline, or a rate is not a
        positive number.
    """
    if not baseline:
        raise errors.InputError(
            'no valid run on bare metal: run the baseline first'
        )
    corrected_rates = correct_drift(runs, baseline, drift, hours)
    return {
        # A performance run is a measured run without correction.
        name: replace(
            corrected_rates.compute_ratio(name),
            performance_ratio=compute_performance_ratio(runs[name], baseline),
        )
        for name in corrected_rates.rows
    }


def compute_ratio(
    rates: Sequence[float],
    base: Sequence[float],
    spread: Pooled,
    extra_variance: float = 0.0,
) -> Percent:
    """Return rates in percent of other rates, with the interval.

    :param rates: rates of one or more valid runs.
    :param base: rates of the reference runs.
    :param spread: variance pooled over all rows of the sweep.
    :param extra_variance: variance of the difference in addition to that of
        the two means, as a multiple of the pooled variance.
    :raises hvstack.errors.InputError: a rate is not a positive number.
    """
    log = _mean(_compute_logs(rates)) - _mean(_compute_logs(base))
    half = _compute_half_width(
        spread, 1 / len(rates) + 1 / len(base) + extra_variance
    )
    return Percent(
        percent=100 * math.exp(log),
        low=None if half is None else 100 * math.exp(log - half),
        high=None if half is None else 100 * math.exp(log + half),
        runs=len(rates),
        baseline_runs=len(base),
        half_width=half,
        degrees_of_freedom=spread.degrees_of_freedom,
        performance_ratio=compute_performance_ratio(rates, base),
        clusters=len(rates),
        baseline_clusters=len(base),
    )


def compute_bare_metal(
    runs: Mapping[str, Sequence[float]],
    baseline: Sequence[float],
    dof_penalty: int = 0,
) -> Percent:
    """Return the row of bare metal: 100 with the interval of its mean.

    :param runs: rates of the valid runs of each configuration.
    :param baseline: rates of the valid runs on bare metal.
    :param dof_penalty: degrees of freedom that a correction uses.
    :raises hvstack.errors.InputError: no baseline, or a rate is not a
        positive number.
    """
    if not baseline:
        raise errors.InputError(
            'no valid run on bare metal: run the baseline first'
        )
    spread = pool_variance([*runs.values(), baseline], dof_penalty)
    half = _compute_half_width(spread, 1 / len(baseline))
    return Percent(
        percent=100.0,
        low=None if half is None else 100 * math.exp(-half),
        high=None if half is None else 100 * math.exp(half),
        runs=len(baseline),
        baseline_runs=len(baseline),
        half_width=half,
        degrees_of_freedom=spread.degrees_of_freedom,
        performance_ratio=100.0,
        clusters=len(baseline),
        baseline_clusters=len(baseline),
    )


def is_without_difference(percent: Percent) -> bool:
    """Return whether the interval contains 100; False without an interval."""
    if percent.low is None or percent.high is None:
        return False
    return percent.low <= 100 <= percent.high


@functools.cache
def compute_t_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t.

    :param degrees: degrees of freedom, 1 or more.
    :param confidence: probability within plus and minus the quantile.
    """
    if degrees < 1 or not 0 < confidence < 1:
        raise ValueError(f'no t quantile for {degrees}, {confidence}')
    low, high = 0.0, 1.0
    while _compute_t_probability(high, degrees) < confidence:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if _compute_t_probability(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return high


def _compute_t_probability(t: float, degrees: int) -> float:
    """Return the probability that Student's t is between -t and t.

    The finite sums are those of Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(degrees))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = degrees % 2
    if degrees == 1:
        return 2 * angle / math.pi
    term = math.cos(angle) if odd else 1.0
    total = term
    for n in range(1 + odd, degrees - 2, 2):
        term *= square * n / (n + 1)
        total += term
    if odd:
        return 2 / math.pi * (angle + sine * total)
    return sine * total


def _compute_half_width(spread: Pooled, variance: float) -> float | None:
    if spread.deviation is None:
        return None
    quantile = compute_t_quantile(spread.degrees_of_freedom)
    return quantile * spread.deviation * math.sqrt(variance)


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
        rate * math.comb(count - 1 - index, size - 1) / math.comb(count, size)
        for index, rate in enumerate(ordered)
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _sum_squares(values: Sequence[float]) -> float:
    """Return the sum of squared distances from the mean."""
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values)


def _compute_logs(rates: Sequence[float]) -> list[float]:
    for rate in rates:
        if not rate > 0 or not math.isfinite(rate):
            raise errors.InputError(
                f'a rate is {rate}: only valid runs have one that counts'
            )
    return [math.log(rate) for rate in rates]
