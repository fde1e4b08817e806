# SPDX-License-Identifier: Apache-2.0
"""Page cache of the hosts: whether a run measured disks or memory.

One copy of the data in memory is enough for all reads; vsphere6 chose 30 TB
for 8 TiB of memory for this reason.
"""

import math

from hvstack.results.record_data import RunRecord
from hvstack.results.workload_types import TYPES


def sum_memory_mib(record: RunRecord) -> float:
    """Return the memory of all hosts; 0 if the record does not contain it.

    Hosts of a lab have caps. On other clouds, Placement reports the memory of
    each host, and an inventory that of the hosts of bare metal; the cluster
    can be on a part of these hosts.
    """
    observed = record.observations
    caps = record.sut.caps or observed.caps
    capped = math.fsum(cap.memory_mib or 0 for cap in caps.values())
    if capped:
        return capped
    hosts = record.sut.worker_hosts or observed.worker_hosts
    totals = [
        memory.total
        for inventory in observed.cloud.inventory.values()
        if (memory := inventory.get('MEMORY_MB')) and memory.total
    ]
    if totals:
        count = min(len(totals), hosts or len(totals))
        return math.fsum(totals) / len(totals) * count
    return (observed.host_memory_mib or 0.0) * (hosts or 1)


def fits_page_cache(record: RunRecord) -> bool:
    """Return whether the memory of the hosts can hold the data of a run.

    :returns: False if the record does not contain the memory, or if the
        workload does not use the page cache.
    """
    workload = TYPES.get(record.sut.workload)
    if workload is not None and not workload.uses_page_cache:
        return False
    return record.size_bytes <= sum_memory_mib(record) * 2**20
