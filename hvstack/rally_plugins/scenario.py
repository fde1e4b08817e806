# SPDX-License-Identifier: Apache-2.0
"""Scenario: one iteration is one run of the benchmark, and one record."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from rally.common import validation as validators
from rally.task import validation
from rally_openstack.task import scenario

from hvstack import errors
from hvstack.cluster.base import Cluster
from hvstack.model.configuration import parse
from hvstack.rally_plugins import session, slas
from hvstack.rally_plugins.session import TaskState
from hvstack.report.answer import SweepReport, build_report
from hvstack.report.text import format_percent
from hvstack.results import reference, skips
from hvstack.results.record import BARE_METAL, Record
from hvstack.sweep import state
from hvstack.sweep.plan import Step
from hvstack.tpcxhs import kit as kits
from hvstack.tpcxhs.workload import Workload


@validators.configure(name='hvstack_workload', platform='openstack')
class WorkloadValidator(validators.Validator):
    """Names that make sense, told before the first of all runs."""

    def validate(
        self,
        context: dict[str, Any],
        config: dict[str, Any] | None,
        plugin_cls: Any,
        plugin_cfg: dict[str, Any] | None,
    ) -> None:
        """Read a workload's configurations and its sweep's name."""
        args = (config or {}).get('args') or {}
        try:
            for name in ('configuration', 'before'):
                if args.get(name) not in (None, BARE_METAL):
                    parse(str(args[name]))
            state.check_name(str(args.get('sweep', '')))
        except errors.InputError as exc:
            self.fail(str(exc))


@validation.add('hvstack_workload')
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
        replication: int | None = None,
        baseline: str | None = None,
        allow: list[str] | None = None,
        skip: bool = False,
        without: list[str] | None = None,
        before: str | None = None,
        storage: str | None = None,
        kit: str | None = None,
        setup: dict[str, Any] | None = None,
        keep: bool = False,
    ) -> None:
        """Run once, unless this run has a valid record already.

        :param sweep: names the records; ``auto`` for the unfinished sweep
            of this shape, or a new one; ``new`` for one that this Rally
            process begins.
        :param configuration: name or label, or ``bare-metal``.
        :param sizes: bytes of each iteration's data.
        :param first_index: of the first iteration's run.
        :param shape: of the whole sweep, for ``auto``.
        :param replication: min(3, worker hosts) by default.
        :param baseline: recorded runs on bare metal to compare with: a file,
            the id of a record or sweep, or ``auto`` for the newest
            comparable ones; by default those of the sweep itself.
        :param allow: facts that may differ from those; the difference is
            said beside the percentage.
        :param skip: a configuration that cannot exist is skipped with the
            reason, it does not fail.
        :param without: what the cloud lacks, as in ``sweep plan``.
        :param before: the configuration that bare metal is measured for; if
            that is skipped, so is this.
        :param storage: ``deck`` leaves it to the cloud for configurations
            that name none: Ceph with one copy, else local.
        :param kit: folder of TPC's kit, which does runs in pairs.
        :param setup: how clusters are set up: ``tuning`` and ``os_profile``,
            of bare metal too; with storage ceph ``disks`` of a worker,
            ``volume_type``, and the ``copies`` and ``osd_groups`` that the
            type must say it has.
        :param keep: the next workload has the same configuration and set-up,
            tuning and replication apart, and gets the cluster, unless a run
            fails on it.
        :raises hvstack.errors.RunFailed: the run is not valid.
        """
        task = session.get_task_state(self.context)
        config = {
            'sweep': sweep,
            'configuration': configuration,
            'sizes': sizes,
            'first_index': first_index,
            'shape': shape,
            'replication': replication,
            'baseline': baseline,
            'allow': allow,
            'storage': storage,
            'without': without,
            'kit': kit,
            'setup': setup,
        }
        with task.interruptible():
            _run_iteration(self, task, config, self.context['iteration'])


def _run_iteration(
    tpcx_hs: TPCxHS, task: TaskState, config: dict[str, Any], iteration: int
) -> None:
    """Do a workload's run of this number, from 1, or take it as it is."""
    name = task.sweep_id(config)
    if task.skip_reason:
        _report_skipped(tpcx_hs, task, name, config['configuration'])
        return
    step = task.steps(config)[iteration - 1]
    record, _ = state.find_records(name, step)
    if record is None:
        record = _measure(task, config, step)
    else:
        task.progress.say(
            f'{step.label}, run {step.index + 1}: taken from the record '
            f'of {record.started}'
        )
    allow = config['allow'] or ()
    runs = state.load_records(name)
    if config['baseline'] and record.valid:
        runs = [run for run in runs if run.kind == 'configuration']
        runs += reference.choose_runs(
            config['baseline'], record, state.RECORDS_DIR, allow
        )
    _add_output(tpcx_hs, task, record, runs, allow)
    if not record.valid:
        raise errors.RunFailed(f'{step.label}: {record.reason}')


