# SPDX-License-Identifier: Apache-2.0
"""Runs on new clusters of a lab, for nested.py and pool.py.

An experiment has a directory: its name is the name of the experiment,
``plan.json`` has its design, and ``records`` the run records, which ``hvstack
report --records`` reads. The records of the user stay as they are. Clusters
are created and deleted by 'hvstack cluster': the journal knows them, whatever
happens to the benchmark.
"""

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from openstack.connection import Connection

from hvstack import conf, errors, interrupts, jsonfile, paths
from hvstack.cli import arguments, image
from hvstack.cloud import connection, journal, keypairs, stacks
from hvstack.cluster import (
    baseline_hosts,
    cpu_caps,
    lab_groups,
    launch,
    planner,
)
from hvstack.cluster.plan import ClusterPlan, ClusterSpec
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemons
from hvstack.lab import clouds_yaml
from hvstack.model.configuration import Configuration, parse
from hvstack.progress import Progress
from hvstack.rally_plugins.planned_workload import WorkloadPlanner
from hvstack.rally_plugins.workload_args import parse_args
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.percentages import MAX_TRIES
from hvstack.results.record_data import RunRecord
from hvstack.results.run_id import RunId
from hvstack.sweep import recovery, sweep_store
from hvstack.tpcxhs import run as tpcxhs
from hvstack.tpcxhs.result import RunSpec
from hvstack.tpcxhs.workload import Workload, parse_size

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
#: Minutes to create and delete a cluster, and to restart its Hadoop, each with
#: a warm-up job and without CPU caps: those of the timelines of sweeps on a
#: lab of three hosts on two CPUs, as are those of a run below.
CLUSTER_MINUTES, RESTART_MINUTES = 1.3, 0.6
_READY_SECONDS = 600
#: Names of stacks contain that of the experiment.
_NAME = re.compile('[a-z][a-z0-9-]{0,24}')


def estimate_run_minutes(size_bytes: int) -> float:
    """Return the assumed minutes of a run, with its preparation.

    Small data takes 80 to 95 s under the caps, and 400 MB take 127 to 132 s.
    """
    return 1.6 + size_bytes / 6e8


