# SPDX-License-Identifier: Apache-2.0
"""Execution of a sweep by a strategy, with its records as the only state."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hvstack import errors, host_profiles
from hvstack.hadoop import os_profiles, sizing
from hvstack.model.configuration import Configuration
from hvstack.model.target import BARE_METAL
from hvstack.progress import Progress
from hvstack.results import percentages, run_id, stats, stopping
from hvstack.results.decision import SearchDecision
from hvstack.results.history import collect_earlier
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore, StoredSweeps
from hvstack.sweep import (
    kept_records,
    rallytask,
    schedule,
    search_settings,
    search_space,
    strategies,
    sweep_store,
    tuning_check,
)
from hvstack.sweep.budget import parse_budget
from hvstack.sweep.rate_search import SearchSettings, SearchStatus
from hvstack.sweep.run_order import Step
from hvstack.sweep.search_space import Space
from hvstack.sweep.strategies import (
    MeasuredRates,
    ModelBased,
    Strategy,
    limit_passes,
)
from hvstack.sweep.sweep_store import Sweep, SweepSpec
from hvstack.tpcxhs import kit

TASK = 'sweep.yaml'


@dataclass(frozen=True)
class SweepStatus:
    """Status of a sweep.

    :param workloads: the next workloads; none when it is finished.
    :param corrected_rates: rates of all valid runs, as the report has them.
    :param choice: the best configuration so far and what is tied with it.
    :param stored_records: records of all sweeps by sweep, for the variance.
    :param search_records: records of the search of ``model-based``.
    :param search: status of this search; None with other strategies.
    """

    strategy: Strategy
    records: list[RunRecord]
    measured: MeasuredRates
    workloads: list[list[Step]]
    corrected_rates: stats.CorrectedRates
    choice: stats.Choice | None
    stored_records: Iterable[Sequence[RunRecord]] = ()
    search_records: list[RunRecord] = field(default_factory=list)
    search: SearchStatus | None = None

    @property
    def is_searching(self) -> bool:
        """Whether the next workload is part of a search."""
        return (
            self.search is not None
            and self.search.next_configuration is not None
        )

    @property
    def decision(self) -> SearchDecision | None:
        """Answer of the search; None without a run of a search."""
        search = self.search
        if search is None or not search.runs:
            return None
        return SearchDecision(
            search.winner.name,
            search.runner_up.name if search.runner_up else '',
            search.expected_loss,
            search.runs,
            search.next_configuration is None,
        )

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
    """Create a sweep without a marker.

    :param area: search space with its possible configurations.
    :param spec: specification of the sweep with the values of this space.
    :param runs: number of runs of each configuration.
    :param size_bytes: size of the data in bytes.
    :param tuning: tuning profile of Hadoop.
    :param os_profile: OS profile of the nodes.
    :raises hvstack.errors.InputError: unknown strategy, or no run; no kit,
        or a size that it cannot make; a half width or a budget that the
        sweep cannot have.
    """
    if spec.kit:
        kit.check_kit(Path(spec.kit), size_bytes)
    strategy = strategies.create_strategy(spec.strategy, area, runs)
    if spec.half_width:
        _check_goal(spec)
    spec = replace(spec, host_digest=host_profiles.read_digest(spec.host))
    sweep = sweep_store.create_sweep(
        *(area.possible, runs, size_bytes, spec),
        tuning=tuning,
        os_profile=os_profile,
        is_saved=False,
    )
    _check_budget(sweep, spec, strategy)
    return sweep


def _check_goal(spec: SweepSpec) -> None:
    """Check that a sweep can reach a half width.

    :raises hvstack.errors.InputError: the half width is not valid, or the
        sweep does not measure all rows in passes.
    """
    reason = ''
    if not 0 < spec.half_width <= 100:
        reason = f'{spec.half_width:g} is not between 0 and 100. Use 5'
    elif spec.strategy == strategies.OneAtATime.name:
        reason = (
            f"strategy '{spec.strategy}' limits the number of runs. Use "
            f'--strategy {ModelBased.name} or {strategies.FullFactorial.name}'
        )
    elif not spec.measure_baseline:
        reason = (
            'the sweep does not measure bare metal. Use --runs for a fixed '
            'number of passes'
        )
    if reason:
        raise errors.InputError(f'Cannot use --half-width: {reason}.')


def _check_budget(sweep: Sweep, spec: SweepSpec, strategy: Strategy) -> None:
    """Check that the strategy of a sweep can have its budget.

    Hours are checked if earlier sweeps say how long a run takes.

    :raises hvstack.errors.InputError: the budget is not valid or too small, or
        the strategy has no search.
    """
    budget = parse_budget(spec.budget)
    if not spec.budget:
        return
    if not isinstance(strategy, ModelBased):
        raise errors.InputError(
            f"Cannot use --budget: strategy '{spec.strategy}' has no search. "
            f'Use --strategy {ModelBased.name}.'
        )
    seconds = None
    if budget.hours is not None:
        seconds = search_settings.compute_run_seconds(
            sweep, StoredSweeps(sweep_store.open_store()), ()
        )
    budget.check(
        strategy.count_confirmation_runs(
            measure_baseline=spec.measure_baseline
        ),
        seconds,
    )


def _create_strategy(
    sweep: Sweep,
    area: Space,
    measured: MeasuredRates,
    corrected_rates: stats.CorrectedRates,
    settings: SearchSettings,
    max_runs: int | None,
) -> Strategy:
    """Return the strategy of a sweep with its number of runs.

    :param sweep: sweep with a strategy.
    :param area: search space with its possible configurations.
    :param measured: runs so far.
    :param corrected_rates: rates of these runs, as the report has them.
    :param settings: settings of a search.
    :param max_runs: maximum number of runs of the confirmation of a search;
        None without a limit. One pass is measured in any case.
    """
    spec = sweep.spec
    assert spec is not None
    strategy = strategies.create_strategy(
        *(spec.strategy, area, sweep.runs, settings)
    )
    names = [item.name for item in strategy.list_repeated(measured)]
    if not names:
        return strategy
    runs = sweep.runs
    if spec.half_width:
        runs = spec.runs_per_cluster * stopping.Goal(
            spec.half_width
        ).count_passes(corrected_rates, names)
    if max_runs is not None:
        runs = limit_passes(
            *(len(area.possible), runs, max_runs, spec.runs_per_cluster),
            measure_baseline=spec.measure_baseline,
        )
    return strategies.create_strategy(spec.strategy, area, runs, settings)


def build_space(
    spec: SweepSpec,
    tuning: str,
    stored: Sequence[Configuration] | None = None,
) -> Space:
    """Return the search space of a sweep with its possible configurations.

    :param spec: specification of the sweep.
    :param tuning: tuning profile of the sweep.
    :param stored: as in :func:`hvstack.sweep.search_space.explore_space`.
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
        stored,
    )


