# SPDX-License-Identifier: Apache-2.0
"""Times of runs and of clusters from records."""

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hvstack.results import cloud_identity, history, record, run_id
from hvstack.results.later_changes import LaterChange
from hvstack.results.record_data import RunRecord
from hvstack.results.workload_types import TPCX_HS

#: Maximum number of runs for an estimate: more runs hardly change a median.
MAX_TIMED_RUNS = 1000


def iter_records_of_cloud(
    sweeps: Iterable[Sequence[RunRecord]], cloud: str, ended_by: str = ''
) -> Iterator[RunRecord]:
    """Read records, without those of sweeps on other clouds.

    A run takes another time on other hosts, and several clouds can share a
    store of records.

    :param sweeps: records of any sweeps by sweep.
    :param cloud: URL and region of the cloud; empty reads all records, as
        does a sweep whose records name no cloud.
    :param ended_by: time by which a run must have ended; empty for any time.
    """
    own = [cloud_identity.parse_cloud(cloud)]
    for stored in sweeps:
        records = [
            run for run in stored if not ended_by or run.ended <= ended_by
        ]
        if not cloud_identity.are_elsewhere(
            history.list_identities(records), own
        ):
            yield from records


def compute_median_times(
    records: Iterable[RunRecord],
    size_bytes: int,
    max_runs: int | None = None,
    workload: str = TPCX_HS.name,
    backend: str | None = None,
) -> tuple[float | None, float | None]:
    """Return median seconds of a run and of a change of the cluster.

    The runs of a study, and those of both sides of trials, have several
    sweeps that take turns.

    :param records: records of any sweeps, sweep by sweep.
    :param size_bytes: size of the data in bytes; runs of other sizes are
        ignored.
    :param max_runs: number of runs after which no further sweep is read;
        None reads all records.
    :param workload: name of the workload; runs of other workloads are
        ignored.
    :param backend: name of the compute backend; guests of other backends are
        ignored; None ignores none.
    :returns: seconds of a run, and seconds between the last run on a cluster
        and the first run on the next; None without records.
    """
    runs: list[float] = []
    by_execution: dict[str, list[_Span]] = {}
    for run_record in records:
        is_enough = max_runs is not None and len(runs) >= max_runs
        execution = run_id.parse_execution_id(run_record.sweep)
        if is_enough and execution not in by_execution:
            break
        # The runs of another backend separate those of bare metal.
        is_counted = backend is None or is_of_backend(run_record, backend)
        if (is_counted and run_record.valid) and (
            run_record.size_bytes,
            run_record.sut.workload,
        ) == (size_bytes, workload):
            runs.append(run_record.total_seconds)
        by_execution.setdefault(execution, []).append(
            _Span(
                *(run_record.started, run_record.ended),
                *(run_record.configuration, run_record.observations.cluster),
                *(_sum_later_seconds(run_record), is_counted),
            )
        )
    gaps = [
        record.compute_seconds_between(last.ended, span.started)
        - last.later_seconds
        for spans in by_execution.values()
        for last, span in itertools.pairwise(sorted(spans))
        if last.is_counted and span.is_counted
        if _is_other_cluster(last, span)
    ]
    return (
        statistics.median(runs) if runs else None,
        statistics.median(gaps) if gaps else None,
    )


def compute_time_bounds(
    records: Iterable[RunRecord],
    size_bytes: int,
    max_runs: int,
    workload: str,
    backend: str,
) -> tuple[float, float] | None:
    """Return bounds of the seconds of a run by runs of the nearest other size.

    A run has parts that do not depend on its data, such as the start of its
    jobs, and parts that are proportional to them: its time changes with the
    data, at most in proportion.

    :param records: records of any sweeps.
    :param size_bytes: size of the data in bytes.
    :param max_runs: number of runs after which no further record is read.
    :param workload: name of the workload; runs of other workloads are
        ignored.
    :param backend: name of the compute backend; guests of other backends are
        ignored.
    :returns: lower and upper bound; None without a run of the workload.
    """
    by_size: dict[int, list[float]] = {}
    matching = (
        run_record
        for run_record in records
        if run_record.valid
        and run_record.sut.workload == workload
        and is_of_backend(run_record, backend)
    )
    for run_record in itertools.islice(matching, max_runs):
        by_size.setdefault(run_record.size_bytes, []).append(
            run_record.total_seconds
        )
    if not by_size:
        return None
    nearest = min(
        by_size, key=lambda size: (abs(math.log(size / size_bytes)), size)
    )
    seconds = statistics.median(by_size[nearest])
    low, high = sorted((seconds, seconds * size_bytes / nearest))
    return low, high


def is_of_backend(run_record: RunRecord, backend: str) -> bool:
    """Return whether a run is one of bare metal or of a backend.

    Emulated CPUs are many times slower. Failed runs without a backend count,
    since their time is not that between two clusters.

    :param run_record: record of the run.
    :param backend: name of the compute backend.
    """
    return run_record.kind == 'baseline' or run_record.sut.backend in (
        None,
        backend,
    )


def compute_median_change_seconds(
    records: Iterable[RunRecord], kind: type[LaterChange]
) -> float | None:
    """Return the median seconds of a kind of changes after runs.

    :param records: records of any sweeps.
    :param kind: class of the changes.
    :returns: None without any.
    """
    seconds = [
        change.seconds
        for run_record in records
        for change in run_record.observations.later_changes
        if isinstance(change, kind)
    ]
    return statistics.median(seconds) if seconds else None


def _sum_later_seconds(run_record: RunRecord) -> float:
    """Return the seconds of all changes of the cluster after a run."""
    return math.fsum(
        change.seconds for change in run_record.observations.later_changes
    )


class _Span(NamedTuple):
    """Time of a run, without its record, which is large."""

    started: str
    ended: str
    configuration: str
    cluster: str
    #: Seconds of what follows the run on its cluster.
    later_seconds: float = 0.0
    is_counted: bool = True


def _is_other_cluster(last: _Span, span: _Span) -> bool:
    """Return whether two runs were measured on different clusters."""
    if last.configuration != span.configuration:
        return True
    clusters = last.cluster, span.cluster
    return all(clusters) and last.cluster != span.cluster
