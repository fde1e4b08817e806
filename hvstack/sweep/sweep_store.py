# SPDX-License-Identifier: Apache-2.0
"""State of sweeps: markers and run records.

Rally keeps results in memory until a workload ends; records and this marker
survive a SIGKILL at any moment. A marker is a JSON object, in which
configurations are objects with a field for each sweep parameter.
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
from hvstack.hadoop import os_profiles, sizing
from hvstack.model import compute_backends
from hvstack.model.configuration import Configuration
from hvstack.model.strict_mapping import Fields, to_dataclass
from hvstack.results import comparability, run_id, stores
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import IndexedRun, RunStore
from hvstack.sweep import search_space
from hvstack.sweep.budget import parse_budget
from hvstack.sweep.run_order import Step, build_quick_workloads
from hvstack.sweep.search_space import CAPABILITIES, ParameterValues

SWEEPS_DIR = paths.STATE / 'sweeps'
RECORDS_DIR = paths.STATE / 'records'
#: Layout of the markers. Markers of layout 1 have no field ``schema``.
SCHEMA = 2
#: Strategies of older releases, which markers can still name.
REMOVED_STRATEGIES = ('racing',)
#: Maximum number of runs of a configuration, and of bytes of data.
_MAX_RUNS = 10_000
MAX_BYTES = 10**18


@dataclass(frozen=True)
class SweepSpec:
    """Specification of a sweep by a strategy.

    :param strategy: name of the strategy.
    :param values: values of the sweep parameters.
    :param start: start configuration.
    :param host: name of the host profile of the workers.
    :param backend: compute backend of the workers.
    :param missing_capabilities: names of capabilities that the cloud does not
        have.
    :param kit: directory of the TPC kit; empty for the substitute workload.
    :param baseline: name of recorded runs on bare metal to compare with; empty
        if the sweep measures bare metal.
    :param allow: names of facts that may differ between runs.
    :param half_width: half width in points that the interval of each row must
        reach, after a search those of the winner and of the runner-up; 0 for
        a fixed number of runs.
    :param budget: maximum number of runs or hours of a sweep with a search, as
        in :func:`hvstack.sweep.budget.parse_budget`; empty without a limit.
    :param host_digest: digest of the host profile at the start; empty for a
        profile of the lab.
    :param cloud: URL and region of the cloud; empty if an older release
        started the sweep.
    """

    strategy: str
    values: ParameterValues
    start: Configuration
    host: str
    backend: str
    missing_capabilities: tuple[str, ...] = ()
    kit: str = ''
    baseline: str = ''
    allow: tuple[str, ...] = ()
    half_width: float = 0.0
    budget: str = ''
    host_digest: str = ''
    cloud: str = ''

    @property
    def runs_per_cluster(self) -> int:
        """Number of runs on a cluster: the kit executes them in pairs."""
        return 2 if self.kit else 1

    @property
    def measure_baseline(self) -> bool:
        """Whether the sweep measures bare metal.

        Emulated runs have no baseline.
        """
        return not self.baseline and not compute_backends.is_emulated(
            self.backend
        )


@dataclass(frozen=True)
class Sweep:
    """Sweep that was started.

    :param id: name of the sweep in records and reports.
    :param configurations: configurations in order; with a strategy, all
        possible configurations.
    :param runs: number of runs of each configuration.
    :param size_bytes: size of the data in bytes.
    :param started: start time.
    :param finished: whether no run remains.
    :param spec: specification of a sweep by a strategy; None for the quick
        sweep, which has a fixed order of runs.
    :param tuning: tuning profile of all clusters.
    :param os_profile: OS profile of all clusters.
    """

    id: str
    configurations: tuple[Configuration, ...]
    runs: int
    size_bytes: int
    started: str
    finished: bool = False
    spec: SweepSpec | None = None
    tuning: str = sizing.DEFAULT
    os_profile: str = os_profiles.DEFAULT

    @property
    def node_settings(self) -> dict[str, str]:
        """Names of the tuning profile and of the OS profile."""
        return {'tuning': self.tuning, 'os_profile': self.os_profile}

    def list_steps(self) -> list[Step]:
        """Return all runs of a quick sweep; no runs with a strategy."""
        if self.spec is not None:
            return []
        return [
            step
            for workload in build_quick_workloads(
                self.configurations, self.runs, self.size_bytes
            )
            for step in workload
        ]


def format_now() -> str:
    """Return the current time in the format of run records."""
    return datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')


def check_name(sweep: str) -> str:
    """Return the name of a sweep if it is valid.

    :raises hvstack.errors.InputError: the name is not valid.
    """
    if not run_id.is_sweep(sweep):
        raise errors.InputError(
            f"Cannot use sweep '{sweep}': its name is not valid. Use letters, "
            'digits, dots and dashes.'
        )
    return sweep


def create_id(prefix: str) -> str:
    """Return a unique name for a new sweep.

    :param prefix: first word of the name.
    """
    moment = datetime.now(UTC).strftime('%Y%m%d-%H%M%S')
    return f'{prefix}-{moment}-{secrets.token_hex(2)}'


def create_sweep(
    configurations: Sequence[Configuration],
    runs: int,
    size_bytes: int,
    spec: SweepSpec | None = None,
    *,
    tuning: str = sizing.DEFAULT,
    os_profile: str = os_profiles.DEFAULT,
    is_saved: bool = True,
) -> Sweep:
    """Create a sweep.

    :param configurations: configurations in order.
    :param runs: number of runs of each configuration.
    :param size_bytes: size of the data in bytes.
    :param spec: specification of a sweep by a strategy; None for a quick
        sweep.
    :param tuning: tuning profile of Hadoop.
    :param os_profile: OS profile of the nodes.
    :param is_saved: whether to write its marker.
    :raises hvstack.errors.InputError: no configuration is given, or the
        number of runs is less than 1.
    """
    sweep = Sweep(
        id=create_id('sweep' if spec else 'quick'),
        configurations=tuple(configurations),
        runs=runs,
        size_bytes=size_bytes,
        started=format_now(),
        spec=spec,
        tuning=tuning,
        os_profile=os_profile,
    )
    sweep.list_steps()
    if is_saved:
        save_sweep(sweep)
    return sweep


def finish_sweep(sweep: Sweep) -> None:
    """Mark a sweep as finished, so that it is not resumed."""
    save_sweep(replace(sweep, finished=True))


def save_sweep(sweep: Sweep) -> None:
    """Write the marker of a sweep."""
    content = {'schema': SCHEMA, **asdict(sweep)}
    text = json.dumps(content, indent=1) + '\n'
    paths.write_whole(SWEEPS_DIR / f'{sweep.id}.json', text)


def list_sweeps() -> list[Sweep]:
    """Return all sweeps, the oldest first.

    Sweeps whose marker cannot be read are left out; :func:`load_usable`
    returns the reasons.
    """
    return load_usable()[0]


class OldMarkerError(errors.InputError):
    """Marker of a sweep that only an older release can continue.

    It has an older layout, or names a strategy that was removed.

    :param message: message for the user.
    :param is_finished: whether the sweep is finished.
    """

    def __init__(self, message: str, is_finished: bool) -> None:
        super().__init__(message)
        self.is_finished = is_finished


def load_usable(prefix: str = '') -> tuple[list[Sweep], list[str]]:
    """Return all sweeps, the oldest first, and reasons for unusable markers.

    Markers that only an older release can use are left out if their sweep is
    finished, because reports need the run records only.

    :param prefix: start of the names of the sweeps; empty for all.
    :returns: the sweeps, and a line with file, field and remedy for each
        marker that cannot be read.
    """
    sweeps, reasons = [], []
    for path in sorted(SWEEPS_DIR.glob('[!.]*.json')):
        if not path.name.startswith(prefix):
            continue
        try:
            sweeps.append(load_sweep(path))
        except textfile.MissingFileError:
            continue
        except OldMarkerError as exc:
            if not exc.is_finished:
                reasons.append(str(exc))
        except errors.InputError as exc:
            reasons.append(str(exc))
    ordered = sorted(sweeps, key=lambda sweep: (sweep.started, sweep.id))
    return ordered, reasons


def load_sweep(path: Path) -> Sweep:
    """Return the sweep of a marker.

    :param path: file of the marker.
    :raises hvstack.errors.InputError: the file is not a marker of a sweep, or
        a field is not valid.
    :raises OldMarkerError: an older release wrote the marker, and this one
        cannot continue its sweep.
    """
    document = jsonfile.load(path)
    source_location = document.source_location()
    fields = Fields(document.data, source_location, None)
    if 'schema' not in fields:
        raise _build_old_marker_error(
            path,
            'an older release of hvstack wrote this file',
            fields.raw('finished') is True,
        )
    fields.integer('schema', SCHEMA, SCHEMA)
    sweep = to_dataclass(
        Sweep, document.data, source_location, ignored=('schema',)
    )
    if not run_id.is_sweep(sweep.id) or sweep.id != path.stem:
        raise fields.error('id', "is not the file's name. Restore the file")
    fields.integer('runs', 1, _MAX_RUNS)
    fields.integer('size_bytes', 1, MAX_BYTES)
    _check_time(fields, 'started')
    fields.identifier('tuning')
    fields.identifier('os_profile')
    if sweep.spec is not None:
        content = document.data['spec']
        spec_fields = Fields(content, source_location, None, 'spec')
        _check_spec(spec_fields, sweep.spec)
        if sweep.spec.strategy in REMOVED_STRATEGIES:
            raise _build_old_marker_error(
                path,
                f"its strategy '{sweep.spec.strategy}' was removed from "
                'hvstack',
                sweep.finished,
            )
    return sweep


def _build_old_marker_error(
    path: Path, reason: str, is_finished: bool
) -> OldMarkerError:
    return OldMarkerError(
        f'Cannot continue the sweep of {path}: {reason}. Continue the sweep '
        'with the release that started it, or delete the file, which keeps '
        'the run records, and start a new sweep.',
        is_finished,
    )


def _check_spec(fields: Fields, spec: SweepSpec) -> None:
    fields.identifier('strategy')
    fields.choice('backend', compute_backends.BACKENDS)
    if 'half_width' in fields:
        fields.number('half_width', 0, 100)
    try:
        parse_budget(spec.budget)
    except errors.InputError as exc:
        raise fields.error('budget', f'is not valid: {exc}') from None
    for index, name in enumerate(spec.missing_capabilities):
        if name not in CAPABILITIES:
            raise fields.error(
                f'missing_capabilities.{index}',
                f'is {name[:60]!r}. Use one of {", ".join(CAPABILITIES)}',
            )
    try:
        search_space.check_values(spec.values.to_mapping())
    except errors.InputError as exc:
        raise fields.error('values', f'is not valid: {exc}') from None


def _check_time(fields: Fields, name: str) -> None:
    try:
        datetime.fromisoformat(fields.text(name))
    except ValueError:
        raise fields.error(
            name, 'is not a time such as 2026-11-21T05:45:00Z'
        ) from None


def open_store(
    location: Path | str | None = None, unsigned: bool | None = None
) -> RunStore:
    """Return the store of run records.

    :param location: directory, or URL of a database; None uses the store of
        hvstack.conf.
    :param unsigned: accept records that are not signed by a trusted key;
        None uses ``[records] unsigned`` of hvstack.conf.
    :raises hvstack.errors.InputError: the URL is not valid.
    :raises hvstack.errors.MissingPrerequisiteError: the extra ``sql`` is not
        installed.
    """
    return stores.open_store(location, unsigned, RECORDS_DIR)


def load_records(sweep: str) -> list[RunRecord]:
    """Return the records of a sweep, sorted by start time.

    :param sweep: name of the sweep.
    :raises hvstack.errors.InputError: a record of this sweep was edited, is
        incomplete, contradicts itself, or is not signed by a trusted key.
    """
    return open_store().load_records(sweep)


def load_all_records(sweep: str) -> list[RunRecord]:
    """Return the records of a sweep and of its search, as load_records."""
    search = run_id.format_search_name(sweep)
    return load_records(search) + load_records(sweep)


def read_host_count(sweep: str, store: RunStore | None = None) -> int | None:
    """Return the number of hosts of a sweep's first valid run, if known."""
    store = store or open_store()
    for run in store.list_runs(sweep):
        if run.valid:
            return comparability.get_host_count(store.load_run(run))
    return None


