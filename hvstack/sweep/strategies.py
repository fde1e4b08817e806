# SPDX-License-Identifier: Apache-2.0
"""Strategies, which select the next configurations of a sweep.

The runs so far are the only state of a strategy. The same runs always lead to
the same next step, also in another process and after a crash.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.model.target import BareMetal, Target
from hvstack.results import percentages, stats
from hvstack.results.estimator import ClusterRate
from hvstack.sweep.rate_search import (
    RateSearch,
    SearchSettings,
    SearchStatus,
    create_search,
)
from hvstack.sweep.run_order import count_baselines
from hvstack.sweep.search_space import Space, format_value


@dataclass(frozen=True)
class RunRequest:
    """Request of a strategy for further runs of a configuration.

    :param configuration: configuration to measure.
    :param runs: number of further runs.
    """

    configuration: Configuration
    runs: int


@dataclass(frozen=True)
class MeasuredRates:
    """The runs so far.

    :param rates: rates of the valid runs, in order, by configuration and for
        bare metal.
    :param excluded: configurations with a run that failed for good.
    :param failed_baselines: number of runs on bare metal that failed for good;
        the sweep continues.
    :param search: clusters of the search of the strategy ``model-based``, in
        order of time. The other fields are those of the confirmation.
    """

    rates: Mapping[Target, Sequence[float]]
    excluded: frozenset[Configuration] = frozenset()
    failed_baselines: int = 0
    search: Sequence[ClusterRate] = ()

    def get_rates(self, target: Target) -> Sequence[float]:
        """Return the rates of a configuration or of bare metal."""
        return self.rates.get(target, ())


class Strategy(ABC):
    """Algorithm that selects the configurations of a sweep.

    :param space: search space with its possible configurations.
    :param runs: number of runs of each measured configuration.
    :param settings: settings of the search of ``model-based``; None uses the
        defaults.
    :raises hvstack.errors.InputError: the number of runs is less than 1.
    """

    #: Name of the strategy on the command line.
    name = ''
    #: Default number of runs.
    DEFAULT_RUNS = 2

    def __init__(
        self,
        space: Space,
        runs: int,
        settings: SearchSettings | None = None,
    ) -> None:
        if runs < 1:
            raise errors.InputError(
                f'Cannot use a strategy with {runs} runs. Use 1 or more.'
            )
        self.space = space
        self.runs = runs
        self.settings = settings or SearchSettings()

    @property
    def row_count(self) -> int:
        """Number of configurations that share the runs on bare metal."""
        return len(self.space.possible)

    @abstractmethod
    def request_runs(self, measured: MeasuredRates) -> list[RunRequest]:
        """Return the next requests; none if the sweep is finished."""

    def list_candidates(self, measured: MeasuredRates) -> list[Configuration]:
        """Return the configurations that may still win."""
        return [
            configuration
            for configuration in self.space.possible
            if measured.get_rates(configuration)
            and configuration not in measured.excluded
        ]

    def list_repeated(self, measured: MeasuredRates) -> list[Configuration]:
        """Return the configurations whose intervals further passes narrow.

        :returns: an empty list if the number of runs of the strategy is fixed,
            or if these configurations are not known yet.
        """
        return []

    def choose(
        self,
        measured: MeasuredRates,
        corrected_rates: stats.CorrectedRates | None = None,
    ) -> stats.Choice | None:
        """Return the best configuration so far and the tied configurations.

        :param measured: rates of the runs so far.
        :param corrected_rates: rates corrected for passes and drift; None
            uses the rates of the runs.
        """
        by_name = self.space.by_name
        return stats.choose_winner(
            corrected_rates
            or percentages.fit_rates(
                {
                    name: measured.get_rates(configuration)
                    for name, configuration in by_name.items()
                },
                measured.get_rates(BareMetal()),
            ),
            lambda name: by_name[name].cost,
            [candidate.name for candidate in self.list_candidates(measured)],
        )

    def _request_missing(
        self,
        configurations: Iterable[Configuration],
        measured: MeasuredRates,
        runs: int,
    ) -> list[RunRequest]:
        return [
            RunRequest(
                configuration,
                runs - len(measured.get_rates(configuration)),
            )
            for configuration in configurations
            if len(measured.get_rates(configuration)) < runs
            and configuration not in measured.excluded
        ]


class FullFactorial(Strategy):
    """Strategy that measures every configuration with the same runs."""

    name = 'full-factorial'

    def request_runs(self, measured: MeasuredRates) -> list[RunRequest]:
        """Return requests for all missing runs."""
        return self._request_missing(self.space.possible, measured, self.runs)

    def list_repeated(self, measured: MeasuredRates) -> list[Configuration]:
        """Return the configurations without a run that failed for good."""
        return [
            configuration
            for configuration in self.space.possible
            if configuration not in measured.excluded
        ]


class TriedValue(NamedTuple):
    """Measured value of a parameter.

    :param parameter: name of the parameter.
    :param value: value as human-readable text.
    :param configuration: full name of the measured configuration.
    :param before: full name of the configuration retained before.
    """

    parameter: str
    value: str
    configuration: str
    before: str


class OneAtATime(Strategy):
    """Strategy that varies one parameter after the other.

    It is that of the Dell presentation ("Methodology"): start with the
    initial configuration, measure all values of a parameter, and use the best
    value for every later measurement. It cannot detect interactions of two
    parameters.
    """

    name = 'one-at-a-time'

    def request_runs(self, measured: MeasuredRates) -> list[RunRequest]:
        """Return requests for the missing runs of the next parameter."""
        return self._walk_parameters(measured)[0]

    def list_tried_values(self, measured: MeasuredRates) -> list[TriedValue]:
        """Return each measured value with the configuration before it."""
        return self._walk_parameters(measured)[1]

    def _walk_parameters(
        self, measured: MeasuredRates
    ) -> tuple[list[RunRequest], list[TriedValue]]:
        base_configuration = self.space.start
        way: list[TriedValue] = []
        missing = self._request_missing(
            [base_configuration], measured, self.runs
        )
        for name, values in self.space.values.items():
            options = {
                value: candidate
                for value in values
                if (
                    candidate := self.space.change_parameter(
                        base_configuration, name, value
                    )
                )
            }
            missing = missing or self._request_missing(
                options.values(), measured, self.runs
            )
            if missing:
                break
            way += [
                TriedValue(
                    name,
                    format_value(name, value),
                    candidate.name,
                    base_configuration.name,
                )
                for value, candidate in options.items()
                if candidate != base_configuration
                and measured.get_rates(candidate)
            ]
            good = [
                candidate
                for candidate in options.values()
                if candidate not in measured.excluded
            ]
            base_configuration = max(
                good or [base_configuration],
                key=lambda candidate: compute_log_mean(
                    measured.get_rates(candidate)
                ),
            )
        return missing, way


class ModelBased(Strategy):
    """Strategy that searches with a model, and then confirms its answer.

    :mod:`hvstack.sweep.rate_model` describes the model. The search measures
    no bare metal. It ends when the expected loss of the best configuration is
    small, and selects the cheapest configuration whose expected loss is small.
    Then this winner and the runner-up are measured again in passes, against
    bare metal. The runs of the search do not count in any percentage, because
    the winner was selected for its high rates.
    """

    name = 'model-based'
    DEFAULT_RUNS = 6

    @functools.cached_property
    def _search(self) -> RateSearch:
        return create_search(self.space.possible, self.settings)

    @property
    def row_count(self) -> int:
        """Number of configurations of the confirmation."""
        return min(2, len(self.space.possible))

    def count_confirmation_runs(self, *, measure_baseline: bool) -> int:
        """Return the number of runs of the confirmation.

        :param measure_baseline: whether bare metal is measured.
        """
        return count_confirmation_runs(
            len(self.space.possible),
            self.runs,
            measure_baseline=measure_baseline,
        )

    def get_search_status(
        self, measured: MeasuredRates
    ) -> SearchStatus | None:
        """Return the status of the search.

        :returns: None if a run of each configuration failed for good.
        """
        return self._search.get_status(
            measured.search,
            measured.excluded,
            is_finished=any(measured.rates.values()),
        )

    def request_runs(self, measured: MeasuredRates) -> list[RunRequest]:
        """Return a request for the next run of the search.

        After the search, these are the missing runs of the confirmation.
        """
        status = self.get_search_status(measured)
        if status is None:
            return []
        if status.next_configuration is not None:
            return [RunRequest(status.next_configuration, 1)]
        return self._request_missing(
            status.confirmed_configurations, measured, self.runs
        )

    def list_repeated(self, measured: MeasuredRates) -> list[Configuration]:
        """Return the winner and the runner-up after the search."""
        status = self.get_search_status(measured)
        if status is None or status.next_configuration is not None:
            return []
        return status.confirmed_configurations

    def choose(
        self,
        measured: MeasuredRates,
        corrected_rates: stats.CorrectedRates | None = None,
    ) -> stats.Choice | None:
        """Return the configuration that the search selected.

        Without any run of the search, it is the best measured configuration.
        """
        status = self.get_search_status(measured)
        if status is None or not status.runs:
            return super().choose(measured, corrected_rates)
        name = status.winner.name
        return stats.Choice(name, (), name)


STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy
    for strategy in (OneAtATime, FullFactorial, ModelBased)
}


def create_strategy(
    name: str,
    space: Space,
    runs: int,
    settings: SearchSettings | None = None,
) -> Strategy:
    """Return a strategy.

    :param name: name of the strategy.
    :param space: search space with its possible configurations.
    :param runs: number of runs of each measured configuration.
    :param settings: settings of the search of ``model-based``; None uses the
        defaults.
    :raises hvstack.errors.InputError: the name is unknown.
    """
    if name not in STRATEGIES:
        raise errors.InputError(
            f"Cannot find the strategy '{name}'. Use one of "
            f'{", ".join(STRATEGIES)}.'
        )
    return STRATEGIES[name](space, runs, settings)


def count_confirmation_runs(
    configurations: int, passes: int, *, measure_baseline: bool
) -> int:
    """Return the number of runs of a confirmation.

    :param configurations: number of possible configurations of the sweep.
    :param passes: number of passes of the confirmation.
    :param measure_baseline: whether bare metal is measured.
    """
    rows = min(2, configurations)
    clusters = rows * passes
    if not measure_baseline:
        return clusters
    return clusters + count_baselines(clusters, rows) + 1


def limit_passes(
    configurations: int,
    passes: int,
    max_runs: int,
    runs_per_cluster: int,
    *,
    measure_baseline: bool,
) -> int:
    """Return the number of passes of a confirmation with a budget.

    :param configurations: number of possible configurations of the sweep.
    :param passes: number of passes without a budget.
    :param max_runs: maximum number of runs of the confirmation.
    :param runs_per_cluster: number of runs on a cluster; a smaller number of
        passes is a multiple of it.
    :param measure_baseline: whether bare metal is measured.
    :returns: at least the runs on a cluster.
    """
    if (
        count_confirmation_runs(
            configurations, passes, measure_baseline=measure_baseline
        )
        <= max_runs
    ):
        return passes
    while passes > runs_per_cluster and (
        passes % runs_per_cluster
        or count_confirmation_runs(
            configurations, passes, measure_baseline=measure_baseline
        )
        > max_runs
    ):
        passes -= 1
    return passes


def compute_log_mean(rates: Sequence[float]) -> float:
    """Return the mean logarithm of rates; minus infinity without rates."""
    if not rates:
        return -math.inf
    return math.fsum(map(math.log, rates)) / len(rates)
