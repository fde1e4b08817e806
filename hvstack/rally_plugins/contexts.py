# SPDX-License-Identifier: Apache-2.0
"""Rally contexts for flavors, allocation ratios, clusters and bare metal.

A context prepares only what runs without a valid record need. The journal can
undo everything that a context does, because Rally skips the clean-up after
Ctrl-C and SIGKILL.
"""

import abc
import contextlib
import secrets
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from rally.task import context

from hvstack import errors, host_profiles
from hvstack.cloud import (
    allocation_ratios,
    cluster_flavors,
    connection,
    cpu_mode,
    journal,
    keypairs,
    lease,
    stacks,
    undo,
)
from hvstack.cluster import launch, node_counts, planner
from hvstack.cluster.bare_metal import BareHosts
from hvstack.cluster.plan import ClusterPlan, ClusterSpec
from hvstack.cluster.stack import StackCluster
from hvstack.model import compute_backends
from hvstack.model.configuration import Configuration
from hvstack.nouns import format_noun
from hvstack.rally_plugins import host_count, task_state
from hvstack.rally_plugins.task_state import TaskState
from hvstack.rally_plugins.workload_args import (
    WORKLOAD_SCHEMA,
    WorkloadArgs,
    parse_args,
)
from hvstack.results import record_data
from hvstack.results.workload_types import TPCX_HS, TYPES
from hvstack.sweep import (
    capabilities,
    kept_records,
    search_space,
    sweep_store,
)
from hvstack.tpcxhs import hdfs_space
from hvstack.tpcxhs import run as tpcxhs
from hvstack.tpcxhs.workload import Workload


class _Context(context.Context):
    """Base class of the contexts."""

    CONFIG_SCHEMA = WORKLOAD_SCHEMA
    #: Kinds of journal entries that the clean-up undoes.
    KINDS: tuple[str, ...] = ()
    #: The first context of a workload.
    FIRST = False

    @cached_property
    def args(self) -> WorkloadArgs:
        """Arguments of the workload."""
        return parse_args(self.config)

    def setup(self) -> None:
        """Prepare the workload, if it has runs without a valid record."""
        task = task_state.get_task_state(self.context, self.args)
        task.raise_if_interrupted()
        if self.FIRST:
            kept_records.import_records(
                task.sweep_id(self.args), task.progress.say
            )
        pending = task.pending_steps(self.args)
        if not pending or task.skip_reason:
            return
        if self.FIRST:
            _undo_earlier_changes(task, pending[0].label)
            task.announce(self.args)
        try:
            self.prepare(task)
        except errors.HVStackError as exc:
            # An outage says nothing about the configuration, which two
            # failures exclude.
            if connection.is_outage(exc):
                task.progress.say(f'{pending[0].label}: not measured: {exc}')
            else:
                for step in pending:
                    task.save_failure(self.args, step, str(exc))
            raise

    @abc.abstractmethod
    def prepare(self, task: TaskState) -> None:
        """Make the changes of the context."""

    def cleanup(self) -> None:
        """Undo the changes, unless the process was refused and has none."""
        # Rally also cleans up after a refused start. A start here would skip
        # the check of the token.
        if task_state.is_started():
            self.undo(task_state.get_task_state(self.context))

    @classmethod
    def undo(cls, task: TaskState) -> None:
        """Undo the changes of the context."""
        journal_entries = [
            journal_entry
            for journal_entry in journal.own()
            if journal_entry.kind in cls.KINDS
        ]
        undo.undo(journal_entries, task.connections)


@context.configure(name='hvstack_flavors', platform='openstack', order=910)
class FlavorsContext(_Context):
    """Derive and publish the flavors of a configuration."""

    KINDS = (cluster_flavors.KIND, cluster_flavors.ACCESS_KIND)
    FIRST = True

    def prepare(self, task: TaskState) -> None:
        """Check that the backend supports the configuration, then publish."""
        compared = self.args.baseline
        if compared:
            task.load_baselines(self.args)
        plan = _plan_or_skip(task, self.args, self.args.configuration)
        if plan is None:
            return
        host_count.check_plan(task, self.args, plan)
        task.plan = plan
        if compared:
            # Check again, because the replication is known now. Otherwise a
            # run could end with a record that is not comparable.
            task.load_baselines(self.args)
        task.known_kills = task.read_kills()
        task.flavor_ids = launch.publish(
            task.admin, plan, [str(task.tenant.current_project_id)]
        )

    @classmethod
    def undo(cls, task: TaskState) -> None:
        """Delete the flavors that the context created, revoke access."""
        try:
            super().undo(task)
        finally:
            # The next workload must not use them, also after an error.
            task.plan = None
            task.skip_reason = ''
        task.finish()


