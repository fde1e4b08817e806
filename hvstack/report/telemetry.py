# SPDX-License-Identifier: Apache-2.0
"""Charts of telemetry: CPU, disks and network over time (vsphere6, figures
3 to 5), and what each node did.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hvstack import errors
from hvstack.report.answer import Answer, Row
from hvstack.report.charts import COLOURS, Chart, rows_layout, safe
from hvstack.report.text import number
from hvstack.results import telemetry
from hvstack.results.record import Record
from hvstack.results.telemetry import Telemetry

#: Rows that are drawn: bare metal and the best ones, as vsphere6 draws three.
_MOST_ROWS = 4
#: Points of a line; more samples are averaged.
_MOST_POINTS = 240
#: Nodes that are drawn; the table of more would be no table.
_MOST_NODES = 40
#: Height of one row's plot in pixels.
_HEIGHT = 190
#: Phases with names of their own on the time axis.
_MARKED = ('HSGen', 'HSSort', 'reduce-merge', 'HSValidate')


@dataclass(frozen=True)
class Drawn:
    """A row's run whose telemetry is drawn."""

    row: Row
    record: Record
    told: Telemetry


@dataclass(frozen=True)
class _Kind:
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


_KINDS = (
    _Kind(
        'cpu',
        'CPU over time',
        'Cores that all workers used together (vsphere6, figure 3).',
        (('cpu', 'busy'), ('steal', 'stolen')),
        ('Cores', 1),
    ),
    _Kind(
        'throttled',
        'Throttled time',
        'Seconds in each second that the nearest group with a quota waited '
        'for its next period, summed over its CPUs, mean of the workers. It '
        "stands for the CPU's speed and is no steal.",
        (('throttled', 'throttled'),),
        ('Seconds per second', 1),
        mean=True,
    ),
    _Kind(
        'disk',
        'Disks over time',
        'Bytes that all workers read from their devices and wrote to them '
        '(vsphere6, figure 4). What the page cache holds is not there, or '
        'later.',
        (('read', 'read'), ('write', 'written')),
        ('MB/s', 1e6),
    ),
    _Kind(
        'network',
        'Network over time',
        'Bytes that all workers received and sent, with headers (vsphere6, '
        'figure 5).',
        (('rx', 'received'), ('tx', 'sent')),
        ('MB/s', 1e6),
    ),
)


def drawn(
    answer: Answer, folder: Path | None
) -> tuple[list[Drawn], list[str]]:
    """Return runs to draw, and why others are not.

    Of each row the last valid run with a whole file.

    :param folder: of the records.
    """
    first = [row for row in [answer.bare_metal, *answer.ranked] if row]
    rows = [*first, *(x for x in answer.rows if x.valid and x not in first)]
    found: list[Drawn] = []
    missing: list[str] = []
    for row in rows:
        if len(found) == _MOST_ROWS:
            missing.append(
                f'drawn are the first {_MOST_ROWS} rows with telemetry; the '
                'table has all'
            )
            break
        why = 'no valid run has telemetry'
        for record in reversed(row.valid):
            if not record.seen.get('telemetry') or folder is None:
                continue
            try:
                told = telemetry.load(record, folder)
            except errors.InputError as exc:
                why = str(exc)
                continue
            found.append(Drawn(row, record, told))
            break
        else:
            missing.append(f'{row.label}: {why}')
    return found, missing


def build(
    answer: Answer, found: Sequence[Drawn], missing: Sequence[str]
) -> list[Chart]:
    """Return the charts of telemetry and of nodes."""
    if not found:
        why = (
            'the records hold no telemetry'
            if not any(one.seen.get('telemetry') for one in answer.records)
            else '; '.join(missing) or 'no row has a valid run'
        )
        over_time = [
            Chart(
                'telemetry',
                'CPU, disk and network over time',
                '',
                missing=[why],
            )
        ]
    else:
        over_time = [
            _over_time(answer, kind, found, list(missing)) for kind in _KINDS
        ]
    return [*over_time, _nodes(answer)]


