# SPDX-License-Identifier: Apache-2.0
"""Guests without offloads on tenant networks.

Open vSwitch 3.1 drops packets with offloads of its userspace datapath, which
the lab uses, when it sends them through a tunnel. Servers on a tenant network
therefore need checksums of their own. Where a kernel has the datapath of Open
vSwitch, this is not necessary.
"""

import contextlib
import ipaddress
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.long.other_cloud.state import CIDR, NEW_CIDR, State, say

#: The interface of this machine on the external network.
_BRIDGE = 'hv-prov'
_INTERVAL = 2.0
_NETWORKS = tuple(ipaddress.ip_network(cidr) for cidr in (CIDR, NEW_CIDR))


def _ethtool(interface: str, value: str) -> list[str]:
    """Return the command that sets the offloads of an interface."""
    features = ('tx', 'tso', 'gso')
    settings = [word for name in features for word in (name, value)]
    return ['ethtool', '-K', interface, *settings]


def _list_namespaces() -> set[tuple[int, int]]:
    """Return network namespaces: inode, and the lowest PID in it.

    A restarted guest may have the inode of its former namespace.
    """
    pids: dict[int, int] = {}
    for path in Path('/proc').glob('[0-9]*/ns/net'):
        # Processes end at any time.
        with contextlib.suppress(OSError):
            inode, pid = path.stat().st_ino, int(path.parts[2])
            pids[inode] = min(pid, pids.get(inode, pid))
    with contextlib.suppress(OSError):
        pids.pop(Path('/proc/self/ns/net').stat().st_ino, None)
    return set(pids.items())


def _run_inside(pid: int, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ['nsenter', '--net', f'--target={pid}', *argv],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def _list_addresses(pid: int) -> list[tuple[str, str]]:
    """Return interfaces and addresses of a network namespace."""
    done = _run_inside(pid, 'ip', '-j', '-4', 'address')
    try:
        links = json.loads(done.stdout or '[]')
    except ValueError:
        return []
    return [
        (link['ifname'], address['local'])
        for link in links
        for address in link.get('addr_info', ())
        if link.get('ifname') != 'lo'
    ]


def _disable_new(done: set[tuple[int, int]]) -> None:
    """Turn offloads off in namespaces that have got their addresses.

    :param done: namespaces in which this was done before.
    """
    current = _list_namespaces()
    done.intersection_update(current)
    for namespace in current - done:
        _, pid = namespace
        for interface, address in _list_addresses(pid):
            done.add(namespace)
            if any(
                ipaddress.ip_address(address) in network
                for network in _NETWORKS
            ):
                result = _run_inside(pid, *_ethtool(interface, 'off'))
                if result.returncode:
                    say(f'ethtool for {address}: {result.stderr.strip()}')


def _switch(interface: str, value: str) -> None:
    """Set the offloads of an interface of this machine."""
    done = subprocess.run(
        _ethtool(interface, value),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        say(f'ethtool for {interface}: {done.stderr.strip()}')


@contextlib.contextmanager
def disabled(state: State) -> Iterator[None]:
    """Turn offloads off for all servers on tenant networks in a block."""
    stopped = threading.Event()

    def watch() -> None:
        done: set[tuple[int, int]] = set()
        while not stopped.wait(_INTERVAL):
            with contextlib.suppress(
                OSError, ValueError, subprocess.SubprocessError
            ):
                _disable_new(done)

    if not state.get('bridge'):
        state.note('bridge', _BRIDGE)
        _switch(_BRIDGE, 'off')
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def restore(state: State) -> None:
    """Turn the offloads of this machine on again."""
    if state.get('bridge'):
        _switch(state.get('bridge'), 'on')
        state.note('bridge', '')
