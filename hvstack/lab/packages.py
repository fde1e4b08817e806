# SPDX-License-Identifier: Apache-2.0
"""Debian packages that the lab needs.

Their names are data, per release, in ``share/lab/packages.yaml``. They stay
when the lab is destroyed, with the users they made; nothing of them is
started: the lab runs its own instances with its own data.
"""

import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hvstack import (
    errors,
    jsonfile,
    paths,
    pid_files,
    processutils,
    share,
    shell_scripts,
)

_POLICY = Path('/usr/sbin/policy-rc.d')
#: What an installation that runs, or was killed, changes.
_RECORD = paths.STATE / 'installation.json'
_MARK = '# hvstack: nothing is started while packages are installed'
_APT = (
    'apt-get',
    *('-o', 'DPkg::Lock::Timeout=600'),
    *('-o', 'Acquire::Retries=3'),
    *('-o', 'Dpkg::Options::=--force-confdef'),
    *('-o', 'Dpkg::Options::=--force-confold'),
)
_CONFIGURE = ['dpkg', '--configure', '-a']
#: Packages that a package of the lab replaces with the same programs.
_REPLACED = {'busybox'}
_ENV = {'DEBIAN_FRONTEND': 'noninteractive', 'LC_ALL': 'C.UTF-8'}

#: Message of dpkg about one of its locks (lib/dpkg/dbmodify.c).
_LOCKED = re.compile(
    r'^dpkg: error: dpkg .*(is|was) locked by another process', re.MULTILINE
)


@dataclass(frozen=True)
class Release:
    """A release of a distribution, as ``/etc/os-release`` names it.

    :param distribution: ``debian`` or ``ubuntu``, also for what is derived
        from them.
    :param version: version number, empty if the file has none.
    :param title: name for people.
    """

    distribution: str
    version: str
    title: str

    @property
    def is_tried(self) -> bool:
        """Whether hvstack was tried on this release."""
        return f'{self.distribution}-{self.version}' in _data()['releases']


def release(path: Path = Path('/etc/os-release')) -> Release | None:
    """Return the machine's release; None if it is not like Debian's.

    :param path: the file to read.
    """
    try:
        lines = path.read_text(encoding='utf-8').splitlines()
    except FileNotFoundError:
        return None
    pairs = {
        key: value.strip('"')
        for line in lines
        if '=' in line
        for key, value in [line.split('=', 1)]
    }
    identity = pairs.get('ID', '')
    names = [identity, *pairs.get('ID_LIKE', '').split()]
    for name in names:
        if name in ('debian', 'ubuntu'):
            # The version of what is derived from Debian is not Debian's.
            version = pairs.get('VERSION_ID', '') if name == identity else ''
            return Release(name, version, pairs.get('PRETTY_NAME', name))
    return None


@cache
def _data() -> dict[str, Any]:
    """Return the packages by group, and what releases have differently."""
    text = (share.LAB / 'packages.yaml').read_text(encoding='utf-8')
    data: dict[str, Any] = yaml.safe_load(text)
    return data


def tested_releases() -> str:
    """Return the names of all releases that hvstack was tried on."""
    return ', '.join(entry['title'] for entry in _data()['releases'].values())


def needed(
    *, ceph: bool, lvm: bool = False, on: Release | None = None
) -> tuple[str, ...]:
    """Return the packages that a lab needs.

    :param ceph: with Ceph.
    :param lvm: with LVM.
    :param on: release to name them for; None is the machine's. A release
        that was never tried has the names of the newest one that was.
    """
    data = _data()
    optional = {'ceph': ceph, 'lvm': lvm}
    names = [
        name
        for group, members in data['packages'].items()
        if optional.get(group, True)
        for name in members
    ]
    return (*names, *_additional(on or release()))


def _additional(on: Release | None) -> tuple[str, ...]:
    """Return the packages that a release needs besides those of all."""
    releases: dict[str, Any] = _data()['releases']
    key = f'{on.distribution}-{on.version}' if on else ''
    entry = releases.get(key) or list(releases.values())[-1]
    return tuple(entry.get('additional', ()))


