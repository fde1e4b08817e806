# SPDX-License-Identifier: Apache-2.0
"""Answers as self-contained pages that open offline.

Plotly's script is written into the page. The page's own policy lets nothing
else run and nothing be fetched.
"""

import base64
import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from hvstack.report import (
    charts,
    findings,
    parameters,
    published,
    telemetry,
)
from hvstack.report.answer import PHASES, Answer, plain, size_text
from hvstack.report.charts import Chart
from hvstack.report.comparison import Comparison
from hvstack.report.telemetry import Drawn
from hvstack.report.text import ON_THE_PAGE, interval, number, percent_of
from hvstack.results import telemetry as files
from hvstack.results.record import Record, stored

#: What all charts have in common; fixed colours, also for print.
_LAYOUT: dict[str, Any] = {
    'font': {'family': 'sans-serif', 'size': 13, 'color': '#1a1a1a'},
    'paper_bgcolor': '#fff',
    'plot_bgcolor': '#fff',
    'margin': {'l': 60, 'r': 16, 't': 16, 'b': 50},
    'legend': {
        'orientation': 'h',
        'yref': 'container',
        'y': 0,
        'yanchor': 'bottom',
    },
    'showlegend': True,
    'hovermode': 'closest',
}
#: Packed bytes of telemetry that a page takes along.
_MOST_PACKED = 2_500_000
_AXIS = {'gridcolor': '#ddd', 'linecolor': '#888', 'automargin': True}


def page(
    answer: Answer,
    records_dir: Path | None = None,
    skipped: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page of one sweep.

    :param records_dir: of the records, where their telemetry is.
    :param skipped: name and reason of what could not exist.
    """
    runs, missing = telemetry.drawn(answer, records_dir)
    telemetry_files = _drawn_files(runs, records_dir)
    return _render(
        'page.html.j2',
        [*charts.build(answer), *telemetry.build(answer, runs, missing)],
        answer=answer,
        not_possible=skipped,
        phases=PHASES,
        findings=findings.find(answer),
        not_judged=findings.not_judged(answer),
        parameters=parameters.build(answer),
        unread=parameters.unread(answer),
        on_the_page=ON_THE_PAGE,
        papers=published.load(),
        archive=_archive(answer.records, telemetry_files),
        runs=runs,
        with_telemetry=len(telemetry_files),
    )


def comparison_page(comparison: Comparison) -> str:
    """Return the page of two sweeps."""
    return _render(
        'comparison.html.j2',
        charts.compare(comparison),
        comparison=comparison,
    )


def _render(
    template: str, plotted_charts: Sequence[Chart], **variables: Any
) -> str:
    environment = Environment(
        loader=PackageLoader('hvstack.report', ''),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {'plain': plain, 'number': number}
    environment.globals |= {
        'interval': interval,
        'percent_of': percent_of,
        'size_text': size_text,
    }
    script = (resources.files('hvstack.report') / 'page.js').read_text(
        encoding='utf-8'
    )
    return environment.get_template(template).render(
        charts=plotted_charts,
        data=script_data(plotted_charts),
        plotly=_plotly(),
        script=script,
        policy=' '.join(_digest(text) for text in (_plotly(), script)),
        **variables,
    )


@cache
def _plotly() -> str:
    """Return the charting library's script, as its package ships it."""
    path = resources.files('plotly') / 'package_data' / 'plotly.min.js'
    return path.read_text('utf-8')


def _digest(script: str) -> str:
    """Return a script as a Content-Security-Policy names it."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def script_data(plotted_charts: Sequence[Chart]) -> str:
    """Return the charts for the page's script; no text can end it early."""
    data = {
        chart.name: {'data': chart.traces, 'layout': _layout(chart)}
        for chart in plotted_charts
        if chart.traces
    }
    text = json.dumps(data, separators=(',', ':'), allow_nan=False)
    return text.replace('<', '\\u003c')


def _layout(chart: Chart) -> dict[str, Any]:
    return (
        _LAYOUT
        | chart.layout
        | {
            axis: _AXIS | chart.layout.get(axis, {})
            for axis in ('xaxis', 'yaxis')
        }
    )


def _archive(
    records: Sequence[Record], telemetry_files: Mapping[str, str]
) -> str:
    """Return all records and some telemetry as a packed folder in base64.

    Unpacked, it can be given to ``--records``, and the digests fit.
    """
    texts = {
        **{
            f'{record.id}.json': json.dumps(stored(record), sort_keys=True)
            for record in records
        },
        **telemetry_files,
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode='w') as tar:
        for name, text in texts.items():
            info = tarfile.TarInfo(f'records/{name}')
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return base64.b64encode(_packed(packed.getvalue())).decode()


def _packed(data: bytes) -> bytes:
    """Return data as xz has it.

    Records are alike but longer than gzip looks back: a thousand of them
    would take six times the room.
    """
    return lzma.compress(data, preset=1)


def _drawn_files(
    runs: Sequence[Drawn], records_dir: Path | None
) -> dict[str, str]:
    """Return files of drawn telemetry, as many as the page has room for."""
    telemetry_files: dict[str, str] = {}
    remaining_bytes = _MOST_PACKED
    if records_dir is None:
        return telemetry_files
    for run in runs:
        text = files.read(run.record, records_dir)
        remaining_bytes -= len(_packed(text.encode()))
        if remaining_bytes < 0:
            break
        telemetry_files[f'{files.FOLDER}/{run.record.id}.json'] = text
    return telemetry_files
