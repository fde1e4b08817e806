# SPDX-License-Identifier: Apache-2.0
"""Charts of a report as plain data for Plotly, each with its table.

A chart that cannot be drawn contains the reason; no value is interpolated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from markupsafe import escape

from hvstack.model.configuration import Configuration, parse
from hvstack.model.target import BARE_METAL
from hvstack.report import paper_figures
from hvstack.report.comparison import Comparison
from hvstack.report.sweep_report import Row, SweepReport
from hvstack.report.text import (
    format_bounds,
    format_delta_cells,
    format_interval,
    format_number,
    format_percent,
)
from hvstack.results.record_data import RunRecord
from hvstack.results.stats import Percent

#: Palette of Okabe and Ito for color-blind readers, ordered so that the
#: colors also differ as grey; without yellow, which is not visible on white.
COLOURS = (
    '#0072B2',
    '#D55E00',
    '#009E73',
    '#CC79A7',
    '#56B4E9',
    '#E69F00',
)
#: Color of published figures: black hollow diamonds, visible on bars.
PAPER = '#000000'
#: Height in pixels of a row of a chart, and of the axes.
_ROW, _AXES = 34, 130
#: Configurations in the chart of phases.
_MAX_BARS = 8

#: Program or phase of a paper by phase of a run.
_PHASES = {
    'HSGen': 'TeraGen',
    'HSSort': 'TeraSort',
    'map-shuffle': 'map-shuffle',
    'reduce-merge': 'reduce-merge',
    'HSValidate': 'TeraValidate',
}
_PARAMETERS = {
    'instances': 'Instances per host (I)',
    'cpu_ratio': 'CPU ratio (C)',
    'ram_ratio': 'RAM ratio (M)',
    'storage': 'Storage',
    'cpu_policy': 'CPU policy',
    'disk_pinning': 'Disk pinning',
}
#: Names of the locality levels that records contain for single tasks.
_LOCALITY = {
    'node': 'data-local',
    'node_group': 'node-group-local (the same physical host)',
    'rack': 'rack-local',
    'off_rack': 'off-rack',
}
#: YARN counts node groups as racks, and all other tasks in one counter.
_LOCALITY_COUNTERS = (
    'DATA_LOCAL_MAPS',
    'RACK_LOCAL_MAPS',
    'OTHER_LOCAL_MAPS',
)


@dataclass(frozen=True)
class Chart:
    """Chart with its table.

    :param name: word that is unique in the page.
    :param title: title of the chart.
    :param caption: instructions for reading the chart.
    :param traces: traces in Plotly's format; empty if nothing is drawn.
    :param layout: additions to the layout in Plotly's format.
    :param head: column titles of the table.
    :param rows: rows of the table.
    :param missing: items that are not drawn, with the reasons.
    """

    name: str
    title: str
    caption: str
    traces: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)
    head: tuple[str, ...] = ()
    rows: list[Any] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def has_content(self) -> bool:
        """Whether the chart has traces or rows."""
        return bool(self.traces or self.rows)


def build_charts(report: SweepReport) -> list[Chart]:
    """Return all charts of a report, in the order of the page."""
    return [
        _build_percent_chart(report),
        _build_search_path_chart(report),
        _build_gains_chart(report),
        *(_build_parameter_chart(report, name) for name in _PARAMETERS),
        _build_phases_chart(report),
        _build_locality_chart(report),
    ]


def build_comparison_charts(comparison: Comparison) -> list[Chart]:
    """Return the charts of two sweeps."""
    compared_deltas = [delta for delta in comparison.deltas if delta.percent]
    chart = Chart(
        'after',
        'Rate after in percent of the rate before',
        'Points: ratios of geometric means. Lines: 95 % intervals, variance '
        'of log rates pooled over the rows of both sweeps '
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


def escape_text(text: object) -> str:
    """Return text that Plotly does not interpret as HTML."""
    return str(escape(str(text)))


def build_error_bars(percents: Iterable[Percent | None]) -> dict[str, Any]:
    """Return error bars for Plotly; None for a row without an interval."""
    up: list[float | None] = []
    down: list[float | None] = []
    for percent in percents:
        if percent is None or percent.low is None or percent.high is None:
            up.append(None)
            down.append(None)
        else:
            up.append(percent.high - percent.percent)
            down.append(percent.percent - percent.low)
    return {
        'type': 'data',
        'symmetric': False,
        'array': up,
        'arrayminus': down,
        'thickness': 1.5,
    }


def build_row_trace(
    name: str,
    labels: Sequence[str],
    percents: Sequence[Percent],
) -> dict[str, Any]:
    """Return a trace with one point and its interval for each row."""
    return {
        'type': 'scatter',
        'mode': 'markers',
        'name': name,
        'x': [percent.percent for percent in percents],
        'y': [escape_text(label) for label in labels],
        'error_x': build_error_bars(percents),
        'marker': {'size': 10, 'color': COLOURS[0]},
        'hovertemplate': '%{y}: %{x:.1f} %<extra></extra>',
    }


def build_rows_layout(title: str, count: int) -> dict[str, Any]:
    """Return the layout of a chart with a row for each configuration."""
    return {
        'height': _AXES + _ROW * max(count, 2),
        'xaxis': {'title': {'text': title}, 'zeroline': False},
        'yaxis': {
            'autorange': 'reversed',
            'type': 'category',
            'automargin': True,
        },
        'shapes': [_bare_metal_line('x')],
    }


def _bare_metal_line(axis: str) -> dict[str, Any]:
    """Return a dashed line at 100 percent, orthogonal to an axis."""
    other = 'y' if axis == 'x' else 'x'
    return {
        'type': 'line',
        f'{axis}0': 100,
        f'{axis}1': 100,
        f'{other}0': 0,
        f'{other}1': 1,
        f'{other}ref': 'paper',
        'line': {'dash': 'dash', 'width': 1.5, 'color': '#b3261e'},
    }


def _build_paper_trace(name: str, **coordinates: Any) -> dict[str, Any]:
    """Return a trace that is marked as not measured by hvstack."""
    return {
        'type': 'scatter',
        'mode': 'markers',
        'name': f'Paper, not measured: {name}',
        'marker': {
            'symbol': 'diamond-open',
            'size': 12,
            'color': PAPER,
            'line': {'width': 2},
        },
    } | coordinates


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


def _vsphere6_row(configuration: str) -> str | None:
    """Return the vsphere6 row of a configuration; None if I is not alone."""
    if configuration == BARE_METAL:
        return None
    parsed_configuration = parse(configuration)
    if parsed_configuration != Configuration(
        instances=parsed_configuration.instances
    ):
        return None
    plural = '' if parsed_configuration.instances == 1 else 's'
    return f'{parsed_configuration.instances} VM{plural}'


def _build_percent_chart(report: SweepReport) -> Chart:
    plotted_rows = _plotted_rows(report)
    table = paper_figures.load_figures().find_table('vsphere6', 'Table 2')
    papers = table.compute_percents()
    paper_percents = {
        row.label: papers[vms]
        for row in plotted_rows
        if (vms := _vsphere6_row(row.configuration)) in papers and vms
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
                format_interval(row),
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
            _build_paper_trace(
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
        'The way there',
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
            _build_paper_trace(
                'dell',
                x=[f'dell: {step}' for step in chain],
                y=list(chain.values()),
            ),
        ]
    )
    chart.layout.update(
        _build_columns_layout('Percent of bare metal')
        | {'shapes': [_bare_metal_line('y')]}
    )
    return chart


def _build_columns_layout(title: str) -> dict[str, Any]:
    return {
        'height': 440,
        'yaxis': {
            'title': {'text': title},
            'zeroline': False,
            'automargin': True,
        },
        'xaxis': {'type': 'category', 'automargin': True},
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
                format_bounds(percent),
            )
            for description, percent in measured_gains
        ]
        + [
            (
                f'dell: {gain.step} over {gain.over} (not measured here)',
                format_number(100 + gain.gain, 0),
                '-',
            )
            for gain in gains
        ],
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
            _build_paper_trace(
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


def format_value(value: Any) -> str:
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
    series: dict[str, list[tuple[Any, Row, RunRecord]]] = {}
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
        papers = (
            paper_figures.load_figures()
            .find_table('vsphere6', 'Table 2')
            .compute_percents()
        )
        paper_percents = {
            vms.split()[0]: percent
            for vms, percent in papers.items()
            if vms.split()[0] in texts
        }
        if paper_percents:
            chart.traces.append(
                _build_paper_trace(
                    'vsphere6',
                    x=list(paper_percents),
                    y=list(paper_percents.values()),
                )
            )
    chart.layout.update(_build_columns_layout('Percent of bare metal'))
    chart.layout['shapes'] = [_bare_metal_line('y')]
    chart.layout['xaxis'] |= {
        'title': {'text': title},
        'categoryorder': 'array',
        'categoryarray': texts,
    }
    return chart


def _name_series(configuration: Configuration, name: str) -> str:
    """Return the name of a series: the values that its points share."""
    label_parts = configuration.label.split('-')
    if name == 'instances':
        label_parts = label_parts[1:]
    return '-'.join(label_parts) or 'all else at its default'


_MARKS = ('circle', 'square', 'triangle-up', 'cross', 'x', 'star', 'hexagon')


def _compute_phase_means(row: Row) -> dict[str, float]:
    """Return mean seconds by phase; the two parts of HSSort follow it."""
    means: dict[str, float] = {}
    for phase, seconds in row.seconds.items():
        means[phase] = seconds
        if phase != 'HSSort':
            continue
        for name, key in (
            ('map-shuffle', 'map_shuffle_seconds'),
            ('reduce-merge', 'reduce_merge_seconds'),
        ):
            part_seconds = [
                seconds
                for run in row.valid
                for run_phase in run.phases
                if run_phase.name == phase
                and (seconds := getattr(run_phase.job, key))
            ]
            if len(part_seconds) == len(row.valid):
                means[name] = sum(part_seconds) / len(part_seconds)
    return means


def _build_phases_chart(report: SweepReport) -> Chart:
    """Return ratios of times to bare metal, as figure 2 of vsphere6."""
    chart = Chart(
        'phases',
        'Phases against bare metal',
        "Mean seconds over bare metal's; lower is better. map-shuffle and "
        "reduce-merge are the two parts of HSSort's job. Hollow diamonds: "
        'vsphere6, figure 2 (from Table 2, best run), where the instances '
        'per host are the same.',
        head=(
            'Configuration',
            'Phase',
            'Seconds',
            'Bare metal, s',
            'Ratio',
            'vsphere6 (not measured here)',
        ),
    )
    base = report.bare_metal
    if base is None or not report.ranked:
        chart.missing.append('no configuration has a percentage')
        return chart
    base_means = _compute_phase_means(base)
    table = paper_figures.load_figures().find_table('vsphere6', 'Table 2')
    paper_x: list[list[str]] = [[], []]
    paper_y: list[float] = []
    names = list(base_means)
    if 'map-shuffle' not in names:
        chart.missing.append(
            'map-shuffle and reduce-merge: bare metal has runs without them'
        )
    plotted_rows = report.ranked[:_MAX_BARS]
    if len(report.ranked) > _MAX_BARS:
        chart.missing.append(
            f'drawn are the best {_MAX_BARS} configurations; the table has all'
        )
    for index, row in enumerate(report.ranked):
        means = _compute_phase_means(row)
        vms = _vsphere6_row(row.configuration)
        papers = (
            table.compute_phase_ratios(vms)
            if vms in table.rows and vms
            else {}
        )
        ratios: list[float | None] = []
        for name in names:
            value = means.get(name)
            ratio = (
                value / base_means[name]
                if value and base_means[name]
                else None
            )
            ratios.append(ratio)
            paper = papers.get(_PHASES.get(name, ''))
            if paper and row in plotted_rows:
                paper_x[0].append(name)
                paper_x[1].append(escape_text(row.label))
                paper_y.append(paper)
            chart.rows.append(
                (
                    row.label,
                    name,
                    format_number(value),
                    format_number(base_means[name]),
                    format_number(ratio, 2),
                    format_number(paper, 2),
                )
            )
        if row not in plotted_rows:
            continue
        chart.traces.append(
            {
                'type': 'bar',
                'name': escape_text(row.label),
                'y': [
                    list(names),
                    [escape_text(row.label)] * len(names),
                ],
                'x': ratios,
                'orientation': 'h',
                'marker': {
                    'color': COLOURS[index % len(COLOURS)],
                    'opacity': 0.75,
                },
                'hovertemplate': '%{y}: %{x:.2f}<extra></extra>',
            }
        )
    if paper_y:
        chart.traces.append(
            _build_paper_trace('vsphere6, figure 2', y=paper_x, x=paper_y)
        )
    chart.layout.update(
        {
            'height': _AXES + 22 * len(names) * len(plotted_rows),
            'barmode': 'overlay',
            'bargap': 0.15,
            'xaxis': {'title': {'text': 'Ratio of seconds'}},
            'yaxis': {
                'type': 'multicategory',
                'autorange': 'reversed',
                'automargin': True,
            },
            'shapes': [_bare_metal_line('x') | {'x0': 1, 'x1': 1}],
        }
    )
    return chart


def _count_locality(row: Row) -> list[int]:
    """Count the map tasks of a row by the locality of their data.

    The numbers come from single tasks, or from the counters of the job if the
    records contain no single tasks.
    """
    jobs = [
        phase.job
        for run in row.valid
        for phase in run.phases
        if phase.name == 'HSSort'
    ]
    if jobs and all(job.locality for job in jobs):
        return [
            sum(job.locality.get(name, 0) for job in jobs)
            for name in _LOCALITY
        ]
    return [
        sum(run.counters('HSSort').get(name, 0) for run in row.valid)
        for name in _LOCALITY_COUNTERS
    ]


def _build_locality_chart(report: SweepReport) -> Chart:
    """Return the locality of the map tasks of HSSort."""
    chart = Chart(
        'locality',
        "Locality of HSSort's map tasks",
        'Percent of the map tasks of all valid runs: where each ran, beside '
        "the places of its data's replicas.",
        head=('Configuration', *_LOCALITY.values()),
    )
    counts_by_label: dict[str, list[int]] = {}
    for row in report.rows:
        counts = _count_locality(row)
        if not sum(counts):
            chart.missing.append(
                f'{row.label}: no valid run has counters of locality'
            )
            continue
        if len(counts) < len(_LOCALITY):
            chart.missing.append(
                f'{row.label}: runs without single tasks; off-rack is not '
                "told from another host of the rack (YARN's counters)"
            )
            counts = [*counts[:2], 0, counts[2]]
        counts_by_label[row.label] = counts
    for index, name in enumerate(_LOCALITY.values()):
        chart.traces.append(
            {
                'type': 'bar',
                'orientation': 'h',
                'name': escape_text(name),
                'y': [escape_text(label) for label in counts_by_label],
                'x': [
                    100 * counts[index] / sum(counts)
                    for counts in counts_by_label.values()
                ],
                'marker': {
                    'color': COLOURS[index],
                    'pattern': {'shape': ('', '/', '.', 'x')[index]},
                },
                'hovertemplate': '%{y}: %{x:.1f} %<extra></extra>',
            }
        )
    if not counts_by_label:
        chart.traces.clear()
        return chart
    chart.rows.extend(
        (label, *map(str, counts)) for label, counts in counts_by_label.items()
    )
    chart.layout.update(
        build_rows_layout('Percent of map tasks', len(counts_by_label))
        | {'barmode': 'stack', 'shapes': []}
    )
    return chart
