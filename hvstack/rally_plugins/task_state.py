# SPDX-License-Identifier: Apache-2.0
"""State that the contexts and the scenario of a Rally process share.

Rally copies its context object for every iteration, so the object cannot hold
a running cluster and its connections. The serial runner executes everything in
a single process.
"""

import atexit
import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openstack.connection import Connection

from hvstack import conf, errors, host_profiles, interrupts, processutils
from hvstack.cloud import connection, credentials, lease, undo
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import bare_metal, probe
from hvstack.cluster.base import Cluster
from hvstack.cluster.plan import ClusterPlan
from hvstack.hadoop import os_profiles
from hvstack.hadoop.sizing import size_node
from hvstack.hadoop.tuning_profiles import TUNINGS
from hvstack.model import compute_backends
from hvstack.model.configuration import STORAGES, parse
from hvstack.model.target import BARE_METAL, parse_target
from hvstack.progress import Progress
from hvstack.results import baselines, record
from hvstack.sweep import (
    capabilities,
    forecast,
    recovery,
    run_order,
    sweep_store,
    task_events,
)
from hvstack.sweep.run_order import Step
from hvstack.sweep.search_space import CAPABILITIES
from hvstack.sweep.task_events import EventPipe
from hvstack.tpcxhs.result import RunResult
from hvstack.tpcxhs.workload import Workload, count_tasks

#: Schema of a workload, the same for its contexts and its scenario.
WORKLOAD_SCHEMA: dict[str, Any] = {
    'type': 'object',
    'properties': {
        'sweep': {
            'type': 'string',
            'pattern': r'^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z',
        },
        'configuration': {'type': 'string', 'minLength': 1},
        'first_index': {'type': 'integer', 'minimum': 0},
        'sizes': {
            'type': 'array',
            'minItems': 1,
            'items': {
                'type': 'integer',
                'minimum': 100,
                'maximum': 10**18,
            },
        },
        'shape': {
            'type': 'object',
            'properties': {
                'configurations': {
                    'type': 'array',
                    'items': {'type': 'string'},
                },
                'runs': {'type': 'integer', 'minimum': 1},
                'size_bytes': {'type': 'integer', 'minimum': 100},
            },
            'required': ['configurations', 'runs', 'size_bytes'],
            'additionalProperties': False,
        },
        'replication': {'type': 'integer', 'minimum': 1},
        'baseline': {'type': 'string', 'minLength': 1},
        'allow': {'type': 'array', 'items': {'type': 'string'}},
        'kit': {'type': 'string', 'minLength': 1},
        'skip': {'type': 'boolean'},
        'without': {
            'type': 'array',
            'items': {'enum': sorted(CAPABILITIES)},
        },
        'before': {'type': 'string', 'minLength': 1},
        'storage': {'enum': ['deck']},
        'keep': {'type': 'boolean'},
        'setup': {
            'type': 'object',
            'properties': {
                'tuning': {'enum': sorted(TUNINGS)},
                'os_profile': {'enum': sorted(os_profiles.PROFILES)},
                'disks': {'type': 'integer', 'minimum': 1, 'maximum': 64},
                'volume_type': {'type': 'string', 'minLength': 1},
                'copies': {'type': 'integer', 'minimum': 1},
                'osd_groups': {'type': 'integer', 'minimum': 1},
            },
            'additionalProperties': False,
        },
    },
    'required': ['sweep', 'configuration', 'sizes'],
    'additionalProperties': False,
}

#: Sweep ID that means "the unfinished sweep of this shape, or a new sweep".
AUTO = 'auto'
#: Sweep ID that means "a new sweep in each Rally process".
NEW = 'new'


def requested_volumes(config: Mapping[str, Any]) -> Volumes | None:
    """Return the volumes that a workload requests; None for the defaults."""
    setup = config.get('setup') or {}
    options = {
        'count': setup.get('disks'),
        'type': setup.get('volume_type'),
        'copies': setup.get('copies'),
        'osd_groups': setup.get('osd_groups'),
    }
    requested = {
        name: value for name, value in options.items() if value is not None
    }
    return Volumes(**requested) if requested else None


