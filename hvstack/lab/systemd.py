# SPDX-License-Identifier: Apache-2.0
"""Where systemd is PID 1: the slice with everything that hvstack runs."""

import contextlib
from pathlib import Path

from hvstack import processutils

#: Unit above all units of hvstack.
SLICE = 'hvstack.slice'
#: Unit of supervisord and the control plane.
CONTROL_UNIT = 'hvstack-lab.service'

_CGROUPS = Path('/sys/fs/cgroup')
_RUNNING = Path('/run/systemd/system')
#: Where 'systemctl set-property --runtime' stores the weight of the slice.
_WEIGHT = Path(f'/run/systemd/system.control/{SLICE}.d/50-CPUWeight.conf')


def owns_cgroups() -> bool:
    """Tell whether systemd is PID 1 and owns a version 2 cgroup tree."""
    return _RUNNING.is_dir() and (_CGROUPS / 'cgroup.controllers').exists()


def directory(unit: str) -> Path:
    """Return the cgroup of a unit in hvstack's slice."""
    return _CGROUPS / SLICE / unit


def stop_slice() -> None:
    """Stop the slice with all units in it, which are hvstack's.

    systemd keeps an empty slice otherwise, and its CPU weight, which runs
    have set with ``--runtime``. Drop-ins of an administrator stay. Does
    nothing without systemd.
    """
    if not owns_cgroups():
        return
    processutils.run(['systemctl', 'stop', SLICE], check=False)
    if _WEIGHT.exists():
        _WEIGHT.unlink()
        # Not empty if another property was set.
        with contextlib.suppress(OSError):
            _WEIGHT.parent.rmdir()
        processutils.run(['systemctl', 'daemon-reload'], check=False)
