# SPDX-License-Identifier: Apache-2.0
"""``hvstack baseline``: what bare metal reaches, without Nova."""

import argparse
from contextlib import AbstractContextManager

from cliff.command import Command
from cliff.lister import Lister
from cliff.show import ShowOne

from hvstack import conf, errors
from hvstack.cli import arguments, baseline_release, hadoop_options
from hvstack.cli.options import add_cloud
from hvstack.cli.report import add_unsigned
from hvstack.cli.sweep import add_size
from hvstack.cli.tables import Details, Row, Table
from hvstack.cluster import (
    acquired_hosts,
    bare_metal,
    host_inventory,
)
from hvstack.cluster.base import Cluster
from hvstack.hadoop.sizing import size_node
from hvstack.model.plain_data import JsonObject
from hvstack.model.target import BareMetal
from hvstack.progress import Progress
from hvstack.results import record, record_data, signing, telemetry_files
from hvstack.results.baselines import choose_first_index
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.run_id import RunId
from hvstack.results.run_store import RunStore
from hvstack.sweep import kept_records, sweep_store
from hvstack.tpcxhs import kit, run
from hvstack.tpcxhs.result import RunSpec
from hvstack.tpcxhs.task_counts import count_slots, count_tasks
from hvstack.tpcxhs.workload import Workload

_COLUMNS = (
    'ID',
    'Started',
    'Sweep',
    'Valid',
    'Bytes',
    'Replication',
    'Seconds',
    'TB/h',
)


def workload(
    cluster: bare_metal.BareHosts,
    size_bytes: int,
    maps: int | None,
    reduces: int | None,
) -> Workload:
    """Return the workload of these hosts, by default one wave at most."""
    parts = _tasks(
        size_bytes,
        *host_inventory.find_worker_size(cluster.hosts),
        len(cluster.workers),
        cluster.tuning,
    )
    return Workload(
        size_bytes, cluster.replication, maps or parts, reduces or parts
    )


def _tasks(
    size_bytes: int, vcpus: int, memory_mib: int, workers: int, tuning: str
) -> int:
    """Return the number of maps, and of reduces, for a number of workers."""
    sizing = size_node(vcpus, memory_mib, tuning=tuning, native=True)
    return count_tasks(
        size_bytes, [count_slots(sizing, workers)], workers, tuning
    )


def baselines(store: RunStore) -> list[record_data.RunRecord]:
    """Return the usable baseline records, by start time.

    Records that are not usable are named on standard error.

    :param store: store of the run records.
    """
    records, invalid_records = store.read_baselines()
    for invalid in invalid_records:
        Progress().warn(f'left out: {invalid.reason}')
    return records


def row(run_record: record_data.RunRecord) -> Row:
    """Return a record as a row of :data:`_COLUMNS`."""
    return (
        run_record.id,
        run_record.started,
        run_record.sweep,
        'yes' if run_record.valid else f'no: {run_record.reason[:60]}',
        run_record.size_bytes,
        run_record.replication,
        run_record.total_seconds,
        round(run_record.rate, 5),
    )


