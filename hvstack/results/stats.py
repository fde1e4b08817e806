# SPDX-License-Identifier: Apache-2.0
"""Percent of bare metal, with an interval that a few runs can carry.

Rates multiply, so everything is computed with their logarithms. Two runs
of one configuration alone have a single degree of freedom; the variance is
therefore pooled over all rows, bare metal included, which assumes that runs
scatter by the same factor everywhere.

Formulas, with logarithms of rates: the difference of two rows' means has the
variance s^2 (1/n + 1/m), with s^2 pooled over the rows and the quantile of
Student's t with its degrees of freedom (Montgomery, "Design and Analysis of
Experiments", two-sample t procedures and one-way analysis of variance). A
drift is the least-squares line through the baseline runs over time, and is
taken out of runs between the first and the last of them; there the
difference also has s^2 (u - v)^2 / Sxx of the slope, with u and v the rows'
mean times (same book, simple linear regression).
"""

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hvstack import errors

#: Probability that the interval covers the true ratio.
CONFIDENCE = 0.95
#: Baseline runs without which no drift is computed: a line through three
#: points has one degree of freedom.
DRIFT_RUNS = 4


@dataclass(frozen=True)
class Percent:
    """A configuration's percent of bare metal.

    :param percent: 100 x ratio of the geometric means; over 100 is faster.
    :param low: lower bound of the 95 % interval; None without one.
    :param high: upper bound.
    :param runs: valid runs of the configuration.
    :param baseline_runs: valid runs on bare metal.
    :param half_width: of the interval of the ratio's logarithm.
    :param degrees_of_freedom: of the pooled variance.
    :param performance_ratio: 100 x slower run / slower run on bare metal.
    """

    percent: float
    low: float | None
    high: float | None
    runs: int
    baseline_runs: int
    half_width: float | None
    degrees_of_freedom: int
    performance_ratio: float


@dataclass(frozen=True)
class Pooled:
    """Variance of log rates within rows.

    :param deviation: its root; None without any degree of freedom.
    :param degrees_of_freedom: sum of (runs - 1).
    """

    deviation: float | None
    degrees_of_freedom: int


@dataclass(frozen=True)
class Drift:
    """How bare metal's log rate changed over the sweep.

    :param slope: of the log rate, an hour.
    :param half_width: of the slope's 95 % interval.
    :param hours: when the baseline runs were, from any start.
    """

    slope: float
    half_width: float
    hours: tuple[float, ...]

    @property
    def applied(self) -> bool:
        """Whether rates are corrected: the interval excludes no drift."""
        return abs(self.slope) > max(self.half_width, 1e-9)

    @property
    def percent_an_hour(self) -> tuple[float, float, float]:
        """Change of the rate an hour, and the bounds of its interval."""
        low, high = self.slope - self.half_width, self.slope + self.half_width
        return (
            100 * math.expm1(self.slope),
            100 * math.expm1(low),
            100 * math.expm1(high),
        )

    def correct_rates(
        self, rates: Sequence[float], hours: Sequence[float]
    ) -> list[float]:
        """Return rates as they would be at the baseline's mean time.

        :param hours: when these runs were.
        """
        centre = _mean(self.hours)
        return [
            rate * math.exp(-self.slope * (hour - centre))
            for rate, hour in zip(rates, hours, strict=True)
        ]

    def covers(self, hours: Sequence[float]) -> bool:
        """Whether baseline runs were before and after all of these.

        Elsewhere the line would have to be extended, over any time.
        """
        return min(self.hours) <= min(hours) and max(hours) <= max(self.hours)

    def slope_variance(
        self, row_hours: Sequence[float], other: Sequence[float]
    ) -> float:
        """Return what the slope's error adds to a difference, in s^2.

        :param row_hours: hours of a row's runs.
        :param other: hours of the row that it is compared with.
        """
        return (_mean(row_hours) - _mean(other)) ** 2 / _sum_squares(
            self.hours
        )


