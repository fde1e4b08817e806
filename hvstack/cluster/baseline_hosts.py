# SPDX-License-Identifier: Apache-2.0
"""Hosts for bare metal: read from the lab's file or an inventory."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hvstack import errors, host_profiles, jsonfile, paths, textfile
from hvstack.cluster import actions, host_inventory
from hvstack.cluster.base import Fact, Node
from hvstack.cluster.command_node import CommandNode
from hvstack.cluster.host_inventory import Host
from hvstack.hadoop import sizing
from hvstack.model.host import HostProfile
from hvstack.model.strict_mapping import Fields

#: Where the lab says how its hosts are entered without Nova.
LAB = paths.STATE / 'lab' / 'baseline.json'
#: 64 TiB: more is a mistyped unit.
_MAX_MIB = 64 * 1024 * 1024
#: Longest argument of a command.
_MAX_ARGUMENT = 65535


_FIELDS = {
    'name': str,
    'role': str,
    'address': str,
    'vcpus': int,
    'memory_mib': int,
    'enter': list,
}
#: Fields that may be missing, with their types.
_OPTIONAL = {
    'lab': bool,
    'cpu_cap': int | float,
    'memory_cap_mib': int,
    'backend': str,
}


def read(path: Path = LAB) -> list[Host]:
    """Read a baseline file, or the inventory of hosts that ssh reaches.

    :param path: the latter ends in .yaml.
    :raises hvstack.errors.InputError: it is missing, or a field is wrong.
    """
    if path.suffix in ('.yaml', '.yml'):
        return _check_roles(path, host_inventory.inventory(path))
    try:
        document = jsonfile.load(path)
    except textfile.MissingFileError as exc:
        raise errors.InputError(
            f'Cannot read the list of hosts ({path}): the file does not '
            "exist. Run 'hvstack lab up', which writes the file for the lab, "
            'or use --hosts with a file for other hosts.'
        ) from exc
    data = document.data
    if not isinstance(data, list):
        raise errors.InputError(
            f'Cannot read the list of hosts ({path}): it is not a list. Write '
            'a list of hosts.'
        )
    hosts = []
    for host_index, item in enumerate(data):
        if not isinstance(item, dict):
            raise errors.InputError(
                f'Cannot read the list of hosts ({path}): host {host_index} '
                'is not a mapping. Write its fields as a mapping.'
            )
        for name, field_type in _FIELDS.items():
            if not isinstance(item.get(name), field_type):
                raise errors.InputError(
                    f"Cannot read the list of hosts ({path}): '{name}' of "
                    f'host {host_index} is not valid. Use a value of type '
                    f'{field_type.__name__}.'
                )
        for name in sorted(set(item) - set(_FIELDS) - set(_OPTIONAL)):
            raise errors.InputError(
                f"{path}: host {host_index} '{name}' is unknown. Delete the "
                'field; hosts outside a lab need an inventory (.yaml), see '
                "'The benchmark' in the user guide."
            )
        for name, types in _OPTIONAL.items():
            if not isinstance(item.get(name), types | None):
                raise errors.InputError(
                    f"Cannot read the list of hosts ({path}): '{name}' of "
                    f'host {host_index} is {item[name]!r:.60}. Correct or '
                    'delete the field.'
                )
        fields = Fields(
            item, document.source_location(), list(item), str(host_index)
        )
        fields.choice('role', ('controller', 'worker'))
        fields.address('address')
        fields.integer('vcpus', 1, 4096)
        fields.integer('memory_mib', 1, _MAX_MIB)
        if fields.has('memory_cap_mib'):
            fields.integer('memory_cap_mib', 1, _MAX_MIB)
        if fields.has('cpu_cap'):
            fields.number('cpu_cap', 0.001, 4096)
        if item.get('backend'):
            fields.identifier('backend')
        for index, argument in enumerate(item['enter']):
            if not isinstance(argument, str) or len(argument) > _MAX_ARGUMENT:
                raise fields.error(
                    f'enter.{index}',
                    f'is not a text. Use at most {_MAX_ARGUMENT} characters',
                )
        if not actions.NAME.fullmatch(item['name']):
            raise errors.InputError(
                f"Cannot read the list of hosts ({path}): 'name' of host "
                f'{host_index} is not a host name. Use letters, digits, - and '
                'dots.'
            )
        hosts.append(_lab_host(item))
    return _check_roles(path, hosts)


def _lab_host(item: dict[str, Any]) -> Host:
    is_lab = item.get('lab', False)
    name = item['name']
    return Host(
        **{field: item[field] for field in _FIELDS if field != 'enter'},
        enter=tuple(item['enter']),
        prepare=tuple(actions.lab_command('prepare', name)) if is_lab else (),
        release=actions.ReleaseLabHost(name) if is_lab else None,
        cpu_cap=item.get('cpu_cap'),
        memory_cap_mib=item.get('memory_cap_mib'),
        backend=item.get('backend', ''),
    )


def _check_roles(path: Path, hosts: list[Host]) -> list[Host]:
    """Return hosts that a cluster can be made of.

    :raises hvstack.errors.InputError: no host has a role, or two one name.
    """
    roles = [host.role for host in hosts]
    if 'controller' not in roles or 'worker' not in roles:
        raise errors.InputError(
            f'Cannot use the hosts ({path}): hvstack needs a host whose '
            "'role' is controller, and a host whose 'role' is worker. Set the "
            'roles.'
        )
    if len({host.name for host in hosts}) < len(hosts):
        raise errors.InputError(
            f"Cannot use the hosts ({path}): two hosts have the same 'name'. "
            'Use a different name for each host.'
        )
    return hosts


def list_lab_hosts(path: Path) -> set[str]:
    """Return the names of the lab hosts in a baseline file.

    :param path: baseline file or inventory; without this file, the set is
        empty.
    :raises hvstack.errors.InputError: the file is not valid.
    """
    if not path.exists():
        return set()
    return {
        host.name
        for host in read(path)
        if isinstance(host.release, actions.ReleaseLabHost)
    }


def lab_machine() -> Node:
    """Return the machine that the lab's hosts share: its kernel and CPUs."""
    return CommandNode('this machine', '127.0.0.1', 'worker', 'this machine')


