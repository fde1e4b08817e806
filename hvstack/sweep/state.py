# SPDX-License-Identifier: Apache-2.0
"""What a sweep has done: its marker and its records.

Rally keeps results in memory until a workload ends; records and this marker
survive a SIGKILL at any moment.
"""

import fcntl
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hvstack import errors, paths
from hvstack.results import record
from hvstack.results.record import Record
from hvstack.sweep.plan import Step, quick

FOLDER = paths.STATE / 'sweeps'
RECORDS = paths.STATE / 'records'
_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,63}')


@dataclass(frozen=True)
class Sweep:
    """A sweep that was begun.

    :param id: names it in records and reports.
    :param finished: every run was tried, none is left to repeat.
    """

    id: str
    configurations: tuple[str, ...]
    runs: int
    size_bytes: int
    started: str
    finished: bool = False

    def steps(self) -> list[Step]:
        """Return all of its runs, in order."""
        return [
            step
            for workload in quick(
                self.configurations, self.runs, self.size_bytes
            )
            for step in workload
        ]


def now() -> str:
    """Return the time as records have it."""
    return datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')


def checked(sweep: str) -> str:
    """Return a sweep's name if it can be one of a file, too.

    :raises hvstack.errors.InputError: it cannot.
    """
    if not _NAME.fullmatch(sweep):
        raise errors.InputError(
            f"sweep '{sweep}': take letters, digits, dots and dashes"
        )
    return sweep


def begin(configurations: Sequence[str], runs: int, size_bytes: int) -> Sweep:
    """Begin a new sweep.

    :raises hvstack.errors.InputError: a configuration makes no sense.
    """
    moment = datetime.now(UTC).strftime('%Y%m%d-%H%M%S')
    sweep = Sweep(
        id=f'quick-{moment}-{secrets.token_hex(2)}',
        configurations=tuple(configurations),
        runs=runs,
        size_bytes=size_bytes,
        started=now(),
    )
    sweep.steps()
    _save(sweep)
    return sweep


def finish(sweep: Sweep) -> None:
    """Mark a sweep as finished: the next one is a new one."""
    _save(replace(sweep, finished=True))


def _save(sweep: Sweep) -> None:
    text = json.dumps(asdict(sweep), indent=1) + '\n'
    paths.write_whole(FOLDER / f'{sweep.id}.json', text)


def known() -> list[Sweep]:
    """Return all sweeps, oldest first.

    :raises hvstack.errors.InputError: a file there is none of ours.
    """
    found = []
    for path in sorted(FOLDER.glob('[!.]*.json')):
        try:
            data = json.loads(path.read_text())
            data['configurations'] = tuple(data['configurations'])
            found.append(Sweep(**data))
        except (OSError, ValueError, TypeError, KeyError) as exc:
            raise errors.InputError(
                f'{path}: no marker of a sweep ({exc}), move it away'
            ) from exc
    return sorted(found, key=lambda sweep: (sweep.started, sweep.id))


def resume_or_begin(
    configurations: Sequence[str], runs: int, size_bytes: int
) -> tuple[Sweep, bool]:
    """Return the last sweep of this shape if it is unfinished, or a new one.

    :returns: the sweep, and whether it goes on from before.
    """
    for sweep in reversed(known()):
        if (
            not sweep.finished
            and sweep.configurations == tuple(configurations)
            and (sweep.runs, sweep.size_bytes) == (runs, size_bytes)
        ):
            return sweep, True
    return begin(configurations, runs, size_bytes), False


def find(
    sweep: str, step: Step, folder: Path | None = None
) -> tuple[Record | None, Record | None]:
    """Return the valid record of a step, and the last invalid one."""
    valid = invalid = None
    for one in record.load_all(folder or RECORDS, sweep):
        if (one.configuration, one.index, one.size_bytes) == (
            step.configuration,
            step.index,
            step.size_bytes,
        ):
            if one.valid:
                valid = one
            else:
                invalid = one
    return valid, invalid


def pending(
    sweep: str, steps: Iterable[Step], folder: Path | None = None
) -> list[Step]:
    """Return the steps that have no valid record yet."""
    return [step for step in steps if find(sweep, step, folder)[0] is None]


@contextmanager
def exclusive() -> Iterator[None]:
    """Let only one sweep at a time measure on this machine.

    :raises hvstack.errors.Busy: another one does.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / '.lock').open('w') as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.Busy(
                'another sweep is measuring on this machine: two at a time '
                'would measure each other, wait for it or end it'
            ) from None
        yield