def _measure(task: TaskState, config: dict[str, Any], step: Step) -> Record:
    if task.cluster is None:
        raise errors.InputError(
            f'{step.label}: there is no cluster to run on, add the contexts '
            'hvstack_flavors, hvstack_ratios and hvstack_cluster, or '
            'hvstack_baseline'
        )
    work = task.workload(step.size_bytes, config)
    title = f'{step.label}, run {step.index + 1}: {step.size_bytes / 1e6:g} MB'
    try:
        with task.progress.stage(title):
            records = _measure_runs(task.cluster, task, config, step, work)
    except errors.HVStackError as exc:
        task.save_failure(config, step, str(exc))
        raise
    task.saved_records += [(state.RECORDS_DIR, record) for record in records]
    return next(record for record in records if record.index == step.index)


def _measure_runs(
    cluster: Cluster,
    task: TaskState,
    config: dict[str, Any],
    step: Step,
    work: Workload,
) -> list[Record]:
    """Run once; with TPC's kit the pair that the run is one of."""
    path = Path(config['kit']) if config['kit'] else None
    sweep = task.sweep_id(config)
    first = step.index - step.index % 2 if path else step.index
    return kits.measure_runs(
        path,
        cluster,
        work,
        state.RECORDS_DIR,
        sweep=sweep,
        kind=step.kind,
        configuration=step.configuration,
        index=first,
        run_numbers=[
            number + 1
            for number in (0, 1)
            if state.find_records(sweep, replace(step, index=first + number))[
                0
            ]
            is None
        ],
        progress=task.progress,
    )


def build_interim_report(
    records: list[Record], allow: Collection[str] = ()
) -> SweepReport | None:
    """Return the answer of the runs up to now; None before a baseline."""
    if not any(
        record.kind == 'baseline' and record.valid for record in records
    ):
        return None
    return build_report(records, allow=allow)


def steal_percent(record: Record) -> float | None:
    """Return the largest part of a node's CPU time that was stolen.

    :returns: in percent; None where no telemetry tells.
    """
    nodes = (record.seen.get('telemetry') or {}).get('nodes', {})
    parts = [
        100 * node['steal'] / (node['cpus'] * node['seconds'])
        for node in nodes.values()
        if node.get('steal') is not None
        and node.get('cpus')
        and node.get('seconds')
    ]
    return max(parts, default=None)


def _report_skipped(
    tpcx_hs: TPCxHS, task: TaskState, sweep: str, configuration: str
) -> None:
    """Say in Rally's report, and for ours, what cannot exist, and why."""
    if configuration != BARE_METAL:
        label, _, reason = task.skip_reason.partition(': ')
        skips.save_skip(state.RECORDS_DIR, sweep, label, reason)
    tpcx_hs.add_output(
        complete={
            'title': slas.SKIPPED,
            'description': 'cannot exist on these hosts',
            'chart_plugin': 'TextArea',
            'data': [task.skip_reason],
        }
    )


def _add_figure(tpcx_hs: TPCxHS, title: str, name: str, value: float) -> None:
    tpcx_hs.add_output(
        additive={
            'title': title,
            'chart_plugin': 'StatsTable',
            'data': [[name, value]],
        }
    )


def _add_output(
    tpcx_hs: TPCxHS,
    task: TaskState,
    record: Record,
    runs: list[Record],
    allow: Collection[str],
) -> None:
    """Draw phases, and percent of bare metal over the runs so far.

    :param runs: of the sweep, with those on bare metal.
    :param allow: facts that may differ.
    """
    if record.valid:
        _add_figure(tpcx_hs, slas.RATE, 'TB/h', record.rate)
    stolen = steal_percent(record)
    if stolen is not None:
        _add_figure(tpcx_hs, slas.STEAL, 'percent', stolen)
    if record.phases:
        tpcx_hs.add_output(
            additive={
                'title': 'Seconds of each phase',
                'description': record.configuration,
                'chart_plugin': 'StackedArea',
                'data': [
                    [name, seconds]
                    for name, seconds in record.phase_seconds().items()
                ],
                'axis_label': 'iteration',
                'label': 'seconds',
            }
        )
    try:
        answer = build_interim_report(runs, allow)
    except errors.NotComparable as exc:
        task.progress.say(str(exc))
        return
    if answer is None:
        return
    rows = [
        [
            row.label,
            str(len(row.valid)),
            format_percent(row),
            _format_interval(row.percent),
            row.verdict,
        ]
        for row in answer.rows
    ]
    count = next(
        len(row.valid)
        for row in answer.rows
        if row.configuration == BARE_METAL
    )
    tpcx_hs.add_output(
        complete={
            'title': slas.PERCENT,
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
        if row.configuration == record.configuration and row.percent:
            tpcx_hs.add_output(
                additive={
                    'title': slas.PERCENT,
                    'description': f'of {count} baseline runs',
                    'chart_plugin': 'StatsTable',
                    'data': [['percent', row.percent.percent]],
                }
            )
            if record.configuration != BARE_METAL:
                task.progress.say(
                    f'so far: {parse(record.configuration).label} at '
                    f'{row.percent.percent:.1f} % of bare metal '
                    f'({len(row.valid)} runs of it, {count} of bare metal)'
                )


def _format_interval(percent: Any) -> str:
    if percent is None or percent.low is None:
        return ''
    return f'{percent.low:.1f} to {percent.high:.1f}'