def _over_time(
    answer: Answer, kind: _Kind, found: Sequence[Drawn], missing: list[str]
) -> Chart:
    """Return one plot above the other, so that phases can be told."""
    chart = Chart(
        kind.name,
        kind.title,
        f'{kind.caption} Dashed: where phases begin. Lines break where '
        'samples are missing. The table has the means of each phase over '
        'the valid runs.',
        head=(
            'Configuration',
            'Phase',
            *(f'{text}, {kind.unit[0]}' for _, text in kind.lines),
        ),
        missing=missing,
    )
    step = 1 / len(found)
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for place, one in enumerate(found):
        axis = f'y{place + 1}' if place else 'y'
        lines = list(_lines(one, kind, axis))
        for line in lines:
            known = {trace['name'] for trace in chart.traces}
            chart.traces.append(
                {**line, 'showlegend': line['name'] not in known}
            )
        if not lines:
            chart.missing.append(
                f'{one.row.label}: run {one.record.index} has no such series'
            )
        low, high = 1 - (place + 0.8) * step, 1 - (place + 0.06) * step
        chart.layout[axis.replace('y', 'yaxis')] = {
            'domain': [low, high],
            'title': {'text': kind.unit[0]},
            'rangemode': 'tozero',
            'gridcolor': '#ddd',
            'linecolor': '#888',
            'automargin': True,
        }
        title = f'<b>{safe(one.row.label)}</b>, run {one.record.index}'
        notes.append(_note(title, high, 1, 'right') | {'xref': 'paper'})
        for name, begin, _ in one.told.phases:
            if name in _MARKED:
                notes.append(_note(safe(name), high, begin, 'left'))
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
    chart.missing.extend(_down_sampled(found))
    chart.rows.extend(_means(answer, kind))
    chart.layout.update(
        {
            'height': 90 + _HEIGHT * len(found),
            'xaxis': {
                'title': {'text': 'Seconds since the start of the run'},
                'anchor': axis,
            },
            'shapes': shapes,
            'annotations': notes,
        }
    )
    return chart


def _note(text: str, y: float, x: float, side: str) -> dict[str, Any]:
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


def _lines(one: Drawn, kind: _Kind, axis: str) -> Iterator[dict[str, Any]]:
    """Yield the traces of one run."""
    for place, (series, text) in enumerate(kind.lines):
        line = sampled(one.told, series, mean=kind.mean)
        if line is None:
            continue
        width, values = line
        yield {
            'type': 'scatter',
            'mode': 'lines',
            'name': text,
            'legendgroup': text,
            'x': [round((n + 0.5) * width, 1) for n in range(len(values))],
            'y': [
                None if value is None else round(value / kind.unit[1], 3)
                for value in values
            ],
            'yaxis': axis,
            'line': {
                'color': COLOURS[place],
                'width': 2,
                'dash': ('solid', 'dot')[place],
            },
            'connectgaps': False,
        }


def _down_sampled(found: Sequence[Drawn]) -> list[str]:
    """Say of which runs the lines are means of samples."""
    return [
        f'{one.row.label}: single samples; a point is the mean of '
        f'{_width(one.told):.0f} s, they were taken every '
        f'{one.told.interval:g} s'
        for one in found
        if _width(one.told) > one.told.interval
    ]


def _width(told: Telemetry) -> float:
    """Return the seconds of a point."""
    return max(told.interval, _end(told) / _MOST_POINTS)


def _end(told: Telemetry) -> float:
    return max((end for _, _, end in told.phases), default=0.0)


def sampled(
    told: Telemetry, series: str, *, mean: bool = False
) -> tuple[float, list[float | None]] | None:
    """Return a series of all workers at equal steps.

    A step is as long as the samples' interval, or longer where these are too
    many: then it has their mean. Nothing is made up where a worker's samples
    are missing.

    :param mean: of the workers, not their sum.
    :returns: seconds of a step, and its values; None without such a series.
    """
    nodes = [(one, one.values(series)) for one in told.workers]
    width = _width(told)
    count = int(_end(told) / width)
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
        else sum(one or 0 for one in step) / (len(step) if mean else 1)
        for step in zip(*lines, strict=True)
    ]


