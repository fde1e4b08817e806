#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What differs between clusters: variance components of the run time.

Several blocks, one after the other, have several new stacks each. On a stack,
Hadoop is restarted several times, and has several runs after each restart.
Everything else is the same. The components of the variance of the logarithm
of the seconds of a run are those of a nested analysis of variance (Montgomery,
"Design and Analysis of Experiments", two-stage nested designs), by the method
of moments from the mean squares of complete blocks. They are printed as
standard deviations in percent of the time.

The 90 % intervals are generalized confidence intervals (S. Weerahandi,
"Generalized Confidence Intervals", JASA 88, 1993): mean squares divided by
random chi-square variables over their degrees of freedom, from a fixed seed.
A component is a difference of mean squares, for which Satterthwaite's
approximation is poor, and four blocks are too few for a bootstrap.

The same components of the seconds for each CPU second of the nodes are
printed below them. The work of all runs is the same. It takes more CPU time
on a slower machine, or on a stack that needs more for it; what remains has
other reasons.

A run is stored in a file of its block when it ends, and is not repeated: a
SIGKILL costs one run. A cluster stays until all of its runs are stored. If it
was deleted before, another cluster takes its part.

With --usual-switches, the switches of all hosts are as Open vSwitch starts by
itself, which drops packets under load, instead of as the lab sets them up.

