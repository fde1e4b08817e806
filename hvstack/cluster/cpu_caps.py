# SPDX-License-Identifier: Apache-2.0
"""CPU caps of lab hosts: lifted while nothing is measured.

The creation of clusters, the start of Hadoop and the warm-up job have no part
in a result, and take much longer under the caps. A sweep lifts the caps; each
run puts them back into force before the probe, which shows that they are, and
until its last phase has ended. The record contains the caps that the kernel
reports before and after the run.
"""

import contextlib
from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from pathlib import Path

from hvstack import errors
from hvstack.cloud import journal
from hvstack.cloud.journal import JournalEntry
from hvstack.cluster import cgroup_values, cpu_weights
from hvstack.cluster.lab_groups import HostGroup
from hvstack.results.typed_json import JsonObject

#: Kind of the journal's entries.
KIND = 'cpu_cap'
#: Files of the cap with the value without a cap: version 1 and version 2.
_UNLIMITED = {
    'cpu.cfs_quota_us': '-1',
    'cpu.max': cgroup_values.UNLIMITED,
}
#: Largest difference of a cap from that of the record, as a fraction of it:
#: the kernel and systemd round to a thousandth of a core.
_MAX_DIFFERENCE = 0.01


@contextlib.contextmanager
def lifted(groups: Iterable[HostGroup]) -> Iterator[None]:
    """Lift the caps of hosts, and put them into force at the end.

    :param groups: groups of the lab hosts; none changes nothing. Nothing is
        changed either while another process measures on the hosts.
    """
    paths = [
        path
        for group in groups
        for name in _UNLIMITED
        if (path := group.weighed / name).exists()
    ]
    if not paths or _has_other_user():
        yield
        return
    entry = cgroup_values.note(KIND, cgroup_values.read(paths))
    try:
        _lift(entry)
        yield
    finally:
        cgroup_values.restore(entry)
        journal.forget(entry)


def _has_other_user() -> bool:
    """Tell whether another process has lifted caps, or measures."""
    recover()
    cpu_weights.recover()
    kinds = {entry.kind for entry in journal.entries()}
    return not kinds.isdisjoint((KIND, cpu_weights.KIND))


@contextlib.contextmanager
def in_force(groups: Collection[HostGroup]) -> Iterator[None]:
    """Put the caps into force that a process has lifted, and lift them again.

    Without a process that still runs, they stay in force.

    :param groups: groups of the lab hosts; none changes nothing.
    :raises hvstack.errors.RunFailedError: a cap cannot be put into force.
    """
    if not groups:
        yield
        return
    recover()
    entries = [entry for entry in journal.entries() if entry.kind == KIND]
    for entry in entries:
        values = cgroup_values.list_current(entry)
        if messages := cgroup_values.write_all(values):
            raise errors.RunFailedError(
                f'Cannot put the CPU caps into force: {"; ".join(messages)}. '
                "Run 'hvstack lab down' and 'hvstack lab up'."
            )
    try:
        yield
    finally:
        ids = {entry.id for entry in entries}
        for entry in journal.entries():
            if entry.id in ids and entry.alive:
                _lift(entry)


def _lift(entry: JournalEntry) -> None:
    """Lift the caps of an entry, as far as the kernel lets it."""
    cgroup_values.write_all(
        {
            name: _UNLIMITED[Path(name).name]
            for name in cgroup_values.list_current(entry)
        }
    )


def recover() -> list[str]:
    """Put the caps into force that processes that no longer run have lifted.

    :returns: a line of text for each group.
    """
    return [
        f'CPU cap of {directory.name}'
        for directory in cgroup_values.recover(KIND)
    ]


def describe(groups: Iterable[HostGroup]) -> JsonObject:
    """Return the caps in cores and the weights that the kernel reports.

    :param groups: groups of the lab hosts.
    :returns: by host; a cap of None is no cap.
    """
    return {
        group.name: {
            'cores': read_cap(group),
            'weight': cpu_weights.read_weight(group),
        }
        for group in groups
    }


def read_cap(group: HostGroup) -> float | None:
    """Return the cap of a host in cores; None if it has none."""
    directory = group.weighed
    try:
        if (directory / 'cpu.max').exists():
            fields = (
                (directory / 'cpu.max').read_text(encoding='utf-8').split()
            )
        else:
            fields = [
                (directory / name).read_text(encoding='utf-8').strip()
                for name in ('cpu.cfs_quota_us', 'cpu.cfs_period_us')
            ]
    except OSError:
        return None
    if fields[0] in _UNLIMITED.values():
        return None
    return int(fields[0]) / int(fields[1])


def list_differences(
    groups: Iterable[HostGroup], caps: Mapping[str, float]
) -> list[str]:
    """Return the hosts whose cap differs from that of the record.

    :param groups: groups of the lab hosts.
    :param caps: caps of the record in cores by host.
    :returns: a text for each host.
    """
    lines = []
    for group in groups:
        expected, cap = caps.get(group.name), read_cap(group)
        if expected is None or not group.weighed.exists():
            continue
        if cap is None or abs(cap - expected) > _MAX_DIFFERENCE * expected:
            text = 'none' if cap is None else f'{cap:g} cores'
            lines.append(f'{group.name}: {text} instead of {expected:g}')
    return lines
