# SPDX-License-Identifier: Apache-2.0
"""The answer as one self-contained page with one chart."""

from dataclasses import dataclass
from importlib import resources

from jinja2 import Environment, StrictUndefined

from hvstack.report.answer import PHASES, Answer, plain, size_text
from hvstack.report.text import interval, number

_LEFT, _WIDTH, _STEP = 210, 860, 38
_PLOT = 330
#: Where the figures of each bar stand.
_TEXT = _LEFT + _PLOT + 16


@dataclass(frozen=True)
class Bar:
    """One bar of the chart, in the units of the drawing.

    :param y: its middle.
    :param low: left end of the interval, None without one.
    """

    label: str
    text: str
    y: float
    width: float
    low: float | None
    high: float | None


def page(answer: Answer) -> str:
    """Return the page; it needs nothing from the network."""
    template = resources.files('hvstack.report') / 'page.html.j2'
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters |= {'plain': plain, 'number': number}
    environment.globals |= {'interval': interval, 'size_text': size_text}
    top = _top(answer)
    bars = _bars(answer, top)
    return environment.from_string(template.read_text('utf-8')).render(
        answer=answer,
        phases=PHASES,
        bars=bars,
        ticks=[
            (tick, _x(tick, top))
            for tick in range(0, int(top) + 1, _tick(top))
        ],
        hundred=_x(100, top),
        left=_LEFT,
        text=_TEXT,
        width=_WIDTH,
        height=_STEP * len(bars) + 34,
    )


def _top(answer: Answer) -> float:
    """Return the largest percentage that the chart must show."""
    values = [100.0]
    for row in answer.rows:
        if row.percent:
            values += [row.percent.percent, row.percent.high or 0]
    # An interval of very few runs must not squeeze all bars to nothing.
    return min(max(values), 3 * max(100, _largest(answer))) * 1.02


def _largest(answer: Answer) -> float:
    return max(
        (r.percent.percent for r in answer.rows if r.percent), default=0
    )


def _tick(top: float) -> int:
    return next(
        step for step in (20, 50, 100, 200, 500, 10**9) if top <= 10 * step
    )


def _x(percent: float, top: float) -> float:
    return round(_LEFT + _PLOT * min(percent, top) / top, 1)


def _bars(answer: Answer, top: float) -> list[Bar]:
    bars = []
    for number_, row in enumerate(answer.rows):
        percent = row.percent
        text = row.verdict
        low = high = None
        width = 0.0
        if percent:
            width = _x(percent.percent, top) - _LEFT
            text = f'{percent.percent:.1f} %'
            if percent.low is not None and percent.high is not None:
                low, high = _x(percent.low, top), _x(percent.high, top)
                text += f' ({interval(row)}), {row.verdict}'
            else:
                text += f', {row.verdict}'
        y = _STEP * number_ + _STEP / 2 + 4
        bars.append(Bar(row.label, text, y, round(width, 1), low, high))
    return bars
