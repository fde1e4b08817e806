# SPDX-License-Identifier: Apache-2.0
"""Ceph in the lab: a monitor, a manager and disks (OSDs).

The disks are sparse files of BlueStore's. The first three have a pool each, by
a device class and a CRUSH rule of their own, so that a volume of the type
``disk-slot-2`` has all its bytes on one known disk; the pool ``ceph`` spreads
over all of them.
"""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hvstack import errors, paths, processutils
from hvstack.lab import (
    child_process,
    constants,
    control_plane,
    database,
    pools,
    services,
    settings,
    stages,
    supervisord,
)
from hvstack.lab.settings import LabSettings
from hvstack.lab.stages import Stage
from hvstack.progress import Progress

CEPH = settings.LAB / 'ceph'
#: Placement groups of a pool: a few gigabytes need no more.
_GROUPS = '8'
#: Says that Ceph may have been started.
_MARK = 'ceph'
#: Volumes that servers have; asked of the database, Cinder need not run.
_ATTACHED = (
    'SELECT DISTINCT volume_id FROM cinder.volume_attachment '
    "WHERE deleted = 0 AND attach_status = 'attached';"
)


def plan(lab_settings: LabSettings, progress: Progress) -> list[Stage]:
    """Return the stages that start Ceph, or remove an earlier Ceph."""
    if lab_settings.ceph:
        return [Stage('Ceph', 300, lambda: up(lab_settings, progress))]
    if stages.marked(_MARK) is None:
        return []
    return [Stage('taking Ceph away', 120, leave)]


def up(lab_settings: LabSettings, progress: Progress) -> None:
    """Bring Ceph up with its pools; what is done already is left alone.

    :raises hvstack.errors.BusyError: see :func:`check_removed_pools`.
    :raises hvstack.errors.CommandError: a program of Ceph's failed.
    :raises hvstack.errors.DeadlineExceededError: one does not answer.
    """
    check_removed_pools(lab_settings)
    stages.mark(_MARK)
    _make_directories()
    _monitor()
    monitors, disks = services.ceph_monitors(), services.ceph_osds()
    control_plane.launch(monitors)
    _import_keys()
    for index in range(settings.OSDS):
        _disk(index)
    control_plane.launch(disks)
    layout = commands(lab_settings)
    if stages.marked('ceph-layout') != json.dumps(layout):
        control_plane.wait(disks[-1].name, lambda: _disks_up(_status()), 120)
        if lab_settings.ceph_layouts:
            _extend_crush_map()
        for args in layout:
            ceph(*args)
        stages.mark('ceph-layout', json.dumps(layout))
    control_plane.wait(monitors[0].name, clean, 120)
    if lab_settings.ceph_copies == 1:
        progress.say(
            f"pool '{pools.SHARED_POOL}' keeps one copy of each object: "
            'for benchmarks only, a lost disk loses data'
        )


def leave() -> None:
    """Stop Ceph and Cinder in a lab that is to be without; data stays.

    :raises hvstack.errors.BusyError: servers have volumes; they are named.
    """
    _check_detached('Ceph')
    names = [
        service.name for service in (*services.cinder(), *services.ceph())
    ]
    control_plane.halt(names)
    for name in names:
        supervisord.remove(name)
    stages.unmark(_MARK)


def check_removed_pools(lab_settings: LabSettings) -> None:
    """Refuse to remove pools of layouts while servers have volumes.

    Cinder may use its pools only: servers could not write to the others.

    :raises hvstack.errors.BusyError: servers have volumes; they are named.
    """
    before = json.loads(stages.marked('ceph-layout') or '[]')
    names = {args[3] for args in before if args[1:3] == ['pool', 'create']}
    removed = names - {pool.name for pool in pools.list_pools(lab_settings)}
    if removed:
        _check_detached(f'pools ({", ".join(sorted(removed))})')


def _check_detached(removed: str) -> None:
    if stages.marked('schema:cinder') is None:
        return
    attached = database.sql(_ATTACHED).split()
    if attached:
        raise errors.BusyError(
            f'Cannot remove {removed} from the lab: servers have attached '
            f'volumes ({", ".join(attached)}). Delete these servers first.'
        )


def _make_directories() -> None:
    for directory in (CEPH, CEPH / 'crash', CEPH / 'mgr', paths.RUN / 'ceph'):
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o750)
        _own(directory)


def _own(path: Path) -> None:
    shutil.chown(path, services.CEPH_USER, services.CEPH_USER)


def _is_created(directory: Path) -> bool:
    return stages.marked(f'made:{directory}') is not None


