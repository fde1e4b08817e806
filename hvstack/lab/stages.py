# SPDX-License-Identifier: Apache-2.0
"""Stages with deadlines, and marks for what need not be done twice."""

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from hvstack import errors, jsonfile, paths, speed, textfile
from hvstack.lab import settings
from hvstack.progress import Progress

_MARKS = settings.LAB / 'marks.json'


@dataclass(frozen=True)
class Stage:
    """One step of bringing the lab up.

    :param title: words for the person who watches.
    :param seconds: deadline on an ordinary server; multiplied by
        :func:`hvstack.speed.factor`.
    :param action: does it; must be harmless and quick where nothing is left
        to do.
    """

    title: str
    seconds: float
    action: Callable[[], None]


class _StageTimeout(BaseException):
    """The time of a stage is over.

    No error of hvstack's: whoever retries a failed program, or waits until a
    check succeeds, must not take the end of the stage for such a failure.
    """


@contextmanager
def deadline(title: str, seconds: float) -> Iterator[None]:
    """End a block of code of the main thread after some time.

    :param title: title of the stage, for the error.
    :param seconds: real seconds.
    :raises hvstack.errors.DeadlineExceededError: the time is over.
    """

    def expire(signum: int, frame: FrameType | None) -> NoReturn:
        raise _StageTimeout

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _StageTimeout:
        raise errors.DeadlineExceededError(
            f"Stage '{title}' timed out after {seconds:.0f} s. Read the logs "
            f'in {settings.LAB / "log"}, then run the command again: it '
            'continues with this stage.'
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(stages: Sequence[Stage], progress: Progress) -> None:
    """Run stages in order, each within its deadline.

    :raises hvstack.errors.HVStackError: a stage failed.
    """
    # A command can start the lab several times.
    progress.stages = [stage.title for stage in stages]
    progress.took.clear()
    for stage in stages:
        # The first stage measures the factor of the others.
        seconds = stage.seconds * speed.factor()
        with progress.stage(stage.title), deadline(stage.title, seconds):
            stage.action()


def marked(name: str) -> str | None:
    """Return the value that a thing was marked done with, if it was."""
    return _load().get(name)


def mark(name: str, value: str = 'done') -> None:
    """Record that a thing is done.

    :param value: digest of what it was done from, to do it again after a
        change.
    """
    _store({**_load(), name: value})


def unmark(name: str) -> None:
    """Forget that a thing was done."""
    _store({key: value for key, value in _load().items() if key != name})


def forget() -> None:
    """Forget everything that was done, before the lab is deleted."""
    if paths.is_owned(_MARKS.parent):
        _MARKS.unlink(missing_ok=True)


def _load() -> dict[str, str]:
    try:
        return jsonfile.load_texts(_MARKS)
    except textfile.MissingFileError:
        return {}
    except errors.InputError as exc:
        reason = str(exc).removesuffix('.')
        raise errors.InputError(
            f'Cannot read what is done in the lab: {reason}. Or run '
            "'hvstack lab destroy'."
        ) from exc


def _store(marks: dict[str, str]) -> None:
    paths.write_whole(_MARKS, json.dumps(marks, indent=1) + '\n')
