# SPDX-License-Identifier: Apache-2.0
"""Reports as self-contained HTML pages for offline use.

A page contains the script of Plotly. Its Content-Security-Policy allows no
other script and no download.
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
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from hvstack.report import (
    charts,
    explanation,
    findings,
    hadoop_properties,
    paper_figures,
    telemetry_charts,
    timeline_chart,
)
from hvstack.report.chart_base import Chart
from hvstack.report.comparison import Comparison
from hvstack.report.formats import format_interval, format_plain, format_size
from hvstack.report.sweep_report import SweepReport
from hvstack.report.sweep_rows import PHASES
from hvstack.report.telemetry_charts import PlottedRun
from hvstack.report.text import PAGE_ONLY, format_number, format_percent
from hvstack.results import telemetry_files
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore, TextStore
from hvstack.results.typed_json import JsonObject

#: Layout of all charts; the colors are fixed so that charts can be printed.
_LAYOUT: JsonObject = {
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
#: Maximum size in bytes of the compressed telemetry in a page.
_MAX_PACKED_BYTES = 2_500_000
#: Preset of xz, and number of characters that are compressed at once.
_PRESET, _CHUNK = 1, 1_000_000
_AXIS: JsonObject = {
    'gridcolor': '#ddd',
    'linecolor': '#888',
    'automargin': True,
}


def build_page(
    report: SweepReport,
    store: RunStore | None = None,
    skipped: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page of one sweep.

    :param report: report of the sweep.
    :param store: store of the records and their telemetry.
    :param skipped: name and reason of each configuration that is not
        possible.
    """
    runs, missing = telemetry_charts.select_runs(report, store)
    telemetry_texts = _read_telemetry_files(runs, store)
    return render_template(
        'page.html.j2',
        [
            *charts.build_charts(report),
            *telemetry_charts.build_charts(report, runs, missing),
            *timeline_chart.build_charts(report, store),
        ],
        report=report,
        explanation=explanation.build_explanation(report),
        skipped=skipped,
        phases=PHASES,
        findings=findings.list_findings(report),
        unchecked=findings.list_unchecked(report),
        properties=hadoop_properties.list_property_values(report),
        unread=hadoop_properties.list_unread(report),
        page_only=PAGE_ONLY,
        papers=paper_figures.load_figures(),
        archive=_build_archive(report.records, telemetry_texts),
        runs=runs,
        with_telemetry=len(telemetry_texts),
    )


def build_comparison_page(comparison: Comparison) -> str:
    """Return the page of two sweeps."""
    return render_template(
        'comparison.html.j2',
        charts.build_comparison_charts(comparison),
        comparison=comparison,
    )


def render_template(
    template: str, plotted_charts: Sequence[Chart], **variables: Any
) -> str:
    """Return a page with its charts.

    :param template: name of the template.
    :param plotted_charts: charts of the page.
    :param variables: further variables of the template.
    """
    jinja_env = Environment(
        loader=PackageLoader('hvstack.report', ''),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja_env.filters |= {'plain': format_plain, 'number': format_number}
    jinja_env.globals |= {
        'format_interval': format_interval,
        'format_percent': format_percent,
        'format_size': format_size,
    }
    script = (resources.files('hvstack.report') / 'page.js').read_text(
        encoding='utf-8'
    )
    return jinja_env.get_template(template).render(
        charts=plotted_charts,
        data=build_script_data(plotted_charts),
        plotly=_load_plotly(),
        script=script,
        policy=' '.join(
            _compute_policy_digest(text) for text in (_load_plotly(), script)
        ),
        **variables,
    )


@cache
def _load_plotly() -> str:
    """Return the script of Plotly from its package."""
    path = resources.files('plotly') / 'package_data' / 'plotly.min.js'
    return path.read_text('utf-8')


def _compute_policy_digest(script: str) -> str:
    """Return the digest of a script for a Content-Security-Policy."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def build_script_data(plotted_charts: Sequence[Chart]) -> str:
    """Return the charts as JSON in which no text can end the script."""
    data = {
        chart.name: {'data': chart.traces, 'layout': _merge_layout(chart)}
        for chart in plotted_charts
        if chart.traces
    }
    text = json.dumps(data, separators=(',', ':'), allow_nan=False)
    return text.replace('<', '\\u003c')


def _merge_layout(chart: Chart) -> JsonObject:
    layout = _LAYOUT | chart.layout
    for name in ('xaxis', 'yaxis'):
        axis = chart.layout.get(name)
        layout[name] = _AXIS | (axis if isinstance(axis, dict) else {})
    return layout


def _build_archive(
    records: Sequence[RunRecord], telemetry_texts: Mapping[str, str]
) -> str:
    """Return all records and some telemetry as an archive in base64.

    The extracted directory is an argument of ``--records``; the digests of
    its records are valid.
    """
    texts = {
        **{
            f'{record.id}.json': json.dumps(record.document, sort_keys=True)
            for record in records
        },
        **telemetry_texts,
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode='w') as tar:
        for name, text in texts.items():
            info = tarfile.TarInfo(f'records/{name}')
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return base64.b64encode(_compress(packed.getvalue())).decode()


def _compress(data: bytes) -> bytes:
    """Return data compressed by xz.

    The window of gzip is smaller than a record, so gzip does not find the
    similarity of records and needs six times the space.
    """
    return lzma.compress(data, preset=_PRESET)


def measure_compressed(text: str, max_bytes: int) -> int:
    """Return the size in bytes of a text that is compressed.

    :param text: text in ASCII.
    :param max_bytes: size at which the compression ends, because the text is
        not used: that of 640 nodes is 20 times as large as this size.
    :returns: size; any size above the maximum if the text is larger.
    """
    compressor = lzma.LZMACompressor(preset=_PRESET)
    size = 0
    for start in range(0, len(text), _CHUNK):
        chunk = text[start : start + _CHUNK]
        size += len(compressor.compress(chunk.encode()))
        if size > max_bytes:
            return size
    return size + len(compressor.flush())


def _read_telemetry_files(
    runs: Sequence[PlottedRun], store: TextStore | None
) -> dict[str, str]:
    """Return the telemetry files of plotted runs within the size limit."""
    texts: dict[str, str] = {}
    remaining_bytes = _MAX_PACKED_BYTES
    if store is None:
        return texts
    for run in runs:
        text = telemetry_files.read(run.record, store)
        remaining_bytes -= measure_compressed(text, remaining_bytes)
        if remaining_bytes < 0:
            break
        texts[telemetry_files.build_name(run.record)] = text
    return texts
