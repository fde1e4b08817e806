# SPDX-License-Identifier: Apache-2.0
"""Comparison of the disks of guests and of bare metal, before a run."""

from collections.abc import Iterable
from pathlib import Path

from hvstack.cluster import actions, baseline_hosts
from hvstack.model import host_disks
from hvstack.model.configuration import Configuration
from hvstack.model.host import HostProfile
from hvstack.model.host_disks import DiskUse

_EXPLANATION = 'the percentage of bare metal will not be computed'


def of_baseline(profile: HostProfile, path: Path) -> DiskUse | None:
    """Return the disks of a worker's host on bare metal.

    :param profile: host profile of the workers' hosts.
    :param path: inventory of bare-metal hosts; a missing file means that bare
        metal uses all data disks of the host profile.
    :returns: None for hosts of a lab, whose disks are not compared, and for
        workers with one mount point, under which all disks can be.
    :raises hvstack.errors.InputError: the inventory is not valid.
    """
    if profile.policy.lab:
        return None
    if not path.exists() or path == baseline_hosts.LAB:
        return host_disks.of_host(profile)
    disks_of_workers = [
        host.release.disks
        for host in baseline_hosts.read(path)
        if host.role == 'worker'
        and isinstance(host.release, actions.ReleaseSSHHost)
    ]
    # Several mount points, as Hadoop has them, are a disk each.
    if not disks_of_workers or any(
        sum(not disk.startswith('/dev/') for disk in disks) == 1
        for disks in disks_of_workers
    ):
        return None
    # Without names, the data is in a directory on one disk.
    counts = {max(1, len(disks)) for disks in disks_of_workers}
    ordered = sorted(counts)
    return DiskUse(
        host_disks.BARE_METAL,
        ordered[0] if len(ordered) == 1 else ' or '.join(map(str, ordered)),
    )


def explain(
    profile: HostProfile, configuration: Configuration, path: Path
) -> str:
    """Return why the disks of a configuration are not those of bare metal.

    :param profile: host profile of the workers' hosts.
    :param configuration: configuration of the workers.
    :param path: inventory of bare-metal hosts.
    :returns: empty if the disks are the same, as far as they are known.
    :raises hvstack.errors.InputError: the inventory is not valid, or the host
        has too few disks for the configuration.
    """
    baseline = of_baseline(profile, path)
    if baseline is None:
        return ''
    guests = host_disks.of_guests(profile, configuration)
    bare_metal = host_disks.format_disks(baseline.disks, baseline.access)
    if not guests.disks:
        return (
            f'the disks of a host under {guests.access} are not known, and '
            f'are not compared with {bare_metal}'
        )
    if host_disks.are_equal(guests.disks, baseline.disks):
        return ''
    own = host_disks.format_disks(guests.disks, guests.access)
    return f'the workers of a host use {own}, not {bare_metal}: {_EXPLANATION}'


def explain_all(
    profile: HostProfile,
    configurations: Iterable[Configuration],
    path: Path,
) -> dict[str, list[str]]:
    """Return the labels of configurations by the reason of :func:`explain`.

    :param profile: host profile of the workers' hosts.
    :param configurations: configurations of a sweep.
    :param path: inventory of bare-metal hosts.
    :raises hvstack.errors.InputError: see :func:`explain`.
    """
    labels: dict[str, list[str]] = {}
    for configuration in configurations:
        if reason := explain(profile, configuration, path):
            labels.setdefault(reason, []).append(configuration.label)
    return labels
