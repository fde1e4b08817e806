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

from hvstack.cloud import journal
from hvstack.cluster import cgroup_values
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
    paths = _list_paths(groups)
    if not paths:
        yield []
        return
    # A process that was killed has left the largest weight as the usual one.
    recover()
    weights = cgroup_values.read(paths)
    entry = cgroup_values.note(KIND, weights)
    try:
        yield [
            f'the CPU weight is not raised: {message}'
            for message in cgroup_values.write_all(
                {str(path): _WEIGHTS[path.name] for path in paths}
            )
        ]
    finally:
        cgroup_values.restore(entry)
        journal.forget(entry)


def recover() -> list[str]:
    """Restore the weights that processes that no longer run have raised.

    :returns: a line of text for each group.
    """
    return [
        f'CPU weight of {directory.name}'
        for directory in cgroup_values.recover(KIND)
    ]


def read_weight(group: HostGroup) -> int | None:
    """Return the CPU weight of a host; None if the kernel does not tell it."""
    for path in (group.weighed / name for name in _WEIGHTS):
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text(encoding='utf-8'))
    return None


def _list_paths(groups: Iterable[HostGroup]) -> list[Path]:
    """Return the files of weights.

    Where hosts are units of systemd, their slice competes with other slices.
    """
    directories: dict[Path, None] = {}
    for group in groups:
        directories[group.weighed] = None
        if cgroup_values.get_unit(group.weighed):
            directories[group.weighed.parent] = None
    return [
        path
        for directory in directories
        for name in _WEIGHTS
        if (path := directory / name).exists()
    ]
