# SPDX-License-Identifier: Apache-2.0
"""Bringing the whole lab up, stopping it, removing it, looking at it."""

import contextlib
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hvstack import conf, errors, jsonfile, paths, speed, textfile
from hvstack.lab import (
    bridges,
    ceph,
    clouds_yaml,
    control_plane,
    hosts,
    lock,
    lvm,
    packages,
    process_cgroup,
    remains,
    services,
    settings,
    stages,
    supervisord,
    systemd,
    unmount,
)
from hvstack.lab.images import builder
from hvstack.lab.settings import LabSettings
from hvstack.lab.stages import Stage
from hvstack.model.strict_mapping import Fields
from hvstack.progress import Progress

#: Says which state directory the running lab belongs to.
_RUNNING = paths.RUN / 'lab.json'
_CLIENT_CONFIG = f'[cloud]\nos_cloud = {clouds_yaml.ADMIN_CLOUD}\n'
#: Users that packages of the lab's made, and that stay with them.
PACKAGE_USERS = (
    'ceph',
    'epmd',
    'libvirt-qemu',
    'memcache',
    'mysql',
    'openvswitch',
    'rabbitmq',
)


@dataclass(frozen=True)
class ServiceStatus:
    """One line of the lab's status.

    :param name: the program.
    :param state: supervisord's word, or ``NOT ANSWERING`` for an API.
    :param pid: its process, 0 if it does not run.
    :param pss_mib: memory of it and its children, in MiB; shared pages are
        divided among those that share them.
    :param uptime: seconds since it was started.
    """

    name: str
    state: str
    pid: int
    pss_mib: float
    uptime: int


def owner() -> Path | None:
    """Return the state directory of the lab that runs, or ran till a crash.

    :raises hvstack.errors.InputError: the file that names it is damaged.
    """
    try:
        document = jsonfile.load(_RUNNING)
        state = Fields(document.data, document.source_location(), ('state',))
        return Path(os.path.realpath(state.text('state')))
    except textfile.MissingFileError:
        return None
    except errors.InputError as exc:
        reason = str(exc).removesuffix('.')
        raise errors.InputError(
            f'Cannot read which lab runs: {reason}. Delete {_RUNNING} if no '
            'lab runs.'
        ) from exc


def up(
    change: Callable[[LabSettings], LabSettings],
    progress: Progress,
    after_packages: Callable[[LabSettings], None] | None = None,
) -> None:
    """Bring the lab up, or change a running one.

    A lab of hvstack's with another state directory is stopped first; its data
    stays.

    :param change: makes the new settings from those of before.
    :param after_packages: function that is called when the packages are
        installed, such as to begin what needs no control plane; None for
        none.
    :raises hvstack.errors.HVStackError: a stage failed; running it again
        continues there.
    """
    if os.geteuid() == 0:
        other = owner()
        if other is not None and other != paths.STATE:
            progress.say(f'stopping the lab of {other}, its data stays')
            _elsewhere(other, 'down')
    with lock.exclusive():
        before = settings.load()
        lab_settings = change(before or LabSettings())
        plan = [
            *control_plane.plan(
                lab_settings,
                progress,
                before=lambda: _begin(lab_settings, progress),
                after_packages=after_packages
                and functools.partial(after_packages, lab_settings),
                storage=[
                    *ceph.plan(lab_settings, progress),
                    *lvm.plan(lab_settings),
                ],
            ),
            Stage('hosts', 900, lambda: hosts.up(lab_settings, progress)),
            *lvm.plan_types(lab_settings),
            Stage('hvstack.conf', 30, _configure_client),
        ]
        try:
            stages.run(plan, progress)
        except (
            errors.BusyError,
            errors.InputError,
            errors.MissingPrerequisiteError,
        ):
            # Refused, not interrupted: the lab is still what it was.
            if before is not None:
                settings.save(before)
            raise


def _begin(lab_settings: LabSettings, progress: Progress) -> None:
    # Refuses what can be known to be impossible now, not minutes later.
    _check_lab_directory()
    hosts.planned(lab_settings, probing=False)
    lvm.check_change(lab_settings)
    settings.check_release(lab_settings)
    settings.save(lab_settings)
    record = {'state': str(paths.STATE)}
    paths.write_whole(_RUNNING, json.dumps(record) + '\n')
    factor = speed.record()
    if factor > 1:
        progress.say(
            f'this machine is {factor:g} times slower than an ordinary '
            f'server: all deadlines are {factor:g} times longer'
        )


