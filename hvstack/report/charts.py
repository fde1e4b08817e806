# SPDX-License-Identifier: Apache-2.0
"""Charts of a report as plain data for Plotly, each with its table.

A chart that cannot be drawn contains the reason; no value is interpolated.
"""

from collections.abc import Mapping
from dataclasses import replace

from hvstack.model.configuration import Configuration, parse
from hvstack.model.target import BARE_METAL
from hvstack.report import paper_figures, phase_charts
from hvstack.report.chart_base import (
    COLOURS,
    Chart,
    bare_metal_line,
    build_error_bars,
    build_paper_trace,
    build_row_trace,
    build_rows_layout,
    escape_text,
    vsphere6_row,
)
from hvstack.report.comparison import Comparison
from hvstack.report.formats import format_interval
from hvstack.report.sweep_report import SweepReport
from hvstack.report.sweep_rows import Row
from hvstack.report.text import (
    format_delta_cells,
    format_number,
    format_percent,
)
from hvstack.results.record_data import RunRecord
from hvstack.results.typed_json import Json, JsonObject

_PARAMETERS = {
    'instances': 'Instances per host (I)',
    'cpu_ratio': 'CPU ratio (C)',
    'ram_ratio': 'RAM ratio (M)',
    'storage': 'Storage',
    'cpu_policy': 'CPU policy',
    'disk_pinning': 'Disk pinning',
}


def build_charts(report: SweepReport) -> list[Chart]:
    """Return all charts of a report, in the order of the page."""
    return [
        _build_percent_chart(report),
        _build_search_path_chart(report),
        _build_gains_chart(report),
        *(_build_parameter_chart(report, name) for name in _PARAMETERS),
        phase_charts.build_phases_chart(report),
        phase_charts.build_locality_chart(report),
    ]


def build_comparison_charts(comparison: Comparison) -> list[Chart]:
    """Return the charts of two sweeps."""
    compared_deltas = [delta for delta in comparison.deltas if delta.percent]
    chart = Chart(
        'after',
        'Rate after in percent of the rate before',
        'Points: ratios of geometric means. Lines: 95 % intervals that hold '
        'together, variance of log rates pooled over the rows of both sweeps '
        f'({comparison.pooled.degrees_of_freedom} degrees of freedom). '
        'Dashed: no change.',
        head=(
            'Configuration',
            'Runs before',
            'Runs after',
            'After in percent of before',
            '95 % interval',
            'Percent of bare metal before',
            'Percent of bare metal after',
            'Verdict',
        ),
        rows=[format_delta_cells(delta) for delta in comparison.deltas],
        missing=[
            f'{delta.label}: {reason}'
            for delta in comparison.deltas
            for reason in delta.reasons
        ],
    )
    if compared_deltas:
        chart.traces.append(
            build_row_trace(
                'After over before',
                [delta.label for delta in compared_deltas],
                [delta.percent for delta in compared_deltas if delta.percent],
            )
        )
        chart.layout.update(
            build_rows_layout('Percent of before', len(compared_deltas))
        )
    return [chart]


def _plotted_rows(report: SweepReport) -> list[Row]:
    return [row for row in report.rows if row.percent]


def _unplotted_rows(report: SweepReport) -> list[str]:
    """Return the rows without a percentage, with the reasons."""
    return [
        f'{row.label}: {row.status}'
        + (f' ({"; ".join(row.reasons[:2])})' if row.reasons else '')
        for row in report.rows
        if not row.percent
    ]


def _build_percent_chart(report: SweepReport) -> Chart:
    plotted_rows = _plotted_rows(report)
    table = paper_figures.load_figures().find_table('vsphere6', 'Table 2')
    papers = table.compute_percents()
    paper_percents = {
        row.label: papers[vms]
        for row in plotted_rows
        if (vms := vsphere6_row(row.configuration)) in papers and vms
    }
    chart = Chart(
        'percent',
        'Percent of bare metal by configuration',
        'Points: geometric means of valid runs. Lines: 95 % intervals, '
        'variance of log rates pooled over all rows '
        f'({report.pooled.degrees_of_freedom} degrees of freedom). Dashed: '
        'bare metal. Hollow diamonds: vsphere6, Table 2, whole suite, best '
        'run, converted by the same definition; other hosts, data and '
        'software.',
        head=(
            'Configuration',
            'Runs',
            'Percent of bare metal',
            '95 % interval',
            'Verdict',
            'vsphere6, Table 2 (not measured here)',
        ),
        rows=[
            (
                row.title,
                str(len(row.valid)),
                format_percent(row),
                format_interval(row.percent),
                row.verdict,
                format_number(paper_percents.get(row.label)),
            )
            for row in report.rows
        ],
        missing=_unplotted_rows(report),
    )
    if not plotted_rows:
        return chart
    chart.traces.append(
        build_row_trace(
            'Measured',
            [row.label for row in plotted_rows],
            [row.percent for row in plotted_rows if row.percent],
        )
    )
    if paper_percents:
        chart.traces.append(
            build_paper_trace(
                'vsphere6',
                x=list(paper_percents.values()),
                y=[escape_text(label) for label in paper_percents],
            )
        )
    chart.layout.update(
        build_rows_layout('Percent of bare metal', len(plotted_rows))
    )
    return chart


