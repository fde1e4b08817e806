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

A run is stored in a file of its block when it ends, and is not repeated: a
SIGKILL costs one run. A cluster stays until all of its runs are stored. If it
was deleted before, another cluster takes its part.

On a lab that is up, with the Python of the virtual environment, about 90
minutes: .venv/bin/python benchmarks/nested.py DIRECTORY
"""

import argparse
import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import fresh_clusters
from fresh_clusters import Experiment

from hvstack import errors, paths, seeded_random
from hvstack.hadoop import daemon_http
from hvstack.tpcxhs import preparation

#: Factors of the design, the outermost first.
LEVELS = ('blocks', 'stacks', 'restarts', 'runs')
#: Row of the sum of all components but that of the blocks.
NEW_CLUSTER = 'a run on a new cluster'
CONFIDENCE = 0.9
#: The stack's own component should be below this, in percent of the time.
LIMIT_PERCENT = 1.0
DRAWS, SEED = 10_000, 1
#: Logarithms of seconds by block, stack, restart and run.
Nested = float | Sequence['Nested']


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
        return self.stacks * (
            fresh_clusters.CLUSTER_MINUTES + self.restarts * restart
        )


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


@dataclass(frozen=True)
class MeanSquare:
    """Mean square of a factor.

    :param value: mean square.
    :param degrees: degrees of freedom.
    :param copies: number of runs of a unit of the factor.
    """

    value: float
    degrees: int
    copies: int


@dataclass(frozen=True)
class Component:
    """Standard deviation of a factor in percent, with its 90 % interval.

    :param degrees: degrees of freedom of its mean square; None for a sum.
    """

    name: str
    percent: float
    low: float
    high: float
    degrees: int | None = None


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


def compute_mean(data: Nested) -> float:
    """Return the mean of balanced data."""
    if isinstance(data, float):
        return data
    return statistics.fmean(map(compute_mean, data))


def count_runs(data: Nested) -> int:
    """Return the number of runs."""
    return 1 if isinstance(data, float) else sum(map(count_runs, data))


def compute_mean_squares(data: Sequence[Nested]) -> list[MeanSquare]:
    """Return the mean squares of the factors of a balanced nested design.

    :param data: two blocks or more.
    :returns: in the order of :data:`LEVELS`.
    """
    units: list[Nested] = [data]
    squares = []
    for _ in LEVELS:
        parts = [unit for unit in units if not isinstance(unit, float)]
        units = [child for unit in parts for child in unit]
        copies = count_runs(units[0])
        means = [list(map(compute_mean, unit)) for unit in parts]
        total = math.fsum(
            (mean - statistics.fmean(unit_means)) ** 2
            for unit_means in means
            for mean in unit_means
        )
        degrees = len(units) - len(parts)
        squares.append(MeanSquare(copies * total / degrees, degrees, copies))
    return squares


def split_variance(squares: Sequence[MeanSquare]) -> list[float]:
    """Return the variances of the factors, some perhaps negative.

    The last value is that of a run on a new cluster, whatever its block.

    :param squares: mean squares by :func:`compute_mean_squares`.
    """
    below = [*(square.value for square in squares[1:]), 0.0]
    variances = [
        (square.value - other) / square.copies
        for square, other in zip(squares, below, strict=True)
    ]
    return [*variances, math.fsum(variances[1:])]


def estimate_components(
    squares: Sequence[MeanSquare], draws: int = DRAWS, seed: int = SEED
) -> list[Component]:
    """Return the components with their generalized confidence intervals.

    :param squares: mean squares by :func:`compute_mean_squares`.
    :param draws: number of random draws.
    :param seed: seed of the draws.
    :returns: in the order of :data:`LEVELS`, then :data:`NEW_CLUSTER`.
    """
    source = seeded_random.build_generator(seed)
    drawn_variances = []
    for _ in range(draws):
        drawn_squares = [
            MeanSquare(
                # A chi-square variable is a gamma variable.
                square.value
                * square.degrees
                / source.gammavariate(square.degrees / 2, 2),
                square.degrees,
                square.copies,
            )
            for square in squares
        ]
        drawn_variances.append(split_variance(drawn_squares))
    degrees = [*(square.degrees for square in squares), None]
    components = []
    for index, variance in enumerate(split_variance(squares)):
        ordered = sorted(variances[index] for variances in drawn_variances)
        low, high = (
            ordered[min(draws - 1, round(draws * share))]
            for share in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
        )
        components.append(
            Component(
                (*LEVELS, NEW_CLUSTER)[index],
                _to_percent(variance),
                _to_percent(low),
                _to_percent(high),
                degrees[index],
            )
        )
    return components


def _to_percent(variance: float) -> float:
    return 100 * math.sqrt(max(0.0, variance))


def describe_stacks(components: Sequence[Component]) -> str:
    """Return whether the component of the stacks is below the limit."""
    stacks = components[LEVELS.index('stacks')]
    is_below = stacks.high < LIMIT_PERCENT
    return (
        "The stack's own component is "
        f'{"" if is_below else "not shown to be "}below {LIMIT_PERCENT:g} %: '
        f'the upper limit of its 90 % interval is {stacks.high:.2f} %.'
    )


def format_components(components: Iterable[Component]) -> str:
    """Return the components as a table."""
    lines = [f'{"between":24}{"sd %":>8}{"90 % interval":>18}{"degrees":>9}']
    for component in components:
        interval = f'{component.low:.2f} to {component.high:.2f}'
        lines.append(
            f'{component.name:24}{component.percent:8.2f}{interval:>18}'
            f'{"" if component.degrees is None else component.degrees:>9}'
        )
    return '\n'.join(lines)


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
    experiment: Experiment, design: Design, block: int, stack: int
) -> None:
    """Execute the missing runs of a stack, and delete it."""
    path = get_path(experiment.directory, block)
    name = f'{experiment.name}-b{block}-s{stack}'
    if find_stack(load_runs(path), stack, design) is None:
        with experiment.open_cluster(name) as (cluster, workload):
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
    fresh_clusters.check_plan(
        args.directory,
        {
            'configuration': args.configuration.name,
            'size_bytes': args.size,
            **asdict(design),
        },
    )
    if not args.report:
        print_plan(args.directory, design, args.size)
        blocks = range(1, design.blocks + 1)
        with fresh_clusters.started(args) as experiment:
            for block in [args.block] if args.block else blocks:
                for stack in range(1, design.stacks + 1):
                    run_stack(experiment, design, block, stack)
    print_result(args.directory, design)


if __name__ == '__main__':
    sys.exit(fresh_clusters.execute(main))
