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

from hvstack import errors, jsonfile, paths, textfile
from hvstack.hadoop import osprofiles, sizing
from hvstack.model import backends
from hvstack.model.configuration import parse
from hvstack.model.fields import Fields, to_dataclass
from hvstack.results import record
from hvstack.results.record import Record
from hvstack.sweep.plan import Step, build_quick_workloads
from hvstack.sweep.space import CAPABILITIES

SWEEPS_DIR = paths.STATE / 'sweeps'
RECORDS_DIR = paths.STATE / 'records'
#: No sweep has more runs of a configuration, or more data.
_MAX_RUNS = 10_000
_MAX_BYTES = 10**18


@dataclass(frozen=True)
class SweepSpec:
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
    def measure_baseline(self) -> bool:
        """Whether bare metal is measured in between.

        Emulated runs are compared with nothing.
        """
        return not self.baseline and not backends.is_emulated(self.backend)


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
    course: SweepSpec | None = None
    tuning: str = sizing.DEFAULT
    os_profile: str = osprofiles.DEFAULT

    @property
    def node_settings(self) -> dict[str, str]:
        """The profiles that its clusters are set up by."""
        return {'tuning': self.tuning, 'os_profile': self.os_profile}

    def list_steps(self) -> list[Step]:
        """Return all runs of a quick one, in order; else none is known."""
        if self.course is not None:
            return []
        return [
            step
            for workload in build_quick_workloads(
                self.configurations, self.runs, self.size_bytes
            )
            for step in workload
        ]


def format_now() -> str:
    """Return the time as records have it."""
    return datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')


def check_name(sweep: str) -> str:
    """Return a sweep's name if it can be one of a file, too.

    :raises hvstack.errors.InputError: it cannot.
    """
    if not record.is_sweep(sweep):
        raise errors.InputError(
            f"sweep '{sweep}': take letters, digits, dots and dashes"
        )
    return sweep


def create_id(kind: str) -> str:
    """Return a name for a sweep that begins now.

    :param kind: its first word.
    """
    moment = datetime.now(UTC).strftime('%Y%m%d-%H%M%S')
    return f'{kind}-{moment}-{secrets.token_hex(2)}'


def create_sweep(
    configurations: Sequence[str],
    runs: int,
    size_bytes: int,
    spec: SweepSpec | None = None,
    *,
    tuning: str = sizing.DEFAULT,
    os_profile: str = osprofiles.DEFAULT,
) -> Sweep:
    """Begin a new sweep.

    :param spec: of a sweep by a strategy.
    :param tuning: profile of Hadoop's settings.
    :param os_profile: of the nodes' operating system.
    :raises hvstack.errors.InputError: a configuration makes no sense.
    """
    sweep = Sweep(
        id=create_id('sweep' if spec else 'quick'),
        configurations=tuple(configurations),
        runs=runs,
        size_bytes=size_bytes,
        started=format_now(),
        course=spec,
        tuning=tuning,
        os_profile=os_profile,
    )
    sweep.list_steps()
    _save(sweep)
    return sweep


def finish_sweep(sweep: Sweep) -> None:
    """Mark a sweep as finished: the next one is a new one."""
    _save(replace(sweep, finished=True))


def _save(sweep: Sweep) -> None:
    text = json.dumps(asdict(sweep), indent=1) + '\n'
    paths.write_whole(SWEEPS_DIR / f'{sweep.id}.json', text)


def list_sweeps() -> list[Sweep]:
    """Return all sweeps, oldest first.

    A marker that cannot be read takes away its own sweep and no other one:
    :func:`load_usable` says why.
    """
    return load_usable()[0]


def load_usable() -> tuple[list[Sweep], list[str]]:
    """Return all sweeps, oldest first, and why other markers are unusable.

    :returns: the sweeps, and a line with file, field and remedy for each
        marker that cannot be read.
    """
    sweeps, reasons = [], []
    for path in sorted(SWEEPS_DIR.glob('[!.]*.json')):
        try:
            sweeps.append(load_sweep(path))
        except textfile.MissingFileError:
            continue
        except errors.InputError as exc:
            reasons.append(str(exc))
    ordered = sorted(sweeps, key=lambda sweep: (sweep.started, sweep.id))
    return ordered, reasons


