# SPDX-License-Identifier: Apache-2.0
"""Published figures, converted to percent by the definition of hvstack.

A paper has its own hosts, data and statistic. Its figures are plotted for
orientation with a sweep, and no result of a sweep depends on them.
"""

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from hvstack import errors, yamlfile

_T = TypeVar('_T')

#: Programs whose times are the time of the whole suite of a paper.
SUITE = ('TeraGen', 'TeraSort', 'TeraValidate')
#: Row of a table that the other rows are compared with.
NATIVE = 'Native'
#: How a number can be computed from other numbers of its paper. A test
#: contains the functions.
RULES = frozenset(
    {
        'ceiling',
        'count',
        'less',
        'map-record',
        'map-tasks',
        'more',
        'nodes-left',
        'product',
        'ratio',
        'raw-storage',
        'replication',
        'sort-work',
        'sum',
    }
)
#: What a figure states about several computed numbers.
SELECTIONS = frozenset({'all', 'above', 'below', 'least', 'most'})


@dataclass(frozen=True)
class NumberReference:
    """Reference to a number of the same paper.

    :param name: column or row of the same table, or description of a figure.
    :param cell: source, row and column of a table; ``*`` is all rows. It is
        None if ``name`` identifies the number.
    """

    name: str = ''
    cell: tuple[str, str, str] | None = None

    def __str__(self) -> str:
        """Return the reference as text."""
        return ', '.join(self.cell) if self.cell else self.name


@dataclass(frozen=True)
class Derivation:
    """How a number follows from other numbers of the same paper.

    :param rule: one of :data:`RULES`.
    :param of: numbers that are multiplied, added or compared.
    :param over: numbers that divide, are subtracted or are compared with.
    :param select: one of :data:`SELECTIONS`: which of the computed numbers is
        the printed number.
    :param scale: factor between the units.
    :param rounding: half-width of the printed number; None derives it from
        the last digit.
    :param row: row of a table; empty for all.
    :param column: column of a table; empty for all.
    """

    rule: str
    of: tuple[NumberReference, ...]
    over: tuple[NumberReference, ...] = ()
    select: str = 'all'
    scale: float = 1
    rounding: float | None = None
    row: str = ''
    column: str = ''


@dataclass(frozen=True)
class PublishedTable:
    """Table of a paper.

    :param paper: short name of the paper.
    :param source: number of the table, or title of the section.
    :param statistic: statistic that the numbers are.
    :param rows: numbers in the order of ``columns``; None without any.
    :param derived: rows, columns and cells that follow from other numbers.
    """

    paper: str
    source: str
    statistic: str
    description: str
    unit: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float | None, ...]]
    derived: tuple[Derivation, ...] = ()

    def get_number(self, row: str, column: str) -> float:
        """Return a number.

        :raises KeyError: the paper does not contain it.
        """
        cell = self.rows[row][self.columns.index(column)]
        if cell is None:
            raise KeyError(column)
        return cell

    def sum_suite_seconds(self, row: str) -> float:
        """Return the elapsed time of the whole suite."""
        return sum(self.get_number(row, name) for name in SUITE)

    def compute_percents(self) -> dict[str, float]:
        """Return the percent of native of the suite by platform.

        The size of the data is the same, so 100 x rate / native rate is 100 x
        native seconds / seconds.
        """
        native = self.sum_suite_seconds(NATIVE)
        return {
            row: 100 * native / self.sum_suite_seconds(row)
            for row in self.rows
            if row != NATIVE
        }

    def compute_phase_ratios(self, row: str) -> dict[str, float]:
        """Return ratios of times to native, as Figure 2 of vsphere6."""
        return {
            name: self.get_number(row, name) / self.get_number(NATIVE, name)
            for name in self.columns
        }


@dataclass(frozen=True)
class PublishedGain:
    """Published gain in percent of a step of a sweep over another step."""

    paper: str
    source: str
    statistic: str
    parameter: str
    step: str
    over: str
    gain: float


