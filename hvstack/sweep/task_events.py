# SPDX-License-Identifier: Apache-2.0
"""Events of a Rally process: JSON lines on a pipe to its parent process.

Rally's output is for its log. The parent gets messages and saved records from
a pipe that the Rally process inherits. A Rally task that a user starts has no
such pipe, and a pipe that is lost never affects a measurement.
"""

import contextlib
import functools
import json
import os
import stat
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass

from hvstack import errors
from hvstack.model.strict_mapping import Fields, to_dataclass

#: Variable with the file descriptor and the inode of the pipe. The inode
#: proves that the descriptor is not that of another file, as in the variable
#: JOURNAL_STREAM of systemd.
VARIABLE = 'HVSTACK_EVENTS'


@dataclass(frozen=True)
class Message:
    """A line of text for the user."""

    text: str


@dataclass(frozen=True)
class SavedRecord:
    """A run record that was saved.

    :param id: ID of the record.
    :param configuration: full name of the configuration, or ``bare-metal``.
    :param index: index of the run.
    :param valid: whether the run is valid.
    """

    id: str
    configuration: str
    index: int
    valid: bool


Event = Message | SavedRecord
_KINDS: dict[str, type[Message] | type[SavedRecord]] = {
    'message': Message,
    'record': SavedRecord,
}


def parse_event(line: str) -> Event | None:
    """Return the event of a line; None for a line that is not an event."""
    try:
        data = json.loads(line)
        fields = Fields(data, VARIABLE, None)
        kind = _KINDS[fields.choice('event', _KINDS)]
        return to_dataclass(kind, data, VARIABLE, ignored=('event',))
    except (ValueError, TypeError, RecursionError, errors.InputError):
        return None


class EventPipe:
    """The end of the pipe that a Rally process writes to.

    :param descriptor: file descriptor of the pipe; None writes nothing.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = descriptor
        self._is_line_torn = False

    def send(self, event: Event) -> None:
        """Write an event, or drop it if the pipe is full or closed."""
        if self._descriptor is None:
            return
        name = next(
            name for name, kind in _KINDS.items() if isinstance(event, kind)
        )
        text = json.dumps({'event': name, **asdict(event)}) + '\n'
        # The line after a torn line must be readable.
        line = b'\n' * self._is_line_torn + text.encode()
        try:
            self._is_line_torn = os.write(self._descriptor, line) < len(line)
        except BlockingIOError:
            pass
        except OSError:
            self._descriptor = None


def format_variable(descriptor: int) -> str:
    """Return the value of the variable for a pipe."""
    return f'{descriptor}:{os.fstat(descriptor).st_ino}'


def open_pipe(env: MutableMapping[str, str]) -> EventPipe:
    """Return the inherited pipe, and remove its variable.

    :param env: environment variables of the process.
    :returns: a pipe that writes nothing if the process has inherited none.
    """
    number, _, inode = env.pop(VARIABLE, '').partition(':')
    with contextlib.suppress(OSError, ValueError, OverflowError):
        descriptor = int(number)
        status = os.fstat(descriptor)
        if stat.S_ISFIFO(status.st_mode) and inode == f'{status.st_ino}':
            # A parent that is suspended must not suspend the measurement, and
            # programs of this process must not keep the pipe open.
            os.set_blocking(descriptor, False)
            os.set_inheritable(descriptor, False)
            return EventPipe(descriptor)
    return EventPipe()


@functools.cache
def get_process_pipe() -> EventPipe:
    """Return the inherited pipe of this process, which is opened once.

    A process whose start was refused starts again with the next workload, and
    needs the same pipe.
    """
    return open_pipe(os.environ)
