# SPDX-License-Identifier: Apache-2.0
"""What a run sorts, and how it is cut."""

import re
from dataclasses import dataclass

from hvstack import errors
from hvstack.hadoop import sizing
from hvstack.results.benchmark import RECORD_BYTES

MIB = 1024 * 1024
#: An exabyte: no cluster sorts more.
_MAX_BYTES = 10**18
#: Largest HDFS block: vsphere6 "Parameter Tuning" and vsan Table 3.
LARGEST_BLOCK_MIB = 256
#: Smallest part of a data set that is worth a task of its own: with less
#: than HDFS' usual block of a small worker the start of its JVM is what is
#: measured.
MIN_TASK_MIB = 64
#: Decimal, as TPCx-HS counts its scale factors.
_UNITS = {'': 1, 'B': 1, 'KB': 10**3, 'MB': 10**6, 'GB': 10**9, 'TB': 10**12}
#: Room for intermediate data, as a part of the data set.
_INTERMEDIATE = 0.5


@dataclass(frozen=True)
class Workload:
    """What a run sorts, and how it is cut.

    :param size_bytes: of the data set, a multiple of 100 (one record).
    :param replication: of input and output.
    :param maps: map tasks of HSGen, and files of the input.
    :param reduces: reduce tasks of HSSort, and files of the output.
    :param one_jvm: a job's tasks run in its ApplicationMaster's JVM, if they
        are few: on emulated CPUs each JVM takes minutes to start.
    :raises hvstack.errors.InputError: such a data set cannot be made.
    """

    size_bytes: int
    replication: int
    maps: int
    reduces: int
    one_jvm: bool = False

    def __post_init__(self) -> None:
        """Refuse what no run can sort."""
        if self.size_bytes < RECORD_BYTES or self.size_bytes % RECORD_BYTES:
            raise errors.InputError(
                f'data of {self.size_bytes} bytes: take a multiple of '
                f'{RECORD_BYTES}, the size of a record'
            )
        for name in ('replication', 'maps', 'reduces'):
            if getattr(self, name) < 1:
                raise errors.InputError(f"'{name}' must be 1 or more")

    @property
    def records(self) -> int:
        """How many records the data set has."""
        return self.size_bytes // RECORD_BYTES

    @property
    def block_bytes(self) -> int:
        """HDFS' block size for input and output.

        256 MiB, or as much as makes each file of a smaller data set one
        block: HSSort then has as many map tasks as HSGen.
        """
        parts = max(1, min(self.maps, self.reduces))
        whole = -(-self.size_bytes // parts)
        # Sampled partitions of the output differ in size by some percent.
        needed = -(-int(whole * 1.1) // MIB)
        return min(LARGEST_BLOCK_MIB, max(1, needed)) * MIB

    @property
    def needed_bytes(self) -> float:
        """Room in HDFS for input, output and intermediate data."""
        return (2 * self.replication + _INTERMEDIATE) * self.size_bytes


def parse_size(text: str) -> int:
    """Return the bytes that a size such as ``500MB`` or ``1GB`` means.

    :raises hvstack.errors.InputError: it is none, or no whole records.
    """
    match = re.fullmatch(
        r'([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([KMGT]?B|)',
        text.strip().upper(),
    )
    value = float(match[1]) * _UNITS[match[2]] if match else 0
    if not RECORD_BYTES <= value <= _MAX_BYTES or value % RECORD_BYTES:
        raise errors.InputError(
            f"'{text[:60]}' is no size of data: give one such as 500MB, a "
            f'multiple of {RECORD_BYTES} bytes'
        )
    return int(value)


def count_tasks(
    size_bytes: int,
    containers: int,
    hosts: int,
    tuning: str = sizing.DEFAULT,
) -> int:
    """Return how many maps, and reduces, sort so much data.

    vsphere6 "Parameter Tuning": all of a phase's tasks in one wave. One
    container is the ApplicationMaster's, one stays free for reduces that
    start before the last map has ended. Of a small data set each task has
    64 MiB at least, and each host as many tasks as the others.

    :param size_bytes: of the data set.
    :param containers: of the whole cluster.
    :param hosts: worker hosts.
    :param tuning: profile of its settings.
    """
    each = size_bytes // (hosts * MIN_TASK_MIB * MIB)
    return min(sizing.count_tasks(containers, tuning), hosts * max(1, each))
