# SPDX-License-Identifier: Apache-2.0
"""``hvstack sweep plan``: what a sweep will do, before anything starts."""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NotRequired, TypedDict

from cliff.command import Command

from hvstack import conf, errors, host_profiles
from hvstack.cli import arguments, hadoop_options, search_plan
from hvstack.cli.options import add_cloud
from hvstack.cli.space_options import (
    add_space,
    choose_backend,
    choose_budget,
    choose_tuning,
    chosen_space,
    count_runs,
)
from hvstack.cli.sweep import add_size
from hvstack.cluster import disk_check
from hvstack.model import compute_backends
from hvstack.model.plain_data import JsonObject
from hvstack.results.cloud_identity import parse_cloud
from hvstack.results.history import collect_recent
from hvstack.results.run_store import StoredSweeps
from hvstack.sweep import (
    forecast,
    run_times,
    search_forecast,
    strategies,
    sweep_store,
)
from hvstack.sweep.budget import parse_budget
from hvstack.sweep.cluster_needs import ClusterNeeds, Hosts, compute_needs
from hvstack.sweep.rate_search import MAX_RUNS, SearchSettings
from hvstack.sweep.search_space import Space
from hvstack.sweep.strategies import ModelBased, Strategy
from hvstack.tpcxhs import deadlines
from hvstack.tpcxhs.deadlines import Limits
from hvstack.tpcxhs.hdfs_space import format_gb


class _SkippedConfiguration(TypedDict):
    """Configuration that is not possible, with the reason."""

    configuration: str
    reason: str


class _DiskDifference(TypedDict):
    """Configurations that do not use the disks of bare metal, and why."""

    configurations: list[str]
    reason: str


class _SweepPlan(TypedDict):
    """Plan of a sweep, as ``--format json`` prints it.

    Pairs of numbers are the minimum and the maximum.
    """

    backend: str
    cloud: list[str]
    strategy: str
    start: str
    configurations: list[str]
    skipped: list[_SkippedConfiguration]
    runs_of_each: int
    runs: list[int]
    bare_metal: bool
    measured: list[int]
    run_seconds: float | None
    setup_seconds: float | None
    seconds: list[float] | None
    search: NotRequired[search_plan.SearchPlan]
    disks: NotRequired[list[_DiskDifference]]
    clusters: NotRequired[list[JsonObject]]


