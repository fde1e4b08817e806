# SPDX-License-Identifier: Apache-2.0
"""Chart of the tasks and the throughput of each node."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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

#: Nodes that are drawn one by one, and nodes in the table, of all
#: configurations together. Larger reports have percentiles of the nodes.
_MAX_NODES, _MAX_TABLE_NODES = 40, 400
#: Percentiles in the table; the chart has the second to the fourth.
_PERCENTILES = {
    'least': 0.0,
    '5 % of nodes below': 0.05,
    'median': 0.5,
    '95 % of nodes below': 0.95,
    'greatest': 1.0,
}
#: Nodes with the slowest map tasks, which the table has beside percentiles.
_SLOWEST_NODES = 10

#: Phase and type of tasks, and their name in the chart.
_JOBS: tuple[tuple[str, str, str], ...] = (
    ('HSGen', 'map', "HSGen's maps"),
    ('HSSort', 'map', "HSSort's maps"),
    ('HSSort', 'reduce', "HSSort's reduces"),
)


@dataclass(frozen=True)
class _NodeRow:
    """Quantities of a node in a run.

    :param tasks: number of tasks for each of :data:`_JOBS`.
    :param speeds: MB per second of these tasks; None without tasks.
    :param retransmitted_percent: part of the TCP segments.
    :param dropped_packets: packets that the interface dropped.
    """

    name: str
    tasks: tuple[float, ...]
    speeds: tuple[float | None, ...]
    retransmitted_percent: float | None
    dropped_packets: float | None

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of the table after the name of the configuration."""
        return _format_cells(
            self.name,
            self.tasks,
            self.speeds,
            self.retransmitted_percent,
            self.dropped_packets,
        )


def _format_cells(
    title: str,
    tasks: Iterable[float | None],
    speeds: Iterable[float | None],
    retransmitted_percent: float | None,
    dropped_packets: float | None,
) -> tuple[str, ...]:
    cells = [title]
    for count, speed in zip(tasks, speeds, strict=True):
        cells += [format_number(count, 0), format_number(speed, 2)]
    return (
        *cells,
        format_number(retransmitted_percent, 2),
        format_number(dropped_packets, 0),
    )


def _list_nodes(record: RunRecord) -> list[_NodeRow]:
    """Return the nodes with tasks of a run by name."""
    jobs = {phase.name: phase.job for phase in record.phases}
    shares = telemetry.compute_retransmitted_shares(record)
    summary = record.observations.telemetry or TelemetrySummary()
    nodes = []
    for name in sorted({name for job in jobs.values() for name in job.nodes}):
        tasks: list[float] = []
        speeds: list[float | None] = []
        for phase, task_type, _ in _JOBS:
            node = jobs.get(phase, JobStatistics()).nodes.get(name, {})
            seconds = node.get(f'{task_type}_seconds')
            tasks.append(node.get(f'{task_type}s', 0))
            speeds.append(
                node[f'{task_type}_bytes'] / seconds / 1e6 if seconds else None
            )
        share = shares.get(name)
        counters = summary.nodes.get(name, NodeSummary()).network
        nodes.append(
            _NodeRow(
                name,
                tuple(tasks),
                tuple(speeds),
                None if share is None else 100 * share,
                counters['dropped_rx_packets'] + counters['dropped_tx_packets']
                if 'dropped_rx_packets' in counters
                else None,
            )
        )
    return nodes


def _compute_percentile(
    values: Iterable[float | None], share: float
) -> float | None:
    """Return the value that has a share of the values below it."""
    ordered = sorted(value for value in values if value is not None)
    return ordered[round(share * (len(ordered) - 1))] if ordered else None


