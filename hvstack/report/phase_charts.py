# SPDX-License-Identifier: Apache-2.0
"""Charts of the phases of a run, and of the locality of its map tasks."""

from collections.abc import Mapping, Sequence

from hvstack.report import paper_figures
from hvstack.report.chart_base import (
    AXES,
    COLOURS,
    Chart,
    bare_metal_line,
    build_paper_trace,
    build_rows_layout,
    escape_text,
    vsphere6_row,
)
from hvstack.report.sweep_report import SweepReport
from hvstack.report.sweep_rows import Row
from hvstack.report.text import (
    format_number,
)
from hvstack.results.typed_json import JsonObject

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
#: Names of the locality levels that records contain for single tasks.
LOCALITY_NAMES = {
    'node': 'data-local',
    'node_group': 'node-group-local',
    'rack': 'rack-local',
    'off_rack': 'off-rack',
}
#: YARN counts node groups as racks, and all other tasks in one counter.
_LOCALITY_COUNTERS = (
    'DATA_LOCAL_MAPS',
    'RACK_LOCAL_MAPS',
    'OTHER_LOCAL_MAPS',
)


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


def build_phases_chart(report: SweepReport) -> Chart:
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
        vms = vsphere6_row(row.configuration)
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
        chart.traces.append(_build_phases_trace(row, index, names, ratios))
    if paper_y:
        chart.traces.append(
            build_paper_trace('vsphere6, figure 2', y=paper_x, x=paper_y)
        )
    chart.layout.update(_build_phases_layout(len(names) * len(plotted_rows)))
    return chart


def _build_phases_trace(
    row: Row, index: int, names: list[str], ratios: list[float | None]
) -> JsonObject:
    """Return the bars of a configuration.

    :param index: position of the configuration, which chooses the color.
    :param names: names of the phases.
    :param ratios: ratio of the seconds of each phase to those of bare metal;
        None is not drawn.
    """
    label = escape_text(row.label)
    return {
        'type': 'bar',
        'name': label,
        'y': [list(names), [label] * len(names)],
        'x': ratios,
        'orientation': 'h',
        'marker': {
            'color': COLOURS[index % len(COLOURS)],
            'opacity': 0.75,
        },
        'hovertemplate': '%{y}: %{x:.2f}<extra></extra>',
    }


def _build_phases_layout(bars: int) -> JsonObject:
    """Return the layout of the chart of phases.

    :param bars: number of bars, which determines the height.
    """
    return {
        'height': AXES + 22 * bars,
        'barmode': 'overlay',
        'bargap': 0.15,
        'xaxis': {'title': {'text': 'Ratio of seconds'}},
        'yaxis': {
            'type': 'multicategory',
            'autorange': 'reversed',
            'automargin': True,
        },
        'shapes': [bare_metal_line('x') | {'x0': 1, 'x1': 1}],
    }


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
            for name in LOCALITY_NAMES
        ]
    return [
        sum(run.counters('HSSort').get(name, 0) for run in row.valid)
        for name in _LOCALITY_COUNTERS
    ]


def build_locality_traces(
    counts_by_label: Mapping[str, Sequence[int]],
) -> list[JsonObject]:
    """Return the bars of the shares of map tasks.

    :param counts_by_label: numbers of map tasks in the order of
        :data:`LOCALITY_NAMES`, by the label of a row.
    """
    return [
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
        for index, name in enumerate(LOCALITY_NAMES.values())
    ]


def build_locality_chart(report: SweepReport) -> Chart:
    """Return the locality of the map tasks of HSSort."""
    chart = Chart(
        'locality',
        "Locality of HSSort's map tasks",
        'Percent of the map tasks of all valid runs: where each ran, next to '
        "the places of its data's replicas. Node-group-local is on the same "
        'physical host.',
        head=('Configuration', *LOCALITY_NAMES.values()),
    )
    counts_by_label: dict[str, list[int]] = {}
    for row in report.rows:
        counts = _count_locality(row)
        if not sum(counts):
            chart.missing.append(
                f'{row.label}: no valid run has counters of locality'
            )
            continue
        if len(counts) < len(LOCALITY_NAMES):
            chart.missing.append(
                f'{row.label}: runs without single tasks; off-rack is not '
                "told from another host of the rack (YARN's counters)"
            )
            counts = [*counts[:2], 0, counts[2]]
        counts_by_label[row.label] = counts
    if not counts_by_label:
        return chart
    chart.traces.extend(build_locality_traces(counts_by_label))
    chart.rows.extend(
        (label, *map(str, counts)) for label, counts in counts_by_label.items()
    )
    chart.layout.update(
        build_rows_layout('Percent of map tasks', len(counts_by_label))
        | {'barmode': 'stack', 'shapes': []}
    )
    return chart