class Run(Lister):
    """Run the benchmark on bare metal: Hadoop on the hosts, without Nova.

    In the lab, the Nova agents of all hosts are stopped during the runs, and
    no guest may run. With --stack, the hosts are Ironic nodes, which the same
    Heat templates create as guests. All hosts are released at the end, also
    after Ctrl-C.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_records(parser)
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            '--hosts',
            type=arguments.path,
            metavar='FILE',
            help=baseline_release.HOSTS_HELP,
        )
        which.add_argument(
            '--stack',
            metavar='FLAVOR',
            help='Acquire Ironic nodes with this flavor, as a Heat stack.',
        )
        parser.add_argument(
            '--workers',
            type=arguments.count,
            metavar='N',
            help='Number of Ironic nodes for workers, with --stack. The '
            'controller uses an additional node.',
        )
        parser.add_argument(
            '--controller-flavor',
            metavar='FLAVOR',
            help='Flavor of the controller, with --stack (default: the '
            'flavor of the workers).',
        )
        parser.add_argument(
            '--image',
            metavar='NAME',
            help='Image of the Ironic nodes, with --stack (default: the '
            'image of the guests).',
        )
        add_cloud(parser)
        add_size(parser)
        parser.add_argument(
            '--runs',
            type=arguments.count,
            default=2,
            help='Number of runs (default: 2).',
        )
        parser.add_argument(
            '--replication',
            type=arguments.count,
            help='Number of replicas of input and output (default: 3, '
            'or the number of worker hosts if that is less).',
        )
        parser.add_argument(
            '--maps', type=arguments.count, help='Number of tasks of HSGen.'
        )
        parser.add_argument(
            '--reduces',
            type=arguments.count,
            help='Number of tasks of HSSort.',
        )
        hadoop_options.add(parser)
        arguments.add_kit(parser)
        baseline_release.add_wipe(parser)
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Print every command that would run on the hosts, and '
            'run none. Not available with --stack.',
        )
        parser.add_argument(
            '--sweep',
            metavar='ID',
            help='Sweep of the run records (default: a new sweep).',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Run, and return a row per run."""
        if parsed_args.sweep is not None:
            sweep_store.check_name(parsed_args.sweep)
        if parsed_args.runs < 1:
            raise errors.InputError(
                f'Cannot use --runs {parsed_args.runs}: a baseline needs a '
                'run. Use 1 or more.'
            )
        if parsed_args.kit:
            kit.check_kit(parsed_args.kit, parsed_args.size)
            if parsed_args.runs % 2:
                raise errors.InputError(
                    f"Cannot use --runs {parsed_args.runs} with --kit: TPC's "
                    'kit executes pairs of runs. Use an even number.'
                )
        if parsed_args.dry_run:
            return self._dry_run(parsed_args)
        progress = Progress()
        sweep = parsed_args.sweep or sweep_store.create_id('baseline')
        source, run_workload = self._source(parsed_args, progress)
        if parsed_args.records is None:
            kept_records.import_records(sweep, progress.say)
        store = sweep_store.open_store(parsed_args.records)
        first = choose_first_index(sweep, store, is_pair=bool(parsed_args.kit))
        run_records: list[record_data.RunRecord] = []
        with sweep_store.lock_measurements(), source as cluster:
            progress.say('run a warm-up job')
            run.warm_up(cluster, run_workload)
            while len(run_records) < parsed_args.runs:
                progress.say(
                    f'run {len(run_records) + 1} of {parsed_args.runs}'
                )
                run_id = RunId(sweep, BareMetal(), first + len(run_records))
                run_records += kit.measure_runs(
                    cluster,
                    RunSpec(
                        run_id,
                        run_workload,
                        store,
                        parsed_args.kit,
                    ),
                    progress,
                )
                if not run_records[-1].valid:
                    break
        if not run_records[-1].valid:
            raise errors.RunFailedError(run_records[-1].reason)
        return _COLUMNS, [row(run_record) for run_record in run_records]

    def _dry_run(self, parsed_args: argparse.Namespace) -> Table:
        """Return a row for every command that a run executes on the hosts."""
        if parsed_args.stack:
            raise errors.InputError(
                'Cannot print the commands (--dry-run): with --stack, Nova '
                'and Ironic prepare the machines. Use --dry-run with --hosts.'
            )
        profiles = hadoop_options.chosen(parsed_args)
        cluster = bare_metal.BareHosts.from_file(
            baseline_release.choose_hosts(parsed_args.hosts),
            replication=parsed_args.replication,
            progress=None,
            wiped=parsed_args.wipe,
            tuning=profiles['tuning'],
            os_profile=profiles['os_profile'],
        )
        return ('Host', 'Reason', 'Command'), list(cluster.dry_run())

    def _source(
        self, args: argparse.Namespace, progress: Progress
    ) -> tuple[AbstractContextManager[Cluster], Workload]:
        """Return the context that acquires the hosts, and the workload.

        Hosts that processes took which no longer run are released first.
        """
        if args.stack:
            return self._machines(args, progress)
        for option in ('workers', 'controller_flavor', 'image', 'os_cloud'):
            if getattr(args, option) is not None:
                raise errors.InputError(
                    f'Cannot use --{option.replace("_", "-")} with hosts of '
                    '--hosts: it is for --stack. Omit the option, or use '
                    '--stack.'
                )
        for name in acquired_hosts.recover():
            progress.say(f'{name}: released, a dead process had taken it')
        profiles = hadoop_options.chosen(args)
        cluster = bare_metal.BareHosts.from_file(
            baseline_release.choose_hosts(args.hosts),
            replication=args.replication,
            progress=progress,
            wiped=args.wipe,
            tuning=profiles['tuning'],
            os_profile=profiles['os_profile'],
        )
        run_workload = workload(cluster, args.size, args.maps, args.reduces)
        if run_workload.replication > cluster.worker_hosts:
            raise errors.InputError(
                f'Cannot use --replication {run_workload.replication}: there '
                f'are {cluster.worker_hosts} hosts with workers. Use at most '
                f'{cluster.worker_hosts}.'
            )
        baseline_release.confirm_wipe(cluster.hosts, args.yes, progress)
        return cluster, run_workload

    def _machines(
        self, args: argparse.Namespace, progress: Progress
    ) -> tuple[AbstractContextManager[Cluster], Workload]:
        # Only machines of Ironic need the time to import openstacksdk.
        from hvstack.cloud import connection
        from hvstack.cluster import ironic, planner
        from hvstack.cluster.plan import ClusterSpec
        from hvstack.sweep import recovery

        if args.wipe:
            raise errors.InputError(
                'Cannot erase disks (--wipe): with --stack, Ironic cleans the '
                'machines. Use --wipe with --hosts.'
            )
        if args.workers is None:
            raise errors.InputError(
                'Cannot use --stack without --workers. Set --workers to the '
                'number of Ironic nodes that sort.'
            )
        options = conf.load().cloud
        conn = connection.connect(args.os_cloud)
        recovery.recover([conn], progress)
        profiles = hadoop_options.chosen(args)
        machine_plan = planner.plan_machines(
            conn,
            ClusterSpec(
                workers=args.workers,
                replication=args.replication,
                tuning=profiles['tuning'],
                os_profile=profiles['os_profile'],
            ),
            args.stack,
            args.controller_flavor,
            options,
            args.image,
        )
        parts = _tasks(
            args.size,
            machine_plan.flavors.worker.vcpus,
            machine_plan.flavors.worker.ram,
            args.workers,
            machine_plan.spec.tuning,
        )
        run_workload = Workload(
            args.size,
            machine_plan.nodes.replication,
            args.maps or parts,
            args.reduces or parts,
        )
        return ironic.acquire_machines(
            conn, machine_plan, options, progress
        ), run_workload


