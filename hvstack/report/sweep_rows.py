# SPDX-License-Identifier: Apache-2.0
"""Rows of a report: the runs of each configuration, and those on bare metal.

A row has a status, which says whether its runs can be compared with bare
metal, and the reasons why they cannot.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace

from hvstack.model import compute_backends
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL
from hvstack.results import comparability, run_id, stats
from hvstack.results.observations import Observations
from hvstack.results.record_data import RunRecord
from hvstack.results.stats import Percent
from hvstack.results.typed_json import Json

#: Replaces the percentage of a run with emulated CPUs.
EMULATED = 'emulated, not compared'

#: Replaces the percentage of a run of a search.
SEARCH = 'search, no percentage'

#: Phases in the order of a run.
PHASES = ('HSGen', 'HSDataCheck', 'HSSort', 'HSDataCheck 2', 'HSValidate')


@dataclass
class Row:
    """Results of a configuration or of bare metal.

    :param configuration: full name of the configuration.
    :param label: short name of the configuration.
    :param status: ``ok``, ``failed``, ``not comparable``, ``no baseline``,
        :data:`EMULATED` or :data:`SEARCH`.
    :param valid: records of the valid runs.
    :param failed: records of the other runs.
    :param reasons: reasons why runs failed or cannot be compared.
    :param percent: percent of bare metal; None without a comparison.
    """

    configuration: str
    label: str
    status: str
    valid: list[RunRecord]
    failed: list[RunRecord]
    reasons: list[str] = field(default_factory=list)
    percent: Percent | None = None

    @property
    def seconds(self) -> dict[str, float]:
        """Mean seconds of each phase over the valid runs."""
        return compute_mean_seconds(self.valid)

    @property
    def total_seconds(self) -> float | None:
        """Mean elapsed seconds of the valid runs."""
        if not self.valid:
            return None
        return math.fsum(r.total_seconds for r in self.valid) / len(self.valid)

    @property
    def rate(self) -> float | None:
        """Geometric mean of the valid runs' rates, TB an hour."""
        if not self.valid:
            return None
        logs = [math.log(record.rate) for record in self.valid]
        return math.exp(math.fsum(logs) / len(logs))

    @property
    def title(self) -> str:
        """Label, followed by the type of storage of the volumes, if any."""
        storages = {
            record.sut.storage
            for record in self.valid or self.failed
            if record.sut.storage
        }
        if not storages:
            return self.label
        return f'{self.label} ({" or ".join(sorted(storages))})'

    @property
    def observed(self) -> Observations:
        """Facts that were observed in the last run."""
        last = (self.valid or self.failed)[-1:]
        return last[0].observations if last else Observations()

    @property
    def verdict(self) -> str:
        """Conclusion about the difference to bare metal."""
        if self.status != 'ok':
            return self.status
        if self.configuration == BARE_METAL:
            return 'the reference'
        return stats.describe(self.percent)


def compute_mean_seconds(records: Sequence[RunRecord]) -> dict[str, float]:
    """Return the mean seconds of each phase, in the order of a run."""
    sums: dict[str, list[float]] = {}
    for record in records:
        for name, seconds in record.phase_seconds().items():
            sums.setdefault(name, []).append(seconds)
    return {
        name: math.fsum(values) / len(values) for name, values in sums.items()
    }


def build_rows(
    records: Sequence[RunRecord],
    baseline: list[RunRecord],
    allow: Collection[str],
) -> list[Row]:
    """Return the rows of the configurations, without their percentages.

    :param records: records of runs of configurations.
    :param baseline: record of a run on bare metal; empty without a run.
    :param allow: facts that may differ.
    """
    rows = _group_rows(records)
    valid = [record for record in records if record.valid]
    if records:
        reference_record = comparability.find_reference_record(
            [record for record in valid if not is_emulated(record)]
            or valid
            or records
        )
        for row in rows:
            _set_status(row, baseline, reference_record, allow)
    return rows


def _group_rows(records: Iterable[RunRecord]) -> list[Row]:
    """Group the runs by configuration, in the order of their first run."""
    rows: dict[str, Row] = {}
    for record in records:
        name = record.configuration
        row = rows.setdefault(name, Row(name, parse(name).label, '', [], []))
        (row.valid if record.valid else row.failed).append(record)
    return list(rows.values())


def _set_status(
    row: Row,
    baseline: list[RunRecord],
    reference_record: RunRecord,
    allow: Collection[str],
) -> None:
    """Set the status of a row and the reasons for it.

    :param baseline: record of a run on bare metal; empty without a run.
    :param allow: facts that may differ.
    :param reference_record: run that agrees with most configurations' runs.
    """
    row.reasons = list(dict.fromkeys(record.reason for record in row.failed))
    if not row.valid:
        row.status = 'failed'
        return
    if any(map(is_emulated, row.valid)):
        row.status = EMULATED
        return
    if any(run_id.is_search(record.sweep) for record in row.valid):
        row.status = SEARCH
        return
    if not baseline:
        row.status = 'no baseline'
        return
    differences = comparability.list_row_differences(
        row.valid, baseline[0], reference_record, allow
    )
    row.status = 'not comparable' if differences else 'ok'
    row.reasons += dict.fromkeys(differences)


def is_emulated(record: RunRecord) -> bool:
    """Return whether the guests of a run had emulated CPUs."""
    return compute_backends.is_emulated(record.sut.backend)


def build_bare_metal_row(
    baseline: list[RunRecord], corrected_rates: stats.CorrectedRates
) -> Row:
    """Return the row of bare metal with its percentage.

    :param baseline: runs on bare metal with the data of the sweep.
    :param corrected_rates: rates of the sweep.
    """
    good = [record for record in baseline if record.valid]
    bad = [record for record in baseline if not record.valid]
    row = Row(BARE_METAL, 'bare metal', 'ok' if good else 'failed', good, bad)
    row.reasons = list(dict.fromkeys(record.reason for record in bad))
    if good:
        percent = corrected_rates.compute_bare_metal()
        row.percent = replace(percent, runs=len(good), baseline_runs=len(good))
    return row


def explain_unselected(rows: Iterable[Row], configuration: str) -> str:
    """Return why the answer of a search is not selected, without a period.

    :param rows: rows of the report.
    :param configuration: full name of the answer.
    """
    for row in rows:
        if row.configuration == configuration:
            reasons = '; '.join(row.reasons) or row.status
            return reasons.removesuffix('.')
    return 'it has no run there yet'


def to_percent_mapping(row: Row | None) -> Json:
    """Return the percentage of a row as plain data; None without any."""
    if row is not None and row.percent:
        return asdict(row.percent)
    return EMULATED if row is not None and row.status == EMULATED else None
