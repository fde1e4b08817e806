# SPDX-License-Identifier: Apache-2.0
"""Reports of a sweep or of two sweeps: plain data, text and HTML.

:func:`hvstack.report.sweep_report.build_report` builds the report of a sweep
from its run records, and the functions of this module format it.
"""

import json
from collections.abc import Collection, Sequence

from hvstack.report import (
    comparison,
    compute_hosts,
    explanation,
    results_document,
    text,
)
from hvstack.report.sweep_report import SweepReport
from hvstack.report.text import format_details, format_table
from hvstack.results.run_store import RunStore
from hvstack.results.typed_json import JsonObject

__all__ = [
    'build_page',
    'build_results',
    'format_comparison',
    'format_details',
    'format_table',
]


def build_results(report: SweepReport) -> JsonObject:
    """Return a report as plain data, for ``results.json``."""
    return {
        **results_document.to_mapping(report),
        'explanation': explanation.to_mapping(report),
        'compute_hosts': compute_hosts.to_mapping(report),
    }


def build_page(
    report: SweepReport,
    store: RunStore | None = None,
    skipped: Sequence[tuple[str, str]] = (),
) -> str:
    """Return a report as a self-contained HTML page.

    :param store: store of the records and their telemetry.
    :param skipped: name and reason of each configuration that is not
        possible.
    """
    # Only a page needs Jinja2.
    from hvstack.report import html

    return html.build_page(report, store, skipped)


def format_comparison(
    before: SweepReport,
    after: SweepReport,
    changed: Collection[str] = (),
    form: str = 'table',
) -> str:
    """Return the comparison of two sweeps.

    :param changed: facts that may differ between the sweeps.
    :param form: ``table``, ``json`` or ``html``.
    """
    both = comparison.build_comparison(before, after, changed)
    if form == 'json':
        return json.dumps(comparison.to_mapping(both), indent=1) + '\n'
    if form == 'html':
        from hvstack.report import html

        return html.build_comparison_page(both)
    return text.format_comparison(both)
