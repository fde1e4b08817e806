# SPDX-License-Identifier: Apache-2.0
"""Counts of calls, by which a test shows how the cost of a function grows."""

import sys
from collections.abc import Callable
from types import FrameType


def count_calls(action: Callable[[], object]) -> int:
    """Return the number of calls of Python functions in an action.

    Time would depend on the machine.
    """
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == 'call'

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(previous)
    return calls
