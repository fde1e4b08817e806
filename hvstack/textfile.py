# SPDX-License-Identifier: Apache-2.0
"""Reading text files that others wrote: regular, of a sane size, UTF-8."""

import os
import re
import stat
from pathlib import Path

from hvstack import errors

#: Size limit of a file in bytes, unless a caller knows better.
MAX_BYTES = 16 * 1024 * 1024

_TYPES = {
    stat.S_IFIFO: 'a FIFO',
    stat.S_IFSOCK: 'a socket',
    stat.S_IFCHR: 'a character device',
    stat.S_IFBLK: 'a block device',
    stat.S_IFDIR: 'a directory',
}
#: Control characters of ASCII and Latin-1 except tab and line feed, lone
#: surrogates, and characters that change the direction of the text.
_UNPRINTABLE = re.compile(
    '[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]'
)
#: Translation of bytes that makes all digits the same.
_SAME_DIGIT = bytes.maketrans(b'0123456789', b'0000000000')


class MissingFileError(errors.InputError):
    """A file that was named does not exist."""


def read(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a regular file.

    A FIFO without a writer, a device without an end and a file that would
    fill the memory are refused before anything is read.

    :param path: the file; symbolic links are followed.
    :param max_bytes: size limit.
    :raises MissingFileError: the file does not exist.
    :raises hvstack.errors.InputError: the file is not regular, too large,
        not readable, or not UTF-8.
    """
    try:
        status = path.stat()
        _check(path, status, max_bytes)
        # Between the two looks the file may have been replaced.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, 'rb') as stream:
            status = os.fstat(handle)
            _check(path, status, max_bytes)
            # The size saves a buffer of max_bytes; files of procfs have none.
            content = stream.read(status.st_size + 1)
            if len(content) > status.st_size:
                content += stream.read(max_bytes + 1 - len(content))
    except FileNotFoundError as exc:
        raise MissingFileError(
            f'Cannot read {path}: the file does not exist. Use another file.'
        ) from exc
    except (OSError, ValueError) as exc:
        reason = getattr(exc, 'strerror', None) or 'not the name of a file'
        raise errors.InputError(
            f'Cannot read {path}: {reason}. Use a readable file.'
        ) from exc
    if len(content) > max_bytes:
        raise _too_large(path, max_bytes)
    try:
        text = content.decode('utf-8')
    except UnicodeDecodeError as exc:
        line = content.count(b'\n', 0, exc.start) + 1
        raise errors.InputError(
            f'{path}:{line}: Cannot read the text: it is not UTF-8 from byte '
            f'{exc.start} on. Save the file as UTF-8.'
        ) from exc
    return text


def is_regular(path: Path) -> bool:
    """Return whether a path names a regular file.

    A path that cannot name a file, such as one that is too long, names
    none.
    """
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def has_digits(text: str, count: int) -> bool:
    """Return whether a text has a number of ASCII digits without a gap.

    It is much faster than a search with a regular expression.

    :param count: minimum number of digits.
    """
    digits = text.encode(errors='replace').translate(_SAME_DIGIT)
    return b'0' * count in digits


def printable(text: str) -> str:
    r"""Return a text that cannot control a terminal.

    Control characters become escapes such as ``\x1b``.
    """
    return _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f'\\x{code:02x}' if code < 256 else f'\\u{code:04x}'


def _check(path: Path, status: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        name = _TYPES.get(stat.S_IFMT(status.st_mode), 'not a file')
        raise errors.InputError(
            f'Cannot read {path}: {name}, not a regular file. Use a regular '
            'file.'
        )
    if status.st_size > max_bytes:
        raise _too_large(path, max_bytes)


def _too_large(path: Path, max_bytes: int) -> errors.InputError:
    return errors.InputError(
        f'Cannot read {path}: larger than {max_bytes} bytes. Use a smaller '
        'file.'
    )
