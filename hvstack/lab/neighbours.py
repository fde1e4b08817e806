# SPDX-License-Identifier: Apache-2.0
"""What else on the machine can interfere with a lab.

Nothing is changed: firewalls, security modules and other hypervisors belong
to the user.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from hvstack import processutils
from hvstack.lab import constants

_APPARMOR = Path('/sys/kernel/security/apparmor/profiles')
#: Programs of the lab that distributions confine, by part of the profile.
_CONFINED = ('mariadbd', 'mysqld', 'libvirtd', 'haproxy', 'memcached')
#: Programs that run guests or containers of the user.
_HYPERVISORS = ('dockerd', 'libvirtd', 'lxd', 'incusd', 'virtqemud')


@dataclass(frozen=True)
class Neighbour:
    """Something of the user that can interfere with a lab.

    :param subject: what it is.
    :param effect: what it does to a lab.
    :param remedy: command or action that prevents it.
    """

    subject: str
    effect: str
    remedy: str


def examine() -> list[Neighbour]:
    """Return everything that can interfere; needs root to see all of it."""
    return [
        *firewalls(),
        *apparmor(_profiles()),
        *hypervisors(
            {
                process.info['name']
                for process in psutil.process_iter(['name', 'pid'])
                if _is_on_machine(process.info['pid'])
            }
        ),
    ]


def firewalls() -> list[Neighbour]:
    """Return the firewalls that drop a lab's packets; needs root."""
    return [*firewall(_nft_chains(), _bridges_are_filtered())]


def has_rules(hook: str, table: str) -> bool:
    """Tell whether a firewall has rules for all bridges of a lab.

    :param hook: ``input``, ``forward`` or another hook of a base chain.
    :param table: text of the chain's table as ``nft list table`` prints it.
    """
    key = 'oifname ' if hook == 'forward' else ''
    if hook == 'input':
        # Those with 'oif' or 'oifname' are rules for forwarded packets.
        table = '\n'.join(
            line
            for line in table.splitlines()
            if 'iif' in line and 'oif' not in line
        )
    return f'{key}"hv-*"' in table or all(
        f'{key}"{name}"' in table for name in constants.BRIDGES
    )


def firewall(
    chains: list[dict[str, Any]], bridges_filtered: bool
) -> Iterator[Neighbour]:
    """Yield the chains of a firewall that drop a lab's packets.

    :param chains: base chains as ``nft --json list chains`` prints them.
    :param bridges_filtered: whether bridged packets pass through them.
    """
    for chain in chains:
        # Its chains accept by default, and end with a rule that rejects.
        is_firewalld = (chain.get('table'), chain.get('type')) == (
            'firewalld',
            'filter',
        )
        if chain.get('policy') != 'drop' and not is_firewalld:
            continue
        if chain.get('family') == 'ip6':
            # A lab has IPv4 only.
            continue
        trusted = ' '.join(
            f'--add-interface={name}' for name in constants.BRIDGES
        )
        name = ' '.join(str(chain[key]) for key in ('family', 'table', 'name'))
        if chain.get('hook') == 'input':
            allowed = ' && '.join(
                f'ufw allow in on {bridge}' for bridge in constants.BRIDGES
            )
            yield Neighbour(
                f'firewall {name}',
                'drops incoming packets by default: lab hosts may not reach '
                'the control plane',
                f"accept them: 'firewall-cmd --zone=trusted {trusted}'"
                if is_firewalld
                else f'accept them: \'nft insert rule {name} iifname "hv-*" '
                f"accept', or '{allowed}'",
            )
        elif chain.get('hook') == 'forward' and bridges_filtered:
            yield Neighbour(
                f'firewall {name}',
                'drops forwarded packets by default, bridged ones too '
                '(br_netfilter): lab hosts may not reach each other',
                f"accept them: 'firewall-cmd --zone=trusted {trusted}'"
                if is_firewalld
                else f'accept them: \'nft insert rule {name} iifname "hv-*" '
                'oifname "hv-*" accept\'',
            )


def apparmor(profiles: str) -> Iterator[Neighbour]:
    """Yield the AppArmor profiles that confine programs of a lab.

    :param profiles: text of the kernel's list: name and mode by line.
    """
    for line in profiles.splitlines():
        name, _, mode = line.rpartition(' ')
        if mode == '(enforce)' and name.rpartition('/')[2] in _CONFINED:
            yield Neighbour(
                f'AppArmor {name}',
                "confines this program: it may not read the lab's files",
                f"'aa-complain {name}' (package apparmor-utils)",
            )


def hypervisors(names: set[str]) -> Iterator[Neighbour]:
    """Yield the programs of the user that run guests or containers.

    :param names: names of the processes on the machine, without those of lab
        hosts.
    """
    for name in sorted(names & set(_HYPERVISORS)):
        yield Neighbour(
            name,
            'runs on this machine: its guests and containers take CPU time '
            'and memory from lab hosts',
            'stop its guests and containers before figures are measured',
        )


def _is_on_machine(pid: int) -> bool:
    """Tell whether a process is in the machine's own PID namespace."""
    try:
        return (
            Path(f'/proc/{pid}/ns/pid').readlink()
            == Path('/proc/self/ns/pid').readlink()
        )
    except OSError:
        return False


def _nft_chains() -> list[dict[str, Any]]:
    """Return the base chains of tables without rules for the bridges."""
    if not shutil.which('nft', path=processutils.search_path()):
        return []
    result = processutils.run(['nft', '--json', 'list', 'chains'], check=False)
    if result.returncode:
        return []
    entries = json.loads(result.stdout).get('nftables', [])
    chains = [entry['chain'] for entry in entries if 'chain' in entry]
    tables = {
        table: processutils.run(
            ['nft', 'list', 'table', *table], check=False
        ).stdout
        for table in {(chain['family'], chain['table']) for chain in chains}
    }
    return [
        chain
        for chain in chains
        if not has_rules(
            chain.get('hook', ''), tables[chain['family'], chain['table']]
        )
    ]


def _bridges_are_filtered() -> bool:
    setting = Path('/proc/sys/net/bridge/bridge-nf-call-iptables')
    return (
        setting.exists() and setting.read_text(encoding='utf-8').strip() == '1'
    )


def _profiles() -> str:
    try:
        return _APPARMOR.read_text(encoding='utf-8')
    except OSError:
        return ''