@dataclass
class TaskProgress(Progress):
    """Progress of a Rally process, which its parent process also gets.

    :param events: pipe to the parent process.
    """

    events: EventPipe = field(default_factory=EventPipe)

    def say(self, text: str) -> None:
        """Print a line, and send it to the parent process."""
        super().say(text)
        self.events.send(task_events.Message(text))


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
    options: Any
    progress: TaskProgress = field(default_factory=TaskProgress)
    auto_sweeps: dict[tuple[object, ...], sweep_store.Sweep] = field(
        default_factory=dict
    )
    #: By the values that a sweep shares: replication, size and settings.
    new_sweep_ids: dict[tuple[object, ...], str] = field(default_factory=dict)
    #: Cluster plan of the current workload.
    plan: ClusterPlan | None = None
    flavor_ids: dict[str, str] = field(default_factory=dict)
    ratios_before: dict[str, dict[str, float]] = field(default_factory=dict)
    cluster: Cluster | None = None
    #: Nodes and settings of Hadoop of a cluster that the previous workload
    #: retained for this one.
    retained: tuple[tuple[Any, ...], tuple[Any, ...]] | None = None
    #: Storage of configurations without a storage, if the cloud decides.
    storage: str = ''
    #: Why the configuration of the workload cannot exist.
    skip_reason: str = ''
    known_kills: set[str] = field(default_factory=set)
    saved_records: list[tuple[Path, record.Record]] = field(
        default_factory=list
    )
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

    def sweep_id(self, config: Mapping[str, Any]) -> str:
        """Return the ID of the sweep that a workload belongs to.

        :param config: configuration of the workload.
        :raises hvstack.errors.InputError: the sweep ID is not valid, or the
            shape is missing.
        """
        if config['sweep'] == NEW:
            setup = config.get('setup') or {}
            key = (
                config.get('replication'),
                config['sizes'][0],
                *sorted(setup.items()),
            )
            if key not in self.new_sweep_ids:
                self.new_sweep_ids[key] = sweep_store.create_id('rally')
                self.progress.say(
                    f'sweep {self.new_sweep_ids[key]}: to continue it, set '
                    "'sweep' in --task-args to this ID"
                )
            return self.new_sweep_ids[key]
        if config['sweep'] != AUTO:
            return sweep_store.check_name(config['sweep'])
        shape = config.get('shape')
        if not shape:
            raise errors.InputError(
                f"Cannot use the sweep '{AUTO}': 'shape' is missing. Set "
                "'shape' with configurations, runs and size_bytes, or set "
                "'sweep' to a sweep ID."
            )
        # Rally hands lists to scenarios and tuples to contexts.
        configurations = tuple(map(parse, shape['configurations']))
        if config.get('setup'):
            raise errors.InputError(
                f"Cannot use the sweep '{AUTO}' with 'setup': the marker of "
                "the sweep does not contain it. Set 'sweep' to a sweep ID or "
                f"to '{NEW}'."
            )
        runs, size = int(shape['runs']), int(shape['size_bytes'])
        shaped = (configurations, runs, size)
        if shaped not in self.auto_sweeps:
            sweep, again = sweep_store.resume_or_begin(
                *(configurations, runs, size),
                tuning=self.options.hadoop.tuning,
                os_profile=self.options.hadoop.os_profile,
            )
            self.auto_sweeps[shaped] = sweep
            self.progress.say(
                f'sweep {sweep.id}' + (', continued' if again else '')
            )
        return self.auto_sweeps[shaped].id

    def resolve_name(self, config: Mapping[str, Any], name: str) -> str:
        """Return the name of a configuration with its storage.

        A workload may let the cloud decide: the storage of the Dell
        presentation (Ceph with a single copy) if the cloud has it, or local.

        :param config: configuration of the workload.
        :param name: name of a configuration of the workload.
        :raises hvstack.errors.CloudError: the cloud does not answer.
        """
        if config.get('storage') is None or name == BARE_METAL:
            return name
        if set(STORAGES) & set(name.split('-')):
            return name
        if 'ceph' in (config.get('without') or ()):
            return name
        if not self.storage:
            options = self.options.cloud
            profile = host_profiles.load(options.host_profile)
            self.storage, reason = capabilities.choose_storage(
                self.admin,
                profile,
                capabilities.get_backend(self.admin, profile, options.backend),
            )
            self.progress.say(
                f'storage of the first configuration: {self.storage}, {reason}'
            )
        return replace(parse(name), storage=self.storage).name

    def steps(self, config: Mapping[str, Any]) -> list[Step]:
        """Return the runs of a workload."""
        name = self.resolve_name(config, config['configuration'])
        return run_order.build_workload(
            parse_target(name),
            config.get('first_index', 0),
            list(config['sizes']),
        )

    def announce(self, config: Mapping[str, Any]) -> None:
        """Report the remaining runs of the sweep of a workload.

        A sweep that Rally started directly has no marker, so its remaining
        runs are unknown.
        """
        name = self.sweep_id(config)
        with contextlib.suppress(errors.InputError):
            for sweep in sweep_store.list_sweeps():
                if sweep.id == name and (
                    line := forecast.format_remaining(sweep)
                ):
                    step = self.pending_steps(config)[:1]
                    label = f'; next: {step[0].label}' if step else ''
                    self.progress.say(f'{line}{label}')

    def pending_steps(self, config: Mapping[str, Any]) -> list[Step]:
        """Return the runs of a workload without a valid record."""
        return sweep_store.list_pending(
            self.sweep_id(config), self.steps(config)
        )

    def node_settings(self, config: Mapping[str, Any]) -> dict[str, str]:
        """Return the tuning profile and the OS profile of a workload."""
        setup = config.get('setup') or {}
        return {
            name: setup.get(name) or getattr(self.options.hadoop, name)
            for name in ('tuning', 'os_profile')
        }

    def workload(self, size_bytes: int, config: Mapping[str, Any]) -> Workload:
        """Return the workload of a run, with the tasks of the baseline.

        The number of tasks is the number that fills the bare-metal hosts.
        Without an inventory of these hosts, it is the number in the record of
        the baseline, or the number that fills the cluster. On emulated CPUs,
        it is 1, because such a run only shows that a job succeeds.

        :param size_bytes: size of the data set in bytes.
        :param config: configuration of the workload; the default of its
            ``replication`` is the minimum of 3 and the number of worker hosts.
        :raises hvstack.errors.InputError: the number of tasks is unknown.
        """
        if self.plan is not None and compute_backends.is_emulated(
            self.plan.hosts.backend
        ):
            copies = config.get('replication') or self.plan.nodes.replication
            return Workload(size_bytes, copies, 1, 1, one_jvm=True)
        path = Path(self.options.sweep.baseline_hosts)
        if not path.exists() and config['configuration'] != BARE_METAL:
            return self._workload_without_hosts(size_bytes, config)
        bare_hosts = bare_metal.read(path)
        workers = [host for host in bare_hosts if host.role == 'worker']
        tuning = self.node_settings(config)['tuning']
        containers = sum(
            size_node(host.vcpus, host.memory_mib, tuning=tuning).containers
            for host in workers
        )
        # The warm-up job and a doubled run have the same number of tasks.
        parts = count_tasks(
            config['sizes'][0], containers, len(workers), tuning
        )
        copies = config.get('replication') or min(3, len(workers))
        return Workload(size_bytes, copies, parts, parts)

    def _workload_without_hosts(
        self, size_bytes: int, config: Mapping[str, Any]
    ) -> Workload:
        baseline_name = config.get('baseline')
        if baseline_name:
            baseline_record = self.load_baselines(config)[-1]
            return Workload(
                size_bytes,
                baseline_record.replication,
                baseline_record.maps,
                baseline_record.reduces,
            )
        copies = config.get('replication')
        if self.plan is None:
            raise errors.InputError(
                'Cannot compute the number of tasks: '
                f'{self.options.sweep.baseline_hosts} does not exist, and the '
                "workload has no cluster plan. Set 'baseline_hosts' in "
                'hvstack.conf, or add the context hvstack_flavors.'
            )
        parts = count_tasks(
            config['sizes'][0],
            self.plan.sizing.containers * self.plan.nodes.workers,
            len(self.plan.hosts.providers),
            self.plan.spec.tuning,
        )
        return Workload(
            size_bytes, copies or self.plan.nodes.replication, parts, parts
        )

    def load_baselines(self, config: Mapping[str, Any]) -> list[record.Record]:
        """Return the recorded runs that a workload is comparable with.

        :param config: configuration of the workload.
        :raises hvstack.errors.InputError: no run has the same size,
            replication and programs.
        """
        baseline_name = config['baseline']
        usable_records, _ = record.load_usable(sweep_store.RECORDS_DIR)
        candidates = baselines.list_candidates(
            baseline_name, sweep_store.RECORDS_DIR, usable_records
        )
        expected = {
            'size_bytes': config['sizes'][0],
            'derived': not config.get('kit'),
        }
        if config.get('replication'):
            expected['replication'] = config['replication']
        elif self.plan is not None:
            alone = {**config, 'baseline': None}
            workload = self.workload(config['sizes'][0], alone)
            expected['replication'] = workload.replication
        allowed = set(config.get('allow') or ())
        fair = [
            candidate
            for candidate in candidates
            if all(
                getattr(candidate, name) == value
                for name, value in expected.items()
                if name not in allowed
            )
        ]
        if not fair:
            last = candidates[-1]
            differs = ', '.join(
                f'{name} {getattr(last, name)} instead of {value}'
                for name, value in expected.items()
                if getattr(last, name) != value
            )
            raise errors.InputError(
                f"Cannot use the baseline '{baseline_name}': its "
                f'{len(candidates)} runs on bare metal have other workloads '
                f'(the newest has {differs}). Measure a baseline with the '
                'same workload, or use another baseline.'
            )
        return fair

    def save_failure(
        self, config: Mapping[str, Any], step: Step, reason: str
    ) -> None:
        """Save an invalid record of a run that could not be executed.

        :param config: configuration of the workload.
        :param step: run.
        :param reason: reason of the failure; processes that the kernel killed
            are added.
        """
        moment = sweep_store.format_now()
        try:
            workload = self.workload(step.size_bytes, config)
        except errors.InputError:
            # No data was sorted, so the number of tasks does not matter.
            copies = config.get('replication') or 1
            workload = Workload(step.size_bytes, copies, 1, 1)
        run_result = RunResult(workload, started=moment, ended=moment)
        run_result.reason = ' '.join(reason.split())[:2000]
        run_result.add_kills(sorted(self.read_kills() - self.known_kills))
        run_record = run_result.to_record(step.run_id(self.sweep_id(config)))
        record.save(run_record, sweep_store.RECORDS_DIR)
        self.report_record(run_record)
        self.progress.say(f'{step.label} failed: {run_result.reason[:300]}')

    def report_record(self, run_record: record.Record) -> None:
        """Send a saved record to the parent process."""
        self.progress.events.send(
            task_events.SavedRecord(
                run_record.id,
                run_record.configuration,
                run_record.index,
                run_record.valid,
            )
        )

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


