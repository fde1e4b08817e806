# SPDX-License-Identifier: Apache-2.0
"""What a sweep has done: its marker and its records.

Rally keeps results in memory until a workload ends; records and this marker
survive a SIGKILL at any moment.
"""

import fcntl
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hvstack import errors, paths
from hvstack.hadoop import osprofiles, sizing
from hvstack.model import backends
from hvstack.results import record
from hvstack.results.record import Record
from hvstack.sweep.plan import Step, quick

FOLDER = paths.STATE / 'sweeps'
RECORDS = paths.STATE / 'records'


@dataclass(frozen=True)
class Course:
    """How a sweep goes through a space: what makes the same one again.

    :param strategy: its name.
    :param values: such as ``instances=1,2``.
    :param start: name of the configuration to start with.
    :param host: profile of the workers' hosts.
    :param backend: their compute backend.
    :param lacks: what the cloud lacks.
    :param kit: folder of TPC's kit; empty where the stand-in runs.
    :param baseline: recorded runs on bare metal to compare with; empty where
        bare metal is measured in between.
    :param allow: facts that may differ between runs.
    """

    strategy: str
    values: tuple[str, ...]
    start: str
    host: str
    backend: str
    lacks: tuple[str, ...] = ()
    kit: str = ''
    baseline: str = ''
    allow: tuple[str, ...] = ()

    @property
    def bare(self) -> bool:
        """Whether bare metal is measured in between.

        Emulated runs are compared with nothing.
        """
        return not self.baseline and not backends.emulates(self.backend)


@dataclass(frozen=True)
class Sweep:
    """A sweep that was begun.

    :param id: names it in records and reports.
    :param configurations: in order; those that can exist, where a strategy
        chooses.
    :param finished: every run was tried, none is left to repeat.
    :param course: of a sweep by a strategy; None for the quick one, whose
        runs are known from the beginning.
    :param tuning: profile of Hadoop's settings in all of its clusters.
    :param os_profile: of their operating system.
    """

    id: str
    configurations: tuple[str, ...]
    runs: int
    size_bytes: int
    started: str
    finished: bool = False
    course: Course | None = None
    tuning: str = sizing.DEFAULT
    os_profile: str = osprofiles.DEFAULT

    @property
    def profiles(self) -> dict[str, str]:
        """The profiles that its clusters are set up by."""
        return {'tuning': self.tuning, 'os_profile': self.os_profile}

    def steps(self) -> list[Step]:
        """Return all runs of a quick one, in order; else none is known."""
        if self.course is not None:
            return []
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
    if not record.is_sweep(sweep):
        raise errors.InputError(
            f"sweep '{sweep}': take letters, digits, dots and dashes"
        )
    return sweep


def new_id(kind: str) -> str:
    """Return a name for a sweep that begins now.

    :param kind: its first word.
    """
    moment = datetime.now(UTC).strftime('%Y%m%d-%H%M%S')
    return f'{kind}-{moment}-{secrets.token_hex(2)}'


def begin(
    configurations: Sequence[str],
    runs: int,
    size_bytes: int,
    course: Course | None = None,
    *,
    tuning: str = sizing.DEFAULT,
    os_profile: str = osprofiles.DEFAULT,
) -> Sweep:
    """Begin a new sweep.

    :param course: of a sweep by a strategy.
    :param tuning: profile of Hadoop's settings.
    :param os_profile: of the nodes' operating system.
    :raises hvstack.errors.InputError: a configuration makes no sense.
    """
    sweep = Sweep(
        id=new_id('sweep' if course else 'quick'),
        configurations=tuple(configurations),
        runs=runs,
        size_bytes=size_bytes,
        started=now(),
        course=course,
        tuning=tuning,
        os_profile=os_profile,
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
            data = json.loads(path.read_text(encoding='utf-8'))
            if data['id'] != path.stem or not record.is_sweep(data['id']):
                raise ValueError("'id' is not the name of the file")
            data['configurations'] = tuple(data['configurations'])
            course = data.get('course')
            if course is not None:
                course.setdefault('allow', ())
                for name in ('values', 'lacks', 'allow'):
                    course[name] = tuple(course[name])
                data['course'] = Course(**course)
            found.append(Sweep(**data))
        except (OSError, ValueError, TypeError, KeyError) as exc:
            raise errors.InputError(
                f'{path}: no marker of a sweep ({exc}), move it away'
            ) from exc
    return sorted(found, key=lambda sweep: (sweep.started, sweep.id))


def resume_or_begin(
    configurations: Sequence[str],
    runs: int,
    size_bytes: int,
    *,
    tuning: str = sizing.DEFAULT,
    os_profile: str = osprofiles.DEFAULT,
) -> tuple[Sweep, bool]:
    """Return the last sweep of this shape if it is unfinished, or a new one.

    :param tuning: profile of Hadoop's settings.
    :param os_profile: of the nodes' operating system.
    :returns: the sweep, and whether it goes on from before.
    """
    for sweep in reversed(known()):
        if (
            not sweep.finished
            and sweep.course is None
            and sweep.configurations == tuple(configurations)
            and (sweep.runs, sweep.size_bytes) == (runs, size_bytes)
            and (sweep.tuning, sweep.os_profile) == (tuning, os_profile)
        ):
            return sweep, True
    return (
        begin(
            *(configurations, runs, size_bytes),
            tuning=tuning,
            os_profile=os_profile,
        ),
        False,
    )


def records(sweep: str, folder: Path | None = None) -> list[Record]:
    """Return a sweep's records by start time.

    A file that is broken stops its own sweep, and no other.

    :raises hvstack.errors.InputError: a record of this sweep was edited, is
        half-written, contradicts itself, or is not signed by a trusted key.
    """
    usable, invalid_records = record.load_usable(folder or RECORDS)
    record.require_usable(invalid_records, [sweep])
    return [one for one in usable if one.sweep == sweep]


def find(
    sweep: str, step: Step, folder: Path | None = None
) -> tuple[Record | None, Record | None]:
    """Return the valid record of a step, and the last invalid one."""
    valid = invalid = None
    for one in records(sweep, folder):
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
    paths.make_directory(FOLDER)
    with (FOLDER / '.lock').open('w', encoding='utf-8') as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.Busy(
                'another sweep is measuring on this machine: two at a time '
                'would measure each other, wait for it or end it'
            ) from None
        yield
