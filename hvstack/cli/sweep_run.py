# SPDX-License-Identifier: Apache-2.0
"""``hvstack sweep run|resume|show``: a strategy goes through a space."""

import argparse
import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cliff.command import Command
from cliff.show import ShowOne

from hvstack import conf, errors, extras
from hvstack.cli import arguments, hadoop_options, report
from hvstack.cli.options import add_cloud
from hvstack.cli.space_options import (
    add_space,
    choose_backend,
    choose_budget,
    chosen_space,
    count_runs,
)
from hvstack.cli.sweep import add_size, ensure_image, ready
from hvstack.cli.sweep_summary import way
from hvstack.cli.tables import Details
from hvstack.model.configuration import Configuration
from hvstack.model.target import BareMetal, Target
from hvstack.nouns import format_noun
from hvstack.progress import Progress
from hvstack.report import sweep_report, sweep_rows
from hvstack.report.formats import describe_interim_interval
from hvstack.results import (
    baselines,
    comparability,
    run_id,
    stopping,
)
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import iter_records
from hvstack.sweep import executor, sweep_store
from hvstack.sweep.executor import SweepStatus
from hvstack.sweep.node_setup import NodeSetup
from hvstack.sweep.sweep_store import Sweep, SweepSpec
from hvstack.tpcxhs import kit

if TYPE_CHECKING:
    from openstack.connection import Connection


class _Running(Command):
    """What starting a sweep and continuing with it share."""

    def go(
        self,
        sweep: Sweep,
        os_cloud: str | None,
        baseline: str = '',
        allow: Sequence[str] = (),
        *,
        is_new: bool = False,
        is_recorded: bool = True,
    ) -> None:
        """Run what is left, then print the way and the report.

        :param sweep: sweep to run.
        :param os_cloud: value of ``--os-cloud``; None without the option.
        :param baseline: recorded runs on bare metal instead of its own, in
            the report.
        :param allow: facts that may differ there.
        :param is_new: whether the sweep has no marker; it gets its marker
            if nothing refuses it.
        :param is_recorded: whether the baseline is that of the sweep's runs,
            as in :func:`hvstack.results.baselines.replace_baseline`.
        :raises hvstack.errors.PartlyFailedError: a configuration, or a run on
            bare metal, failed for good; the sweep went on with the others.
        """
        # Show does not need the time to import openstacksdk.
        from hvstack.cloud import connection, lease
        from hvstack.sweep import recovery

        progress = Progress()
        # The result of a finished sweep can be shown on any cloud.
        spec = sweep.spec if _has_pending_runs(sweep) else None
        cloud = ready(
            *(os_cloud, progress, sweep),
            first_cloud=spec.cloud if spec else '',
            subject=f"sweep '{sweep.id}'",
        )
        conn = connection.connect(cloud)
        # Such as the lease of a sweep that was killed.
        recovery.recover([conn], progress)
        if spec is not None:
            check_clusters(conn, sweep.configurations, spec)
        with lease.held(conn, progress):
            if is_new:
                sweep_store.save_sweep(sweep)
            progress.say(f'sweep {sweep.id}')
            try:
                with progress.stage('sweep'):
                    status = executor.run_sweep(
                        sweep,
                        progress,
                        lambda before, now: say_step(
                            *(before, now, progress, baseline, allow),
                            is_recorded=is_recorded,
                        ),
                    )
            finally:
                recovery.recover([conn], progress)
        write = self.app.stdout.write
        for line in way(status):
            write(f'{line}\n')
        # Without any confirmation, the search alone has records.
        records = compared_with(
            *(baseline, status.records or status.search_records, allow),
            is_recorded=is_recorded,
        )
        write(
            report.render(
                *(records, 'table'),
                allow=allow,
                history_records=status.stored_records,
            )
        )
        write(report.where_the_rest_is(records))
        _check_failures(sweep, status)


def _has_pending_runs(sweep: Sweep) -> bool:
    """Return whether a sweep may still execute a run."""
    if not sweep.finished or sweep.spec is None:
        return True
    return bool(executor.load_status(sweep).workloads)


def _check_failures(sweep: Sweep, status: SweepStatus) -> None:
    """Report that a part of a sweep failed.

    :raises hvstack.errors.PartlyFailedError: a configuration, or a run on
        bare metal, failed for good.
    """
    failed = status.excluded_labels
    failures = []
    if failed:
        failures.append(
            f'{format_noun(len(failed), "configuration")} failed '
            f'({", ".join(failed)})'
        )
    if status.measured.failed_baselines:
        failures.append(
            f'{format_noun(status.measured.failed_baselines, "run")} on '
            'bare metal failed'
        )
    if failures:
        raise errors.PartlyFailedError(
            f'{" and ".join(failures)}, and the others were measured. Run '
            f"'hvstack report {sweep.id}', which names the reasons."
        )


