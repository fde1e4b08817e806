# SPDX-License-Identifier: Apache-2.0
"""CPU weight of lab hosts during a run.

A cap limits a host, but does not guarantee it anything: each login session of
the machine weighs as much as a whole lab host (``SCHED_AUTOGROUP``). During a
run, hosts weigh as much as the kernel allows, so that they get what their caps
permit. The caps leave time for the control plane and for hvstack, which stay
outside the hosts with the usual weight.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hvstack import errors, pid_files, processutils
from hvstack.cloud import journal
from hvstack.cluster.lab_groups import HostGroup

#: Kind of the journal's entries.
KIND = 'cpu_weight'
#: File and largest weight of version 1 (default 1024) and 2 (default 100).
_WEIGHTS = {'cpu.shares': '262144', 'cpu.weight': '10000'}


@contextlib.contextmanager
def raised(groups: Iterable[HostGroup]) -> Iterator[list[str]]:
    """Give hosts the largest CPU weight, and restore their own at the end.

    :param groups: groups of the lab hosts; none changes nothing.
    :returns: why weights could not be raised.
    """
    weights = {
        str(path): path.read_text(encoding='utf-8').strip()
        for path in _list_paths(groups)
    }
    if not weights:
        yield []
        return
    # A process that was killed has left the largest weight as the usual one.
    if recover():
        weights = {
            name: Path(name).read_text(encoding='utf-8').strip()
            for name in weights
        }
    entry = journal.note(
        KIND,
        {
            'boot': pid_files.boot(),
            'weights': weights,
            'inodes': {name: Path(name).stat().st_ino for name in weights},
        },
    )
    try:
        yield _raise(weights)
    finally:
        _restore(entry.data)
        journal.forget(entry)


def _raise(names: Iterable[str]) -> list[str]:
    messages = []
    for path in map(Path, names):
        try:
            _write_weight(path, _WEIGHTS[path.name])
        except (OSError, errors.HVStackError) as exc:
            messages.append(
                f'the CPU weight of {path.parent.name} is not raised '
                f'({" ".join(str(exc).split())})'
            )
    return messages


def recover() -> list[str]:
    """Restore the weights that processes that no longer run have raised.

    :returns: a line of text for each group.
    """
    lines = []
    for entry in journal.newest_first(journal.entries()):
        if entry.kind == KIND and entry.abandoned:
            lines += _restore(entry.data)
            journal.forget(entry)
    return lines


def _list_paths(groups: Iterable[HostGroup]) -> list[Path]:
    """Return the files of weights.

    Where hosts are units of systemd, their slice competes with other slices.
    """
    directories: dict[Path, None] = {}
    for group in groups:
        directories[group.weighed] = None
        if _get_unit(group.weighed):
            directories[group.weighed.parent] = None
    return [
        path
        for directory in directories
        for name in _WEIGHTS
        if (path := directory / name).exists()
    ]


def _get_unit(directory: Path) -> str:
    """Return the unit of a control group of systemd; empty without a unit."""
    is_unit = directory.suffix in ('.scope', '.slice')
    return directory.name if is_unit else ''


def _write_weight(path: Path, weight: str) -> None:
    if unit := _get_unit(path.parent):
        # systemd would write its own value again.
        processutils.run(
            [
                *('systemctl', 'set-property', '--runtime', unit),
                f'CPUWeight={weight}',
            ],
            timeout=30,
        )
    else:
        path.write_text(weight, encoding='utf-8')


def _restore(data: dict[str, Any]) -> list[str]:
    """Restore weights; groups that were created since have their own."""
    if data['boot'] != pid_files.boot():
        return []
    lines = []
    for name, weight in data['weights'].items():
        path = Path(name)
        with contextlib.suppress(OSError, errors.HVStackError):
            if path.stat().st_ino == data['inodes'][name]:
                _write_weight(path, weight)
                lines.append(f'CPU weight of {path.parent.name}')
    return lines
