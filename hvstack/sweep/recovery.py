# SPDX-License-Identifier: Apache-2.0
"""Undoing what dead processes left: on clouds, and on bare-metal hosts."""

from collections.abc import Sequence

from openstack.connection import Connection

from hvstack.cloud import undo
from hvstack.cluster import hosts


def recover(conns: Sequence[Connection]) -> list[str]:
    """Give back hosts and undo changes of dead processes.

    :param conns: connections, an administrator's and a tenant's perhaps.
    :returns: a line for each thing that was undone.
    :raises hvstack.errors.HVStackError: some of it could not be undone; the
        next start tries again.
    """
    released_hosts = [f'bare-metal host {name}' for name in hosts.recover()]
    return released_hosts + undo.recover(conns)
