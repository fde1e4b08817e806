# SPDX-License-Identifier: Apache-2.0
"""Where hvstack stores what outlives a process: outside of any clone.

The lab's control plane, records and journal must be found by any clone, also
after the one that made them is gone.
"""

import contextlib
import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from hvstack import errors, jsonfile


def _base(variable: str, default: str) -> Path:
    """Return a base directory of the XDG specification.

    :param variable: environment variable that names it; the specification
        ignores a relative path.
    :param default: path that applies otherwise.
    """
    path = os.environ.get(variable) or ''
    return Path(path if path.startswith('/') else default)


def _defaults() -> tuple[Path, Path, Path]:
    """Return the state, cache and run directories of this user.

    Root has one lab for the whole machine. Other users have their own
    records and journals, but no lab.
    """
    if os.geteuid() == 0:
        return (
            Path('/var/lib/hvstack'),
            Path('/var/cache/hvstack'),
            Path('/run/hvstack'),
        )
    home = os.path.expanduser('~')  # noqa: PTH111, raises nothing
    state = _base('XDG_STATE_HOME', f'{home}/.local/state') / 'hvstack'
    cache = _base('XDG_CACHE_HOME', f'{home}/.cache') / 'hvstack'
    # Without XDG_RUNTIME_DIR, the system promises no directory that only
    # this user can write to, but the state directory is one.
    return state, cache, _base('XDG_RUNTIME_DIR', f'{state}/run') / 'hvstack'


_STATE, CACHE, RUN = _defaults()
#: Everything that must survive a reboot: records, journal, the lab's data.
#: HVSTACK_STATE_DIR names another directory, hence another lab: the lab of
#: the tests never touches the databases of the user's lab. Without symbolic
#: links, as the kernel reports mounts and the files of loop devices.
STATE = Path(os.path.realpath(os.environ.get('HVSTACK_STATE_DIR') or _STATE))
#: What an administrator configures for all users: hvstack.conf, host profiles
#: and lists of keys. HVSTACK_ETC_DIR names another directory: the tests run
#: without the configuration of their machine.
ETC = Path(os.environ.get('HVSTACK_ETC_DIR') or '/etc/hvstack')
#: File by which hvstack recognizes a directory that it created.
STAMP = '.hvstack-directory.json'


def write_whole(path: Path, text: str, mode: int | None = None) -> None:
    """Write a file so that a reader sees its old or its new content.

    A regular file is replaced, and the new file survives a power failure
    when this function returns. A symbolic link stays: the file that it
    names is replaced. A character device, a FIFO and the files that
    ``/dev/stdout`` and ``/dev/fd`` name are written to and never replaced.

    :param path: the file; missing directories are created.
    :param text: the new content.
    :param mode: permission bits of the new file; None keeps the bits and the
        owner of an existing file, and uses 0644 for a new file.
    :raises OSError: no room, no permission, or a file of a type to which
        hvstack does not write (block device, socket, directory, a FIFO
        without a reader, another user's link in a shared directory).
    """
    target = _link_target(path)
    try:
        status = target.stat()
    except FileNotFoundError:
        status = None
    if status and (not stat.S_ISREG(status.st_mode) or _is_in_proc(target)):
        _write_special(target, status.st_mode, text)
        return
    make_directory(target.parent)
    handle, name = tempfile.mkstemp(
        dir=target.parent, prefix=f'.{target.name}.'
    )
    try:
        with os.fdopen(handle, 'w', encoding='utf-8') as stream:
            stream.write(text)
            stream.flush()
            if status and mode is None:
                if os.geteuid() == 0:
                    os.fchown(handle, status.st_uid, status.st_gid)
                mode = stat.S_IMODE(status.st_mode)
            os.fchmod(handle, 0o644 if mode is None else mode)
            os.fsync(handle)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_directory(target.parent)


def write_output(path: Path, text: str) -> None:
    """Write a file that the user named on the command line.

    :param path: the file, see :func:`write_whole`.
    :param text: the content.
    :raises hvstack.errors.InputError: the file cannot be written.
    """
    try:
        write_whole(path, text)
    except OSError as exc:
        raise errors.InputError(
            f'Cannot write {path}: {exc.strerror or exc}. Use another file.'
        ) from exc


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents, and sync their parents.

    The state, lab, run and cache directories get hvstack's stamp if hvstack
    creates them or if they are empty.

    :param path: the directory; it may exist.
    :raises OSError: no permission, or a parent is not a directory.
    """
    new_roots = [
        root
        for root in (STATE, STATE / 'lab', RUN, CACHE)
        if path.is_relative_to(root) and is_empty(root)
    ]
    missing = [path, *path.parents]
    while missing and missing[-1].is_dir():
        missing.pop()
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        sync_directory(directory.parent)
    for root in new_roots:
        (root / STAMP).write_text(
            json.dumps(_identity(root)) + '\n', encoding='utf-8'
        )
        sync_directory(root)


@contextlib.contextmanager
def shared_umask() -> Iterator[None]:
    """Create files and directories that other users can read.

    For what users of services and of Hadoop read, whatever umask the user of
    hvstack has. The modes that a function names still apply.
    """
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def open_lock(path: Path, mode: int = 0o666) -> TextIO:
    """Open a lock file for :func:`fcntl.flock`; create it if it is missing.

    A FIFO in its place would block this process until another one opens it.

    :param path: the lock file, in an existing directory.
    :param mode: permission bits of a new file, without those of the umask.
    :returns: a stream to read, and to append to.
    :raises hvstack.errors.InputError: it is not a regular file.
    :raises OSError: no permission, or no room.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY
    try:
        handle = os.open(path, flags | os.O_CLOEXEC, mode)
    except OSError as exc:
        if exc.errno not in (errno.EISDIR, errno.ELOOP, errno.ENXIO):
            raise
    else:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return os.fdopen(handle, 'a+', encoding='utf-8', errors='replace')
        os.close(handle)
    raise errors.InputError(
        f'Cannot lock {path}: it is not a regular file. Delete it.'
    )


