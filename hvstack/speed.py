# SPDX-License-Identifier: Apache-2.0
"""How slow this machine's CPUs are, for deadlines.

Deadlines were chosen on ordinary servers. An emulated machine is about 20
times slower, and nothing is wrong with it. ``hvstack lab up`` measures one
factor, and all deadlines of programs, waits and stages are multiplied by it.

Programs and system calls both count: under User Mode Linux, and in some
sandboxes, programs run at full speed and system calls 10 to 50 times slower.
"""

import json
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from hvstack import jsonfile, paths, pid_files

#: Seconds that :func:`_work` takes on the server where the deadlines were
#: chosen.
REFERENCE_SECONDS = 0.0075
#: Parts of the work, and how often each is repeated.
_PARTS, _ROUNDS = 20, 3
#: A machine that is less slow than this has the deadlines as they are.
_THRESHOLD = 2.0
#: A wrong measurement must not make deadlines endless.
_LIMIT = 60.0
#: Name of the factor's file in the run directory.
RECORD = Path('speed.json')


def measure() -> float:
    """Return how many times slower than the reference this machine is.

    :returns: 1.0 for a machine that is not much slower, 60.0 at most.
    """
    factor = _work() / REFERENCE_SECONDS
    return 1.0 if factor < _THRESHOLD else min(_LIMIT, round(factor, 1))


def _work() -> float:
    """Return the seconds of Python code and of system calls.

    On the reference server, the system calls take a third of the time. The
    work is done in
    parts of less than a time slice, and the shortest one counts, so that
    other programs on the machine do not. CPU time would be wrong: the kernel
    of User Mode Linux counts it in steps of 10 ms.
    """
    return _PARTS * (
        _measure_shortest(_run_program) + _measure_shortest(_call_system)
    )


def _measure_shortest(part: Callable[[], None]) -> float:
    """Return the seconds of the shortest run of a part of the work."""
    seconds = []
    for _ in range(_PARTS * _ROUNDS):
        start = time.perf_counter()
        part()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _run_program() -> None:
    counts: dict[str, int] = {}
    for index in range(3000):
        key = str(index % 100)
        counts[key] = counts.get(key, 0) + index


def _call_system() -> None:
    for _ in range(250):
        # Nothing but the system call; a path object takes as long again.
        os.lstat('/')


def record() -> float:
    """Measure the factor once in a boot, and store it for all commands.

    The services' configuration has it, too, and must not change with noise.

    :returns: the factor.
    :raises OSError: hvstack's run directory cannot be written.
    """
    value = _stored()
    if value is None:
        value = measure()
        data = {'boot': pid_files.boot(), 'factor': value}
        paths.write_whole(paths.RUN / RECORD, json.dumps(data) + '\n')
    factor.cache_clear()
    return value


def estimate() -> float:
    """Return the factor before the lab starts, without recording it.

    :returns: the recorded factor, or a measured one.
    """
    return _stored() or measure()


@cache
def factor() -> float:
    """Return the recorded factor, 1.0 if none was recorded in this boot."""
    return _stored() or 1.0


def _stored() -> float | None:
    data = jsonfile.load_if_whole(paths.RUN / RECORD)
    value = data.get('factor')
    if data.get('boot') != pid_files.boot() or not isinstance(
        value, int | float
    ):
        return None
    return max(1.0, min(_LIMIT, float(value)))
