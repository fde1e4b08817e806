# SPDX-License-Identifier: Apache-2.0
"""Charts that the scenario adds to the report of Rally.

The SLAs read their values from these charts.
"""

from collections.abc import Collection, Iterable, Sequence

from rally.task.scenario import Scenario

from hvstack import errors
from hvstack.model.target import BARE_METAL
from hvstack.nouns import format_noun
from hvstack.progress import Progress
from hvstack.rally_plugins import slas
from hvstack.report.formats import (
    ONE_RUN,
    describe_interim_interval,
    format_interval,
)
from hvstack.report.sweep_report import SweepReport, build_report
from hvstack.report.sweep_rows import Row
from hvstack.report.text import format_percent
from hvstack.results import telemetry
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import StoredSweeps
from hvstack.results.workload_types import TYPES
from hvstack.sweep import sweep_store


def build_interim_report(
    records: Sequence[RunRecord],
    allow: Collection[str] = (),
    history_records: Iterable[Sequence[RunRecord]] = (),
) -> SweepReport | None:
    """Return the report of all runs so far; None without a baseline run.

    Programs on the workers have no rate by time, and no report.

    :param records: records of the sweep.
    :param allow: facts that may differ.
    :param history_records: records of earlier sweeps by sweep, for the
        variance.
    """
    if not any(
        record.kind == 'baseline' and record.valid for record in records
    ):
        return None
    if any(
        TYPES[record.sut.workload].is_on_nodes
        for record in records
        if record.sut.workload in TYPES
    ):
        return None
    return build_report(records, allow=allow, history_records=history_records)


def add_skipped(tpcx_hs: Scenario, reason: str) -> None:
    """Add the reason why the configuration of a workload is skipped."""
    tpcx_hs.add_output(
        complete={
            'title': slas.SKIPPED,
            'description': 'cannot exist on these hosts',
            'chart_plugin': 'TextArea',
            'data': [reason],
        }
    )


def add_run(
    tpcx_hs: Scenario,
    progress: Progress,
    record: RunRecord,
    runs: Sequence[RunRecord],
    allow: Collection[str],
) -> None:
    """Add charts of the phases, and of percent of bare metal so far.

    :param tpcx_hs: scenario that gets the output.
    :param progress: receives the percentage.
    :param record: record of the run.
    :param runs: records of the sweep and of the baseline.
    :param allow: facts that may differ.
    """
    if record.valid:
        _add_rates(tpcx_hs, record, runs)
    shares = telemetry.compute_steal_shares(record)
    if shares:
        percent = 100 * max(shares.values())
        _add_figure(tpcx_hs, slas.STEAL, 'percent', percent)
    if record.phases:
        tpcx_hs.add_output(
            additive={
                'title': 'Seconds of each phase',
                'description': record.configuration,
                'chart_plugin': 'StackedArea',
                'data': [
                    [name, seconds]
                    for name, seconds in record.phase_seconds().items()
                ],
                'axis_label': 'iteration',
                'label': 'seconds',
            }
        )
    try:
        report = build_interim_report(
            runs, allow, StoredSweeps(sweep_store.open_store())
        )
    except errors.NotComparableError as exc:
        progress.say(str(exc))
        return
    if report is not None:
        _add_percentages(tpcx_hs, progress, record, report)


def _add_figure(
    tpcx_hs: Scenario,
    title: str,
    name: str,
    value: float,
    description: str = '',
) -> None:
    chart = {
        'title': title,
        'chart_plugin': 'StatsTable',
        'data': [[name, value]],
    }
    if description:
        chart['description'] = description
    tpcx_hs.add_output(additive=chart)


def _add_rates(
    tpcx_hs: Scenario, record: RunRecord, runs: Sequence[RunRecord]
) -> None:
    """Add the rate of a run and those of other runs of its configuration.

    The other runs were on other clusters, that is in other workloads, but the
    SLA of the spread is for all of them.
    """
    _add_figure(tpcx_hs, slas.RATE, 'TB/h', record.rate)
    for run in runs:
        if run.configuration == record.configuration and (
            run.valid
            and run.id != record.id
            and run.size_bytes == record.size_bytes
        ):
            name = f'TB/h, run {run.index + 1}'
            _add_figure(tpcx_hs, slas.RATE, name, run.rate)


def _add_percentages(
    tpcx_hs: Scenario,
    progress: Progress,
    record: RunRecord,
    report: SweepReport,
) -> None:
    """Add the table of all configurations, and the percentage of a run."""
    (count,) = (
        len(row.valid)
        for row in report.rows
        if row.configuration == BARE_METAL
    )
    tpcx_hs.add_output(
        complete={
            'title': slas.PERCENT,
            'description': f'Of {count} baseline runs finished so far. '
            + ' '.join(report.notes),
            'chart_plugin': 'Table',
            'data': {
                'cols': [
                    'configuration',
                    'runs',
                    'percent of bare metal',
                    '95 % interval',
                    'verdict',
                ],
                'rows': [_format_row(row) for row in report.rows],
            },
        }
    )
    for row in report.rows:
        if row.configuration != record.configuration or not row.percent:
            continue
        percent = row.percent.percent
        _add_figure(
            *(tpcx_hs, slas.PERCENT, 'percent', percent),
            f'of {count} baseline runs',
        )
        if bounds := row.percent.reported_bounds:
            _add_figure(tpcx_hs, slas.LOWER_BOUND, 'percent', bounds[0])
        if record.kind == 'configuration':
            evidence = describe_interim_interval(row.percent)
            if evidence != ONE_RUN:
                runs = format_noun(len(row.valid), 'run')
                evidence = f'{runs} of it, {count} of bare metal; {evidence}'
            progress.say(
                f'so far: {row.label} at {percent:.1f} % of bare metal '
                f'({evidence})'
            )


def _format_row(row: Row) -> list[str]:
    return [
        row.label,
        str(len(row.valid)),
        format_percent(row),
        format_interval(row.percent, missing=''),
        row.verdict,
    ]