class Plan(Command):
    """Show what a sweep measures, what it skips and how long it takes.

    With --hosts it shows what the clusters need: nodes, tasks, Java heaps,
    deadlines, quotas, resources of the Heat stack, and large pages.

    The command starts and changes nothing.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_space(parser)
        hadoop_options.add_tuning(parser)
        parser.add_argument(
            '-f',
            '--format',
            choices=('table', 'json'),
            default='table',
            help='Format of the plan (default: table).',
        )
        add_size(parser)
        parser.add_argument(
            '--hosts',
            type=arguments.count,
            metavar='N',
            help='Number of hosts, including those of controllers: shows what '
            'the cluster of each configuration needs on them.',
        )
        add_cloud(
            parser,
            'Name of the cloud whose capabilities limit the plan, as in '
            'clouds.yaml, or envvars for the cloud of the OS_* variables '
            '(default: no cloud)',
        )
        parser.add_argument(
            '--run-seconds',
            type=arguments.number,
            metavar='S',
            help='Expected duration of a run in seconds (default: that '
            'of recorded runs of this size).',
        )
        parser.add_argument(
            '--setup-seconds',
            type=arguments.number,
            metavar='S',
            help='Expected time to create and delete a cluster, in '
            'seconds (default: that of recorded runs).',
        )
        arguments.add_records(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Plan and show it."""
        notes: list[str] = []
        conn = None
        cloud = ''
        if parsed_args.os_cloud:
            # A plan without a cloud does not import openstacksdk.
            from hvstack.cloud import connection

            conn = connection.connect(parsed_args.os_cloud)
            cloud = connection.format_cloud(conn)
        parsed_args.backend = choose_backend(parsed_args, conn)
        area, _ = chosen_space(parsed_args, conn, notes.append)
        run, setup = _find_times(parsed_args, cloud)
        bare_metal = not compute_backends.is_emulated(parsed_args.backend)
        seconds = None if run is None else run + (setup or 0)
        strategy = _create_strategy(parsed_args, area, seconds, cloud)
        search = None
        if isinstance(strategy, ModelBased):
            search = search_forecast.forecast_search(
                strategy, measure_baseline=bare_metal
            )
        min_estimate, max_estimate = (
            forecast.convert_forecast(search)
            if search
            else forecast.estimate_sweep(strategy, measure_baseline=bare_metal)
        )
        plan: _SweepPlan = {
            'backend': parsed_args.backend,
            'cloud': notes
            if parsed_args.os_cloud
            else [
                'No capabilities are checked. Use --os-cloud to check those '
                'of a cloud.'
            ],
            'strategy': strategy.name,
            'start': area.start.label,
            'configurations': [
                configuration.label for configuration in area.possible
            ],
            'skipped': [
                {'configuration': skip.name, 'reason': skip.reason}
                for skip in area.skipped
            ],
            'runs_of_each': strategy.runs,
            'runs': [min_estimate.runs, max_estimate.runs],
            'bare_metal': bare_metal,
            'measured': [
                min_estimate.configurations,
                max_estimate.configurations,
            ],
            'run_seconds': run,
            'setup_seconds': setup,
            'seconds': None
            if run is None
            else [
                estimate.seconds(run, setup or 0)
                for estimate in (min_estimate, max_estimate)
            ],
        }
        if search:
            plan['search'] = search_plan.describe(search, seconds)
        if bare_metal and (disks := _disk_differences(parsed_args, area)):
            plan['disks'] = disks
        clusters: list[ClusterNeeds] = []
        if parsed_args.hosts:
            clusters = _clusters(parsed_args, area)
            plan['clusters'] = [needs.to_mapping() for needs in clusters]
        if parsed_args.format == 'json':
            self.app.stdout.write(json.dumps(plan, indent=1) + '\n')
        else:
            self.app.stdout.write('\n'.join(_lines(plan, clusters)) + '\n')


def _find_times(
    parsed_args: argparse.Namespace, cloud: str
) -> tuple[float | None, float | None]:
    """Return the given seconds of a run and of a change of the cluster.

    Without them, they are those of recorded runs, or None.

    :param cloud: URL and region of the cloud; empty without one.
    :raises hvstack.errors.InputError: a given time is not possible.
    """
    run, setup = parsed_args.run_seconds, parsed_args.setup_seconds
    for name, value in (('run', run), ('setup', setup)):
        if value is not None and not 0 <= value < 1e7:
            raise errors.InputError(
                f'Cannot use --{name}-seconds {value:g}. Use 0 to 1e7.'
            )
    if run is not None and setup is not None:
        return run, setup
    median_run, median_setup = run_times.compute_median_times(
        run_times.iter_records_of_cloud(
            StoredSweeps(sweep_store.open_store(parsed_args.records)), cloud
        ),
        parsed_args.size,
        run_times.MAX_TIMED_RUNS,
        backend=parsed_args.backend,
    )
    return (
        median_run if run is None else run,
        median_setup if setup is None else setup,
    )


