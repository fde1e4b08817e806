# SPDX-License-Identifier: Apache-2.0
"""Times of runs and of clusters from records."""

import statistics
from collections.abc import Iterable

from hvstack.results import record
from hvstack.results.record_data import RunRecord
from hvstack.results.workload_types import TPCX_HS

#: Maximum number of runs for an estimate: more runs hardly change a median.
MAX_TIMED_RUNS = 1000


def compute_median_times(
    records: Iterable[RunRecord],
    size_bytes: int,
    max_runs: int | None = None,
    workload: str = TPCX_HS.name,
) -> tuple[float | None, float | None]:
    """Return median seconds of a run and of a change of the cluster.

    :param records: records of any sweeps, those of a sweep sorted by start
        time.
    :param size_bytes: size of the data in bytes; runs of other sizes are
        ignored.
    :param max_runs: number of runs after which no further sweep is read;
        None reads all records.
    :param workload: name of the workload; runs of other workloads are
        ignored.
    :returns: seconds of a run, and seconds between the last run on a cluster
        and the first run on the next; None without records.
    """
    runs: list[float] = []
    gaps: list[float] = []
    by_sweep: dict[str, RunRecord] = {}
    for run_record in records:
        is_enough = max_runs is not None and len(runs) >= max_runs
        if is_enough and run_record.sweep not in by_sweep:
            break
        if run_record.valid and (
            run_record.size_bytes,
            run_record.sut.workload,
        ) == (size_bytes, workload):
            runs.append(run_record.total_seconds)
        last = by_sweep.get(run_record.sweep)
        if last is not None and _is_other_cluster(last, run_record):
            gaps.append(
                record.compute_seconds_between(last.ended, run_record.started)
            )
        by_sweep[run_record.sweep] = run_record
    return (
        statistics.median(runs) if runs else None,
        statistics.median(gaps) if gaps else None,
    )


def _is_other_cluster(last: RunRecord, run_record: RunRecord) -> bool:
    """Return whether two runs were measured on different clusters."""
    if last.configuration != run_record.configuration:
        return True
    clusters = [item.observations.cluster for item in (last, run_record)]
    return all(clusters) and clusters[0] != clusters[1]