def find_records(
    sweep: str, step: Step, store: RunStore | None = None
) -> tuple[RunRecord | None, RunRecord | None]:
    """Return the valid record of a step and its last invalid record.

    :param store: store of the run records; None uses the store of
        hvstack.conf.
    """
    store = store or open_store()
    valid = invalid = None
    for run in store.list_runs(sweep):
        if _get_key(run) == _get_key(step):
            if run.valid:
                valid = run
            else:
                invalid = run
    return (
        store.load_run(valid) if valid else None,
        store.load_run(invalid) if invalid else None,
    )


def _get_key(run: IndexedRun | Step) -> tuple[str, int, int]:
    """Return the key of a run in its sweep, recorded or planned."""
    return run.configuration, run.index, run.size_bytes


def list_pending(
    sweep: str, steps: Iterable[Step], store: RunStore | None = None
) -> list[Step]:
    """Return the steps without a valid record.

    :param store: store of the run records; None uses the store of
        hvstack.conf.
    """
    store = store or open_store()
    # A set: a comparison of each step with each run takes quadratic time.
    valid_runs = {_get_key(run) for run in store.list_runs(sweep) if run.valid}
    return [step for step in steps if _get_key(step) not in valid_runs]


@contextmanager
def lock_measurements() -> Iterator[None]:
    """Prevent that two sweeps measure on this machine at the same time.

    :raises hvstack.errors.BusyError: another sweep is measuring.
    """
    paths.make_directory(SWEEPS_DIR)
    with paths.open_lock(SWEEPS_DIR / '.lock') as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.BusyError(
                'Cannot start the sweep: another one measures on this machine,'
                ' and each would disturb the other. Wait until it ends, or end'
                ' it. On another cloud, use another HVSTACK_STATE_DIR.'
            ) from None
        yield
