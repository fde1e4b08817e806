# SPDX-License-Identifier: Apache-2.0
"""Undoing what the journal names, newest first."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import (
    connection,
    flavors,
    hostmode,
    journal,
    keys,
    ratios,
    stacks,
)
from hvstack.progress import Progress

_UNDO: dict[str, Callable[[Connection, dict[str, Any]], None]] = {
    flavors.KIND: flavors.undo,
    hostmode.KIND: hostmode.undo,
    keys.KIND: keys.undo,
    ratios.KIND: ratios.undo,
}


def undo(
    found: Iterable[journal.Entry],
    conns: Iterable[Connection],
    progress: Progress | None = None,
) -> list[str]:
    """Undo entries, newest first, and return a line for each.

    Those of another cloud or project are left alone.

    :param conns: connections, an administrator's and a tenant's perhaps;
        each entry takes the one that it was made with.
    :raises hvstack.errors.CloudError: some could not be; the others were,
        and these stay in the journal.
    """
    by_scope = {connection.scope(conn): conn for conn in conns}
    lines = []
    failed = []
    for entry in sorted(found, key=lambda one: one.made, reverse=True):
        conn = by_scope.get(entry.scope)
        if conn is None:
            continue
        name = f'{entry.kind} {entry.data["name"]}'
        try:
            with progress.stage(name) if progress else nullcontext():
                if entry.kind == stacks.KIND:
                    stacks.undo(conn, entry.data, progress)
                else:
                    _UNDO[entry.kind](conn, entry.data)
        except errors.HVStackError as exc:
            failed.append(f'{name}: {exc}')
            continue
        journal.forget(entry)
        lines.append(name)
    if failed:
        raise errors.CloudError(
            f'not put back ({"; ".join(failed)}): the next hvstack command '
            'tries again'
        )
    return lines


def recover(conns: Iterable[Connection]) -> list[str]:
    """Undo what dead processes left, and return a line for each.

    :raises hvstack.errors.CloudError: some of it could not be undone.
    """
    with journal.recovering():
        left = [entry for entry in journal.entries() if entry.abandoned]
        return undo(left, conns) if left else []


def undo_own(
    conns: Iterable[Connection], progress: Progress | None = None
) -> list[str]:
    """Undo what this process still has in the journal.

    :raises hvstack.errors.CloudError: some of it could not be undone.
    """
    return undo(journal.own(), conns, progress)


def undo_failed(
    failure: errors.HVStackError,
    conns: Iterable[Connection],
    progress: Progress,
) -> None:
    """Undo what this process did before it failed.

    :raises hvstack.errors.CloudError: some of it could not be undone; says
        why it failed, too.
    """
    try:
        undo_own(conns, progress)
    except errors.CloudError as exc:
        raise errors.CloudError(f'{failure}; {exc}') from failure