def load_sweep(path: Path) -> Sweep:
    """Return the sweep of a marker.

    :param path: the marker.
    :raises hvstack.errors.InputError: it is not a marker of a sweep, or a
        field has a value that no sweep has.
    """
    document = jsonfile.load(path)
    source_location = document.place()
    sweep = to_dataclass(Sweep, document.data, source_location)
    fields = Fields(document.data, source_location, list(document.data))
    if not record.is_sweep(sweep.id) or sweep.id != path.stem:
        raise fields.error('id', "is not the file's name. Restore the file")
    fields.integer('runs', 1, _MAX_RUNS)
    fields.integer('size_bytes', 1, _MAX_BYTES)
    _check_time(fields, 'started')
    sources = [(fields, 'configurations', sweep.configurations)]
    # What an older release may not have written has a default.
    fields.identifier('tuning', sizing.DEFAULT)
    fields.identifier('os_profile', osprofiles.DEFAULT)
    if sweep.course is not None:
        content = document.data['course']
        spec_fields = Fields(content, source_location, list(content), 'course')
        spec_fields.identifier('strategy')
        spec_fields.choice('backend', backends.BACKENDS)
        sources.append((spec_fields, 'start', (sweep.course.start,)))
        for index, name in enumerate(sweep.course.lacks):
            if name not in CAPABILITIES:
                raise spec_fields.error(
                    f'lacks.{index}',
                    f'is {name[:60]!r}. Use one of {", ".join(CAPABILITIES)}',
                )
    for source, field, names in sources:
        for name in names:
            try:
                parse(name)
            except errors.InputError as exc:
                raise source.error(field, f'is not valid: {exc}') from None
    return sweep


def _check_time(fields: Fields, name: str) -> None:
    try:
        datetime.fromisoformat(fields.text(name))
    except ValueError:
        raise fields.error(
            name, 'is not a time such as 2026-11-21T05:45:00Z'
        ) from None


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
    :raises hvstack.errors.InputError: a marker cannot be read, which may be
        that of the sweep to continue.
    :returns: the sweep, and whether it goes on from before.
    """
    sweeps, reasons = load_usable()
    if reasons:
        raise errors.InputError(reasons[0])
    for sweep in reversed(sweeps):
        if (
            not sweep.finished
            and sweep.course is None
            and sweep.configurations == tuple(configurations)
            and (sweep.runs, sweep.size_bytes) == (runs, size_bytes)
            and (sweep.tuning, sweep.os_profile) == (tuning, os_profile)
        ):
            return sweep, True
    return (
        create_sweep(
            *(configurations, runs, size_bytes),
            tuning=tuning,
            os_profile=os_profile,
        ),
        False,
    )


def load_records(sweep: str, records_dir: Path | None = None) -> list[Record]:
    """Return a sweep's records by start time.

    A file that is broken stops its own sweep, and no other.

    :raises hvstack.errors.InputError: a record of this sweep was edited, is
        half-written, contradicts itself, or is not signed by a trusted key.
    """
    usable, invalid_records = record.load_usable(records_dir or RECORDS_DIR)
    record.require_usable(invalid_records, [sweep])
    return [run_record for run_record in usable if run_record.sweep == sweep]


def find_records(
    sweep: str, step: Step, records_dir: Path | None = None
) -> tuple[Record | None, Record | None]:
    """Return the valid record of a step, and the last invalid one."""
    valid = invalid = None
    for run_record in load_records(sweep, records_dir):
        if (
            run_record.configuration,
            run_record.index,
            run_record.size_bytes,
        ) == (
            step.configuration,
            step.index,
            step.size_bytes,
        ):
            if run_record.valid:
                valid = run_record
            else:
                invalid = run_record
    return valid, invalid


def list_pending(
    sweep: str, steps: Iterable[Step], records_dir: Path | None = None
) -> list[Step]:
    """Return the steps that have no valid record yet."""
    return [
        step
        for step in steps
        if find_records(sweep, step, records_dir)[0] is None
    ]


@contextmanager
def lock_measurements() -> Iterator[None]:
    """Let only one sweep at a time measure on this machine.

    :raises hvstack.errors.Busy: another one does.
    """
    paths.make_directory(SWEEPS_DIR)
    with (SWEEPS_DIR / '.lock').open('w', encoding='utf-8') as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.Busy(
                'another sweep is measuring on this machine: two at a time '
                'would measure each other, wait for it or end it'
            ) from None
        yield
