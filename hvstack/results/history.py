# SPDX-License-Identifier: Apache-2.0
"""Scatter of earlier sweeps of the same workload on the same hosts."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from hvstack.model.target import BARE_METAL
from hvstack.results import comparability, estimator, percentages, run_id
from hvstack.results.estimator import History
from hvstack.results.passes import get_location
from hvstack.results.record_data import RunRecord


def collect_history(
    records: Iterable[RunRecord], own_records: Sequence[RunRecord]
) -> History:
    """Return the residuals of earlier sweeps, the newest first.

    A run counts if it agrees with a run of the sweep, of the same kind, in
    workload, size of the data, hosts, versions, and in all other facts that
    must agree between runs. A record of the sweep itself, or of one of its
    clusters, is never part of the history, and a record without cluster and
    pass is not used. A search repeats the configurations that had high rates,
    so its records are not used either.

    :param records: records of any sweeps.
    :param own_records: records of the sweep, with its baseline.
    """
    own_sweeps = {record.sweep for record in own_records}
    own_ids = {record.id for record in own_records}
    own_clusters = {record.observations.cluster for record in own_records}
    references = _list_references(own_records)
    sweeps: dict[str, list[RunRecord]] = {}
    is_comparable: dict[str, bool] = {}
    for record in records:
        if (
            not record.valid
            or record.sweep in own_sweeps
            or run_id.is_search(record.sweep)
            or record.id in own_ids
            or get_location(record) is None
            or record.observations.cluster in own_clusters
        ):
            continue
        key = _build_key(record)
        if key not in is_comparable:
            is_comparable[key] = any(
                _agrees(record, reference) for reference in references
            )
        if is_comparable[key]:
            sweeps.setdefault(record.sweep, []).append(record)
    history = History()
    newest_first = sorted(
        sweeps.values(),
        key=lambda runs: max(run.started for run in runs),
        reverse=True,
    )
    for runs in newest_first:
        if history.total.degrees >= estimator.MAX_HISTORY_DEGREES:
            break
        history += compute_scatter(runs)
    return history


def collect_recent(records: Sequence[RunRecord], size_bytes: int) -> History:
    """Return the residuals of sweeps on the system of the newest run.

    :param records: records of any sweeps, sorted by start time.
    :param size_bytes: size of the data in bytes.
    """
    for record in reversed(records):
        if (
            record.valid
            and record.kind == 'configuration'
            and record.size_bytes == size_bytes
        ):
            # The sweep of the run itself counts.
            run = replace(record.run, sweep='new')
            return collect_history(
                records,
                [
                    replace(
                        record,
                        run=run,
                        id='',
                        observations=replace(record.observations, cluster=''),
                    )
                ],
            )
    return History()


def compute_scatter(records: Sequence[RunRecord]) -> History:
    """Return the residuals of a sweep.

    :param records: records of its valid runs with cluster and pass.
    """
    rows: dict[str, list[RunRecord]] = {}
    for record in records:
        rows.setdefault(record.configuration, []).append(record)
    clusters = percentages.list_clusters(rows)
    return estimator.fit_sweep(clusters, BARE_METAL).own


def _list_references(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return a record of each different system under test."""
    references = {
        _build_key(record): record for record in records if record.valid
    }
    return list(references.values())


def _build_key(record: RunRecord) -> str:
    """Return the facts of a run that decide whether it is comparable."""
    facts: list[Any] = [
        record.kind,
        [getattr(record, name) for name in comparability.WORKLOAD],
        dict(record.sut.facts),
        record.observations.hvstack,
    ]
    return json.dumps(facts, sort_keys=True)


def _agrees(record: RunRecord, reference: RunRecord) -> bool:
    """Return whether a run is one of the same kind on the same system."""
    return (
        record.kind == reference.kind
        and record.observations.hvstack == reference.observations.hvstack
        and not comparability.list_record_differences(
            record, reference, comparability.ALL_SWEPT
        )
    )