def missing(names: Iterable[str]) -> list[str]:
    """Return those packages that are not installed."""
    requested = list(names)
    query = ['dpkg-query', '-W', '-f', '${Package} ${db:Status-Status}\n']
    output = processutils.run([*query, *requested], check=False).stdout
    installed = {
        line.split()[0]
        for line in output.splitlines()
        if line.endswith(' installed')
    }
    return [name for name in requested if name not in installed]


def installable(names: Iterable[str]) -> list[str]:
    """Return the missing packages, as far as the machine's release has them.

    A release that was never tried may have the programs of a package that the
    newest release needs additionally in another one.
    """
    missing_names = missing(names)
    on = release()
    if on is None or on.is_tried:
        return missing_names
    doubtful = set(_additional(on)) & set(missing_names)
    if not doubtful:
        return missing_names
    output = processutils.run(
        ['apt-cache', 'show', *sorted(doubtful)], env=_ENV, check=False
    ).stdout
    available = set(re.findall(r'^Package: (\S+)', output, re.MULTILINE))
    return [
        name
        for name in missing_names
        if name not in doubtful or name in available
    ]


def install(names: Iterable[str]) -> list[str]:
    """Install packages that are missing.

    dpkg's lock is waited for, downloads are retried, an interrupted
    installation is finished first, and no service is started, now or at the
    next boot.

    :returns: the packages that were missing.
    :raises hvstack.errors.MissingPrerequisiteError: a package cannot be had.
    """
    if release() is None:
        raise errors.MissingPrerequisiteError(
            'Cannot install packages: this machine has no Debian or Ubuntu. '
            'Use another machine.'
        )
    names = tuple(names)
    finish_interrupted()
    missing_names = installable(names)
    if not missing_names:
        return []
    before = enabled_units()

    def fetch() -> None:
        _wait_for_dpkg(_CONFIGURE)
        processutils.run([*_APT, 'update', '-q'], env=_ENV, timeout=300)
        # Of a release that was never tried, apt may know more packages now.
        missing_names.extend(
            sorted(set(installable(names)) - {*missing_names})
        )
        install = ['install', '-q', '-y', '--no-install-recommends']
        _record_installation(before, [*install, '--simulate', *missing_names])
        processutils.run(
            [*_APT, *install, *missing_names], env=_ENV, timeout=1500
        )

    try:
        with nothing_starts():
            processutils.retried(fetch)
    except (errors.CommandError, errors.DeadlineExceededError) as exc:
        raise errors.MissingPrerequisiteError(
            f'Cannot install {", ".join(missing_names)}: '
            f'{str(exc).removesuffix(".")}. Check the package sources, then '
            'run the command again.'
        ) from exc
    finally:
        # The next installation would find them enabled before it begins.
        # Others may have enabled units of other packages meanwhile.
        record = jsonfile.load_if_whole(_RECORD)
        units = enabled_units() - before
        disable_units(units & _list_units(record.get('packages', [])))
        _RECORD.unlink(missing_ok=True)
    return missing_names


def _record_installation(before: Iterable[str], args: Iterable[str]) -> None:
    """Write down what an installation changes, in case that it is killed.

    :param before: units that are enabled before it.
    :param args: arguments of apt-get that simulate it.
    :raises hvstack.errors.MissingPrerequisiteError: it would remove packages.
    """
    text = processutils.run([*_APT, *args], env=_ENV, timeout=300).stdout
    removed = set(re.findall(r'^Remv (\S+)', text, re.MULTILINE)) - _REPLACED
    if removed:
        raise errors.MissingPrerequisiteError(
            'Cannot install the packages of the lab: apt-get would remove '
            f'{", ".join(sorted(removed))}, which conflicts with them. Remove '
            'it yourself if you do not need it, or use another machine.'
        )
    # An earlier try may have installed a part.
    earlier = jsonfile.load_if_whole(_RECORD).get('packages', [])
    record = {
        'enabled': sorted(before),
        # Inst NAME (VERSION SUITE [ARCHITECTURE])
        'packages': earlier + re.findall(r'^Inst (\S+)', text, re.MULTILINE),
    }
    paths.make_directory(_RECORD.parent)
    paths.write_whole(_RECORD, json.dumps(record, indent=1) + '\n')