def _create_strategy(
    parsed_args: argparse.Namespace,
    area: Space,
    seconds: float | None,
    cloud: str,
) -> Strategy:
    """Return the strategy of the options.

    :param seconds: seconds of a run with its new cluster; None if no run is
        known.
    :param cloud: URL and region of the cloud; empty without one.
    :raises hvstack.errors.InputError: the budget is not valid.
    """
    name, runs = parsed_args.strategy, count_runs(parsed_args)
    strategy = strategies.create_strategy(name, area, runs)
    text = choose_budget(parsed_args)
    if not isinstance(strategy, ModelBased):
        if text:
            raise errors.InputError(
                f"Cannot use --budget: strategy '{name}' has no search. Use "
                f'--strategy {ModelBased.name}.'
            )
        return strategy
    budget = parse_budget(text)
    confirmation_runs = strategy.count_confirmation_runs(
        measure_baseline=not compute_backends.is_emulated(parsed_args.backend)
    )
    budget.check(confirmation_runs, seconds)
    max_runs = budget.count_clusters(confirmation_runs, 1, seconds)
    sweeps = StoredSweeps(sweep_store.open_store(parsed_args.records))
    return strategies.create_strategy(
        name,
        area,
        runs,
        SearchSettings(
            scatter=collect_recent(
                sweeps, parsed_args.size, parse_cloud(cloud)
            ).guests,
            max_runs=MAX_RUNS if max_runs is None else min(MAX_RUNS, max_runs),
        ),
    )


def _disk_differences(
    parsed_args: argparse.Namespace, area: Space
) -> list[_DiskDifference]:
    """Return which configurations do not use the disks of bare metal."""
    labels = disk_check.explain_all(
        host_profiles.load(parsed_args.host),
        area.possible,
        Path(conf.load().sweep.baseline_hosts),
    )
    return [
        {'configurations': names, 'reason': reason}
        for reason, names in labels.items()
    ]


def _clusters(
    parsed_args: argparse.Namespace, area: Space
) -> list[ClusterNeeds]:
    """Return the resources that a sweep needs on a number of hosts."""
    options = conf.load()
    return compute_needs(
        Hosts(
            host_profiles.load(parsed_args.host),
            parsed_args.hosts,
            parsed_args.size,
            choose_tuning(parsed_args),
            Limits(
                options.benchmark.phase_timeout,
                options.benchmark.stall_timeout,
            ),
            parsed_args.backend,
        ),
        area,
    )


def _lines(plan: _SweepPlan, clusters: Sequence[ClusterNeeds]) -> list[str]:
    """Return the plan for a terminal."""
    lines = _work_lines(plan, clusters)
    lines += [
        f'disks: {", ".join(item["configurations"])}: {item["reason"]}'
        for item in plan.get('disks', ())
    ]
    for cluster in clusters:
        lines += _cluster_lines(cluster)
    return lines


def _estimate_seconds(clusters: Sequence[ClusterNeeds]) -> float | None:
    """Return the estimated seconds of the slowest run; None without hosts."""
    return max(
        (math.fsum(cluster.estimates.values()) for cluster in clusters),
        default=None,
    )


def _format_unknown_time(
    plan: _SweepPlan, clusters: Sequence[ClusterNeeds]
) -> str:
    """Return the line on the time of a sweep without a recorded run."""
    run = _estimate_seconds(clusters)
    if run is None:
        return (
            'how long is not known: no run of this size is recorded, give '
            '--run-seconds and --setup-seconds, or --hosts for an estimate'
        )
    hours = [f'{run * count / 3600:.0f}' for count in plan['runs']]
    return (
        f'estimated at {_range(hours)} hours without the time for clusters: '
        f'{run:.0f} s a run if a disk has {deadlines.DISK_SPEED / 1e6:.0f} '
        f'MB/s, a port {deadlines.NETWORK_SPEED / 1e6:.0f} MB/s and a CPU '
        f'{deadlines.CPU_SPEED / 1e6:.0f} MB/s, one after the other. No run '
        'of this size is recorded; --run-seconds and --setup-seconds replace '
        'the estimate'
    )


