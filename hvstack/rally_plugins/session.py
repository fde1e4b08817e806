# SPDX-License-Identifier: Apache-2.0
"""What contexts and scenario of one Rally process share.

Rally copies its own context object for every iteration, so a live cluster
and its connections cannot stand in there. The serial runner keeps all of
it in one process.
"""

import atexit
import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openstack.connection import Connection

from hvstack import conf, errors, interrupts, profiles, shell
from hvstack.cloud import connection, credentials, lease, undo
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import hosts, probe
from hvstack.cluster.base import Cluster
from hvstack.cluster.launch import Plan
from hvstack.hadoop import osprofiles
from hvstack.hadoop.sizing import size_node
from hvstack.hadoop.tables import TUNINGS
from hvstack.model import backends
from hvstack.model.configuration import STORAGES, parse
from hvstack.progress import Progress
from hvstack.results import record, reference
from hvstack.results.record import BARE_METAL
from hvstack.sweep import forecast, lacks, plan, recovery, state
from hvstack.sweep.plan import Step
from hvstack.sweep.space import CAPABILITIES
from hvstack.tpcxhs import run as tpcxhs
from hvstack.tpcxhs.workload import Workload, count_tasks

#: What a workload is, the same for its contexts and its scenario.
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
                'os_profile': {'enum': sorted(osprofiles.PROFILES)},
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

#: Name of the sweep that stands for "the unfinished one, or a new one".
AUTO = 'auto'
#: Name of a sweep that stands for "a new one in each Rally process".
NEW = 'new'


