# SPDX-License-Identifier: Apache-2.0
"""Estimates of the remaining time of a sweep from its runs so far."""

import datetime
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from hvstack.model.configuration import Configuration
from hvstack.results.run_store import StoredSweeps
from hvstack.sweep import executor, search_forecast, sweep_store
from hvstack.sweep.run_order import count_baselines
from hvstack.sweep.run_times import (
    MAX_TIMED_RUNS,
    compute_median_times,
    iter_records_of_cloud,
)
from hvstack.sweep.search_forecast import SearchForecast
from hvstack.sweep.strategies import (
    MeasuredRates,
    ModelBased,
    Strategy,
    compute_log_mean,
)
from hvstack.sweep.sweep_store import Sweep

#: Number of days that the day of the week names.
_WEEKDAYS = 4


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

    The strategy is simulated with rates that do not scatter: equal rates, and
    rates with the first or the last configuration as the best.

    :param strategy: strategy of the sweep.
    :param measured: runs so far; the estimate covers the remaining runs.
    :param measure_baseline: whether bare metal is measured.
    """
    measured = measured or MeasuredRates({})
    if isinstance(strategy, ModelBased):
        return _estimate_search(strategy, measured, measure_baseline)
    possible = strategy.space.possible
    measured_rates = [
        rate
        for configuration in possible
        for rate in measured.get_rates(configuration)
    ]
    mean_rate = (
        math.exp(compute_log_mean(measured_rates)) if measured_rates else 1.0
    )
    factors = range(1, len(possible) + 1)
    estimates = [
        simulate(
            strategy,
            dict(zip(possible, assumed_rates, strict=True)),
            measured,
            measure_baseline=measure_baseline,
        )
        for assumed_rates in (
            [mean_rate for _ in factors],
            [mean_rate / factor for factor in factors],
            [mean_rate * factor for factor in factors],
        )
    ]
    by_runs = sorted(
        estimates, key=lambda estimate: (estimate.runs, estimate.visits)
    )
    return by_runs[0], by_runs[-1]


def _estimate_search(
    strategy: ModelBased, measured: MeasuredRates, measure_baseline: bool
) -> tuple[SweepEstimate, SweepEstimate]:
    """Return the 10 and 90 % quantiles of the remaining work of a search.

    They include the confirmation; in the confirmation, its remaining runs.
    """
    # A simulated search, which has fewer samples, could continue.
    is_over = bool(measured.search and strategy.list_repeated(measured))
    if is_over or any(measured.rates.values()):
        runs = sum(request.runs for request in strategy.request_runs(measured))
        if measure_baseline:
            runs += count_baselines(runs, strategy.row_count) + 1
        estimate = SweepEstimate(strategy.row_count, runs, runs)
        return estimate, estimate
    return convert_forecast(
        search_forecast.forecast_search(
            strategy, measured, measure_baseline=measure_baseline
        )
    )


def convert_forecast(
    forecast: SearchForecast,
) -> tuple[SweepEstimate, SweepEstimate]:
    """Return the lowest and the highest estimate of a simulated search.

    :param forecast: simulated searches, with the runs of the confirmation.
    """
    counts = [item.configurations for item in forecast.searches]
    (min_runs, _, max_runs), (min_count, _, max_count) = (
        forecast.clusters,
        search_forecast.compute_quantiles(counts),
    )
    estimates = [
        SweepEstimate(count, runs, runs)
        for count, runs in (
            (min_count, min_runs + forecast.confirmation_runs),
            (max_count, max_runs + forecast.confirmation_runs),
        )
    ]
    return estimates[0], estimates[1]


def simulate(
    strategy: Strategy,
    assumed_rates: Mapping[Configuration, float],
    measured: MeasuredRates,
    *,
    measure_baseline: bool,
) -> SweepEstimate:
    """Simulate the remaining runs of a strategy.

    :param strategy: strategy of the sweep.
    :param assumed_rates: rate of each configuration.
    :param measured: runs so far.
    :param measure_baseline: include the runs on bare metal.
    :returns: estimate of the remaining work.
    """
    rates = {
        target: list(observed_rates)
        for target, observed_rates in measured.rates.items()
    }
    requested = set()
    runs = 0
    while requests := strategy.request_runs(
        MeasuredRates(rates, measured.excluded)
    ):
        for request in requests:
            configuration = request.configuration
            requested.add(configuration)
            row = rates.setdefault(configuration, [])
            row += [assumed_rates[configuration]] * request.runs
            runs += request.runs
    if measure_baseline:
        runs += count_baselines(runs, len(strategy.space.possible)) + 1
    return SweepEstimate(len(requested), runs, runs)


def format_remaining(sweep: Sweep) -> str:
    """Return the remaining work of a sweep as text; empty if it is finished.

    The estimate uses the runs of the sweep, or all runs of the same size.

    :raises hvstack.errors.InputError: the marker or a record is not valid.
    """
    min_estimate, max_estimate = _estimate_remaining(sweep)
    if not max_estimate.runs:
        return ''
    amount = f'{_format_range(min_estimate.runs, max_estimate.runs)} runs'
    run, setup = _find_times(sweep)
    if run is None:
        return f'left: {amount}, no run of this size says how long they take'
    spans = [
        estimate.seconds(run, setup or 0)
        for estimate in (min_estimate, max_estimate)
    ]
    setup_text = f' and {setup:.0f} s a cluster' if setup is not None else ''
    return (
        f'about {format_span(*spans)} left, until about '
        f'{format_end_time(spans[1], datetime.datetime.now(datetime.UTC))}: '
        f'{amount} of {run:.0f} s{setup_text}'
    )


def format_span(lowest: float, highest: float) -> str:
    """Return a duration, or the range that it is in, as text.

    :param lowest: lowest number of seconds.
    :param highest: highest number of seconds; more than two hours are text in
        hours.
    """
    unit, factor, digits = 'minutes', 60, 0
    if highest > 7200:
        unit, factor, digits = 'hours', 3600, 1
    texts = [f'{span / factor:.{digits}f}' for span in (lowest, highest)]
    return f'{_format_range(*texts)} {unit}'


def format_end_time(seconds: float, now: datetime.datetime) -> str:
    """Return the local time after some seconds.

    It has the day of the week if the day differs, and the date if the day of
    the week could be that of another week.

    :param seconds: seconds from now on.
    :param now: current time.
    """
    # A sum of a local time has the offset from UTC of its begin, which is
    # that of another season after some weeks.
    end = (
        now.astimezone(datetime.UTC) + datetime.timedelta(0, seconds)
    ).astimezone()
    days = (end.date() - now.astimezone().date()).days
    if days > _WEEKDAYS:
        return end.strftime('%Y-%m-%d %H:%M')
    return end.strftime('%a %H:%M' if days else '%H:%M')


def estimate_max_seconds(sweep: Sweep) -> float | None:
    """Return the maximum remaining seconds of a sweep; None if unknown.

    Where no two clusters of a sweep tell how long a change takes, a change
    is assumed to take as long as a run.

    :raises hvstack.errors.InputError: the marker or a record is not valid.
    """
    _, max_estimate = _estimate_remaining(sweep)
    run, setup = _find_times(sweep)
    if run is None:
        return None
    return max_estimate.seconds(run, run if setup is None else setup)


def _find_times(sweep: Sweep) -> tuple[float | None, float | None]:
    """Return median seconds of a run and of a change of the cluster.

    They are those of the sweep, or of the newest runs of the same size on
    its cloud and backend, which a sweep of single steps does not know.
    """
    spec = sweep.spec
    run, setup = compute_median_times(
        sweep_store.load_all_records(sweep.id), sweep.size_bytes
    )
    if run is None or setup is None:
        other_run, other_setup = compute_median_times(
            iter_records_of_cloud(
                StoredSweeps(sweep_store.open_store()),
                spec.cloud if spec else '',
            ),
            sweep.size_bytes,
            MAX_TIMED_RUNS,
            backend=spec.backend if spec else None,
        )
        run = other_run if run is None else run
        setup = other_setup if setup is None else setup
    return run, setup


def _estimate_remaining(sweep: Sweep) -> tuple[SweepEstimate, SweepEstimate]:
    """Return the lowest and the highest estimate of the remaining work."""
    if sweep.spec is None:
        steps = sweep_store.list_pending(sweep.id, sweep.list_steps())
        visits = [
            name
            for name, _ in itertools.groupby(
                step.configuration for step in steps
            )
        ]
        whole = SweepEstimate(len(set(visits)), len(visits), len(steps))
        return whole, whole
    status = executor.load_status(sweep)
    if not status.workloads:
        nothing = SweepEstimate(0, 0, 0)
        return nothing, nothing
    return estimate_sweep(
        status.strategy,
        status.measured,
        measure_baseline=sweep.spec.measure_baseline,
    )


def _format_range(first: float | str, last: float | str) -> str:
    return f'{first}' if first == last else f'{first} to {last}'
