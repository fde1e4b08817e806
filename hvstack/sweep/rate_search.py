# SPDX-License-Identifier: Apache-2.0
"""Search for the best configuration with a model of the rates.

The next run and the decision are functions of the runs so far, of the search
space and of the seed, so that they are the same after a crash.
"""

import functools
import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from hvstack.model.configuration import Configuration
from hvstack.results.estimator import ClusterRate, Scatter
from hvstack.sweep.effects import SAMPLES, Effects
from hvstack.sweep.rate_model import (
    HYPOTHESES,
    Hypothesis,
    RateModel,
    SearchRun,
)

#: Expected loss, as a share of the rate, at which the search ends, and up to
#: which a cheaper configuration is selected.
MAX_LOSS = 0.01
#: Maximum number of runs from one run of the leader to the next.
LEADER_RUNS = 5
#: Number of configurations that are measured twice at the start of a search
#: without earlier sweeps. The scatter is not known then, and only a second run
#: shows it apart from the interactions of parameters.
REPEATED = 10
#: Maximum number of runs of a search without a budget.
MAX_RUNS = 200
#: Hours in which the pace of a machine changes, and the part of this time
#: that lies between two runs at most: the runs of large data take hours, and a
#: sweep that was interrupted continues much later.
WANDER_HOURS, MAX_STEP = 1.0, 0.1


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search.

    :param seed: seed of the random numbers, the sweep ID.
    :param scatter: scatter of earlier sweeps of the same workload.
    :param max_runs: maximum number of clusters.
    :param samples: number of samples of the rates.
    :param hypotheses: possible scales of effects and scatters.
    """

    seed: str = ''
    scatter: Scatter = field(default_factory=Scatter)
    max_runs: int = MAX_RUNS
    samples: int = SAMPLES
    hypotheses: tuple[Hypothesis, ...] = HYPOTHESES


@dataclass(frozen=True)
class SearchStatus:
    """Status of a search.

    :param leader: configuration with the smallest expected loss.
    :param winner: configuration that is selected.
    :param runner_up: best of the other configurations; None without any.
    :param expected_loss: expected loss of the winner against the best
        configuration, as a share of the rate.
    :param runs: number of clusters so far.
    :param next_configuration: configuration to measure next; None if the
        search is finished.
    """

    leader: Configuration
    winner: Configuration
    runner_up: Configuration | None
    expected_loss: float
    runs: int
    next_configuration: Configuration | None = None

    @property
    def confirmed_configurations(self) -> list[Configuration]:
        """Configurations that the confirmation measures again."""
        return [item for item in (self.winner, self.runner_up) if item]


#: Clusters, excluded configurations, and whether the search was ended before.
_StatusKey = tuple[tuple[ClusterRate, ...], frozenset[Configuration], bool]


class RateSearch:
    """Search in a space of configurations.

    :param configurations: configurations of the search space.
    :param settings: settings of the search.
    """

    def __init__(
        self, configurations: Sequence[Configuration], settings: SearchSettings
    ) -> None:
        self.settings = settings
        self._configurations = configurations
        self._rows = {
            item.name: row for row, item in enumerate(configurations)
        }
        self._order = sorted(range(len(configurations)), key=self._hash)
        self._effects = Effects(
            configurations, settings.seed, settings.samples
        )
        self._model = self._create_model()
        self._clusters: list[ClusterRate] = []
        self._times: list[float] = []
        self._last: tuple[_StatusKey, SearchStatus | None] | None = None

    def _hash(self, row: int) -> bytes:
        text = f'{self.settings.seed}:{self._configurations[row].name}'
        return hashlib.sha256(text.encode()).digest()

    def _create_model(self) -> RateModel:
        return RateModel(
            self._effects, self.settings.scatter, self.settings.hypotheses
        )

    def get_status(
        self,
        clusters: Sequence[ClusterRate],
        excluded: Collection[Configuration] = (),
        *,
        is_finished: bool = False,
    ) -> SearchStatus | None:
        """Return the status of the search; None without any configuration.

        :param clusters: clusters so far, in order of time.
        :param excluded: configurations with a run that failed for good.
        :param is_finished: whether the search was ended before.
        """
        key = tuple(clusters), frozenset(excluded), is_finished
        if self._last is None or self._last[0] != key:
            self._last = key, self._compute_status(*key)
        return self._last[1]

    def _compute_status(
        self,
        clusters: Sequence[ClusterRate],
        excluded: Collection[Configuration],
        is_finished: bool,
    ) -> SearchStatus | None:
        rows = [
            row
            for row in self._order
            if self._configurations[row] not in excluded
        ]
        if not rows:
            return None
        self._update_model(clusters)
        losses = self._model.compute_losses(rows)
        leader = min(rows, key=losses.__getitem__)
        limit = max(MAX_LOSS, losses[leader])
        winner = min(
            (row for row in rows if losses[row] <= limit),
            key=lambda row: (self._configurations[row].cost, losses[row]),
        )
        next_row = None
        if not is_finished and not self._is_finished(losses[leader]):
            next_row = self._select_next(leader, rows)
        return SearchStatus(
            self._configurations[leader],
            self._configurations[winner],
            self._get(
                min(
                    (row for row in rows if row != winner),
                    key=losses.__getitem__,
                    default=None,
                )
            ),
            losses[winner],
            len(clusters),
            self._get(next_row),
        )

    def draw_rates(self, clusters: Sequence[ClusterRate]) -> list[float]:
        """Return a sample of the log rates of all configurations.

        :param clusters: clusters so far, in order of time.
        """
        self._update_model(clusters)
        return self._model.draw_rates()

    def _get(self, row: int | None) -> Configuration | None:
        return None if row is None else self._configurations[row]

    def _update_model(self, clusters: Sequence[ClusterRate]) -> None:
        count = len(self._clusters)
        if list(clusters[:count]) != self._clusters:
            self._model, self._times, count = self._create_model(), [], 0
        for index in range(count, len(clusters)):
            cluster = clusters[index]
            step = 0.0
            if index:
                hours = cluster.hour - clusters[index - 1].hour
                step = min(max(0.0, hours / WANDER_HOURS), MAX_STEP)
            self._times.append(step + (self._times[-1] if index else 0.0))
            self._model.add(
                SearchRun(
                    self._rows[cluster.row],
                    cluster.log_rate,
                    self._times[-1],
                )
            )
        self._clusters = list(clusters)

    def _is_finished(self, loss: float) -> bool:
        runs = len(self._clusters)
        return loss <= MAX_LOSS or runs >= self.settings.max_runs

    def _select_repeated(self, rows: Collection[int]) -> int | None:
        """Return a row to measure again so that the scatter is known.

        Every second run is one, until there are enough of them, or half of
        the budget is used up.

        :returns: None if no run has to be repeated.
        """
        count = len(self._clusters)
        limit = min(2 * REPEATED, self.settings.max_runs // 2)
        if self.settings.scatter.degrees or count % 2 == 0 or count >= limit:
            return None
        counts = Counter(self._rows[item.row] for item in self._clusters)
        once = [row for row in rows if counts[row] == 1]
        return self._model.select_best(once) if once else None

    def _select_next(self, leader: int, rows: Collection[int]) -> int:
        repeated = self._select_repeated(rows)
        if repeated is not None:
            return repeated
        recent = [
            self._rows[cluster.row]
            for cluster in self._clusters[1 - LEADER_RUNS :]
        ]
        if len(recent) == LEADER_RUNS - 1 and leader not in recent:
            return leader
        time = sum(self._times[-1:])
        if len(self._times) > 1:
            time += time / (len(self._times) - 1)
        return self._model.select_next(leader, rows, time)


@functools.lru_cache(maxsize=4)
def create_search(
    configurations: tuple[Configuration, ...], settings: SearchSettings
) -> RateSearch:
    """Return a search, which keeps the model of the runs of the last call.

    :param configurations: configurations of the search space.
    :param settings: settings of the search.
    """
    return RateSearch(configurations, settings)
