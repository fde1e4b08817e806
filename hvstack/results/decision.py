# SPDX-License-Identifier: Apache-2.0
"""Answer of the search of a sweep, apart from the percentages."""

from dataclasses import dataclass

from hvstack.model.configuration import parse
from hvstack.nouns import format_noun


@dataclass(frozen=True)
class SearchDecision:
    """Answer of a search.

    The confirmation measures the winner and the runner-up again, and its runs
    alone give the percentages.

    :param winner: full name of the selected configuration.
    :param runner_up: full name of the next best one; empty without any.
    :param expected_loss: expected loss of the winner against the best
        configuration, as a share of the rate.
    :param clusters: number of clusters of the search so far.
    :param is_finished: whether the search is finished.
    """

    winner: str
    runner_up: str
    expected_loss: float
    clusters: int
    is_finished: bool

    def format_answer(self) -> str:
        """Return the answer as sentences."""
        label = parse(self.winner).label
        clusters = format_noun(self.clusters, 'cluster')
        text = (
            f'The search selects {label} after {clusters}: '
            if self.is_finished
            else f'The search is not finished. After {clusters} '
            f'its answer is {label}: '
        )
        return (
            f'{text}about {100 * self.expected_loss:.1f} % is lost by this '
            'choice, in expectation.'
        )