def _work_lines(
    plan: _SweepPlan, clusters: Sequence[ClusterNeeds]
) -> list[str]:
    possible, skipped = plan['configurations'], plan['skipped']
    lines = [
        f'compute backend: {plan["backend"]}',
        *(f'cloud: {line}' for line in plan['cloud']),
        f'{len(possible)} of {len(possible) + len(skipped)} configurations '
        f'can exist: {", ".join(possible)}',
    ]
    lines += [
        f'skipped: {skip["configuration"]}: {skip["reason"]}'
        for skip in skipped
    ]
    lines.append(
        f'{plan["strategy"]} from {plan["start"]}, {plan["runs_of_each"]} '
        f'{"passes of confirmation" if "search" in plan else "runs of each"}: '
        f'measures {_range(plan["measured"])} of them in '
        f'{_range(plan["runs"])} runs, '
        + (
            'those on bare metal included'
            if plan['bare_metal']
            else 'none on bare metal: nothing compares with emulated CPUs'
        )
    )
    if 'search' in plan:
        lines += search_plan.format_forecast(plan['search'])
    if plan['seconds'] is None:
        return [*lines, _format_unknown_time(plan, clusters)]
    setup = (
        'no time for clusters, which --setup-seconds gives'
        if plan['setup_seconds'] is None
        else f'{plan["setup_seconds"]:.0f} s for each cluster'
    )
    hours = [f'{value / 3600:.1f}' for value in plan['seconds']]
    lines.append(
        f'about {_range(hours)} hours: {plan["run_seconds"]:.0f} s a run, '
        f'{setup}'
    )
    return lines


def _cluster_lines(cluster: ClusterNeeds) -> list[str]:
    """Return the resources of a cluster as lines for a terminal."""
    heaps = {
        jvm: mib or 'as in the guest image'
        for jvm, mib in cluster.heaps_mib.items()
    }
    limits = {
        phase: f'{seconds / 3600:.1f} h'
        for phase, seconds in cluster.deadlines.items()
    }
    lines = [
        f'nodes: workers {cluster.workers}, controllers {cluster.controllers}',
        f'tasks: HSGen {cluster.tasks} maps, HSSort '
        f'{cluster.sort_maps} maps and {cluster.tasks} reduces',
        _format_waves(cluster),
        f'Java heaps of HSSort in MiB: {_join(heaps)}',
        f'deadlines: {_join(limits)}',
        _format_space(cluster),
    ]
    if cluster.quota:
        quota = {name: n for name, n in asdict(cluster.quota).items() if n}
        lines += [
            f'quota: {_join(quota)}',
            f'Heat: {cluster.heat_resources} resources in the stack',
        ]
    if cluster.pages:
        lines.append(
            f'large pages: {cluster.pages} of each host for its workers'
        )
    return [f'{cluster.name}:', *(f'  {line}' for line in lines)]


def _format_space(cluster: ClusterNeeds) -> str:
    """Return whether the data fit on the disks of a cluster."""
    needed = f'HDFS: the data need {format_gb(cluster.hdfs_bytes)}'
    if cluster.disk_bytes is None:
        return f'{needed}; the size of the disks is not known'
    if cluster.hdfs_bytes > cluster.disk_bytes:
        return (
            f'{needed} and do not fit: the disks have '
            f'{format_gb(cluster.disk_bytes)}. Use a smaller --size, more '
            'hosts or larger disks'
        )
    return f'{needed} of {format_gb(cluster.disk_bytes)} on the disks'


def _format_waves(cluster: ClusterNeeds) -> str:
    """Return how the tasks of a cluster fill its containers."""
    tasks, slots = cluster.tasks, cluster.slots
    if not cluster.is_filled:
        return (
            f'uneven work: {tasks} tasks do not fill {slots} containers in '
            'whole waves, so that YARN chooses the workers with more tasks'
        )
    if tasks % slots:
        return (
            f'waves: {tasks} tasks in {slots} containers, as the tuning '
            'profile defines'
        )
    return f'waves: {tasks // slots} of {slots} tasks'


def _join(values: Mapping[str, str | int]) -> str:
    return ', '.join(f'{name} {value}' for name, value in values.items())


def _range(values: Sequence[int] | Sequence[str]) -> str:
    first, last = values
    return f'{first}' if first == last else f'{first} to {last}'