def claim(path: Path) -> None:
    """Create a directory for hvstack alone, readable by its owner only.

    An empty directory is accepted, and gets hvstack's stamp.

    :param path: the directory.
    :raises hvstack.errors.InputError: it has content, and hvstack did not
        create it.
    :raises OSError: no permission, or a parent is not a directory.
    """
    if is_owned(path):
        return
    if not is_empty(path):
        raise errors.InputError(
            f'Cannot use {path}: hvstack did not create this directory, and '
            'it is not empty. Use a new directory.'
        )
    make_directory(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    (path / STAMP).write_text(
        json.dumps(_identity(path)) + '\n', encoding='utf-8'
    )
    sync_directory(path)


def is_empty(path: Path) -> bool:
    """Return whether a directory has no entries or does not exist."""
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def is_owned(path: Path) -> bool:
    """Return whether hvstack created a directory, by its stamp.

    The stamp holds the directory's path and inode number: it does not count
    in a copy of the directory, and not after the directory was moved.

    :param path: the directory.
    """
    try:
        return bool(jsonfile.load(path / STAMP).data == _identity(path))
    except (errors.InputError, OSError):
        return False


def remove_owned(path: Path) -> None:
    """Delete a directory that hvstack created, with its content.

    :param path: the directory; it may be missing.
    :raises hvstack.errors.InputError: hvstack did not create it, or a file
        in it cannot be deleted.
    """
    if not path.exists():
        return
    if not is_owned(path):
        raise errors.InputError(
            f'Cannot delete {path}: hvstack did not create this directory '
            f'(no valid {STAMP}). Delete it yourself if it is not needed.'
        )
    stamp = path / STAMP
    try:
        # The stamp goes last: an interrupted deletion can be repeated.
        for entry in path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry != stamp:
                entry.unlink()
        stamp.unlink()
        try:
            path.rmdir()
        except OSError as exc:
            # A disk of the user's is mounted there.
            if exc.errno != errno.EBUSY:
                raise
    except OSError as exc:
        raise errors.InputError(
            f'Cannot delete {exc.filename or path}: {exc.strerror}. Remove '
            'the cause, then run the command again.'
        ) from exc


def _identity(path: Path) -> dict[str, str | int]:
    """Return the content of a directory's stamp."""
    return {
        'created_by': 'hvstack',
        'path': os.path.realpath(path),
        'inode': path.stat().st_ino,
    }


def sync_directory(path: Path) -> None:
    """Write a directory's entries to its disk.

    Only after this does a created, renamed or deleted file stay so when
    the power fails.

    :param path: the directory.
    :raises OSError: the disk failed.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as exc:
        # Some network file systems do not sync directories.
        if exc.errno != errno.EINVAL:
            raise
    finally:
        os.close(handle)


def _is_in_proc(path: Path) -> bool:
    """Return whether a path names an open file of a process."""
    return Path(os.path.realpath(path.parent)).is_relative_to('/proc')


def _link_target(path: Path) -> Path:
    """Return the file to which symbolic links lead, existing or not.

    The link of an open file below ``/proc`` is returned as it is.
    """
    for _ in range(40):
        if not path.is_symlink() or _is_in_proc(path):
            return path
        link, parent = path.lstat(), path.parent.stat()
        # The kernel's rule fs.protected_symlinks, which can be off.
        shared = parent.st_mode & stat.S_ISVTX and parent.st_mode & 0o002
        if shared and link.st_uid not in (os.geteuid(), parent.st_uid):
            raise PermissionError(
                errno.EACCES,
                "it is another user's symbolic link in a shared directory",
            )
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _write_special(path: Path, mode: int, text: str) -> None:
    """Write to an existing file without replacing or shortening it."""
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise OSError(errno.EINVAL, 'it is a block device or a socket')
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK
    try:
        handle = os.open(path, flags)
    except OSError as exc:
        if exc.errno == errno.ENXIO:
            raise OSError(exc.errno, 'no process reads this FIFO') from exc
        raise
    os.set_blocking(handle, True)
    with os.fdopen(handle, 'w', encoding='utf-8') as stream:
        stream.write(text)
