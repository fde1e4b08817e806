#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often trials contain the truth, from a pool of new clusters.

Side A of the pool has new clusters of a configuration, and side B as many of
the same configuration whose hosts have smaller CPU caps ('hvstack lab host
cap'). Each cluster has one run. The order of all clusters is random, and
follows from the name of the pool. An invocation continues the previous one.
The caps are restored at its end, after Ctrl-C, and by the next invocation
after SIGKILL.

Before the first run of B, each invocation prints how large the effect of the
smaller caps must be, from the counters of runs with the usual caps.

--resample draws 1,000 trials of A against A and 1,000 of A against B, in each
trial other whole clusters without repetition, and computes their intervals as
'hvstack sweep trials' does. A trial of A against B stops when its half width
is 40 % of the smallest effect. The trials of A against B have a part of their
clusters in common, so that their share scatters less than that of as many
trials with clusters of their own. --trials measures trials of A against A with
'hvstack sweep trials run'; their records are in a database in the directory,
and are copied to its records.

On a lab that is up, with the Python of the virtual environment:

    .venv/bin/python benchmarks/pool.py DIRECTORY --minutes 60
    .venv/bin/python benchmarks/pool.py DIRECTORY --resample
    .venv/bin/python benchmarks/pool.py DIRECTORY --trials 3
"""

import argparse
import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import fresh_clusters
from fresh_clusters import Experiment
from pool_results import print_bounds, print_different, print_same
from resampling import RESAMPLED, SEED, SIDES, order_clusters

from hvstack import conf, errors, interrupts, paths, speed
from hvstack.cli import arguments
from hvstack.cli.lab_host_cap import capped
from hvstack.cloud import journal
from hvstack.lab import clouds_yaml, lifecycle, settings
from hvstack.model.configuration import Configuration
from hvstack.model.target import BARE_METAL
from hvstack.progress import Progress
from hvstack.results import comparability, percentages, stopping
from hvstack.results.record_data import RunRecord
from hvstack.sweep import sweep_store, trials

#: Kind of the entry of the journal while caps may be changed. Other commands
#: of hvstack leave it alone.
KIND = 'lab_host_cap'
#: Assumed minutes to restart the hosts with other caps, on a machine whose
#: speed factor (hvstack/speed.py) is 1.
CAP_MINUTES = 0.7
#: Number of clusters of each side of a measured trial.
TRIAL_RUNS = 3
#: Maximum number of runs that show the effect.
MAX_KNOWN = 24


@dataclass(frozen=True)
class PoolDesign:
    """Size of a pool.

    :param clusters: number of clusters of each side.
    :param percent: caps of side B in percent of those of side A.
    """

    clusters: int
    percent: float

    def __post_init__(self) -> None:
        if self.clusters < 2 or not 10 <= self.percent < 100:
            raise errors.InputError(
                f'Cannot create a pool of {self.clusters} clusters a side '
                f'with caps of {self.percent:g} %. Use 2 clusters or more, '
                'and a percentage from 10 to 99.'
            )


def format_sweep(name: str, side: str) -> str:
    """Return the sweep name of the records of a side."""
    return f'{name}-{side}'


def load_side(
    directory: Path, side: str, allow: Sequence[str]
) -> list[RunRecord]:
    """Return the valid records of a side.

    :param allow: names of facts that may differ between the sides.
    :raises hvstack.errors.NotComparableError: other facts differ.
    """
    store = fresh_clusters.open_store(directory)
    name = fresh_clusters.get_name(directory)
    records_a, records = (
        [
            record
            for record in store.load_records(format_sweep(name, item))
            if record.valid
        ]
        for item in ('a', side)
    )
    for record in records:
        for other in records_a[:1]:
            comparability.require_comparable(record, other, allow)
    return records


def load_known(
    directory: Path, configuration: Configuration, size_bytes: int
) -> list[RunRecord]:
    """Return runs that show the effect of smaller caps before any of side B.

    They are those of side A, or of the trials of A against A, or those of the
    user with the same configuration and size.
    """
    stores = (fresh_clusters.open_store(directory), sweep_store.open_store())
    sweep_b = format_sweep(fresh_clusters.get_name(directory), 'b')
    for store in stores:
        runs = [
            run
            for run in store.list_all_runs()
            if run.valid
            and run.configuration == configuration.name
            and run.size_bytes == size_bytes
            and run.sweep != sweep_b
        ]
        if runs:
            return [store.load_run(run) for run in runs[-MAX_KNOWN:]]
    return []


def print_resampled(
    directory: Path, design: PoolDesign, size: int, allow: Sequence[str]
) -> None:
    """Print what resampled trials say.

    :param size: number of clusters of each side of a trial of A against A.
    :param allow: names of facts that may differ between the sides.
    """
    records = {side: load_side(directory, side, allow) for side in SIDES}
    side_a, side_b = (
        percentages.list_clusters(
            {BARE_METAL: records[side]}, get_pass=lambda run: run.index
        )
        for side in SIDES
    )
    print(
        f'{len(side_a)} clusters of A and {len(side_b)} of B, {RESAMPLED} '
        f'trials (seed {SEED})'
    )
    print_same(side_a, size)
    bounds = print_bounds(records['a'], design.percent)
    if side_b and bounds is not None:
        print_different(side_a, side_b, bounds)


def set_caps(percent: float) -> None:
    """Set the caps of the worker hosts, and restart hosts that change."""
    progress = Progress()
    progress.say(f'caps of the worker hosts: {percent:g} %')
    lifecycle.up(lambda before: capped(before, percent), progress)


def check_caps() -> None:
    """Check that the caps of the hosts are those of the lab.

    :raises hvstack.errors.InputError: they would not be restored.
    """
    loaded = settings.load() or settings.LabSettings()
    if capped(loaded, 100).get_option('host_sizes') != loaded.get_option(
        'host_sizes'
    ):
        raise errors.InputError(
            'Cannot measure a pool: the worker hosts have caps of their own, '
            "which would not be restored. Run 'hvstack lab host cap 100'."
        )


def restore_caps(
    entry: journal.JournalEntry, change: Callable[[float], None]
) -> None:
    """Restore the caps of the worker hosts, and forget the entry."""
    with interrupts.deferred('hvstack is restoring the caps'):
        change(100)
        journal.forget(entry)


def recover_caps(change: Callable[[float], None]) -> None:
    """Restore the caps that a process that no longer runs has changed.

    :param change: function that sets the caps.
    """
    for entry in journal.entries():
        if entry.kind == KIND and entry.abandoned:
            restore_caps(entry, change)


@contextlib.contextmanager
def changed_caps(
    change: Callable[[float], None],
) -> Iterator[Callable[[float], None]]:
    """Return a function that sets the caps, which are restored at the end.

    :param change: function that sets the caps; it is called for other caps
        alone.
    """
    current = 100.0

    def change_once(percent: float) -> None:
        nonlocal current
        if percent != current:
            change(percent)
            current = percent

    entry = journal.note(KIND, {'name': 'of the worker hosts'})
    try:
        yield change_once
    finally:
        restore_caps(entry, change)


def list_pending(directory: Path, design: PoolDesign) -> list[tuple[str, int]]:
    """Return side and index of the clusters without a valid record."""
    store = fresh_clusters.open_store(directory)
    name = fresh_clusters.get_name(directory)
    done = {
        (side, run.index)
        for side in SIDES
        for run in store.list_runs(format_sweep(name, side))
        if run.valid
    }
    return [
        item
        for item in order_clusters(name, design.clusters)
        if item not in done
    ]


def estimate_minutes(
    pending: Sequence[tuple[str, int]], size_bytes: int
) -> float:
    """Return the assumed minutes of clusters, with the changes of caps."""
    sides = ['a', *(side for side, _ in pending), 'a']
    changes = sum(side != other for side, other in itertools.pairwise(sides))
    each = fresh_clusters.CLUSTER_MINUTES + (
        fresh_clusters.estimate_run_minutes(size_bytes)
    )
    return (len(pending) * each + changes * CAP_MINUTES) * speed.factor()


def run_new_clusters(
    experiment: Experiment, side: str, index: int, allow: Sequence[str]
) -> None:
    """Execute a run on a new cluster, and on another one after a failure.

    :param allow: names of facts that may differ between the sides.
    :raises hvstack.errors.NotComparableError: other facts differ.
    """
    fresh_clusters.measure_new_cluster(
        experiment,
        f'{experiment.name}-{side}{index}',
        format_sweep(experiment.name, side),
    )
    # Not after all runs.
    load_side(experiment.directory, side, allow)


def run_pool(
    experiment: Experiment,
    design: PoolDesign,
    minutes: float | None,
    allow: Sequence[str] = (),
) -> None:
    """Execute the missing runs of a pool.

    :param minutes: time of this invocation, which begins no run that would
        take longer; None for no limit.
    :param allow: names of facts that may differ between the sides.
    """
    progress = experiment.progress
    begin = time.monotonic()
    pending = list_pending(experiment.directory, design)
    longest = estimate_minutes([('b', 0)], experiment.size_bytes)
    check_caps()
    with changed_caps(set_caps) as change:
        for position, (side, index) in enumerate(pending):
            started_at = time.monotonic()
            # The caps are restored in the end.
            needed = longest + CAP_MINUTES * speed.factor()
            if minutes and (started_at - begin) / 60 + needed > minutes:
                progress.say(
                    f'{len(pending) - position} runs remain: the next run '
                    f'would take {needed:.1f} minutes. Run it again.'
                )
                return
            change(100.0 if side == 'a' else design.percent)
            run_new_clusters(experiment, side, index, allow)
            longest = max(longest, (time.monotonic() - started_at) / 60)


def run_trials(args: argparse.Namespace) -> str:
    """Execute trials of A against A, and return their table.

    The second invocation continues those of the first one.

    :param args: arguments of the command line.
    """
    path = args.directory / 'trials-id'
    if not path.exists():
        name = args.configuration.name
        created = trials.build_trials(
            (name, name), args.trials, args.runs or TRIAL_RUNS, args.size
        )
        trials.save_trials(created)
        paths.write_whole(path, created.id + '\n')
    trials_id = path.read_text(encoding='utf-8').strip()
    url = f'sqlite:///{args.directory.resolve()}/trials.sqlite'
    env = {**os.environ, **conf.variables({'records': {'connection': url}})}
    run_command = fresh_clusters.run_command
    cloud = ('--os-cloud', clouds_yaml.ADMIN_CLOUD)
    run_command('sweep', 'trials', 'run', trials_id, *cloud, env=env)
    records = str(fresh_clusters.open_store(args.directory).records_dir)
    run_command('record', 'export', '--records', url, records)
    return run_command('sweep', 'trials', 'show', trials_id, env=env)


def print_plan(args: argparse.Namespace, design: PoolDesign) -> None:
    """Print the order of the pool, and the remaining minutes."""
    name = fresh_clusters.get_name(args.directory)
    order = ''.join(side for side, _ in order_clusters(name, args.clusters))
    pending = list_pending(args.directory, design)
    print(
        f'order of the clusters: {order.upper()}\n'
        f'{len(pending)} of {len(order)} runs remain, about '
        f'{estimate_minutes(pending, args.size):.0f} minutes (assumed, not '
        'measured)'
    )
    runs_of_a = load_known(args.directory, args.configuration, args.size)
    try:
        print_bounds(runs_of_a, args.percent)
    except errors.InputError as exc:
        # Telemetry may be off; the runs are measured nevertheless.
        print(exc)
    if args.trials:
        runs = args.runs or TRIAL_RUNS
        clusters = [('a', 0)] * 2 * args.trials * runs
        print(
            f'{args.trials} trials with {runs} runs a side: about '
            f'{estimate_minutes(clusters, args.size):.0f} minutes'
        )


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = fresh_clusters.create_parser(__doc__)
    parser.add_argument(
        '--clusters',
        type=arguments.count,
        default=24,
        metavar='K',
        help='Number of clusters of each side (default: 24).',
    )
    parser.add_argument(
        '--percent',
        type=arguments.number,
        default=80.0,
        help='CPU caps of side B in percent of those of side A (default: 80).',
    )
    parser.add_argument(
        '--minutes',
        type=arguments.number,
        metavar='M',
        help='Begin no run that would end after M minutes (default: no '
        'limit).',
    )
    parser.add_argument(
        '--runs',
        type=arguments.count,
        metavar='N',
        help='Number of clusters of each side of a trial of A against A '
        f'(default: {stopping.MIN_PASSES} for --resample, the fewest of a '
        f'sweep with a goal, and {TRIAL_RUNS} for --trials).',
    )
    parser.add_argument(
        '--allow',
        action='append',
        default=['caps'],
        metavar='NAME',
        help='Fact that may differ between the sides, in addition to caps. '
        'Can be repeated.',
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        '--resample',
        action='store_true',
        help='Draw trials from the pool, and run nothing.',
    )
    mode.add_argument(
        '--trials',
        type=arguments.count,
        default=0,
        metavar='N',
        help='Measure this number of trials of A against A instead.',
    )
    return parser.parse_args()


def main() -> None:
    """Continue the pool, or draw or measure trials."""
    args = parse_arguments()
    design = PoolDesign(args.clusters, args.percent)
    if args.dry_run:
        print_plan(args, design)
        return
    fresh_clusters.check_plan(
        args.directory,
        {
            'configuration': args.configuration.name,
            'size_bytes': args.size,
            **asdict(design),
        },
    )
    if args.resample:
        size = args.runs or stopping.MIN_PASSES
        print_resampled(args.directory, design, size, args.allow)
        return
    print_plan(args, design)
    with fresh_clusters.started(args) as experiment:
        # Hosts change their caps without guests.
        fresh_clusters.delete_remains(experiment.name)
        recover_caps(set_caps)
        if not args.trials:
            run_pool(experiment, design, args.minutes, args.allow)
    if args.trials:
        print(run_trials(args), end='')


if __name__ == '__main__':
    sys.exit(fresh_clusters.execute(main))
