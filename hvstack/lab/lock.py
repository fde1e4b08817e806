# SPDX-License-Identifier: Apache-2.0
"""One command at a time changes the lab of a machine."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from hvstack import errors, paths

_LOCK = paths.RUN / 'lab.lock'


def remove() -> None:
    """Delete the lock file, while this process holds the lock."""
    _LOCK.unlink(missing_ok=True)


@contextmanager
def exclusive() -> Iterator[None]:
    """Hold the machine-wide lock.

    The kernel drops it with the process, so it is never stale.

    :raises hvstack.errors.BusyError: another command holds it; with its pid.
    :raises hvstack.errors.MissingPrerequisiteError: only root may.
    """
    try:
        paths.make_directory(paths.RUN)
        stream = paths.open_lock(_LOCK, 0o600)
    except PermissionError as exc:
        raise errors.MissingPrerequisiteError(
            f'{_LOCK} cannot be written: the lab needs root, run the command '
            "with sudo, or use a cloud of your own with '--os-cloud NAME'"
        ) from exc
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read(20).strip() or 'unknown'
            raise errors.BusyError(
                f"another command changes this machine's lab (pid {holder}): "
                'wait for it, or end it'
            ) from None
        stream.truncate(0)
        stream.write(f'{os.getpid()}\n')
        stream.flush()
        yield