@context.configure(name='hvstack_host_mode', platform='openstack', order=915)
class HostModeContext(_Context):
    """Switch the CPU mode of the workers' hosts to shared or dedicated."""

    KINDS = (cpu_mode.KIND,)

    def prepare(self, task: TaskState) -> None:
        """Switch hosts with another CPU mode, if a command is configured."""
        plan = _require_plan(task)
        command = capabilities.get_mode_command(
            host_profiles.load(task.options.cloud.host_profile),
            task.options.sweep,
        )
        if command:
            cpu_mode.switch(
                task.admin,
                plan.hosts.providers,
                plan.spec.configuration.cpu_policy,
                command,
                task.progress,
            )


@context.configure(name='hvstack_ratios', platform='openstack', order=920)
class RatiosContext(_Context):
    """Set the allocation ratios of the workers' hosts in Placement."""

    KINDS = (allocation_ratios.KIND,)

    def prepare(self, task: TaskState) -> None:
        """Set the ratios, after the journal has the previous ratios."""
        plan = _require_plan(task)
        task.ratios_before = allocation_ratios.set_ratios(
            task.admin,
            plan.hosts.providers,
            plan.ratios,
            shared=plan.is_shared,
        )

    @classmethod
    def undo(cls, task: TaskState) -> None:
        """Restore the ratios, and add the restored ratios to the records."""
        super().undo(task)
        if task.plan is None or not task.saved_records:
            return
        after = allocation_ratios.merge_equal(
            allocation_ratios.current(task.admin, task.plan.hosts.providers)
        )
        store = sweep_store.open_store()
        for run_record in task.saved_records:
            during = run_record.observations.facts.get('allocation_ratio')
            ratios = {'after': after}
            if isinstance(during, dict):
                ratios = {**during, **ratios}
            changed = record_data.add_observations(
                run_record, {'allocation_ratio': ratios}
            )
            store.append(changed)
        task.saved_records.clear()


@context.configure(name='hvstack_cluster', platform='openstack', order=930)
class ClusterContext(_Context):
    """Create the configuration's stack and wait until Hadoop is ready."""

    KINDS = (stacks.KIND, keypairs.KIND)

    def prepare(self, task: TaskState) -> None:
        """Create the stack and run the warm-up job."""
        plan = _require_plan(task)
        label = plan.spec.configuration.label.replace('.', '-')
        name = f'hv-{label}-{secrets.token_hex(3)}'
        title = (
            f'{plan.spec.configuration.label}: stack {name} '
            f'({format_noun(plan.nodes.workers, "worker")})'
        )
        with (
            task.progress.stage(title),
            task.progress.span('creation of clusters'),
        ):
            cluster, _ = launch.launch(
                task.admin,
                task.tenant,
                plan,
                task.flavor_ids,
                name,
                task.options.cloud,
                task.progress,
            )
        task.cluster = cluster
        host_count.check_cluster(task, self.args, plan, cluster)
        observed = cluster.facts.observed
        during = observed.get('allocation_ratio')
        observed['allocation_ratio'] = {
            **(during if isinstance(during, dict) else {}),
            'before': allocation_ratios.merge_equal(task.ratios_before),
        }
        _warm_up(task, self.args, plan.spec.configuration.label)

    @classmethod
    def undo(cls, task: TaskState) -> None:
        """Delete the stack and its key pair."""
        if isinstance(task.cluster, StackCluster):
            task.progress.say(f'deleting the stack {task.cluster.name}')
            task.cluster.close()
        task.cluster = None
        with task.progress.span('deletion of clusters'):
            super().undo(task)


@context.configure(name='hvstack_baseline', platform='openstack', order=930)
class BaselineContext(_Context):
    """Acquire the hosts for bare metal and start Hadoop on them."""

    FIRST = True

    def _skip_without_configurations(self, task: TaskState) -> bool:
        """Skip the last runs of a sweep without configurations."""
        if self.args.before or not self.args.skip:
            return False
        if not _has_only_baselines(task, self.args):
            return False
        task.skip_reason = 'bare metal: its sweep has no configuration'
        task.progress.say(f'skipped: {task.skip_reason}')
        return True

    def prepare(self, task: TaskState) -> None:
        """Acquire the hosts and run the warm-up job."""
        before = self.args.before
        if before and _plan_or_skip(task, self.args, before) is None:
            return
        if self._skip_without_configurations(task):
            return
        bare_hosts = BareHosts.from_file(
            Path(task.options.sweep.baseline_hosts),
            replication=self.args.replication,
            progress=task.progress,
            daemon_options=self.args.setup.hadoop.daemons,
            **task.node_settings(self.args),
        )
        with (
            task.progress.stage('bare metal: prepare the hosts'),
            task.progress.span('bare metal: acquisition of the hosts'),
        ):
            bare_hosts.__enter__()
        task.cluster = bare_hosts
        try:
            bare_hosts.cloud = connection.format_cloud(task.admin)
            _warm_up(task, self.args, 'bare metal')
        except BaseException:
            # After Ctrl-C Rally does not clean up, and exit functions have no
            # threads, which the release needs.
            task.cluster = None
            with contextlib.suppress(errors.HVStackError):
                bare_hosts.release()
            raise

    @classmethod
    def undo(cls, task: TaskState) -> None:
        """Release the hosts."""
        bare_hosts, task.cluster = task.cluster, None
        try:
            if isinstance(bare_hosts, BareHosts):
                with task.progress.span('bare metal: release of the hosts'):
                    bare_hosts.release()
        finally:
            # The next workload must not use them, also after an error.
            task.skip_reason = ''
            task.saved_records.clear()
        task.finish()


