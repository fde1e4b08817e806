# SPDX-License-Identifier: Apache-2.0
"""Read-only checks of a machine and its lab, each with its remedy."""

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hvstack import errors, paths, speed
from hvstack.lab import (
    bridges,
    ceph,
    clouds_yaml,
    constants,
    lifecycle,
    lvm,
    neighbours,
    packages,
    port_conflicts,
    process_cgroup,
    requirements,
    services,
    settings,
    supervisord,
    venv,
)
from hvstack.lab.hosts import cgroups, host, sizes
from hvstack.lab.settings import LabSettings


@dataclass(frozen=True)
class LabDiagnosis:
    """What a check saw.

    :param check: what was inspected.
    :param state: ``ok``, ``note`` or ``fault``.
    :param detail: what was seen.
    :param remedy: what to do; empty where all is well.
    """

    check: str
    state: str
    detail: str
    remedy: str = ''


def examine() -> list[LabDiagnosis]:
    """Run every check; none of them changes anything."""
    findings: list[LabDiagnosis] = []
    for check in _CHECKS:
        try:
            findings += check()
        except errors.HVStackError as exc:
            name = check.__name__.strip('_').replace('_', ' ')
            findings.append(
                LabDiagnosis(name, 'fault', str(exc), 'see the message')
            )
    return findings


def _machine() -> Iterator[LabDiagnosis]:
    root = os.geteuid() == 0
    yield LabDiagnosis(
        'root',
        'ok' if root else 'fault',
        f'user id {os.geteuid()}',
        '' if root else "use sudo, or a cloud of your own with '--os-cloud'",
    )
    architecture = platform.machine()
    is_supported = architecture == requirements.ARCHITECTURE
    yield LabDiagnosis(
        'architecture',
        'ok' if is_supported else 'fault',
        architecture,
        ''
        if is_supported
        else f'use a machine with {requirements.ARCHITECTURE}',
    )
    yield _release()
    yield _memory()
    needed = requirements.needed_gib(settings.load() or LabSettings())
    for directory in (paths.STATE, paths.CACHE):
        free = requirements.free_gib(directory)
        enough = free >= needed
        yield LabDiagnosis(
            f'disk {directory}',
            'ok' if enough else 'fault',
            f'{free:.0f} GiB free',
            '' if enough else f'free up to {needed} GiB there',
        )


def _release() -> LabDiagnosis:
    release = packages.release()
    if release is None:
        return LabDiagnosis(
            'distribution',
            'fault',
            'neither Debian nor Ubuntu',
            f'use a machine with {packages.tested_releases()}',
        )
    if not release.is_tried:
        return LabDiagnosis(
            'distribution',
            'note',
            f'{release.title}: hvstack was never tried on it',
            f'use {packages.tested_releases()}, or '
            "'hvstack lab up --untested'",
        )
    return LabDiagnosis('distribution', 'ok', release.title)


def _memory() -> LabDiagnosis:
    memory = sizes.machine_mib()
    lab_settings = settings.load() or LabSettings()
    hosts = lab_settings.hosts
    count = sizes.largest_count(memory)
    needed = sizes.minimum_mib(hosts, lab_settings.controllers)
    detail = f'{memory / 1024:.1f} GiB, {os.cpu_count()} cores'
    if memory >= needed:
        return LabDiagnosis('memory', 'ok', detail)
    shortage = f'{detail}; {hosts} hosts need {needed / 1024:.2f} GiB'
    if count:
        return LabDiagnosis(
            'memory', 'note', shortage, f"'hvstack lab up --hosts {count}'"
        )
    return LabDiagnosis(
        'memory',
        'fault',
        shortage,
        f'use a machine with {sizes.minimum_mib(1) / 1024:.2f} GiB or more, '
        "and 'hvstack lab up --hosts 1'",
    )


def _kernel() -> Iterator[LabDiagnosis]:
    try:
        cgroups.check()
    except errors.MissingPrerequisiteError as exc:
        yield LabDiagnosis('cgroups', 'fault', str(exc), 'see the message')
    else:
        units = ', hosts are units of systemd' if cgroups.has_units() else ''
        yield LabDiagnosis(
            'cgroups', 'ok', f'version {cgroups.version()}{units}'
        )
    try:
        requirements.check_switch()
    except errors.MissingPrerequisiteError as exc:
        yield LabDiagnosis(
            'Open vSwitch', 'fault', str(exc), 'see the message'
        )
    factor = speed.measure()
    yield LabDiagnosis(
        'CPU',
        'ok' if factor == 1 else 'note',
        'as fast as an ordinary server, or nearly'
        if factor == 1
        else f'{factor:g} times slower than an ordinary server',
        ''
        if factor == 1
        else 'deadlines are longer by this factor; figures mean nothing',
    )
    kvm = Path('/dev/kvm').exists()
    yield LabDiagnosis(
        '/dev/kvm',
        'ok' if kvm else 'note',
        'there; lab up probes it' if kvm else 'missing',
        '' if kvm else 'guests are containers (lxc), or emulated (qemu)',
    )