def get_task_state(context: Mapping[str, Any]) -> TaskState:
    """Return the state of this process; the first call undoes old changes.

    :param context: context of Rally, with the credentials of its environment.
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
    stack = contextlib.ExitStack()
    stack.enter_context(sweep_store.lock_measurements())
    # The lock is held until the process ends, in every case.
    atexit.register(stack.close)
    admin = connection.connect(credential=credential)
    users = context.get('users') or []
    tenant = (
        connection.connect(credential=users[0]['credential'])
        if users
        else admin
    )
    progress = TaskProgress(events=task_events.open_pipe(os.environ))
    session = TaskState(admin, tenant, conf.load(), progress)
    credentials.check(tenant, session.options.cloud)
    for line in recovery.recover(session.connections):
        session.progress.say(
            f'Reverted a change left by a process that no longer runs: {line}'
        )
    # After Ctrl-C Rally skips the clean-up of the contexts, but not this.
    atexit.register(_undo, session)
    # Sweeps on two machines would change the same ratios.
    lease.acquire(admin, session.progress)
    _STATES.append(session)
    return session


def _undo(session: TaskState) -> None:
    """Release the hosts and undo all changes, even if one of these fails."""

    def release() -> None:
        if isinstance(session.cluster, bare_metal.BareHosts):
            session.cluster.release()

    # Python prints errors of exit functions with a traceback.
    with (
        contextlib.suppress(KeyboardInterrupt),
        interrupts.deferred(
            'hvstack is undoing its changes', session.progress
        ),
    ):
        for action in (release, lambda: undo.undo_own(session.connections)):
            try:
                action()
            except errors.HVStackError as exc:
                print(f'hvstack: {exc}', file=sys.stderr)
