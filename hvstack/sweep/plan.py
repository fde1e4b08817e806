# SPDX-License-Identifier: Apache-2.0
"""The plan of a sweep: which runs, in which order."""

from collections.abc import Sequence
from dataclasses import dataclass

from hvstack import errors
from hvstack.model.configuration import parse
from hvstack.results.record import BARE_METAL


@dataclass(frozen=True)
class Step:
    """One run of a sweep.

    :param configuration: full name; ``bare-metal`` for a baseline run.
    :param index: which run of its configuration, from 0.
    :param size_bytes: of the data.
    """

    configuration: str
    index: int
    size_bytes: int

    @property
    def kind(self) -> str:
        """The kind of record that it leaves."""
        bare = self.configuration == BARE_METAL
        return 'baseline' if bare else 'configuration'

    @property
    def label(self) -> str:
        """Short words for a person."""
        if self.configuration == BARE_METAL:
            return 'bare metal'
        return parse(self.configuration).label


def build_workload(
    configuration: str, first_index: int, sizes: Sequence[int]
) -> list[Step]:
    """Return the runs of one workload, all on the same cluster.

    :param configuration: full name, label, or ``bare-metal``.
    :param first_index: of the first run.
    :param sizes: bytes of each run.
    :raises hvstack.errors.InputError: the name makes no sense.
    """
    name = configuration
    if name != BARE_METAL:
        name = parse(name).name
    return [
        Step(name, first_index + number, size)
        for number, size in enumerate(sizes)
    ]


def build_quick_workloads(
    configurations: Sequence[str], runs: int, size_bytes: int
) -> list[list[Step]]:
    """Return the workloads of ``rally-tasks/quick.yaml``, in order.

    One baseline run before each configuration and one at the end, so that a
    drift of the machine spreads over both sides. The last one is repeated
    with twice the data: what does not grow with it is start-up, not work.

    :raises hvstack.errors.InputError: no configuration, or fewer than one
        run.
    """
    if not configurations or runs < 1:
        raise errors.InputError(
            'a sweep needs one configuration and one run at least'
        )
    plan = []
    for number, configuration in enumerate(configurations):
        plan.append(build_workload(BARE_METAL, number, [size_bytes]))
        plan.append(build_workload(configuration, 0, [size_bytes] * runs))
    last = len(configurations)
    plan.append(build_workload(BARE_METAL, last, [size_bytes, 2 * size_bytes]))
    return plan
