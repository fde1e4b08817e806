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
            f'Cannot write {_LOCK}: the lab needs root. Run the command with '
            "sudo, or use your cloud with '--os-cloud NAME'."
        ) from exc
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read(20).strip() or 'unknown'
            raise errors.BusyError(
                f'Cannot change the lab: another command (pid {holder}) '
                'changes it. Wait until the command ends, or end it.'
            ) from None
        stream.truncate(0)
        stream.write(f'{os.getpid()}\n')
        stream.flush()
        # Users of services, such as mysql, read files of the lab.
        with paths.shared_umask():
            yield
