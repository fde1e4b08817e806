# SPDX-License-Identifier: Apache-2.0
"""Hadoop properties that differ from the defaults, as daemons report them."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from hvstack.report.sweep_report import SweepReport

#: Key in a record for the daemons that did not answer, with the reasons.
_UNREAD = 'unread'


@dataclass(frozen=True)
class PropertyValue:
    """Value of a Hadoop property.

    :param name: name of the property.
    :param value: value that the daemons report.
    :param daemons: daemons with this value; ``job`` is the job of HSSort.
    :param rows: labels of the rows with this value; empty for all rows.
    """

    name: str
    value: str
    daemons: tuple[str, ...]
    rows: tuple[str, ...]


def list_property_values(report: SweepReport) -> list[PropertyValue]:
    """Return all values of the last run of each configuration."""
    row_labels = {row for row, _, _, _ in _iterate_values(report)}
    where: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row, daemon, name, value in _iterate_values(report):
        where[name, value][row].append(daemon)
    rows_by_setting: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (name, value), rows in where.items():
        for row, daemons in rows.items():
            rows_by_setting.setdefault(
                (name, value, tuple(daemons)), []
            ).append(row)
    return [
        PropertyValue(
            *key, () if len(rows) == len(row_labels) else tuple(rows)
        )
        for key, rows in sorted(rows_by_setting.items())
    ]


def list_unread(report: SweepReport) -> list[str]:
    """Return the daemons without an answer, and rows without properties."""
    row_labels = {row for row, _, _, _ in _iterate_values(report)}
    lines = [
        f'{row.label}: its runs tell no parameters'
        for row in report.rows
        if row.label not in row_labels
    ]
    for row in report.rows:
        parameters = row.observed.facts.get('parameters')
        unread = (
            parameters.get(_UNREAD) if isinstance(parameters, dict) else None
        )
        if isinstance(unread, list):
            lines += [f'{row.label}: {reason}' for reason in unread]
    return lines


def _iterate_values(
    report: SweepReport,
) -> Iterator[tuple[str, str, str, str]]:
    """Yield row, daemon, property and value."""
    for row in report.rows:
        parameters = row.observed.facts.get('parameters')
        if not isinstance(parameters, dict):
            continue
        for daemon, values in parameters.items():
            if isinstance(values, dict):
                for name, value in values.items():
                    yield row.label, daemon, name, str(value)
