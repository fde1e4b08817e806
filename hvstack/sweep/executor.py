# SPDX-License-Identifier: Apache-2.0
"""Execution of a sweep by a strategy, with its records as the only state."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hvstack import errors, host_profiles
from hvstack.hadoop import os_profiles, sizing
from hvstack.model.configuration import Configuration
from hvstack.model.target import BARE_METAL
from hvstack.progress import Progress
from hvstack.results import percentages, stats, stopping
from hvstack.results.history import collect_history
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore
from hvstack.sweep import (
    rallytask,
    schedule,
    search_space,
    strategies,
    sweep_store,
)
from hvstack.sweep.run_order import Step
from hvstack.sweep.search_space import Space
from hvstack.sweep.strategies import MeasuredRates, Strategy
from hvstack.sweep.sweep_store import Sweep, SweepSpec
from hvstack.tpcxhs import kit

TASK = 'sweep.yaml'


@dataclass(frozen=True)
class SweepStatus:
    """Status of a sweep.

    :param workloads: the next workloads; none when it is finished.
    :param corrected_rates: rates of all valid runs, as the report has them.
    :param choice: the best configuration so far and what is tied with it.
    :param stored_records: records of all sweeps, for the variance.
    """

    strategy: Strategy
    records: list[RunRecord]
    measured: MeasuredRates
    workloads: list[list[Step]]
    corrected_rates: stats.CorrectedRates
    choice: stats.Choice | None
    stored_records: list[RunRecord] = field(default_factory=list)

    @property
    def excluded_labels(self) -> list[str]:
        """Short names of the configurations that failed for good."""
        return sorted(
            configuration.label for configuration in self.measured.excluded
        )

    @property
    def best(self) -> list[Configuration]:
        """Best configuration so far, and the configurations tied with it."""
        if self.choice is None:
            return []
        by_name = self.strategy.space.by_name
        return [
            by_name[name] for name in (self.choice.best, *self.choice.tied)
        ]


def begin_sweep(
    area: Space,
    spec: SweepSpec,
    runs: int,
    size_bytes: int,
    *,
    tuning: str = sizing.DEFAULT,
    os_profile: str = os_profiles.DEFAULT,
) -> Sweep:
    """Create a sweep.

    :param area: search space with its possible configurations.
    :param spec: specification of the sweep with the values of this space.
    :param runs: number of runs of each configuration.
    :param size_bytes: size of the data in bytes.
    :param tuning: tuning profile of Hadoop.
    :param os_profile: OS profile of the nodes.
    :raises hvstack.errors.InputError: unknown strategy, or no run; no kit,
        or a size that it cannot make.
    """
    if spec.kit:
        kit.check_kit(Path(spec.kit), size_bytes)
    strategies.create_strategy(spec.strategy, area, runs)
    if spec.half_width:
        _check_goal(spec)
    return sweep_store.create_sweep(
        *(area.possible, runs, size_bytes, spec),
        tuning=tuning,
        os_profile=os_profile,
    )


def _check_goal(spec: SweepSpec) -> None:
    """Check that a sweep can reach a half width.

    :raises hvstack.errors.InputError: the half width is not valid, or the
        sweep does not measure all rows in passes.
    """
    reason = ''
    if not 0 < spec.half_width <= 100:
        reason = f'{spec.half_width:g} is not between 0 and 100. Use 5'
    elif spec.strategy != strategies.FullFactorial.name:
        reason = (
            f"strategy '{spec.strategy}' limits the number of runs. Use "
            f'--strategy {strategies.FullFactorial.name}'
        )
    elif not spec.measure_baseline:
        reason = (
            'the sweep does not measure bare metal. Use --runs for a fixed '
            'number of passes'
        )
    if reason:
        raise errors.InputError(f'Cannot use --half-width: {reason}.')


def _create_strategy(
    sweep: Sweep,
    spec: SweepSpec,
    area: Space,
    measured: MeasuredRates,
    corrected_rates: stats.CorrectedRates,
) -> Strategy:
    """Return the strategy of a sweep with its number of runs.

    :param sweep: sweep with a strategy.
    :param spec: specification of the sweep.
    :param area: search space with its possible configurations.
    :param measured: runs so far.
    :param corrected_rates: rates of these runs, as the report has them.
    """
    runs = sweep.runs
    names = [
        configuration.name
        for configuration in area.possible
        if configuration not in measured.excluded
    ]
    if spec.half_width and names:
        goal = stopping.Goal(spec.half_width)
        runs = goal.count_passes(corrected_rates, names)
    return strategies.create_strategy(spec.strategy, area, runs)


def build_space(spec: SweepSpec, tuning: str) -> Space:
    """Return the search space of a sweep with its possible configurations.

    :param spec: specification of the sweep.
    :param tuning: tuning profile of the sweep.
    :raises hvstack.errors.InputError: the start configuration is no longer
        possible on the hosts.
    """
    return search_space.explore_space(
        search_space.create_space(
            spec.values.to_mapping(), spec.start, lambda _: 'values'
        ),
        host_profiles.load(spec.host),
        spec.backend,
        spec.missing_capabilities,
        tuning,
    )


def load_status(
    sweep: Sweep,
    records_dir: Path | None = None,
    store: RunStore | None = None,
) -> SweepStatus:
    """Return the status of a sweep from its records.

    :param records_dir: of the run records, if it is another one.
    :param store: store of the run records; None opens it.
    :raises hvstack.errors.InputError: it has no strategy, or its host profile
        cannot be read.
    """
    if sweep.spec is None:
        raise errors.InputError(
            f"sweep '{sweep.id}' has no strategy: 'hvstack demo' continues "
            'with it'
        )
    try:
        area = build_space(sweep.spec, sweep.tuning)
    except errors.InputError as exc:
        raise errors.InputError(
            f"Cannot read the search space of sweep '{sweep.id}' (host "
            f"profile '{sweep.spec.host}'): {exc}"
        ) from exc
    store = store or sweep_store.open_store(records_dir)
    stored_records = store.load_usable()
    records = store.load_records(sweep.id)
    measured = schedule.collect_rates(records, sweep.size_bytes)
    valid: dict[str, list[RunRecord]] = {}
    for run_record in records:
        if run_record.valid and run_record.size_bytes == sweep.size_bytes:
            valid.setdefault(run_record.configuration, []).append(run_record)
    corrected_rates = percentages.compute_percents(
        valid,
        valid.pop(BARE_METAL, []),
        collect_history(stored_records, records),
    ).corrected_rates
    strategy = _create_strategy(
        sweep, sweep.spec, area, measured, corrected_rates
    )
    return SweepStatus(
        strategy,
        records,
        measured,
        schedule.plan_workloads(
            strategy,
            records,
            sweep.size_bytes,
            sweep=sweep.id,
            measure_baseline=sweep.spec.measure_baseline,
            runs_per_cluster=2 if sweep.spec.kit else 1,
        ),
        corrected_rates,
        strategy.choose(measured, corrected_rates),
        stored_records,
    )


def run_sweep(
    sweep: Sweep,
    progress: Progress,
    on_step: Callable[[SweepStatus, SweepStatus], None] | None = None,
) -> SweepStatus:
    """Execute the remaining runs of a sweep, with a Rally task for each step.

    :param sweep: sweep to execute.
    :param progress: receives messages.
    :param on_step: function that is called after each step with the status
        before and after the step; None calls nothing.
    :raises hvstack.errors.RunFailedError: a Rally task created no record.
    """
    # It reads each record once, not again before each run.
    store = sweep_store.open_store()
    while True:
        status = load_status(sweep, store=store)
        assert sweep.spec
        if not status.workloads:
            sweep_store.finish_sweep(sweep)
            return status
        progress.say(
            'next: '
            + ', '.join(
                f'{workload[0].label} ({len(workload)})'
                for workload in status.workloads
            )
        )
        rallytask.run_task(
            TASK,
            {
                'sweep': sweep.id,
                'kit': sweep.spec.kit,
                'baseline': sweep.spec.baseline,
                'allow': list(sweep.spec.allow),
                'workloads': rallytask.list_arguments(status.workloads),
                'compared': [
                    configuration.name
                    for configuration in status.strategy.space.possible
                ],
            },
            sweep.id,
            progress,
            {
                'hadoop': sweep.node_settings,
                'cloud': {
                    'host_profile': sweep.spec.host,
                    'backend': sweep.spec.backend,
                },
            },
        )
        now = load_status(sweep, store=store)
        if on_step:
            on_step(status, now)
        if len(now.records) == len(status.records):
            raise errors.RunFailedError(
                f"sweep '{sweep.id}' made no progress: Rally left no record, "
                f"its log says why; then 'hvstack sweep resume {sweep.id}'"
            )
