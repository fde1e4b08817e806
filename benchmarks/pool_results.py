# SPDX-License-Identifier: Apache-2.0
"""Output of pool.py about its trials."""

import math
import os
from collections.abc import Sequence

from resampling import (
    MIN_EFFECT,
    STOP_SHARE,
    EffectBounds,
    bound_effect,
    compare,
    pair_neighbors,
    resample,
    resample_until,
    summarize,
)

from hvstack.results.estimator import ClusterRate
from hvstack.results.record_data import RunRecord


def print_bounds(
    records: Sequence[RunRecord], percent: float
) -> EffectBounds | None:
    """Print how large the effect of smaller caps must be.

    :param records: runs with the usual caps; without any, nothing is known.
    :param percent: caps of side B in percent of those of side A.
    """
    if not records:
        print('effect of the smaller caps: not known before a run of A')
        return None
    bounds = bound_effect(records, percent, os.cpu_count() or 1)
    low, high = bounds.rates
    print(
        f'The CPU caps of the workers bind in {bounds.min_share:.0%} to '
        f'{bounds.max_share:.0%} of a run of A ({len(records)} runs): with '
        f'{percent:g} % of the caps, B must have {low:.1f} to {high:.1f} % of '
        'the rate of A'
    )
    if bounds.effect < MIN_EFFECT:
        print(
            f'This effect may be less than {MIN_EFFECT:g} points: use '
            f'--percent {bounds.choose_percent()} or more data'
        )
    return bounds


def format_goal(text: str, is_met: bool) -> str:
    """Return a line about a goal."""
    return f'goal {"met" if is_met else "MISSED"}: {text}'


def print_same(side_a: Sequence[ClusterRate], size: int) -> None:
    """Print what resampled trials of A against A say.

    :param size: number of clusters of each side of a trial.
    """
    same = summarize(resample(side_a, size))
    print(
        f'A against A, {size} clusters a side: {same.contain:.1%} of the '
        'intervals contain 100 % (95 % promised), median half width '
        f'{same.half_width:.1f} points'
    )
    print(
        format_goal('93 to 97 % contain 100 %', 0.93 <= same.contain <= 0.97)
    )
    print(format_goal('5 points or less', same.half_width <= 5))


def print_different(
    side_a: Sequence[ClusterRate],
    side_b: Sequence[ClusterRate],
    bounds: EffectBounds,
) -> None:
    """Print what resampled trials of A against B say."""
    percents = resample_until(side_a, side_b, bounds.half_width)
    other = summarize(percents)
    narrow, agree = (
        sum(map(is_true, percents)) / len(percents)
        for is_true in (
            lambda item: (item.margin or math.inf) <= bounds.half_width,
            bounds.contains,
        )
    )
    print(
        f'A against B, to a half width of {bounds.half_width:.1f} points, '
        f'{STOP_SHARE:.0%} of the effect: reached by {narrow:.1%} of the '
        f'trials, with {other.clusters:g} clusters a side in the median; '
        f'{1 - other.contain:.1%} tell them apart ({other.slower:.1%} slower, '
        f'{other.faster:.1%} faster), median {other.percent:.1f} %; the '
        f'intervals of {agree:.1%} overlap the promised rate'
    )
    whole = compare(pair_neighbors(side_a, side_b))
    print(
        f'the whole pool: {whole.percent:.1f} % '
        f'({whole.low or math.nan:.1f} to {whole.high or math.nan:.1f})'
    )
    print(
        format_goal(
            f'an effect of {MIN_EFFECT:g} points or more',
            bounds.effect >= MIN_EFFECT,
        )
    )
    print(format_goal('each trial finds that B is slower', other.slower == 1))
    print(
        format_goal(
            'the interval of the whole pool overlaps the promised rate',
            bounds.contains(whole),
        )
    )
