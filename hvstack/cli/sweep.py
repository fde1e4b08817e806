# SPDX-License-Identifier: Apache-2.0
"""``hvstack sweep``: sweeps that were begun, and what they left."""

import argparse
from collections.abc import Collection

from cliff.command import Command
from cliff.lister import Lister

from hvstack import conf, errors
from hvstack.cli.options import add_cloud
from hvstack.cli.tables import Table
from hvstack.model.target import BARE_METAL, parse_target
from hvstack.progress import Progress
from hvstack.results import run_id
from hvstack.results.run_store import IndexedRun
from hvstack.sweep import forecast, rallyenv, sweep_store
from hvstack.sweep.sweep_store import Sweep
from hvstack.tpcxhs.workload import parse_size

#: Data of a run: large enough that a lab's sort is more than the start of its
#: JVMs. The task files have the same default.
SIZE_BYTES = 800_000_000
#: Start time, ID, state, runs, configurations, and bytes of a run.
_Row = tuple[str, str, str, str, str, int]


class List(Lister):
    """List the sweeps, sorted by start time.

    A sweep in the state 'records' was executed by 'rally task start', or has
    only records. 'hvstack report ID' shows any of them.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Look at markers and records; change nothing."""
        rows: list[_Row] = []
        sweeps, reasons = sweep_store.load_usable()
        for reason in reasons:
            self.app.stderr.write(f'{reason}\n')
        for sweep in sweeps:
            try:
                done = _done(sweep)
            except errors.InputError as exc:
                done = str(exc)
            rows.append(
                (
                    sweep.started,
                    sweep.id,
                    'finished' if sweep.finished else 'unfinished',
                    done,
                    ', '.join(
                        configuration.label
                        for configuration in sweep.configurations
                    ),
                    sweep.size_bytes,
                )
            )
        rows += _list_recorded({sweep.id for sweep in sweeps})
        columns = ('ID', 'State', 'Runs', 'Configurations', 'Bytes')
        rows.sort(key=lambda row: row[:2])
        return columns, [row[1:] for row in rows]


def _list_recorded(marked_ids: Collection[str]) -> list[_Row]:
    """Return a row for each sweep of the records that has no marker.

    :param marked_ids: sweeps that have a marker.
    :returns: rows with the start time in front of the columns.
    """
    runs_by_sweep: dict[str, list[IndexedRun]] = {}
    for run in sweep_store.open_store().list_all_runs():
        if run_id.parse_sweep_id(run.sweep) not in marked_ids:
            runs_by_sweep.setdefault(run.sweep, []).append(run)
    return [
        (
            runs[0].started,
            sweep,
            'records',
            str(sum(run.valid for run in runs)),
            ', '.join(
                dict.fromkeys(
                    parse_target(run.configuration).label for run in runs
                )
            ),
            min(run.size_bytes for run in runs),
        )
        for sweep, runs in runs_by_sweep.items()
        # 'hvstack baseline list' shows the others.
        if any(run.configuration != BARE_METAL for run in runs)
    ]


def _done(sweep: Sweep) -> str:
    """Return how many runs of a sweep are done.

    :raises hvstack.errors.InputError: one of its records is broken.
    """
    if sweep.spec is not None:
        return str(
            sum(
                run_record.valid
                for run_record in sweep_store.load_all_records(sweep.id)
            )
        )
    steps = sweep.list_steps()
    pending_count = len(sweep_store.list_pending(sweep.id, steps))
    return f'{len(steps) - pending_count} of {len(steps)}'


class Recover(Command):
    """Undo the changes that hvstack processes left on a cloud and its hosts.

    These are the changes of processes that no longer run. Every command that
    changes a cloud undoes them as well.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_cloud(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Undo, newest first, and say what."""
        # The other commands do not need the time to import openstacksdk.
        from hvstack.cloud import connection, journal, undo
        from hvstack.sweep import recovery

        progress = Progress()
        conn = connection.connect(parsed_args.os_cloud)
        progress.say('restoring changes of processes that no longer run')
        for line in recovery.recover([conn]):
            self.app.stdout.write(f'restored: {line}\n')
        for entry in journal.entries():
            owner = entry.owner or f'process {entry.pid}'
            name = entry.data.get('name', 'of lab hosts')
            self.app.stdout.write(f'kept: {entry.kind} {name} of {owner}\n')
            if reason := undo.explain_other_scope(entry, [conn]):
                progress.say(reason)


def add_size(
    parser: argparse.ArgumentParser, default: int = SIZE_BYTES
) -> None:
    """Add the option for the size of the data.

    :param parser: parser of a command.
    :param default: default of the option in bytes.
    """
    parser.add_argument(
        '--size',
        type=parse_size,
        default=default,
        help=f'Size of the data of a run (default: {default // 10**6}MB).',
    )


def ready(
    os_cloud: str | None,
    progress: Progress,
    sweep: Sweep | None = None,
    *,
    first_cloud: str = '',
    subject: str = '',
) -> str:
    """Have Rally set up for a cloud and, on the lab, the guests' image there.

    :param os_cloud: value of ``--os-cloud``; None without the option.
    :param sweep: sweep that a token must outlast; None if its duration is
        unknown.
    :param first_cloud: cloud on which the measurements were started, as in
        :func:`hvstack.cloud.connection.check_cloud`; empty for new ones.
    :param subject: name of the measurements, for its error.
    :returns: the name of the cloud.
    :raises hvstack.errors.HVStackError: one of them cannot be had, the cloud
        is another one, or the credential cannot create stacks or logs in
        only once.
    """
    from hvstack.cloud import connection, credentials, selection

    cloud = selection.choose(os_cloud)
    seconds = None if sweep is None else forecast.estimate_max_seconds(sweep)
    conn = connection.connect(cloud)
    connection.check_cloud(conn, first_cloud, subject)
    credentials.check_logins(conn)
    credentials.check(conn, conf.load().cloud, seconds)
    rallyenv.ensure_environment(cloud)
    ensure_image(cloud, progress)
    return cloud


def ensure_image(cloud: str, progress: Progress) -> None:
    """Have the image of the guests built and in Glance, on the lab alone.

    :param cloud: name of the cloud.
    :raises hvstack.errors.HVStackError: it cannot be built or uploaded.
    """
    # The lab's modules are for the lab's cloud only.
    from hvstack.cli import image
    from hvstack.lab import clouds_yaml

    if cloud == clouds_yaml.ADMIN_CLOUD:
        image.ensure(progress)