def finish_interrupted() -> None:
    """Disable the units of packages whose installation was killed.

    It waits for apt-get and dpkg, which may still run. Units that others
    enabled meanwhile stay as they are.

    :raises hvstack.errors.CommandError: systemctl failed.
    """
    record = jsonfile.load_if_whole(_RECORD)
    # Other users than root build images, too.
    if record and os.access(_POLICY.parent, os.W_OK):
        with nothing_starts():
            _wait_for_dpkg(_CONFIGURE)
        units = enabled_units() - set(record['enabled'])
        disable_units(units & _list_units(record['packages']))
        _RECORD.unlink()


def _list_units(names: Iterable[str]) -> set[str]:
    """Return the units of systemd that packages contain."""
    names = list(names)
    if not names:
        return set()
    text = processutils.run(['dpkg-query', '-L', *names], check=False).stdout
    return {
        line.rpartition('/')[2]
        for line in text.splitlines()
        if '/systemd/system/' in line
    }


def enabled_units(root: Path = Path('/')) -> set[str]:
    """Return the services and sockets that systemd starts at a boot.

    :param root: root directory of the system; systemd need not run.
    """
    if not shutil.which('systemctl'):
        return set()
    text = processutils.run(
        [
            *('systemctl', f'--root={root}', 'list-unit-files'),
            *('--state=enabled', '--no-legend', '--no-pager'),
        ],
        check=False,
    ).stdout
    units = {line.split()[0] for line in text.splitlines() if line.strip()}
    return {unit for unit in units if unit.endswith(('.service', '.socket'))}


def disable_units(units: Iterable[str], root: Path = Path('/')) -> None:
    """Keep services of installed packages from starting at the next boot.

    The lab runs its own instances, which need the ports.

    :param units: services and sockets that the packages enabled.
    :param root: root directory of the system.
    """
    names = sorted(units)
    if names:
        processutils.run(['systemctl', f'--root={root}', 'disable', *names])


def _wait_for_dpkg(argv: list[str]) -> None:
    # apt waits for the lock by itself, dpkg does not.
    for _ in range(120):
        done = processutils.run(argv, env=_ENV, check=False, timeout=600)
        if not _LOCKED.search(done.stderr):
            return
        time.sleep(5)


@contextmanager
def nothing_starts() -> Iterator[None]:
    """Keep packages' scripts from starting services meanwhile.

    A policy of the user's is left as it is, put aside and restored. The
    policy names this process: if it is killed, or the power fails, the
    policy has no effect any more, and services of the machine start.
    """
    if os.path.lexists(_POLICY) and not _is_own():
        # It can be a link of update-alternatives, and a binary.
        _aside().unlink(missing_ok=True)
        shutil.copy2(_POLICY, _aside(), follow_symlinks=False)
        paths.sync_directory(_POLICY.parent)
    process = pid_files.Process.current()
    policy = (
        f'#!/bin/sh\n{_MARK}\nboot={process.boot} pid={process.pid} '
        f'start={process.start} aside={shlex.quote(str(_aside()))}\n'
        f'{shell_scripts.load("policy-rc.d")}'
    )
    # Not to the file that a link leads to.
    new_file = _POLICY.with_suffix('.hvstack-new')
    paths.write_whole(new_file, policy, 0o755)
    new_file.replace(_POLICY)
    try:
        yield
    finally:
        restore_policy()


def restore_policy() -> None:
    """Restore what :func:`nothing_starts` put aside, also after a crash."""
    if _is_own():
        if os.path.lexists(_aside()):
            _aside().replace(_POLICY)
        else:
            _POLICY.unlink()
        paths.sync_directory(_POLICY.parent)
    # Beside a policy of the user's it is an old copy.
    _aside().unlink(missing_ok=True)


def _aside() -> Path:
    return _POLICY.with_suffix('.hvstack-aside')


def _is_own() -> bool:
    return _POLICY.is_file() and _MARK.encode() in _POLICY.read_bytes()
