# SPDX-License-Identifier: Apache-2.0
"""Scatter of earlier sweeps of the same workload on the same hosts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from hvstack.model.target import BARE_METAL
from hvstack.results import (
    baselines,
    comparability,
    estimator,
    percentages,
    run_id,
)
from hvstack.results.cloud_identity import CloudIdentity, are_elsewhere
from hvstack.results.estimator import History
from hvstack.results.passes import get_location
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import StoredSweeps

_ANY_CLOUD = CloudIdentity()


def collect_history(
    sweeps: Iterable[Sequence[RunRecord]],
    own_records: Sequence[RunRecord],
    ended_by: str = '',
) -> History:
    """Return the residuals of earlier sweeps, the newest first.

    A run counts if it agrees with a run of the sweep, of the same kind, in
    workload, size of the data, hosts, versions, and in all other facts that
    must agree between runs. The facts of guests are the same on the hosts of
    another site, so a sweep whose runs on bare metal had other hosts does not
    count, if both sweeps have such runs, and neither does a sweep on another
    cloud, if the records name both clouds. A record of the sweep itself, or
    of one of its clusters, is never part of the history, and a record without
    cluster and pass is not used. A search repeats the configurations that had
    high rates, so its records are not used either.

    No more sweeps are read than the history needs, and only one at a time.

    :param sweeps: records of any sweeps by sweep, the sweep with the run that
        started last first.
    :param own_records: records of the sweep, with its baseline.
    :param ended_by: time by which a run must have ended; empty for any time.
    """
    own_sweeps = {
        run_id.parse_sweep_id(record.sweep) for record in own_records
    }
    own_ids = {record.id for record in own_records}
    own_clusters = {record.observations.cluster for record in own_records}
    own_hosts = _list_bare_hosts(own_records)
    own_identities = list_identities(own_records)
    references = _list_references(own_records)
    results: dict[str, bool] = {}

    def is_comparable(record: RunRecord) -> bool:
        key = record.system_digest
        if key not in results:
            results[key] = any(
                _agrees(record, reference) for reference in references
            )
        return results[key]

    def select(stored: Sequence[RunRecord]) -> Iterator[RunRecord]:
        # Later runs must change nothing.
        records = [
            run for run in stored if not ended_by or run.ended <= ended_by
        ]
        hosts = _list_bare_hosts(records)
        if own_hosts and hosts and own_hosts.isdisjoint(hosts):
            return
        if are_elsewhere(list_identities(records), own_identities):
            return
        for record in records:
            if (
                not record.valid
                or run_id.parse_sweep_id(record.sweep) in own_sweeps
                or run_id.is_search(record.sweep)
                or record.id in own_ids
                or get_location(record) is None
                or record.observations.cluster in own_clusters
            ):
                continue
            if is_comparable(record):
                yield record

    if isinstance(sweeps, StoredSweeps):
        sweeps = sweeps.store.iter_sweeps(is_comparable, ended_by)

    history = History()
    for scatter in _sort_scatters(sweeps, select):
        if history.total.degrees >= estimator.MAX_HISTORY_DEGREES:
            break
        history += scatter
    return history


def collect_earlier(
    sweeps: Iterable[Sequence[RunRecord]],
    own_records: Sequence[RunRecord],
    size_bytes: int,
) -> History:
    """Return the residuals of the runs that ended before a sweep did.

    Later sweeps must not change the intervals of a sweep without new records.
    The time is that of its configurations: a baseline can be that of another
    sweep, and newer.

    :param sweeps: as in :func:`collect_history`.
    :param own_records: records of the sweep, with its baseline.
    :param size_bytes: size of the data of its rows in bytes. Runs of another
        size, such as the last one on bare metal of a quick sweep, belong to
        no row, and neither do those of earlier sweeps.
    """
    records = [r for r in own_records if r.size_bytes == size_bytes]
    configured = [r for r in records if r.kind == 'configuration']
    return collect_history(
        sweeps,
        records,
        max((r.ended for r in configured or records), default=''),
    )


def collect_recent(
    sweeps: Iterable[Sequence[RunRecord]],
    size_bytes: int,
    identity: CloudIdentity = _ANY_CLOUD,
) -> History:
    """Return the residuals of sweeps on the system of the newest run.

    :param sweeps: as in :func:`collect_history`; it is read twice.
    :param size_bytes: size of the data in bytes.
    :param identity: cloud of this run; any by default.
    """
    newest: RunRecord | None = None
    for records in sweeps:
        if newest and max(run.started for run in records) < newest.started:
            break
        for record in records:
            if (
                record.valid
                and record.kind == 'configuration'
                and record.size_bytes == size_bytes
                and record.observations.cloud.identity.matches(identity)
                and (newest is None or record.started >= newest.started)
            ):
                newest = record
    if newest is None:
        return History()
    # The sweep of the run itself counts.
    own_record = replace(
        newest,
        run=replace(newest.run, sweep='new'),
        id='',
        observations=replace(newest.observations, cluster=''),
    )
    return collect_history(sweeps, [own_record])


def _sort_scatters(
    sweeps: Iterable[Sequence[RunRecord]],
    select: Callable[[Sequence[RunRecord]], Iterable[RunRecord]],
) -> Iterator[History]:
    """Return the scatter of selected runs by sweep, the newest run's first.

    The order of the selected runs can differ from the order of all runs: a
    sweep waits until no other sweep can have a newer run.

    :param sweeps: as in :func:`collect_history`.
    :param select: returns the comparable records of a sweep.
    """
    waiting: list[tuple[str, History]] = []
    for records in sweeps:
        newest = max((record.started for record in records), default='')
        while waiting and waiting[0][0] >= newest:
            yield waiting.pop(0)[1]
        runs = list(select(records))
        if runs:
            started = max(run.started for run in runs)
            waiting.append((started, compute_scatter(runs)))
            waiting.sort(key=lambda item: item[0], reverse=True)
    for _, scatter in waiting:
        yield scatter


def compute_scatter(records: Sequence[RunRecord]) -> History:
    """Return the residuals of a sweep.

    :param records: records of its valid runs with cluster and pass.
    """
    rows: dict[str, list[RunRecord]] = {}
    for record in records:
        rows.setdefault(record.configuration, []).append(record)
    clusters = percentages.list_clusters(rows)
    return estimator.fit_sweep(clusters, BARE_METAL).own


def list_identities(records: Iterable[RunRecord]) -> set[CloudIdentity]:
    """Return the clouds of runs, as far as the records name them."""
    identities = {record.observations.cloud.identity for record in records}
    return identities - {CloudIdentity()}


def _list_bare_hosts(records: Iterable[RunRecord]) -> set[str]:
    """Return the names of the hosts of valid runs on bare metal.

    The names of the hosts of guests are IDs of Nova, which differ between
    projects and between deployments of the same machines.
    """
    return {
        name
        for record in records
        if record.valid and record.kind == 'baseline'
        for name in baselines.list_hosts(record)
    }


def _list_references(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return a record of each different system under test."""
    references = {
        record.system_digest: record for record in records if record.valid
    }
    return list(references.values())


def _agrees(record: RunRecord, reference: RunRecord) -> bool:
    """Return whether a run is one of the same kind on the same system."""
    return (
        record.kind == reference.kind
        and record.observations.hvstack == reference.observations.hvstack
        and not comparability.list_record_differences(
            record, reference, comparability.ALL_SWEPT
        )
    )