def _check_lab_directory() -> None:
    """Refuse a directory that another program filled.

    :raises hvstack.errors.InputError: the directory has content, and hvstack
        did not create it.
    """
    is_lab = paths.is_owned(settings.LAB) or settings.load() is not None
    if not is_lab and not paths.is_empty(settings.LAB):
        raise errors.InputError(
            f'Cannot use {settings.LAB} for the lab: hvstack did not create '
            'this directory, and it is not empty. Set HVSTACK_STATE_DIR to '
            'another directory.'
        )


def _configure_client() -> None:
    """Make the lab the cloud of hvstack, unless another file names a cloud."""
    paths.write_whole(conf.LAB_FILE, _CLIENT_CONFIG)
    _remove_client_config()


def _remove_client_config() -> None:
    """Delete the hvstack.conf of an older release, unless it was changed.

    It overrides that of an administrator.
    """
    path = paths.STATE / 'hvstack.conf'
    if path.is_file() and path.read_text(encoding='utf-8') == _CLIENT_CONFIG:
        path.unlink()


def _elsewhere(state: Path, *args: str) -> None:
    """Run a lab command for another state directory."""
    code = 'import sys; from hvstack.cli.app import main; sys.exit(main())'
    done = subprocess.run(
        [sys.executable, '-c', code, 'lab', *args],
        env={**os.environ, 'HVSTACK_STATE_DIR': str(state)},
        check=False,
    )
    if done.returncode:
        raise errors.CommandError(
            ['hvstack', 'lab', *args],
            done.returncode,
            f'see above (HVSTACK_STATE_DIR={state})',
        )


def down(progress: Progress) -> None:
    """Stop the lab that runs on this machine and keep all its data.

    Works on what a crash left as well.
    """
    other = owner()
    if other is not None and other != paths.STATE:
        progress.say(f'the lab that runs is that of {other}')
        _elsewhere(other, 'down')
        return
    with lock.exclusive():
        _stop(progress)


def _stop(progress: Progress) -> None:
    lab_settings = settings.load() or LabSettings()
    failed: errors.HVStackError | None = None
    with progress.stage('stopping hosts'):
        try:
            hosts.down(lab_settings)
        except errors.HVStackError as exc:
            # The control plane must not continue running because of it.
            failed = exc
    with progress.stage('stopping the control plane'):
        control_plane.stop()
        systemd.stop_slice()
        bridges.remove()
        packages.restore_policy()
        _RUNNING.unlink(missing_ok=True)
        try:
            packages.finish_interrupted()
        except errors.HVStackError as exc:
            failed = failed or exc
    if failed:
        raise failed


def destroy(
    progress: Progress, *, keep_cache: bool = False, records: bool = False
) -> list[str]:
    """Remove the lab with all its data.

    Run records, keys and the journal of other clouds stay.

    :param keep_cache: keep images and the services' environment, which
        would have to be made again.
    :param records: delete the whole state directory, too.
    :returns: what stays on the machine, a line each.
    :raises hvstack.errors.InputError: the records are to be deleted, and the
        journal names changes on another cloud, or hvstack did not create the
        state directory; nothing was removed.
    """
    other = owner()
    is_own = other is None or other == paths.STATE
    with lock.exclusive():
        if records:
            remains.check_records()
        kernel_lines = lvm.stays()
        if is_own:
            try:
                _stop(progress)
            except errors.HVStackError as exc:
                progress.warn(f'continuing: {exc}')
            settings_before = settings.load() or LabSettings()
            with progress.stage('removing what hosts left'):
                hosts.destroy(settings_before)
        with progress.stage('removing files'):
            _remove_client_config()
            try:
                remains.forget_lab()
            except errors.InputError as exc:
                progress.warn(f'continuing: {exc}')
            # Without marks, a lab that was deleted in part begins again.
            stages.forget()
            lines = _remove(settings.LAB)
            names = {path.name for path in remains.state_entries()}
            if records or names == {paths.STAMP}:
                lines += _remove(paths.STATE)
            # The lab of another state directory uses the same one.
            keep_cache = keep_cache or not is_own
            if not keep_cache:
                lines += _remove(paths.CACHE)
            if is_own:
                lines += _remove_run()
    return [*lines, *stays(keep_cache=keep_cache), *kernel_lines]


