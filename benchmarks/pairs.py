# SPDX-License-Identifier: Apache-2.0
"""Ratio of two kinds of measurements that were made in pairs."""

import math
import statistics
from collections.abc import Sequence

from hvstack.results.quantiles import compute_t_quantile


def describe(
    pairs: Sequence[tuple[float, float]],
    names: tuple[str, str],
    digits: int = 1,
) -> str:
    """Return the medians, and the mean ratio with its 95 % t interval.

    :param pairs: values of the first and of the second kind.
    :param names: names of the kinds.
    :param digits: digits of the medians after the point.
    """
    logs = [math.log(new / old) for new, old in pairs]
    mean = statistics.mean(logs)
    half = compute_t_quantile(len(logs) - 1) * statistics.stdev(logs)
    half /= math.sqrt(len(logs))
    low, middle, high = (
        100 * math.exp(value) for value in (mean - half, mean, mean + half)
    )
    medians = ', '.join(
        f'{statistics.median(values):.{digits}f} {name}'
        for name, values in zip(names, zip(*pairs, strict=True), strict=True)
    )
    return f'{medians}: {middle:.0f} % ({low:.0f} to {high:.0f})'
