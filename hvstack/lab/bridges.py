# SPDX-License-Identifier: Apache-2.0
"""The lab's interfaces in the machine's own network namespace.

Each of them has the lab's ID as its alias (``ip link show``). hvstack uses
and deletes no interface without it, whatever its name is.
"""

import contextlib
import ipaddress
import json
import shutil
from pathlib import Path
from typing import Any

from hvstack import errors, processutils
from hvstack.lab import constants, settings, stages

#: Replaces the table in one transaction; an unknown table cannot be deleted.
_RULES = """
table inet {table}
delete table inet {table}
table inet {table} {{
    chain input {{
        type filter hook input priority filter; policy accept;
        iifname {{ "lo", "hv-mgmt" }} accept
        ip daddr {mgmt} tcp dport {{ {ports} }} accept
        ip daddr {mgmt} meta l4proto {{ tcp, udp }} drop
    }}
{forward}}}
"""
#: Volumes of hosts are for the initiators of hosts only.
_FORWARD_RULES = """    chain forward {{
        type filter hook forward priority filter; policy accept;
        iifname != "hv-mgmt" oifname "hv-mgmt" tcp dport {port} drop
    }}
"""
#: Says that hosts may have local volumes.
LVM_MARK = 'lvm'
_INTERFACES = Path('/sys/class/net')
_RESOLVER = Path('/etc/resolv.conf')


def ensure(untested: bool = False) -> None:
    """Create the bridges that are missing, with addresses, up.

    Their packet filter comes first.

    :param untested: continue without a packet filter where the kernel has
        none.
    :raises hvstack.errors.MissingPrerequisiteError: the kernel has no
        nftables.
    :raises hvstack.errors.BusyError: another interface has a bridge's name, or
        an address of its network, or the machine reaches others through it,
        or reaches the lab hosts through another interface.
    """
    links = {link['ifname']: link for link in _addresses()}
    for name, address in constants.BRIDGES.items():
        if name in links and not is_owned(name):
            raise errors.BusyError(
                f'Cannot create the bridge {name}: another interface has this '
                f"name. Delete it with 'ip link delete {name}' if no program "
                'needs it.'
            )
        network = address.rpartition('.')[0] + '.'
        for other, link in links.items():
            for entry in link.get('addr_info', []):
                if other != name and entry['local'].startswith(network):
                    raise errors.BusyError(
                        'Cannot create the network of the lab: it needs '
                        f"{network}0/24, but interface '{other}' has "
                        f'{entry["local"]}. Remove this address first.'
                    )
        if name not in links:
            _check_hidden(ipaddress.IPv4Interface(address).network)
    _filter(untested)
    for name, address in constants.BRIDGES.items():
        link = links.get(name, {})
        if not link:
            processutils.run(['ip', 'link', 'add', name, 'type', 'bridge'])
            claim(name)
        held = {
            f'{entry["local"]}/{entry["prefixlen"]}'
            for entry in link.get('addr_info', [])
        }
        if address not in held:
            processutils.run(['ip', 'address', 'add', address, 'dev', name])
        if 'UP' not in link.get('flags', []):
            _quiet(name)
            processutils.run(['ip', 'link', 'set', name, 'up'])
        _check_route(name, ipaddress.IPv4Interface(address).network)


def _check_route(name: str, network: ipaddress.IPv4Network) -> None:
    """Refuse routing rules that lead past a bridge.

    Virtual private networks have tables that come before the main one.

    :param name: of the bridge, which is up.
    :param network: network of the bridge.
    :raises hvstack.errors.BusyError: packets to lab hosts leave through
        another interface, or through none.
    """
    output = processutils.run(
        ['ip', '-json', 'route', 'get', str(network[11])], check=False
    ).stdout
    routes = json.loads(output or '[]')
    device = routes[0].get('dev', '') if routes else ''
    # A bridge has no carrier before the first host starts.
    settings_dir = Path('/proc/sys/net/ipv4/conf')
    ignores_bridge = any(
        path.read_text(encoding='utf-8').strip() == '1'
        for key in ('all', name)
        for path in settings_dir.glob(f'{key}/ignore_routes_with_linkdown')
    )
    if device != name and not ignores_bridge:
        way = f"interface '{device}'" if device else 'no interface'
        raise errors.BusyError(
            f'Cannot reach {network} by the bridge {name}: the routing rules '
            f"of the machine use {way} ('ip rule'). Put its main table first "
            f"with 'ip rule add to {network} lookup main priority 100', then "
            'run the command again.'
        )


