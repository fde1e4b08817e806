# SPDX-License-Identifier: Apache-2.0
"""What the hosts' CPUs are for: shared, or dedicated to single guests.

Nova reads ``cpu_dedicated_set`` when nova-compute starts, and refuses to
start with another one under running guests: the mode is switched by a command
of the operator's, on hosts without servers.
"""

from collections.abc import Mapping
from typing import Any

from openstack.connection import Connection

from hvstack import errors, shell
from hvstack.cloud import hosts, journal, placement
from hvstack.cloud.connection import refused, scope
from hvstack.progress import Progress

KIND = 'host_mode'
MODES = ('shared', 'dedicated')

_COMMAND_SECONDS = 1800
_READY_SECONDS = 300


def current(conn: Connection, providers: Mapping[str, str]) -> dict[str, str]:
    """Return the mode of hosts by name: those with PCPU are dedicated.

    :param providers: UUID by host name.
    :raises hvstack.errors.CloudError: Placement refused.
    """
    return {
        name: MODES['PCPU' in placement.inventories(conn, uuid)['inventories']]
        for name, uuid in sorted(providers.items())
    }


def switch(
    conn: Connection,
    providers: Mapping[str, str],
    wanted: str,
    command: str,
    progress: Progress | None = None,
) -> bool:
    """Have hosts in a mode; what they were in is in the journal first.

    :param providers: UUID by host name.
    :param wanted: one of :data:`MODES`.
    :param command: a shell's, in which ``{mode}`` stands for the mode.
    :returns: whether anything was changed.
    :raises hvstack.errors.Busy: a host has servers.
    :raises hvstack.errors.HVStackError: the hosts differ, or the command
        does not switch them.
    """
    before = current(conn, providers)
    if set(before.values()) == {wanted}:
        return False
    if len(set(before.values())) > 1:
        raise errors.CloudError(
            'some hosts have dedicated CPUs and others have not '
            f'({_words(before)}): switch all to one mode'
        )
    _unused(conn, providers)
    data = {
        'name': wanted,
        'before': next(iter(before.values())),
        'providers': dict(providers),
        'command': command,
    }
    if progress is not None:
        progress.say(f"switching the hosts' CPUs to {wanted}: {command}")
    journal.note(KIND, data, scope(conn))
    _switch(conn, providers, wanted, command)
    return True


def undo(conn: Connection, data: dict[str, Any]) -> None:
    """Put hosts back into the mode that they were in."""
    known = set(placement.providers(conn).values())
    there = {k: v for k, v in data['providers'].items() if v in known}
    if set(current(conn, there).values()) <= {data['before']}:
        return
    _unused(conn, there)
    _switch(conn, there, data['before'], data['command'])


def _switch(
    conn: Connection, providers: Mapping[str, str], mode: str, command: str
) -> None:
    shell.run(
        ['sh', '-c', command.replace('{mode}', mode)],
        timeout=_COMMAND_SECONDS,
    )

    def ready() -> bool:
        up = {one.name for one in hosts.hypervisors(conn) if one.up}
        found = current(conn, providers)
        return set(found.values()) == {mode} and up >= set(found)

    shell.wait_for(
        ready,
        f"the hosts to be {mode} after '{command}'",
        timeout=_READY_SECONDS,
        interval=2,
        why=lambda: _words(current(conn, providers)),
    )


def _unused(conn: Connection, providers: Mapping[str, str]) -> None:
    """Refuse to switch hosts that have servers."""
    with refused("servers cannot be listed, take an administrator's role"):
        for one in conn.compute.servers(all_projects=True):
            name = one.hypervisor_hostname or one.compute_host
            if name in providers:
                raise errors.Busy(
                    f'{name} has servers (such as {one.name}), so its CPUs '
                    'cannot be switched: delete them, or wait for their end'
                )


def _words(modes: Mapping[str, str]) -> str:
    return ', '.join(f'{name} {mode}' for name, mode in modes.items())