def _make(directory: Path, *argv: str) -> None:
    """Make a daemon's data; an interrupted try is thrown away."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    _own(directory.parent)
    _own(directory)
    user = services.CEPH_USER
    child_process.run(
        [
            *argv,
            '--mkfs',
            *('--conf', str(services.CEPH_CONF.target)),
            *('--setuser', user, '--setgroup', user),
        ],
        timeout=120,
    )
    stages.mark(f'made:{directory}')


def _monitor() -> None:
    directory = CEPH / 'mon'
    if not _is_created(directory):
        keys = str(services.CEPH_KEYS.target)
        _make(directory, 'ceph-mon', '--id', 'a', '--keyring', keys)


def _disk(index: int) -> None:
    directory = CEPH / 'osd' / str(index)
    if _is_created(directory):
        return
    monitor = services.ceph_monitors()[0].name
    control_plane.wait(monitor, lambda: _status() is not None, 60)
    identity = constants.generated_uuid(f'ceph_osd_{index}')
    # Ceph hands out numbers: ask for this one before its data is made.
    ceph('osd', 'new', identity, str(index))
    _make(directory, 'ceph-osd', '--id', str(index), '--osd-uuid', identity)


def _import_keys() -> None:
    """Give Ceph the keys and permissions of its daemons and clients.

    Those of the monitor's first start lack later disks and pools.
    """
    keys = services.CEPH_KEYS.target
    version = hashlib.sha256(keys.read_bytes()).hexdigest()
    if stages.marked('ceph-keys') != version:
        monitor = services.ceph_monitors()[0].name
        control_plane.wait(monitor, lambda: _status() is not None, 60)
        ceph('auth', 'import', '-i', str(keys))
        stages.mark('ceph-keys', version)


def _extend_crush_map() -> None:
    """Add the rules of all layouts to the CRUSH map."""
    with tempfile.TemporaryDirectory() as directory:
        binary, text = Path(directory, 'binary'), Path(directory, 'text')
        ceph('osd', 'getcrushmap', '-o', str(binary))
        processutils.run(['crushtool', '-d', str(binary), '-o', str(text)])
        before = text.read_text(encoding='utf-8')
        after = pools.extend_crush_map(before)
        if after != before:
            text.write_text(after, encoding='utf-8')
            processutils.run(['crushtool', '-c', str(text), '-o', str(binary)])
            ceph('osd', 'setcrushmap', '-i', str(binary))


def commands(lab_settings: LabSettings) -> list[tuple[str, ...]]:
    """Return idempotent commands that create the layout of disks and pools.

    The rules of the pools of :data:`hvstack.lab.settings.CEPH_LAYOUTS` are in
    the CRUSH map.
    """
    layout: list[tuple[str, ...]] = []
    crush = ('osd', 'crush')
    for index, slot in enumerate(pools.SLOTS):
        osd = f'osd.{index}'
        layout += [
            (*crush, 'set-device-class', slot, osd),
            (
                *crush,
                'rule',
                'create-replicated',
                slot,
                'default',
                'osd',
                slot,
            ),
        ]
    for pool in pools.list_pools(lab_settings):
        layout += _pool(pool.name, pool.rule, pool.copies)
    return layout


def _pool(name: str, rule: str, copies: int) -> list[tuple[str, ...]]:
    pool = ('osd', 'pool')
    # Ceph asks whether one copy is meant.
    sure = ('--yes-i-really-mean-it',) if copies == 1 else ()
    return [
        (*pool, 'create', name, _GROUPS, _GROUPS, 'replicated', rule),
        (*pool, 'set', name, 'size', str(copies), *sure),
        (*pool, 'application', 'enable', name, 'rbd'),
    ]


def ceph(*args: str, timeout: float = 60) -> str:
    """Run a command of Ceph's as its administrator; return its output.

    :raises hvstack.errors.CommandError: Ceph refuses.
    :raises hvstack.errors.DeadlineExceededError: Ceph does not answer.
    """
    conf = str(services.CEPH_CONF.target)
    return processutils.run(
        ['ceph', '--conf', conf, '--connect-timeout', '10', *args],
        timeout=timeout,
    ).stdout


def _status() -> dict[str, Any] | None:
    """Return the status of Ceph, or None if it does not answer."""
    try:
        status: dict[str, Any] = json.loads(ceph('status', '--format', 'json'))
    except (errors.CommandError, errors.DeadlineExceededError):
        return None
    return status


def _disks_up(status: dict[str, Any] | None) -> bool:
    return bool(status and status['osdmap']['num_up_osds'] == settings.OSDS)


def clean() -> bool:
    """Tell whether all disks are up, and all copies on them."""
    status = _status()
    if status is None or not _disks_up(status):
        return False
    groups = status['pgmap']
    clean = sum(
        entry['count']
        for entry in groups.get('pgs_by_state', ())
        if entry['state_name'] == 'active+clean'
    )
    return bool(clean == groups['num_pgs'] > 0)
