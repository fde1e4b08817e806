# SPDX-License-Identifier: Apache-2.0
"""What papers report, converted by our own definition of percent.

A paper's seconds are of its own hosts, data and statistic. They are drawn
beside a sweep for orientation and take no part in any of its figures.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from hvstack import yamlfile

#: The three programs whose times make a paper's whole suite.
SUITE = ('TeraGen', 'TeraSort', 'TeraValidate')
#: The row that a table's other rows are compared with.
NATIVE = 'Native'


@dataclass(frozen=True)
class PublishedTable:
    """A table of a paper.

    :param source: which table or section.
    :param statistic: what kind of statistic its numbers are.
    :param rows: the numbers in the order of ``columns``.
    """

    paper: str
    source: str
    statistic: str
    description: str
    unit: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float | None, ...]]

    def get_number(self, row: str, column: str) -> float:
        """Return one number.

        :raises KeyError: the paper does not give it.
        """
        cell = self.rows[row][self.columns.index(column)]
        if cell is None:
            raise KeyError(column)
        return cell

    def sum_suite_seconds(self, row: str) -> float:
        """Return the elapsed time of the whole suite."""
        return sum(self.get_number(row, name) for name in SUITE)

    def compute_percents(self) -> dict[str, float]:
        """Return the suite's percent of native, by platform.

        100 x rate / native rate; of the same data, so 100 x native seconds
        / seconds.
        """
        native = self.sum_suite_seconds(NATIVE)
        return {
            row: 100 * native / self.sum_suite_seconds(row)
            for row in self.rows
            if row != NATIVE
        }

    def compute_phase_ratios(self, row: str) -> dict[str, float]:
        """Return times over native's, as Figure 2 of vsphere6 has them."""
        return {
            name: self.get_number(row, name) / self.get_number(NATIVE, name)
            for name in self.columns
        }


@dataclass(frozen=True)
class PublishedGain:
    """A step of a sweep in a paper: gain over the step before, percent."""

    paper: str
    source: str
    statistic: str
    parameter: str
    step: str
    over: str
    gain: float


@dataclass(frozen=True)
class PublishedFigure:
    """A single value of a paper."""

    paper: str
    source: str
    statistic: str
    description: str
    value: float
    unit: str


@dataclass(frozen=True)
class PaperContradiction:
    """Where a paper's words do not fit its own numbers."""

    paper: str
    source: str
    says: str
    finds: str


@dataclass(frozen=True)
class PaperFigures:
    """Everything of ``published.yaml``.

    :param papers: title, statistic and system, by short name.
    """

    papers: dict[str, dict[str, str]]
    tables: tuple[PublishedTable, ...]
    gains: tuple[PublishedGain, ...]
    figures: tuple[PublishedFigure, ...]
    contradictions: tuple[PaperContradiction, ...]

    def find_table(self, paper: str, source: str) -> PublishedTable:
        """Return the first table of that name.

        :raises StopIteration: there is none.
        """
        return next(
            table
            for table in self.tables
            if (table.paper, table.source) == (paper, source)
        )

    def compute_dell_chain(self) -> dict[str, float]:
        """Return percents of bare metal before each of dell's last steps.

        Its conclusion (94 %) divided by the gains, from the last step back
        to Ceph. Only these ran on the hardware of bare metal.
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
    """Read the papers' figures.

    :raises hvstack.errors.InputError: the file is damaged.
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