@dataclass(frozen=True)
class DriftCorrectedRates:
    """Rates of a sweep with bare metal's drift taken out where it can be.

    :param rows: rates of each configuration's valid runs.
    :param base: rates of the baseline runs.
    :param drift: what was taken out; None if nothing was.
    :param hours: when the runs of each row were that it was taken out of.
    :param outside: rows that it was not taken out of, since baseline runs do
        not surround theirs.
    """

    rows: Mapping[str, Sequence[float]]
    base: Sequence[float]
    drift: Drift | None = None
    hours: Mapping[str, Sequence[float]] = field(default_factory=dict)
    outside: tuple[str, ...] = ()

    @property
    def dof_penalty(self) -> int:
        """Degrees of freedom that the correction took."""
        return 1 if self.drift else 0

    @functools.cached_property
    def pooled(self) -> Pooled:
        """The variance pooled over all rows and the baseline."""
        return pool_variance(
            [*self.rows.values(), self.base], self.dof_penalty
        )

    def slope_variance(self, name: str, other: str | None = None) -> float:
        """Return what the slope's error adds to a difference, in s^2.

        :param other: a row; the baseline if not given.
        """
        if self.drift is None:
            return 0.0
        # All are corrected to the baseline's mean time.
        centre = self.drift.hours
        return self.drift.slope_variance(
            self.hours.get(name, centre),
            self.hours.get(other, centre) if other else centre,
        )

    def compute_ratio(self, name: str, other: str | None = None) -> Percent:
        """Return a row's rates in percent of another's, or of bare metal's.

        :raises hvstack.errors.InputError: a rate that is none.
        """
        return compute_ratio(
            self.rows[name],
            self.rows[other] if other else self.base,
            self.pooled,
            self.slope_variance(name, other),
        )


@dataclass(frozen=True)
class Choice:
    """Which configuration is best, as far as that can be told.

    :param best: with the highest geometric mean.
    :param tied: those that cannot be told apart from it.
    :param taken: the cheapest of the best and of those tied with it.
    """

    best: str
    tied: tuple[str, ...]
    taken: str

    @property
    def winner(self) -> str | None:
        """The best one, if nothing is tied with it."""
        return None if self.tied else self.best


def fit_drift(hours: Sequence[float], rates: Sequence[float]) -> Drift | None:
    """Return the drift of the baseline, or None with too few runs.

    :param hours: when each run was, from any start.
    :param rates: of the valid runs on bare metal.
    :raises hvstack.errors.InputError: a rate that is none.
    """
    logs = _compute_logs(rates)
    if len(logs) < DRIFT_RUNS or not _sum_squares(hours):
        return None
    hour, log = _mean(hours), _mean(logs)
    slope = math.fsum(
        (x - hour) * (y - log) for x, y in zip(hours, logs, strict=True)
    ) / _sum_squares(hours)
    rest = math.fsum(
        (y - log - slope * (x - hour)) ** 2
        for x, y in zip(hours, logs, strict=True)
    )
    degrees = len(logs) - 2
    error = math.sqrt(rest / degrees / _sum_squares(hours))
    return Drift(slope, compute_t_quantile(degrees) * error, tuple(hours))


