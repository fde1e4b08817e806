# SPDX-License-Identifier: Apache-2.0
"""Clean-up after processes that no longer run, on clouds and hosts."""

from collections.abc import Sequence

from openstack.connection import Connection

from hvstack.cloud import undo
from hvstack.cluster import acquired_hosts, cpu_caps, cpu_weights


def recover(conns: Sequence[Connection]) -> list[str]:
    """Release hosts and undo changes of processes that no longer run.

    :param conns: connections as an administrator and as a tenant.
    :returns: a line of text for each undone change.
    :raises hvstack.errors.HVStackError: a change could not be undone; the next
        start tries again.
    """
    released_hosts = [
        f'bare-metal host {name}' for name in acquired_hosts.recover()
    ]
    return (
        cpu_caps.recover()
        + cpu_weights.recover()
        + released_hosts
        + undo.recover(conns)
    )
