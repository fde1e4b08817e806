# SPDX-License-Identifier: Apache-2.0
"""Order of the runs of a sweep.

A sweep goes in passes. In a pass every configuration has one run on a new
cluster, in an order that the ID of the sweep and the pass determine, so that
neither a drift of the machine nor the neighbours in the order affect one
configuration more than another. Bare metal is measured about as often as the
square root of the number of configurations in each pass.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.model.target import BareMetal, Target
from hvstack.results.run_id import RunId


@dataclass(frozen=True)
class Step:
    """Run of a sweep.

    :param target: configuration or bare metal.
    :param index: index of the run within its target, from 0.
    :param size_bytes: size of the data in bytes.
    """

    target: Target
    index: int
    size_bytes: int

    @property
    def configuration(self) -> str:
        """Name of the target in records."""
        return self.target.name

    @property
    def label(self) -> str:
        """Short name of the target as human-readable text."""
        return self.target.label

    def run_id(self, sweep: str) -> RunId:
        """Return the identity of the run in a sweep."""
        return RunId(sweep, self.target, self.index)


def build_workload(
    target: Target, first_index: int, sizes: Sequence[int]
) -> list[Step]:
    """Return the runs of a workload, which share a cluster.

    :param target: configuration or bare metal.
    :param first_index: index of the first run.
    :param sizes: size of the data of each run in bytes.
    """
    return [
        Step(target, first_index + i, size) for i, size in enumerate(sizes)
    ]


def count_between_baselines(configurations: int) -> int:
    """Return the number of clusters between two runs on bare metal.

    Bare metal is compared with every configuration, so it is measured more
    often than each of them: about the square root of their number in a pass,
    as for the control in Dunnett's comparisons.

    :param configurations: number of configurations of the sweep.
    """
    baselines = max(1, round(math.sqrt(configurations)))
    return max(1, round(configurations / baselines))


def count_baselines(clusters: int, configurations: int) -> int:
    """Return the number of runs on bare metal with some clusters.

    The run at the end of the sweep is not counted.

    :param clusters: number of clusters.
    :param configurations: number of configurations of the sweep.
    """
    return math.ceil(clusters / count_between_baselines(configurations))


def insert_baselines(
    workloads: Iterable[list[Step]],
    runs_between: int,
    first_index: int = 0,
    runs_since: float = math.inf,
    runs_per_cluster: int = 1,
) -> list[list[Step]]:
    """Return workloads with runs on bare metal in between.

    :param workloads: workloads of configurations, in order.
    :param runs_between: number of runs of configurations between two runs on
        bare metal.
    :param first_index: index of the next run on bare metal.
    :param runs_since: number of runs since the last run on bare metal;
        infinity if none was measured.
    :param runs_per_cluster: number of runs that bare metal has at a time.
    """
    arranged: list[list[Step]] = []
    for workload in workloads:
        if runs_since >= runs_between:
            size = workload[0].size_bytes
            # The second run of a pair that was interrupted stands alone.
            runs = runs_per_cluster - first_index % runs_per_cluster
            arranged.append(
                build_workload(BareMetal(), first_index, [size] * runs)
            )
            first_index += runs
            runs_since = 0
        arranged.append(workload)
        runs_since += len(workload)
    return arranged


def rank(configuration: Target, count: int, sweep: str) -> tuple[int, bytes]:
    """Return the rank of the next run of a configuration; the least is next.

    :param configuration: configuration that needs another run.
    :param count: its number of runs so far.
    :param sweep: sweep ID, which determines the order in a pass.
    """
    text = f'{sweep}:{count}:{configuration.name}'
    return count, hashlib.sha256(text.encode()).digest()


def build_quick_workloads(
    configurations: Sequence[Configuration], runs: int, size_bytes: int
) -> list[list[Step]]:
    """Return the workloads of ``rally-tasks/quick.yaml``, in order.

    The task has the same order in each sweep: each pass begins with the next
    configuration of the list. Another baseline run is the last run, so that a
    drift affects both sides. It is repeated with half of the data: the time
    that does not shrink is start-up time.

    :param configurations: configurations in order.
    :param runs: number of passes, each with a run of every configuration.
    :param size_bytes: size of the data in bytes.
    :raises hvstack.errors.InputError: no configuration is given, or the
        number of runs is less than 1.
    """
    if not configurations or runs < 1:
        raise errors.InputError(
            f'Cannot create a sweep of {len(configurations)} configurations '
            f'with {runs} runs. Use at least 1 configuration and 1 run.'
        )
    count = len(configurations)
    workloads = [
        build_workload(
            configurations[(position + number) % count], number, [size_bytes]
        )
        for number in range(runs)
        for position in range(count)
    ]
    # TeraGen's records have 100 bytes.
    sizes = [size_bytes, size_bytes // 200 * 100]
    return [
        *insert_baselines(workloads, count_between_baselines(count)),
        build_workload(
            BareMetal(), count_baselines(runs * count, count), sizes
        ),
    ]
