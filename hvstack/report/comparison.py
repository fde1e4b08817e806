# SPDX-License-Identifier: Apache-2.0
"""Two sweeps side by side, such as before and after an upgrade."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any

from hvstack.report.answer import Answer, Row, percent_data
from hvstack.results import compare, stats
from hvstack.results.record import Record
from hvstack.results.stats import Percent

#: How a refusal ends.
REMEDY = 'if it was changed on purpose, name it with --changed'


@dataclass
class Change:
    """One configuration, or bare metal, in both sweeps.

    :param before: None if only the later sweep has it.
    :param after: None if only the earlier sweep has it.
    :param reasons: why there is no percentage.
    :param percent: rate after in percent of the rate before.
    """

    label: str
    before: Row | None
    after: Row | None
    reasons: list[str] = field(default_factory=list)
    percent: Percent | None = None

    @property
    def verdict(self) -> str:
        """What may be said about the difference."""
        if self.percent is None:
            return 'not compared'
        if self.percent.low is None:
            return 'too few runs for an interval'
        if stats.no_difference(self.percent):
            return 'no difference'
        return 'slower' if self.percent.percent < 100 else 'faster'


@dataclass(frozen=True)
class Comparison:
    """Two sweeps.

    :param changed: fields that were changed on purpose.
    :param pooled: variance within the compared rows of both.
    """

    before: Answer
    after: Answer
    changed: tuple[str, ...]
    changes: list[Change]
    pooled: stats.Pooled

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        verdicts = [change.verdict for change in self.changes]
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
        """What must be said beside every figure."""
        lines = [
            f'{name}: {self.before.value(name)} before, '
            f'{self.after.value(name)} after.'
            for name in self.changed
        ]
        return lines + list(
            dict.fromkeys(self.before.notes + self.after.notes)
        )


def build(
    before: Answer, after: Answer, changed: Collection[str] = ()
) -> Comparison:
    """Compare two sweeps, row by row.

    :param changed: fields of the environment that may differ between them.
    """
    rows = {row.configuration: row for row in before.rows}
    later = {row.configuration: row for row in after.rows}
    changes = []
    for name in rows | later:
        earlier_row, later_row = rows.get(name), later.get(name)
        label = (earlier_row or later_row or before.rows[0]).label
        change = Change(label, earlier_row, later_row)
        change.reasons = _refusals(earlier_row, later_row, frozenset(changed))
        changes.append(change)
    good = [change for change in changes if not change.reasons]
    pooled = stats.pooled(
        [
            _rates(row)
            for change in good
            for row in (change.before, change.after)
        ]
    )
    for change in good:
        change.percent = stats.ratio(
            _rates(change.after), _rates(change.before), pooled
        )
    return Comparison(before, after, tuple(changed), changes, pooled)


def to_mapping(comparison: Comparison) -> dict[str, Any]:
    """Return everything as plain data."""
    return {
        'before': comparison.before.sweep,
        'after': comparison.after.sweep,
        'changed': list(comparison.changed),
        'headline': comparison.headline,
        'notes': comparison.notes,
        'pooled': asdict(comparison.pooled),
        'confidence': stats.CONFIDENCE,
        'rows': [
            {
                'label': change.label,
                'verdict': change.verdict,
                'reasons': change.reasons,
                'after_in_percent_of_before': asdict(change.percent)
                if change.percent
                else None,
                'percent_of_bare_metal': [
                    percent_data(row) for row in (change.before, change.after)
                ],
            }
            for change in comparison.changes
        ],
    }


def _refusals(
    earlier_row: Row | None, later_row: Row | None, changed: frozenset[str]
) -> list[str]:
    for row, which in ((earlier_row, 'earlier'), (later_row, 'later')):
        if row is None:
            return [f'the {which} sweep does not have it']
        if not row.valid:
            return [f'the {which} sweep has no valid run of it']
    differences = dict.fromkeys(
        line
        for record in _runs(earlier_row) + _runs(later_row)
        for line in compare.record_differences(
            record, _runs(earlier_row)[0], changed
        )
    )
    return [f'{line} ({REMEDY})' for line in differences]


def _runs(row: Row | None) -> list[Record]:
    return row.valid if row else []


def _rates(row: Row | None) -> list[float]:
    return [run.rate for run in _runs(row)]
