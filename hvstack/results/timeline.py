# SPDX-License-Identifier: Apache-2.0
"""Timelines of sweeps: where the time goes, inside and outside the phases.

Each process of a sweep appends a line to a file when a span of time ends. A
span can contain others, and its own time is what they leave. The file is no
evidence: it does not affect a result, and a line that cannot be written or
read is left out.
"""

import contextlib
import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from hvstack import errors, paths
from hvstack.model.strict_mapping import to_dataclass
from hvstack.results import run_id
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore
from hvstack.results.typed_json import JsonObject
from hvstack.results.workload_types import TYPES

TIMELINES_DIR = paths.STATE / 'timelines'
#: Span of a Rally process, from its start to its end.
RALLY = 'Rally and its contexts'
#: Span of a benchmark run, whose phases are in its record.
RUN = 'before and after the phases'
#: Time of a phase that is not one of the spans.
_PHASES = tuple(
    dict.fromkeys(name for item in TYPES.values() for name in item.phases)
)


@dataclass(frozen=True)
class Span:
    """Span of time.

    :param name: category of the time.
    :param started_at: start in seconds since 1970.
    :param seconds: duration without the spans inside.
    """

    name: str
    started_at: float
    seconds: float


@dataclass
class Timeline:
    """Timeline of a process.

    :param sweep: name of the sweep; empty before it is known.
    """

    sweep: str = ''
    _waiting: list[Span] = field(default_factory=list)
    _inner_seconds: list[float] = field(default_factory=list)

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Measure a block, also if it fails.

        :param name: category of the time.
        """
        started_at, start = time.time(), time.monotonic()
        self._inner_seconds.append(0.0)
        try:
            yield
        finally:
            seconds = time.monotonic() - start
            inner_seconds = self._inner_seconds.pop()
            if self._inner_seconds:
                self._inner_seconds[-1] += seconds
            self._append(
                Span(name, started_at, max(0.0, seconds - inner_seconds))
            )

    def _append(self, span: Span) -> None:
        self._waiting.append(span)
        if not self.sweep:
            return
        text = ''.join(
            json.dumps(asdict(item)) + '\n' for item in self._waiting
        )
        self._waiting.clear()
        # A full disk is reported where it affects a result.
        with contextlib.suppress(OSError, errors.HVStackError):
            paths.make_directory(TIMELINES_DIR)
            path = TIMELINES_DIR / f'{self.sweep}.jsonl'
            with path.open('a', encoding='utf-8') as stream:
                stream.write(text)


def read_spans(sweep: str) -> list[Span]:
    """Return the spans of a sweep; none without a file.

    :param sweep: name of the sweep.
    """
    spans = []
    path = TIMELINES_DIR / f'{sweep}.jsonl'
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding='utf-8').splitlines():
            # A process that is killed leaves an incomplete line.
            with contextlib.suppress(ValueError, errors.InputError):
                spans.append(to_dataclass(Span, json.loads(line), str(path)))
    return spans


@dataclass(frozen=True)
class TimeShare:
    """Time of a category.

    :param name: category, or phase of the benchmark.
    :param seconds: duration in seconds.
    :param is_phase: whether it is a phase of the benchmark.
    """

    name: str
    seconds: float
    is_phase: bool = False


@dataclass(frozen=True)
class TimelineSummary:
    """Where the time of a sweep went.

    :param shares: categories, phases first; the others sorted by duration.
    """

    shares: tuple[TimeShare, ...]

    @property
    def total_seconds(self) -> float:
        """Duration of the sweep, without the time between invocations."""
        return math.fsum(share.seconds for share in self.shares)

    @property
    def outside_share(self) -> float:
        """Share of the time outside of the phases, from 0 to 1."""
        total = self.total_seconds
        outside = math.fsum(
            share.seconds for share in self.shares if not share.is_phase
        )
        return outside / total if total else 0.0

    def to_mapping(self) -> JsonObject:
        """Return the summary as plain data."""
        return {
            'total_seconds': self.total_seconds,
            'outside_phases': self.outside_share,
            'shares': [asdict(share) for share in self.shares],
        }

    def format_lines(self) -> list[str]:
        """Return the summary as a table with a sentence."""
        total = self.total_seconds
        width = max((len(share.name) for share in self.shares), default=0)
        lines = [
            f'{share.name:<{width}}  {share.seconds:8.0f} s  '
            f'{100 * share.seconds / total:5.1f} %'
            for share in self.shares
        ]
        return [
            *lines,
            f'{100 * self.outside_share:.1f} % of {total:.0f} s are outside '
            'of the phases of the benchmark.',
        ]


def read_summary(sweep: str, store: RunStore) -> TimelineSummary | None:
    """Return where the time of a sweep and of its search went.

    :param sweep: name of the sweep.
    :param store: store of the run records.
    :returns: None if another machine or an older release measured the sweep.
    """
    spans = [span for name in _list_names(sweep) for span in read_spans(name)]
    return summarize(spans, read_records(sweep, store)) if spans else None


def read_records(sweep: str, store: RunStore) -> list[RunRecord]:
    """Return the usable records of a sweep and of its search.

    :param sweep: name of the sweep.
    :param store: store of the run records.
    """
    return [
        run for name in _list_names(sweep) for run in store.read_sweep(name)[0]
    ]


def _list_names(sweep: str) -> tuple[str, str]:
    """Return the names of a sweep and of its search in the records."""
    return sweep, run_id.format_search_name(sweep)


def summarize(
    spans: Iterable[Span], records: Sequence[RunRecord]
) -> TimelineSummary:
    """Return where the time of a sweep went.

    :param spans: spans of the sweep.
    :param records: records of the sweep, also those of failed runs.
    """
    seconds: dict[str, float] = {}
    for span in spans:
        seconds[span.name] = seconds.get(span.name, 0.0) + span.seconds
    phases = _sum_phases(records)
    if RUN in seconds:
        # The span of a run contains its phases.
        seconds[RUN] = max(0.0, seconds[RUN] - sum(phases.values()))
    if RALLY in seconds:
        # Spans of a Rally process are inside its span.
        inside = math.fsum(seconds.values()) - seconds[RALLY]
        seconds[RALLY] = max(
            0.0, seconds[RALLY] - inside - sum(phases.values())
        )
    others = sorted(
        (TimeShare(name, value) for name, value in seconds.items()),
        key=lambda share: -share.seconds,
    )
    return TimelineSummary(
        (
            *(
                TimeShare(name, value, is_phase=True)
                for name, value in phases.items()
            ),
            *others,
        )
    )


def _sum_phases(records: Iterable[RunRecord]) -> Mapping[str, float]:
    totals = dict.fromkeys(_PHASES, 0.0)
    for record in records:
        for phase in record.phases:
            if phase.name in totals:
                totals[phase.name] += phase.seconds
    return {name: value for name, value in totals.items() if value}
