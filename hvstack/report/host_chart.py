# SPDX-License-Identifier: Apache-2.0
"""Chart of the cores of the compute hosts that a configuration used."""

from hvstack.report import compute_hosts
from hvstack.report.chart_base import (
    COLOURS,
    Chart,
    build_rows_layout,
    escape_text,
)
from hvstack.report.sweep_report import SweepReport

#: Parts of a bar, and their names.
_PARTS = ('guests', 'agents', 'other', 'steal')


def build_chart(report: SweepReport) -> Chart:
    """Return the chart of the whole runs; its table has the phases."""
    cores = compute_hosts.list_cores(report)
    methods = '; '.join(compute_hosts.list_methods(report))
    chart = Chart(
        'compute-hosts',
        'CPU time of the compute hosts',
        f'{compute_hosts.LEGEND} The counters were {methods}.',
        head=tuple(title.capitalize() for title in compute_hosts.HEAD),
        rows=[row.format_cells() for row in cores],
        missing=[
            f'{labels}: {reason}'
            for labels, reason in compute_hosts.list_reasons(report)
        ],
    )
    if not cores:
        if not chart.missing:
            chart.missing.append('the records hold no samples of them')
        return chart
    whole = [row for row in cores if row.phase == compute_hosts.WHOLE]
    for index, part in enumerate(_PARTS):
        values = [getattr(row, part) for row in whole]
        if not any(values):
            continue
        chart.traces.append(
            {
                'type': 'bar',
                'orientation': 'h',
                'name': part,
                'x': values,
                'y': [escape_text(row.label) for row in whole],
                'marker': {'color': COLOURS[index]},
                'hovertemplate': f'%{{y}}, {part}: %{{x:.2f}} cores'
                '<extra></extra>',
            }
        )
    chart.layout.update(
        build_rows_layout('cores of all compute hosts together', len(whole))
        | {'shapes': [], 'barmode': 'stack'}
    )
    return chart
