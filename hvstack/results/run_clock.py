# SPDX-License-Identifier: Apache-2.0
"""The clock of a run, which no setting of the machine's clock changes.

NTP may set the machine's clock during a run. The times of phases and samples
would then not fit each other, and the record would contradict itself. The
clock of a run starts with the time of the machine, and counts the seconds of
a clock that is never set. It includes the time for which the machine is
suspended.
"""

import time

from hvstack.results.selfcheck import AHEAD


def _read_boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


#: Unix time at the start of the run, and seconds since boot.
_start = (time.time(), _read_boot_seconds())


def start(earliest: float = 0.0) -> None:
    """Set the clock to the time of the machine; a process has one run.

    If the clock of the machine was set back after the last run of the sweep,
    this run would overlap with it in the records, and both would count as
    forged.

    :param earliest: Unix time of the end of the last run. The clock is not
        set to a time that readers of the record regard as the future.
    """
    global _start
    started_at = time.time()
    if earliest - started_at <= AHEAD.total_seconds():
        started_at = max(started_at, earliest)
    _start = (started_at, _read_boot_seconds())


def now() -> float:
    """Return the Unix time."""
    started_at, boot_seconds = _start
    return started_at + _read_boot_seconds() - boot_seconds
