# SPDX-License-Identifier: Apache-2.0
"""Comparison of two sweeps, such as before and after an upgrade."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field

from hvstack.report.sweep_report import SweepReport
from hvstack.report.sweep_rows import (
    EMULATED,
    SEARCH,
    Row,
    to_percent_mapping,
)
from hvstack.results import comparability, percentages, quantiles, stats
from hvstack.results.record_data import RunRecord
from hvstack.results.stats import Percent
from hvstack.results.typed_json import Json, JsonObject

#: Ends each reason why a row cannot be compared.
REMEDY = 'if it was changed on purpose, name it with --changed'


@dataclass
class ConfigurationDelta:
    """Change of the rate of a configuration, or of bare metal.

    :param before: row of the earlier sweep; None without any.
    :param after: row of the later sweep; None without any.
    :param reasons: reasons why the rows cannot be compared.
    :param percent: rate after in percent of the rate before.
    """

    label: str
    before: Row | None
    after: Row | None
    reasons: list[str] = field(default_factory=list)
    percent: Percent | None = None

    @property
    def verdict(self) -> str:
        """Conclusion about the difference."""
        if self.percent is None:
            return 'not compared'
        return stats.describe(self.percent)

    @property
    def kind(self) -> str:
        """Conclusion without numbers, to count the rows."""
        if self.percent is None:
            return self.verdict
        return stats.classify(self.percent)


@dataclass(frozen=True)
class Comparison:
    """Comparison of two sweeps.

    :param before: report of the earlier sweep.
    :param after: report of the later sweep.
    :param changed: facts that were changed on purpose.
    :param pooled: variance within the compared rows of both sweeps.
    """

    before: SweepReport
    after: SweepReport
    changed: tuple[str, ...]
    deltas: list[ConfigurationDelta]
    pooled: stats.Pooled

    @property
    def headline(self) -> str:
        """Summary of the comparison in one sentence."""
        verdicts = [delta.kind for delta in self.deltas]
        counts = ', '.join(
            f'{verdicts.count(name)} {name}'
            for name in dict.fromkeys(verdicts)
        )
        return (
            f'{self.after.sweep} against {self.before.sweep}: {counts} '
            f'of {len(verdicts)} rows.'
        )

    @property
    def notes(self) -> list[str]:
        """Notes that every form of the comparison must contain."""
        lines = [
            f'{name}: {_get_value(self.before, name)} before, '
            f'{_get_value(self.after, name)} after.'
            for name in self.changed
        ]
        before, after = self.before.notes, self.after.notes
        lines += [note for note in before if note in after]
        return lines + [
            f'{report.sweep}: {note}'
            for report, notes, others in (
                (self.before, before, after),
                (self.after, after, before),
            )
            for note in notes
            if note not in others
        ]


def build_comparison(
    before: SweepReport, after: SweepReport, changed: Collection[str]
) -> Comparison:
    """Compare two sweeps row by row.

    The intervals of all rows hold together (Bonferroni), because the
    comparison names those that are slower or faster.

    :param changed: facts that may differ between the sweeps.
    :raises hvstack.errors.InputError: a name is not that of a fact.
    """
    changed = comparability.check_fact_names(
        changed, [*before.records, *after.records], '--changed'
    )
    rows = {row.configuration: row for row in before.rows}
    later = {row.configuration: row for row in after.rows}
    deltas = []
    for name in rows | later:
        earlier_row, later_row = rows.get(name), later.get(name)
        label = (earlier_row or later_row or before.rows[0]).label
        delta = ConfigurationDelta(label, earlier_row, later_row)
        delta.reasons = _list_obstacles(
            earlier_row, later_row, frozenset(changed)
        )
        deltas.append(delta)
    good = [delta for delta in deltas if not delta.reasons]
    pooled = stats.pool_variance(
        [_rates(row) for delta in good for row in (delta.before, delta.after)]
    )
    for delta in good:
        delta.percent = stats.compute_ratio(
            _rates(delta.after), _rates(delta.before), pooled, len(good)
        )
    return Comparison(before, after, tuple(changed), deltas, pooled)


def to_mapping(comparison: Comparison) -> JsonObject:
    """Return a comparison as plain data."""
    return {
        'before': comparison.before.sweep,
        'after': comparison.after.sweep,
        'changed': list(comparison.changed),
        'headline': comparison.headline,
        'notes': comparison.notes,
        'pooled': asdict(comparison.pooled),
        'confidence': quantiles.CONFIDENCE,
        'rows': [
            {
                'label': delta.label,
                'verdict': delta.verdict,
                'reasons': delta.reasons,
                'after_in_percent_of_before': asdict(delta.percent)
                if delta.percent
                else None,
                'percent_of_bare_metal': [
                    to_percent_mapping(row)
                    for row in (delta.before, delta.after)
                ],
            }
            for delta in comparison.deltas
        ],
    }


def _get_value(report: SweepReport, name: str) -> Json:
    """Return a fact of a sweep, or a field of its workload."""
    if name not in comparability.WORKLOAD:
        return report.get_fact(name)
    # The last run on bare metal has other data.
    record = next(
        record
        for record in report.records
        if record.size_bytes == report.size_bytes
    )
    value: Json = getattr(record, name)
    return value


def _list_obstacles(
    earlier_row: Row | None, later_row: Row | None, changed: frozenset[str]
) -> list[str]:
    for row, which in ((earlier_row, 'earlier'), (later_row, 'later')):
        if row is None:
            return [f'the {which} sweep does not have it']
        if not row.valid:
            return [f'the {which} sweep has no valid run of it']
        if row.status == EMULATED:
            return [f'the {which} sweep has emulated CPUs']
        if row.status == SEARCH:
            return [
                f'the {which} sweep has runs of its search, which were '
                'selected for their rates'
            ]
    if {run.id for run in _valid_runs(earlier_row)} & {
        run.id for run in _valid_runs(later_row)
    }:
        return ['both sweeps use the same runs of it']
    differences = dict.fromkeys(
        line
        for record in _valid_runs(earlier_row) + _valid_runs(later_row)
        for line in comparability.list_record_differences(
            record, _valid_runs(earlier_row)[0], changed
        )
    )
    return [f'{line} ({REMEDY})' for line in differences]


def _valid_runs(row: Row | None) -> list[RunRecord]:
    return row.valid if row else []


def _rates(row: Row | None) -> list[float]:
    return percentages.list_cluster_rates(_valid_runs(row))
