# SPDX-License-Identifier: Apache-2.0
"""Clean-up after processes that no longer run, on clouds and hosts."""

from collections.abc import Sequence

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import undo
from hvstack.cluster import acquired_hosts, cpu_caps, cpu_weights
from hvstack.progress import Progress


def recover(
    conns: Sequence[Connection], progress: Progress | None = None
) -> list[str]:
    """Release hosts and undo changes of processes that no longer run.

    :param conns: connections as an administrator and as a tenant.
    :param progress: where each undone change is reported at once.
    :returns: a line of text for each undone change.
    :raises hvstack.errors.HVStackError: a change could not be undone; the next
        start tries again. All other changes are undone first.
    """
    released_hosts: list[str] = []
    error: errors.HVStackError | None = None
    try:
        released_hosts = acquired_hosts.recover()
    except errors.HVStackError as exc:
        # A host that does not answer must not keep the cloud as it is.
        error = exc
    lines = (
        cpu_caps.recover()
        + cpu_weights.recover()
        + [f'bare-metal host {name}' for name in released_hosts]
    )
    for line in lines:
        if progress:
            progress.say(f'restored: {line}')
    lines += undo.recover(conns, progress)
    if error:
        raise error
    return lines
