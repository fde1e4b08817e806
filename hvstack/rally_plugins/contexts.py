# SPDX-License-Identifier: Apache-2.0
"""Rally contexts for flavors, allocation ratios, clusters and bare metal.

A context prepares only what runs without a valid record need. The journal can
undo everything that a context does, because Rally skips the clean-up after
Ctrl-C and SIGKILL.
"""

import abc
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rally.task import context

from hvstack import errors, host_profiles
from hvstack.cloud import (
    allocation_ratios,
    cluster_flavors,
    cpu_mode,
    journal,
    keypairs,
    stacks,
    undo,
)
from hvstack.cluster import launch, planner
from hvstack.cluster.bare_metal import BareHosts
from hvstack.cluster.base import ClusterNodes
from hvstack.cluster.plan import ClusterPlan, ClusterSpec
from hvstack.cluster.reconfigure import reconfigure
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop.sizing import NodeSizing
from hvstack.model import compute_backends
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL
from hvstack.rally_plugins import task_state
from hvstack.rally_plugins.task_state import TaskState
from hvstack.results import record
from hvstack.sweep import capabilities, search_space, sweep_store
from hvstack.tpcxhs import run as tpcxhs


class _Context(context.Context):
    """Base class of the contexts."""

    CONFIG_SCHEMA = task_state.WORKLOAD_SCHEMA
    #: Kinds of journal entries that the clean-up undoes.
    KINDS: tuple[str, ...] = ()
    #: The first context of a workload.
    FIRST = False

    def setup(self) -> None:
        """Prepare the workload, if it has runs without a valid record.

        The cluster of the previous workload is reused, with other settings of
        Hadoop if necessary. A cluster of another configuration is deleted.
        """
        task = task_state.get_task_state(self.context)
        task.raise_if_interrupted()
        if task.retained is not None and task.retained[0] != _node_key(
            self.config
        ):
            _undo_retained_cluster(task)
        pending = task.pending_steps(self.config)
        if not pending or task.skip_reason:
            return
        if self.FIRST:
            task.announce(self.config)
        try:
            if task.retained is None:
                self.prepare(task)
            else:
                self.reuse(
                    task, task.retained[1] != _hadoop_key(task, self.config)
                )
        except errors.HVStackError as exc:
            for step in pending:
                task.save_failure(self.config, step, str(exc))
            raise

    @abc.abstractmethod
    def prepare(self, task: TaskState) -> None:
        """Make the changes of the context."""

    def cleanup(self) -> None:
        """Undo the changes, unless the next workload reuses the cluster.

        A cluster on which a run failed is never reused.
        """
        task = task_state.get_task_state(self.context)
        if (
            self.config.get('keep')
            and task.cluster is not None
            and not task.pending_steps(self.config)
        ):
            if task.retained is None:
                task.retained = (
                    _node_key(self.config),
                    _hadoop_key(task, self.config),
                )
            return
        task.retained = None
        self.undo(task)

    def reuse(self, task: TaskState, changed: bool) -> None:
        """Prepare a cluster of the previous workload for this workload.

        :param task: state of the Rally process.
        :param changed: whether the workload has other settings of Hadoop.
        """

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

    KINDS = (cluster_flavors.KIND,)
    FIRST = True

    def prepare(self, task: TaskState) -> None:
        """Check that the backend supports the configuration, then publish."""
        compared = self.config.get('baseline')
        if compared:
            task.load_baselines(self.config)
        plan = _plan_or_skip(task, self.config, self.config['configuration'])
        if plan is None:
            return
        task.plan = plan
        if compared:
            # Check again, because the replication is known now. Otherwise a
            # run could end with a record that is not comparable.
            task.load_baselines(self.config)
        task.known_kills = task.read_kills()
        task.flavor_ids = launch.publish(
            task.admin, plan, [str(task.tenant.current_project_id)]
        )

    def reuse(self, task: TaskState, changed: bool) -> None:
        """Plan again for the same nodes, whose flavors exist."""
        if changed:
            name = self.config['configuration']
            task.plan = _plan_or_skip(task, self.config, name) or task.plan

    @classmethod
    def undo(cls, task: TaskState) -> None:
        """Delete the flavors that the context created."""
        super().undo(task)
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
        for records_dir, run_record in task.saved_records:
            run_record.seen.setdefault('allocation_ratio', {})['after'] = after
            record.save(run_record, records_dir)
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
        with task.progress.stage(
            f'{plan.spec.configuration.label}: stack {name} '
            f'({plan.nodes.workers} workers)'
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
        cluster.facts.observed['allocation_ratio']['before'] = (
            allocation_ratios.merge_equal(task.ratios_before)
        )
        _warm_up(task, self.config, plan.spec.configuration.label)

    def reuse(self, task: TaskState, changed: bool) -> None:
        """Start Hadoop with other settings, sort a little once."""
        if not changed:
            return
        plan = _require_plan(task)
        _reconfigure_hadoop(
            task,
            self.config,
            plan.sizing,
            plan.nodes.replication,
            plan.spec.configuration.label,
        )

    @classmethod
    def undo(cls, task: TaskState) -> None:
        """Delete the stack and its key pair."""
        if isinstance(task.cluster, StackCluster):
            task.progress.say(f'deleting the stack {task.cluster.name}')
            task.cluster.close()
        task.cluster = None
        super().undo(task)


@context.configure(name='hvstack_baseline', platform='openstack', order=930)
class BaselineContext(_Context):
    """Acquire the hosts for bare metal and start Hadoop on them."""

    FIRST = True

    def _skip_without_configurations(self, task: TaskState) -> bool:
        """Skip the last runs of a sweep without configurations."""
        if self.config.get('before') or not self.config.get('skip'):
            return False
        if not _has_only_baselines(task, self.config):
            return False
        task.skip_reason = 'bare metal: its sweep has no configuration'
        task.progress.say(f'skipped: {task.skip_reason}')
        return True

    def prepare(self, task: TaskState) -> None:
        """Acquire the hosts and run the warm-up job."""
        before = self.config.get('before')
        if before and _plan_or_skip(task, self.config, before) is None:
            return
        if self._skip_without_configurations(task):
            return
        bare_hosts = BareHosts.from_file(
            Path(task.options.sweep.baseline_hosts),
            replication=self.config.get('replication'),
            progress=task.progress,
            **task.node_settings(self.config),
        )
        with task.progress.stage('bare metal: prepare the hosts'):
            bare_hosts.__enter__()
        task.cluster = bare_hosts
        _warm_up(task, self.config, 'bare metal')

    def reuse(self, task: TaskState, changed: bool) -> None:
        """Start Hadoop with other settings, sort a little once.

        Nova does not have the hosts now, so the configuration was checked when
        the hosts were acquired.
        """
        if self._skip_without_configurations(task) or not changed:
            return
        assert isinstance(task.cluster, BareHosts)
        copies = self.config.get('replication')
        _reconfigure_hadoop(
            task,
            self.config,
            task.cluster.sized(task.node_settings(self.config)['tuning']),
            copies or min(3, len(task.cluster.workers)),
            'bare metal',
        )

    @classmethod
    def undo(cls, task: TaskState) -> None:
        """Release the hosts."""
        bare_hosts, task.cluster = task.cluster, None
        if isinstance(bare_hosts, BareHosts):
            bare_hosts.release()
        task.skip_reason = ''
        task.saved_records.clear()
        task.finish()


def _node_key(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values that workloads on the same cluster must share."""
    setup = dict(config.get('setup') or {})
    setup.pop('tuning', None)
    if config['configuration'] == BARE_METAL:
        # Bare metal has no volumes.
        setup = {k: v for k, v in setup.items() if k == 'os_profile'}
    return config['configuration'], *sorted(setup.items())


def _hadoop_key(task: TaskState, config: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the settings of Hadoop that a running cluster can change."""
    return config.get('replication'), task.node_settings(config)['tuning']


def _reconfigure_hadoop(
    task: TaskState,
    config: Mapping[str, Any],
    sized: NodeSizing,
    replication: int,
    label: str,
) -> None:
    assert isinstance(task.cluster, ClusterNodes)
    tuning = task.node_settings(config)['tuning']
    with task.progress.stage(f'{label}: Hadoop with tuning {tuning}'):
        reconfigure(
            task.cluster, sized, replication=replication, tuning=tuning
        )
    task.retained = _node_key(config), _hadoop_key(task, config)
    _warm_up(task, config, label)


def _undo_retained_cluster(task: TaskState) -> None:
    """Delete a retained cluster that the next workload cannot use."""
    task.retained = None
    if isinstance(task.cluster, BareHosts):
        kinds: tuple[type[_Context], ...] = (BaselineContext,)
    else:
        kinds = (
            ClusterContext,
            RatiosContext,
            HostModeContext,
            FlavorsContext,
        )
    for context_class in kinds:
        context_class.undo(task)


def _require_plan(task: TaskState) -> ClusterPlan:
    if task.plan is None:
        raise errors.InputError(
            "Cannot use the contexts 'hvstack_ratios' and 'hvstack_cluster': "
            "they need the cluster plan of the context 'hvstack_flavors'. Add "
            'this context to the workload.'
        )
    return task.plan


def _has_only_baselines(task: TaskState, config: Mapping[str, Any]) -> bool:
    """Return whether a sweep has records of bare metal only."""
    records = sweep_store.load_records(task.sweep_id(config))
    return all(run_record.kind == 'baseline' for run_record in records)


def _plan_or_skip(
    task: TaskState, config: Mapping[str, Any], name: str
) -> ClusterPlan | None:
    """Return the cluster plan of a configuration; None to skip it.

    :param task: state of the Rally process, which gets the reason.
    :param config: configuration of the context.
    :param name: name of the configuration.
    :raises hvstack.errors.InputError: the configuration cannot exist, and the
        workload does not allow skipping it.
    """
    configuration = parse(task.resolve_name(config, name))
    settings = task.node_settings(config)
    try:
        search_space.check_missing_capabilities(
            configuration, config.get('without', ())
        )
        capabilities.check_capabilities(
            task.admin, configuration, task.options
        )
        spec = ClusterSpec(
            configuration,
            volumes=task_state.requested_volumes(config),
            tuning=settings['tuning'],
            os_profile=settings['os_profile'],
            replication=config.get('replication'),
        )
        return planner.plan_cluster(task.admin, spec, task.options.cloud)
    except errors.InputError as exc:
        if not config.get('skip'):
            raise
        task.skip_reason = f'{configuration.label}: {exc}'
        task.progress.say(f'skipped: {task.skip_reason}')
        return None


def _warm_up(task: TaskState, config: Mapping[str, Any], label: str) -> None:
    assert task.cluster is not None
    if task.plan is not None and compute_backends.is_emulated(
        task.plan.hosts.backend
    ):
        task.progress.say(f'{label}: no warm-up, its CPUs are emulated')
        return
    workload = task.workload(tpcxhs.WARM_UP_BYTES, config)
    with task.progress.stage(f'{label}: warm-up'):
        tpcxhs.warm_up(task.cluster, workload)