def _summarize_nodes(nodes: Sequence[_NodeRow]) -> Iterator[tuple[str, ...]]:
    """Yield the percentiles of nodes, and the slowest nodes themselves."""
    columns = range(len(_JOBS))
    for title, share in _PERCENTILES.items():
        yield _format_cells(
            f'{title} ({len(nodes)} nodes)',
            [
                _compute_percentile((node.tasks[n] for node in nodes), share)
                for n in columns
            ],
            [
                _compute_percentile((node.speeds[n] for node in nodes), share)
                for n in columns
            ],
            _compute_percentile(
                (node.retransmitted_percent for node in nodes), share
            ),
            _compute_percentile(
                (node.dropped_packets for node in nodes), share
            ),
        )
    slowest = sorted(
        (node for node in nodes if any(node.speeds)),
        key=lambda node: min(speed for speed in node.speeds if speed),
    )
    yield from (node.cells for node in slowest[:_SLOWEST_NODES])


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
    nodes_by_label: dict[str, list[_NodeRow]] = {}
    for row in report.rows:
        if not row.valid:
            continue
        nodes = _list_nodes(row.valid[-1])
        if nodes:
            nodes_by_label[row.label] = nodes
        else:
            chart.missing.append(
                f'{row.label}: run {row.valid[-1].index} holds no single tasks'
            )
    node_count = sum(map(len, nodes_by_label.values()))
    if node_count > _MAX_NODES:
        in_table = node_count <= _MAX_TABLE_NODES
        chart.missing.append(
            f'single nodes: the report has {node_count}. Points are medians '
            'of the nodes of a configuration, and lines reach from 5 to 95 % '
            'of the nodes; '
            + (
                'the table has all'
                if in_table
                else f'the table has percentiles and the {_SLOWEST_NODES} '
                'slowest nodes of each configuration, and the records in this '
                'page have all'
            )
        )
    for label, nodes in nodes_by_label.items():
        cells = (
            [node.cells for node in nodes]
            if node_count <= _MAX_TABLE_NODES
            else _summarize_nodes(nodes)
        )
        chart.rows.extend((label, *row_cells) for row_cells in cells)
    traces = (
        _build_traces(_list_points(nodes_by_label))
        if node_count <= _MAX_NODES
        else _build_percentile_traces(nodes_by_label)
    )
    chart.traces.extend(traces)
    if chart.traces:
        count = node_count if node_count <= _MAX_NODES else len(nodes_by_label)
        chart.layout.update(
            build_rows_layout('MB in a second of a task', count)
            | {'shapes': []}
        )
    return chart


def _list_points(
    nodes_by_label: Mapping[str, Sequence[_NodeRow]],
) -> dict[str, list[tuple[str, float]]]:
    """Return label and MB per second of each node by kind of task."""
    points: dict[str, list[tuple[str, float]]] = {}
    for label, nodes in nodes_by_label.items():
        for node in nodes:
            for (_, _, text), speed in zip(_JOBS, node.speeds, strict=True):
                if speed:
                    points.setdefault(text, []).append(
                        (f'{label}: {node.name}', speed)
                    )
    return points


def _build_percentile_traces(
    nodes_by_label: Mapping[str, Sequence[_NodeRow]],
) -> Iterator[JsonObject]:
    """Yield a trace for each kind of task, with a point for each row."""
    _, low_share, share, high_share, _ = _PERCENTILES.values()
    for index, (_, _, text) in enumerate(_JOBS):
        labels, medians, above, below = [], [], [], []
        for label, nodes in nodes_by_label.items():
            speeds = [node.speeds[index] for node in nodes]
            low, median, high = (
                _compute_percentile(speeds, part)
                for part in (low_share, share, high_share)
            )
            if low is None or median is None or high is None:
                continue
            labels.append(escape_text(label))
            medians.append(round(median, 3))
            above.append(round(high - median, 3))
            below.append(round(median - low, 3))
        if labels:
            trace = _build_trace(index, text, labels, medians)
            yield trace | {
                'error_x': {
                    'type': 'data',
                    'symmetric': False,
                    'array': above,
                    'arrayminus': below,
                    'thickness': 1.5,
                }
            }


def _build_traces(
    points: Mapping[str, Sequence[tuple[str, float]]],
) -> Iterator[JsonObject]:
    """Yield a trace for each kind of task.

    :param points: label of the node and MB per second, by kind of task.
    """
    for index, (text, node_speeds) in enumerate(points.items()):
        yield _build_trace(
            index,
            text,
            [escape_text(label) for label, _ in node_speeds],
            [round(speed, 3) for _, speed in node_speeds],
        )


def _build_trace(
    index: int, text: str, labels: Sequence[str], speeds: Sequence[float]
) -> JsonObject:
    """Return the points of a kind of task.

    :param index: position of the kind, which selects color and symbol.
    :param text: name of the kind.
    :param labels: labels in HTML.
    :param speeds: MB per second.
    """
    return {
        'type': 'scatter',
        'mode': 'markers',
        'name': escape_text(text),
        'x': list(speeds),
        'y': list(labels),
        'marker': {
            'size': 10,
            'color': COLOURS[index],
            'symbol': ('circle', 'square', 'triangle-up')[index],
        },
        'hovertemplate': '%{y}: %{x:.2f} MB/s<extra></extra>',
    }