class Import(Command):
    """Import run records of bare metal from another machine."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_records(parser)
        add_unsigned(parser)
        parser.add_argument(
            'file',
            nargs='+',
            type=arguments.path,
            help='File with the record of a baseline run.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Check all of them, then copy."""
        progress = Progress()
        policy = signing.policy(parsed_args.unsigned)
        imported = [
            (path, record.load(path, policy.unsigned))
            for path in parsed_args.file
        ]
        for path, run_ in imported:
            if run_.kind != 'baseline' or not run_.valid:
                raise errors.InputError(
                    f'Cannot import {path}: it is not a valid baseline run '
                    f'(its kind is {run_.kind}). Use a file of such a run '
                    "that 'hvstack record export' wrote."
                )
        store = sweep_store.open_store(
            parsed_args.records, parsed_args.unsigned
        )
        ids = {run_.id for run_ in baselines(store)}
        for path, run_ in imported:
            if run_.id in ids:
                progress.say(f'{run_.id}: imported before')
                continue
            source = FileRunStore(path.parent)
            store.add([run_], telemetry_files.read_if_stored(run_, source))
            ids.add(run_.id)
            progress.say(f'{run_.id}: {_signer(run_, policy)}')


def _signer(run_: record_data.RunRecord, policy: signing.Policy) -> str:
    """Return who signed a record, for people."""
    if run_.unverified:
        return run_.unverified
    key = policy.trusted[run_.signature['key']]
    return f'is signed by {key.fingerprint} ({key.comment or "no comment"})'


class List(Lister):
    """List the runs on bare metal."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_records(parser)
        add_unsigned(parser)
        parser.add_argument(
            '--sweep', metavar='ID', help='List the runs of this sweep only.'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return a row per run, by start time."""
        run_records = baselines(
            sweep_store.open_store(parsed_args.records, parsed_args.unsigned)
        )
        if parsed_args.sweep:
            run_records = [
                run_record
                for run_record in run_records
                if run_record.sweep == parsed_args.sweep
            ]
        return _COLUMNS, [row(run_record) for run_record in run_records]


class Show(ShowOne):
    """Show a run on bare metal: phases, system under test, observations."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_records(parser)
        add_unsigned(parser)
        parser.add_argument('id', help='ID of the run, or its beginning.')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Details:
        """Return its fields."""
        matching_records = [
            run_record
            for run_record in baselines(
                sweep_store.open_store(
                    parsed_args.records, parsed_args.unsigned
                )
            )
            if run_record.id.startswith(parsed_args.id)
        ]
        if len(matching_records) != 1:
            raise errors.InputError(
                f'Cannot choose a baseline run: {len(matching_records)} runs '
                f"begin with '{parsed_args.id}'. Use one of 'hvstack baseline "
                "list'."
            )
        run_record = matching_records[0]
        phases = {
            name: f'{seconds:.1f} s'
            for name, seconds in run_record.phase_seconds().items()
        }
        fields: JsonObject = {
            **dict(zip(_COLUMNS, row(run_record), strict=True)),
            'Reason': run_record.reason,
            'Signature': _signer(
                run_record, signing.policy(parsed_args.unsigned)
            ),
            'Maps': run_record.maps,
            'Reduces': run_record.reduces,
            **phases,
            **{f'Environment {k}': v for k, v in run_record.sut.facts.items()},
            **{
                f'Seen {k}': v
                for k, v in run_record.observations.facts.items()
                if k != 'telemetry'
            },
        }
        return tuple(fields), tuple(fields.values())
