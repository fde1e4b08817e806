# SPDX-License-Identifier: Apache-2.0
"""Finding foreign programs on the ports that the lab needs."""

from dataclasses import dataclass

import psutil

from hvstack import errors
from hvstack.lab import tracking, values

_EVERYWHERE = ('0.0.0.0', '::')  # noqa: S104 - compared, never bound


@dataclass(frozen=True)
class Listener:
    """A program that listens.

    :param address: local address.
    :param port: TCP port.
    :param pid: its process, if the kernel tells.
    :param name: its name.
    """

    address: str
    port: int
    pid: int | None
    name: str


def listeners() -> list[Listener]:
    """Return every TCP listener of this network namespace."""
    found = []
    for entry in psutil.net_connections(kind='tcp'):
        if entry.status != psutil.CONN_LISTEN:
            continue
        found.append(
            Listener(
                entry.laddr.ip, entry.laddr.port, entry.pid, _name(entry.pid)
            )
        )
    return found


def _name(pid: int | None) -> str:
    try:
        return psutil.Process(pid).name() if pid else 'unknown'
    except psutil.Error:
        return 'unknown'


def needed(*, ceph: bool = False) -> dict[tuple[str, int], str]:
    """Return (address, port) of every port of the control plane, by name.

    :param ceph: with Ceph's and Cinder's.
    """
    return {
        **{
            (values.MGMT, port): name
            for name, port in values.PORTS.items()
            if ceph or name not in values.CEPH_PORTS
        },
        **{
            ('127.0.0.1', port): name
            for name, port in values.LOOPBACK_PORTS.items()
        },
    }


def conflicts(
    found: list[Listener],
    ours: set[int],
    wanted: dict[tuple[str, int], str],
) -> list[tuple[str, Listener]]:
    """Return (service, listener) of foreign programs on needed ports.

    :param found: who listens.
    :param ours: processes of the lab's.
    :param wanted: as :func:`needed` gives them.
    """
    taken = []
    for (address, port), service in wanted.items():
        for listener in found:
            if (
                listener.port == port
                and listener.address in (address, *_EVERYWHERE)
                and listener.pid not in ours
            ):
                taken.append((service, listener))
    return taken


def check(*, ceph: bool = False) -> None:
    """Refuse to go on if a foreign program has a port that is needed.

    :param ceph: with Ceph's and Cinder's.
    :raises hvstack.errors.Busy: with its name and pid.
    """
    taken = conflicts(listeners(), tracking.members(), needed(ceph=ceph))
    if taken:
        raise errors.Busy(
            '; '.join(
                f"port {who.port} for {service} is taken by '{who.name}' "
                f'(pid {who.pid or "unknown"}, {who.address})'
                for service, who in taken
            )
            + ': stop it first'
        )