def default_tuning(host: str) -> str:
    """Return the tuning profile of clusters for which none was chosen.

    :param host: host profile of the workers: its name, or a YAML file.
    """
    try:
        profile = host_profiles.load(host)
    except errors.InputError:
        # A tenant need not have the profile of the hosts.
        return sizing.DEFAULT
    return sizing.LAB if profile.policy.lab else sizing.DEFAULT


def lab_backend(profile: HostProfile) -> str | None:
    """Return the compute backend of the lab's workers.

    Nova's API does not tell kvm from qemu.

    :param profile: host profile of the workers.
    :returns: None where they are not the lab's, or have several.
    :raises hvstack.errors.InputError: the lab's file is wrong.
    """
    if not profile.policy.lab or not os.path.lexists(LAB):
        return None
    backends = {host.backend for host in read(LAB) if host.role == 'worker'}
    if len(backends) != 1:
        return None
    return backends.pop() or None


def list_capped(profile: str) -> list[str]:
    """Return the names of the lab hosts with a CPU cap.

    :param profile: host profile of the workers: its name, or a YAML file.
    :returns: empty for hosts that are not the lab's.
    :raises hvstack.errors.InputError: the profile or the lab's file is wrong.
    """
    if not os.path.lexists(LAB) or not host_profiles.load(profile).policy.lab:
        return []
    return [host.name for host in read(LAB) if host.cpu_cap is not None]


def environment(hosts: Sequence[Host]) -> dict[str, Fact]:
    """Return the facts that only the hosts' owner knows.

    The same for a cluster of guests on these hosts and for bare metal.
    """
    caps = {
        host.name: {'cpu': host.cpu_cap, 'memory_mib': host.memory_cap_mib}
        for host in hosts
        if host.cpu_cap is not None or host.memory_cap_mib is not None
    }
    facts: dict[str, Fact] = {
        'hosts': len(hosts),
        'worker_hosts': sum(host.role == 'worker' for host in hosts),
    }
    if caps:
        facts['caps'] = caps
        facts['scale_model'] = any(
            host.cpu_cap is not None and host.cpu_cap < host.vcpus
            for host in hosts
        )
    return facts