def choose(
    runs: Mapping[str, Sequence[float]],
    spread: Pooled,
    cost: Callable[[str], Any],
    eligible_names: Collection[str] | None = None,
    more: Callable[[str, str], float] = lambda _name, _other: 0.0,
) -> Choice | None:
    """Return the best configuration and what is tied with it.

    Bare metal's own scatter is in every percentage alike and cancels when
    two configurations are compared, so their ratio is looked at. Without
    any interval everything is tied.

    :param runs: rates of each configuration's valid runs, corrected for a
        drift where there is one.
    :param spread: the pooled variance of the sweep.
    :param cost: of a configuration; the lowest is taken of those tied.
    :param eligible_names: which may be taken; all of them if not given.
    :param more: variance of a difference in addition to that of the means, as
        in :func:`compute_ratio`.
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
            compute_ratio(rates, rows[best], spread, more(name, best))
        )
    ]
    cheapest = min([best, *tied], key=cost)
    return Choice(best, tuple(tied), cheapest)


def choose_winner(
    corrected_rates: DriftCorrectedRates,
    cost: Callable[[str], Any],
    eligible_names: Collection[str],
) -> Choice | None:
    """Return the best configuration of a sweep, for a report to name.

    Tied with it is also what has a percentage whose interval, as printed,
    overlaps its own. That is stricter than :func:`choose`: bare metal's
    scatter is in both intervals, though it is the same.

    :param cost: of a configuration; the lowest is taken of those tied.
    :param eligible_names: which may be taken: not those that failed for good.
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
    """Tell whether two intervals overlap as they are printed."""
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
    """Return the standard deviation of log rates pooled over rows.

    :param rows: rates of each row's valid runs.
    :param dof_penalty: degrees of freedom that a correction took: 1 for a
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
    """Return rates with the baseline's drift taken out where it can be.

    :param runs: rates of each configuration's valid runs; a row without
        any is left out.
    :param baseline: rates of the valid runs on bare metal.
    :param drift: of the baseline; used where it is to be applied.
    :param hours: when each run of each configuration was.
    """
    rows = {name: rates for name, rates in runs.items() if rates}
    if drift is None or not drift.applied or hours is None:
        return DriftCorrectedRates(rows, baseline)
    inside = {n: hours[n] for n in rows if drift.covers(hours[n])}
    outside = tuple(name for name in rows if name not in inside)
    if not inside:
        # Nor may the baseline's own scatter lose what the others keep.
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
    """Return every row's percent of bare metal.

    :param runs: as in :func:`correct_drift`, as are the others.
    :raises hvstack.errors.InputError: no baseline, or a rate that is none.
    """
    if not baseline:
        raise errors.InputError(
            'no valid run on bare metal: run the baseline first'
        )
    corrected_rates = correct_drift(runs, baseline, drift, hours)
    return {
        # TPC's performance run is one that was measured, not a corrected one.
        name: replace(
            corrected_rates.compute_ratio(name),
            performance_ratio=_compute_performance_ratio(runs[name], baseline),
        )
        for name in corrected_rates.rows
    }


def compute_ratio(
    rates: Sequence[float],
    base: Sequence[float],
    spread: Pooled,
    more: float = 0.0,
) -> Percent:
    """Return rates in percent of others, with the interval.

    :param rates: of one or more valid runs.
    :param base: of the runs that count as 100.
    :param spread: variance pooled over all rows of the sweep.
    :param more: variance of the difference beside that of the two means, as
        a multiple of the pooled one.
    :raises hvstack.errors.InputError: a rate that is none.
    """
    log = _mean(_compute_logs(rates)) - _mean(_compute_logs(base))
    half = _compute_half_width(spread, 1 / len(rates) + 1 / len(base) + more)
    return Percent(
        percent=100 * math.exp(log),
        low=None if half is None else 100 * math.exp(log - half),
        high=None if half is None else 100 * math.exp(log + half),
        runs=len(rates),
        baseline_runs=len(base),
        half_width=half,
        degrees_of_freedom=spread.degrees_of_freedom,
        performance_ratio=_compute_performance_ratio(rates, base),
    )


def compute_bare_metal(
    runs: Mapping[str, Sequence[float]],
    baseline: Sequence[float],
    dof_penalty: int = 0,
) -> Percent:
    """Return bare metal's own row: 100, and how well that is known.

    Its interval is that of its own mean; the other rows' already hold it.

    :param dof_penalty: degrees of freedom that a correction took.
    :raises hvstack.errors.InputError: no baseline, or a rate that is none.
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
    )


def is_without_difference(percent: Percent) -> bool:
    """Tell whether the interval holds 100: bare metal cannot be told apart.

    Without an interval nothing can be said, and the answer is False.
    """
    if percent.low is None or percent.high is None:
        return False
    return percent.low <= 100 <= percent.high


@functools.cache
def compute_t_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return Student's two-sided t quantile.

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
    """Return Student's probability of being within -t and t.

    Abramowitz and Stegun, 26.7.3 and 26.7.4: finite sums in the angle.
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


def _compute_performance_ratio(
    rates: Sequence[float], baseline: Sequence[float]
) -> float:
    """Return 100 x performance run / performance run on bare metal.

    TPC's performance run is the slower of a pair. The slowest of many runs
    is slower than that of a pair, so the side with more runs is averaged
    over all its groups of as many runs as the other side has.
    """
    size = min(len(rates), len(baseline))
    return (
        100
        * _compute_expected_slowest(rates, size)
        / _compute_expected_slowest(baseline, size)
    )


def _compute_expected_slowest(rates: Sequence[float], size: int) -> float:
    """Return the expected slowest of ``size`` runs drawn from these.

    With the rates in rising order, the i-th is the slowest of as many
    groups as can be made of those above it.
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
