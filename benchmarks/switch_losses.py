#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the packets that switches drop cost a configuration, in pairs.

A pair has two new clusters, one after the other in random order, with one run
each. During the run of A, the switches of all hosts are as the lab sets them
up, and during the run of B, they are as Open vSwitch starts by itself.

An invocation continues the previous one. The switches get back what the lab
sets up at the end and after Ctrl-C. After SIGKILL, the next invocation with
runs does this, and so does a restart of the lab.

On a lab that is up, with the Python of the virtual environment:

    .venv/bin/python benchmarks/switch_losses.py DIRECTORY --pairs 6
    .venv/bin/python benchmarks/switch_losses.py DIRECTORY --report
"""

import argparse
import functools
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import fresh_clusters
import switch_settings
from fresh_clusters import Experiment
from resampling import SIDES, compare, pair_neighbors

from hvstack import seeded_random, speed
from hvstack.cli import arguments
from hvstack.results import comparability, percentages, telemetry
from hvstack.results.record_data import RunRecord

#: Settings of the switches by side.
SETTINGS = dict(
    zip(SIDES, (switch_settings.LAB, switch_settings.USUAL), strict=True)
)


def order_sides(name: str, pairs: int) -> list[tuple[str, int]]:
    """Return side and index of all clusters, in order.

    :param name: name of the experiment, which determines the order.
    """
    dice = seeded_random.build_generator(name)
    return [
        (side, index)
        for index in range(pairs)
        for side in dice.sample(list(SIDES), 2)
    ]


def load_sides(directory: Path) -> dict[str, list[RunRecord]]:
    """Return the valid records of each side, in order.

    :raises hvstack.errors.NotComparableError: other facts differ, too.
    """
    store = fresh_clusters.open_store(directory)
    name = fresh_clusters.get_name(directory)
    records = {
        side: [
            record
            for record in store.load_records(f'{name}-{side}')
            if record.valid
        ]
        for side in SIDES
    }
    for side in SIDES:
        for record in records[side]:
            for other in records['a'][:1]:
                comparability.require_comparable(record, other)
    return records


def list_pending(directory: Path, pairs: int) -> list[tuple[str, int]]:
    """Return side and index of the clusters without a valid record."""
    records = load_sides(directory)
    return [
        (side, index)
        for side, index in order_sides(
            fresh_clusters.get_name(directory), pairs
        )
        if index >= len(records[side])
    ]


def format_segments(records: Sequence[RunRecord]) -> str:
    """Return how many segments the nodes sent again, and their time-outs."""
    shares = [
        share
        for record in records
        for share in telemetry.compute_retransmitted_shares(record).values()
    ]
    timeouts = [
        sum(
            node.network.get('retransmission_timeouts', 0)
            for node in record.observations.telemetry.nodes.values()
        )
        for record in records
        if record.observations.telemetry is not None
    ]
    if not shares:
        return 'segments sent again: not known without telemetry'
    return (
        f'segments sent again: {100 * statistics.mean(shares):.2f} % '
        f'(nodes {100 * min(shares):.2f} to {100 * max(shares):.2f}), '
        f'time-outs in a run: {min(timeouts)} to {max(timeouts)}'
    )


def print_result(directory: Path) -> None:
    """Print seconds, segments, and the rate of A in percent of that of B."""
    records = load_sides(directory)
    for side in SIDES:
        seconds = [record.total_seconds for record in records[side]]
        print(
            f'{side.upper()} ({SETTINGS[side]}): {len(seconds)} runs'
            + (f', mean {statistics.mean(seconds):.1f} s' if seconds else '')
        )
        print('  ' + format_segments(records[side]))
    if min(map(len, records.values())) < 2:
        return
    side_a, side_b = (
        percentages.list_clusters(
            {side: records[side]}, get_pass=lambda run: run.index
        )
        for side in SIDES
    )
    percent = compare(pair_neighbors(side_b, side_a))
    print(
        f'A has {percent.percent:.1f} % of the rate of B ({percent.low:.1f} '
        f'to {percent.high:.1f}; {percent.clusters:g} pairs)'
    )


def run_pairs(experiment: Experiment, pairs: int) -> None:
    """Execute the missing runs."""
    fresh_clusters.delete_remains(experiment.name)
    with switch_settings.restored():
        for side, index in list_pending(experiment.directory, pairs):
            record = fresh_clusters.measure_new_cluster(
                experiment,
                f'{experiment.name}-{side}{index}',
                f'{experiment.name}-{side}',
                functools.partial(switch_settings.change, SETTINGS[side]),
            )
            print(f'{side.upper()}: {format_segments([record])}', flush=True)


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = fresh_clusters.create_parser(__doc__)
    parser.add_argument(
        '--pairs',
        type=arguments.count,
        default=6,
        metavar='N',
        help='Number of pairs of clusters (default: 6).',
    )
    parser.add_argument(
        '--report',
        action='store_true',
        help='Print the result of the stored runs, and run nothing.',
    )
    return parser.parse_args()


def main() -> None:
    """Execute the missing runs, and print the result."""
    args = parse_arguments()
    pending = list_pending(args.directory, args.pairs)
    each = fresh_clusters.CLUSTER_MINUTES + (
        fresh_clusters.estimate_run_minutes(args.size)
    )
    if not args.report:
        print(
            f'{len(pending)} of {2 * args.pairs} runs remain, about '
            f'{len(pending) * each * speed.factor():.0f} minutes (assumed, '
            'not measured)'
        )
    if args.dry_run:
        return
    fresh_clusters.check_plan(
        args.directory,
        {
            'configuration': args.configuration.name,
            'size_bytes': args.size,
        },
    )
    if not args.report:
        with fresh_clusters.started(args) as experiment:
            run_pairs(experiment, args.pairs)
    print_result(args.directory)


if __name__ == '__main__':
    sys.exit(fresh_clusters.execute(main))
