# SPDX-License-Identifier: Apache-2.0
"""Rally scenario whose iterations are runs, each with a run record."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from rally.common import validation as validators
from rally.task import validation
from rally_openstack.task import scenario

from hvstack import errors
from hvstack.cloud import connection
from hvstack.cluster.base import Cluster
from hvstack.hadoop import job_settings
from hvstack.model.configuration import Configuration
from hvstack.model.target import parse_target
from hvstack.rally_plugins import output, scaling, task_state
from hvstack.rally_plugins.task_state import TaskState
from hvstack.rally_plugins.workload_args import WorkloadArgs, parse_args
from hvstack.results import baselines, skipped, timeline
from hvstack.results.record_data import RunRecord
from hvstack.sweep import sweep_store
from hvstack.sweep.run_order import Step
from hvstack.tpcxhs import kit as kits
from hvstack.tpcxhs.result import RunSpec
from hvstack.tpcxhs.workload import Workload


@validators.configure(name='hvstack_workload', platform='openstack')
class WorkloadValidator(validators.Validator):
    """Validator of the names and the kit of a workload, before the first run.

    Its contexts check the types of the arguments.
    """

    def validate(
        self,
        context: dict[str, Any],
        config: dict[str, Any] | None,
        plugin_cls: Any,
        plugin_cfg: dict[str, Any] | None,
    ) -> None:
        """Parse the configurations and the sweep ID, and check the kit."""
        args = (config or {}).get('args') or {}
        try:
            for name in ('configuration', 'before'):
                if args.get(name) is not None:
                    parse_target(str(args[name]))
            sweep_store.check_name(str(args.get('sweep', '')))
            setup = args.get('setup') or {}
            job_settings.check(setup.get('hadoop') or {})
            if args.get('kit'):
                for size_bytes in args.get('sizes') or ():
                    kits.check_kit(Path(str(args['kit'])), size_bytes)
        except errors.InputError as exc:
            self.fail(str(exc))


@validation.add('hvstack_workload')
@validation.add('required_platform', platform='openstack', admin=True)
@scenario.configure(name='HVStack.tpcx_hs', platform='openstack')
class TPCxHS(scenario.OpenStackScenario):
    """Run the TPCx-HS-derived benchmark on the workload's cluster."""

    def run(  # noqa: PLR0913, the arguments of a Rally task
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
        phase_timeout: int | None = None,
        setup: dict[str, Any] | None = None,
        compared: list[str] | None = None,
        maps: int | None = None,
        reduces: int | None = None,
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
        :param phase_timeout: deadline of each phase in seconds, after which a
            phase continues only while it makes progress; 0 computes it, and
            None uses the option of hvstack.conf.
        :param setup: settings of the cluster: ``tuning`` and ``os_profile``,
            and ``hadoop``, properties that the jobs set, also for bare metal;
            with storage ceph or disk pinning the ``disks`` of a worker;
            with storage ceph also ``volume_type``,
            and the ``copies`` and ``osd_groups`` that the volume type must
            have, and ``host_affinity``, whether its first copy must be on the
            host of the worker. ``node_groups``, ``deployment`` and
            ``controllers`` are those of the HVE paper, and ``vnic`` is
            ``macvtap`` for nodes that are connected past the virtual switches;
            ``stateless_security_group`` is whether hosts do not track their
            connections. Bare metal ignores them. ``daemons`` are options of
            the JVMs of daemons, such as ``namenode``, also for bare metal.
            ``output_replication`` is that of HSSort's output. ``lost_hosts``
            hosts are lost at once after each run, ``loss_rounds`` times, and
            ``scaled_compute`` compute workers are removed and added again;
            ``second_cluster`` compute workers become a second compute cluster
            on the same HDFS, and both clusters sort.
            ``workload`` is another workload than TPCx-HS: ``terasort``,
            ``testdfsio``, whose number of files is ``maps``, ``nnbench``,
            ``mrbench``, ``fio``, ``stress-ng`` or ``iperf3``.
        :param compared: all configurations of the sweep, whose containers the
            tasks fill; None uses those of ``shape``.
        :param maps: number of map tasks of HSGen, such as that of a paper;
            None fills the containers of bare metal and, if possible, of all
            compared configurations.
        :param reduces: number of reduce tasks of HSSort, likewise.
        :raises hvstack.errors.RunFailedError: the run is not valid.
        """
        task = task_state.get_task_state(self.context)
        args = parse_args(
            {
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
                'phase_timeout': phase_timeout,
                'setup': setup,
                'compared': compared,
                'maps': maps,
                'reduces': reduces,
            }
        )
        with task.interruptible():
            _run_iteration(self, task, args, self.context['iteration'])


def _run_iteration(
    tpcx_hs: TPCxHS, task: TaskState, args: WorkloadArgs, iteration: int
) -> None:
    """Execute a run of a workload, or use its valid record.

    :param tpcx_hs: scenario that gets the output.
    :param task: state of the Rally process.
    :param args: arguments of the workload.
    :param iteration: number of the iteration, from 1.
    :raises hvstack.errors.RunFailedError: the run is not valid.
    """
    name = task.sweep_id(args)
    if task.skip_reason:
        _report_skipped(tpcx_hs, task, name, args)
        return
    step = task.steps(args)[iteration - 1]
    record, _ = sweep_store.find_records(name, step)
    if record is None:
        record = _measure(task, args, step)
    else:
        task.progress.say(
            f'{step.label}, run {step.index + 1}: uses the record '
            f'of {record.started}'
        )
    runs = sweep_store.load_records(name)
    if args.baseline and record.valid:
        runs = [run for run in runs if run.kind == 'configuration']
        runs += baselines.choose_runs(
            args.baseline, record, sweep_store.open_store(), args.allow
        )
    output.add_run(tpcx_hs, task.progress, record, runs, args.allow)
    if not record.valid:
        raise errors.RunFailedError(
            f'{step.label}: {record.reason.removesuffix(".")}.'
        )


def _measure(task: TaskState, args: WorkloadArgs, step: Step) -> RunRecord:
    if task.cluster is None:
        raise errors.InputError(
            f'Cannot run the benchmark ({step.label}): the workload has no '
            'cluster. Add the contexts hvstack_flavors, hvstack_ratios and '
            'hvstack_cluster, or hvstack_baseline.'
        )
    workload = task.workload(step.size_bytes, args)
    size = (
        f'{step.size_bytes / 1e6:g} MB'
        if workload.type.has_data
        else 'no data'
    )
    title = f'{step.label}, run {step.index + 1}: {size}'
    try:
        with task.progress.stage(title), task.progress.span(timeline.RUN):
            records = _measure_runs(task.cluster, task, args, step, workload)
    except errors.HVStackError as exc:
        if connection.is_outage(exc):
            task.progress.say(f'{step.label}: no result yet: {exc}')
        else:
            task.save_failure(args, step, str(exc))
        raise
    for record in records:
        task.progress.report_record(record)
    task.saved_records += records
    return next(record for record in records if record.index == step.index)


def _measure_runs(
    cluster: Cluster,
    task: TaskState,
    args: WorkloadArgs,
    step: Step,
    workload: Workload,
) -> list[RunRecord]:
    """Execute a run; with TPC's kit, the pair of runs that it belongs to."""
    sweep = task.sweep_id(args)
    first = step.index - step.index % 2 if args.kit else step.index
    run_numbers = tuple(
        offset + 1
        for offset in (0, 1)
        if sweep_store.find_records(
            sweep, replace(step, index=first + offset)
        )[0]
        is None
    )
    return kits.measure_runs(
        cluster,
        RunSpec(
            replace(step, index=first).run_id(sweep),
            workload,
            sweep_store.open_store(),
            args.kit,
            run_numbers,
            args.phase_timeout,
            baselines.make_absolute(args.baseline),
            task.plan_host_losses(args),
            scaling.plan_scaling(task, args),
            scaling.plan_second_cluster(task, args),
        ),
        task.progress,
    )


def _report_skipped(
    tpcx_hs: TPCxHS, task: TaskState, sweep: str, args: WorkloadArgs
) -> None:
    """Add a skipped configuration with its reason to both reports."""
    if isinstance(args.target, Configuration):
        label, _, reason = task.skip_reason.partition(': ')
        skipped.save_skip(sweep_store.open_store(), sweep, label, reason)
    output.add_skipped(tpcx_hs, task.skip_reason)
