# SPDX-License-Identifier: Apache-2.0
"""Waiting until nodes' disks are idle: no run writes back the one before."""

import re
import time
from collections.abc import Sequence

from hvstack.hadoop.daemon_http import Runner, run_on_nodes

#: Whole disks; what lies on them (dm, md, partitions) would count twice. Of
#: NVMe disks with several paths, Linux before 6.2 counts the paths (nvme0c0n1)
#: and not the disk (nvme0n1). Later versions count both, which is accurate
#: enough for a threshold.
_WHOLE = re.compile(
    r'^ *\d+ +\d+ (?:(?:s|v|xv|h)d[a-z]+|nvme\d+(?:c\d+)?n\d+|mmcblk\d+) '
    r'(?:\d+ ){6}(?P<written>\d+) ',
    re.MULTILINE,
)
#: As /proc/diskstats counts, whatever the disk's own are.
_SECTOR_BYTES = 512
#: What an operating system writes by itself; in a lab all hosts see the disks
#: of the machine, on which databases are as well.
IDLE_BYTES = 1024 * 1024
QUIET_SECONDS = 3.0
MOST_SECONDS = 30.0


def wait_until_idle(
    nodes: Sequence[Runner],
    *,
    quiet: float = QUIET_SECONDS,
    max_seconds: float = MOST_SECONDS,
    interval: float = 1.0,
) -> str:
    """Wait until no node's disks are written to for some seconds.

    Less than :data:`IDLE_BYTES` a second is none. Nodes that show no disks
    are not waited for.

    :param quiet: for how long, in seconds.
    :param max_seconds: seconds to wait.
    :param interval: seconds between two looks.
    :returns: which node still writes and how much; nothing if none does.
    :raises hvstack.errors.HVStackError: a node cannot be inspected.
    """
    begin = since = last = time.monotonic()
    before = _written(nodes)
    while any(before):
        time.sleep(interval)
        after, now = _written(nodes), time.monotonic()
        rates = [
            (new - old) / (now - last)
            for new, old in zip(after, before, strict=True)
        ]
        busiest = max(rates)
        if busiest > IDLE_BYTES:
            since = now
        elif now - since >= quiet:
            break
        if now - begin >= max_seconds:
            name = getattr(nodes[rates.index(busiest)], 'name', 'a node')
            return (
                f'disks of {name} were still written to with '
                f'{busiest / 1e6:.1f} MB/s after {max_seconds:.0f} s'
            )
        before, last = after, now
    return ''


def _written(nodes: Sequence[Runner]) -> list[int]:
    """Return bytes written to each node's disks since it started."""
    results = run_on_nodes(
        nodes, 'cat /proc/diskstats', timeout=60, check=False
    )
    return [
        _SECTOR_BYTES
        * sum(
            int(match['written']) for match in _WHOLE.finditer(result.stdout)
        )
        for result in results
    ]
