# SPDX-License-Identifier: Apache-2.0
"""Values of lab hosts' control groups that a process changes for some time.

The journal keeps the values from before, so that the next process restores
them after a crash. A group that was created since keeps its own value.
"""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hvstack import errors, pid_files, processutils
from hvstack.cloud import journal
from hvstack.cloud.journal import JournalEntry

#: Properties of systemd's units by the file of the kernel.
_PROPERTIES = {'cpu.weight': 'CPUWeight', 'cpu.max': 'CPUQuota'}
#: Value of cpu.max without a cap.
UNLIMITED = 'max'


@dataclass(frozen=True)
class _StoredValues:
    """Data of an entry of the journal.

    :param boot: ID of the boot.
    :param inodes: inode by file.
    :param values: values from before by file; None in an entry of a release
        before this module.
    :param weights: the same of such an entry, which had weights alone.
    """

    boot: str
    inodes: Mapping[str, int]
    values: Mapping[str, str] | None = None
    weights: Mapping[str, str] | None = None


def note(kind: str, values: Mapping[str, str]) -> JournalEntry:
    """Write the values from before into the journal.

    :param kind: kind of the entry.
    :param values: values by file.
    :raises OSError: the entry or a group cannot be read or written, so nothing
        may be changed.
    """
    return journal.note(
        kind,
        {
            'boot': pid_files.boot(),
            'values': dict(values),
            'inodes': {name: Path(name).stat().st_ino for name in values},
        },
    )


def read(paths: Iterable[Path]) -> dict[str, str]:
    """Return the values of files by their names."""
    return {
        str(path): path.read_text(encoding='utf-8').strip() for path in paths
    }


def get_unit(directory: Path) -> str:
    """Return the unit of a control group of systemd; empty without a unit."""
    is_unit = directory.suffix in ('.scope', '.slice')
    return directory.name if is_unit else ''


def write(path: Path, value: str) -> None:
    """Write a value, by systemd where the group is one of its units.

    :raises OSError: the kernel refuses the value.
    :raises hvstack.errors.CommandError: systemd refuses it.
    """
    if unit := get_unit(path.parent):
        # systemd would write its own value again.
        processutils.run(
            [
                *('systemctl', 'set-property', '--runtime', unit),
                f'{_PROPERTIES[path.name]}={_format_property(path, value)}',
            ],
            timeout=30,
        )
    else:
        path.write_text(value, encoding='utf-8')


def _format_property(path: Path, value: str) -> str:
    """Return the value of a unit's property; empty removes a quota."""
    if path.name != 'cpu.max':
        return value
    quota, _, period = value.partition(' ')
    if quota == UNLIMITED:
        return ''
    return f'{100 * int(quota) / int(period):.1f}%'


def write_all(values: Mapping[str, str]) -> list[str]:
    """Write values, as far as groups take them.

    :returns: the messages of groups that refuse their value.
    """
    messages = []
    for path, value in ((Path(name), value) for name, value in values.items()):
        try:
            write(path, value)
        except (OSError, errors.HVStackError) as exc:
            messages.append(
                f'{path.name} of {path.parent.name} is not changed '
                f'({" ".join(str(exc).split())})'
            )
    return messages


def list_current(entry: JournalEntry) -> dict[str, str]:
    """Return the values of an entry whose groups are still the same."""
    stored = journal.read_data(_StoredValues, entry.data)
    if stored.boot != pid_files.boot():
        return {}
    current = {}
    values = stored.weights if stored.values is None else stored.values
    for name, value in (values or {}).items():
        with contextlib.suppress(OSError):
            if Path(name).stat().st_ino == stored.inodes.get(name):
                current[name] = value
    return current


def restore(entry: JournalEntry) -> list[Path]:
    """Write the values from before.

    :param entry: entry of the journal.
    :returns: directories of the groups whose value was written.
    """
    directories = []
    for name, value in list_current(entry).items():
        with contextlib.suppress(OSError, errors.HVStackError):
            write(Path(name), value)
            directories.append(Path(name).parent)
    return directories


def recover(kind: str) -> list[Path]:
    """Restore the values that processes that no longer run have changed.

    :returns: directories of the groups whose value was written.
    """
    directories = []
    for entry in journal.newest_first(journal.entries()):
        if entry.kind == kind and entry.abandoned:
            directories += restore(entry)
            journal.forget(entry)
    return directories
