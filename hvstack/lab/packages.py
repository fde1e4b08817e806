# SPDX-License-Identifier: Apache-2.0
"""Debian packages that the lab needs.

They stay when the lab is destroyed, with the users they made; nothing of
them is started: the lab runs its own instances with its own data.
"""

import shlex
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hvstack import errors, paths, pids, shell

#: What the control plane needs.
CONTROL = (
    'mariadb-server',
    'rabbitmq-server',
    'memcached',
    'ovn-central',
    'ovn-common',
    'openvswitch-common',
    'iproute2',
    'ca-certificates',
)
#: What building the services' virtual environment needs.
BUILD = (
    'gcc',
    'libc6-dev',
    'libvirt-dev',
    'pkg-config',
    'python3',
    'python3-dev',
    'python3-venv',
)
#: What lab hosts need.
HOSTS = (
    'openvswitch-switch',
    'ovn-host',
    'libvirt-daemon',
    'libvirt-daemon-driver-lxc',
    'libvirt-daemon-driver-qemu',
    'libvirt-clients',
    'qemu-system-x86',
    'qemu-utils',
    'busybox-static',
    'e2fsprogs',
    'ethtool',
    'genisoimage',
    'haproxy',
    'iptables',
    'util-linux',
)
#: What making guest images needs.
IMAGES = ('mmdebstrap',)
#: What reaching guests needs.
GUESTS = ('iputils-ping', 'openssh-client')
#: All that the lab needs.
ALL = (*CONTROL, *BUILD, *HOSTS, *IMAGES, *GUESTS)
#: What ``--with ceph`` needs beside: bindings for Cinder, a driver for QEMU.
CEPH = (
    'ceph-common',
    'ceph-mgr',
    'ceph-mon',
    'ceph-osd',
    'python3-rados',
    'python3-rbd',
    'qemu-block-extra',
)

_POLICY = Path('/usr/sbin/policy-rc.d')
_MARK = '# hvstack: nothing is started while packages are installed'
#: A policy is in force for as long as the process that installs packages
#: runs. Status 101 forbids an action, 0 allows it (invoke-rc.d(8)).
_SCRIPT = """#!/bin/sh
{mark}
# Left behind by a process that was killed, it has no effect.
if [ "$(cat /proc/sys/kernel/random/boot_id)" = {boot} ] &&
    [ "$(sed 's/.*) //' /proc/{pid}/stat 2>/dev/null |
        cut -d ' ' -f 20)" = {start} ]; then
    exit 101
fi
if [ -x {aside} ]; then
    exec {aside} "$@"
fi
exit 0
"""
_APT = (
    'apt-get',
    *('-o', 'DPkg::Lock::Timeout=600'),
    *('-o', 'Acquire::Retries=3'),
    *('-o', 'Dpkg::Options::=--force-confdef'),
    *('-o', 'Dpkg::Options::=--force-confold'),
)
_ENV = {'DEBIAN_FRONTEND': 'noninteractive', 'LC_ALL': 'C.UTF-8'}


def distribution() -> str | None:
    """Return ``debian`` or ``ubuntu`` (or what is like them), else None."""
    try:
        lines = (
            Path('/etc/os-release').read_text(encoding='utf-8').splitlines()
        )
    except FileNotFoundError:
        return None
    pairs = dict(line.split('=', 1) for line in lines if '=' in line)
    words = f'{pairs.get("ID", "")} {pairs.get("ID_LIKE", "")}'
    for word in words.replace('"', '').split():
        if word in ('debian', 'ubuntu'):
            return word
    return None


def needed(*, ceph: bool) -> tuple[str, ...]:
    """Return the packages that a lab needs.

    :param ceph: with Ceph.
    """
    return (*ALL, *CEPH) if ceph else ALL


def missing(names: Iterable[str]) -> list[str]:
    """Return those packages that are not installed."""
    wanted = list(names)
    query = ['dpkg-query', '-W', '-f', '${Package} ${db:Status-Status}\n']
    shown = shell.run([*query, *wanted], check=False).stdout
    installed = {
        line.split()[0]
        for line in shown.splitlines()
        if line.endswith(' installed')
    }
    return [name for name in wanted if name not in installed]


def install(names: Iterable[str]) -> list[str]:
    """Install packages that are missing.

    dpkg's lock is waited for, downloads are retried, an interrupted
    installation is finished first, and no service is started.

    :returns: the packages that were missing.
    :raises hvstack.errors.MissingPrerequisite: a package cannot be had.
    """
    wanted = missing(names)
    if not wanted:
        return []

    def fetch() -> None:
        _wait_for_dpkg(['dpkg', '--configure', '-a'])
        shell.run([*_APT, 'update', '-q'], env=_ENV, timeout=300)
        shell.run(
            [
                *_APT,
                *('install', '-q', '-y', '--no-install-recommends'),
                *wanted,
            ],
            env=_ENV,
            timeout=1500,
        )

    try:
        with nothing_starts():
            shell.retried(fetch)
    except (errors.CommandFailed, errors.DeadlineExceeded) as exc:
        raise errors.MissingPrerequisite(
            f'cannot install {", ".join(wanted)}: {exc}'
        ) from exc
    return wanted


def _wait_for_dpkg(argv: list[str]) -> None:
    # apt waits for the lock by itself, dpkg does not.
    for _ in range(120):
        done = shell.run(argv, env=_ENV, check=False, timeout=600)
        if 'lock' not in done.stderr:
            return
        time.sleep(5)


@contextmanager
def nothing_starts() -> Iterator[None]:
    """Keep packages' scripts from starting services meanwhile.

    A policy of the user's is left as it is, put aside and put back. The
    policy names this process: if it is killed, or the power fails, the
    policy has no effect any more, and services of the machine start.
    """
    if _POLICY.exists() and not _is_own():
        policy = _POLICY.read_text(encoding='utf-8')
        paths.write_whole(_aside(), policy, _POLICY.stat().st_mode & 0o777)
    process = pids.Process.current()
    values = {
        'mark': _MARK,
        'boot': process.boot,
        'pid': process.pid,
        'start': process.start,
        'aside': shlex.quote(str(_aside())),
    }
    paths.write_whole(_POLICY, _SCRIPT.format(**values), 0o755)
    try:
        yield
    finally:
        restore_policy()


def restore_policy() -> None:
    """Put back what :func:`nothing_starts` put aside, also after a crash."""
    if _is_own():
        if _aside().exists():
            _aside().replace(_POLICY)
        else:
            _POLICY.unlink()
        paths.sync_directory(_POLICY.parent)
    # Beside a policy of the user's it is an old copy.
    _aside().unlink(missing_ok=True)


def _aside() -> Path:
    return _POLICY.with_suffix('.hvstack-aside')


def _is_own() -> bool:
    return _POLICY.exists() and _MARK in _POLICY.read_text(encoding='utf-8')
