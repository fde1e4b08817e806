# SPDX-License-Identifier: Apache-2.0
"""The answer of a sweep as plain data, as text and as a page."""

from collections.abc import Collection, Sequence
from typing import Any

from hvstack.report import answer, html, text
from hvstack.results.record import Record


def results_json(
    records: Sequence[Record], allow: Collection[str] = ()
) -> dict[str, Any]:
    """Return the answer as plain data, for ``results.json``.

    :param allow: facts that may differ between runs.
    :raises hvstack.errors.InputError: there are no records.
    :raises hvstack.errors.NotComparable: runs on bare metal disagree.
    """
    return answer.to_mapping(answer.build(records, allow))


def table(records: Sequence[Record], allow: Collection[str] = ()) -> str:
    """Return the answer as a table for a terminal.

    :param allow: facts that may differ between runs.
    :raises hvstack.errors.InputError: there are no records.
    :raises hvstack.errors.NotComparable: runs on bare metal disagree.
    """
    return text.table(answer.build(records, allow))


def page(records: Sequence[Record], allow: Collection[str] = ()) -> str:
    """Return the answer as a self-contained HTML page with one chart.

    :param allow: facts that may differ between runs.
    :raises hvstack.errors.InputError: there are no records.
    :raises hvstack.errors.NotComparable: runs on bare metal disagree.
    """
    return html.page(answer.build(records, allow))
