# SPDX-License-Identifier: Apache-2.0
"""How long a sweep still takes, by the runs so far."""

import datetime
import itertools
import statistics
from collections.abc import Sequence

from hvstack.results import record
from hvstack.results.record import Record
from hvstack.sweep import course, state, strategies
from hvstack.sweep.state import Sweep
from hvstack.sweep.strategies import Extent


def times(
    records: Sequence[Record], size_bytes: int
) -> tuple[float | None, float | None]:
    """Return median seconds of a run, and of what lies between clusters.

    :param records: by start time, of any sweeps.
    :param size_bytes: of the runs that count.
    :returns: None for what no record tells.
    """
    runs = [
        one.total_seconds
        for one in records
        if one.valid and one.size_bytes == size_bytes
    ]
    gaps = []
    by_sweep: dict[str, Record] = {}
    for one in records:
        last = by_sweep.get(one.sweep)
        if last is not None and last.configuration != one.configuration:
            gaps.append(record.seconds_between(last.ended, one.started))
        by_sweep[one.sweep] = one
    return (
        statistics.median(runs) if runs else None,
        statistics.median(gaps) if gaps else None,
    )


def left(sweep: Sweep) -> str:
    """Return in words how much of a sweep is left; nothing if all is done.

    By the sweep's own runs, or those of this size that any sweep has left.

    :raises hvstack.errors.InputError: its marker or a record is broken.
    """
    least, most = _extents(sweep)
    if not most.runs:
        return ''
    amount = f'{_range(least.runs, most.runs)} runs'
    run, setup = _usual_times(sweep)
    if run is None:
        return f'left: {amount}, no run of this size says how long they take'
    spans = [one.seconds(run, setup or 0) for one in (least, most)]
    if spans[1] > 7200:
        unit = 'hours'
        low, high = (f'{span / 3600:.1f}' for span in spans)
    else:
        unit = 'minutes'
        low, high = (f'{span / 60:.0f}' for span in spans)
    beside = f' and {setup:.0f} s a cluster' if setup is not None else ''
    return (
        f'about {_range(low, high)} {unit} left, until about '
        f'{_clock(spans[1])}: {amount} of {run:.0f} s{beside}'
    )


def _clock(seconds: float) -> str:
    """Return the local time after some seconds, with the day if it ends."""
    now = datetime.datetime.now().astimezone()
    end = now + datetime.timedelta(seconds=seconds)
    return end.strftime('%H:%M' if end.date() == now.date() else '%a %H:%M')


def longest(sweep: Sweep) -> float | None:
    """Return the most seconds that a sweep still takes; None if unknown.

    :raises hvstack.errors.InputError: its marker or a record is broken.
    """
    _, most = _extents(sweep)
    run, setup = _usual_times(sweep)
    return None if run is None else most.seconds(run, setup or 0)


def _usual_times(sweep: Sweep) -> tuple[float | None, float | None]:
    """Return seconds of a run and of what lies between clusters.

    These are the sweep's own, or those of all runs of its size.
    """
    own = times(state.records(sweep.id), sweep.size_bytes)
    every = times(record.load_usable(state.RECORDS)[0], sweep.size_bytes)
    run, setup = (
        first if first is not None else other
        for first, other in zip(own, every, strict=True)
    )
    return run, setup


def _extents(sweep: Sweep) -> tuple[Extent, Extent]:
    """Return the least and the most that is left of a sweep."""
    if sweep.course is None:
        steps = state.pending(sweep.id, sweep.steps())
        visits = [
            name
            for name, _ in itertools.groupby(
                one.configuration for one in steps
            )
        ]
        whole = Extent(len(set(visits)), len(visits), len(steps))
        return whole, whole
    here = course.look(sweep)
    if not here.left:
        nothing = Extent(0, 0, 0)
        return nothing, nothing
    return strategies.extent(
        here.strategy, here.measured, bare=sweep.course.bare
    )


def _range(first: object, last: object) -> str:
    return f'{first}' if first == last else f'{first} to {last}'