def _check_hidden(network: ipaddress.IPv4Network) -> None:
    """Refuse what the machine could not reach any more behind a bridge.

    The machine may be in a larger network that contains that of the lab.

    :param network: network of a bridge that does not exist yet.
    :raises hvstack.errors.BusyError: a route, or a name server, is in it.
    """

    def is_in(text: str) -> bool:
        try:
            return ipaddress.IPv4Network(text).subnet_of(network)
        except ValueError:
            return False

    reasons = []
    for target, gateways in _list_routes():
        reasons += [
            f'the route to {target} leads through {gateway}'
            for gateway in gateways
            if is_in(gateway)
        ]
        if is_in(target):
            reasons.append(f'a route to {target} exists')
    with contextlib.suppress(OSError):
        for line in _RESOLVER.read_text('utf-8', 'replace').splitlines():
            columns = line.split()
            if columns[:1] == ['nameserver'] and is_in(''.join(columns[1:2])):
                reasons.append(f'{_RESOLVER} names {columns[1]}')
    if reasons:
        raise errors.BusyError(
            f'Cannot create the network of the lab: it needs {network}, but '
            f'{reasons[0]}. Use a machine whose network does not have these '
            'addresses.'
        )


def _list_routes() -> list[tuple[str, list[str]]]:
    """Return the targets of the machine's routes, and their gateways."""
    output = processutils.run(
        ['ip', '-json', '-4', 'route', 'show', 'table', 'all']
    ).stdout
    return [
        (
            str(route.get('dst')),
            [
                str(hop['gateway'])
                for hop in (route, *route.get('nexthops', ()))
                if 'gateway' in hop
            ],
        )
        for route in json.loads(output or '[]')
        # Others are those of the machine's own addresses.
        if route.get('type') is None
    ]


def _quiet(name: str) -> None:
    # No IPv6 autoconfiguration between guests and the machine.
    setting = Path(f'/proc/sys/net/ipv6/conf/{name}/disable_ipv6')
    if setting.exists():
        setting.write_text('1\n', encoding='utf-8')


def _addresses() -> list[dict[str, Any]]:
    output = processutils.run(['ip', '-json', 'address', 'show']).stdout
    return [link for link in json.loads(output) if link.get('ifname')]


def up() -> bool:
    """Return whether all bridges exist."""
    return all(is_owned(name) for name in constants.BRIDGES)


def is_filtered() -> bool:
    """Return whether the lab's packet filter exists; needs root."""
    lab_id = settings.lab_id()
    if lab_id is None or not shutil.which(
        'nft', path=processutils.search_path()
    ):
        return False
    argv = ['nft', 'list', 'table', 'inet', _table(lab_id)]
    return processutils.run(argv, check=False).returncode == 0


def claim(name: str) -> None:
    """Mark an interface that hvstack has just created.

    :param name: of the interface.
    :raises hvstack.errors.CommandError: it does not exist.
    """
    alias = _alias(settings.ensure_lab_id())
    processutils.run(['ip', 'link', 'set', 'dev', name, 'alias', alias])


def is_owned(name: str) -> bool:
    """Return whether this lab created an interface.

    Without iproute2, which a machine that never had a lab may not have.

    :param name: of the interface.
    """
    lab_id = settings.lab_id()
    try:
        alias = (
            (_INTERFACES / name / 'ifalias')
            .read_text(encoding='utf-8')
            .strip()
        )
    except OSError:
        return False
    return lab_id is not None and alias == _alias(lab_id)


def delete(name: str) -> None:
    """Delete an interface, if this lab created it.

    :param name: of the interface; it may be missing.
    """
    if is_owned(name):
        processutils.run(['ip', 'link', 'delete', 'dev', name], check=False)


def remove() -> None:
    """Delete all interfaces and the packet filter that this lab created."""
    for path in sorted(_INTERFACES.iterdir()):
        delete(path.name)
    lab_id = settings.lab_id()
    if lab_id is not None and shutil.which(
        'nft', path=processutils.search_path()
    ):
        table = _table(lab_id)
        processutils.run(
            ['nft', 'delete', 'table', 'inet', table], check=False
        )


def _filter(untested: bool) -> None:
    """Let only lab hosts and the machine itself reach internal ports.

    Guests route to the management address by the machine's address on the
    provider bridge. OVN's southbound database does not ask for a password.
    """
    # Also while LVM is still to be stopped.
    volumes = settings.has_lvm() or stages.marked(LVM_MARK) is not None
    ports = {constants.PORTS[name] for name in constants.PUBLIC_PORTS}
    table = _table(settings.ensure_lab_id())
    rules = _RULES.format(
        table=table,
        mgmt=constants.MGMT,
        ports=', '.join(str(port) for port in sorted(ports)),
        forward=_FORWARD_RULES.format(port=constants.VOLUME_PORT)
        if volumes
        else '',
    )
    try:
        processutils.run(['nft', '-f', '-'], stdin=rules)
    except errors.CommandError as exc:
        if untested and not volumes:
            return
        raise errors.MissingPrerequisiteError(
            'Cannot filter the ports of the lab (nft): '
            f'{" ".join(exc.tail.split())}. Use a kernel with nf_tables, or '
            "run 'hvstack lab up --untested', where guests reach the "
            "control plane's internal ports."
        ) from exc


def _table(lab_id: str) -> str:
    return f'hvstack_{lab_id.replace("-", "_")}'


def _alias(lab_id: str) -> str:
    return f'hvstack:{lab_id}'
