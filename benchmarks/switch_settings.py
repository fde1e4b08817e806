# SPDX-License-Identifier: Apache-2.0
"""Settings of the switches of the lab's hosts, for nested.py and others.

``LAB`` is what the lab sets up: receive buffers of 16 MiB and the priority
that ovs-ctl gives ovs-vswitchd. ``USUAL`` is what Open vSwitch has when it
starts by itself: receive buffers of 212,992 bytes, the default of the kernel,
and the usual priority.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hvstack import interrupts
from hvstack.lab import venv
from hvstack.lab.hosts import host, switch_setup

#: The hosts run it with the Python of the services, as they run
#: switch_setup.py. Each thread has a priority of its own.
_PROGRAM = """\
import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import switch_setup

pid = int(switch_setup.PID_FILE.read_text(encoding='ascii'))
for _, connection in switch_setup.open_packet_sockets(pid, set()):
    connection.setsockopt(
        socket.SOL_SOCKET, switch_setup._SO_RCVBUFFORCE, int(sys.argv[2])
    )
for task in Path(f'/proc/{pid}/task').iterdir():
    os.setpriority(os.PRIO_PROCESS, int(task.name), int(sys.argv[3]))
"""


@dataclass(frozen=True)
class SwitchSettings:
    """Settings of a switch.

    :param buffer_bytes: receive buffer of each port, as setsockopt(2) gets it.
    :param priority: "nice" value of ovs-vswitchd.
    """

    buffer_bytes: int
    priority: int

    def __str__(self) -> str:
        """Return the settings for people."""
        return f'{self.buffer_bytes} bytes, priority {self.priority}'


LAB = SwitchSettings(switch_setup.BUFFER_BYTES, -10)
#: The default of net.core.rmem_default. The kernel doubles what a program
#: sets (socket(7)), but not its default.
USUAL = SwitchSettings(212_992 // 2, 0)


def change(chosen: SwitchSettings) -> None:
    """Change the switches of all hosts; later ports have large buffers.

    :param chosen: settings of all switches.
    :raises hvstack.errors.CommandError: a host is off.
    """
    for name in host.list_names():
        host.enter(
            name,
            *(venv.program('python'), '-I', '-S', '-c', _PROGRAM),
            str(Path(switch_setup.__file__).parent),
            *(str(chosen.buffer_bytes), str(chosen.priority)),
        )


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Restore the settings of the lab in the end, and after Ctrl-C."""
    try:
        yield
    finally:
        with interrupts.deferred('hvstack is restoring the switches'):
            change(LAB)
