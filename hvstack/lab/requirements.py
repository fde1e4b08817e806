# SPDX-License-Identifier: Apache-2.0
"""Check whether a machine can run a lab."""

import os
import platform
import shutil
import stat
from pathlib import Path

import requests

from hvstack import errors, paths
from hvstack.lab import constants, kernel_modules, packages, settings, venv
from hvstack.lab.hosts import cgroups, sizes, switch_setup
from hvstack.lab.settings import LabSettings

#: Architecture of guests, as the kernel names it.
ARCHITECTURE = 'x86_64'
#: Free disk space that a new lab and its guests need, in GiB.
DISK_GIB = 15
#: Free disk space that a lab needs which has used its own already, in GiB.
_REMAINING_DISK_GIB = 2
#: Command that lets programs reach the lab without a proxy.
PROXY_REMEDY = f'\'export no_proxy="$no_proxy,{constants.MGMT}"\''
_HINT = "or use your cloud with '--os-cloud NAME'"


def check(lab_settings: LabSettings) -> None:
    """Refuse a machine that cannot carry a lab, before anything is changed.

    :param lab_settings: settings of the lab.
    :raises hvstack.errors.MissingPrerequisiteError: with the remedy.
    """
    check_root()
    machine = platform.machine()
    if machine != ARCHITECTURE:
        raise errors.MissingPrerequisiteError(
            f'Cannot start the lab ({machine}): its guest images and kernels '
            f'are for {ARCHITECTURE}. Use such a machine, {_HINT}.'
        )
    release = packages.release()
    if release is None:
        raise errors.MissingPrerequisiteError(
            f'Cannot start the lab: it needs {packages.tested_releases()}. '
            f'Use such a machine, {_HINT}.'
        )
    if not release.is_tried and not lab_settings.untested:
        raise errors.MissingPrerequisiteError(
            f'Cannot bring up the lab ({release.title}): hvstack was never '
            f'tried on this release, only on {packages.tested_releases()}. '
            'Use one of these, or add --untested to try it with the names of '
            f'packages of the newest of them, {_HINT}.'
        )
    needed = (
        sizes.minimum_mib(lab_settings.hosts, lab_settings.controllers) / 1024
    )
    memory = sizes.machine_mib() / 1024
    if memory < needed:
        count = sizes.largest_count(sizes.machine_mib())
        remedy = f'Use --hosts {count}' if count else 'Use a larger machine'
        raise errors.MissingPrerequisiteError(
            f'Cannot bring up {lab_settings.hosts} lab hosts: they need '
            f'{needed:.2f} GiB of memory and this machine has {memory:.2f}. '
            f'{remedy}, {_HINT}.'
        )
    cgroups.check()
    check_switch()
    check_proxy()
    check_path()
    check_disk(lab_settings)
    if lab_settings.lvm:
        kernel_modules.check()


def check_root() -> None:
    """Refuse users who cannot use a lab: its directories are those of root.

    :raises hvstack.errors.MissingPrerequisiteError: the user is not root.
    """
    if os.geteuid() != 0:
        raise errors.MissingPrerequisiteError(
            'Cannot use the lab: it needs root. Run the command with sudo, '
            f'{_HINT}.'
        )


def check_switch() -> None:
    """Refuse a kernel on which the hosts' switches would drop packets.

    :raises hvstack.errors.MissingPrerequisiteError: the system call
        pidfd_getfd is missing.
    """
    try:
        switch_setup.check_kernel()
    except OSError as exc:
        raise errors.MissingPrerequisiteError(
            f'Cannot enlarge the buffers of Open vSwitch (pidfd_getfd, kernel '
            f'{os.uname().release}): {exc.strerror}. Use Linux 5.6 or newer, '
            f'outside a container that forbids this system call, {_HINT}.'
        ) from exc


def find_proxy() -> str:
    """Return the variable with a proxy for requests to the lab; or nothing.

    The proxy does not know the address, which only this machine has.
    """
    url = constants.url('keystone')
    proxies = requests.utils.get_environ_proxies(url)
    if requests.utils.select_proxy(url, proxies) is None:
        return ''
    names = ('http_proxy', 'HTTP_PROXY', 'all_proxy', 'ALL_PROXY')
    return next((name for name in names if os.environ.get(name)), 'proxy')


def check_proxy() -> None:
    """Refuse an environment in which a proxy gets the requests to the lab.

    :raises hvstack.errors.MissingPrerequisiteError: with the remedy.
    """
    name = find_proxy()
    if name:
        raise errors.MissingPrerequisiteError(
            f'Cannot start the lab ({name}): requests to its services would '
            f'go to the proxy. Run {PROXY_REMEDY}, also before other commands '
            'for the lab.'
        )


def check_path() -> None:
    """Refuse a directory of the lab that the users of services cannot enter.

    Database, message queue and Ceph run as users of their own. Directories
    that hvstack created are opened later.

    :raises hvstack.errors.MissingPrerequisiteError: a directory above it is
        private.
    """
    lab = settings.LAB.absolute()
    for directory in (*reversed(lab.parents), lab):
        if not directory.is_dir():
            return
        mode = stat.S_IMODE(directory.stat().st_mode)
        if mode & stat.S_IXOTH or paths.is_owned(directory):
            continue
        raise errors.MissingPrerequisiteError(
            f'Cannot use {lab} for the lab: the users of its database and of '
            f'its message queue cannot enter {directory} (mode {mode:o}). Set '
            'HVSTACK_STATE_DIR to a directory that all users can enter, such '
            'as /srv/hvstack.'
        )


def check_disk(lab_settings: LabSettings) -> None:
    """Refuse to continue where the disk is nearly full.

    :param lab_settings: settings of the lab.
    :raises hvstack.errors.MissingPrerequisiteError: a directory has too
        little free space.
    """
    needed = needed_gib(lab_settings)
    for directory in (paths.STATE, paths.CACHE):
        free = free_gib(directory)
        if free < needed:
            raise errors.MissingPrerequisiteError(
                f'Cannot start the lab: {directory} has {free:.1f} GiB of '
                f'free disk space, and the lab needs {needed} GiB. Free '
                'disk space, or mount a larger disk there.'
            )


def needed_gib(lab_settings: LabSettings) -> int:
    """Return the free space, in GiB, that the lab needs from now on.

    :param lab_settings: settings that the lab is to have.
    """
    before = settings.load()
    if before is None or not venv.ready() or _adds(before, lab_settings):
        return DISK_GIB
    return _REMAINING_DISK_GIB


def _adds(before: LabSettings, after: LabSettings) -> bool:
    """Tell whether a lab gets hosts or services, which use more space."""
    return after.hosts > before.hosts or any(
        getattr(after, name) and not getattr(before, name)
        for name in settings.EXTRAS
    )


def free_gib(directory: Path) -> float:
    """Return the free space, in GiB, where a directory is or will be."""
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(directory).free / 2**30