def requested_volumes(config: Mapping[str, Any]) -> Volumes | None:
    """Return the volumes that a workload asks for; None for the usual."""
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
class TaskState:
    """One Rally process.

    :param admin: the administrator's connection.
    :param tenant: the first user's, for the stacks.
    """

    admin: Connection
    tenant: Connection
    options: Any
    progress: Progress = field(default_factory=Progress)
    auto_sweeps: dict[tuple[object, ...], state.Sweep] = field(
        default_factory=dict
    )
    #: By what must be alike within a sweep: replication, size and set-up.
    new_sweep_ids: dict[tuple[object, ...], str] = field(default_factory=dict)
    #: Of the workload that runs now.
    plan: Plan | None = None
    flavor_ids: dict[str, str] = field(default_factory=dict)
    ratios_before: dict[str, dict[str, float]] = field(default_factory=dict)
    cluster: Cluster | None = None
    #: Nodes and Hadoop's settings of a cluster that the workload before has
    #: left for the next one.
    retained: tuple[tuple[Any, ...], tuple[Any, ...]] | None = None
    #: Of configurations that name none, where that is left to the cloud.
    storage: str = ''
    #: Why the workload's configuration cannot exist.
    skip_reason: str = ''
    known_kills: set[str] = field(default_factory=set)
    saved_records: list[tuple[Path, record.Record]] = field(
        default_factory=list
    )
    #: Ctrl-C came in an iteration: Rally's runner loses it, as it returns
    #: from a "finally".
    interrupted: bool = False

    def raise_if_interrupted(self) -> None:
        """Let nothing more begin after Ctrl-C.

        :raises KeyboardInterrupt: it came in an iteration.
        """
        if self.interrupted:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Remember a Ctrl-C that comes within, and begin nothing after one.

        :raises KeyboardInterrupt: it came before.
        """
        self.raise_if_interrupted()
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True
            raise

    @property
    def connections(self) -> list[Connection]:
        """Both connections."""
        return [self.admin, self.tenant]

    def sweep_id(self, config: Mapping[str, Any]) -> str:
        """Return the sweep that a workload belongs to."""
        if config['sweep'] == NEW:
            setup = config.get('setup') or {}
            key = (
                config.get('replication'),
                config['sizes'][0],
                *sorted(setup.items()),
            )
            if key not in self.new_sweep_ids:
                self.new_sweep_ids[key] = state.create_id('rally')
                self.progress.say(
                    f'sweep {self.new_sweep_ids[key]}: to go on with it, give '
                    "'sweep' in --task-args"
                )
            return self.new_sweep_ids[key]
        if config['sweep'] != AUTO:
            return state.check_name(config['sweep'])
        shape = config.get('shape')
        if not shape:
            raise errors.InputError(
                f"sweep '{AUTO}' needs the sweep's 'shape': configurations, "
                'runs, size_bytes; or name the sweep'
            )
        # Rally hands lists to scenarios and tuples to contexts.
        configurations = tuple(shape['configurations'])
        if config.get('setup'):
            raise errors.InputError(
                f"sweep '{AUTO}' with a 'setup': its marker does not keep it, "
                f"name the sweep, or take '{NEW}'"
            )
        runs, size = int(shape['runs']), int(shape['size_bytes'])
        shaped = (configurations, runs, size)
        if shaped not in self.auto_sweeps:
            sweep, again = state.resume_or_begin(
                *(configurations, runs, size),
                tuning=self.options.hadoop.tuning,
                os_profile=self.options.hadoop.os_profile,
            )
            self.auto_sweeps[shaped] = sweep
            self.progress.say(
                f'sweep {sweep.id}'
                + (', going on from before' if again else '')
            )
        return self.auto_sweeps[shaped].id

    def resolve_name(self, config: Mapping[str, Any], name: str) -> str:
        """Return a configuration's name, with its storage.

        A workload may leave that to the cloud: the deck's, which is Ceph with
        one copy, if it has that.

        :param name: of one of the workload's configurations.
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
            profile = profiles.load(options.host_profile)
            self.storage, reason = lacks.choose_storage(
                self.admin,
                profile,
                lacks.get_backend(self.admin, profile, options.backend),
            )
            self.progress.say(
                f'storage of the start: {self.storage}, {reason}'
            )
        return replace(parse(name), storage=self.storage).name

    def steps(self, config: Mapping[str, Any]) -> list[Step]:
        """Return a workload's runs."""
        return plan.build_workload(
            self.resolve_name(config, config['configuration']),
            config.get('first_index', 0),
            list(config['sizes']),
        )

    def announce(self, config: Mapping[str, Any]) -> None:
        """Say how much is left of the sweep that a workload is of.

        One of plain Rally's has no marker, so nothing tells.
        """
        name = self.sweep_id(config)
        with contextlib.suppress(errors.InputError):
            for sweep in state.list_sweeps():
                if sweep.id == name and (
                    line := forecast.format_remaining(sweep)
                ):
                    step = self.pending_steps(config)[:1]
                    label = f'; next: {step[0].label}' if step else ''
                    self.progress.say(f'{line}{label}')

    def pending_steps(self, config: Mapping[str, Any]) -> list[Step]:
        """Return a workload's runs that have no valid record yet."""
        return state.list_pending(self.sweep_id(config), self.steps(config))

    def node_settings(self, config: Mapping[str, Any]) -> dict[str, str]:
        """Return the profiles that a workload's cluster is set up by."""
        setup = config.get('setup') or {}
        return {
            name: setup.get(name) or getattr(self.options.hadoop, name)
            for name in ('tuning', 'os_profile')
        }

    def workload(self, size_bytes: int, config: Mapping[str, Any]) -> Workload:
        """Return what a run sorts: the same tasks on both sides.

        Those that fill bare metal's hosts; where no file names these, those
        of the baseline's record, else as many as fill the cluster. On
        emulated CPUs one: it is there to show that a job gets through.

        :param config: a workload; its ``replication`` is min(3, worker
            hosts) by default.
        """
        if self.plan is not None and backends.is_emulated(self.plan.backend):
            copies = config.get('replication') or self.plan.replication
            return Workload(size_bytes, copies, 1, 1, one_jvm=True)
        path = Path(self.options.sweep.baseline_hosts)
        if not path.exists() and config['configuration'] != BARE_METAL:
            return self._workload_without_hosts(size_bytes, config)
        bare_hosts = hosts.read(path)
        workers = [host for host in bare_hosts if host.role == 'worker']
        tuning = self.node_settings(config)['tuning']
        containers = sum(
            size_node(host.vcpus, host.memory_mib, tuning=tuning).containers
            for host in workers
        )
        # The warm-up and a doubled run have as many tasks as the others.
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
                f'{self.options.sweep.baseline_hosts}: there is none, and no '
                'plan of a cluster to take the number of tasks from'
            )
        parts = count_tasks(
            config['sizes'][0],
            self.plan.sizing.containers * self.plan.workers,
            len(self.plan.providers),
            self.plan.tuning,
        )
        return Workload(
            size_bytes, copies or self.plan.replication, parts, parts
        )

    def load_baselines(self, config: Mapping[str, Any]) -> list[record.Record]:
        """Return the recorded runs that a workload may be compared with.

        :raises hvstack.errors.InputError: none has its size, replication and
            programs.
        """
        baseline_name = config['baseline']
        usable_records, _ = record.load_usable(state.RECORDS_DIR)
        candidates = reference.list_candidates(
            baseline_name, state.RECORDS_DIR, usable_records
        )
        expected = {
            'size_bytes': config['sizes'][0],
            'derived': not config.get('kit'),
        }
        if config.get('replication'):
            expected['replication'] = config['replication']
        elif self.plan is not None:
            alone = {**config, 'baseline': None}
            work = self.workload(config['sizes'][0], alone)
            expected['replication'] = work.replication
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
                f"baseline '{baseline_name}': none of its {len(candidates)} "
                'runs on bare metal is of this workload (the newest has '
                f'{differs}): measure one alike, or give another'
            )
        return fair

    def save_failure(
        self, config: Mapping[str, Any], step: Step, reason: str
    ) -> None:
        """Leave an invalid record of a run that could not be done.

        :param reason: the reason; what the kernel killed meanwhile is added.
        """
        moment = state.format_now()
        try:
            work = self.workload(step.size_bytes, config)
        except errors.InputError:
            # Nothing was sorted: how it would have been cut is not the news.
            copies = config.get('replication') or 1
            work = Workload(step.size_bytes, copies, 1, 1)
        run_result = tpcxhs.RunResult(work, started=moment, ended=moment)
        run_result.reason = ' '.join(reason.split())[:2000]
        killed = sorted(self.read_kills() - self.known_kills)
        if killed:
            run_result.observations['killed'] = killed
            run_result.reason = (
                f'killed for want of memory: {killed[0]}; {run_result.reason}'
            )[:2000]
        record.save(
            run_result.to_record(
                sweep=self.sweep_id(config),
                kind=step.kind,
                configuration=step.configuration,
                index=step.index,
            ),
            state.RECORDS_DIR,
        )
        self.progress.say(f'{step.label} failed: {run_result.reason[:300]}')

    def read_kills(self) -> set[str]:
        """Return what this kernel killed for want of memory.

        None where guests have kernels, or hosts, of their own.
        """
        if self.plan is None or not self.plan.shared_kernel:
            return set()
        return probe.oom(shell.run(['dmesg'], check=False).stdout)

    def finish(self) -> None:
        """Mark an "auto" sweep as finished when nothing of it is left."""
        for sweep in self.auto_sweeps.values():
            if not sweep.finished and not state.list_pending(
                sweep.id, sweep.list_steps()
            ):
                state.finish_sweep(sweep)


_STATES: list[TaskState] = []


def get_task_state(context: Mapping[str, Any]) -> TaskState:
    """Return this process' session; the first call undoes old changes.

    :param context: Rally's, with the credentials of its environment.
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
    stack.enter_context(state.lock_measurements())
    # Held till the process ends, however it does.
    atexit.register(stack.close)
    admin = connection.connect(credential=credential)
    users = context.get('users') or []
    tenant = (
        connection.connect(credential=users[0]['credential'])
        if users
        else admin
    )
    session = TaskState(admin, tenant, conf.load())
    credentials.check(tenant, session.options.cloud)
    for line in recovery.recover(session.connections):
        session.progress.say(f'put back what a dead process left: {line}')
    # Ctrl-C skips Rally's contexts' clean-up, but not this.
    atexit.register(_undo, session)
    # Sweeps of two machines would change the same ratios.
    lease.acquire(admin, session.progress)
    _STATES.append(session)
    return session


def _undo(session: TaskState) -> None:
    """Release the hosts and undo all changes, the one whatever the other."""

    def release() -> None:
        if isinstance(session.cluster, hosts.BareHosts):
            session.cluster.release()

    # Python prints what an exit function raises with a traceback.
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
