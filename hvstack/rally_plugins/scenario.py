# SPDX-License-Identifier: Apache-2.0
"""Rally scenario whose iterations are runs, each with a run record."""

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
from hvstack.model.target import BARE_METAL
from hvstack.rally_plugins import slas, task_state
from hvstack.rally_plugins.task_state import TaskState
from hvstack.report.sweep_report import SweepReport, build_report
from hvstack.report.text import format_percent
from hvstack.results import baselines, skipped
from hvstack.results.record import Record
from hvstack.sweep import sweep_store
from hvstack.sweep.run_order import Step
from hvstack.tpcxhs import kit as kits
from hvstack.tpcxhs.workload import Workload


@validators.configure(name='hvstack_workload', platform='openstack')
class WorkloadValidator(validators.Validator):
    """Validator of the names in a workload, before the first run."""

    def validate(
        self,
        context: dict[str, Any],
        config: dict[str, Any] | None,
        plugin_cls: Any,
        plugin_cfg: dict[str, Any] | None,
    ) -> None:
        """Parse the configurations and the sweep ID of a workload."""
        args = (config or {}).get('args') or {}
        try:
            for name in ('configuration', 'before'):
                if args.get(name) not in (None, BARE_METAL):
                    parse(str(args[name]))
            sweep_store.check_name(str(args.get('sweep', '')))
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
        """Execute a run, unless it already has a valid record.

        :param sweep: sweep ID of the records; ``auto`` for the unfinished
            sweep of this shape, or a new sweep; ``new`` for a new sweep per
            Rally process.
        :param configuration: name or label of a configuration, or
            ``bare-metal``.
        :param sizes: size of the data set of each iteration, in bytes.
        :param first_index: index of the run of the first iteration.
        :param shape: shape of the whole sweep, for ``auto``.
        :param replication: number of replicas; None uses the minimum of 3 and
            the number of worker hosts.
        :param baseline: recorded runs on bare metal to compare with: a file,
            the ID of a record or sweep, or ``auto`` for the newest comparable
            runs; None uses those of the sweep.
        :param allow: facts that may differ from the baseline; differences are
            reported with the percentage.
        :param skip: whether a configuration that cannot exist is skipped with
            the reason, instead of a failure.
        :param without: missing capabilities of the cloud, as in ``sweep
            plan``.
        :param before: configuration for which bare metal is measured; if it is
            skipped, so is this workload.
        :param storage: ``deck`` lets the cloud decide for configurations
            without a storage: Ceph with a single copy, or local.
        :param kit: directory of TPC's kit, which executes runs in pairs.
        :param setup: settings of the cluster: ``tuning`` and ``os_profile``,
            also for bare metal; with storage ceph also the ``disks`` of a
            worker, ``volume_type``, and the ``copies`` and ``osd_groups`` that
            the volume type must have.
        :param keep: whether the next workload reuses the cluster, because it
            has the same configuration and settings except tuning and
            replication. A cluster on which a run failed is not reused.
        :raises hvstack.errors.RunFailed: the run is not valid.
        """
        task = task_state.get_task_state(self.context)
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
    """Execute a run of a workload, or use its valid record.

    :param tpcx_hs: scenario that gets the output.
    :param task: state of the Rally process.
    :param config: arguments of the scenario.
    :param iteration: number of the iteration, from 1.
    :raises hvstack.errors.RunFailed: the run is not valid.
    """
    name = task.sweep_id(config)
    if task.skip_reason:
        _report_skipped(tpcx_hs, task, name, config['configuration'])
        return
    step = task.steps(config)[iteration - 1]
    record, _ = sweep_store.find_records(name, step)
    if record is None:
        record = _measure(task, config, step)
    else:
        task.progress.say(
            f'{step.label}, run {step.index + 1}: uses the record '
            f'of {record.started}'
        )
    allow = config['allow'] or ()
    runs = sweep_store.load_records(name)
    if config['baseline'] and record.valid:
        runs = [run for run in runs if run.kind == 'configuration']
        runs += baselines.choose_runs(
            config['baseline'], record, sweep_store.RECORDS_DIR, allow
        )
    _add_output(tpcx_hs, task, record, runs, allow)
    if not record.valid:
        raise errors.RunFailed(f'{step.label}: {record.reason}')


def _measure(task: TaskState, config: dict[str, Any], step: Step) -> Record:
    if task.cluster is None:
        raise errors.InputError(
            f'Cannot run the benchmark ({step.label}): the workload has no '
            'cluster. Add the contexts hvstack_flavors, hvstack_ratios and '
            'hvstack_cluster, or hvstack_baseline.'
        )
    workload = task.workload(step.size_bytes, config)
    title = f'{step.label}, run {step.index + 1}: {step.size_bytes / 1e6:g} MB'
    try:
        with task.progress.stage(title):
            records = _measure_runs(task.cluster, task, config, step, workload)
    except errors.HVStackError as exc:
        task.save_failure(config, step, str(exc))
        raise
    for record in records:
        task.report_record(record)
    task.saved_records += [
        (sweep_store.RECORDS_DIR, record) for record in records
    ]
    return next(record for record in records if record.index == step.index)


def _measure_runs(
    cluster: Cluster,
    task: TaskState,
    config: dict[str, Any],
    step: Step,
    workload: Workload,
) -> list[Record]:
    """Execute a run; with TPC's kit, the pair of runs that it belongs to."""
    path = Path(config['kit']) if config['kit'] else None
    sweep = task.sweep_id(config)
    first = step.index - step.index % 2 if path else step.index
    return kits.measure_runs(
        path,
        cluster,
        workload,
        sweep_store.RECORDS_DIR,
        sweep=sweep,
        kind=step.kind,
        configuration=step.configuration,
        index=first,
        run_numbers=[
            offset + 1
            for offset in (0, 1)
            if sweep_store.find_records(
                sweep, replace(step, index=first + offset)
            )[0]
            is None
        ],
        progress=task.progress,
    )


def build_interim_report(
    records: list[Record], allow: Collection[str] = ()
) -> SweepReport | None:
    """Return the report of all runs so far; None without a baseline run.

    :param records: records of the sweep.
    :param allow: facts that may differ.
    """
    if not any(
        record.kind == 'baseline' and record.valid for record in records
    ):
        return None
    return build_report(records, allow=allow)


def steal_percent(record: Record) -> float | None:
    """Return the largest percentage of stolen CPU time of a node.

    :param record: run record.
    :returns: percentage; None without telemetry of stolen CPU time.
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
    """Add a skipped configuration with its reason to both reports."""
    if configuration != BARE_METAL:
        label, _, reason = task.skip_reason.partition(': ')
        skipped.save_skip(sweep_store.RECORDS_DIR, sweep, label, reason)
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
    """Add charts of the phases, and of percent of bare metal so far.

    :param tpcx_hs: scenario that gets the output.
    :param task: state of the Rally process.
    :param record: record of the run.
    :param runs: records of the sweep and of the baseline.
    :param allow: facts that may differ.
    """
    if record.valid:
        _add_figure(tpcx_hs, slas.RATE, 'TB/h', record.rate)
        # The other runs of the configuration were on other clusters, that is
        # in other workloads, but the SLA of the spread is for all of them.
        for run in runs:
            if run.configuration == record.configuration and (
                run.valid
                and run.id != record.id
                and run.size_bytes == record.size_bytes
            ):
                name = f'TB/h, run {run.index + 1}'
                _add_figure(tpcx_hs, slas.RATE, name, run.rate)
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
