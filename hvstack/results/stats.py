# SPDX-License-Identifier: Apache-2.0
"""Percent of bare metal, with an interval that a few runs can carry.

Rates multiply, so everything is computed with their logarithms. Two runs
of one configuration alone have a single degree of freedom; the variance is
therefore pooled over all rows, bare metal included, which assumes that runs
scatter by the same factor everywhere.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from hvstack import errors

#: Probability that the interval covers the true ratio.
CONFIDENCE = 0.95


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


def pooled(rows: Sequence[Sequence[float]]) -> Pooled:
    """Return the standard deviation of log rates pooled over rows.

    :param rows: rates of each row's valid runs.
    """
    squares = 0.0
    degrees = 0
    for row in rows:
        logs = _logs(row)
        if len(logs) < 2:
            continue
        mean = math.fsum(logs) / len(logs)
        squares += math.fsum((log - mean) ** 2 for log in logs)
        degrees += len(logs) - 1
    if not degrees:
        return Pooled(None, 0)
    return Pooled(math.sqrt(squares / degrees), degrees)


def percent_of_bare_metal(
    runs: Mapping[str, Sequence[float]], baseline: Sequence[float]
) -> dict[str, Percent]:
    """Return every row's percent of bare metal.

    :param runs: rates of each configuration's valid runs; a row without
        any is left out.
    :param baseline: rates of the valid runs on bare metal.
    :raises hvstack.errors.InputError: no baseline, or a rate that is none.
    """
    if not baseline:
        raise errors.InputError(
            'no valid run on bare metal: run the baseline first'
        )
    spread = pooled([*runs.values(), baseline])
    return {
        name: ratio(rates, baseline, spread)
        for name, rates in runs.items()
        if rates
    }


def ratio(
    rates: Sequence[float], base: Sequence[float], spread: Pooled
) -> Percent:
    """Return rates in percent of others, with the interval.

    :param rates: of one or more valid runs.
    :param base: of the runs that count as 100.
    :param spread: variance pooled over all rows of the sweep.
    :raises hvstack.errors.InputError: a rate that is none.
    """
    log = _mean(_logs(rates)) - _mean(_logs(base))
    half = _half_width(spread, 1 / len(rates) + 1 / len(base))
    return Percent(
        percent=100 * math.exp(log),
        low=None if half is None else 100 * math.exp(log - half),
        high=None if half is None else 100 * math.exp(log + half),
        runs=len(rates),
        baseline_runs=len(base),
        half_width=half,
        degrees_of_freedom=spread.degrees_of_freedom,
        performance_ratio=_performance_ratio(rates, base),
    )


def bare_metal(
    runs: Mapping[str, Sequence[float]], baseline: Sequence[float]
) -> Percent:
    """Return bare metal's own row: 100, and how well that is known.

    Its interval is that of its own mean; the other rows' already hold it.

    :raises hvstack.errors.InputError: no baseline, or a rate that is none.
    """
    if not baseline:
        raise errors.InputError(
            'no valid run on bare metal: run the baseline first'
        )
    spread = pooled([*runs.values(), baseline])
    half = _half_width(spread, 1 / len(baseline))
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


def no_difference(percent: Percent) -> bool:
    """Tell whether the interval holds 100: bare metal cannot be told apart.

    Without an interval nothing can be said, and the answer is False.
    """
    if percent.low is None or percent.high is None:
        return False
    return percent.low <= 100 <= percent.high


@cache
def t_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return Student's two-sided t quantile.

    :param degrees: degrees of freedom, 1 or more.
    :param confidence: probability within plus and minus the quantile.
    """
    if degrees < 1 or not 0 < confidence < 1:
        raise ValueError(f'no t quantile for {degrees}, {confidence}')
    low, high = 0.0, 1.0
    while _within(high, degrees) < confidence:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if _within(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return high


def _within(t: float, degrees: int) -> float:
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


def _half_width(spread: Pooled, variance: float) -> float | None:
    if spread.deviation is None:
        return None
    quantile = t_quantile(spread.degrees_of_freedom)
    return quantile * spread.deviation * math.sqrt(variance)


def _performance_ratio(
    rates: Sequence[float], baseline: Sequence[float]
) -> float:
    """Return 100 x performance run / performance run on bare metal.

    TPC's performance run is the slower of a pair. The slowest of many runs
    is slower than that of a pair, so the side with more runs is averaged
    over all its groups of as many runs as the other side has.
    """
    size = min(len(rates), len(baseline))
    return 100 * _slowest(rates, size) / _slowest(baseline, size)


def _slowest(rates: Sequence[float], size: int) -> float:
    """Return the expected slowest of ``size`` runs drawn from these.

    With the rates in rising order, the i-th is the slowest of as many
    groups as can be made of those above it.
    """
    ordered = sorted(rates)
    count = len(ordered)
    return math.fsum(
        rate * math.comb(count - 1 - place, size - 1) / math.comb(count, size)
        for place, rate in enumerate(ordered)
    )


def _mean(logs: Sequence[float]) -> float:
    return math.fsum(logs) / len(logs)


def _logs(rates: Sequence[float]) -> list[float]:
    for rate in rates:
        if not rate > 0 or not math.isfinite(rate):
            raise errors.InputError(
                f'a rate is {rate}: only valid runs have one that counts'
            )
    return [math.log(rate) for rate in rates]