On a lab that is up, with the Python of the virtual environment, about 150
minutes: .venv/bin/python benchmarks/nested.py DIRECTORY
"""

import argparse
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import fresh_clusters
import switch_settings
from fresh_clusters import Experiment
from nested_results import (
    DRAWS,
    LEVELS,
    SEED,
    Nested,
    compute_mean,
    compute_mean_squares,
    describe_stacks,
    estimate_components,
    format_components,
)
from switch_settings import SwitchSettings

from hvstack import errors, paths, speed
from hvstack.cloud import journal
from hvstack.hadoop import daemon_http
from hvstack.results.file_run_store import FileRunStore
from hvstack.tpcxhs import preparation


@dataclass(frozen=True)
class Design:
    """Numbers of blocks, and of what each part of them contains."""

    blocks: int = 4
    stacks: int = 4
    restarts: int = 2
    runs: int = 2

    def __post_init__(self) -> None:
        for name, count in asdict(self).items():
            if count < 2:
                raise errors.InputError(
                    f'Cannot use --{name} {count}: a variance needs 2 of '
                    'them. Use 2 or more.'
                )

    def estimate_minutes(self, size_bytes: int) -> float:
        """Return the assumed minutes of a block."""
        restart = fresh_clusters.RESTART_MINUTES + self.runs * (
            fresh_clusters.estimate_run_minutes(size_bytes)
        )
        each = fresh_clusters.CLUSTER_MINUTES + self.restarts * restart
        return self.stacks * each * speed.factor()


@dataclass(frozen=True)
class NestedRun:
    """Run of a block, as its file contains it.

    :param stack: number of the stack in its block, from 1.
    :param cluster: ID of its HDFS, which was formatted once.
    :param restart: time at which its NameNode started, in ms since 1970.
    :param seconds: total time of the phases.
    :param record: ID of the run record.
    """

    stack: int
    cluster: str
    restart: int
    seconds: float
    record: str


def list_restarts(
    runs: Iterable[NestedRun], design: Design
) -> list[list[float]]:
    """Return the seconds of the complete restarts of a cluster.

    :param runs: runs of the cluster, in order.
    :returns: at most as many restarts and runs as the design has.
    """
    seconds: dict[int, list[float]] = {}
    for run in runs:
        seconds.setdefault(run.restart, []).append(run.seconds)
    complete = [
        values[: design.runs]
        for values in seconds.values()
        if len(values) >= design.runs
    ]
    return complete[: design.restarts]


def find_stack(
    runs: Iterable[NestedRun], stack: int, design: Design
) -> list[list[float]] | None:
    """Return the seconds of a complete stack; None while runs are missing.

    :param runs: runs of the block, in order.
    :param stack: number of the stack.
    """
    by_cluster: dict[str, list[NestedRun]] = {}
    for run in runs:
        if run.stack == stack:
            by_cluster.setdefault(run.cluster, []).append(run)
    for cluster_runs in by_cluster.values():
        restarts = list_restarts(cluster_runs, design)
        if len(restarts) == design.restarts:
            return restarts
    return None


def needs_restart(
    runs: Iterable[NestedRun], restart: int, design: Design
) -> bool:
    """Return whether the next run of a cluster is the first of a restart.

    :param runs: runs of the cluster.
    :param restart: time at which its NameNode started.
    """
    count = Counter(run.restart for run in runs)[restart]
    return not 0 < count < design.runs


def list_complete(
    blocks: Iterable[Sequence[NestedRun]], design: Design
) -> list[Nested]:
    """Return the logarithms of the seconds of all complete blocks.

    :param blocks: runs of each block, in order.
    """
    complete: list[Nested] = []
    for runs in blocks:
        stacks = [
            find_stack(runs, stack, design)
            for stack in range(1, design.stacks + 1)
        ]
        if None not in stacks:
            complete.append(
                [
                    [[math.log(value) for value in row] for row in stack]
                    for stack in stacks
                    if stack is not None
                ]
            )
    return complete


def read_cpu_seconds(store: FileRunStore) -> dict[str, float]:
    """Return the CPU seconds of all nodes in each run by record.

    A record without the CPU seconds of a node is missing.

    :param store: store of the experiment.
    """
    seconds = {}
    for run in store.list_all_runs():
        summary = store.load_run(run).observations.telemetry
        nodes = summary.nodes.values() if summary else ()
        values = [node.cpu for node in nodes if node.cpu is not None]
        if values and len(values) == len(nodes):
            seconds[run.id] = math.fsum(values)
    return seconds


def divide_by_cpu(
    runs: Iterable[NestedRun], cpu_seconds: Mapping[str, float]
) -> list[NestedRun]:
    """Return runs with the seconds for each CPU second of their nodes.

    :param cpu_seconds: result of :func:`read_cpu_seconds`. Runs without CPU
        seconds are missing in the result.
    """
    return [
        replace(run, seconds=run.seconds / cpu_seconds[run.record])
        for run in runs
        if run.record in cpu_seconds
    ]


def get_path(directory: Path, block: int) -> Path:
    """Return the file with the runs of a block."""
    return directory / f'block-{block}.jsonl'


def load_runs(path: Path) -> list[NestedRun]:
    """Return the runs of a block; none if the file does not exist.

    :raises hvstack.errors.InputError: a line is not a run.
    """
    if not path.exists():
        return []
    runs = []
    lines = path.read_text(encoding='utf-8').splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            runs.append(NestedRun(**json.loads(line)))
        except (TypeError, ValueError) as exc:
            raise errors.InputError(
                f'Cannot read {path}, line {number}: {exc}. Delete the line.'
            ) from exc
    return runs


def append_run(path: Path, run: NestedRun) -> None:
    """Add a run to the file of its block.

    The file is replaced, so that a SIGKILL cannot leave half of a line.
    """
    lines = [json.dumps(asdict(item)) for item in (*load_runs(path), run)]
    paths.write_whole(path, '\n'.join(lines) + '\n')


def run_stack(
    experiment: Experiment,
    design: Design,
    block: int,
    stack: int,
    switches: SwitchSettings,
) -> None:
    """Execute the missing runs of a stack, and delete it."""
    path = get_path(experiment.directory, block)
    name = f'{experiment.name}-b{block}-s{stack}'
    if find_stack(load_runs(path), stack, design) is None:
        with experiment.open_cluster(name) as (cluster, workload):
            switch_settings.change(switches)
            cluster_id = preparation.read_cluster_id(cluster)
            while True:
                runs = [
                    run
                    for run in load_runs(path)
                    if (run.stack, run.cluster) == (stack, cluster_id)
                ]
                if len(list_restarts(runs, design)) == design.restarts:
                    break
                if needs_restart(runs, read_start(cluster.gateway), design):
                    experiment.restart_hadoop(cluster, workload)
                restart = read_start(cluster.gateway)
                record = experiment.measure(
                    cluster, workload, f'{experiment.name}-b{block}'
                )
                append_run(
                    path,
                    NestedRun(
                        *(stack, cluster_id, restart),
                        *(record.total_seconds, record.id),
                    ),
                )
    fresh_clusters.delete_cluster(name)


def check_clusters(name: str, block: int | None) -> None:
    """Check that no cluster of another block occupies the hosts.

    An invocation that was interrupted leaves the cluster that it measured.

    :param name: name of the experiment.
    :param block: number of the only block to run; None for all blocks, of
        which the one with the cluster is the next.
    :raises hvstack.errors.InputError: a cluster of another block exists.
    """
    for owner in sorted({entry.owner for entry in journal.entries()}):
        match = re.fullmatch(rf'cluster {re.escape(name)}-b(\d+)-s\d+', owner)
        if match and block not in (None, int(match[1])):
            raise errors.InputError(
                f'Cannot run block {block} of {name}: the {owner} of another '
                f'block occupies the hosts. Run block {match[1]} first, or '
                f"'hvstack cluster delete {owner.split()[1]}'."
            )


def read_start(gateway: daemon_http.Runner) -> int:
    """Return the time at which a NameNode started, in ms since 1970."""
    info = daemon_http.get_namenode_bean(gateway, 'NameNodeInfo')
    return int(info['NNStartedTimeInMillis'])


def print_plan(directory: Path, design: Design, size_bytes: int) -> None:
    """Print how many runs of each block exist, and the remaining minutes."""
    minutes = design.estimate_minutes(size_bytes)
    total = 0.0
    for block in range(1, design.blocks + 1):
        runs = load_runs(get_path(directory, block))
        complete = sum(
            find_stack(runs, stack, design) is not None
            for stack in range(1, design.stacks + 1)
        )
        remaining = minutes * (1 - complete / design.stacks)
        total += remaining
        print(
            f'block {block}: {complete} of {design.stacks} stacks with '
            f'{design.restarts} restarts and {design.runs} runs each, about '
            f'{remaining:.0f} minutes remain'
        )
    print(f'about {total:.0f} minutes in all (assumed, not measured)')


def print_result(directory: Path, design: Design) -> None:
    """Print the components, as soon as two blocks are complete."""
    blocks = [
        load_runs(get_path(directory, block))
        for block in range(1, design.blocks + 1)
    ]
    complete = list_complete(blocks, design)
    print(f'{len(complete)} of {design.blocks} blocks are complete')
    if len(complete) < 2:
        return
    mean = math.exp(compute_mean(complete))
    print(
        f'total time of the phases: geometric mean {mean:.1f} s\n'
        'Standard deviations in percent of the time by the method of moments,'
        f'\nwith generalized confidence intervals ({DRAWS} draws, seed '
        f'{SEED}):'
    )
    components = estimate_components(compute_mean_squares(complete))
    print(format_components(components))
    print(describe_stacks(components))
    cpu_seconds = read_cpu_seconds(fresh_clusters.open_store(directory))
    by_cpu = list_complete(
        [divide_by_cpu(runs, cpu_seconds) for runs in blocks], design
    )
    if len(by_cpu) == len(complete):
        print('The same of the seconds for each CPU second of the nodes:')
        components = estimate_components(compute_mean_squares(by_cpu))
        print(format_components(components))


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = fresh_clusters.create_parser(__doc__)
    for name, count in asdict(Design()).items():
        parser.add_argument(
            f'--{name}',
            type=int,
            default=count,
            metavar='N',
            help=f'Number of {name} (default: {count}).',
        )
    parser.add_argument(
        '--block',
        type=int,
        metavar='N',
        help='Number of the only block to run, from 1 (default: all blocks).',
    )
    parser.add_argument(
        '--usual-switches',
        action='store_true',
        help='Give the switches the receive buffers and the priority with '
        'which Open vSwitch starts by itself (default: those of the lab).',
    )
    parser.add_argument(
        '--report',
        action='store_true',
        help='Print the components of the stored runs, and run nothing.',
    )
    return parser.parse_args()


def main() -> None:
    """Execute the missing runs, and print the components."""
    args = parse_arguments()
    design = Design(*(getattr(args, name) for name in LEVELS))
    name = fresh_clusters.get_name(args.directory)
    if args.block is not None and not 1 <= args.block <= design.blocks:
        raise errors.InputError(
            f'Cannot run block {args.block} of {name}: the experiment has '
            f'{design.blocks} blocks. Use 1 to {design.blocks}.'
        )
    if args.dry_run:
        print_plan(args.directory, design, args.size)
        return
    switches = (
        switch_settings.USUAL if args.usual_switches else switch_settings.LAB
    )
    fresh_clusters.check_plan(
        args.directory,
        {
            'configuration': args.configuration.name,
            'size_bytes': args.size,
            **asdict(design),
            **({'switches': str(switches)} if args.usual_switches else {}),
        },
    )
    if not args.report:
        print_plan(args.directory, design, args.size)
        blocks = range(1, design.blocks + 1)
        check_clusters(name, args.block)
        with (
            fresh_clusters.started(args) as experiment,
            switch_settings.restored(),
        ):
            for block in [args.block] if args.block else blocks:
                for stack in range(1, design.stacks + 1):
                    run_stack(experiment, design, block, stack, switches)
    print_result(args.directory, design)


if __name__ == '__main__':
    sys.exit(fresh_clusters.execute(main))