def _build_search_path_chart(report: SweepReport) -> Chart:
    """Return the best percentage so far, in the order of the first runs."""
    rows = _list_measured_rows(report)
    chain = paper_figures.load_figures().compute_dell_chain()
    chart = Chart(
        'way',
        'Search path',
        'Line: the best percentage so far, in the order in which '
        'configurations were first run. Points: each configuration. Hollow '
        "diamonds: dell's last steps, from its 94 % of bare metal back by "
        'its gains over the step before; other hosts and parameters.',
        head=('Step', 'Percent of bare metal', 'Best so far', 'Source'),
    )
    if not rows:
        chart.missing.append('no configuration has a percentage')
        return chart
    best: list[float] = []
    for row in rows:
        value = row.percent.percent if row.percent else 0.0
        best.append(max([value, *best[-1:]]))
        chart.rows.append(
            (
                row.label,
                format_number(value),
                format_number(best[-1]),
                'measured',
            )
        )
    chart.rows.extend(
        (step, format_number(value), '-', 'dell, not measured here')
        for step, value in chain.items()
    )
    labels = [escape_text(row.label) for row in rows]
    chart.traces.extend(
        [
            {
                'type': 'scatter',
                'mode': 'lines',
                'name': 'Best so far',
                'x': labels,
                'y': best,
                'line': {'shape': 'hv', 'color': COLOURS[0], 'width': 3},
            },
            {
                'type': 'scatter',
                'mode': 'markers',
                'name': 'Measured',
                'x': labels,
                'y': [row.percent.percent for row in rows if row.percent],
                'error_y': build_error_bars(row.percent for row in rows),
                'marker': {'size': 9, 'color': COLOURS[1]},
            },
            build_paper_trace(
                'dell',
                x=[f'dell: {step}' for step in chain],
                y=list(chain.values()),
            ),
        ]
    )
    chart.layout.update(_build_columns_layout())
    return chart


def _build_columns_layout(
    axis: Mapping[str, Json] | None = None,
) -> JsonObject:
    """Return the layout of a chart with percentages for each item.

    :param axis: further fields of the horizontal axis; None adds none.
    """
    return {
        'height': 440,
        'yaxis': {
            'title': {'text': 'Percent of bare metal'},
            'zeroline': False,
            'automargin': True,
        },
        'xaxis': {'type': 'category', 'automargin': True, **(axis or {})},
        'shapes': [bare_metal_line('y')],
    }


def _build_gains_chart(report: SweepReport) -> Chart:
    """Return the gain of single changes, measured and from the Dell paper."""
    measured_gains = [
        (
            f'{_PARAMETERS[name]}: {_format_parameter(name, base)} to '
            f'{_format_parameter(name, row)} ({base.label} to {row.label})',
            report.corrected_rates.compute_ratio(
                row.configuration, base.configuration
            ),
        )
        for name, base, row in _list_changes(report)
    ]
    gains = paper_figures.load_figures().gains
    chart = Chart(
        'gains',
        'What one change gave',
        'Rate in percent of the same configuration without the change, with '
        "95 % intervals. Hollow diamonds: dell's gains over the step before.",
        head=('Change', 'Percent of the rate before', '95 % interval'),
        rows=[
            (
                description,
                format_number(percent.percent),
                format_interval(percent),
            )
            for description, percent in measured_gains
        ],
    )
    chart.rows.extend(
        (
            f'dell: {gain.step} over {gain.over} (not measured here)',
            format_number(100 + gain.gain, 0),
            '-',
        )
        for gain in gains
    )
    if not measured_gains:
        chart.missing.append(
            'no two configurations with a percentage differ in one parameter'
        )
        return chart
    papers = [(f'dell: {gain.step}', 100 + gain.gain) for gain in gains]
    # Short, for phones; the table has what was changed.
    pairs = [
        f'{base.label} to {row.label}'
        for _, base, row in _list_changes(report)
    ]
    chart.traces.extend(
        [
            build_row_trace(
                'Measured', pairs, [percent for _, percent in measured_gains]
            ),
            build_paper_trace(
                'dell',
                x=[value for _, value in papers],
                y=[escape_text(label) for label, _ in papers],
            ),
        ]
    )
    chart.layout.update(
        build_rows_layout(
            'Percent of before', len(measured_gains) + len(papers)
        )
    )
    return chart