def load_status(
    sweep: Sweep,
    store: RunStore | None = None,
) -> SweepStatus:
    """Return the status of a sweep from its records.

    :param store: store of the run records; None opens it.
    :raises hvstack.errors.InputError: it has no strategy, or its host profile
        cannot be read.
    """
    if sweep.spec is None:
        raise errors.InputError(
            f"Cannot continue sweep '{sweep.id}': it has no strategy. Run "
            "'hvstack demo', which continues it."
        )
    try:
        # The runs so far belong to these configurations, also if the host
        # profile was edited or written again since.
        area = build_space(sweep.spec, sweep.tuning, sweep.configurations)
    except errors.InputError as exc:
        raise errors.InputError(
            f"Cannot read the search space of sweep '{sweep.id}' (host "
            f"profile '{sweep.spec.host}'): {exc}"
        ) from exc
    store = store or sweep_store.open_store()
    stored_records = StoredSweeps(store)
    records = store.load_records(sweep.id)
    measured = schedule.collect_rates(records, sweep.size_bytes)
    valid: dict[str, list[RunRecord]] = {}
    for run_record in records:
        if run_record.valid and run_record.size_bytes == sweep.size_bytes:
            valid.setdefault(run_record.configuration, []).append(run_record)
    corrected_rates = percentages.compute_percents(
        valid,
        valid.pop(BARE_METAL, []),
        collect_earlier(stored_records, records, sweep.size_bytes),
    ).corrected_rates
    search_records = store.load_records(run_id.format_search_name(sweep.id))
    if sweep.spec.strategy == ModelBased.name:
        measured = schedule.add_search(
            measured, search_records, sweep.size_bytes
        )
    run_seconds = None
    if parse_budget(sweep.spec.budget).hours is not None:
        # This may read many records of earlier sweeps.
        run_seconds = search_settings.compute_run_seconds(
            sweep, stored_records, search_records
        )
    strategy = _create_strategy(
        *(sweep, area, measured, corrected_rates),
        search_settings.build_settings(
            sweep, area, stored_records, search_records, run_seconds
        ),
        search_settings.count_remaining_runs(
            sweep, search_records, run_seconds
        ),
    )
    search = None
    if isinstance(strategy, ModelBased):
        search = strategy.get_search_status(measured)
    return SweepStatus(
        strategy,
        records,
        measured,
        _plan_workloads(
            sweep, sweep.spec, strategy, (records, search_records), measured
        ),
        corrected_rates,
        strategy.choose(measured, corrected_rates),
        stored_records,
        search_records,
        search,
    )


