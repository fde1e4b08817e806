# SPDX-License-Identifier: Apache-2.0
"""Numbers of the papers that studies refer to, from ``published.yaml``."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hvstack.report import paper_figures
from hvstack.report.paper_figures import (
    PublishedFigure,
    PublishedGain,
    PublishedTable,
)

#: Units of times; a rate is in proportion to the reciprocal of a time.
_TIME_UNITS = ('s', 'min')


#: Rates in percent of another one by the kind of change that a number is.
_RATES_BY_CHANGE: Mapping[str, Callable[[float], float]] = {
    'more': lambda number: 100 + number,
    'less': lambda number: 100 - number,
    'more time': lambda number: 100 / (1 + number / 100),
    'less time': lambda number: 100 / (1 - number / 100),
    'factor': lambda number: 100 * number,
    'percent': lambda number: number,
}
#: What a number can be.
CHANGES = tuple(_RATES_BY_CHANGE)


@dataclass(frozen=True)
class PaperNumber:
    """Reference to a number.

    :param source: section, table or figure of the paper.
    :param description: description of the figure, step of a gain, or row of
        the table.
    :param change: what the number is, one of :data:`CHANGES`; empty if the
        paper does not say it, or if the number compares no rates.
    """

    source: str
    description: str
    change: str = ''


@dataclass(frozen=True)
class PublishedTableReference:
    """Reference to the table of a paper that measured the same variants.

    :param source: name of the table.
    :param columns: columns whose sum is the time, or a column of a rate.
    :param description: start of the description, if several tables have the
        same name.
    :param phase: phase of a run that the columns measure; empty for the
        whole run.
    """

    source: str
    columns: tuple[str, ...]
    description: str = ''
    phase: str = ''


def compute_rate(paper: str, number: PaperNumber) -> float | None:
    """Return the rate that a number stands for, in percent of the other one.

    :param paper: short name of the paper.
    :param number: reference to the number.
    :returns: None if the reference has no change, or is not to a single
        number that can be such a change.
    """
    value = _find_value(paper, number)
    if value is None or not number.change:
        return None
    if number.change in ('less', 'less time') and value >= 100:
        return None
    return _RATES_BY_CHANGE[number.change](value)


def _find_value(paper: str, number: PaperNumber) -> float | None:
    """Return a single number; None without any, and for a range."""
    entry = _find_entry(paper, number)
    if isinstance(entry, PublishedGain):
        return entry.gain
    if entry is None or entry.bounds[0] != entry.bounds[1]:
        return None
    return entry.bounds[0]


def _find_entry(
    paper: str, number: PaperNumber
) -> PublishedFigure | PublishedGain | None:
    """Return a figure or a gain; None for rows of tables."""
    key = paper, number.source, number.description
    figures = paper_figures.load_figures()
    for figure in figures.all_figures:
        if (figure.paper, figure.source, figure.description) == key:
            return figure
    for gain in figures.gains:
        if (gain.paper, gain.source, gain.step) == key:
            return gain
    return None


def format_number(paper: str, number: PaperNumber) -> str | None:
    """Return a number with its description; None if it does not exist.

    :param paper: short name of the paper.
    :param number: reference to the number.
    """
    text = _describe(paper, number)
    rate = compute_rate(paper, number)
    if text is None or rate is None:
        return text
    return f'{text}, that is {rate:.1f} % of the rate'


def _describe(paper: str, number: PaperNumber) -> str | None:
    """Return a number with its description; None if it does not exist."""
    entry = _find_entry(paper, number)
    if isinstance(entry, PublishedGain):
        return f'{entry.step} over {entry.over}: {entry.gain:+g} %'
    if entry is not None:
        low, high = entry.bounds
        text = f'{low:g}' if low == high else f'{low:g} to {high:g}'
        return f'{entry.description}: {text} {entry.unit}'
    for table in paper_figures.load_figures().all_tables:
        row = table.rows.get(number.description)
        location = table.paper, table.source
        if location == (paper, number.source) and row is not None:
            cells = zip(table.columns, row, strict=True)
            return f'{number.description}: ' + ', '.join(
                f'{cell:g} {name}' for name, cell in cells if cell is not None
            )
    return None


def find_table(
    paper: str, reference: PublishedTableReference
) -> PublishedTable | None:
    """Return a table; None if it or one of the columns does not exist.

    :param paper: short name of the paper.
    :param reference: reference to the table.
    """
    for table in paper_figures.load_figures().all_tables:
        if (
            (table.paper, table.source) == (paper, reference.source)
            and table.description.startswith(reference.description)
            and set(reference.columns) <= set(table.columns)
        ):
            return table
    return None


def compute_percent(
    table: PublishedTable,
    reference: PublishedTableReference,
    row: str,
    base: str,
) -> float:
    """Return the rate of a row in percent of that of another row.

    :param table: table of the reference.
    :param reference: reference with the columns.
    :param row: name of the row.
    :param base: name of the other row.
    """
    amount, base_amount = (
        math.fsum(table.get_number(name, key) for key in reference.columns)
        for name in (row, base)
    )
    if table.unit in _TIME_UNITS:
        return 100 * base_amount / amount
    return 100 * amount / base_amount
