# SPDX-License-Identifier: Apache-2.0
"""State that the contexts and the scenario of a Rally process share.

Rally copies its context object for every iteration, so the object cannot hold
a running cluster and its connections. The serial runner executes everything in
a single process.
"""

import atexit
import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openstack.connection import Connection

from hvstack import conf, errors, host_profiles, interrupts, processutils
from hvstack.cloud import connection, credentials, host_power, lease, undo
from hvstack.cluster import bare_metal, baseline_hosts, probe
from hvstack.cluster.base import Cluster
from hvstack.cluster.plan import ClusterPlan
from hvstack.cluster.stack import StackCluster
from hvstack.conf import ConfOptions
from hvstack.model.configuration import Configuration
from hvstack.rally_plugins.planned_workload import WorkloadPlanner
from hvstack.rally_plugins.task_progress import TaskProgress
from hvstack.rally_plugins.workload_args import (
    AUTO,
    NEW,
    SweepShape,
    WorkloadArgs,
)
from hvstack.results import baselines, record_data, run_clock
from hvstack.results.workload_types import TPCX_HS, TYPES
from hvstack.sweep import (
    capabilities,
    forecast,
    quick_sweeps,
    recovery,
    run_order,
    sweep_store,
    task_events,
    token_check,
)
from hvstack.sweep.node_setup import NodeSetup
from hvstack.sweep.run_order import Step
from hvstack.tpcxhs import run
from hvstack.tpcxhs.host_losses import HostLossSpec
from hvstack.tpcxhs.result import RunResult, format_now
from hvstack.tpcxhs.workload import Workload


