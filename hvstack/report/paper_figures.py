# SPDX-License-Identifier: Apache-2.0
"""Published figures, converted to percent by the definition of hvstack.

A paper has its own hosts, data and statistic. Its figures are plotted for
orientation with a sweep, and no result of a sweep depends on them.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from hvstack import yamlfile

#: Programs whose times are the time of the whole suite of a paper.
SUITE = ('TeraGen', 'TeraSort', 'TeraValidate')
#: Row of a table that the other rows are compared with.
NATIVE = 'Native'


@dataclass(frozen=True)
class PublishedTable:
    """Table of a paper.

    :param paper: short name of the paper.
    :param source: number of the table, or title of the section.
    :param statistic: statistic that the numbers are.
    :param rows: numbers in the order of ``columns``; None without any.
    """

    paper: str
    source: str
    statistic: str
    description: str
    unit: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float | None, ...]]

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
    """Single value of a paper."""

    paper: str
    source: str
    statistic: str
    description: str
    value: float
    unit: str


@dataclass(frozen=True)
class PaperContradiction:
    """Contradiction between the text and the numbers of a paper."""

    paper: str
    source: str
    says: str
    finds: str


@dataclass(frozen=True)
class PaperFigures:
    """Content of ``published.yaml``.

    :param papers: title, statistic and system by the short name of a paper.
    """

    papers: dict[str, dict[str, str]]
    tables: tuple[PublishedTable, ...]
    gains: tuple[PublishedGain, ...]
    figures: tuple[PublishedFigure, ...]
    contradictions: tuple[PaperContradiction, ...]

    def find_table(self, paper: str, source: str) -> PublishedTable:
        """Return a table.

        :raises StopIteration: the table does not exist.
        """
        return next(
            table
            for table in self.tables
            if (table.paper, table.source) == (paper, source)
        )

    def compute_dell_chain(self) -> dict[str, float]:
        """Return percents of bare metal for the last steps of the Dell paper.

        They are the result of the paper (94 %) divided by the gains, from the
        last step back to Ceph. Only these steps used the hardware of bare
        metal.
        """
        value = next(
            figure.value
            for figure in self.figures
            if figure.paper == 'dell' and figure.unit == '%'
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
        data = yamlfile.load(Path(path)).data
    papers = data['papers']

    def add_statistic(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, 'statistic': papers[item['paper']]['statistic']}

    return PaperFigures(
        papers=papers,
        tables=tuple(
            PublishedTable(
                **{
                    **add_statistic(item),
                    'columns': tuple(item['columns']),
                    'rows': {
                        name: tuple(row) for name, row in item['rows'].items()
                    },
                }
            )
            for item in data['tables']
        ),
        gains=tuple(
            PublishedGain(**add_statistic(item))
            for item in data['figures']
            if 'gain' in item
        ),
        figures=tuple(
            PublishedFigure(**add_statistic(item))
            for item in data['figures']
            if 'gain' not in item
        ),
        contradictions=tuple(
            PaperContradiction(**item) for item in data['contradictions']
        ),
    )