@dataclass(frozen=True)
class PublishedFigure:
    """Single value of a paper.

    :param value: printed number; None if the paper prints a range.
    :param range: lowest and highest number; None if the paper prints a value.
    :param rounding: half-width of a number that the paper prints as an
        approximation; None if all its digits count.
    :param derived: how the value follows from other numbers; None if it does
        not.
    """

    paper: str
    source: str
    statistic: str
    description: str
    unit: str
    value: float | None = None
    range: tuple[float, float] | None = None
    rounding: float | None = None
    derived: Derivation | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest number; a value is both."""
        if self.range is not None:
            return self.range
        if self.value is None:
            raise ValueError(self.description)
        return self.value, self.value


@dataclass(frozen=True)
class PaperContradiction:
    """Contradiction between the text and the numbers of a paper.

    :param number: description of the figure, or source, row and column of
        the cell, that does not follow from the other numbers; empty for
        words.
    """

    paper: str
    source: str
    says: str
    finds: str
    number: str = ''


@dataclass(frozen=True)
class UnreadableSource:
    """Table or figure of a paper without numbers that could be stored."""

    paper: str
    source: str
    reason: str


@dataclass(frozen=True)
class PaperFigures:
    """Content of ``published.yaml``.

    :param papers: title, statistic and system by the short name of a paper.
    :param tables: tables on the page of a report.
    :param gains: gains on the page of a report.
    :param figures: single values on the page of a report.
    :param further_tables: tables that no sweep can be compared with.
    :param further_figures: values that no sweep can be compared with.
    :param further_contradictions: contradictions that do not concern what the
        page shows.
    :param without_numbers: tables and figures without stored numbers.
    """

    papers: dict[str, dict[str, str]]
    tables: tuple[PublishedTable, ...]
    gains: tuple[PublishedGain, ...]
    figures: tuple[PublishedFigure, ...]
    contradictions: tuple[PaperContradiction, ...]
    further_tables: tuple[PublishedTable, ...] = ()
    further_figures: tuple[PublishedFigure, ...] = ()
    further_contradictions: tuple[PaperContradiction, ...] = ()
    without_numbers: tuple[UnreadableSource, ...] = ()

    @property
    def all_tables(self) -> tuple[PublishedTable, ...]:
        """Tables of the page and of the documentation alone."""
        return self.tables + self.further_tables

    @property
    def all_figures(self) -> tuple[PublishedFigure, ...]:
        """Single values of the page and of the documentation alone."""
        return self.figures + self.further_figures

    @property
    def all_contradictions(self) -> tuple[PaperContradiction, ...]:
        """Contradictions of the page and of the documentation alone."""
        return self.contradictions + self.further_contradictions

    def find_table(self, paper: str, source: str) -> PublishedTable:
        """Return a table.

        :raises StopIteration: the table does not exist.
        """
        return next(
            table
            for table in self.all_tables
            if (table.paper, table.source) == (paper, source)
        )

    def compute_dell_chain(self) -> dict[str, float]:
        """Return percents of bare metal for the last steps of the Dell paper.

        They are the result of the paper (94 %) divided by the gains, from the
        last step back to Ceph. Only these steps used the hardware of bare
        metal.
        """
        value = next(
            figure.bounds[0]
            for figure in self.figures
            if (figure.paper, figure.source) == ('dell', 'slide Conclusion')
        )
        chain: dict[str, float] = {}
        for gain in reversed(
            [g for g in self.gains if g.parameter in _SAME_HARDWARE_PARAMETERS]
        ):
            chain[gain.step] = value
            value /= 1 + gain.gain / 100
            chain[gain.over] = value
        return dict(reversed(chain.items()))


_SAME_HARDWARE_PARAMETERS = ('storage', 'cpu_policy', 'disk_pinning')


@cache
def load_figures() -> PaperFigures:
    """Return the published figures.

    :raises hvstack.errors.InputError: the file is not valid.
    """
    with resources.as_file(
        resources.files('hvstack.report') / 'published.yaml'
    ) as path:
        return read_figures(Path(path))


def read_figures(path: Path) -> PaperFigures:
    """Read a file of published figures.

    :raises hvstack.errors.InputError: the file is not valid.
    """
    data = yamlfile.load(path, packaged=True).data
    reader = _Reader(path, data['papers'])
    return PaperFigures(
        papers=data['papers'],
        tables=tuple(map(reader.read_table, data['tables'])),
        gains=tuple(
            PublishedGain(**reader.add_statistic(item))
            for item in data['figures']
            if 'gain' in item
        ),
        figures=tuple(
            reader.read_figure(item)
            for item in data['figures']
            if 'gain' not in item
        ),
        contradictions=tuple(
            PaperContradiction(**item) for item in data['contradictions']
        ),
        further_tables=tuple(
            map(reader.read_table, data.get('further_tables', ()))
        ),
        further_figures=tuple(
            map(reader.read_figure, data.get('further_figures', ()))
        ),
        further_contradictions=tuple(
            PaperContradiction(**item)
            for item in data.get('further_contradictions', ())
        ),
        without_numbers=tuple(
            UnreadableSource(**item)
            for item in data.get('without_numbers', ())
        ),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class _Reader:
    """Reader of the entries of a file.

    :param path: file, for messages.
    :param papers: content of ``papers``.
    """

    path: Path
    papers: dict[str, dict[str, str]] = field(repr=False)

    def add_statistic(self, item: dict[str, Any]) -> dict[str, Any]:
        return {**item, 'statistic': self.papers[item['paper']]['statistic']}

    def read_table(self, item: dict[str, Any]) -> PublishedTable:
        table = {
            **self.add_statistic(item),
            'columns': tuple(item['columns']),
            'rows': {name: tuple(row) for name, row in item['rows'].items()},
            'derived': tuple(
                self._read_derivation(item, derived)
                for derived in item.get('derived', ())
            ),
        }
        return self._create(item, PublishedTable, table)

    def read_figure(self, item: dict[str, Any]) -> PublishedFigure:
        figure = self.add_statistic(item)
        if ('value' in item) == ('range' in item):
            raise self._error(item, 'has no value or range, or both')
        if 'range' in item:
            limits = item['range']
            if not (
                isinstance(limits, list)
                and len(limits) == 2
                and all(map(_is_number, limits))
                and limits[0] < limits[1]
            ):
                raise self._error(item, 'has no range of two limits')
            figure['range'] = tuple(limits)
        elif not _is_number(item['value']):
            raise self._error(item, 'has a value that is not a number')
        if 'derived' in item:
            figure['derived'] = self._read_derivation(item, item['derived'])
        return self._create(item, PublishedFigure, figure)

    def _read_derivation(
        self, item: dict[str, Any], derived: dict[str, Any]
    ) -> Derivation:
        derivation = self._create(
            item,
            Derivation,
            {
                **derived,
                'of': self._read_references(item, derived['of']),
                'over': self._read_references(item, derived.get('over', ())),
            },
        )
        if derivation.rule not in RULES:
            raise self._error(item, f'has no rule {derivation.rule!r}')
        if derivation.select not in SELECTIONS:
            raise self._error(item, f'cannot select {derivation.select!r}')
        return derivation

    def _read_references(
        self, item: dict[str, Any], references: list[Any]
    ) -> tuple[NumberReference, ...]:
        read = []
        for reference in references:
            match reference:
                case str():
                    read.append(NumberReference(reference))
                case [str() as source, str() as row, str() as column]:
                    read.append(NumberReference(cell=(source, row, column)))
                case _:
                    raise self._error(item, f'refers to {reference!r}')
        return tuple(read)

    def _create(
        self, item: dict[str, Any], cls: type[_T], fields: dict[str, Any]
    ) -> _T:
        try:
            return cls(**fields)
        except TypeError as exc:
            raise self._error(item, f'has wrong fields ({exc})') from exc

    def _error(self, item: dict[str, Any], reason: str) -> errors.InputError:
        return errors.InputError(
            f'Cannot read published figures ({self.path}): '
            f'{item["paper"]}, {item["source"]}, {item["description"]!r} '
            f'{reason}. Correct this entry.'
        )
