# SPDX-License-Identifier: Apache-2.0
"""What the hosts' CPUs are for: shared, or dedicated to single guests.

Nova reads ``cpu_dedicated_set`` when nova-compute starts, and refuses to
start with another one under running guests: the mode is switched by a command
of the operator's, on hosts without servers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from openstack.connection import Connection

from hvstack import errors, processutils
from hvstack.cloud import (
    allocation_ratios,
    hypervisors,
    journal,
    lease,
    placement,
    servers,
)
from hvstack.cloud.connection import scope
from hvstack.progress import Progress
from hvstack.results.typed_json import JsonObject

KIND = 'host_mode'
MODES = ('shared', 'dedicated')

_COMMAND_SECONDS = 1800
_READY_SECONDS = 300


@dataclass(frozen=True)
class _ModeChange:
    """Data of an entry of the journal.

    :param before: mode of the hosts before the change.
    :param providers: UUID by host name.
    :param command: command that switches the hosts.
    :param vcpu_ratios: allocation ratio of VCPU by host name before the
        change, of the hosts that had VCPU; empty in entries of old releases.
    """

    before: str
    providers: Mapping[str, str]
    command: str
    vcpu_ratios: Mapping[str, float] = field(default_factory=dict)


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
    mode: str,
    command: str,
    progress: Progress | None = None,
) -> bool:
    """Have hosts in a mode; what they were in is in the journal first.

    :param providers: UUID by host name.
    :param mode: one of :data:`MODES`.
    :param command: a shell's, in which ``{mode}`` stands for the mode.
    :returns: whether anything was changed.
    :raises hvstack.errors.BusyError: a host has servers, or this process has
        lost its lease.
    :raises hvstack.errors.HVStackError: the hosts differ, or the command
        does not switch them.
    """
    before = current(conn, providers)
    if set(before.values()) == {mode}:
        return False
    if len(set(before.values())) > 1:
        raise errors.CloudError(
            'Cannot switch the hosts to another CPU mode: some hosts have '
            f'dedicated CPUs, and others do not ({_format_modes(before)}). '
            'Switch all hosts to one mode.'
        )
    _unused(conn, providers)
    lease.check(conn)
    data: JsonObject = {
        'name': mode,
        'before': next(iter(before.values())),
        'providers': dict(providers),
        'command': command,
        # nova-compute creates the inventory again with its initial ratio.
        'vcpu_ratios': {
            name: ratios['VCPU']
            for name, ratios in allocation_ratios.current(
                conn, providers
            ).items()
            if 'VCPU' in ratios
        },
    }
    if progress is not None:
        progress.say(f"switching the hosts' CPUs to {mode}: {command}")
    journal.note(KIND, data, scope(conn))
    _switch(conn, providers, mode, command)
    return True


def undo(conn: Connection, data: JsonObject) -> None:
    """Put hosts back into the mode that they were in, with its ratios."""
    change = journal.read_data(_ModeChange, data)
    provider_ids = set(placement.providers(conn).values())
    providers = {
        k: v for k, v in change.providers.items() if v in provider_ids
    }
    if set(current(conn, providers).values()) <= {change.before}:
        return
    _unused(conn, providers)
    _switch(conn, providers, change.before, change.command)
    allocation_ratios.restore_vcpu(conn, providers, change.vcpu_ratios)


def _switch(
    conn: Connection, providers: Mapping[str, str], mode: str, command: str
) -> None:
    processutils.run(
        ['sh', '-c', command.replace('{mode}', mode)],
        timeout=_COMMAND_SECONDS,
    )

    def ready() -> bool:
        up = {
            hypervisor.name
            for hypervisor in hypervisors.hypervisors(conn)
            if hypervisor.up
        }
        modes = current(conn, providers)
        return set(modes.values()) == {mode} and up >= set(modes)

    processutils.wait_for(
        ready,
        f"the hosts to be {mode} after '{command}'",
        timeout=_READY_SECONDS,
        interval=2,
        get_reason=lambda: _format_modes(current(conn, providers)),
    )


def _unused(conn: Connection, providers: Mapping[str, str]) -> None:
    """Refuse to switch hosts that have servers."""
    for server in servers.list_all_servers(conn):
        name = server.hypervisor_hostname or server.compute_host
        if name in providers:
            raise errors.BusyError(
                f'Cannot switch the CPUs of {name}: the host has servers '
                f'such as {server.name}. Delete the servers, or wait until '
                'they are deleted.'
            )


def _format_modes(modes: Mapping[str, str]) -> str:
    return ', '.join(f'{name} {mode}' for name, mode in modes.items())