def _undo_earlier_changes(task: TaskState, label: str) -> None:
    """Undo the changes of earlier workloads whose clean-up failed.

    A stack that still exists needs the room of the next one. This says nothing
    about the next configuration, so that an error is not its result.

    :param task: state of the Rally process, which keeps its lease.
    :param label: label of the next configuration.
    :raises hvstack.errors.CloudError: some changes could not be undone.
    """
    journal_entries = [
        journal_entry
        for journal_entry in journal.own()
        if journal_entry.kind != lease.KIND
    ]
    try:
        undo.undo(journal_entries, task.connections, task.progress)
    except errors.CloudError as exc:
        task.progress.say(f'{label}: not measured: {exc}')
        raise


def _require_plan(task: TaskState) -> ClusterPlan:
    if task.plan is None:
        raise errors.InputError(
            "Cannot use the contexts 'hvstack_ratios' and 'hvstack_cluster': "
            "they need the cluster plan of the context 'hvstack_flavors'. Add "
            'this context to the workload.'
        )
    return task.plan


def _has_only_baselines(task: TaskState, args: WorkloadArgs) -> bool:
    """Return whether a sweep has records of bare metal only."""
    records = sweep_store.load_records(task.sweep_id(args))
    return all(run_record.kind == 'baseline' for run_record in records)


def _plan_or_skip(
    task: TaskState, args: WorkloadArgs, requested: Configuration
) -> ClusterPlan | None:
    """Return the cluster plan of a configuration; None to skip it.

    :param task: state of the Rally process, which gets the reason.
    :param args: arguments of the workload.
    :param requested: configuration as the workload requests it.
    :raises hvstack.errors.InputError: the configuration cannot exist, and the
        workload does not allow skipping it.
    """
    configuration = task.resolve_storage(args, requested)
    settings = task.node_settings(args)
    try:
        search_space.check_missing_capabilities(
            configuration, args.missing_capabilities
        )
        capabilities.check_capabilities(
            task.admin, configuration, task.options
        )
        spec = ClusterSpec(
            configuration,
            volumes=args.setup.volumes,
            tuning=settings['tuning'],
            os_profile=settings['os_profile'],
            replication=args.replication,
            deployment=args.setup.deployment,
            controllers=args.setup.controllers or ClusterSpec.controllers,
            node_groups=args.setup.node_groups is not False,
            vnic=args.setup.vnic or ClusterSpec.vnic,
            stateless_security_group=bool(args.setup.stateless_security_group),
        )
        plan = planner.plan_cluster(task.admin, spec, task.options.cloud)
        _check_disks(args, plan)
        return replace(
            plan,
            daemon_options=args.setup.hadoop.daemons,
            hosts=replace(
                plan.hosts,
                environment=plan.hosts.environment | args.setup.facts,
            ),
        )
    except errors.InputError as exc:
        if not args.skip:
            raise
        task.skip_reason = f'{configuration.label}: {exc}'
        task.progress.say(f'skipped: {task.skip_reason}')
        return None


def _check_disks(args: WorkloadArgs, plan: ClusterPlan) -> None:
    """Check that the disks can hold the data, before there is a cluster.

    :raises hvstack.errors.InputError: they are too small.
    """
    if not compute_backends.has_data_disks(plan.hosts.backend):
        return
    workload = Workload(
        *(max(args.sizes), plan.nodes.replication),
        maps=1,
        reduces=1,
        output_replication=args.setup.output_replication,
        type=TYPES[args.setup.workload or TPCX_HS.name],
    )
    hdfs_space.check_disks(
        workload,
        node_counts.measure_hdfs(plan.nodes, plan.flavors.worker, plan.disks),
    )


def _warm_up(task: TaskState, args: WorkloadArgs, label: str) -> None:
    assert task.cluster is not None
    if task.plan is not None and compute_backends.is_emulated(
        task.plan.hosts.backend
    ):
        task.progress.say(f'{label}: no warm-up, its CPUs are emulated')
        return
    workload = task.workload(tpcxhs.WARM_UP_BYTES, args)
    with (
        task.progress.stage(f'{label}: warm-up'),
        task.progress.span('warm-up jobs'),
    ):
        tpcxhs.warm_up(task.cluster, workload)
