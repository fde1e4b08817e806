# SPDX-License-Identifier: Apache-2.0
"""Progress as readable text: stage, time and next stage.

Lines go to standard error, so that standard output stays machine-readable,
and to the log.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, TextIO

from hvstack import textfile

LOG = logging.getLogger(__name__)


@dataclass
class Progress:
    """Stages of one command, in order.

    :param stages: titles of the stages still to come, for "next: ...".
    :param stream: where lines go; standard error by default.
    """

    #: Whether lines go to the log alone (--quiet); :mod:`hvstack.cli.app`
    #: sets it for the process.
    is_quiet: ClassVar[bool] = False

    stages: Sequence[str] = ()
    stream: TextIO | None = None
    #: (title, seconds) of every stage that has ended.
    took: list[tuple[str, float]] = field(default_factory=list)
    _start: float = field(default_factory=time.monotonic)

    def say(self, text: str, *, is_important: bool = False) -> None:
        """Print one line with the time since the command started.

        A line that cannot be printed is lost. After a hangup, for example,
        the terminal takes none, and the clean-up must continue.

        :param text: the line.
        :param is_important: whether to print it with --quiet as well.
        """
        LOG.debug('%s', textfile.printable(text))
        if self.is_quiet and not is_important:
            return
        elapsed = int(time.monotonic() - self._start)
        with contextlib.suppress(OSError):
            print(
                f'[{elapsed // 60:02d}:{elapsed % 60:02d}] {text}',
                file=self.stream or sys.stderr,
                flush=True,
            )

    def warn(self, text: str) -> None:
        """Print a warning, with --quiet as well."""
        self.say(text, is_important=True)

    def span(self, _name: str) -> AbstractContextManager[None]:
        """Return a context that measures a part of a sweep.

        A process of a sweep overrides it; others measure nothing.

        :param _name: category of the time.
        """
        return contextlib.nullcontext()

    @contextmanager
    def stage(self, title: str) -> Iterator[None]:
        """Announce a stage, and how long it took when it ends."""
        stage_number = len(self.took) + 1
        position = f'{stage_number}/{len(self.stages)} ' if self.stages else ''
        self.say(f'{position}{title} ...')
        begin = time.monotonic()
        try:
            yield
        except BaseException as exc:
            self.say(
                f'{position}{title}: {type(exc).__name__} after '
                f'{time.monotonic() - begin:.0f} s'
            )
            raise
        seconds = time.monotonic() - begin
        self.took.append((title, seconds))
        after = (
            f', next: {self.stages[stage_number]}'
            if stage_number < len(self.stages)
            else ''
        )
        self.say(f'{position}{title}: {seconds:.0f} s{after}')
