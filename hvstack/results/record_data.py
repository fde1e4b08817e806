# SPDX-License-Identifier: Apache-2.0
"""Run records: their content as typed data, checked when it is read."""

import functools
import hashlib
import json
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from hvstack import errors
from hvstack.model.target import BareMetal, parse_target
from hvstack.results import signing
from hvstack.results.observations import (
    Observations,
    Phase,
    SystemUnderTest,
)
from hvstack.results.run_id import RunId, is_id, is_sweep
from hvstack.results.typed_json import (
    FieldTypeError,
    Json,
    JsonObject,
    build_properties,
    encode_canonical,
    inlined,
    named,
    read,
)

#: Format of the files that this release writes, and the newest it reads.
SCHEMA = 1

KINDS = ('configuration', 'baseline')

#: A part of file names, so that no other character may be in it.
_CONFIGURATION = re.compile(r'[A-Za-z0-9][A-Za-z0-9.-]{0,127}', re.ASCII)
_TIME = re.compile(
    r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)',
    re.ASCII,
)


def compute_rate(size_bytes: int, seconds: float) -> float:
    """Return the scale factor in TB over the elapsed hours.

    TPCx-HS: HSph@SF = SF / (T / 3600); called so only for TPC's own kit at
    one of its scale factors.

    :raises hvstack.errors.InputError: no time or no data.
    """
    if size_bytes <= 0 or not seconds > 0 or not math.isfinite(seconds):
        raise errors.InputError(
            f'Cannot compute the rate of {size_bytes} bytes in {seconds} s: '
            'both must be more than 0. Check the run record.'
        )
    return size_bytes / 1e12 / (seconds / 3600)


#: Control characters, except tab and line feed, and halves of characters.
_UNPRINTABLE = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]')


def number_phase_names(phases: Iterable[Phase]) -> list[str]:
    """Return the names of phases; a second one of a name has a 2 behind it."""
    names: list[str] = []
    for phase in phases:
        name = phase.name
        index = 1
        while name in names:
            index += 1
            name = f'{phase.name} {index}'
        names.append(name)
    return names


@dataclass(frozen=True)
class RunWorkload:
    """Work of a run.

    :param size_bytes: size of the data in bytes.
    :param replication: number of replicas of each block.
    :param maps: number of map tasks.
    :param reduces: number of reduce tasks.
    :param derived: whether the substitute workload ran, not TPC's kit.
    """

    size_bytes: int
    replication: int
    maps: int
    reduces: int
    derived: bool