def _list_changes(report: SweepReport) -> list[tuple[str, Row, Row]]:
    """Pair rows with the first row that differs in a single parameter."""
    first: dict[tuple[str, Configuration], Row] = {}
    pairs = []
    for row in _list_measured_rows(report):
        configuration = parse(row.configuration)
        for name in _PARAMETERS:
            base = first.setdefault(
                (name, _reset_parameter(configuration, name)), row
            )
            if base is not row:
                pairs.append((name, base, row))
    return pairs


def _list_measured_rows(report: SweepReport) -> list[Row]:
    """Return the rows with a percentage in the order of their first runs."""
    return [
        row
        for row in report.rows
        if row.percent and row.configuration != BARE_METAL
    ]


def _reset_parameter(configuration: Configuration, name: str) -> Configuration:
    """Return a configuration with the default of one parameter."""
    default = getattr(Configuration(), name)
    return replace(configuration, **{name: default})


def _format_parameter(name: str, row: Row) -> str:
    return format_value(getattr(parse(row.configuration), name))


def format_value(value: float | str) -> str:
    """Return the value of a parameter as human-readable text."""
    if isinstance(value, bool):
        return 'on' if value else 'off'
    return f'{value:g}' if isinstance(value, float) else str(value)


def _build_parameter_chart(report: SweepReport, name: str) -> Chart:
    """Return the percentages of all runs by the value of a parameter."""
    title = _PARAMETERS[name]
    chart = Chart(
        name,
        title,
        'Every valid run is a point: its rate in percent of the mean on bare '
        'metal. Configurations that differ in anything else have a colour '
        'and a mark of their own.',
        head=('Value', 'Configuration', 'Run', 'Percent of bare metal'),
    )
    mean = report.bare_metal.rate if report.bare_metal else None
    series: dict[str, list[tuple[float | str, Row, RunRecord]]] = {}
    for row in report.ranked:
        configuration = parse(row.configuration)
        series_name = _name_series(_reset_parameter(configuration, name), name)
        series.setdefault(series_name, []).extend(
            (getattr(configuration, name), row, run) for run in row.valid
        )
    values = {value for points in series.values() for value, _, _ in points}
    if not mean or not values:
        chart.missing.append('no configuration has a percentage')
        return chart
    if len(values) == 1:
        chart.missing.append(
            f'only {format_value(values.pop())} has runs with a percentage'
        )
        return chart
    order = sorted(values)
    texts = [format_value(value) for value in order]
    for index, (series_name, points) in enumerate(series.items()):
        points.sort(key=lambda point: (point[0], point[2].started))
        percents = [100 * run.rate / mean for _, _, run in points]
        chart.traces.append(
            {
                'type': 'scatter',
                'mode': 'markers',
                'name': escape_text(series_name),
                'x': [format_value(value) for value, _, _ in points],
                'y': percents,
                'text': [
                    escape_text(f'{row.label}, run {run.index}')
                    for _, row, run in points
                ],
                'hovertemplate': '%{text}: %{y:.1f} %<extra></extra>',
                'marker': {
                    'size': 10,
                    'opacity': 0.8,
                    'color': COLOURS[index % len(COLOURS)],
                    'symbol': _MARKS[index % len(_MARKS)],
                },
            }
        )
        chart.rows.extend(
            (
                format_value(value),
                row.label,
                str(run.index),
                format_number(percent),
            )
            for (value, row, run), percent in zip(
                points, percents, strict=True
            )
        )
    if name == 'instances':
        chart.traces.extend(_list_paper_traces(texts))
    chart.layout.update(
        _build_columns_layout(
            {
                'title': {'text': title},
                'categoryorder': 'array',
                'categoryarray': texts,
            }
        )
    )
    return chart


def _list_paper_traces(values: list[str]) -> list[JsonObject]:
    """Return the published percentages by instances per host (vsphere6).

    :param values: numbers of instances that the chart has.
    """
    papers = (
        paper_figures.load_figures()
        .find_table('vsphere6', 'Table 2')
        .compute_percents()
    )
    paper_percents = {
        vms.split()[0]: percent
        for vms, percent in papers.items()
        if vms.split()[0] in values
    }
    if not paper_percents:
        return []
    return [
        build_paper_trace(
            'vsphere6',
            x=list(paper_percents),
            y=list(paper_percents.values()),
        )
    ]


def _name_series(configuration: Configuration, name: str) -> str:
    """Return the name of a series: the values that its points share."""
    label_parts = configuration.label.split('-')
    if name == 'instances':
        label_parts = label_parts[1:]
    return '-'.join(label_parts) or 'all else at its default'


_MARKS = ('circle', 'square', 'triangle-up', 'cross', 'x', 'star', 'hexagon')
