# SPDX-License-Identifier: Apache-2.0
"""Settings of the search of a sweep from records and from its budget."""

from collections.abc import Iterable, Sequence

from hvstack.results import run_id
from hvstack.results.history import collect_history
from hvstack.results.record_data import RunRecord
from hvstack.sweep.budget import parse_budget
from hvstack.sweep.rate_search import MAX_RUNS, SearchSettings
from hvstack.sweep.run_times import (
    MAX_TIMED_RUNS,
    compute_median_times,
    iter_records_of_cloud,
)
from hvstack.sweep.search_space import Space
from hvstack.sweep.strategies import count_confirmation_runs
from hvstack.sweep.sweep_store import Sweep


def compute_run_seconds(
    sweep: Sweep,
    stored_records: Iterable[Sequence[RunRecord]],
    search_records: Sequence[RunRecord],
) -> float | None:
    """Return the median seconds of a run of a search with its new cluster.

    They must not change when the search is finished, so only the search and
    the newest sweeps that were measured before it on its cloud and with its
    backend count.

    :param sweep: sweep with a strategy.
    :param stored_records: records of all sweeps by sweep, the newest first.
    :param search_records: records of the search.
    :returns: None if no run is known.
    """
    assert sweep.spec is not None
    run, setup = compute_median_times(search_records, sweep.size_bytes)
    if run is None or setup is None:
        earlier_records = (
            run_record
            for run_record in iter_records_of_cloud(
                stored_records, sweep.spec.cloud, sweep.started
            )
            if run_id.parse_sweep_id(run_record.sweep) != sweep.id
        )
        earlier_run, earlier_setup = compute_median_times(
            earlier_records,
            sweep.size_bytes,
            MAX_TIMED_RUNS,
            backend=sweep.spec.backend,
        )
        run = earlier_run if run is None else run
        setup = earlier_setup if setup is None else setup
    return None if run is None else run + (setup or 0.0)


def count_remaining_runs(
    sweep: Sweep,
    search_records: Sequence[RunRecord],
    run_seconds: float | None,
) -> int | None:
    """Return the number of runs that the search leaves for the confirmation.

    :param sweep: sweep with a strategy.
    :param search_records: records of the search.
    :param run_seconds: as in :func:`compute_run_seconds`.
    :returns: None without a budget, or if the time of a run is not known yet.
    """
    assert sweep.spec is not None
    runs = parse_budget(sweep.spec.budget).count_runs(run_seconds)
    return None if runs is None else runs - len(search_records)


def build_settings(
    sweep: Sweep,
    area: Space,
    stored_records: Iterable[Sequence[RunRecord]],
    search_records: Sequence[RunRecord],
    run_seconds: float | None,
) -> SearchSettings:
    """Return the settings of the search of a sweep.

    They must not change when the search is finished, so only sweeps that were
    measured before it count for the scatter.

    :param sweep: sweep with a strategy.
    :param area: search space with its possible configurations.
    :param stored_records: records of all sweeps by sweep.
    :param search_records: records of the search.
    :param run_seconds: as in :func:`compute_run_seconds`.
    """
    spec = sweep.spec
    assert spec is not None
    failed_runs = sum(not record.valid for record in search_records)
    max_runs = parse_budget(spec.budget).count_clusters(
        # Failed runs have taken their time, too.
        failed_runs
        + count_confirmation_runs(
            len(area.possible),
            sweep.runs,
            measure_baseline=spec.measure_baseline,
        ),
        spec.runs_per_cluster,
        run_seconds,
    )
    return SearchSettings(
        sweep.id,
        collect_history(stored_records, search_records, sweep.started).guests,
        MAX_RUNS if max_runs is None else min(MAX_RUNS, max_runs),
    )
