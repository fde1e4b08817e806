# SPDX-License-Identifier: Apache-2.0
"""Rows of the report of a study: the valid runs of each variant, and a fit.

The estimator is that of a sweep: effects of variants and passes by least
squares on log rates, with the cluster as the unit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hvstack.model.target import BareMetal
from hvstack.results import comparability, compute_hosts, estimator
from hvstack.results.estimator import ClusterRate, SweepFit
from hvstack.results.passes import require_location
from hvstack.results.record_data import RunRecord
from hvstack.results.workload_types import WorkloadType
from hvstack.study.claims import AGENTS_RATE, Claim
from hvstack.study.study_store import StartedStudy, StudyRecords
from hvstack.study.variants import Variant


@dataclass(frozen=True)
class VariantRow:
    """Results of a variant.

    :param variant: the variant.
    :param size_bytes: size of the data in bytes.
    :param valid: valid runs.
    :param reason: why the variant was not measured or failed; empty if it was
        measured.
    """

    variant: Variant
    size_bytes: int
    valid: tuple[RunRecord, ...] = ()
    reason: str = ''

    @property
    def seconds(self) -> dict[str, float]:
        """Mean seconds of each phase that a claim can name."""
        return {
            name: self._average(
                [_sum_seconds(run, name) for run in self.valid]
            )
            for name in self.variant.workload.timed_phases
            if self.valid
        }

    @property
    def reported(self) -> dict[str, float]:
        """Mean values that the programs report, by measure."""
        return {
            value.measure: self._average(
                [_find_reported(run, value.phase) for run in self.valid]
            )
            for value in self.variant.workload.reported
            if self.valid
        }

    @staticmethod
    def _average(values: Sequence[float]) -> float:
        return math.fsum(values) / len(values)

    @property
    def total_seconds(self) -> float | None:
        """Mean seconds of a run; None without a run."""
        if not self.valid:
            return None
        total = math.fsum(run.total_seconds for run in self.valid)
        return total / len(self.valid)


@dataclass(frozen=True, kw_only=True)
class VariantNumbers:
    """Numbers of a variant that are measured or published.

    :param variant: name of the variant.
    :param source: where the numbers are published; empty for measured ones.
    """

    variant: str
    source: str = ''

    @property
    def label(self) -> str:
        """Name of the variant, and the source of published numbers."""
        return (
            f'{self.variant} ({self.source})' if self.source else self.variant
        )


@dataclass(frozen=True)
class Quantity:
    """Rate of the runs of a workload, by which variants are compared.

    :param workload: workload of the runs.
    :param phase: name of the phase; empty for the whole run.
    :param is_reported: whether it is the value that the program of the phase
        reports, and not data by time.
    :param is_of_agents: whether the time is the CPU time of the agents and
        switches of the compute hosts.
    """

    workload: WorkloadType
    phase: str = ''
    is_reported: bool = False
    is_of_agents: bool = False

    def compute(self, run: RunRecord) -> float:
        """Return the rate of a run; 0 if it has none."""
        if self.is_reported:
            return _find_reported(run, self.phase)
        seconds = (
            _sum_agents(run)
            if self.is_of_agents
            else _sum_seconds(run, self.phase)
        )
        return run.size_bytes / seconds if seconds > 0 else 0.0


def get_quantity(claim: Claim, variant: Variant) -> Quantity:
    """Return the rate that a claim is about.

    :param variant: variant of the claim.
    """
    value = variant.workload.find_reported(claim.measure)
    if value is None:
        return Quantity(
            variant.workload,
            claim.phase,
            is_of_agents=claim.measure == AGENTS_RATE,
        )
    return Quantity(variant.workload, value.phase, is_reported=True)


def _sum_seconds(run: RunRecord, name: str) -> float:
    """Return the seconds of a phase; those of the run without a name."""
    if not name:
        return run.total_seconds
    return math.fsum(
        phase.seconds for phase in run.phases if phase.name == name
    )


def _sum_agents(run: RunRecord) -> float:
    """Return the CPU seconds of the agents; 0 if they were not measured."""
    observed = run.observations.compute_hosts
    if observed is None or not observed.hosts:
        return 0.0
    uses = [host.run for host in observed.hosts.values()]
    return compute_hosts.sum_uses(uses).agents or 0.0


def _find_reported(run: RunRecord, name: str) -> float:
    """Return the value that a phase reported; 0 without any."""
    for phase in run.phases:
        if phase.name == name and phase.reported is not None:
            return phase.reported
    return 0.0


def build_row(
    started: StartedStudy, stored: StudyRecords, variant: Variant
) -> VariantRow:
    """Return the row of a variant: its valid runs with data of its size.

    :param started: the started study.
    :param stored: records of the study.
    """
    size = started.study.get_size(variant)
    reason = started.skipped.get(variant.name, '') or stored.failed.get(
        variant.name, ''
    )
    valid = [
        run
        for run in stored.records.get(variant.name, [])
        if run.valid and run.size_bytes == size
    ]
    for run in valid[1:]:
        lines = comparability.list_record_differences(run, valid[0])
        if lines and not reason:
            reason = f'Its runs are not comparable: {"; ".join(lines)}'
    return VariantRow(variant, size, tuple(valid), reason)


def fit_rates(
    rows: Sequence[VariantRow], quantity: Quantity
) -> SweepFit | None:
    """Return the effects of the variants of a workload on a rate.

    :param quantity: rate that is compared; variants with other workloads are
        ignored.
    :returns: None without a valid run.
    :raises hvstack.errors.InputError: a record does not contain its cluster
        and its pass.
    """
    clusters = [
        ClusterRate(
            row.variant.name,
            run.index,
            math.log(quantity.compute(run)),
            datetime.fromisoformat(run.started).timestamp() / 3600,
        )
        for row in rows
        if not row.reason and row.variant.workload is quantity.workload
        for run in row.valid
        # A cluster is a run: every run of a study has a new one.
        if require_location(run) and quantity.compute(run) > 0
    ]
    if not clusters:
        return None
    bare_rows = [
        row.variant.name
        for row in rows
        if isinstance(row.variant.target, BareMetal)
    ]
    # The estimator separates the scatter of one row from that of all others.
    return estimator.fit_sweep(
        clusters, bare_rows[0] if len(bare_rows) == 1 else None
    )
