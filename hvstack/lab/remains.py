# SPDX-License-Identifier: Apache-2.0
"""Run records, keys and journal: what a lab's end must not delete.

They are those of every cloud. An entry of the journal that names another
cloud is the only way to undo a change there.
"""

from pathlib import Path

from hvstack import errors, jsonfile, paths
from hvstack.cloud import journal, keypairs
from hvstack.cluster import acquired_hosts, cpu_caps, cpu_weights
from hvstack.lab import constants, settings

#: What the journal stores for a host of the lab.
_LAB_ACTION = 'release-lab-host'


def state_entries() -> list[Path]:
    """Return the entries of the state directory, sorted."""
    return sorted(paths.STATE.iterdir()) if paths.STATE.is_dir() else []


def check_records() -> None:
    """Refuse to delete what is still needed.

    :raises hvstack.errors.InputError: hvstack did not create the state
        directory, or the journal names changes that are not the lab's.
    """
    if paths.STATE.exists() and not paths.is_owned(paths.STATE):
        raise errors.InputError(
            f'Cannot delete {paths.STATE}: hvstack did not create this '
            f'directory (no valid {paths.STAMP}). Delete the records '
            'yourself, and run the command without --records.'
        )
    # A process that was killed has left the caps and weights of lab hosts.
    cpu_caps.recover()
    cpu_weights.recover()
    others = [
        entry for entry in journal.entries() if not _is_of_lab(entry.scope)
    ]
    if others:
        entry = others[0]
        if entry.kind in (cpu_caps.KIND, cpu_weights.KIND):
            raise errors.InputError(
                f'Cannot delete {paths.STATE}: a process of hvstack has '
                'changed the CPU caps or weights of lab hosts '
                f'({entry.path}). Wait for its end, or stop it, and run the '
                'command again.'
            )
        raise errors.InputError(
            f'Cannot delete {paths.STATE}: {entry.path} names the '
            f'{entry.kind} {str(entry.data.get("name"))[:80]!r} of another '
            f'cloud ({entry.scope.split(" ")[0] or "this machine"}), which '
            "hvstack would never undo. Run 'hvstack sweep recover --os-cloud "
            "NAME' or delete the cluster first."
        )
    for path in _foreign_hosts():
        raise errors.InputError(
            f'Cannot delete {paths.STATE}: {path} names bare-metal hosts '
            "that are not released. Run 'hvstack sweep recover' first."
        )


def forget_lab() -> None:
    """Drop the journal's entries about a lab that no longer exists."""
    for entry in journal.entries():
        if not _is_of_lab(entry.scope):
            continue
        if entry.kind == keypairs.KIND:
            keypairs.remove_files(entry.data)
        journal.forget(entry)
    for path in _marks():
        if _is_mark_of_lab(path):
            path.unlink(missing_ok=True)


def _is_of_lab(scope: str) -> bool:
    """Return whether a scope of the journal names this directory's lab."""
    url = scope.split(' ')[0]
    return settings.load() is not None and url == constants.url('keystone')


def _marks() -> list[Path]:
    return sorted(acquired_hosts.ACQUIRED_HOSTS_DIR.glob('*.json'))


def _foreign_hosts() -> list[Path]:
    return [path for path in _marks() if not _is_mark_of_lab(path)]


def _is_mark_of_lab(path: Path) -> bool:
    """Return whether a file names hosts of the lab alone."""
    items = jsonfile.load_if_whole(path).get('hosts')
    return isinstance(items, list) and all(
        isinstance(item, dict) and item.get('action') == _LAB_ACTION
        for item in items
    )
