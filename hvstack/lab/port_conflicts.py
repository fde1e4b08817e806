# SPDX-License-Identifier: Apache-2.0
"""Finding foreign programs on the ports that the lab needs."""

from dataclasses import dataclass

import psutil

from hvstack import errors
from hvstack.lab import constants, process_cgroup

_WILDCARD_ADDRESSES = ('0.0.0.0', '::')  # noqa: S104 - compared, never bound


@dataclass(frozen=True)
class Listener:
    """A program that listens.

    :param address: local address.
    :param port: TCP port.
    :param pid: process ID, if the kernel reports it.
    :param name: its name.
    """

    address: str
    port: int
    pid: int | None
    name: str


def listeners() -> list[Listener]:
    """Return every TCP listener of this network namespace."""
    tcp_listeners = []
    for entry in psutil.net_connections(kind='tcp'):
        if entry.status != psutil.CONN_LISTEN:
            continue
        tcp_listeners.append(
            Listener(
                entry.laddr.ip, entry.laddr.port, entry.pid, _name(entry.pid)
            )
        )
    return tcp_listeners


def _name(pid: int | None) -> str:
    try:
        return psutil.Process(pid).name() if pid else 'unknown'
    except psutil.Error:
        return 'unknown'


def needed(
    *, ceph: bool = False, lvm: bool = False
) -> dict[tuple[str, int], str]:
    """Return (address, port) of every port of the control plane, by name.

    :param ceph: with Ceph's and Cinder's.
    :param lvm: with Cinder's.
    """
    unused = set(() if ceph else constants.CEPH_PORTS)
    if not ceph and not lvm:
        unused.add(constants.CINDER_PORT)
    return {
        **{
            (constants.MGMT, port): name
            for name, port in constants.PORTS.items()
            if name not in unused
        },
        **{
            ('127.0.0.1', port): name
            for name, port in constants.LOOPBACK_PORTS.items()
        },
    }


def conflicts(
    tcp_listeners: list[Listener],
    lab_pids: set[int],
    needed_ports: dict[tuple[str, int], str],
) -> list[tuple[str, Listener]]:
    """Return (service, listener) of foreign programs on needed ports.

    :param tcp_listeners: programs that listen.
    :param lab_pids: processes of the lab's.
    :param needed_ports: as :func:`needed` gives them.
    """
    foreign_listeners = []
    for (address, port), service in needed_ports.items():
        for listener in tcp_listeners:
            if (
                listener.port == port
                and listener.address in (address, *_WILDCARD_ADDRESSES)
                and listener.pid not in lab_pids
            ):
                foreign_listeners.append((service, listener))
    return foreign_listeners


def check(*, ceph: bool = False, lvm: bool = False) -> None:
    """Refuse to continue if a foreign program has a port that is needed.

    :param ceph: with Ceph's and Cinder's.
    :param lvm: with Cinder's.
    :raises hvstack.errors.BusyError: with its name and pid.
    """
    foreign_listeners = conflicts(
        listeners(), process_cgroup.members(), needed(ceph=ceph, lvm=lvm)
    )
    if foreign_listeners:
        ports = '; '.join(
            f'port {listener.port} for {service} is used by '
            f"'{listener.name}' "
            f'(pid {listener.pid or "unknown"}, {listener.address})'
            for service, listener in foreign_listeners
        )
        raise errors.BusyError(
            f'Cannot start the lab: {ports}. Stop these programs first.'
        )
