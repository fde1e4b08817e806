# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and signals like it, and blocks that they do not leave half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from hvstack.progress import Progress

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def handle_signals() -> None:
    """Clean up after SIGTERM and SIGHUP as after Ctrl-C.

    A signal that is ignored stays ignored: ``nohup hvstack sweep run``
    continues without its terminal. So does a handler of another program, such
    as one that calls hvstack's plugins. Signals reach only the main thread, so
    that in another thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signal_number) == signal.SIG_DFL:
            signal.signal(signal_number, signal.default_int_handler)


@contextmanager
def deferred(
    activity: str, progress: Progress | None = None
) -> Iterator[None]:
    """Finish a block before Ctrl-C, SIGTERM or SIGHUP takes effect.

    Each signal prints a line that says what happens. Blocks may be
    nested: the outermost one raises. Signals reach only the main thread, so
    that in another thread this does nothing. An ignored signal stays ignored.

    :param activity: subject of that line, such as "hvstack is restoring the
        cloud".
    :param progress: where the line is printed; None for standard error.
    :raises KeyboardInterrupt: a signal came, and the block has ended without
        an exception.
    """
    output = progress or Progress()
    received: list[int] = []

    def note(signal_number: int, _frame: FrameType | None) -> None:
        received.append(signal_number)
        output.say(
            f'{signal.Signals(signal_number).name}: {activity}. Wait for its '
            "end. After 'kill -9', the next hvstack command continues it.",
            is_important=True,
        )

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {
        signal_number: signal.getsignal(signal_number)
        for signal_number in _SIGNALS
    }
    for signal_number, handler in handlers.items():
        # None is a handler that was not installed by Python.
        if handler not in (signal.SIG_IGN, None):
            signal.signal(signal_number, note)
    try:
        yield
    finally:
        for signal_number, handler in handlers.items():
            if handler not in (signal.SIG_IGN, None):
                signal.signal(signal_number, handler)
    if received:
        # The handler of the enclosing block, if there is one, notes it.
        signal.raise_signal(received[-1])
