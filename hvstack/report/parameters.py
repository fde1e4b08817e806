# SPDX-License-Identifier: Apache-2.0
"""Hadoop's parameters that were not its defaults, as the daemons told them."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from hvstack.report.answer import SweepReport

#: Beside the daemons in what a record has: who did not report, and why.
_UNREAD = 'unread'


@dataclass(frozen=True)
class PropertyValue:
    """One value of a parameter.

    :param name: as Hadoop spells it.
    :param value: as its daemon says it.
    :param daemons: who has this value; ``job`` is HSSort's own.
    :param rows: configurations with it; empty if all have.
    """

    name: str
    value: str
    daemons: tuple[str, ...]
    rows: tuple[str, ...]


def list_property_values(report: SweepReport) -> list[PropertyValue]:
    """Return all values of the last (valid) run of each configuration."""
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
    """Return what could not be read, and rows without any parameter."""
    row_labels = {row for row, _, _, _ in _iterate_values(report)}
    lines = [
        f'{row.label}: its runs tell no parameters'
        for row in report.rows
        if row.label not in row_labels
    ]
    for row in report.rows:
        parameters = row.observed.get('parameters')
        if isinstance(parameters, dict):
            lines += [
                f'{row.label}: {reason}'
                for reason in parameters.get(_UNREAD, ())
            ]
    return lines


def _iterate_values(
    report: SweepReport,
) -> Iterator[tuple[str, str, str, str]]:
    """Yield row, daemon, parameter and value."""
    for row in report.rows:
        parameters = row.observed.get('parameters')
        if not isinstance(parameters, dict):
            continue
        for daemon, values in parameters.items():
            if isinstance(values, dict):
                for name, value in values.items():
                    yield row.label, daemon, name, str(value)
