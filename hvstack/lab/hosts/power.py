# SPDX-License-Identifier: Apache-2.0
"""Power of several lab hosts at once.

Run as a program, since whoever measures does not import the lab: ``python -m
hvstack.lab.hosts.power off NAME NAME``.
"""

import sys
from collections.abc import Sequence

from hvstack import errors
from hvstack.lab import lock
from hvstack.lab.hosts import find, host, power_on
from hvstack.progress import Progress


def switch(verb: str, names: Sequence[str]) -> None:
    """Turn hosts off or on; a host that is in this state stays so.

    :param verb: ``off`` ends all processes of all hosts at once, ``on``
        starts the hosts and waits until Nova reports them as up.
    :param names: names of lab hosts.
    :raises hvstack.errors.InputError: a host does not exist.
    :raises hvstack.errors.DeadlineExceededError: a host does not come up.
    """
    sizes = [find(name) for name in names]
    with lock.exclusive():
        for size in sizes:
            if verb == 'off':
                host.power_off(size.name)
            else:
                power_on(size, Progress())


def main(argv: Sequence[str]) -> int:
    """Execute the program, and return its exit status."""
    if len(argv) < 2 or argv[0] not in ('on', 'off'):
        print('usage: power on|off NAME ...', file=sys.stderr)
        return 2
    try:
        switch(argv[0], argv[1:])
    except errors.HVStackError as exc:
        print(f'hvstack: {exc}', file=sys.stderr)
        return exc.exit_code
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
