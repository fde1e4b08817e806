# SPDX-License-Identifier: Apache-2.0
"""Charts of telemetry: CPU, disks and network over time.

They are those of vsphere6, figures 3 to 5.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hvstack import errors
from hvstack.report import host_chart, node_chart
from hvstack.report.chart_base import COLOURS, Chart, escape_text
from hvstack.report.sweep_report import SweepReport
from hvstack.report.sweep_rows import Row
from hvstack.report.text import format_number
from hvstack.results import telemetry_files
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import TextStore
from hvstack.results.telemetry import Telemetry
from hvstack.results.typed_json import JsonObject

#: Rows that are drawn: bare metal and the best ones, as vsphere6 draws three.
_MAX_ROWS = 4
#: Points of a line; more samples are averaged.
_MAX_POINTS = 240
#: Height of one row's plot in pixels.
_HEIGHT = 190
#: Phases with names of their own on the time axis.
_MARKED_PHASES = ('HSGen', 'HSSort', 'reduce-merge', 'HSValidate')


#: Seconds of a step of a line, and its values.
Line = tuple[float, list[float | None]]


@dataclass(frozen=True)
class PlottedRun:
    """A row's run whose telemetry is drawn.

    The samples of 640 nodes occupy hundreds of MiB, so that only the lines of
    the charts stay in memory.

    :param interval: seconds between samples.
    :param phases: name, begin and end in seconds since the run's start.
    :param lines: lines by series, without series that a node does not have.
    """

    row: Row
    record: RunRecord
    interval: float
    phases: list[tuple[str, float, float]]
    lines: Mapping[str, Line]


@dataclass(frozen=True)
class _ChartKind:
    """One chart over time.

    :param lines: series and how it is called.
    :param unit: of the axis, and by how much its values are divided.
    :param mean: the mean of the workers, not their sum.
    """

    name: str
    title: str
    caption: str
    lines: tuple[tuple[str, str], ...]
    unit: tuple[str, float]
    mean: bool = False


_CHART_KINDS = (
    _ChartKind(
        'cpu',
        'CPU over time',
        'Cores that all workers used together (vsphere6, figure 3).',
        (('cpu', 'busy'), ('steal', 'stolen')),
        ('Cores', 1),
    ),
    _ChartKind(
        'throttled',
        'Throttled time',
        'Seconds in each second that the nearest group with a quota waited '
        'for its next period, summed over its CPUs, mean of the workers. It '
        "stands for the CPU's speed and is no steal.",
        (('throttled', 'throttled'),),
        ('Seconds per second', 1),
        mean=True,
    ),
    _ChartKind(
        'disk',
        'Disks over time',
        'Bytes that all workers read from their devices and wrote to them '
        '(vsphere6, figure 4). What the page cache holds is not there, or '
        'later.',
        (('read', 'read'), ('write', 'written')),
        ('MB/s', 1e6),
    ),
    _ChartKind(
        'network',
        'Network over time',
        'Bytes that all workers received and sent, with headers (vsphere6, '
        'figure 5).',
        (('rx', 'received'), ('tx', 'sent')),
        ('MB/s', 1e6),
    ),
)


def select_runs(
    report: SweepReport, store: TextStore | None
) -> tuple[list[PlottedRun], list[str]]:
    """Return runs to draw, and why others are not.

    Of each row the last valid run with a whole file.

    :param store: store of the records.
    """
    first = [row for row in [report.bare_metal, *report.ranked] if row]
    rows = [*first, *(x for x in report.rows if x.valid and x not in first)]
    plotted_runs: list[PlottedRun] = []
    missing: list[str] = []
    for row in rows:
        if len(plotted_runs) == _MAX_ROWS:
            missing.append(
                f'drawn are the first {_MAX_ROWS} rows with telemetry; the '
                'table has all'
            )
            break
        reason = 'no valid run has telemetry'
        for record in reversed(row.valid):
            if not record.observations.telemetry or store is None:
                continue
            try:
                plotted_runs.append(_load_run(row, record, store))
            except errors.InputError as exc:
                reason = str(exc)
                continue
            break
        else:
            missing.append(f'{row.label}: {reason}')
    return plotted_runs, missing


def _load_run(row: Row, record: RunRecord, store: TextStore) -> PlottedRun:
    """Read the telemetry of a run and compute its lines.

    :raises hvstack.errors.InputError: the telemetry is not usable.
    """
    run_telemetry = telemetry_files.load(record, store)
    lines = {
        series: sample_series(run_telemetry, series, mean=chart_kind.mean)
        for chart_kind in _CHART_KINDS
        for series, _ in chart_kind.lines
    }
    return PlottedRun(
        row,
        record,
        run_telemetry.interval,
        run_telemetry.phases,
        {series: line for series, line in lines.items() if line is not None},
    )


def build_charts(
    report: SweepReport,
    plotted_runs: Sequence[PlottedRun],
    missing: Sequence[str],
) -> list[Chart]:
    """Return the charts of telemetry, of nodes and of compute hosts."""
    if not plotted_runs:
        reason = (
            'the records hold no telemetry'
            if not any(
                record.observations.telemetry for record in report.records
            )
            else '; '.join(missing) or 'no row has a valid run'
        )
        over_time = [
            Chart(
                'telemetry',
                'CPU, disk and network over time',
                '',
                missing=[reason],
            )
        ]
    else:
        over_time = [
            _build_time_chart(report, chart_kind, plotted_runs, list(missing))
            for chart_kind in _CHART_KINDS
        ]
    return [
        *over_time,
        node_chart.build_chart(report),
        host_chart.build_chart(report),
    ]


def _build_time_chart(
    report: SweepReport,
    chart_kind: _ChartKind,
    plotted_runs: Sequence[PlottedRun],
    missing: list[str],
) -> Chart:
    """Return one plot above the other, so that phases can be told."""
    chart = Chart(
        chart_kind.name,
        chart_kind.title,
        f'{chart_kind.caption} Dashed: where phases begin. Lines break where '
        'samples are missing. The table has the means of each phase over '
        'the valid runs.',
        head=(
            'Configuration',
            'Phase',
            *(f'{text}, {chart_kind.unit[0]}' for _, text in chart_kind.lines),
        ),
        missing=missing,
    )
    step = 1 / len(plotted_runs)
    shapes: list[JsonObject] = []
    notes: list[JsonObject] = []
    for index, run in enumerate(plotted_runs):
        axis = f'y{index + 1}' if index else 'y'
        lines = list(_build_traces(run, chart_kind, axis))
        for line in lines:
            trace_names = {trace['name'] for trace in chart.traces}
            chart.traces.append(
                {**line, 'showlegend': line['name'] not in trace_names}
            )
        if not lines:
            chart.missing.append(
                f'{run.row.label}: run {run.record.index} has no such series'
            )
        low, high = 1 - (index + 0.8) * step, 1 - (index + 0.06) * step
        chart.layout[axis.replace('y', 'yaxis')] = {
            'domain': [low, high],
            'title': {'text': chart_kind.unit[0]},
            'rangemode': 'tozero',
            'gridcolor': '#ddd',
            'linecolor': '#888',
            'automargin': True,
        }
        title = f'<b>{escape_text(run.row.label)}</b>, run {run.record.index}'
        notes.append(_build_note(title, high, 1, 'right') | {'xref': 'paper'})
        for name, begin, _ in run.phases:
            if name in _MARKED_PHASES:
                notes.append(
                    _build_note(escape_text(name), high, begin, 'left')
                )
                shapes.append(
                    {
                        'type': 'line',
                        'x0': begin,
                        'x1': begin,
                        'y0': low,
                        'y1': high,
                        'yref': 'paper',
                        'line': {'dash': 'dash', 'width': 1, 'color': '#555'},
                    }
                )
    if not chart.traces:
        return chart
    chart.missing.extend(_list_averaged_runs(plotted_runs))
    chart.rows.extend(_list_phase_means(report, chart_kind))
    chart.layout.update(
        {
            'height': 90 + _HEIGHT * len(plotted_runs),
            'xaxis': {
                'title': {'text': 'Seconds since the start of the run'},
                'anchor': axis,
            },
            'shapes': shapes,
            'annotations': notes,
        }
    )
    return chart


def _build_note(text: str, y: float, x: float, side: str) -> JsonObject:
    return {
        'text': text,
        'x': x,
        'y': y,
        'yref': 'paper',
        'xanchor': side,
        'yanchor': 'bottom',
        'showarrow': False,
        'font': {'size': 11},
    }


def _build_traces(
    run: PlottedRun, chart_kind: _ChartKind, axis: str
) -> Iterator[JsonObject]:
    """Yield the traces of one run."""
    for index, (series, text) in enumerate(chart_kind.lines):
        if series not in run.lines:
            continue
        width, values = run.lines[series]
        yield {
            'type': 'scatter',
            'mode': 'lines',
            'name': text,
            'legendgroup': text,
            'x': [round((n + 0.5) * width, 1) for n in range(len(values))],
            'y': [
                None if value is None else round(value / chart_kind.unit[1], 3)
                for value in values
            ],
            'yaxis': axis,
            'line': {
                'color': COLOURS[index],
                'width': 2,
                'dash': ('solid', 'dot')[index],
            },
            'connectgaps': False,
        }


def _list_averaged_runs(plotted_runs: Sequence[PlottedRun]) -> list[str]:
    """Say of which runs the lines are means of samples."""
    return [
        f'{run.row.label}: single samples; a point is the mean of '
        f'{_compute_point_seconds(run):.0f} s, they were taken '
        f'every {run.interval:g} s'
        for run in plotted_runs
        if _compute_point_seconds(run) > run.interval
    ]


def _compute_point_seconds(run: Telemetry | PlottedRun) -> float:
    """Return the time that each point of a chart covers, in seconds."""
    return max(run.interval, _compute_end_seconds(run) / _MAX_POINTS)


def _compute_end_seconds(run: Telemetry | PlottedRun) -> float:
    return max((end for _, _, end in run.phases), default=0.0)


def sample_series(
    run_telemetry: Telemetry, series: str, *, mean: bool = False
) -> Line | None:
    """Return a series of all workers at equal steps.

    A step is as long as the samples' interval, or longer where these are too
    many: then it has their mean. Nothing is made up where a worker's samples
    are missing.

    :param mean: of the workers, not their sum.
    :returns: seconds of a step, and its values; None without such a series.
    """
    nodes = [
        (worker, worker.values(series)) for worker in run_telemetry.workers
    ]
    width = _compute_point_seconds(run_telemetry)
    count = int(_compute_end_seconds(run_telemetry) / width)
    if not nodes or not count:
        return None
    lines = []
    for node, values in nodes:
        if values is None:
            return None
        lines.append(node.steps(values, width, count))
    return width, [
        None
        if None in step
        else sum(sample or 0 for sample in step) / (len(step) if mean else 1)
        for step in zip(*lines, strict=True)
    ]


def _list_phase_means(
    report: SweepReport, chart_kind: _ChartKind
) -> list[tuple[str, ...]]:
    """Return rows of means by phase, from the records' own digests."""
    rows = []
    for row in report.rows:
        summaries = [
            run.observations.telemetry
            for run in row.valid
            if run.observations.telemetry
        ]
        for name in summaries[0].phases if summaries else ():
            phases = [summary.phases.get(name, {}) for summary in summaries]
            cells = []
            for series, _ in chart_kind.lines:
                rates = [
                    phase[series] / phase['seconds'] / chart_kind.unit[1]
                    for phase in phases
                    if series in phase and phase['seconds']
                ]
                if chart_kind.mean:
                    workers = sum(
                        node.role == 'worker'
                        for node in summaries[0].nodes.values()
                    )
                    rates = [rate / max(workers, 1) for rate in rates]
                cells.append(
                    format_number(
                        sum(rates) / len(rates) if rates else None, 2
                    )
                )
            rows.append((row.label, name, *cells))
    return rows