def _software() -> Iterator[LabDiagnosis]:
    lacking = packages.installable(
        packages.needed(ceph=settings.has_ceph(), lvm=settings.has_lvm())
    )
    yield LabDiagnosis(
        'packages',
        'note' if lacking else 'ok',
        f'missing: {" ".join(lacking)}' if lacking else 'all installed',
        "'hvstack lab up' installs them" if lacking else '',
    )
    ready = venv.ready()
    yield LabDiagnosis(
        "services' environment",
        'ok' if ready else 'note',
        str(venv.directory()) if ready else 'not built',
        '' if ready else "'hvstack lab up' builds it",
    )


def _ports() -> Iterator[LabDiagnosis]:
    conflicts = port_conflicts.conflicts(
        port_conflicts.listeners(),
        process_cgroup.members(),
        port_conflicts.needed(
            ceph=settings.has_ceph(), lvm=settings.has_lvm()
        ),
    )
    for service, listener in conflicts:
        yield LabDiagnosis(
            f'port {listener.port} ({service})',
            'fault',
            f"taken by '{listener.name}', pid {listener.pid or 'unknown'}",
            'stop that program',
        )
    if not conflicts:
        yield LabDiagnosis(
            'ports', 'ok', 'no foreign program on a needed port'
        )


def _proxy() -> Iterator[LabDiagnosis]:
    name = requirements.find_proxy()
    if name:
        yield LabDiagnosis(
            'proxy',
            'fault',
            f'{name} is set, and no_proxy lacks {constants.MGMT}',
            requirements.PROXY_REMEDY,
        )


def _neighbours() -> Iterator[LabDiagnosis]:
    """Check what else on the machine can interfere with a lab."""
    for neighbour in neighbours.examine():
        yield LabDiagnosis(
            neighbour.subject, 'note', neighbour.effect, neighbour.remedy
        )


def _lab() -> Iterator[LabDiagnosis]:
    owner = lifecycle.owner()
    if settings.load() is None and owner is None:
        yield LabDiagnosis(
            'lab', 'note', 'none yet', "start it: 'hvstack lab up'"
        )
        return
    if owner is not None and owner != paths.STATE:
        yield LabDiagnosis(
            'lab',
            'note',
            f'the one that runs belongs to {owner}',
            f"use it with HVSTACK_STATE_DIR={owner}, or 'hvstack lab up'",
        )
        return
    if not supervisord.alive():
        orphans = len(process_cgroup.members())
        yield LabDiagnosis(
            'lab',
            'fault' if orphans else 'note',
            f'stopped; {orphans} programs without supervisor'
            if orphans
            else 'stopped',
            "start it: 'hvstack lab up'",
        )
        return
    for part in lifecycle.parts():
        well = part.state == 'RUNNING'
        yield LabDiagnosis(
            part.name,
            'ok' if well else 'fault',
            f'{part.state}, {part.pss_mib:.0f} MiB',
            ''
            if well
            else f"read {settings.log_path(part.name)}, then 'hvstack lab up'",
        )
    has_bridges = bridges.up()
    yield LabDiagnosis(
        'bridges',
        'ok' if has_bridges else 'fault',
        ', '.join(constants.BRIDGES) if has_bridges else 'missing',
        '' if has_bridges else "'hvstack lab up' makes them",
    )
    yield _packet_filter()


def _packet_filter() -> LabDiagnosis:
    if bridges.is_filtered():
        return LabDiagnosis(
            'packet filter', 'ok', 'guests reach public ports only'
        )
    # A kernel without nftables cannot have it.
    untested = (settings.load() or LabSettings()).untested
    return LabDiagnosis(
        'packet filter',
        'note' if untested else 'fault',
        "missing: guests reach the control plane's internal ports",
        "'hvstack lab up' makes it",
    )


def _ceph() -> Iterator[LabDiagnosis]:
    if not settings.has_ceph() or not supervisord.alive():
        return
    well = ceph.clean()
    look = f'ceph --conf {services.CEPH_CONF.target} health detail'
    yield LabDiagnosis(
        'Ceph',
        'ok' if well else 'fault',
        'all disks and copies there' if well else 'a disk or copy is missing',
        '' if well else f"'hvstack lab up', then look with: {look}",
    )


def _volumes() -> Iterator[LabDiagnosis]:
    """Check the local disks of the hosts and their cinder-volume."""
    if not settings.has_lvm() or not supervisord.alive():
        return
    for name, reason in lvm.list_hosts().items():
        yield LabDiagnosis(
            f'local volumes of {name}',
            'fault' if reason else 'ok',
            reason or f'volume groups for {", ".join(constants.LOCAL_SLOTS)}',
            f'read {host.directory(name)}/log/cinder-volume.log, then '
            f"'hvstack lab host off {name}' and 'hvstack lab host on {name}'"
            if reason
            else '',
        )


def _clouds() -> Iterator[LabDiagnosis]:
    if settings.load() is None or not clouds_yaml.OURS.exists():
        return
    older = clouds_yaml.in_users_file()
    detail, remedy = f'{clouds_yaml.OURS} has the clouds of the lab', ''
    if older is not None:
        path, names = older
        detail = f'{path} has {" and ".join(names)}, too'
        remedy = (
            f'delete these entries, which an older hvstack wrote, from {path}'
        )
    yield LabDiagnosis(
        'clouds.yaml', 'fault' if older else 'ok', detail, remedy
    )


_CHECKS: tuple[Callable[[], Iterator[LabDiagnosis]], ...] = (
    _machine,
    _kernel,
    _software,
    _ports,
    _proxy,
    _neighbours,
    _lab,
    _ceph,
    _volumes,
    _clouds,
)