def _remove(directory: Path) -> list[str]:
    """Delete a directory that hvstack created.

    :returns: the reason, if it could not be deleted.
    """
    try:
        if paths.is_owned(directory):
            unmount.release(directory)
        paths.remove_owned(directory)
    except errors.HVStackError as exc:
        return [str(exc)]
    return []


def _remove_run() -> list[str]:
    """Delete the run directory, also the empty one of an older release."""
    if not paths.is_owned(paths.RUN):
        lock.remove()
        (paths.RUN / speed.RECORD).unlink(missing_ok=True)
        for name in ('ceph', 'cgroups', 'mysql', ''):
            with contextlib.suppress(OSError):
                (paths.RUN / name).rmdir()
    return _remove(paths.RUN)


def stays(*, keep_cache: bool) -> list[str]:
    """Return the packages and users that remain after the lab."""
    every = (*packages.needed(ceph=True, lvm=True), *builder.PACKAGES)
    installed = sorted(set(every) - set(packages.missing(every)))
    existing_users = {
        line.partition(':')[0]
        for line in Path('/etc/passwd')
        .read_text(encoding='utf-8', errors='replace')
        .splitlines()
    }
    users = [name for name in PACKAGE_USERS if name in existing_users]
    lines = [
        f'packages that stay: {" ".join(installed) or "none"}',
        f'users of the packages that stay: {" ".join(users) or "none"}',
    ]
    older = clouds_yaml.in_users_file()
    if older is not None:
        path, entries = older
        lines.append(
            f'entries of the lab that stay in {path}, because hvstack never '
            f'changes this file: {" ".join(entries)}'
        )
    if keep_cache and paths.CACHE.exists():
        lines.append(f'cache that stays: {paths.CACHE}')
    names = [path.name for path in remains.state_entries()]
    if set(names) - {paths.STAMP}:
        lines.append(f'records that stay in {paths.STATE}: {" ".join(names)}')
    return lines


def parts() -> list[ServiceStatus]:
    """Return the state of every program of the control plane."""
    states = supervisord.status()
    memory = _memory()
    lab_parts = []
    for service in services.everything():
        state = states.get(service.name)
        if state is None:
            lab_parts.append(ServiceStatus(service.name, 'STOPPED', 0, 0.0, 0))
            continue
        word = state.state
        if word == 'RUNNING' and not control_plane.api_answers(service):
            word = 'NOT ANSWERING'
        family = _family(state.pid) if state.pid else set()
        pss = sum(memory.get(pid, 0.0) for pid in family)
        lab_parts.append(
            ServiceStatus(
                service.name, word, state.pid, round(pss, 1), state.uptime
            )
        )
    return lab_parts


def control_pss() -> float:
    """Return the control plane's memory in MiB, supervisord included.

    Fake computes run beside it and are not counted.
    """
    service_names = {service.name for service in services.everything()}
    others: set[int] = set()
    for name, state in supervisord.status().items():
        if name not in service_names and state.pid:
            others |= _family(state.pid)
    memory = _memory()
    return round(
        sum(pss for pid, pss in memory.items() if pid not in others), 1
    )


def _memory() -> dict[int, float]:
    mib_by_pid = {}
    for pid in process_cgroup.members():
        try:
            text = Path(f'/proc/{pid}/smaps_rollup').read_text(
                encoding='utf-8'
            )
        except OSError:
            continue
        for line in text.splitlines():
            if line.startswith('Pss:'):
                mib_by_pid[pid] = int(line.split()[1]) / 1024
    return mib_by_pid


def _family(pid: int) -> set[int]:
    """Return a process and all its descendants."""
    family, todo = set(), [pid]
    while todo:
        member = todo.pop()
        family.add(member)
        for task in Path(f'/proc/{member}/task').glob('*/children'):
            try:
                todo += [
                    int(word)
                    for word in task.read_text(encoding='utf-8').split()
                ]
            except OSError:
                continue
    return family
