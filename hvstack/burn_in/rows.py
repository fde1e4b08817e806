# SPDX-License-Identifier: Apache-2.0
"""Rows of the result of a burn-in, and their comparison."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from hvstack.burn_in.measures import Measure
from hvstack.burn_in.outliers import RowVerdict, Subject, compare
from hvstack.cluster.base import Node


@dataclass
class BurnInRow:
    """A row of the result: one part of the cluster with one measure.

    :param measure: its measure.
    :param subject: the part.
    :param nodes: its node, or the two nodes of a pair.
    :param args: arguments of the program.
    :param values: value of each round.
    :param reason: why it was not measured, or not in each round.
    """

    measure: Measure
    subject: Subject
    nodes: tuple[Node, ...] = ()
    args: tuple[str | int, ...] = ()
    values: list[float] = field(default_factory=list)
    reason: str = ''

    @property
    def value(self) -> float | None:
        """Median of the rounds; None if no round was measured."""
        return statistics.median(self.values) if self.values else None


def compare_rows(
    rows: Sequence[BurnInRow], threshold: float
) -> list[RowVerdict]:
    """Compare the rows of each measure.

    :param rows: rows with their values.
    :param threshold: percent by which an outlier is worse than the others.
    :returns: a verdict for each row, in their order.
    """
    verdicts: dict[int, RowVerdict] = {}
    for name in {row.measure.name: None for row in rows}:
        indexes = [
            index for index, row in enumerate(rows) if row.measure.name == name
        ]
        measure = rows[indexes[0]].measure
        compared = compare(
            [rows[index].subject for index in indexes],
            [rows[index].values for index in indexes],
            threshold=threshold,
            larger_is_better=measure.larger_is_better,
            host_rows=measure.host_rows,
        )
        for index, verdict in zip(indexes, compared, strict=True):
            row = rows[index]
            verdicts[index] = (
                verdict
                if row.values
                else RowVerdict(None, f'not measured: {row.reason}')
            )
    return [verdicts[index] for index in range(len(rows))]
