# SPDX-License-Identifier: Apache-2.0
"""What is shown of a host."""

from dataclasses import dataclass


@dataclass(frozen=True)
class HostStatus:
    """One line about a host.

    :param name: its name.
    :param state: ``up``, ``off``, ``bare`` (prepared for bare metal), or
        ``starting``.
    :param memory_mib: memory of its agents, PSS, guests not counted.
    :param summary: backend, caps, role, number of guests.
    """

    name: str
    state: str
    memory_mib: float
    summary: str
