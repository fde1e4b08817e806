# SPDX-License-Identifier: Apache-2.0
"""Set what a host's Open vSwitch loses or has no option for.

Buffers: the userspace datapath of Open vSwitch receives from each port by an
AF_PACKET socket with the kernel's default buffer of 212,992 bytes. With TSO a
packet has up to 64 KB, so two or three packets fill the buffer, and the
kernel drops the next ones: between busy guests more than 10 % of all segments
were sent again. Open vSwitch has no option for the size, and a network
namespace cannot change ``net.core.rmem_default``. This program duplicates the
sockets of ovs-vswitchd with pidfd_getfd(2) and sets SO_RCVBUFFORCE of
socket(7) on them. It repeats this, because each new port has a new socket.

Tunnels: the userspace datapath encapsulates a packet only if the route to the
other host leads through the interface of a bridge of its own ("Userspace
Tunneling" in the documentation of Open vSwitch). ovs-vswitchd creates a new
interface whenever it starts. This program gives it its address.

Each lab host runs this file with the Python of the services: it must not
import anything else of hvstack.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

#: Size of each buffer in bytes. The kernel reserves no memory for it; the
#: kernel doubles the number for its own structures (socket(7)).
BUFFER_BYTES = 16 * 2**20
PID_FILE = Path('/run/openvswitch/ovs-vswitchd.pid')
#: Bridge that the tunnels of the host end on.
BRIDGE = 'br-tun'
_INTERFACES = Path('/sys/class/net')
#: Seconds between two searches for new sockets and interfaces.
_INTERVAL = 0.5
#: The number of the system call; it is the same on all architectures.
_PIDFD_GETFD = 438
_SO_RCVBUFFORCE = 33
_SO_DOMAIN = 39


def check_kernel() -> None:
    """Check that a socket of another process can be duplicated.

    :raises OSError: the kernel is older than Linux 5.6, or a container's
        filter forbids the system call.
    """
    descriptor = os.open('/dev/null', os.O_RDONLY)
    try:
        os.close(_duplicate(os.getpid(), descriptor))
    finally:
        os.close(descriptor)


def _duplicate(pid: int, descriptor: int) -> int:
    """Return a duplicate of another process' file descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        duplicate = libc.syscall(_PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)
    if duplicate < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(duplicate)


def list_descriptors(pid: int) -> dict[str, int]:
    """Return a process' sockets: descriptors by the socket's identity."""
    descriptors = {}
    for path in Path(f'/proc/{pid}/fd').iterdir():
        try:
            target = str(path.readlink())
        except FileNotFoundError:
            continue
        if target.startswith('socket:'):
            descriptors[target] = int(path.name)
    return descriptors


def open_packet_sockets(
    pid: int, checked: set[str]
) -> Iterator[tuple[str, socket.socket]]:
    """Yield identity and a duplicate of each AF_PACKET socket.

    :param checked: identities of sockets to leave out; those of other families
        are added.
    """
    for identity, descriptor in list_descriptors(pid).items():
        if identity in checked:
            continue
        try:
            duplicate = _duplicate(pid, descriptor)
        except OSError:
            # The port was deleted in between.
            continue
        with socket.socket(fileno=duplicate) as connection:
            domain = connection.getsockopt(socket.SOL_SOCKET, _SO_DOMAIN)
            if domain == socket.AF_PACKET:
                yield identity, connection
            else:
                checked.add(identity)


def enlarge(pid: int, checked: set[str]) -> None:
    """Enlarge the buffers of new sockets.

    :param checked: identities of the sockets that need nothing any more.
    :raises OSError: the process has ended.
    """
    for identity, connection in open_packet_sockets(pid, checked):
        connection.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
        checked.add(identity)


def read_sizes(pid: int) -> list[int]:
    """Return the buffer of each AF_PACKET socket of a process in bytes."""
    return [
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
        for _, connection in open_packet_sockets(pid, set())
    ]


def read_interface() -> int:
    """Return the index of the interface of the tunnels' bridge; 0 for none."""
    try:
        return int((_INTERFACES / BRIDGE / 'ifindex').read_text('ascii'))
    except OSError:
        return 0


def assign_address(address: str) -> bool:
    """Give the interface of the tunnels' bridge its address.

    :param address: address with the length of its prefix.
    :returns: False if the interface was deleted in between.
    """
    commands = (
        ('ip', 'address', 'replace', address, 'dev', BRIDGE),
        ('ip', 'link', 'set', BRIDGE, 'up'),
    )
    return all(
        subprocess.run(argv, check=False, timeout=10).returncode == 0
        for argv in commands
    )


def _read_pid() -> int:
    return int(PID_FILE.read_text(encoding='ascii'))


def main() -> None:
    """Set up the switch until the host ends; 'show' prints its buffers.

    The argument is the address of the tunnels.
    """
    if sys.argv[1:] == ['show']:
        print(json.dumps(read_sizes(_read_pid())))
        return
    (address,) = sys.argv[1:]
    checked: set[str] = set()
    last_pid = last_interface = 0
    while True:
        interface = read_interface()
        if interface != last_interface and (
            not interface or assign_address(address)
        ):
            last_interface = interface
        try:
            pid = _read_pid()
            if pid != last_pid:
                checked.clear()
                last_pid = pid
            enlarge(pid, checked)
        except (OSError, ValueError):
            # ovs-vswitchd is being started.
            last_pid = 0
        time.sleep(_INTERVAL)


if __name__ == '__main__':
    main()
