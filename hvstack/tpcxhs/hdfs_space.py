# SPDX-License-Identifier: Apache-2.0
"""Space that a run needs in HDFS, and the disks of a cluster."""

from hvstack import errors
from hvstack.hadoop.hdfs_heaps import HDFSCapacity
from hvstack.nouns import format_noun
from hvstack.tpcxhs.workload import Workload


def check_disks(workload: Workload, capacity: HDFSCapacity | None) -> None:
    """Check that the disks of a cluster can hold a data set.

    File systems and HDFS leave some of this space free, so that a data set
    which passes may still be too large for HDFS itself.

    :param workload: workload of the run.
    :param capacity: disks of the cluster; None if their size is unknown.
    :raises hvstack.errors.InputError: the disks are too small.
    """
    if capacity is None or workload.type.is_on_nodes:
        return
    if workload.needed_bytes > capacity.total_bytes:
        raise errors.InputError(
            f'{describe_needs(workload)}, and the disks of '
            f'{capacity.workers} workers have '
            f'{format_gb(capacity.total_bytes)}. Use a smaller size, more '
            'hosts or larger disks.'
        )


def describe_needs(workload: Workload) -> str:
    """Return the first part of an error on the space that a run needs."""
    verb, parts = 'write', format_noun(workload.replication, 'replica')
    if workload.type.sorter:
        verb = 'sort'
        parts = (
            f'{parts} of the input, {workload.output_copies} of the output, '
            'and half a replica for the sort'
        )
    return (
        f'Cannot {verb} {format_gb(workload.size_bytes)}: the run needs '
        f'{format_gb(workload.needed_bytes)} in HDFS ({parts})'
    )


def format_gb(size: float) -> str:
    """Return bytes as GB with three significant digits."""
    rounded = float(f'{size / 1e9:.3g}')
    return f'{rounded:.9g} GB'