def _means(answer: Answer, kind: _Kind) -> list[tuple[str, ...]]:
    """Return rows of means by phase, from the records' own digests."""
    rows = []
    for row in answer.rows:
        kept = [
            run.seen['telemetry']
            for run in row.valid
            if run.seen.get('telemetry')
        ]
        for name in kept[0]['phases'] if kept else ():
            phases = [one['phases'].get(name, {}) for one in kept]
            cells = []
            for series, _ in kind.lines:
                rates = [
                    one[series] / one['seconds'] / kind.unit[1]
                    for one in phases
                    if series in one and one['seconds']
                ]
                if kind.mean:
                    workers = sum(
                        node['role'] == 'worker'
                        for node in kept[0]['nodes'].values()
                    )
                    rates = [rate / max(workers, 1) for rate in rates]
                cells.append(
                    number(sum(rates) / len(rates) if rates else None, 2)
                )
            rows.append((row.label, name, *cells))
    return rows


_JOBS: tuple[tuple[str, str, str], ...] = (
    ('HSGen', 'map', "HSGen's maps"),
    ('HSSort', 'map', "HSSort's maps"),
    ('HSSort', 'reduce', "HSSort's reduces"),
)


def _nodes(answer: Answer) -> Chart:
    """Return what each node's tasks made of their time."""
    chart = Chart(
        'nodes',
        'Tasks and throughput of each node',
        'Bytes from HDFS or to it over the seconds of the tasks that moved '
        'them, in the last valid run of each configuration.',
        head=(
            'Configuration',
            'Node',
            *(
                f'{text}, {what}'
                for _, _, text in _JOBS
                for what in ('tasks', 'MB/s')
            ),
        ),
    )
    points: dict[str, list[tuple[str, float]]] = {}
    drawn = 0
    for row in answer.rows:
        if not row.valid:
            continue
        phases = {one['name']: one for one in row.valid[-1].phases}
        names = sorted(
            {
                name
                for phase in phases.values()
                for name in phase.get('nodes', {})
            }
        )
        if not names:
            chart.missing.append(
                f'{row.label}: run {row.valid[-1].index} holds no single tasks'
            )
        for name in names:
            cells = []
            drawn += 1
            for phase, kind, text in _JOBS:
                node = phases.get(phase, {}).get('nodes', {}).get(name, {})
                seconds = node.get(f'{kind}_seconds')
                speed = (
                    node[f'{kind}_bytes'] / seconds / 1e6 if seconds else None
                )
                cells += [f'{node.get(f"{kind}s", 0):.0f}', number(speed, 2)]
                if speed and drawn <= _MOST_NODES:
                    points.setdefault(text, []).append(
                        (f'{row.label}: {name}', speed)
                    )
            chart.rows.append((row.label, name, *cells))
    if drawn > _MOST_NODES:
        chart.missing.append(
            f'drawn are the first {_MOST_NODES} nodes of {drawn}; the table '
            'has all'
        )
    for place, (text, found) in enumerate(points.items()):
        chart.traces.append(
            {
                'type': 'scatter',
                'mode': 'markers',
                'name': safe(text),
                'x': [round(speed, 3) for _, speed in found],
                'y': [safe(label) for label, _ in found],
                'marker': {
                    'size': 10,
                    'color': COLOURS[place],
                    'symbol': ('circle', 'square', 'triangle-up')[place],
                },
                'hovertemplate': '%{y}: %{x:.2f} MB/s<extra></extra>',
            }
        )
    if points:
        chart.layout.update(
            rows_layout('MB in a second of a task', min(drawn, _MOST_NODES))
            | {'shapes': []}
        )
    return chart
