# SPDX-License-Identifier: Apache-2.0
"""Compute the derived numbers of the papers from their other numbers."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from hvstack.report.paper_figures import (
    Derivation,
    NumberReference,
    PaperFigures,
    PublishedFigure,
    PublishedTable,
)

ALL = '*'
#: Far below the last digit of each printed number, far above the error of a
#: double.
EPSILON = 1e-9

Numbers = Sequence[float]
#: Number, and the half-width of an approximation.
Approximation = tuple[float, float]


def product(of: Numbers, over: Numbers) -> float:
    return float(math.prod(of) / math.prod(over))


def map_tasks(of: Numbers, over: Numbers) -> float:
    (slots,) = of
    terabytes, block_bytes = over
    return slots * math.ceil(terabytes * 1e12 / slots / block_bytes)


def sort_work(of: Numbers, over: Numbers) -> float:
    records, terabytes, smaller_terabytes = of
    smaller = records * smaller_terabytes / terabytes
    return 100 * (1 - math.log(smaller) / math.log(records))


#: Rules that make a single number of all numbers.
TOTALS: dict[str, Callable[[Numbers, Numbers], float]] = {
    'ceiling': product,
    'count': lambda of, over: len(of),
    'map-record': lambda of, over: (of[0] - of[1]) / over[0],
    'map-tasks': map_tasks,
    'nodes-left': lambda of, over: (of[0] - over[0]) * of[1],
    'product': product,
    'raw-storage': lambda of, over: 2 * of[0] + 1 / of[1],
    'replication': lambda of, over: of[1] - math.prod(over) / of[0],
    'sort-work': sort_work,
    'sum': lambda of, over: sum(of) - sum(over),
}
#: Rules that compare each number with another.
COMPARISONS: dict[str, Callable[[float, float], float]] = {
    'less': lambda number, other: 100 * (1 - number / other),
    'more': lambda number, other: 100 * (number / other - 1),
    'ratio': lambda number, other: number / other,
}


def default_rounding(number: float) -> float:
    """Return half a unit of the last digit of a number."""
    exponent = Decimal(str(number)).as_tuple().exponent
    assert isinstance(exponent, int)
    return 0.5 * 10 ** min(exponent, 0)


class Derived:
    """Printed number with a derivation.

    :param papers: all numbers.
    :param item: figure or table.
    :param derivation: how the number follows.
    :param row: row of the cell; empty for a figure.
    :param column: column of the cell; empty for a figure.
    """

    def __init__(
        self,
        papers: PaperFigures,
        item: PublishedFigure | PublishedTable,
        derivation: Derivation,
        row: str = '',
        column: str = '',
    ) -> None:
        self.papers = papers
        self.item = item
        self.derivation = derivation
        self.row = row
        self.column = column

    @property
    def name(self) -> str:
        """Name as a contradiction has it."""
        if isinstance(self.item, PublishedTable):
            return f'{self.item.source}, {self.row}, {self.column}'
        return self.item.description

    @property
    def printed(self) -> tuple[float, float]:
        """Printed number or range."""
        if isinstance(self.item, PublishedTable):
            number = self.item.get_number(self.row, self.column)
            return number, number
        return self.item.bounds

    def fits(self) -> bool:
        """Return whether the printed number follows from the others."""
        low, high = self.printed
        computed = self.compute()
        lowest = min(lower for lower, _ in computed)
        highest = max(upper for _, upper in computed)
        match self.derivation.select:
            case 'above':
                return lowest > high
            case 'below':
                return highest < low
            case 'most':
                computed = [max(computed)]
            case 'least':
                computed = [min(computed)]
        if low != high:
            # A range starts and ends with a computed number.
            return self.matches(lowest, low) and self.matches(highest, high)
        return all(
            lower - self.rounding(low) <= low <= upper + self.rounding(low)
            for lower, upper in computed
        )

    def matches(self, computed: float, printed: float) -> bool:
        return abs(computed - printed) <= self.rounding(printed)

    def rounding(self, number: float) -> float:
        """Return how far the computed number may be from the printed one."""
        rounding = self.derivation.rounding
        if rounding is None and isinstance(self.item, PublishedFigure):
            rounding = self.item.rounding
        if rounding is None:
            rounding = default_rounding(number)
        return rounding + EPSILON * max(1, abs(number))

    def compute(self) -> list[tuple[float, float]]:
        """Return the lowest and highest value of each computed number."""
        of = self.find_all(self.derivation.of)
        over = self.find_all(self.derivation.over)
        rule = self.derivation.rule
        if rule in TOTALS:
            corners = [
                TOTALS[rule](corner[: len(of)], corner[len(of) :])
                * self.derivation.scale
                for corner in itertools.product(*map(limits, of + over))
            ]
            if rule == 'ceiling':
                corners = [math.ceil(corner) for corner in corners]
            return [(min(corners), max(corners))]
        if len(over) == 1:
            over *= len(of)
        assert of, self.name
        if len(of) == 1:
            of *= len(over)
        computed = []
        for pair in zip(of, over, strict=True):
            corners = [
                COMPARISONS[rule](number, other) * self.derivation.scale
                for number, other in itertools.product(*map(limits, pair))
            ]
            computed.append((min(corners), max(corners)))
        return computed

    def find_all(
        self, references: Sequence[NumberReference]
    ) -> list[Approximation]:
        return [
            number
            for reference in references
            for number in self.find(reference)
        ]

    def find(self, reference: NumberReference) -> list[Approximation]:
        """Return the numbers of a reference.

        :raises KeyError: they do not exist, or are not unique.
        """
        if reference.cell:
            return list(self.find_cells(*reference.cell))
        if isinstance(self.item, PublishedTable):
            if reference.name in self.item.columns:
                return [(self.item.get_number(self.row, reference.name), 0.0)]
            if reference.name in self.item.rows:
                return [
                    (self.item.get_number(reference.name, self.column), 0.0)
                ]
        figures = [
            figure
            for figure in self.papers.all_figures
            if (figure.paper, figure.description)
            == (self.item.paper, reference.name)
        ]
        if len(figures) != 1 or figures[0].range:
            raise KeyError(f'{self.name}: {reference}')
        (figure,) = figures
        return [(figure.bounds[0], figure.rounding or 0.0)]

    def find_cells(
        self, source: str, row: str, column: str
    ) -> Iterator[Approximation]:
        tables = [
            table
            for table in self.papers.all_tables
            if (table.paper, table.source) == (self.item.paper, source)
            and (row == ALL or row in table.rows)
            and (column == ALL or column in table.columns)
        ]
        if len(tables) != 1:
            raise KeyError(f'{self.name}: {source}, {row}, {column}')
        (table,) = tables
        for name in table.rows if row == ALL else (row,):
            for other in table.columns if column == ALL else (column,):
                number = table.rows[name][table.columns.index(other)]
                if number is not None:
                    yield number, 0.0
                elif ALL not in (row, column):
                    raise KeyError(f'{self.name}: {source}, {row}, {column}')


def limits(number: Approximation) -> tuple[float, ...]:
    """Return the lowest and the highest value of an approximation."""
    value, rounding = number
    return (value - rounding, value + rounding) if rounding else (value,)


def list_derived(papers: PaperFigures) -> Iterator[Derived]:
    """Yield all derived numbers.

    :raises AssertionError: a derivation names no row or column of its table.
    """
    for figure in papers.all_figures:
        if figure.derived:
            yield Derived(papers, figure, figure.derived)
    for table in papers.all_tables:
        for derivation in table.derived:
            cells = [
                (row, column)
                for row, column in itertools.product(table.rows, table.columns)
                if derivation.row in ('', row)
                and derivation.column in ('', column)
                and table.rows[row][table.columns.index(column)] is not None
            ]
            assert cells, (table.source, derivation)
            for row, column in cells:
                yield Derived(papers, table, derivation, row, column)
