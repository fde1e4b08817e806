# SPDX-License-Identifier: Apache-2.0
"""Phases whose programs run on the workers: fio, stress-ng and iperf3.

The programs are those of a burn-in. Here, all workers run them at the same
time, and the value of a phase is the sum of all: workers that share a host
have together what the host has.
"""

from dataclasses import replace

from hvstack import errors
from hvstack.burn_in import measures
from hvstack.burn_in.measures import Measure
from hvstack.burn_in.runner import BurnIn, BurnInPlan
from hvstack.cluster.base import Cluster
from hvstack.progress import Progress
from hvstack.results.workload_types import FIO, IPERF3, STRESS_NG

#: Measure of each phase.
_MEASURES: dict[str, Measure] = dict(
    zip(
        (*FIO.phases, *STRESS_NG.phases, *IPERF3.phases),
        (
            *(measures.DISK_WRITE, measures.DISK_READ),
            *(measures.MEMORY, measures.NETWORK),
        ),
        strict=True,
    )
)


def measure(
    phase: str, cluster: Cluster, size_bytes: int, progress: Progress
) -> float:
    """Run the program of a phase on all workers, and return the sum.

    :param phase: name of the phase.
    :param cluster: cluster with the workers.
    :param size_bytes: size of the files of fio on all disks together.
    :param progress: where to report.
    :raises hvstack.errors.InputError: a data disk has too little space.
    :raises hvstack.errors.RunFailedError: a value was not measured.
    """
    hosts = len({node.host for node in cluster.workers})
    plan = BurnInPlan(
        measures=(_MEASURES[phase],),
        rounds=1,
        # Each host is in one pair at most, or in none.
        max_pairs=max(1, hosts // 2),
    )
    burn_in = BurnIn(cluster.workers, plan, progress)
    if phase in FIO.phases:
        disks = max(1, burn_in.count_disks())
        burn_in.plan = replace(plan, size_bytes=size_bytes // disks)
    rows = burn_in.prepare()
    burn_in.run_together(rows)
    if not rows:
        raise errors.RunFailedError(
            f'{phase} failed: all workers are on one host. Use another '
            'configuration.'
        )
    for row in rows:
        if row.value is None:
            raise errors.RunFailedError(
                f'{phase} failed ({", ".join(row.subject.nodes)}): '
                f'{row.reason or "no value"}.'
            )
    return sum(row.value or 0.0 for row in rows)