def _plan_workloads(
    sweep: Sweep,
    spec: SweepSpec,
    strategy: Strategy,
    records: tuple[Sequence[RunRecord], Sequence[RunRecord]],
    measured: MeasuredRates,
) -> list[list[Step]]:
    """Return the next workloads of a sweep.

    :param sweep: sweep with a strategy.
    :param spec: specification of the sweep.
    :param strategy: strategy of the sweep.
    :param records: records of the sweep, and those of its search.
    :param measured: rates of the sweep with those of its search.
    """
    if isinstance(strategy, ModelBased):
        search = strategy.get_search_status(measured)
        if search is not None and search.next_configuration is not None:
            return schedule.plan_search(
                search.next_configuration,
                records[1],
                sweep.size_bytes,
                spec.runs_per_cluster,
            )
    return schedule.plan_workloads(
        strategy,
        records[0],
        sweep.size_bytes,
        sweep=sweep.id,
        measure_baseline=spec.measure_baseline,
        runs_per_cluster=spec.runs_per_cluster,
        measured=measured,
    )


def _check_tuning(sweep: Sweep, spec: SweepSpec, status: SweepStatus) -> None:
    """Refuse to continue with a tuning profile that has changed.

    :raises hvstack.errors.InputError: it has, and the sweep does not allow it.
    """
    if tuning_check.FACT not in spec.allow:
        tuning_check.check_unchanged(
            (*status.records, *status.search_records), f"sweep '{sweep.id}'"
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
    :raises hvstack.errors.InputError: the host profile or a tuning profile
        has changed since the start.
    :raises hvstack.errors.RunFailedError: a Rally task created no record.
    """
    # It reads each record once, not again before each run.
    store = sweep_store.open_store()
    while True:
        if sweep.spec is not None:
            host_profiles.check_unchanged(
                sweep.spec.host, sweep.spec.host_digest, f"sweep '{sweep.id}'"
            )
        kept_records.import_records(sweep.id, progress.say)
        status = load_status(sweep, store=store)
        assert sweep.spec
        if not status.workloads:
            sweep_store.finish_sweep(sweep)
            return status
        _check_tuning(sweep, sweep.spec, status)
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
                'sweep': run_id.format_search_name(sweep.id)
                if status.is_searching
                else sweep.id,
                'kit': sweep.spec.kit,
                # The runs of a search have no percentage.
                'baseline': '' if status.is_searching else sweep.spec.baseline,
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
        kept_records.import_records(sweep.id, progress.say)
        now = load_status(sweep, store=store)
        if on_step:
            on_step(status, now)
        counts = {
            schedule.count_progress(
                (*item.records, *item.search_records), status.workloads
            )
            for item in (status, now)
        }
        if len(counts) == 1:
            raise errors.RunFailedError(
                f"Sweep '{sweep.id}' made no progress: Rally stored no "
                "record. Read the log of Rally, then run 'hvstack sweep "
                f"resume {sweep.id}'."
            )
