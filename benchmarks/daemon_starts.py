#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long Hadoop's daemons take to start, with and without class data.

Restarts all daemons of a cluster of the lab, which has no jobs, in pairs: once
with the archive of the image, and once without it, in random order. Run it
with the Python of the virtual environment:

    hvstack cluster create starts --configuration i1
    .venv/bin/python benchmarks/daemon_starts.py starts --rounds 8
    hvstack cluster delete starts
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

from pairs import open_cluster, print_ratios

from hvstack import errors, processutils, seeded_random
from hvstack.cloud import connection
from hvstack.cluster.base import Node
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemon_http, daemons
from hvstack.lab import clouds_yaml

ARCHIVE = '/opt/hadoop/hadoop.jsa'
#: What is measured of each start: seconds until HDFS and YARN see all workers,
#: CPU seconds of all daemons, their proportional share of memory in MiB.
NAMES = ('seconds', 'CPU seconds', 'memory, MiB')
_MOVE = {
    'with': f'[ -e {ARCHIVE} ] || mv {ARCHIVE}.off {ARCHIVE}',
    'without': f'[ ! -e {ARCHIVE} ] || mv {ARCHIVE} {ARCHIVE}.off',
}
_CPU = """
cat /proc/[0-9]*/stat 2>/dev/null | awk '/\\(java\\)/ {s += $14 + $15}
    END {print s / 100}'
"""
_MEMORY = """
for pid in $(pgrep java); do
    awk '/^Pss:/ {print $2}' /proc/$pid/smaps_rollup
done | awk '{s += $1} END {print s / 1024}'
"""


def run_all(cluster: StackCluster, command: str) -> list[str]:
    """Run a command on all nodes at once, and return the output of each."""
    nodes: list[Node] = [cluster.gateway, *cluster.workers]
    with ThreadPoolExecutor(len(nodes)) as pool:
        return list(
            pool.map(lambda node: node.run(command, timeout=120).stdout, nodes)
        )


def is_ready(cluster: StackCluster) -> bool:
    """Return whether HDFS and YARN see all workers."""
    count = len(cluster.workers)
    try:
        state = daemon_http.get_namenode_bean(
            cluster.gateway, 'FSNamesystemState'
        )
        metrics = daemon_http.get_json(
            cluster.manager, 'resourcemanager', '/ws/v1/cluster/metrics'
        )['clusterMetrics']
    except errors.HVStackError:
        return False
    counts = (state['NumLiveDataNodes'], metrics['activeNodes'])
    return all(number == count for number in counts)


def measure(cluster: StackCluster, mode: str) -> tuple[float, ...]:
    """Start all daemons, with or without the archive."""
    run_all(cluster, f'{daemons.NODE} stop')
    run_all(cluster, _MOVE[mode])
    begin = time.monotonic()
    run_all(cluster, f'{daemons.NODE} start')
    processutils.wait_for(
        lambda: is_ready(cluster), 'all workers', timeout=600, interval=0.3
    )
    seconds = time.monotonic() - begin
    # Daemons that nothing waits for, such as the JobHistory server.
    time.sleep(5)
    return (
        seconds,
        *(
            sum(float(text) for text in run_all(cluster, program))
            for program in (_CPU, _MEMORY)
        ),
    )


def main() -> None:
    """Restart the daemons in pairs, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('name', help='name of the cluster')
    parser.add_argument('--rounds', type=int, default=8, help='pairs')
    args = parser.parse_args()
    conn = connection.connect(clouds_yaml.ADMIN_CLOUD)
    dice = seeded_random.build_generator(1)
    rounds: list[dict[str, tuple[float, ...]]] = []
    with open_cluster(conn, args.name) as cluster:
        try:
            for _ in range(args.rounds):
                modes = dice.sample(list(_MOVE), 2)
                rounds.append({mode: measure(cluster, mode) for mode in modes})
                print(rounds[-1], flush=True)
        finally:
            run_all(cluster, _MOVE['with'])
    print_ratios(rounds, ('with', 'without'), NAMES)


if __name__ == '__main__':
    main()
