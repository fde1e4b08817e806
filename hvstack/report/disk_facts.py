# SPDX-License-Identifier: Apache-2.0
"""Data disks of the hosts, as a report shows them."""

from collections.abc import Iterable, Mapping

from hvstack.model import host_disks
from hvstack.results.record_data import RunRecord


def format_records(records: Iterable[RunRecord]) -> str:
    """Return the disks that the workers of a host used together.

    :param records: records of configurations and of bare metal.
    :returns: every combination of disks and access once; empty if no record
        has this fact.
    """
    texts: dict[str, None] = {}
    for record in records:
        disks = record.sut.facts.get('host_disks')
        access = record.sut.facts.get('disk_access')
        if isinstance(disks, Mapping):
            text = host_disks.format_disks(
                disks, str(access) if access else None
            )
            texts[text] = None
    return '; '.join(texts)
