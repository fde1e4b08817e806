# SPDX-License-Identifier: Apache-2.0
"""Rows of the report of a study: the valid runs of each variant, and a fit.

The estimator is that of a sweep: effects of variants and passes by least
squares on log rates, with the cluster as the unit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hvstack.results import comparability, estimator
from hvstack.results.estimator import ClusterRate, SweepFit
from hvstack.results.passes import require_location
from hvstack.results.record_data import RunRecord
from hvstack.study.definition import PHASES
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
            name: math.fsum(map(_PhaseTime(name), self.valid))
            / len(self.valid)
            for name in PHASES
            if self.valid
        }

    @property
    def total_seconds(self) -> float | None:
        """Mean seconds of a run; None without a run."""
        if not self.valid:
            return None
        total = math.fsum(run.total_seconds for run in self.valid)
        return total / len(self.valid)


@dataclass(frozen=True)
class _PhaseTime:
    """Function that returns the seconds of a phase of a run.

    :param phase: name of the phase; empty for the whole run.
    """

    phase: str

    def __call__(self, run: RunRecord) -> float:
        if not self.phase:
            return run.total_seconds
        return math.fsum(
            phase.seconds for phase in run.phases if phase.name == self.phase
        )


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


def fit_rates(rows: Sequence[VariantRow], phase: str) -> SweepFit | None:
    """Return the effects of the variants on the rate of a phase.

    :param phase: name of the phase; empty for the whole run.
    :returns: None without a valid run.
    :raises hvstack.errors.InputError: a record does not contain its cluster
        and its pass.
    """
    get_seconds = _PhaseTime(phase)
    clusters = [
        ClusterRate(
            row.variant.name,
            run.index,
            math.log(run.size_bytes / get_seconds(run)),
            datetime.fromisoformat(run.started).timestamp() / 3600,
        )
        for row in rows
        if not row.reason
        for run in row.valid
        # A cluster is a run: every run of a study has a new one.
        if require_location(run) and get_seconds(run) > 0
    ]
    return estimator.fit_sweep(clusters) if clusters else None
