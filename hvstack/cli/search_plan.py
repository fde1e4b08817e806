# SPDX-License-Identifier: Apache-2.0
"""Forecast of a search in ``hvstack sweep plan``."""

from collections.abc import Sequence
from typing import TypedDict

from hvstack.nouns import format_noun
from hvstack.sweep.search_forecast import LOSSES, SearchForecast


class PlannedLoss(TypedDict):
    """Runs and hours after which the expected loss is at most a value."""

    expected_loss_percent: float
    runs: list[int]
    hours: list[float] | None


class SearchPlan(TypedDict):
    """Forecast of a search; numbers of runs are low, middle and high."""

    expected_loss_percent: float
    runs: list[int]
    confirmation_runs: int
    losses: list[PlannedLoss]


def describe(search: SearchForecast, seconds: float | None) -> SearchPlan:
    """Return how many runs and hours a search needs.

    :param search: simulated searches.
    :param seconds: seconds of a run with its new cluster; None if no run is
        known.
    """

    def convert(counts: Sequence[int]) -> list[float] | None:
        if seconds is None:
            return None
        return [count * seconds / 3600 for count in counts]

    return {
        'expected_loss_percent': round(100 * search.expected_loss, 2),
        'runs': list(search.clusters),
        'confirmation_runs': search.confirmation_runs,
        'losses': [
            {
                'expected_loss_percent': 100 * loss,
                'runs': list(counts),
                'hours': convert(counts),
            }
            for loss in LOSSES
            if (counts := search.count_clusters(loss)) is not None
        ],
    }


def format_forecast(search: SearchPlan) -> list[str]:
    """Return the forecast of a search for a terminal."""
    lines = []
    for loss in search['losses']:
        low, middle, high = loss['runs']
        hours = loss['hours']
        time = '' if hours is None else f', {hours[1]:.1f} hours'
        lines.append(
            f'expected loss of at most {loss["expected_loss_percent"]:g} %: '
            f'after about {format_noun(middle, "run")} ({low} to {high}){time}'
        )
    lines.append(
        f'the search ends after about {search["runs"][1]} runs with an '
        f'expected loss of {search["expected_loss_percent"]:.1f} %, and '
        f'{search["confirmation_runs"]} runs confirm its answer'
    )
    return lines
