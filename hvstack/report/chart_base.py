# SPDX-License-Identifier: Apache-2.0
"""A chart as plain data for Plotly, and what charts have in common."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import escape

from hvstack.model.configuration import Configuration, parse
from hvstack.model.target import BARE_METAL
from hvstack.nouns import format_noun
from hvstack.results.stats import Percent
from hvstack.results.typed_json import Json, JsonObject

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
_ROW, AXES = 34, 130


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
    traces: list[JsonObject] = field(default_factory=list)
    layout: JsonObject = field(default_factory=dict)
    head: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def has_content(self) -> bool:
        """Whether the chart has traces or rows."""
        return bool(self.traces or self.rows)


def escape_text(text: str) -> str:
    """Return text that Plotly does not interpret as HTML."""
    return str(escape(text))


def build_error_bars(percents: Iterable[Percent | None]) -> JsonObject:
    """Return error bars for Plotly; None for an unreported interval."""
    up: list[float | None] = []
    down: list[float | None] = []
    for percent in percents:
        bounds = percent.reported_bounds if percent else None
        if percent is None or bounds is None:
            up.append(None)
            down.append(None)
        else:
            up.append(bounds[1] - percent.percent)
            down.append(percent.percent - bounds[0])
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
) -> JsonObject:
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


def build_rows_layout(
    title: str, count: int, names: Sequence[str] = ()
) -> JsonObject:
    """Return the layout of a chart with a row for each configuration.

    :param title: title of the axis of the values.
    :param count: number of rows.
    :param names: names of the rows from top to bottom; empty for the order in
        which the traces name them.
    """
    order: JsonObject = (
        {
            'categoryorder': 'array',
            'categoryarray': [escape_text(name) for name in names],
        }
        if names
        else {}
    )
    return {
        'height': AXES + _ROW * max(count, 2),
        'xaxis': {'title': {'text': title}, 'zeroline': False},
        'yaxis': {
            'autorange': 'reversed',
            'type': 'category',
            'automargin': True,
            **order,
        },
        'shapes': [bare_metal_line('x')],
    }


def bare_metal_line(axis: str) -> JsonObject:
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


def build_paper_trace(name: str, **coordinates: Json) -> JsonObject:
    """Return a trace that is marked as not measured by hvstack."""
    trace: JsonObject = {
        'type': 'scatter',
        'mode': 'markers',
        'name': f'Paper, not measured: {name}',
        'marker': {
            'symbol': 'diamond-open',
            'size': 12,
            'color': PAPER,
            'line': {'width': 2},
        },
    }
    return trace | coordinates


def vsphere6_row(configuration: str) -> str | None:
    """Return the vsphere6 row of a configuration; None if I is not alone."""
    if configuration == BARE_METAL:
        return None
    parsed_configuration = parse(configuration)
    if parsed_configuration != Configuration(
        instances=parsed_configuration.instances
    ):
        return None
    return format_noun(parsed_configuration.instances, 'VM')
