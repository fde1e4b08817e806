# SPDX-License-Identifier: Apache-2.0
"""Chart of the tasks and the throughput of each node."""

from collections.abc import Iterator, Mapping, Sequence

from hvstack.report.chart_base import (
    COLOURS,
    Chart,
    build_rows_layout,
    escape_text,
)
from hvstack.report.sweep_report import SweepReport
from hvstack.report.text import format_number
from hvstack.results import telemetry
from hvstack.results.observations import (
    JobStatistics,
    NodeSummary,
    TelemetrySummary,
)
from hvstack.results.record_data import RunRecord
from hvstack.results.typed_json import JsonObject

#: Nodes that are drawn; the table of more would be no table.
_MAX_NODES = 40

#: Phase and type of tasks, and their name in the chart.
_JOBS: tuple[tuple[str, str, str], ...] = (
    ('HSGen', 'map', "HSGen's maps"),
    ('HSSort', 'map', "HSSort's maps"),
    ('HSSort', 'reduce', "HSSort's reduces"),
)


def _format_drops(record: RunRecord, name: str) -> str:
    """Return the packets that a node's interface dropped."""
    summary = record.observations.telemetry or TelemetrySummary()
    counters = summary.nodes.get(name, NodeSummary()).network
    if 'dropped_rx_packets' not in counters:
        return format_number(None, 0)
    return str(counters['dropped_rx_packets'] + counters['dropped_tx_packets'])


def build_chart(report: SweepReport) -> Chart:
    """Return the chart of the tasks and the throughput of each node."""
    chart = Chart(
        'nodes',
        'Tasks and throughput of each node',
        'Bytes from HDFS or to it over the seconds of the tasks that moved '
        'them, in the last valid run of each configuration.',
        head=(
            'Configuration',
            'Node',
            *(
                f'{text}, {quantity}'
                for _, _, text in _JOBS
                for quantity in ('tasks', 'MB/s')
            ),
            'TCP segments retransmitted, %',
            'Packets dropped',
        ),
    )
    points: dict[str, list[tuple[str, float]]] = {}
    node_count = 0
    for row in report.rows:
        if not row.valid:
            continue
        jobs = {phase.name: phase.job for phase in row.valid[-1].phases}
        names = sorted({name for job in jobs.values() for name in job.nodes})
        shares = telemetry.compute_retransmitted_shares(row.valid[-1])
        if not names:
            chart.missing.append(
                f'{row.label}: run {row.valid[-1].index} holds no single tasks'
            )
        for name in names:
            cells = []
            node_count += 1
            for phase, task_type, text in _JOBS:
                node = jobs.get(phase, JobStatistics()).nodes.get(name, {})
                seconds = node.get(f'{task_type}_seconds')
                speed = (
                    node[f'{task_type}_bytes'] / seconds / 1e6
                    if seconds
                    else None
                )
                cells += [
                    f'{node.get(f"{task_type}s", 0):.0f}',
                    format_number(speed, 2),
                ]
                if speed and node_count <= _MAX_NODES:
                    points.setdefault(text, []).append(
                        (f'{row.label}: {name}', speed)
                    )
            share = shares.get(name)
            cells += [
                format_number(None if share is None else 100 * share, 2),
                _format_drops(row.valid[-1], name),
            ]
            chart.rows.append((row.label, name, *cells))
    if node_count > _MAX_NODES:
        chart.missing.append(
            f'drawn are the first {_MAX_NODES} nodes of {node_count}; the '
            'table has all'
        )
    chart.traces.extend(_build_traces(points))
    if points:
        chart.layout.update(
            build_rows_layout(
                'MB in a second of a task', min(node_count, _MAX_NODES)
            )
            | {'shapes': []}
        )
    return chart


def _build_traces(
    points: Mapping[str, Sequence[tuple[str, float]]],
) -> Iterator[JsonObject]:
    """Yield a trace for each kind of task.

    :param points: label of the node and MB per second, by kind of task.
    """
    for index, (text, node_speeds) in enumerate(points.items()):
        yield {
            'type': 'scatter',
            'mode': 'markers',
            'name': escape_text(text),
            'x': [round(speed, 3) for _, speed in node_speeds],
            'y': [escape_text(label) for label, _ in node_speeds],
            'marker': {
                'size': 10,
                'color': COLOURS[index],
                'symbol': ('circle', 'square', 'triangle-up')[index],
            },
            'hovertemplate': '%{y}: %{x:.2f} MB/s<extra></extra>',
        }
