# SPDX-License-Identifier: Apache-2.0
"""The lab's bridges in the machine's own network namespace."""

import json
import socket
from pathlib import Path
from typing import Any

from hvstack import errors, shell
from hvstack.lab import values

#: Everything of the lab's carries a name with this beginning.
PREFIX = 'hv-'


def ensure() -> None:
    """Make the bridges that are missing, with addresses, up.

    :raises hvstack.errors.Busy: an address of theirs is somebody else's.
    """
    links = {link['ifname']: link for link in _addresses()}
    for name, address in values.BRIDGES.items():
        network = address.rpartition('.')[0] + '.'
        for other, link in links.items():
            for entry in link.get('addr_info', []):
                if other != name and entry['local'].startswith(network):
                    raise errors.Busy(
                        f'the lab needs {network}0/24, but interface '
                        f"'{other}' has {entry['local']}: take that away first"
                    )
    for name, address in values.BRIDGES.items():
        link = links.get(name, {})
        if not link:
            shell.run(['ip', 'link', 'add', name, 'type', 'bridge'])
        held = {
            f'{entry["local"]}/{entry["prefixlen"]}'
            for entry in link.get('addr_info', [])
        }
        if address not in held:
            shell.run(['ip', 'address', 'add', address, 'dev', name])
        if 'UP' not in link.get('flags', []):
            _quiet(name)
            shell.run(['ip', 'link', 'set', name, 'up'])


def _quiet(name: str) -> None:
    # No IPv6 autoconfiguration between guests and the machine.
    setting = Path(f'/proc/sys/net/ipv6/conf/{name}/disable_ipv6')
    if setting.exists():
        setting.write_text('1\n', encoding='utf-8')


def _addresses() -> list[dict[str, Any]]:
    shown = shell.run(['ip', '-json', 'address', 'show']).stdout
    return [link for link in json.loads(shown) if link.get('ifname')]


def up() -> bool:
    """Tell whether all bridges are there."""
    return set(values.BRIDGES) <= {name for _, name in socket.if_nameindex()}


def leftovers() -> list[str]:
    """Return the names of the lab's interfaces that exist.

    Without iproute2, which a machine that never had a lab may not have.
    """
    return sorted(
        name for _, name in socket.if_nameindex() if name.startswith(PREFIX)
    )


def remove() -> None:
    """Remove the bridges, and interfaces of the lab's that were left."""
    for name in leftovers():
        shell.run(['ip', 'link', 'delete', name], check=False)
