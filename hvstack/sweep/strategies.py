# SPDX-License-Identifier: Apache-2.0
"""Strategies, which select the next configurations of a sweep.

The runs so far are the only state of a strategy. The same runs always lead to
the same next step, also in another process and after a crash.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.model.target import BARE_METAL
from hvstack.results import percentages, stats
from hvstack.results.record import Record
from hvstack.sweep.run_order import (
    Step,
    count_between_baselines,
    select_next,
)
from hvstack.sweep.search_space import Space, format_value


@dataclass(frozen=True)
class RunRequest:
    """Request of a strategy for further runs of a configuration.

    :param configuration: full name of the configuration.
    :param runs: number of further runs.
    """

    configuration: str
    runs: int


@dataclass(frozen=True)
class MeasuredRates:
    """The runs so far.

    :param rates: of the valid runs by configuration, in order; bare metal's
        as well.
    :param excluded: configurations with a run that failed for good.
    :param bare_failed: runs on bare metal that did; the sweep goes on.
    """

    rates: Mapping[str, Sequence[float]]
    excluded: frozenset[str] = frozenset()
    bare_failed: int = 0

    def get_rates(self, configuration: Configuration | str) -> Sequence[float]:
        """Return the rates of a configuration."""
        if isinstance(configuration, Configuration):
            configuration = configuration.name
        return self.rates.get(configuration, ())

    def has_failed(self, configuration: Configuration) -> bool:
        """Return whether a configuration failed for good."""
        return configuration.name in self.excluded


class Strategy(ABC):
    """Algorithm that selects the configurations of a sweep.

    :param space: search space with its possible configurations.
    :param runs: number of runs of each measured configuration.
    :raises hvstack.errors.InputError: the number of runs is less than 1.
    """

    #: Name of the strategy on the command line.
    name = ''

    def __init__(self, space: Space, runs: int) -> None:
        if runs < 1:
            raise errors.InputError(f'runs is {runs}: give 1 or more')
        self.space = space
        self.runs = runs

    @abstractmethod
    def request_runs(self, measured: MeasuredRates) -> list[RunRequest]:
        """Return the next requests; none if the sweep is finished."""

    def list_candidates(self, measured: MeasuredRates) -> list[str]:
        """Return the full names of the configurations that may still win."""
        return [
            configuration.name
            for configuration in self.space.possible
            if measured.get_rates(configuration)
            and not measured.has_failed(configuration)
        ]

    def choose(
        self,
        measured: MeasuredRates,
        corrected_rates: stats.DriftCorrectedRates | None = None,
    ) -> stats.Choice | None:
        """Return the best configuration so far and the tied configurations.

        :param measured: rates of the runs so far.
        :param corrected_rates: rates corrected for the drift; None uses the
            rates of the runs.
        """
        by_name = {
            configuration.name: configuration
            for configuration in self.space.possible
        }
        return stats.choose_winner(
            corrected_rates
            or stats.correct_drift(
                {name: measured.get_rates(name) for name in by_name},
                measured.get_rates(BARE_METAL),
            ),
            lambda name: by_name[name].cost,
            self.list_candidates(measured),
        )

    def _request_missing(
        self,
        configurations: Iterable[Configuration],
        measured: MeasuredRates,
        runs: int,
    ) -> list[RunRequest]:
        return [
            RunRequest(
                configuration.name,
                runs - len(measured.get_rates(configuration)),
            )
            for configuration in configurations
            if len(measured.get_rates(configuration)) < runs
            and not measured.has_failed(configuration)
        ]


class FullFactorial(Strategy):
    """Strategy that measures every configuration with the same runs."""

    name = 'full-factorial'

    def request_runs(self, measured: MeasuredRates) -> list[RunRequest]:
        """Return requests for all missing runs."""
        return self._request_missing(self.space.possible, measured, self.runs)


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
                if not measured.has_failed(candidate)
            ]
            base_configuration = max(
                good or [base_configuration],
                key=lambda candidate: _log_mean(measured.get_rates(candidate)),
            )
        return missing, way


class Racing(Strategy):
    """Strategy that drops inferior configurations and repeats close ones.

    The race is that of Birattari et al., "A Racing Algorithm for Configuring
    Metaheuristics" (2002), with the pooled t interval as its test: a
    configuration is dropped if the 95 % interval of its ratio to the best
    configuration does not contain 100. The saved runs go to the remaining
    configurations, up to :attr:`MAX_FACTOR` times the runs that
    full-factorial has. The total number of runs, including those on bare
    metal, is not larger than that of full-factorial, except for the pair of
    runs of each remaining configuration.
    """

    name = 'racing'
    #: Runs of each configuration in the first round, and in later rounds.
    FIRST_RUNS = 1
    FURTHER_RUNS = 2
    #: Maximum number of runs of a configuration as a multiple of ``runs``.
    MAX_FACTOR = 2

    def request_runs(self, measured: MeasuredRates) -> list[RunRequest]:
        """Return requests for the missing runs of the current round."""
        return self._run_race(measured)[0]

    def list_candidates(self, measured: MeasuredRates) -> list[str]:
        """Return the full names of measured configurations in the race."""
        alive = self._run_race(measured)[1]
        return [
            configuration.name
            for configuration in alive
            if measured.get_rates(configuration)
        ]

    def _run_race(
        self, measured: MeasuredRates
    ) -> tuple[list[RunRequest], list[Configuration]]:
        """Repeat all rounds with the runs that they had.

        :returns: requests for missing runs, and the configurations that are
            still in the race.
        """
        alive = [
            configuration
            for configuration in self.space.possible
            if not measured.has_failed(configuration)
        ]
        # Full-factorial's runs, with those on bare metal, unless the sweep is
        # compared with recorded ones.
        measure_baseline = bool(measured.get_rates(BARE_METAL))
        between = count_between_baselines(len(self.space.possible))

        def count_runs(clusters: int) -> int:
            return clusters + measure_baseline * math.ceil(clusters / between)

        budget = count_runs(self.runs * len(alive))
        observed_rates: dict[str, Sequence[float]] = {}
        count = further = min(self.FIRST_RUNS, self.runs)
        clusters = 0
        while True:
            missing = self._request_missing(alive, measured, count)
            if missing or not alive:
                return missing, alive
            clusters += further * len(alive)
            observed_rates |= {
                configuration.name: measured.get_rates(configuration)[:count]
                for configuration in alive
            }
            # Those that were there when the round ended.
            base = measured.get_rates(BARE_METAL)[
                : math.ceil(clusters / between)
            ]
            alive = self._drop_inferior(alive, observed_rates, base)
            further = min(
                self.FURTHER_RUNS, self.runs * self.MAX_FACTOR - count
            )
            while (
                further > 0
                and count_runs(clusters + further * len(alive)) > budget
            ):
                further -= 1
            if len(alive) < 2 or further < 1:
                # The benchmark asks for a pair of runs.
                return self._request_missing(
                    alive, measured, min(2, self.runs)
                ), alive
            count += further

    def _drop_inferior(
        self,
        alive: list[Configuration],
        observed_rates: Mapping[str, Sequence[float]],
        base: Sequence[float],
    ) -> list[Configuration]:
        """Return the configurations that the runs do not exclude."""
        choice = stats.choose(
            {
                configuration.name: observed_rates[configuration.name]
                for configuration in alive
            },
            stats.pool_variance([*observed_rates.values(), base]),
            # The selected configuration does not matter.
            lambda name: name,
        )
        assert choice
        close = {choice.best, *choice.tied}
        return [
            configuration
            for configuration in alive
            if configuration.name in close
        ]


STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy for strategy in (OneAtATime, FullFactorial, Racing)
}


def create_strategy(name: str, space: Space, runs: int) -> Strategy:
    """Return a strategy.

    :param name: name of the strategy.
    :param space: search space with its possible configurations.
    :param runs: number of runs of each measured configuration.
    :raises hvstack.errors.InputError: the name is unknown.
    """
    if name not in STRATEGIES:
        raise errors.InputError(
            f"strategy is '{name}': take one of {', '.join(STRATEGIES)}"
        )
    return STRATEGIES[name](space, runs)


def collect_rates(records: Iterable[Record], size_bytes: int) -> MeasuredRates:
    """Return the rates of a sweep for its strategy.

    :param records: records of the sweep.
    :param size_bytes: size of the data of the sweep in bytes; runs of other
        sizes are ignored.
    """
    rates: dict[str, list[float]] = {}
    records = list(records)
    settled = percentages.list_settled(records, size_bytes)
    for record in sorted(settled, key=lambda record: record.index):
        if record.valid:
            rates.setdefault(record.configuration, []).append(record.rate)
    bare_failed = sum(
        _is_baseline(record) and not record.valid for record in settled
    )
    return MeasuredRates(
        rates, percentages.list_excluded(records, size_bytes), bare_failed
    )


def plan_workloads(
    strategy: Strategy,
    records: Sequence[Record],
    size_bytes: int,
    *,
    sweep: str = '',
    measure_baseline: bool = True,
    runs_per_cluster: int = 1,
) -> list[list[Step]]:
    """Return the next workloads; the runs of a workload share a cluster.

    The requested runs are executed in passes, each run on a new cluster, as
    :mod:`hvstack.sweep.run_order` describes. The sweep begins and ends with
    bare metal. The order depends only on the sweep and on the runs so far, so
    that it is the same after a crash.

    :param strategy: strategy of the sweep.
    :param records: all records of the sweep.
    :param size_bytes: size of the data of the sweep in bytes.
    :param sweep: sweep ID.
    :param measure_baseline: measure bare metal; False if the sweep has a
        recorded baseline.
    :param runs_per_cluster: number of runs of a configuration on a cluster: 2
        for TPC's kit, which executes runs in pairs.
    :returns: an empty list if the sweep is finished.
    """
    settled = percentages.list_settled(records, size_bytes)
    asks = strategy.request_runs(collect_rates(records, size_bytes))
    order = [record.configuration for record in settled]
    done = Counter(order)
    targets = {
        ask.configuration: done[ask.configuration] + ask.runs for ask in asks
    }
    between = runs_per_cluster * count_between_baselines(
        len(strategy.space.possible)
    )
    base = 1 + max(
        (record.index for record in settled if _is_baseline(record)),
        default=-1,
    )
    workloads = []
    while targets:
        name, count = select_next(
            {name: done[name] for name in targets}, sweep
        )
        if measure_baseline and _count_since_baseline(order) >= between:
            workloads.append([Step(BARE_METAL, base, size_bytes)])
            order.append(BARE_METAL)
            base += 1
        # The second run of a pair that was interrupted stands alone.
        runs = runs_per_cluster - count % runs_per_cluster
        indexes = range(count, min(count + runs, targets[name]))
        workloads.append([Step(name, index, size_bytes) for index in indexes])
        order += [name] * len(indexes)
        done[name] += len(indexes)
        if done[name] >= targets[name]:
            del targets[name]
    if measure_baseline and not asks and order and order[-1] != BARE_METAL:
        workloads.append([Step(BARE_METAL, base, size_bytes)])
    return workloads


def _count_since_baseline(order: Sequence[str]) -> float:
    """Return the number of runs since the last one on bare metal."""
    if BARE_METAL not in order:
        return math.inf
    return order[::-1].index(BARE_METAL)


@dataclass(frozen=True)
class SweepEstimate:
    """Estimate of the work of a sweep.

    :param configurations: number of measured configurations.
    :param visits: number of set-ups of a configuration or of bare metal.
    :param runs: number of runs, including those on bare metal.
    """

    configurations: int
    visits: int
    runs: int

    def seconds(self, run: float, setup: float) -> float:
        """Return the duration in seconds.

        :param run: duration of a run in seconds.
        :param setup: duration of creating and deleting a cluster in seconds.
        """
        return self.runs * run + self.visits * setup


def estimate_sweep(
    strategy: Strategy,
    measured: MeasuredRates | None = None,
    *,
    measure_baseline: bool = True,
) -> tuple[SweepEstimate, SweepEstimate]:
    """Return the lowest and the highest estimate of the work of a sweep.

    The strategy is simulated with rates that do not scatter: equal rates, so
    that no configuration is dropped, and rates with the first or the last
    configuration as the best.

    :param strategy: strategy of the sweep.
    :param measured: runs so far; the estimate covers the remaining runs.
    :param measure_baseline: whether bare metal is measured.
    """
    measured = measured or MeasuredRates({})
    names = [configuration.name for configuration in strategy.space.possible]
    measured_rates = [
        rate for name in names for rate in measured.get_rates(name)
    ]
    mean_rate = math.exp(_log_mean(measured_rates)) if measured_rates else 1.0
    estimates = [
        simulate(strategy, rate, measured, measure_baseline=measure_baseline)
        for rate in (
            lambda _: mean_rate,
            lambda name: mean_rate / (1 + names.index(name)),
            lambda name: mean_rate * (1 + names.index(name)),
        )
    ]
    by_runs = sorted(
        estimates, key=lambda estimate: (estimate.runs, estimate.visits)
    )
    return by_runs[0], by_runs[-1]


def simulate(
    strategy: Strategy,
    rate: Callable[[str], float],
    measured: MeasuredRates,
    *,
    measure_baseline: bool,
) -> SweepEstimate:
    """Simulate the remaining runs of a strategy.

    :param strategy: strategy of the sweep.
    :param rate: function that returns the rate of a configuration.
    :param measured: runs so far.
    :param measure_baseline: include the runs on bare metal.
    :returns: estimate of the remaining work.
    """
    rates = {
        name: list(observed_rates)
        for name, observed_rates in measured.rates.items()
    }
    measured_base = rates.get(BARE_METAL, [])
    between = count_between_baselines(len(strategy.space.possible))
    requested_names = set()
    runs = baselines = 0
    while asks := strategy.request_runs(
        MeasuredRates(rates, measured.excluded)
    ):
        for ask in asks:
            requested_names.add(ask.configuration)
            row = rates.setdefault(ask.configuration, [])
            row += [rate(ask.configuration)] * ask.runs
            runs += ask.runs
        if measure_baseline:
            baselines = math.ceil(runs / between)
            rates[BARE_METAL] = measured_base + [1.0] * baselines
    total = runs + baselines + measure_baseline
    return SweepEstimate(len(requested_names), total, total)


def _is_baseline(record: Record) -> bool:
    return record.configuration == BARE_METAL


def _log_mean(rates: Sequence[float]) -> float:
    if not rates:
        return -math.inf
    return math.fsum(map(math.log, rates)) / len(rates)
