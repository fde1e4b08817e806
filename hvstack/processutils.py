# SPDX-License-Identifier: Apache-2.0
"""Running programs: one function, one error, deadlines everywhere."""

import contextlib
import logging
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hvstack import errors, speed, textfile

LOG = logging.getLogger(__name__)

#: How many trailing lines of a failed program's output an error carries.
TAIL_LINES = 15
#: Seconds in which the output of a program that was killed ends.
_PIPE_SECONDS = 5.0
#: Length of a command line in the log.
_LOGGED = 200
#: Colours that programs print even where no terminal reads them.
_COLOURS = re.compile(r'\x1b\[[0-9;]*m')
#: Directories of programs such as losetup, nft and mke2fs.
_ADMIN_PATH = ('/usr/local/sbin', '/usr/sbin', '/sbin')
#: Linux' account of CPU time.
_STAT = Path('/proc/stat')


@dataclass(frozen=True)
class Result:
    """What a program printed and how it ended.

    :param returncode: exit status; negative for a signal.
    :param stdout: standard output as text.
    :param stderr: standard error as text.
    """

    returncode: int
    stdout: str
    stderr: str


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a text, without colours."""
    plain = _COLOURS.sub('', text).rstrip()
    return '\n'.join(plain.splitlines()[-lines:])


def search_path() -> str:
    """Return the directories of programs, also those for administrators.

    A shell that 'su' starts, and jobs of cron, have a PATH without them. Such
    a directory that PATH lacks comes last.
    """
    directories = os.get_exec_path()
    missing = [name for name in _ADMIN_PATH if name not in directories]
    return os.pathsep.join([*directories, *missing])


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout: float = 600,
    check: bool = True,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    display_argv: Sequence[str] | None = None,
    on_timeout: Callable[[], float] | None = None,
) -> Result:
    """Run a program to its end.

    The program gets a session of its own, so that a deadline or Ctrl-C ends
    its children too.

    :param argv: the program and its arguments; no shell is involved.
    :param timeout: seconds it may take on an ordinary server, by
        :func:`clock`; multiplied by :func:`hvstack.speed.factor`.
    :param check: raise if it exits with another status than 0.
    :param stdin: text for its standard input; none otherwise.
    :param env: variables added to this process' environment, and to
        :func:`search_path`.
    :param cwd: directory to run in.
    :param display_argv: what to name in errors and in the log instead of
        ``argv``, where that holds a secret.
    :param on_timeout: function that is called when the time is over, and
        returns how many more seconds the program may take; 0 kills it. None
        kills it at once.
    :raises hvstack.errors.CommandError: it failed, or cannot be started.
    :raises hvstack.errors.DeadlineExceededError: it took too long; it was
        killed.
    """
    args = [os.fspath(word) for word in argv]
    names = list(display_argv or args)
    timeout *= speed.factor()
    started_at = time.monotonic()
    try:
        process = subprocess.Popen(
            args,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding='utf-8',
            errors='replace',
            env={**os.environ, 'PATH': search_path(), **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as exc:
        raise errors.CommandError(names, 127, str(exc)) from exc
    try:
        out, err = _communicate(process, stdin, timeout, on_timeout)
    except subprocess.TimeoutExpired:
        _kill_session(process)
        out, err = _collect_output(process)
        seconds = time.monotonic() - started_at if on_timeout else timeout
        output = tail(err) or tail(out) or 'it printed nothing'
        raise errors.DeadlineExceededError(
            f"'{' '.join(names)[:200]}' did not end within {seconds:.0f} s: "
            f'{output.removesuffix(".")}.'
        ) from None
    except BaseException:
        _kill_session(process)
        process.wait()
        raise
    result = Result(process.returncode, out, err)
    LOG.debug(
        'Program exited with status %d after %.1f s: %s',
        result.returncode,
        time.monotonic() - started_at,
        textfile.printable(' '.join(' '.join(names).split())[:_LOGGED]),
    )
    if check and result.returncode != 0:
        raise errors.CommandError(
            names, result.returncode, tail(err) or tail(out)
        )
    return result


def clock() -> float:
    """Return the seconds that this machine had its CPUs, for deadlines.

    A hypervisor that runs others on the same CPUs takes them away for a part
    of the time, on a busy one for most of it: everything on this machine is
    late by that, and nothing is wrong with it. That part, ``steal`` of all
    CPUs together (man 5 proc_stat), does not count. Without steal, and where
    the kernel does not count it, this is a monotonic clock.
    """
    now = time.monotonic()
    try:
        total, *each = [
            line.split()
            for line in _STAT.read_text(encoding='utf-8').splitlines()
            if line.startswith('cpu')
        ]
        stolen = int(total[8]) / os.sysconf('SC_CLK_TCK') / len(each)
    except (OSError, ValueError, IndexError, ZeroDivisionError):
        return now
    return now - stolen


def retried(
    action: Callable[[], object], *, pauses: Sequence[float] = (5, 5)
) -> None:
    """Do what may fail for reasons that pass, such as a download.

    Each failure is logged as a warning, so that no second try is silent. The
    deadline of a stage is not caught.

    :param action: runs programs.
    :param pauses: seconds to wait before each further try.
    :raises hvstack.errors.CommandError: the last try failed too.
    :raises hvstack.errors.DeadlineExceededError: the last try took too long.
    """
    for pause in (*pauses, None):
        try:
            action()
            return
        except (errors.CommandError, errors.DeadlineExceededError) as exc:
            if pause is None:
                raise
            LOG.warning('%s; trying again in %.0f s', exc, pause)
            time.sleep(pause)


def _communicate(
    process: subprocess.Popen[str],
    stdin: str | None,
    timeout: float,
    on_timeout: Callable[[], float] | None,
) -> tuple[str, str]:
    end = clock() + timeout
    remaining_seconds = timeout
    while True:
        try:
            return process.communicate(stdin, timeout=remaining_seconds)
        except subprocess.TimeoutExpired:
            remaining_seconds = end - clock()
            if remaining_seconds <= 0:
                remaining_seconds = on_timeout() if on_timeout else 0
                if remaining_seconds <= 0:
                    raise
                end = clock() + remaining_seconds
            stdin = None  # It is on its way, and may be given only once.


def _collect_output(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return the output of a program that was killed.

    A program that it started in another session can keep its pipes open.
    """
    try:
        return process.communicate(timeout=_PIPE_SECONDS)
    except subprocess.TimeoutExpired as exc:
        process.poll()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        # The partial output is not decoded, whatever the encoding of pipes.
        out, err = (
            text.decode('utf-8', 'replace') if isinstance(text, bytes) else ''
            for text in (exc.output, exc.stderr)
        )
        return out, err


