# SPDX-License-Identifier: Apache-2.0
"""Undoing what the journal names, newest first."""

from collections.abc import Callable, Iterable
from typing import Any

from openstack.connection import Connection

from hvstack import errors, shell
from hvstack.cloud import connection, flavors, journal, keys, ratios, stacks

_ON_CLOUD: dict[str, Callable[[Connection, dict[str, Any]], None]] = {
    flavors.KIND: flavors.undo,
    keys.KIND: keys.undo,
    ratios.KIND: ratios.undo,
    stacks.KIND: stacks.undo,
}


def _commands(data: dict[str, Any]) -> None:
    for argv in data['argv']:
        shell.run(argv, timeout=600)


#: Changes of this machine alone, such as hosts taken for bare metal: the
#: entry has the programs that give them back, harmless if run twice.
COMMANDS = 'commands'
_ON_MACHINE: dict[str, Callable[[dict[str, Any]], None]] = {
    COMMANDS: _commands
}


def undo(found: Iterable[journal.Entry], conn: Connection | None) -> list[str]:
    """Undo entries, newest first, and return a line for each.

    Those of another cloud or project are left alone.

    :raises hvstack.errors.CloudError: some could not be; the others were,
        and these stay in the journal.
    """
    lines = []
    failed = []
    scope = connection.scope(conn) if conn else ''
    for entry in sorted(found, key=lambda one: one.made, reverse=True):
        if entry.scope and entry.scope != scope:
            continue
        try:
            if entry.kind in _ON_MACHINE:
                _ON_MACHINE[entry.kind](entry.data)
            elif conn is not None and entry.kind in _ON_CLOUD:
                _ON_CLOUD[entry.kind](conn, entry.data)
            else:
                continue
        except errors.HVStackError as exc:
            failed.append(f'{entry.kind}: {exc}')
            continue
        journal.forget(entry)
        lines.append(f'{entry.kind} {entry.data.get("name", "")}'.strip())
    if failed:
        raise errors.CloudError(
            f'not put back ({"; ".join(failed)}): the next hvstack command '
            'tries again'
        )
    return lines


def recover(conn: Connection | None) -> list[str]:
    """Undo what dead processes left, and return a line for each.

    :raises hvstack.errors.CloudError: some of it could not be undone.
    """
    with journal.recovering():
        return undo(
            [entry for entry in journal.entries() if entry.abandoned], conn
        )


def undo_own(conn: Connection | None) -> list[str]:
    """Undo what this process still has in the journal.

    :raises hvstack.errors.CloudError: some of it could not be undone.
    """
    return undo(journal.own(), conn)
