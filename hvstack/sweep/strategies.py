# SPDX-License-Identifier: Apache-2.0
"""Strategies: which configuration of a sweep is measured next.

A strategy's only state are the runs so far. The same runs give the same
next step, in another process and after a crash as well.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.results import percents, stats
from hvstack.results.record import BARE_METAL, Record
from hvstack.sweep.plan import Step
from hvstack.sweep.space import Space, format_value


@dataclass(frozen=True)
class RunRequest:
    """What a strategy wants next.

    :param configuration: full name.
    :param runs: how many further ones of it.
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
        """Return the rates of one configuration."""
        if isinstance(configuration, Configuration):
            configuration = configuration.name
        return self.rates.get(configuration, ())

    def has_failed(self, configuration: Configuration) -> bool:
        """Tell whether a configuration failed for good."""
        return configuration.name in self.excluded


class Strategy(ABC):
    """One way to go through a space.

    :param space: with what can exist of it.
    :param runs: of each configuration that is measured.
    :raises hvstack.errors.InputError: fewer than one run.
    """

    #: As the command line has it.
    name = ''

    def __init__(self, space: Space, runs: int) -> None:
        if runs < 1:
            raise errors.InputError(f'runs is {runs}: give 1 or more')
        self.space = space
        self.runs = runs

    @abstractmethod
    def request_runs(self, measured: MeasuredRates) -> list[RunRequest]:
        """Return the next steps; none when it is finished."""

    def list_candidates(self, measured: MeasuredRates) -> list[str]:
        """Return the configurations that may still win, by full name."""
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
        """Return the best configuration so far, and what is tied with it.

        :param corrected_rates: rates corrected for a drift; those of the runs
            if not given.
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
    """Every configuration, as many runs of each."""

    name = 'full-factorial'

    def request_runs(self, measured: MeasuredRates) -> list[RunRequest]:
        """Return all that is missing."""
        return self._request_missing(self.space.possible, measured, self.runs)


class TriedValue(NamedTuple):
    """A value that was tried on the way.

    :param value: as a person writes it.
    :param configuration: full name.
    :param before: full name of what was kept before.
    """

    parameter: str
    value: str
    configuration: str
    before: str


class OneAtATime(Strategy):
    """One parameter after the other, the best value kept.

    The dell deck ("Methodology"): start with the initial configuration, go
    through each parameter's values, use the best for every later test. It
    sees no interaction of two parameters.
    """

    name = 'one-at-a-time'

    def request_runs(self, measured: MeasuredRates) -> list[RunRequest]:
        """Return the runs that the next parameter to be decided lacks."""
        return self._walk_parameters(measured)[0]

    def list_tried_values(self, measured: MeasuredRates) -> list[TriedValue]:
        """Return each value that was tried, with what was kept before."""
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
    """Drop what cannot win any more, repeat what is close.

    A race as in Birattari et al., "A Racing Algorithm for Configuring
    Metaheuristics" (2002), with the pooled t interval for its test: a
    configuration is dropped when the 95 % interval of its ratio to the best
    one excludes 100. A value is gone with its last configuration. Runs that
    this saves go to those left, up to :data:`MOST` times as many of each as
    full-factorial has. It never takes more runs in all, those on bare metal
    included, but for the pair that what is left has at least: a race sets
    more clusters up, each with a run on bare metal before it.
    """

    name = 'racing'
    #: Runs of each configuration in the first round, and in later ones.
    FIRST_RUNS = 1
    FURTHER_RUNS = 2
    #: Runs of one configuration at most, as a multiple of ``runs``.
    MAX_FACTOR = 2

    def request_runs(self, measured: MeasuredRates) -> list[RunRequest]:
        """Return what the round that is on lacks."""
        return self._run_race(measured)[0]

    def list_candidates(self, measured: MeasuredRates) -> list[str]:
        """Return those that are still in the race and have runs."""
        alive = self._run_race(measured)[1]
        return [
            configuration.name
            for configuration in alive
            if measured.get_rates(configuration)
        ]

    def _run_race(
        self, measured: MeasuredRates
    ) -> tuple[list[RunRequest], list[Configuration]]:
        """Run the rounds again, each with the runs that it had."""
        alive = [
            configuration
            for configuration in self.space.possible
            if not measured.has_failed(configuration)
        ]
        # Full-factorial's runs. One on bare metal stands before each visit,
        # unless the sweep is compared with recorded ones.
        bare = int(bool(measured.get_rates(BARE_METAL)))
        budget = (self.runs + bare) * len(alive)
        observed_rates: dict[str, Sequence[float]] = {}
        count = min(self.FIRST_RUNS, self.runs)
        visits = 0
        while True:
            missing = self._request_missing(alive, measured, count)
            if missing or not alive:
                return missing, alive
            visits += len(alive)
            observed_rates |= {
                configuration.name: measured.get_rates(configuration)[:count]
                for configuration in alive
            }
            # One on bare metal stands before each visit of a configuration.
            base = measured.get_rates(BARE_METAL)[:visits]
            alive = self._drop_inferior(alive, observed_rates, base)
            remaining_runs = budget - sum(map(len, observed_rates.values()))
            remaining_runs -= bare * visits
            further = min(
                self.FURTHER_RUNS,
                self.runs * self.MAX_FACTOR - count,
                remaining_runs // len(alive) - bare,
            )
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
        """Return those that the runs so far do not exclude."""
        choice = stats.choose(
            {
                configuration.name: observed_rates[configuration.name]
                for configuration in alive
            },
            stats.pool_variance([*observed_rates.values(), base]),
            # What is taken does not matter here.
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
    """Return a strategy by name.

    :raises hvstack.errors.InputError: unknown.
    """
    if name not in STRATEGIES:
        raise errors.InputError(
            f"strategy is '{name}': take one of {', '.join(STRATEGIES)}"
        )
    return STRATEGIES[name](space, runs)


def collect_rates(records: Iterable[Record], size_bytes: int) -> MeasuredRates:
    """Return what the records of a sweep say to its strategy.

    :param records: of one sweep.
    :param size_bytes: of the sweep's data; other sizes do not count.
    """
    rates: dict[str, list[float]] = {}
    records = list(records)
    settled = percents.list_settled(records, size_bytes)
    for record in sorted(settled, key=lambda record: record.index):
        if record.valid:
            rates.setdefault(record.configuration, []).append(record.rate)
    bare_failed = sum(
        _is_baseline(record) and not record.valid for record in settled
    )
    return MeasuredRates(
        rates, percents.list_excluded(records, size_bytes), bare_failed
    )


def plan_workloads(
    strategy: Strategy,
    records: Sequence[Record],
    size_bytes: int,
    *,
    bare: bool = True,
) -> list[list[Step]]:
    """Return the next runs, those of a workload on one cluster.

    One baseline run before each configuration and one at the end; none
    again where a crash came between a baseline run and the configuration's.

    :param records: of the sweep, valid or not.
    :param bare: measure bare metal; not where recorded runs are compared
        with.
    :returns: nothing when the sweep is finished.
    """
    settled = percents.list_settled(records, size_bytes)
    asks = strategy.request_runs(collect_rates(records, size_bytes))
    last = [record.configuration for record in settled]
    base = 1 + max(
        (record.index for record in settled if _is_baseline(record)),
        default=-1,
    )
    workloads = []
    for ask in asks:
        before = next((n for n in reversed(last) if n != ask.configuration), 0)
        if bare and before != BARE_METAL:
            workloads.append([Step(BARE_METAL, base, size_bytes)])
            base += 1
        done = last.count(ask.configuration)
        workloads.append(
            [
                Step(ask.configuration, done + number, size_bytes)
                for number in range(ask.runs)
            ]
        )
        last.append(ask.configuration)
    if bare and not asks and last and last[-1] != BARE_METAL:
        workloads.append([Step(BARE_METAL, base, size_bytes)])
    return workloads


@dataclass(frozen=True)
class SweepEstimate:
    """How much there is to do.

    :param configurations: that are measured.
    :param visits: how often one of them, or bare metal, is set up.
    :param runs: in all, those on bare metal as well.
    """

    configurations: int
    visits: int
    runs: int

    def seconds(self, run: float, setup: float) -> float:
        """Return how long it takes.

        :param run: seconds of a run.
        :param setup: seconds of setting a cluster up and taking it away.
        """
        return self.runs * run + self.visits * setup


def estimate_sweep(
    strategy: Strategy,
    measured: MeasuredRates | None = None,
    *,
    bare: bool = True,
) -> tuple[SweepEstimate, SweepEstimate]:
    """Return the least and the most that a sweep can take.

    The strategy is rehearsed with rates that do not scatter: all alike, so
    that nothing is ever dropped, or with the first or the last one best.

    :param measured: the runs so far; what is left counts.
    :param bare: bare metal is measured too.
    """
    measured = measured or MeasuredRates({})
    names = [configuration.name for configuration in strategy.space.possible]
    measured_rates = [
        rate for name in names for rate in measured.get_rates(name)
    ]
    mean_rate = math.exp(_log_mean(measured_rates)) if measured_rates else 1.0
    estimates = [
        simulate(strategy, rate, measured, bare=bare)
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
    bare: bool,
) -> SweepEstimate:
    """Go through what is left of a strategy with given rates, and count.

    :param rate: of a configuration, by full name.
    :param measured: the runs so far.
    :param bare: with a run on bare metal before each and at the end.
    """
    rates = {
        name: list(observed_rates)
        for name, observed_rates in measured.rates.items()
    }
    base = rates.setdefault(BARE_METAL, [])
    requested_names = set()
    visits = runs = 0
    while asks := strategy.request_runs(
        MeasuredRates(rates, measured.excluded)
    ):
        for ask in asks:
            requested_names.add(ask.configuration)
            row = rates.setdefault(ask.configuration, [])
            row += [rate(ask.configuration)] * ask.runs
            visits += 1 + bare
            runs += bare + ask.runs
            base += [1.0] * bare
    return SweepEstimate(len(requested_names), visits + bare, runs + bare)


def _is_baseline(record: Record) -> bool:
    return record.configuration == BARE_METAL


def _log_mean(rates: Sequence[float]) -> float:
    if not rates:
        return -math.inf
    return math.fsum(map(math.log, rates)) / len(rates)
