# SPDX-License-Identifier: Apache-2.0
"""Order of the runs of a sweep."""

from collections.abc import Sequence
from dataclasses import dataclass

from hvstack import errors
from hvstack.model.configuration import parse
from hvstack.results.record import BARE_METAL


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

    @property
    def kind(self) -> str:
        """Kind of the run record."""
        is_baseline = self.configuration == BARE_METAL
        return 'baseline' if is_baseline else 'configuration'

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


def build_quick_workloads(
    configurations: Sequence[str], runs: int, size_bytes: int
) -> list[list[Step]]:
    """Return the workloads of ``rally-tasks/quick.yaml``, in order.

    A baseline run precedes each configuration, and another one is the last
    run, so that a drift affects both sides. The last baseline run is repeated
    with twice the data: the time that does not grow is start-up time.

    :param configurations: names of the configurations.
    :param runs: number of runs of each configuration.
    :param size_bytes: size of the data in bytes.
    :raises hvstack.errors.InputError: no configuration is given, or the
        number of runs is less than 1.
    """
    if not configurations or runs < 1:
        raise errors.InputError(
            'a sweep needs one configuration and one run at least'
        )
    plan = []
    for index, configuration in enumerate(configurations):
        plan.append(build_workload(BARE_METAL, index, [size_bytes]))
        plan.append(build_workload(configuration, 0, [size_bytes] * runs))
    last = len(configurations)
    plan.append(build_workload(BARE_METAL, last, [size_bytes, 2 * size_bytes]))
    return plan
