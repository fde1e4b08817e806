# SPDX-License-Identifier: Apache-2.0
"""Percent of bare metal from run records: the same in report and evidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hvstack.results import stats
from hvstack.results.record import Record
from hvstack.results.stats import Drift, DriftCorrectedRates, Percent

#: Maximum number of attempts of a run. A run that was killed because it ran
#: out of memory is not repeated: it would be killed again.
MAX_TRIES = 2


@dataclass(frozen=True)
class Percents:
    """Percent of bare metal of a sweep.

    :param corrected_rates: rates, corrected for the drift where possible.
    :param drift: drift of bare metal, even if it is not corrected; None with
        too few runs.
    :param rows: percentages by configuration; empty without a baseline.
    """

    corrected_rates: DriftCorrectedRates
    drift: Drift | None
    rows: dict[str, Percent]


def compute_percents(
    rows: Mapping[str, Sequence[Record]], base: Sequence[Record]
) -> Percents:
    """Compute the percentages of configurations.

    :param rows: records of the valid runs by configuration.
    :param base: records of the valid runs on bare metal.
    """
    rates = {name: [run.rate for run in runs] for name, runs in rows.items()}
    hours = {name: _list_start_hours(runs) for name, runs in rows.items()}
    base_rates = [run.rate for run in base]
    drift = stats.fit_drift(_list_start_hours(base), base_rates)
    return Percents(
        stats.correct_drift(rates, base_rates, drift, hours),
        drift,
        stats.compute_percents(rates, base_rates, drift, hours)
        if base
        else {},
    )


def list_settled(records: Iterable[Record], size_bytes: int) -> list[Record]:
    """Return a record for each run that is valid or failed for good."""
    runs: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        if record.size_bytes == size_bytes:
            runs.setdefault((record.configuration, record.index), []).append(
                record
            )
    settled_records = []
    for tries in runs.values():
        valid = [attempt for attempt in tries if attempt.valid]
        if valid:
            settled_records.append(valid[0])
        elif len(tries) >= MAX_TRIES or tries[-1].seen.get('killed'):
            settled_records.append(tries[-1])
    return sorted(
        settled_records, key=lambda record: (record.started, record.index)
    )


def list_excluded(
    records: Iterable[Record], size_bytes: int
) -> frozenset[str]:
    """Return the names of configurations with a run that failed for good."""
    return frozenset(
        record.configuration
        for record in list_settled(records, size_bytes)
        if not record.valid and record.kind != 'baseline'
    )


def _list_start_hours(runs: Sequence[Record]) -> list[float]:
    """Return the start times of runs in hours."""
    return [
        datetime.fromisoformat(run.started).timestamp() / 3600 for run in runs
    ]
