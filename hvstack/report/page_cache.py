# SPDX-License-Identifier: Apache-2.0
"""Page cache of the hosts: whether a run measured disks or memory.

One copy of the data in memory is enough for all reads; vsphere6 chose 30 TB
for 8 TiB of memory for this reason.
"""

from hvstack.results.record_data import RunRecord


def sum_memory_mib(record: RunRecord) -> float:
    """Return the memory of all hosts; 0 if the record does not contain it."""
    caps = record.sut.caps or record.observations.caps
    return float(sum(cap.memory_mib or 0 for cap in caps.values()))


def fits_page_cache(record: RunRecord) -> bool:
    """Return whether the memory of the hosts can hold the data of a run.

    :returns: False if the record does not contain the memory.
    """
    return record.size_bytes <= sum_memory_mib(record) * 2**20
