# SPDX-License-Identifier: Apache-2.0
"""Size of the data set of a run, and its division into tasks."""

import re
from dataclasses import dataclass

from hvstack import errors
from hvstack.hadoop import sizing
from hvstack.results.benchmark import RECORD_BYTES
from hvstack.results.workload_types import TESTDFSIO, TPCX_HS, WorkloadType

MIB = 1024 * 1024
#: An exabyte: no cluster sorts more.
_MAX_BYTES = 10**18
#: Largest HDFS block: vsphere6 "Parameter Tuning" and vsan Table 3.
LARGEST_BLOCK_MIB = 256
#: Smallest part of a data set for a task. A smaller part than the HDFS block
#: of a small worker would measure the start of the JVM.
MIN_TASK_MIB = 64
#: Decimal units, as in the scale factors of TPCx-HS.
_UNITS = {'': 1, 'B': 1, 'KB': 10**3, 'MB': 10**6, 'GB': 10**9, 'TB': 10**12}
#: Property of a job whose tasks run in the JVM of its ApplicationMaster.
_UBER = 'mapreduce.job.ubertask.enable'
#: Space for intermediate data, as a fraction of the data set.
_INTERMEDIATE = 0.5


@dataclass(frozen=True)
class Workload:
    """The data set of a run, and the number of tasks.

    :param size_bytes: size of the data set in bytes, a multiple of 100 (the
        size of a data record).
    :param replication: number of replicas of input and output.
    :param maps: number of map tasks of the phase that writes the data set,
        and of its files.
    :param reduces: number of reduce tasks of a sort, and of output files.
    :param one_jvm: whether the tasks of a small job run in the JVM of its
        ApplicationMaster: on emulated CPUs each JVM takes minutes to start.
    :param settings: properties of Hadoop that the jobs set, with their values.
    :param output_replication: number of replicas of the output; None uses
        ``replication``.
    :param type: phases of a run.
    :raises hvstack.errors.InputError: a number is not valid.
    """

    size_bytes: int
    replication: int
    maps: int
    reduces: int
    one_jvm: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    output_replication: int | None = None
    type: WorkloadType = TPCX_HS

    @property
    def is_uber(self) -> bool:
        """Whether tasks may run in the JVM of their ApplicationMaster."""
        return self.one_jvm or (_UBER, 'true') in self.settings

    @property
    def output_copies(self) -> int:
        """Number of replicas of the output."""
        return self.output_replication or self.replication

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.size_bytes < RECORD_BYTES or self.size_bytes % RECORD_BYTES:
            raise errors.InputError(
                f'Cannot create {self.size_bytes} bytes of data: data records '
                f'have {RECORD_BYTES} bytes. Use a multiple of '
                f'{RECORD_BYTES}.'
            )
        for name in ('replication', 'output_copies', 'maps', 'reduces'):
            if getattr(self, name) < 1:
                raise errors.InputError(
                    f"Cannot use {getattr(self, name)} as '{name}' of a "
                    'workload: it is less than 1. Use 1 or more.'
                )
        if self.type is TESTDFSIO and self.file_bytes < 1:
            raise errors.InputError(
                f'Cannot create {self.maps} files of {self.size_bytes} bytes '
                'together: each file needs a byte. Use fewer files or more '
                'data.'
            )

    @property
    def file_bytes(self) -> int:
        """Size of a file of TestDFSIO in bytes.

        All files together may lack a byte for each file.
        """
        return self.size_bytes // self.maps

    @property
    def records(self) -> int:
        """Number of data records."""
        return self.size_bytes // RECORD_BYTES

    @property
    def block_bytes(self) -> int:
        """HDFS block size in bytes for input and output.

        It is 256 MiB, or less for a smaller data set, so that each file is a
        single block and HSSort has as many map tasks as HSGen.
        """
        has_output = bool(self.type.sorter)
        parts = min(self.maps, self.reduces) if has_output else self.maps
        whole = -(-self.size_bytes // parts)
        # Sampled partitions of the output differ in size by a few percent.
        needed = -(-int(whole * 1.1) // MIB)
        return min(LARGEST_BLOCK_MIB, max(1, needed)) * MIB

    def count_splits(self, max_block_bytes: int) -> int:
        """Return the number of map tasks of HSSort: one for each block.

        vsphere6, Table 1: 682 files of 30 TB have 111,848 blocks of 256 MiB.

        :param max_block_bytes: largest block of the tuning profile in bytes.
        """
        block = min(self.block_bytes, max_block_bytes)
        each = -(-self.size_bytes // self.maps)
        return int(self.maps * -(-each // block))

    @property
    def needed_bytes(self) -> float:
        """Bytes in HDFS for input, output and intermediate data."""
        if not self.type.sorter:
            return float(self.replication * self.size_bytes)
        copies = self.replication + self.output_copies
        return (copies + _INTERMEDIATE) * self.size_bytes


def parse_size(text: str) -> int:
    """Return the number of bytes of a size such as ``500MB`` or ``1GB``.

    :param text: number with a unit.
    :raises hvstack.errors.InputError: the text is not a size, or not a
        multiple of the size of a data record.
    """
    match = re.fullmatch(
        r'([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([KMGT]?B|)',
        text.strip().upper(),
    )
    value = float(match[1]) * _UNITS[match[2]] if match else 0
    if not RECORD_BYTES <= value <= _MAX_BYTES or value % RECORD_BYTES:
        raise errors.InputError(
            f"Cannot use '{text[:60]}' as the size of the data: it is not a "
            f'multiple of {RECORD_BYTES} bytes. Use a size such as 500MB.'
        )
    return int(value)


def count_tasks(
    size_bytes: int,
    containers: int,
    hosts: int,
    tuning: str,
) -> int:
    """Return the number of tasks of each type as a paper defines it.

    vsphere6 "Parameter Tuning": all tasks of a phase run at once. With a small
    data set, each task has at least 64 MiB, and each host has the same number
    of tasks.

    :param size_bytes: size of the data set in bytes.
    :param containers: number of containers of the cluster.
    :param hosts: number of worker hosts.
    :param tuning: tuning profile of the cluster.
    """
    each = size_bytes // (hosts * MIN_TASK_MIB * MIB)
    return min(sizing.count_tasks(containers, tuning), hosts * max(1, each))