def check_clusters(
    conn: 'Connection',
    configurations: Iterable[Configuration],
    spec: SweepSpec,
) -> None:
    """Refuse a sweep whose clusters, or bare metal, would all fail.

    :param conn: connection of an administrator.
    :param configurations: possible configurations of the sweep.
    :param spec: specification of the sweep.
    :raises hvstack.errors.InputError: the image, the network or the hosts for
        bare metal cannot be used, or a token expires too early.
    """
    from hvstack.sweep import resource_check, token_check

    targets: list[tuple[Target, NodeSetup]] = [
        (configuration, NodeSetup()) for configuration in configurations
    ]
    if spec.measure_baseline:
        targets.append((BareMetal(), NodeSetup()))
    options = conf.load()
    resource_check.check_resources(conn, targets, options)
    token_check.check_token(
        *(conn, conn, targets, options.cloud),
        *(spec.host, spec.backend),
    )


def say_step(
    before: SweepStatus,
    now: SweepStatus,
    progress: Progress,
    baseline: str,
    allow: Sequence[str],
    *,
    is_recorded: bool,
) -> None:
    """Say what a step gained, and its percent of bare metal.

    :param before: where the sweep stood before the step.
    :param baseline: recorded runs on bare metal, as in the report.
    :param allow: facts that may differ.
    :param is_recorded: as in :meth:`_Running.go`.
    """
    for line in way(now)[len(way(before)) :]:
        progress.say(f'gain over the step before: {" ".join(line.split())}')
    if now.decision and len(now.search_records) > len(before.search_records):
        progress.say(now.decision.format_answer())
        return
    done = {run_record.id for run_record in before.records}
    fresh = {
        run_record.configuration
        for run_record in now.records
        if run_record.id not in done and run_record.kind == 'configuration'
    }
    try:
        rows = sweep_report.build_report(
            compared_with(
                *(baseline, now.records, allow), is_recorded=is_recorded
            ),
            allow=allow,
            history_records=now.stored_records,
            decision=now.decision,
        ).rows
    except (errors.InputError, errors.NotComparableError) as exc:
        progress.say(' '.join(str(exc).split()))
        return
    for row in rows:
        if row.configuration in fresh:
            progress.say(f'{row.label}: {_percent(row)}')


def _percent(row: sweep_rows.Row) -> str:
    if row.percent is None or row.status != 'ok':
        return row.verdict
    return (
        f'{row.percent.percent:.1f} % of bare metal '
        f'({describe_interim_interval(row.percent)})'
    )


def compared_with(
    baseline: str,
    records: Sequence[RunRecord],
    allow: Sequence[str],
    *,
    is_recorded: bool,
) -> list[RunRecord]:
    """Return a sweep's records with the named runs on bare metal, if any.

    :param is_recorded: as in :meth:`_Running.go`.
    :raises hvstack.errors.NotComparableError: these differ from the sweep's.
    """
    if not baseline or not any(run_record.valid for run_record in records):
        return list(records)
    return baselines.replace_baseline(
        *(baseline, records, sweep_store.open_store(), allow),
        is_recorded=is_recorded,
    )


