# SPDX-License-Identifier: Apache-2.0
"""The clock of a run, which no setting of the machine's clock changes.

NTP may set the machine's clock during a run. The times of phases and samples
would then not fit each other, and the record would contradict itself. The
clock of a run starts with the time of the machine, and counts the seconds of
a clock that is never set. It includes the time for which the machine is
suspended.
"""

import time


def _read_boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


#: Unix time at the start of the run, and seconds since boot.
_start = (time.time(), _read_boot_seconds())


def start() -> None:
    """Set the clock to the time of the machine; a process has one run."""
    global _start
    _start = (time.time(), _read_boot_seconds())


def now() -> float:
    """Return the Unix time."""
    started_at, boot_seconds = _start
    return started_at + _read_boot_seconds() - boot_seconds
