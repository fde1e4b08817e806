# SPDX-License-Identifier: Apache-2.0
"""Numbers of tasks that fill the containers of all compared platforms.

If a number of tasks leaves containers free, YARN chooses which workers get
more tasks than others, and runs of the same configuration differ by this
choice alone. With a multiple of the containers of every platform, no choice
remains.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hvstack.hadoop.sizing import NodeSizing, has_whole_waves
from hvstack.tpcxhs import workload

#: Largest number of waves of bare metal: each reduce task reads from each map
#: task, so that the work of a job grows with the square of its tasks.
MAX_WAVES = 4
#: Smallest part of a data set for a task, if more tasks than one wave are
#: needed: the start of a JVM takes as long as the sort of some MB. Sizes of
#: data sets are multiples of MB, too.
MIN_WAVE_TASK_BYTES = 16_000_000
#: Smallest part of a data set for a task of a single wave, which is also the
#: smallest HDFS block.
MIN_SLOT_TASK_MIB = 1


@dataclass(frozen=True)
class PlatformSlots:
    """Containers of a platform: of bare metal or of a configuration.

    :param containers: number of containers of all workers.
    :param slots: number of tasks that run at the same time.
    """

    containers: int
    slots: int

    def is_filled_by(self, tasks: int) -> bool:
        """Return whether tasks fill all containers in whole waves."""
        return tasks % self.slots == 0


def count_slots(sizing: NodeSizing, workers: int) -> PlatformSlots:
    """Return the containers of a cluster of equal workers.

    :param sizing: size of a worker.
    :param workers: number of workers.
    """
    return PlatformSlots(
        sizing.containers * workers, sizing.count_slots(workers)
    )


def count_tasks(
    size_bytes: int,
    platforms: Sequence[PlatformSlots],
    hosts: int,
    tuning: str,
) -> int:
    """Return the number of map tasks, and of reduce tasks, of all platforms.

    With a tuning profile of a paper, it is the number of the paper for the
    first platform.

    :param size_bytes: size of the data set in bytes.
    :param platforms: containers of each platform, bare metal first.
    :param hosts: number of worker hosts.
    :param tuning: tuning profile.
    """
    if not has_whole_waves(tuning):
        return workload.count_tasks(
            size_bytes, platforms[0].containers, hosts, tuning
        )
    first = platforms[0].slots
    max_tasks = size_bytes // (MIN_SLOT_TASK_MIB * workload.MIB)
    if first > max_tasks:
        return min(first, hosts * max(1, max_tasks // hosts))
    wave_tasks = size_bytes // MIN_WAVE_TASK_BYTES
    choices = [
        first * waves
        for waves in range(1, MAX_WAVES + 1)
        if waves == 1 or first * waves <= wave_tasks
    ]
    # The first of several maxima has the fewest waves.
    return max(
        choices,
        key=lambda tasks: sum(
            platform.is_filled_by(tasks) for platform in platforms
        ),
    )