def _kill_session(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def wait_for(
    condition: Callable[[], bool],
    description: str,
    *,
    timeout: float,
    interval: float = 1.0,
    get_reason: Callable[[], str] | None = None,
) -> float:
    """Wait until a condition holds.

    :param condition: returns whether it does; hvstack's own errors raised
        in it count as "not yet", except a refused host key.
    :param description: words for the error, such as ``"nova-api to answer"``.
    :param timeout: seconds to wait on an ordinary server, by :func:`clock`;
        multiplied by :func:`hvstack.speed.factor`.
    :param interval: seconds between two looks.
    :param get_reason: gives the reason for a time-out, such as a log's last
        lines.
    :returns: seconds waited.
    :raises hvstack.errors.DeadlineExceededError: it did not in that time.
    :raises hvstack.errors.HostKeyError: ``condition`` raised it.
    """
    start = time.monotonic()
    end = clock() + timeout * speed.factor()
    last = ''
    while True:
        try:
            if condition():
                return time.monotonic() - start
        except errors.HostKeyError:
            raise
        except errors.HVStackError as exc:
            last = str(exc)
        if clock() > end:
            reason = (get_reason() if get_reason else '') or last
            suffix = f': {reason.removesuffix(".")}' if reason else ''
            raise errors.DeadlineExceededError(
                f'Timed out after {time.monotonic() - start:.0f} s waiting '
                f'for {description}{suffix}.'
            )
        time.sleep(interval)
