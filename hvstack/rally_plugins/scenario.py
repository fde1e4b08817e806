# SPDX-License-Identifier: Apache-2.0
"""Scenario: one iteration is one run of the benchmark, and one record."""

from typing import Any

from rally.task import validation
from rally_openstack.task import scenario

from hvstack import errors
from hvstack.model.configuration import parse
from hvstack.rally_plugins import session
from hvstack.rally_plugins.session import Session
from hvstack.report.answer import Answer, build
from hvstack.results import record
from hvstack.results.record import BARE_METAL, Record
from hvstack.sweep import state
from hvstack.sweep.plan import Step
from hvstack.tpcxhs import run as tpcxhs


@validation.add('required_platform', platform='openstack', admin=True)
@scenario.configure(name='HVStack.tpcx_hs', platform='openstack')
class TPCxHS(scenario.OpenStackScenario):
    """Run the TPCx-HS-derived benchmark on the workload's cluster."""

    def run(
        self,
        sweep: str,
        configuration: str,
        sizes: list[int],
        first_index: int = 0,
        shape: dict[str, Any] | None = None,
    ) -> None:
        """Run once, unless this run has a valid record already.

        :param sweep: names the records; ``auto`` for the unfinished sweep
            of this shape, or a new one.
        :param configuration: name or label, or ``bare-metal``.
        :param sizes: bytes of each iteration's data.
        :param first_index: of the first iteration's run.
        :param shape: of the whole sweep, for ``auto``.
        :raises hvstack.errors.RunFailed: the run is not valid.
        """
        here = session.get(self.context)
        config = {
            'sweep': sweep,
            'configuration': configuration,
            'sizes': sizes,
            'first_index': first_index,
            'shape': shape,
        }
        name = here.sweep_id(config)
        step = here.steps(config)[self.context['iteration'] - 1]
        found, _ = state.find(name, step)
        if found is None:
            found = _measure(here, config, step)
        else:
            here.progress.say(
                f'{step.label}, run {step.index + 1}: taken from the record '
                f'of {found.started}'
            )
        _output(self, here, name, found)
        if not found.valid:
            raise errors.RunFailed(f'{step.label}: {found.reason}')


def _measure(here: Session, config: dict[str, Any], step: Step) -> Record:
    if here.cluster is None:
        raise errors.InputError(
            f'{step.label}: there is no cluster to run on, add the contexts '
            'hvstack_flavors, hvstack_ratios and hvstack_cluster, or '
            'hvstack_baseline'
        )
    work = here.workload(step.size_bytes)
    title = f'{step.label}, run {step.index + 1}: {step.size_bytes / 1e6:g} MB'
    try:
        with here.progress.stage(title):
            found = tpcxhs.measure(
                here.cluster,
                work,
                state.RECORDS,
                sweep=here.sweep_id(config),
                kind=step.kind,
                configuration=step.configuration,
                index=step.index,
                progress=here.progress,
            )
    except errors.HVStackError as exc:
        here.fail(config, step, str(exc))
        raise
    here.made.append((state.RECORDS, found))
    return found


def so_far(records: list[Record]) -> Answer | None:
    """Return the answer of the runs up to now; None before a baseline."""
    if not any(one.kind == 'baseline' and one.valid for one in records):
        return None
    return build(records)


def _output(one: TPCxHS, here: Session, sweep: str, found: Record) -> None:
    """Draw phases, and percent of bare metal over the runs so far."""
    if found.phases:
        one.add_output(
            additive={
                'title': 'Seconds of each phase',
                'description': found.configuration,
                'chart_plugin': 'StackedArea',
                'data': [
                    [name, seconds]
                    for name, seconds in found.phase_seconds().items()
                ],
                'axis_label': 'iteration',
                'label': 'seconds',
            }
        )
    try:
        answer = so_far(record.load_all(state.RECORDS, sweep))
    except errors.NotComparable as exc:
        here.progress.say(str(exc))
        return
    if answer is None:
        return
    rows = [
        [
            row.label,
            str(len(row.valid)),
            '' if row.percent is None else f'{row.percent.percent:.1f}',
            _interval(row.percent),
            row.verdict,
        ]
        for row in answer.rows
    ]
    count = next(
        len(row.valid)
        for row in answer.rows
        if row.configuration == BARE_METAL
    )
    one.add_output(
        complete={
            'title': 'Percent of bare metal, so far',
            'description': f'Of {count} baseline runs finished so far. '
            + ' '.join(answer.notes),
            'chart_plugin': 'Table',
            'data': {
                'cols': [
                    'configuration',
                    'runs',
                    'percent of bare metal',
                    '95 % interval',
                    'verdict',
                ],
                'rows': rows,
            },
        }
    )
    for row in answer.rows:
        if row.configuration == found.configuration and row.percent:
            one.add_output(
                additive={
                    'title': 'Percent of bare metal, so far',
                    'description': f'of {count} baseline runs',
                    'chart_plugin': 'StatsTable',
                    'data': [['percent', row.percent.percent]],
                }
            )
            if found.configuration != BARE_METAL:
                here.progress.say(
                    f'so far: {parse(found.configuration).label} at '
                    f'{row.percent.percent:.1f} % of bare metal '
                    f'({len(row.valid)} runs of it, {count} of bare metal)'
                )


def _interval(percent: Any) -> str:
    if percent is None or percent.low is None:
        return ''
    return f'{percent.low:.1f} to {percent.high:.1f}'