def create_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all experiments.

    :param description: docstring of the benchmark.
    """
    parser = argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        'directory',
        type=arguments.path,
        metavar='DIRECTORY',
        help='Directory of the experiment, whose name is its name.',
    )
    parser.add_argument(
        '--configuration',
        type=parse,
        default='i1',
        metavar='NAME',
        help='Full or short name of the configuration (default: i1).',
    )
    parser.add_argument(
        '--size',
        type=parse_size,
        default='100MB',
        help='Size of the data of a run (default: 100MB).',
    )
    parser.add_argument(
        '--dry-run',
        action='store_true',
        help='Print the plan with the estimated minutes, and change nothing.',
    )
    return parser


def execute(main: Callable[[], int | None]) -> int:
    """Return the exit status of a benchmark, and print its error.

    :param main: the benchmark, which may return its exit status.
    """
    interrupts.handle_signals()
    try:
        return main() or 0
    except errors.HVStackError as exc:
        print(exc, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('interrupted: run it again to continue', file=sys.stderr)
        return 130


@dataclass(frozen=True)
class Experiment:
    """Directory, configuration and cloud of an experiment.

    :param directory: directory of the experiment.
    :param configuration: configuration of all clusters.
    :param size_bytes: size of the data of a run in bytes.
    :param conn: connection of the administrator of the lab.
    :param progress: where to report.
    """

    directory: Path
    configuration: Configuration
    size_bytes: int
    conn: Connection
    progress: Progress = field(default_factory=Progress)

    @property
    def name(self) -> str:
        """Name of the experiment, which its clusters and sweeps have."""
        return get_name(self.directory)

    @property
    def store(self) -> FileRunStore:
        """Store of the run records of the experiment."""
        return open_store(self.directory)

    @contextlib.contextmanager
    def open_cluster(
        self, name: str
    ) -> Iterator[tuple[StackCluster, Workload]]:
        """Open a cluster, and create it before unless it exists.

        CPU caps are in force during runs alone, as in a sweep.

        :param name: name of the stack.
        :returns: the cluster, and the workload of its runs.
        """
        options = conf.load()
        groups = lab_groups.find_hosts(
            baseline_hosts.list_capped(options.cloud.host_profile)
        )
        key = keypairs.DIRECTORY / name
        with cpu_caps.lifted(groups):
            if not journal.owned(f'cluster {name}'):
                run_command(
                    *('cluster', 'create', name),
                    *('--os-cloud', clouds_yaml.ADMIN_CLOUD),
                    *('--configuration', self.configuration.name),
                )
            plan = self._plan()
            with launch.open_cluster(
                *(self.conn, self.conn, plan),
                stacks.outputs(self.conn, name),
                SSHAccess.of(key, options.cloud.ssh_config),
                name=name,
                options=options.cloud,
            ) as cluster:
                # A SIGKILL may have come while they were restarted.
                daemons.start(cluster.nodes)
                daemons.wait_ready(cluster, _READY_SECONDS)
                yield cluster, self._plan_workload(plan)

    def _plan(self) -> ClusterPlan:
        options = conf.load()
        # As 'hvstack cluster create' without options.
        spec = ClusterSpec(
            self.configuration,
            tuning=options.hadoop.tuning
            or baseline_hosts.default_tuning(options.cloud.host_profile),
            os_profile=options.hadoop.os_profile,
        )
        return planner.plan_cluster(self.conn, spec, options.cloud)

    def _plan_workload(self, plan: ClusterPlan) -> Workload:
        """Return the workload that a sweep of the configuration has."""

        def load_baseline() -> RunRecord:
            raise AssertionError('the workload names no baseline')

        name = self.configuration.name
        args = parse_args(
            {
                'sweep': self.name,
                'configuration': name,
                'sizes': [self.size_bytes],
                'compared': [name],
            }
        )
        return WorkloadPlanner(
            *(conf.load(), args, plan.spec.tuning, plan, load_baseline),
            lambda: RunId(self.name, self.configuration, 0),
        ).plan_workload(self.size_bytes)

    def restart_hadoop(
        self, cluster: StackCluster, workload: Workload
    ) -> None:
        """Restart all daemons of a cluster, and run the warm-up job."""
        self.progress.say(f'{cluster.name}: restarts Hadoop')
        daemons.stop(cluster.nodes)
        daemons.start(cluster.nodes)
        daemons.wait_ready(cluster, _READY_SECONDS)
        tpcxhs.warm_up(cluster, workload)

    def measure(
        self, cluster: StackCluster, workload: Workload, sweep: str
    ) -> RunRecord:
        """Execute a run, again after a failure, and return its record.

        :param sweep: sweep of the record; it gets the next index.
        :raises hvstack.errors.RunFailedError: the run failed again.
        """
        store = self.store
        index = sum(run.valid for run in store.list_runs(sweep))
        run_id = RunId(sweep, self.configuration, index)
        for _ in range(MAX_TRIES):
            record = tpcxhs.measure(
                cluster, RunSpec(run_id, workload, store), self.progress
            )
            if record.valid:
                self.progress.say(f'{run_id}: {record.total_seconds:.1f} s')
                return record
            self.progress.say(f'{run_id} failed: {record.reason[:300]}')
            if record.is_killed:
                break
        raise errors.RunFailedError(
            f'Cannot measure {run_id}: {record.reason.removesuffix(".")}. '
            'Remove the cause, then run the benchmark again.'
        )


def run_command(*args: str, env: Mapping[str, str] | None = None) -> str:
    """Run a command of hvstack, which ends with this process.

    Ctrl-C lets it clean up.

    :param args: arguments of hvstack.
    :param env: environment variables; None has those of this process.
    :returns: standard output.
    :raises hvstack.errors.CommandError: the command failed.
    """
    Progress().say(f'hvstack {" ".join(args)}')
    argv = [
        # A shell may have started this process in the background.
        *('env', '--default-signal=INT'),
        *('setpriv', '--pdeathsig', 'KILL', '--', HVSTACK, *args),
    ]
    with subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.communicate()
            raise
    if process.returncode:
        raise errors.CommandError(
            ['hvstack', *args], process.returncode, 'see above'
        )
    return output


def delete_cluster(name: str) -> None:
    """Delete a cluster, if it exists.

    :param name: name of the stack.
    """
    if journal.owned(f'cluster {name}'):
        run_command(
            *('cluster', 'delete', name),
            *('--os-cloud', clouds_yaml.ADMIN_CLOUD),
        )


def delete_remains(name: str) -> None:
    """Delete the clusters of two sides that a SIGKILL left.

    :param name: name of the experiment.
    """
    owners = {entry.owner for entry in journal.entries()}
    for owner in sorted(owners):
        # Another experiment may be called NAME-2.
        if re.fullmatch(rf'cluster {re.escape(name)}-[ab]\d+', owner):
            delete_cluster(owner.removeprefix('cluster '))


def measure_new_cluster(
    experiment: Experiment,
    name: str,
    sweep: str,
    prepare: Callable[[], None] | None = None,
) -> RunRecord:
    """Execute a run on a new cluster, and on another one after a failure.

    :param name: name of the cluster, which is deleted afterwards.
    :param sweep: sweep of the record.
    :param prepare: function that changes the hosts before the warm-up job.
    :raises hvstack.errors.HVStackError: it failed on each of the clusters.
    """
    for attempt in range(1, MAX_TRIES + 1):
        try:
            return _measure_once(experiment, name, sweep, prepare)
        except errors.HVStackError as exc:
            if attempt == MAX_TRIES:
                raise
            experiment.progress.say(f'again on another cluster: {exc}')
    raise AssertionError('MAX_TRIES is positive')


def _measure_once(
    experiment: Experiment,
    name: str,
    sweep: str,
    prepare: Callable[[], None] | None,
) -> RunRecord:
    try:
        with experiment.open_cluster(name) as (cluster, workload):
            if prepare:
                prepare()
            tpcxhs.warm_up(cluster, workload)
            return experiment.measure(cluster, workload, sweep)
    finally:
        with interrupts.deferred('hvstack is deleting the cluster'):
            delete_cluster(name)


def get_name(directory: Path) -> str:
    """Return the name of an experiment.

    :raises hvstack.errors.InputError: stacks cannot have this name.
    """
    name = directory.resolve().name
    if not _NAME.fullmatch(name):
        raise errors.InputError(
            f'Cannot use the directory {directory}: stacks have its name. '
            'Use a name of at most 25 lower-case letters, digits and dashes '
            'that begins with a letter.'
        )
    return name


def open_store(directory: Path) -> FileRunStore:
    """Return the store of the run records of an experiment."""
    return FileRunStore(directory / 'records')


def check_plan(directory: Path, plan: Mapping[str, str | int | float]) -> None:
    """Store the design of an experiment, or compare it with the stored one.

    :param plan: design by name.
    :raises hvstack.errors.InputError: an earlier invocation had another one.
    """
    path = directory / 'plan.json'
    if not path.exists():
        paths.write_whole(path, json.dumps(plan, indent=1) + '\n')
    stored = jsonfile.load(path).data
    if stored != plan:
        raise errors.InputError(
            f'Cannot continue the experiment ({path}): it was started with '
            f'{stored}, not with {dict(plan)}. Use the same options, or '
            'another directory.'
        )


@contextlib.contextmanager
def started(args: argparse.Namespace) -> Iterator[Experiment]:
    """Connect to the lab, and let no sweep measure at the same time.

    What processes that no longer run have changed is restored before, and
    what this process has changed in the end.

    :param args: arguments of the benchmark.
    """
    progress = Progress()

    def recover() -> None:
        for line in recovery.recover([conn]):
            progress.say(f'restored: {line}')

    with (
        sweep_store.lock_measurements(),
        contextlib.closing(
            connection.connect(clouds_yaml.ADMIN_CLOUD)
        ) as conn,
    ):
        recover()
        image.ensure(progress)
        try:
            yield Experiment(
                *(args.directory, args.configuration, args.size),
                *(conn, progress),
            )
        finally:
            # Commands that Ctrl-C ended.
            with interrupts.deferred('hvstack is undoing its changes'):
                recover()
