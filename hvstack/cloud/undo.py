# SPDX-License-Identifier: Apache-2.0
"""Undoing what the journal names, newest first."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext

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
#: Changes that are undone with the lease on the cloud: the sweep of another
#: machine may run with the same ratios and the same CPU mode, and has no entry
#: in this journal.
_LEASED = (allocation_ratios.KIND, cpu_mode.KIND)


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
    failed: list[str] = []
    with _finishing(failed, progress):
        lines = _undo_all(entries, list(conns), progress, failed)
    _raise_failures(failed)
    return lines


def undo_with_lease(
    entries: Iterable[journal.JournalEntry],
    conns: Iterable[Connection],
    progress: Progress | None = None,
) -> list[str]:
    """Undo entries as :func:`undo`, but ratios and CPU modes with the lease.

    :param conns: connections, an administrator's and a tenant's perhaps.
    :raises hvstack.errors.CloudError: some could not be, because another
        process has the lease, for example; the others were, and these stay
        in the journal.
    """
    failed: list[str] = []
    with _finishing(failed, progress):
        lines, refusals = _undo_leased(
            list(entries),
            list(conns),
            failed,
            progress,
            progress or Progress(),
        )
        failed += refusals
    _raise_failures(failed)
    return lines


@contextmanager
def _finishing(failed: list[str], progress: Progress | None) -> Iterator[None]:
    """Let Ctrl-C take effect at the end, and not hide what was not undone."""
    try:
        with interrupts.deferred('hvstack is undoing its changes', progress):
            yield
    except KeyboardInterrupt:
        if failed:
            (progress or Progress()).warn(_describe_failures(failed))
        raise


def _undo_all(
    entries: Iterable[journal.JournalEntry],
    conns: Sequence[Connection],
    progress: Progress | None,
    failed: list[str],
    undone: Progress | None = None,
) -> list[str]:
    """Undo entries, newest first.

    :param failed: gets a sentence for each that could not be undone.
    :param undone: where each that was is reported afterwards; None for no
        report.
    :returns: a line for each that was.
    """
    pending = [
        (entry, conn)
        for entry in journal.newest_first(entries)
        if (conn := connection.find_in_scope(entry.scope, conns)) is not None
    ]
    lines = []
    ratio_users = allocation_ratios.count_users()
    reasons: dict[Connection, str] = {}
    entries_by_reason: dict[str, list[journal.JournalEntry]] = {}
    for entry, conn in pending:
        if entry.kind in _LEASED:
            if conn not in reasons:
                reasons[conn] = _explain_lost_lease(conn)
            if reasons[conn]:
                entries_by_reason.setdefault(reasons[conn], []).append(entry)
                continue
        setting = allocation_ratios.get_setting(entry)
        if setting is not None and ratio_users[setting] > 1:
            # Another cluster or sweep uses the same ratio.
            ratio_users[setting] -= 1
            journal.forget(entry)
            continue
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
            if undone:
                undone.say(f'restored: {name}')
    failed += [
        f'{_format_names(group)}: {reason}'
        for reason, group in entries_by_reason.items()
    ]
    return lines


def _explain_lost_lease(conn: Connection) -> str:
    """Return why this process may not change ratios; empty if it may."""
    try:
        lease.check(conn)
    except errors.HVStackError as exc:
        return str(exc)
    return ''


def _undo_leased(
    entries: Sequence[journal.JournalEntry],
    conns: Sequence[Connection],
    failed: list[str],
    progress: Progress | None,
    output: Progress,
    undone: Progress | None = None,
) -> tuple[list[str], list[str]]:
    """Undo entries, and those that need the lease of their cloud with it.

    :param failed: gets a sentence for each that could not be undone.
    :param progress: where each entry is reported; None for no report.
    :param output: where waiting for the lease is announced.
    :param undone: where each that was undone is reported afterwards; None for
        no report.
    :returns: a line for each that was undone, and a sentence for the entries
        of each cloud whose lease another process has.
    """
    leased: dict[Connection, list[journal.JournalEntry]] = {}
    for entry in entries:
        conn = connection.find_in_scope(entry.scope, conns)
        if entry.kind in _LEASED and conn is not None:
            leased.setdefault(conn, []).append(entry)
    if not leased:
        return _undo_all(entries, conns, progress, failed, undone), []
    # Otherwise this process would wait until the lease that a dead process
    # of this machine left has run out.
    abandoned = [
        entry
        for entry in entries
        if entry.kind == lease.KIND and not lease.is_own(entry.data)
    ]
    lines = _undo_all(abandoned, conns, progress, failed, undone)
    excluded_ids = {entry.id for entry in abandoned}
    refusals: list[str] = []
    try:
        with ExitStack() as stack:
            for conn, group in leased.items():
                try:
                    # A process that lost its lease does not acquire it again:
                    # at its exit, Python starts no thread to renew it.
                    lease.check(conn)
                    stack.enter_context(lease.held(conn, output))
                except errors.HVStackError as exc:
                    excluded_ids |= {entry.id for entry in group}
                    is_busy = isinstance(exc, errors.BusyError)
                    (refusals if is_busy else failed).append(
                        f'{_format_names(group)}: {exc}'
                    )
            lines += _undo_all(
                [entry for entry in entries if entry.id not in excluded_ids],
                conns,
                progress,
                failed,
                undone,
            )
    except errors.HVStackError as exc:
        # The lease could not be released.
        failed.append(str(exc))
    return lines, refusals


def _format_names(entries: Sequence[journal.JournalEntry]) -> str:
    """Return the name of the newest entry and the number of the others."""
    name = _name(journal.newest_first(entries)[0])
    if len(entries) == 1:
        return name
    return f'{name} and {len(entries) - 1} other changes of ratios or modes'


def _raise_failures(failed: Sequence[str]) -> None:
    if failed:
        raise errors.CloudError(_describe_failures(failed))


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


def explain_other_scope(
    entry: journal.JournalEntry, conns: Iterable[Connection]
) -> str:
    """Return why no command with these connections undoes a dead change.

    :returns: empty if one does, or if a cluster or a process that may still
        run keeps the change.
    """
    if (
        not entry.scope
        or not entry.abandoned
        or connection.find_in_scope(entry.scope, conns) is not None
    ):
        return ''
    return (
        f'Cannot undo the change {_name(entry)!r} ({entry.path}): its process '
        'no longer runs, and the change was made with another URL, project, '
        f"user or region ({entry.scope}). Run 'hvstack sweep recover "
        "--os-cloud NAME' with that cloud. If the user or the project no "
        'longer exists, undo the change by hand and delete the file.'
    )


def recover(
    conns: Iterable[Connection], progress: Progress | None = None
) -> list[str]:
    """Undo what dead processes left, and return a line for each.

    Entries that this release does not know, and those of processes that may
    still run where they are not visible, stay, with a line of progress. So do
    ratios and CPU modes while another process has the lease on the cloud.

    :param progress: where the changes are named before they are undone, and
        each afterwards.
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
        if progress and abandoned:
            names = ', '.join(map(_name, journal.newest_first(abandoned)))
            progress.say(
                f'restoring changes of processes that no longer run: {names}'
            )
        failed: list[str] = []
        with _finishing(failed, None):
            lines, refusals = _undo_leased(
                abandoned, conns, failed, None, output, progress
            )
        for reason in refusals:
            output.say(f'not restored: {reason}')
    _raise_failures(failed)
    return lines


def undo_own(
    conns: Iterable[Connection], progress: Progress | None = None
) -> list[str]:
    """Undo what this process still has in the journal.

    Ratios and CPU modes need the lease on the cloud, as another machine can
    have used them since this process released its lease or lost it.

    :raises hvstack.errors.CloudError: some of it could not be undone.
    """
    return undo_with_lease(journal.own(), conns, progress)


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
