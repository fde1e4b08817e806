# SPDX-License-Identifier: Apache-2.0
"""Chart of the time of a sweep, inside and outside of the phases."""

from hvstack.report.chart_base import AXES, COLOURS, Chart, escape_text
from hvstack.report.sweep_report import SweepReport
from hvstack.results import run_id, timeline
from hvstack.results.run_store import RunStore
from hvstack.results.timeline import TimelineSummary

_ROW = 26


def build_charts(report: SweepReport, store: RunStore | None) -> list[Chart]:
    """Return the chart of the timeline of a sweep, if there is a timeline.

    :param report: report of the sweep; its baseline can be that of another.
    :param store: store of the run records; None without any.
    :returns: a list with the chart; an empty list if another machine measured
        the sweep.
    """
    sweep = run_id.parse_sweep_id(report.sweep)
    summary = store and timeline.read_summary(sweep, store)
    return [_build_chart(summary)] if summary else []


def _build_chart(summary: TimelineSummary) -> Chart:
    total = summary.total_seconds
    groups = {
        'Phases of the benchmark': True,
        'Outside of the phases': False,
    }
    return Chart(
        name='timeline',
        title='Where the time went',
        caption='Time of all invocations of the sweep, without the time '
        f'between them: {total:.0f} s, of which '
        f'{100 * summary.outside_share:.1f} % are outside of the phases.',
        traces=[
            {
                'type': 'bar',
                'orientation': 'h',
                'name': name,
                'x': [
                    share.seconds
                    for share in summary.shares
                    if share.is_phase == is_phase
                ],
                'y': [
                    escape_text(share.name)
                    for share in summary.shares
                    if share.is_phase == is_phase
                ],
                'marker': {'color': COLOURS[0 if is_phase else 1]},
                'hovertemplate': '%{y}: %{x:.0f} s<extra></extra>',
            }
            for name, is_phase in groups.items()
        ],
        layout={
            'height': AXES + _ROW * len(summary.shares),
            'xaxis': {'title': {'text': 'seconds'}},
            'yaxis': {'autorange': 'reversed', 'automargin': True},
        },
        head=('Part', 'Seconds', '% of the time'),
        rows=[
            (
                share.name,
                f'{share.seconds:.0f}',
                f'{100 * share.seconds / total:.1f}',
            )
            for share in summary.shares
        ],
    )