class Run(_Running):
    """Search a space of configurations for the best one.

    Every run leaves a record. After an interruption, 'sweep resume' continues
    the sweep. The exit status is 6 if a configuration failed permanently.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe space, strategy and cloud."""
        parser = super().get_parser(prog_name)
        add_space(parser)
        add_size(parser)
        parser.add_argument(
            '--half-width',
            type=arguments.number,
            nargs='?',
            default=0.0,
            const=stopping.DEFAULT_HALF_WIDTH,
            metavar='POINTS',
            help='Continue with passes until the half width of every interval '
            'is at most this number of points '
            f'({stopping.DEFAULT_HALF_WIDTH:g} without a number), instead of '
            '--runs. With model-based, these are the passes that confirm the '
            'answer of the search, within --budget. Not with the strategy '
            'one-at-a-time (default: a fixed number of passes)',
        )
        arguments.add_kit(parser)
        add_cloud(parser)
        hadoop_options.add(parser)
        add_compared(parser, 'bare metal is not measured in between then')
        return parser

    @extras.required('rally')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Begin and run."""
        from hvstack.cloud import connection, credentials
        from hvstack.sweep import recovery

        progress = Progress()
        check_compared(parsed_args)
        with contextlib.closing(
            connection.connect(parsed_args.os_cloud)
        ) as conn:
            # The next process would log in, and Keystone would refuse it.
            credentials.check_logins(conn)
            credentials.check(conn, conf.load().cloud)
            ensure_image(conn.config.name, progress)
            # Hosts that a dead process took from Nova must be back.
            recovery.recover([conn], progress)
            parsed_args.backend = choose_backend(parsed_args, conn)
            area, missing = chosen_space(parsed_args, conn, progress.say)
            spec = SweepSpec(
                parsed_args.strategy,
                area.parameter_values,
                area.start,
                parsed_args.host,
                parsed_args.backend,
                missing,
                kit=str(parsed_args.kit.resolve()) if parsed_args.kit else '',
                baseline=baselines.make_absolute(parsed_args.baseline),
                allow=tuple(parsed_args.allow),
                half_width=parsed_args.half_width,
                budget=choose_budget(parsed_args),
                cloud=connection.format_cloud(conn),
            )
            check_clusters(conn, area.possible, spec)
        for skip in area.skipped:
            progress.say(f'skipped: {skip.name}: {skip.reason}')
        sweep = executor.begin_sweep(
            area,
            spec,
            count_runs(parsed_args),
            parsed_args.size,
            **hadoop_options.chosen(parsed_args),
        )
        self.go(
            sweep,
            parsed_args.os_cloud,
            parsed_args.baseline,
            parsed_args.allow,
            is_new=True,
        )


class Resume(_Running):
    """Resume a sweep; valid runs are never repeated."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe sweep and cloud."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'sweep',
            nargs='?',
            metavar='ID',
            help='ID of the sweep (default: the last unfinished sweep).',
        )
        add_cloud(parser)
        add_compared(parser, 'default: as the sweep was begun')
        return parser

    @extras.required('rally')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Find and run it."""
        check_compared(parsed_args)
        sweep = chosen(parsed_args.sweep)
        assert sweep.spec
        # Each run would fail, and its configuration would be excluded.
        if sweep.spec.baseline and not sweep.finished:
            baselines.require_candidates(
                sweep.spec.baseline, sweep_store.open_store()
            )
        if sweep.spec.kit and not sweep.finished:
            kit.check_kit(Path(sweep.spec.kit), sweep.size_bytes)
        self.go(
            sweep,
            parsed_args.os_cloud,
            parsed_args.baseline or sweep.spec.baseline,
            [*sweep.spec.allow, *parsed_args.allow],
            is_recorded=not parsed_args.baseline,
        )


def add_compared(parser: argparse.ArgumentParser, note: str) -> None:
    """Add the options for what the final table compares with.

    :param note: what else a baseline means.
    """
    parser.add_argument(
        '--baseline',
        default='',
        metavar='NAME',
        help='Compare with recorded runs on bare metal: the file or the '
        f'ID of a record, the ID of a sweep, or auto. {note}',
    )
    arguments.add_allow(parser)


def check_compared(parsed_args: argparse.Namespace) -> None:
    """Refuse what would else be told when all is measured.

    :raises hvstack.errors.InputError: no such baseline, or no such fact.
    """
    store = sweep_store.open_store()
    if parsed_args.baseline:
        baselines.require_candidates(parsed_args.baseline, store)
    comparability.check_fact_names(parsed_args.allow, iter_records(store))


class Show(ShowOne):
    """Show the progress of a sweep with a strategy."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the sweep."""
        parser = super().get_parser(prog_name)
        parser.add_argument('sweep', metavar='ID', help='ID of the sweep.')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Details:
        """Look at marker and records; change nothing."""
        sweep = chosen(parsed_args.sweep)
        status = executor.load_status(sweep)
        area = status.strategy.space
        best = [configuration.label for configuration in status.best]
        fields = {
            'ID': sweep.id,
            'State': 'unfinished' if status.workloads else 'finished',
            'Strategy': status.strategy.name,
            'Configurations': ', '.join(
                configuration.label for configuration in area.possible
            ),
            'Skipped': '\n'.join(
                f'{skip.name}: {skip.reason}' for skip in area.skipped
            ),
            'Runs': len(
                [
                    run_record
                    for run_record in (
                        *status.search_records,
                        *status.records,
                    )
                    if run_record.valid
                ]
            ),
            'Next': ', '.join(
                workload[0].label for workload in status.workloads
            ),
            'Failed': ', '.join(
                sorted(
                    configuration.name
                    for configuration in status.measured.excluded
                )
                + ['bare metal'] * (status.measured.failed_baselines > 0)
            ),
            'Best so far': ''.join(best[:1]),
            'Tied with it': ', '.join(best[1:]),
            'Search path': '\n'.join(way(status)),
        }
        if status.decision:
            fields['Search'] = status.decision.format_answer()
        return tuple(fields), tuple(fields.values())


def chosen(name: str | None) -> Sweep:
    """Return a sweep by a strategy; by default the last unfinished one.

    :raises hvstack.errors.InputError: there is none.
    """
    if name is not None and not run_id.is_sweep(name):
        raise errors.InputError(
            f"Cannot find sweep '{name}': this is not the ID of a sweep. Use "
            "an ID that 'hvstack sweep list' prints."
        )
    sweeps, reasons = sweep_store.load_usable()
    strategy_sweeps = [sweep for sweep in sweeps if sweep.spec is not None]
    for reason in reasons:
        if name is None or f'/{name}.json' in reason:
            raise errors.InputError(reason)
    if name is None:
        strategy_sweeps = [
            sweep for sweep in strategy_sweeps if not sweep.finished
        ]
    else:
        strategy_sweeps = [
            sweep for sweep in strategy_sweeps if sweep.id == name
        ]
    if not strategy_sweeps:
        description = f"sweep '{name}'" if name else 'an unfinished sweep'
        raise errors.InputError(
            f'Cannot find {description}: no such sweep has a strategy. '
            "Run 'hvstack sweep list'."
        )
    return strategy_sweeps[-1]
