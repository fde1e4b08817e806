# SPDX-License-Identifier: Apache-2.0
"""Reports of a sweep or of two sweeps: plain data, text and HTML."""

import json
from collections.abc import Collection, Iterable, Sequence

from hvstack.report import (
    comparison,
    compute_hosts,
    explanation,
    results_document,
    sweep_report,
    text,
)
from hvstack.results.decision import SearchDecision
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore
from hvstack.results.typed_json import JsonObject


def build_results(
    records: Sequence[RunRecord],
    invalid_records: Sequence[str] = (),
    allow: Collection[str] = (),
    history_records: Iterable[Sequence[RunRecord]] = (),
    decision: SearchDecision | None = None,
) -> JsonObject:
    """Return the report as plain data, for ``results.json``.

    :param invalid_records: reasons why further records could not be used.
    :param allow: facts that may differ between runs.
    :param history_records: records of earlier sweeps by sweep, for the
        variance.
    :param decision: answer of the search of the sweep; None without a search.
    :raises hvstack.errors.InputError: no records are given.
    :raises hvstack.errors.NotComparableError: runs on bare metal disagree.
    """
    built = sweep_report.build_report(
        records, invalid_records, allow, history_records, decision
    )
    return {
        **results_document.to_mapping(built),
        'explanation': explanation.to_mapping(built),
        'compute_hosts': compute_hosts.to_mapping(built),
    }


def format_table(
    records: Sequence[RunRecord],
    invalid_records: Sequence[str] = (),
    allow: Collection[str] = (),
    skipped: int = 0,
    history_records: Iterable[Sequence[RunRecord]] = (),
    decision: SearchDecision | None = None,
) -> str:
    """Return the short form of the report for a terminal.

    :param invalid_records: reasons why further records could not be used.
    :param allow: facts that may differ between runs.
    :param skipped: number of configurations that are not possible.
    :param history_records: records of earlier sweeps by sweep, for the
        variance.
    :param decision: answer of the search of the sweep; None without a search.
    :raises hvstack.errors.InputError: no records are given.
    :raises hvstack.errors.NotComparableError: runs on bare metal disagree.
    """
    return text.format_table(
        sweep_report.build_report(
            records, invalid_records, allow, history_records, decision
        ),
        skipped,
    )


def format_details(
    records: Sequence[RunRecord],
    invalid_records: Sequence[str] = (),
    allow: Collection[str] = (),
    remarks: Sequence[str] = (),
    history_records: Iterable[Sequence[RunRecord]] = (),
    decision: SearchDecision | None = None,
) -> str:
    """Return the detailed form of the report for a terminal.

    :param invalid_records: reasons why further records could not be used.
    :param allow: facts that may differ between runs.
    :param remarks: lines about the course of the sweep.
    :param history_records: records of earlier sweeps by sweep, for the
        variance.
    :param decision: answer of the search of the sweep; None without a search.
    :raises hvstack.errors.InputError: no records are given.
    :raises hvstack.errors.NotComparableError: runs on bare metal disagree.
    """
    return text.format_details(
        sweep_report.build_report(
            records, invalid_records, allow, history_records, decision
        ),
        remarks,
    )


def build_page(
    records: Sequence[RunRecord],
    invalid_records: Sequence[str] = (),
    allow: Collection[str] = (),
    store: RunStore | None = None,
    skipped: Sequence[tuple[str, str]] = (),
    history_records: Iterable[Sequence[RunRecord]] = (),
    decision: SearchDecision | None = None,
) -> str:
    """Return the report as a self-contained HTML page.

    :param invalid_records: reasons why further records could not be used.
    :param allow: facts that may differ between runs.
    :param store: store of the records and their telemetry.
    :param skipped: name and reason of each configuration that is not
        possible.
    :param history_records: records of earlier sweeps by sweep, for the
        variance.
    :param decision: answer of the search of the sweep; None without a search.
    :raises hvstack.errors.InputError: no records are given.
    :raises hvstack.errors.NotComparableError: runs on bare metal disagree.
    """
    # Only a page needs Jinja2.
    from hvstack.report import html

    built = sweep_report.build_report(
        records, invalid_records, allow, history_records, decision
    )
    return html.build_page(built, store, skipped)


def format_comparison(
    before: sweep_report.SweepReport,
    after: sweep_report.SweepReport,
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
