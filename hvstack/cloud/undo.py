# SPDX-License-Identifier: Apache-2.0
"""Undoing what the journal names, newest first."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext

from openstack.connection import Connection

from hvstack import errors, interrupts
from hvstack.cloud import (
    allocation_ratios,
    cluster_flavors,
    connection,
    cpu_mode,
    host_power,
    journal,
    keypairs,
    lease,
    stack_undo,
    stacks,
)
from hvstack.progress import Progress
from hvstack.results.typed_json import JsonObject

#: Each may return False: nothing was undone, and it has said why.
_UNDO: dict[str, Callable[[Connection, JsonObject], bool | None]] = {
    cluster_flavors.KIND: cluster_flavors.undo,
    cluster_flavors.ACCESS_KIND: cluster_flavors.undo_access,
    cpu_mode.KIND: cpu_mode.undo,
    host_power.KIND: host_power.undo,
    keypairs.KIND: keypairs.undo,
    lease.KIND: lease.undo,
    allocation_ratios.KIND: allocation_ratios.undo,
}


def undo(
    entries: Iterable[journal.JournalEntry],
    conns: Iterable[Connection],
    progress: Progress | None = None,
) -> list[str]:
    """Undo entries, newest first, and return a line for each that was.

    Those of another cloud, region or project are left alone. Ctrl-C does not
    stop it: it takes effect at the end.

    :param conns: connections, an administrator's and a tenant's perhaps;
        each entry takes the one that it was made with.
    :raises hvstack.errors.CloudError: some could not be; the others were,
        and these stay in the journal.
    """
    conns = list(conns)
    pending = [
        (entry, conn)
        for entry in journal.newest_first(entries)
        if (conn := connection.find_in_scope(entry.scope, conns)) is not None
    ]
    lines = []
    failed: list[str] = []
    try:
        with interrupts.deferred('hvstack is undoing its changes', progress):
            for entry, conn in pending:
                name = _name(entry)
                try:
                    with progress.stage(name) if progress else nullcontext():
                        is_undone = _undo(entry, conn, progress)
                except errors.HVStackError as exc:
                    failed.append(f'{name}: {str(exc).removesuffix(".")}.')
                    continue
                journal.forget(entry)
                if is_undone:
                    lines.append(name)
    except KeyboardInterrupt:
        # What was not undone must not be hidden by Ctrl-C, nor stop it.
        if failed:
            (progress or Progress()).warn(_describe_failures(failed))
        raise
    if failed:
        raise errors.CloudError(_describe_failures(failed))
    return lines


def _describe_failures(failed: Sequence[str]) -> str:
    return (
        f'Cannot undo changes: {" ".join(failed)} The next hvstack command '
        'tries again.'
    )


def _undo(
    entry: journal.JournalEntry, conn: Connection, progress: Progress | None
) -> bool:
    if entry.kind == stacks.KIND:
        stack_undo.undo(conn, entry.data, progress)
        return True
    if entry.kind in _UNDO:
        return _UNDO[entry.kind](conn, entry.data) is not False
    raise errors.InputError(
        f'Cannot undo a change of type {entry.kind!r} ({entry.path}): '
        'this release does not know it. Use the newer release of hvstack '
        'that wrote it.'
    )


def _name(entry: journal.JournalEntry) -> str:
    return f'{entry.kind} {entry.data.get("name", entry.id)}'


def _explain_unknown(entry: journal.JournalEntry) -> str:
    """Return why the change of a process that may have ended stays."""
    position, remedy = (
        'in another pid namespace',
        'Run hvstack in that namespace, or, outside of all containers, as '
        'root.',
    )
    if entry.process.is_elsewhere:
        position, remedy = (
            f'on another machine (its machine-id is {entry.machine})',
            'Run hvstack there. If that machine is lost, delete the line '
            f"'machine' in {entry.path}, then run the command again.",
        )
    return (
        f'Cannot tell whether process {entry.pid} still runs: it ran '
        f'{position}. Its change stays: {_name(entry)}. {remedy}'
    )


def recover(
    conns: Iterable[Connection], progress: Progress | None = None
) -> list[str]:
    """Undo what dead processes left, and return a line for each.

    Entries that this release does not know, and those of processes that may
    still run where they are not visible, stay, with a line of progress.

    :raises hvstack.errors.CloudError: some of it could not be undone.
    """
    output = progress or Progress()
    conns = list(conns)
    abandoned = []
    with journal.recovering():
        for entry in journal.entries():
            conn = connection.find_in_scope(entry.scope, conns)
            if entry.owner or conn is None:
                continue
            alive = entry.process.is_alive()
            if alive is None:
                output.say(_explain_unknown(entry))
            elif alive:
                continue
            elif entry.kind == stacks.KIND or entry.kind in _UNDO:
                abandoned.append(entry)
            else:
                output.say(
                    f'The change {_name(entry)!r} stays: this release does '
                    f'not know its type ({entry.path}). Use the newer release '
                    'of hvstack that wrote it.'
                )
        return undo(abandoned, conns) if abandoned else []


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
        raise errors.CloudError(
            f'{str(failure).removesuffix(".")}. {exc}'
        ) from failure