@dataclass(frozen=True)
class StoredRecord:
    """Keys of a record's file.

    :param sweep: name of the sweep.
    :param kind: one of :data:`KINDS`.
    :param configuration: full name; ``bare-metal`` for a baseline.
    :param index: index of the run within its configuration, from 0.
    :param id: UUID of the record.
    :param started: start time in ISO 8601, such as ``2026-11-21T05:45:00Z``.
    :param ended: end time, likewise.
    :param workload: work of the run.
    :param valid: whether all phases ended and both data checks passed.
    :param reason: why the run is not valid, with the evidence.
    :param phases: phases in order.
    :param total_seconds: elapsed time of the whole run in seconds.
    :param rate: TB per hour, see :func:`compute_rate`; 0 if the run is not
        valid.
    :param sut: facts that must agree between comparable runs.
    :param observations: what was observed, not what was asked for.
    :param signature: ``key`` and ``value``; empty without a signature.
    """

    sweep: str
    kind: str
    configuration: str
    index: int
    id: str
    started: str
    ended: str
    valid: bool
    reason: str
    total_seconds: float
    rate: float
    workload: RunWorkload = field(metadata=inlined())
    phases: tuple[Phase, ...]
    sut: SystemUnderTest = field(metadata=named('environment'))
    observations: Observations = field(metadata=named('seen'))
    signature: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """Record of a benchmark run.

    :func:`from_document` builds it from the content of its file, and
    :func:`change` builds one with another content. Parameters without a
    description are those of :class:`StoredRecord`.

    :param document: content of the file, which digest and signature cover.
    :param run: sweep, target and index of the run.
    :param unverified: why the record counts only on request; empty if a
        trusted key signed it. It is not stored.
    """

    document: JsonObject = field(repr=False)
    run: RunId = field(compare=False)
    id: str = field(compare=False)
    started: str = field(compare=False)
    ended: str = field(compare=False)
    workload: RunWorkload = field(compare=False)
    valid: bool = field(compare=False)
    reason: str = field(compare=False)
    phases: tuple[Phase, ...] = field(compare=False)
    total_seconds: float = field(compare=False)
    rate: float = field(compare=False)
    sut: SystemUnderTest = field(compare=False)
    observations: Observations = field(compare=False)
    signature: Mapping[str, str] = field(compare=False)
    unverified: str = field(default='', compare=False)

    @property
    def sweep(self) -> str:
        """Name of the sweep."""
        return self.run.sweep

    @property
    def configuration(self) -> str:
        """Full name of the configuration; ``bare-metal`` for a baseline."""
        return self.run.target.name

    @property
    def index(self) -> int:
        """Index of the run within its configuration, from 0."""
        return self.run.index

    @property
    def kind(self) -> str:
        """Either of :data:`KINDS`."""
        return KINDS[isinstance(self.run.target, BareMetal)]

    @property
    def size_bytes(self) -> int:
        """Size of the data in bytes."""
        return self.workload.size_bytes

    @property
    def replication(self) -> int:
        """Number of replicas of each block."""
        return self.workload.replication

    @property
    def maps(self) -> int:
        """Number of map tasks."""
        return self.workload.maps

    @property
    def reduces(self) -> int:
        """Number of reduce tasks."""
        return self.workload.reduces

    @property
    def derived(self) -> bool:
        """Whether the substitute workload ran, not TPC's kit."""
        return self.workload.derived

    @property
    def is_killed(self) -> bool:
        """Whether a process was killed in the run."""
        return bool(self.observations.killed)

    @property
    def digest(self) -> str:
        """SHA-256 over all else that is stored; empty before it is signed."""
        return str(self.document.get('digest') or '')

    @functools.cached_property
    def phase_names(self) -> list[str]:
        """Names of the phases; a second one has a 2 behind it."""
        return number_phase_names(self.phases)

    @functools.cached_property
    def system_digest(self) -> str:
        """Digest of all facts that decide whether runs are comparable.

        It covers the kind, the workload, the system under test and the
        version of hvstack.
        """
        facts = [
            self.kind,
            [self.size_bytes, self.replication, self.derived],
            dict(self.sut.facts),
            self.observations.hvstack,
        ]
        text = json.dumps(facts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def phase_seconds(self) -> dict[str, float]:
        """Return the duration of each phase in seconds."""
        return {
            name: float(phase.seconds)
            for name, phase in zip(self.phase_names, self.phases, strict=True)
        }

    def counters(self, phase_name: str) -> Mapping[str, int]:
        """Return the counters of a phase's job; none without any."""
        for phase in self.phases:
            if phase.name == phase_name and phase.job.counters:
                return phase.job.counters
        return {}

    def canonical(self) -> str:
        """Return the text that the digest and the signature cover.

        It is JSON in ASCII with sorted keys and without blanks, of all that
        is stored except the digest and the signature.

        :raises ValueError: a number is not finite.
        """
        content = {
            name: value
            for name, value in self.document.items()
            if name not in NOT_COVERED
        }
        return encode_canonical(content)

    def computed_digest(self) -> str:
        """Return the digest that the content has."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


#: Keys of a record's file that the digest does not cover.
NOT_COVERED = frozenset({'digest', 'signature'})
#: Keys that a record's file may lack.
OPTIONAL_KEYS = frozenset({'signature'})


def _replace_unprintable(value: Json) -> Json:
    """Return plain data without control characters.

    Reasons quote what programs printed, such as the colors of a terminal.
    """
    if isinstance(value, str):
        return _UNPRINTABLE.sub('\ufffd', value)
    if isinstance(value, list):
        return [_replace_unprintable(item) for item in value]
    if isinstance(value, dict):
        return {
            _UNPRINTABLE.sub('\ufffd', key): _replace_unprintable(item)
            for key, item in value.items()
        }
    return value


def create(run: RunId, content: Mapping[str, Json]) -> RunRecord:
    """Return the record of a run, which is not signed or saved yet.

    :param run: sweep, target and index of the run.
    :param content: other keys of the file, as plain data.
    :raises hvstack.errors.InputError: a value is not what it must be.
    """
    is_baseline = isinstance(run.target, BareMetal)
    document: JsonObject = {
        'id': str(uuid.uuid4()),
        'reason': '',
        'derived': True,
        'schema': SCHEMA,
        'digest': '',
        **content,
        'sweep': run.sweep,
        'kind': KINDS[is_baseline],
        'configuration': run.target.name,
        'index': run.index,
    }
    # What JSON turns into something else (tuples, int keys) must not make
    # the file's digest differ from the one computed here.
    try:
        plain = json.loads(json.dumps(document, allow_nan=False))
    except (TypeError, ValueError) as exc:
        raise errors.InputError(
            f'Cannot write run record {run} as JSON: '
            f'{str(exc).removesuffix(".")}. Report this error.'
        ) from exc
    return from_document(_replace_unprintable(plain), f'run record {run}')


def change(record: RunRecord, changes: Mapping[str, Json]) -> RunRecord:
    """Return a record with other values of some keys, without a signature.

    :param changes: new values by key of the file.
    :raises hvstack.errors.InputError: a value is not what it must be.
    """
    content = {
        name: value
        for name, value in (record.document | dict(changes)).items()
        if name not in NOT_COVERED
    }
    return create(record.run, content)


def add_observations(
    record: RunRecord, observations: Mapping[str, Json]
) -> RunRecord:
    """Return a record with further observations, without a signature.

    :param observations: plain data by key.
    :raises hvstack.errors.InputError: a value is not what it must be.
    """
    facts = dict(record.observations.facts)
    return change(record, {'seen': {**facts, **observations}})


def sign(record: RunRecord) -> RunRecord:
    """Return a record with its digest and a signature of this machine.

    Only the process that measured calls this. :func:`store` writes a record
    that another machine signed.

    :raises hvstack.errors.MissingPrerequisiteError: no key to sign with.
    """
    signature = signing.sign(signing.RECORD, record.canonical())
    document: JsonObject = {
        **record.document,
        'digest': record.computed_digest(),
        'signature': dict(signature),
    }
    return replace(record, document=document, signature=signature)


@functools.cache
def _list_keys() -> frozenset[str]:
    """Return the keys of a record's file."""
    return frozenset([*build_properties(StoredRecord), 'schema', 'digest'])


def from_document(data: Json, source: str) -> RunRecord:
    """Check the content of a record's file and make a record of it.

    :param data: content of the file.
    :param source: name of the file.
    :raises hvstack.errors.InputError: a value is not what it must be.
    """

    def build_error(name: str, problem: str) -> errors.InputError:
        return errors.InputError(
            f"Cannot read the record ({source}): '{name}' {problem}. Restore "
            'the record, or move it to another directory.'
        )

    if not isinstance(data, dict):
        raise build_error('content', 'is not a mapping')
    _check_schema(data.get('schema'), source, build_error)
    keys = _list_keys()
    for name in sorted(keys - OPTIONAL_KEYS - set(data)):
        raise build_error(name, 'is missing')
    for name in sorted(set(data) - keys):
        raise build_error(name, 'is unknown')
    if not isinstance(data['digest'], str):
        raise build_error('digest', f'is {data["digest"]!r:.60}')
    try:
        stored = read(StoredRecord, data)
    except FieldTypeError as exc:
        raise build_error(exc.name, exc.reason) from None
    _check_names(stored, build_error)
    for index, phase in enumerate(stored.phases):
        if phase.seconds < 0:
            raise build_error(f'phases.{index}', 'has no number of seconds')
    if stored.valid:
        _check_rate(stored, build_error)
    try:
        target = parse_target(stored.configuration)
        run = RunId(stored.sweep, target, stored.index)
    except errors.InputError as exc:
        raise build_error('configuration', f'is not valid: {exc}') from exc
    if target.name != stored.configuration:
        raise build_error('configuration', f'is not written as {target.name}')
    if stored.kind != KINDS[isinstance(target, BareMetal)]:
        raise build_error('kind', f'is not that of {target.name}')
    return RunRecord(
        document=data,
        run=run,
        id=stored.id,
        started=stored.started,
        ended=stored.ended,
        workload=stored.workload,
        valid=stored.valid,
        reason=stored.reason,
        phases=stored.phases,
        total_seconds=stored.total_seconds,
        rate=stored.rate,
        sut=stored.sut,
        observations=stored.observations,
        signature=stored.signature,
    )


_ErrorBuilder = Callable[[str, str], errors.InputError]


def _check_schema(schema: Json, source: str, error: _ErrorBuilder) -> None:
    """Refuse records of other layouts, which no release can read."""
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise error('schema', f'is {schema!r:.60}, not a run record')
    if schema > SCHEMA:
        raise errors.InputError(
            f'Cannot read the record ({source}): a newer release wrote it '
            f"('schema' is {schema}, and this release supports {SCHEMA}). "
            'Update hvstack.'
        )


def _check_names(stored: StoredRecord, error: _ErrorBuilder) -> None:
    if stored.kind not in KINDS:
        raise error('kind', f'is none of {", ".join(KINDS)}')
    if not is_id(stored.id):
        raise error('id', f'is {stored.id!r:.60}, not a UUID')
    if not is_sweep(stored.sweep):
        raise error('sweep', f'is {stored.sweep!r:.60}, not a name')
    if not _CONFIGURATION.fullmatch(stored.configuration):
        raise error('configuration', 'is no name')
    for name, text in (('started', stored.started), ('ended', stored.ended)):
        if not _TIME.fullmatch(text):
            raise error(name, 'is not a time such as 2026-11-21T05:45:00Z')
        try:
            datetime.fromisoformat(text)
        except ValueError as exc:
            raise error(name, 'is no ISO 8601 time') from exc


def _check_rate(stored: StoredRecord, error: _ErrorBuilder) -> None:
    size_bytes = stored.workload.size_bytes
    for name, value in (
        ('size_bytes', size_bytes),
        ('total_seconds', stored.total_seconds),
        ('rate', stored.rate),
    ):
        if not 0 < value < math.inf:
            raise error(name, 'is not more than 0, or not finite')
    expected = compute_rate(size_bytes, stored.total_seconds)
    if not math.isclose(expected, stored.rate, rel_tol=1e-6):
        raise error(
            'rate',
            f'is {stored.rate}, but size and time make {expected:.6g}',
        )
