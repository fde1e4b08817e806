#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of telemetry.

It is the CPU time of a sample, and the difference of pairs of runs with and
without telemetry on bare metal.

.venv/bin/python benchmarks/telemetry.py [PAIRS] [SIZE], as root, on a lab that
is up and has no servers. A second process on the machine spoils it.
"""

import argparse
import sys

from hvstack import conf, shell_scripts
from hvstack.cli.baseline import workload
from hvstack.cluster import bare_metal
from hvstack.cluster.base import Node
from hvstack.progress import Progress
from hvstack.results import stats
from hvstack.tpcxhs import run
from hvstack.tpcxhs.run_samplers import SamplingSpec
from hvstack.tpcxhs.workload import parse_size

#: Goal for the CPU that sampling takes of one core.
GOAL = 0.005
#: Samples that the CPU time of one is the mean of.
_SAMPLES = 200
_TIMED = """
cat >/tmp/hvstack-sampler
sh /tmp/hvstack-sampler 0 {count} {address} >/dev/null
rm /tmp/hvstack-sampler
times
"""


def sample_seconds(node: Node) -> float:
    """Return the CPU seconds of one sample of the shell loop."""
    command = _TIMED.format(count=_SAMPLES, address=node.address)
    script = shell_scripts.load('cgroup-sampler')
    text = node.run(command, stdin=script, timeout=300).stdout
    children = text.splitlines()[-1].split()
    minutes, seconds = zip(
        *(cpu_time.rstrip('s').split('m') for cpu_time in children),
        strict=True,
    )
    total = 60 * sum(map(int, minutes)) + sum(map(float, seconds))
    return total / _SAMPLES


def main() -> int:
    """Measure and print; status 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('pairs', nargs='?', type=int, default=4)
    parser.add_argument('size', nargs='?', type=parse_size, default='500MB')
    args = parser.parse_args()
    pairs, bytes_ = args.pairs, args.size
    interval = conf.load().telemetry.interval or 5.0
    rates: dict[float, list[float]] = {0.0: [], interval: []}
    progress = Progress()
    with bare_metal.BareHosts.from_file(progress=progress) as cluster:
        cost = sample_seconds(cluster.workers[0]) / interval
        print(f'a sample every {interval:g} s: {100 * cost:.2f} % of a core')
        sort_workload = workload(cluster, bytes_, None, None)
        if pairs:
            run.warm_up(cluster, sort_workload)
        for index in range(pairs):
            # Which one comes first alternates, against a drift.
            order = list(rates) if index % 2 else list(rates)[::-1]
            for run_interval in order:
                done = run.run(
                    cluster,
                    sort_workload,
                    progress=progress,
                    sampling=SamplingSpec(run_interval),
                )
                if not done.is_valid:
                    print(done.reason, file=sys.stderr)
                    return 2
                rates[run_interval].append(done.rate)
                print(f'interval {run_interval:g}: {done.total_seconds:.1f} s')
    if pairs:
        spread = stats.pool_variance(list(rates.values()))
        ratio = stats.compute_ratio(rates[interval], rates[0.0], spread)
        print(f'rate with telemetry: {ratio.percent:.1f} % of without', end='')
        if ratio.low is not None:
            print(f' (95 % interval {ratio.low:.1f} to {ratio.high:.1f})')
        print()
    print(f'goal: {100 * GOAL} % of a core')
    return int(cost > GOAL)


if __name__ == '__main__':
    sys.exit(main())