@dataclass
class TaskState:
    """State of a Rally process.

    :param admin: connection of the administrator.
    :param tenant: connection of the first user, for the stacks.
    :param options: options of :mod:`hvstack.conf`.
    :param progress: where to report.
    """

    admin: Connection
    tenant: Connection
    options: ConfOptions
    progress: TaskProgress = field(default_factory=TaskProgress)
    auto_sweeps: dict[SweepShape, sweep_store.Sweep] = field(
        default_factory=dict
    )
    #: By the values that a sweep shares: replication, size and settings.
    new_sweep_ids: dict[tuple[int | None, int, NodeSetup], str] = field(
        default_factory=dict
    )
    #: Cluster plan of the current workload.
    plan: ClusterPlan | None = None
    flavor_ids: dict[str, str] = field(default_factory=dict)
    ratios_before: dict[str, dict[str, float]] = field(default_factory=dict)
    cluster: Cluster | None = None
    #: Storage of configurations without a storage, if the cloud decides.
    storage: str = ''
    #: Why the configuration of the workload cannot exist.
    skip_reason: str = ''
    #: Why such clusters cannot be on these hosts for workers.
    refused_hosts: dict[tuple[str | frozenset[str], ...], str] = field(
        default_factory=dict
    )
    known_kills: set[str] = field(default_factory=set)
    saved_records: list[record_data.RunRecord] = field(default_factory=list)
    #: Whether Ctrl-C interrupted an iteration. Rally's runner ignores it,
    #: because it returns from a "finally" block.
    interrupted: bool = False

    def raise_if_interrupted(self) -> None:
        """Raise an error if Ctrl-C interrupted an earlier iteration.

        :raises KeyboardInterrupt: an iteration was interrupted.
        """
        if self.interrupted:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Remember that Ctrl-C interrupted the block.

        :raises KeyboardInterrupt: an earlier iteration was interrupted.
        """
        self.raise_if_interrupted()
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True
            raise

    @property
    def connections(self) -> list[Connection]:
        """Connections of the administrator and of the tenant."""
        return [self.admin, self.tenant]

    def sweep_id(self, args: WorkloadArgs) -> str:
        """Return the ID of the sweep that a workload belongs to.

        The timeline continues with this sweep.

        :param args: arguments of the workload.
        :raises hvstack.errors.InputError: the sweep ID is not valid, or the
            shape is missing.
        """
        self.progress.timeline.sweep = self._find_sweep_id(args)
        return self.progress.timeline.sweep

    def _find_sweep_id(self, args: WorkloadArgs) -> str:
        if args.sweep == NEW:
            key = args.replication, args.sizes[0], args.setup
            if key not in self.new_sweep_ids:
                self.new_sweep_ids[key] = sweep_store.create_id('rally')
                self.progress.say(
                    f'sweep {self.new_sweep_ids[key]}: to continue it, set '
                    "'sweep' in --task-args to this ID"
                )
            return self.new_sweep_ids[key]
        if args.sweep != AUTO:
            return sweep_store.check_name(args.sweep)
        shape = args.shape
        if not shape:
            raise errors.InputError(
                f"Cannot use the sweep '{AUTO}': 'shape' is missing. Set "
                "'shape' with configurations, runs and size_bytes, or set "
                "'sweep' to a sweep ID."
            )
        if args.setup != NodeSetup():
            raise errors.InputError(
                f"Cannot use the sweep '{AUTO}' with 'setup': the marker of "
                "the sweep does not contain it. Set 'sweep' to a sweep ID or "
                f"to '{NEW}'."
            )
        if shape not in self.auto_sweeps:
            sweep, again = quick_sweeps.resume_or_begin(
                *(shape.configurations, shape.runs, shape.size_bytes),
                tuning=self.default_tuning,
                os_profile=self.options.hadoop.os_profile,
            )
            self.auto_sweeps[shape] = sweep
            self.progress.say(
                f'sweep {sweep.id}' + (', continued' if again else '')
            )
        return self.auto_sweeps[shape].id

    def resolve_storage(
        self, args: WorkloadArgs, configuration: Configuration
    ) -> Configuration:
        """Return a configuration with its storage.

        A workload may let the cloud decide: the storage of the Dell
        presentation (Ceph with a single copy) if the cloud has it, or local.

        :param args: arguments of the workload.
        :param configuration: configuration of the workload.
        :raises hvstack.errors.CloudError: the cloud does not answer.
        """
        if configuration not in args.open_storage:
            return configuration
        if not self.storage:
            options = self.options.cloud
            profile = host_profiles.load(options.host_profile)
            self.storage, reason = capabilities.choose_storage(
                self.admin,
                profile,
                capabilities.get_backend(
                    self.admin, profile, configuration, options.backend
                ),
            )
            self.progress.say(
                f'storage of the first configuration: {self.storage}, {reason}'
            )
        return replace(configuration, storage=self.storage)

    def steps(self, args: WorkloadArgs) -> list[Step]:
        """Return the runs of a workload."""
        target = args.target
        if isinstance(target, Configuration):
            target = self.resolve_storage(args, target)
        return run_order.build_workload(target, args.first_index, args.sizes)

    def announce(self, args: WorkloadArgs) -> None:
        """Report the remaining runs of the sweep of a workload.

        A sweep that Rally started directly has no marker, so its remaining
        runs are unknown.
        """
        name = self.sweep_id(args)
        with contextlib.suppress(errors.InputError):
            for sweep in sweep_store.list_sweeps():
                if sweep.id == name and (
                    line := forecast.format_remaining(sweep)
                ):
                    step = self.pending_steps(args)[:1]
                    label = f'; next: {step[0].label}' if step else ''
                    self.progress.say(f'{line}{label}')

    def pending_steps(self, args: WorkloadArgs) -> list[Step]:
        """Return the runs of a workload without a valid record."""
        return sweep_store.list_pending(self.sweep_id(args), self.steps(args))

    @property
    def default_tuning(self) -> str:
        """Tuning profile of workloads that set none."""
        options = self.options
        return str(
            options.hadoop.tuning
            or baseline_hosts.default_tuning(options.cloud.host_profile)
        )

    def node_settings(self, args: WorkloadArgs) -> dict[str, str]:
        """Return the tuning profile and the OS profile of a workload."""
        defaults = self.options.hadoop
        return {
            'tuning': args.setup.tuning or self.default_tuning,
            'os_profile': args.setup.os_profile or defaults.os_profile,
        }

    def workload(self, size_bytes: int, args: WorkloadArgs) -> Workload:
        """Return the workload of a run.

        :param size_bytes: size of the data set in bytes.
        :param args: arguments of the workload.
        :raises hvstack.errors.InputError: the number of tasks is unknown.
        """
        planner = WorkloadPlanner(
            self.options,
            args,
            self.node_settings(args)['tuning'],
            self.plan,
            lambda: self.load_baselines(args)[-1],
            lambda: self.steps(args)[0].run_id(self.sweep_id(args)),
        )
        workload = planner.plan_workload(size_bytes)
        workload_type = TYPES[args.setup.workload or TPCX_HS.name]
        reduces = args.tasks.reduces or workload.reduces
        return replace(
            workload,
            maps=args.tasks.maps or workload.maps,
            # Others have a single reduce task, whatever the number of maps.
            reduces=reduces if workload_type.sorter else 1,
            settings=args.setup.hadoop.properties,
            output_replication=args.setup.output_replication,
            type=workload_type,
        )

    def plan_host_losses(self, args: WorkloadArgs) -> HostLossSpec | None:
        """Return the losses of hosts after a run; None for none.

        :param args: arguments of the workload.
        :raises hvstack.errors.CloudError: Nova does not list the servers.
        """
        count = args.setup.later.lost_hosts
        if not count or not isinstance(self.cluster, StackCluster):
            return None
        power = host_power.create(
            self.admin,
            self.tenant,
            {node.name: node.host for node in self.cluster.nodes},
            baseline_hosts.list_lab_hosts(
                Path(self.options.sweep.baseline_hosts)
            ),
        )
        return HostLossSpec(
            count,
            args.setup.later.loss_rounds or 1,
            power.losing,
            host_power.METHODS[power.method],
        )

    def load_baselines(
        self, args: WorkloadArgs
    ) -> list[record_data.RunRecord]:
        """Return the recorded runs that a workload is comparable with.

        :param args: arguments of the workload.
        :raises hvstack.errors.InputError: no run has the same size,
            replication and programs.
        """
        expected = {
            'size_bytes': args.sizes[0],
            'derived': not args.kit,
        }
        workload_name = args.setup.workload or TPCX_HS.name
        if args.replication:
            expected['replication'] = args.replication
        elif self.plan is not None:
            alone = replace(args, baseline='')
            workload = self.workload(args.sizes[0], alone)
            expected['replication'] = workload.replication

        def is_fair(candidate: record_data.RunRecord) -> bool:
            return candidate.sut.workload == workload_name and all(
                getattr(candidate, name) == value
                for name, value in expected.items()
                if name not in args.allow
            )

        candidates = baselines.list_candidates(
            *(args.baseline, sweep_store.open_store()), is_selected=is_fair
        )
        fair = list(filter(is_fair, candidates))
        if not fair:
            last = candidates[-1]
            differs = ', '.join(
                f'{name} {getattr(last, name)} instead of {value}'
                for name, value in expected.items()
                if getattr(last, name) != value
            )
            if last.sut.workload != workload_name:
                differs = f'{last.sut.workload} instead of {workload_name}'
            raise errors.InputError(
                f"Cannot use the baseline '{args.baseline}': its "
                f'{len(candidates)} runs on bare metal have other workloads '
                f'(the newest has {differs}). Measure a baseline with the '
                'same workload, or use another baseline.'
            )
        return fair

    def save_failure(
        self, args: WorkloadArgs, step: Step, reason: str
    ) -> None:
        """Save an invalid record of a run that could not be executed.

        :param args: arguments of the workload.
        :param step: run.
        :param reason: reason of the failure; processes that the kernel killed
            are added.
        """
        run_id = step.run_id(self.sweep_id(args))
        store = sweep_store.open_store()
        # As the start of a run: a failure within an earlier run counts as
        # forged.
        earlier_records, _ = store.read_sweep(run_id.sweep)
        run_clock.start(run.compute_last_end(earlier_records))
        moment = format_now()
        try:
            workload = self.workload(step.size_bytes, args)
        except errors.InputError:
            # No data was sorted, so the number of tasks does not matter.
            workload = Workload(step.size_bytes, args.replication or 1, 1, 1)
        run_result = RunResult(workload, started=moment, ended=moment)
        run_result.reason = ' '.join(reason.split())[:2000]
        run_result.add_kills(sorted(self.read_kills() - self.known_kills))
        run_record = run_result.to_record(run_id)
        store.append(run_record)
        self.progress.report_record(run_record)
        self.progress.say(f'{step.label} failed: {run_result.reason[:300]}')

    def read_kills(self) -> set[str]:
        """Return the kernel's lines about processes out of memory.

        The set is empty if the guests have their own kernels or hosts.
        """
        if self.plan is None or not self.plan.hosts.shared_kernel:
            return set()
        return probe.oom(processutils.run(['dmesg'], check=False).stdout)

    def finish(self) -> None:
        """Mark "auto" sweeps without remaining runs as finished."""
        for sweep in self.auto_sweeps.values():
            if not sweep.finished and not sweep_store.list_pending(
                sweep.id, sweep.list_steps()
            ):
                sweep_store.finish_sweep(sweep)


_STATES: list[TaskState] = []


def is_started() -> bool:
    """Return whether this process has a state."""
    return bool(_STATES)


def get_task_state(
    context: Mapping[str, Any], args: WorkloadArgs | None = None
) -> TaskState:
    """Return the state of this process; the first call undoes old changes.

    :param context: context of Rally, with the credentials of its environment.
    :param args: arguments of the first workload, whose clusters a token must
        outlast; None if they are unknown.
    :raises hvstack.errors.HVStackError: the cloud does not answer, another
        sweep runs, or old changes cannot be undone.
    """
    if _STATES:
        return _STATES[0]
    try:
        credential = context['admin']['credential']
    except KeyError as exc:
        raise errors.InputError(
            "Cannot create flavors: the Rally environment's platform "
            "'existing@openstack' has no 'admin'. Add it, or use the "
            "platform 'hvstack@openstack' with the name of a cloud."
        ) from exc
    # Without it, 'rally task start' would end without the exit functions.
    interrupts.handle_signals()
    stack = contextlib.ExitStack()
    stack.enter_context(sweep_store.lock_measurements())
    # The lock is held until the process ends, also after Ctrl-C.
    atexit.register(stack.close)
    try:
        admin = connection.connect(credential=credential)
        # Users and projects that Rally creates for a workload end with it,
        # but the state does not. The context users@openstack sets this key
        # for users of the environment alone.
        is_lasting = 'existing_users' in context.get('config', {})
        users = context.get('users') if is_lasting else None
        tenant = (
            connection.connect(credential=users[0]['credential'])
            if users
            else admin
        )
        session = _start(admin, tenant, args)
    except Exception:
        # Rally tries again with the next workload.
        stack.close()
        raise
    _STATES.append(session)
    return session


def _start(
    admin: Connection, tenant: Connection, args: WorkloadArgs | None
) -> TaskState:
    """Return the state of a process that measures alone on this machine.

    :param admin: connection of the administrator.
    :param tenant: connection of the first user.
    :param args: arguments of the first workload; None if they are unknown.
    :raises hvstack.errors.HVStackError: see :func:`get_task_state`.
    """
    progress = TaskProgress(events=task_events.get_process_pipe())
    session = TaskState(admin, tenant, conf.load(), progress)
    credentials.check_logins(admin, tenant)
    credentials.check(tenant, session.options.cloud)
    recovery.recover(session.connections, session.progress)
    if args is not None:
        options = session.options.cloud
        token_check.check_token(
            *(admin, tenant, args.list_targets(), options),
            *(options.host_profile, options.backend),
        )
    # After Ctrl-C Rally skips the clean-up of the contexts, but not this.
    atexit.register(_undo, session)
    # Sweeps on two machines would change the same ratios.
    lease.acquire(admin, session.progress)
    return session


def _undo(session: TaskState) -> None:
    """Release the hosts and undo all changes, even if one of these fails."""

    def release() -> None:
        if isinstance(session.cluster, bare_metal.BareHosts):
            session.cluster.release()

    def undo_changes() -> None:
        undo.undo_own(session.connections, session.progress)

    # Python prints errors of exit functions with a traceback.
    with (
        contextlib.suppress(KeyboardInterrupt),
        interrupts.deferred(
            'hvstack is undoing its changes', session.progress
        ),
    ):
        for action in (release, undo_changes):
            try:
                action()
            except Exception as exc:
                # The next action must follow whatever this one does.
                print(f'hvstack: {exc}', file=sys.stderr)
