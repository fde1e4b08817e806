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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hvstack import errors
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL, parse_target
from hvstack.results.run_id import RunId


@dataclass(frozen=True)
class Step:
    """Run of a sweep.

    :param configuration: full name; ``bare-metal`` for a baseline run.
    :param index: index of the run within its configuration, from 0.
    :param size_bytes: size of the data in bytes.
    """

    configuration: str
    index: int
    size_bytes: int

    def run_id(self, sweep: str) -> RunId:
        """Return the identity of the run in a sweep."""
        return RunId(sweep, parse_target(self.configuration), self.index)

    @property
    def label(self) -> str:
        """Short name of the configuration as human-readable text."""
        if self.configuration == BARE_METAL:
            return 'bare metal'
        return parse(self.configuration).label


def build_workload(
    configuration: str, first_index: int, sizes: Sequence[int]
) -> list[Step]:
    """Return the runs of a workload, which share a cluster.

    :param configuration: full name, label, or ``bare-metal``.
    :param first_index: index of the first run.
    :param sizes: size of the data of each run in bytes.
    :raises hvstack.errors.InputError: the name is not valid.
    """
    name = configuration
    if name != BARE_METAL:
        name = parse(name).name
    return [
        Step(name, first_index + index, size)
        for index, size in enumerate(sizes)
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


def select_next(done_counts: Mapping[str, int], sweep: str) -> tuple[str, int]:
    """Return the next configuration of a sweep and its pass.

    :param done_counts: number of clusters so far of each configuration that
        needs another one.
    :param sweep: sweep ID, which determines the order in a pass.
    """
    number = min(done_counts.values())
    names = [name for name, count in done_counts.items() if count == number]

    def order(name: str) -> bytes:
        text = f'{sweep}:{number}:{name}'
        return hashlib.sha256(text.encode()).digest()

    return min(names, key=order), number


def build_quick_workloads(
    configurations: Sequence[str], runs: int, size_bytes: int
) -> list[list[Step]]:
    """Return the workloads of ``rally-tasks/quick.yaml``, in order.

    The task has the same order in each sweep: each pass begins with the next
    configuration of the list. Another baseline run is the last run, so that a
    drift affects both sides. It is repeated with twice the data: the time that
    does not grow is start-up time.

    :param configurations: names of the configurations.
    :param runs: number of passes, each with a run of every configuration.
    :param size_bytes: size of the data in bytes.
    :raises hvstack.errors.InputError: no configuration is given, or the
        number of runs is less than 1.
    """
    if not configurations or runs < 1:
        raise errors.InputError(
            'a sweep needs one configuration and one run at least'
        )
    count = len(configurations)
    between = count_between_baselines(count)
    plan = []
    baselines = 0
    for cluster in range(runs * count):
        number, position = divmod(cluster, count)
        if cluster % between == 0:
            plan.append(build_workload(BARE_METAL, baselines, [size_bytes]))
            baselines += 1
        configuration = configurations[(position + number) % count]
        plan.append(build_workload(configuration, number, [size_bytes]))
    plan.append(
        build_workload(BARE_METAL, baselines, [size_bytes, 2 * size_bytes])
    )
    return plan
