# SPDX-License-Identifier: Apache-2.0
"""Reports of sweeps: rows with percent of bare metal, and provenance."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata

from hvstack import errors
from hvstack.hadoop import sizing
from hvstack.model import compute_backends
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL
from hvstack.report import disk_facts, run_conditions, variance_notes
from hvstack.results import (
    comparability,
    percentages,
    quantiles,
    run_id,
    stats,
)
from hvstack.results.decision import SearchDecision
from hvstack.results.history import collect_history
from hvstack.results.observations import Observations
from hvstack.results.record_data import RunRecord
from hvstack.results.stats import Percent
from hvstack.results.typed_json import Json, JsonObject

#: Printed with every result that the TPC kit did not produce.
DERIVED_NOTE = (
    'derived from the TPCx-HS benchmark and not comparable to published '
    'TPCx-HS results'
)
#: Scale factors of the TPC kit in TB; HSph@SF is defined for these alone.
SCALE_FACTORS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)

#: Limits of the percentages that a compute backend yields.
BACKEND_NOTES = {
    'lxc': (
        'backend lxc: containers share the kernel and page cache of their '
        'host, so no hypervisor is measured and percentages near 100 are by '
        'construction'
    ),
    'qemu': (
        'backend qemu: software emulation, for acceptance only, no measure '
        'of a hypervisor'
    ),
}

#: Replaces the percentage of a run with emulated CPUs.
EMULATED = 'emulated, not compared'

#: Replaces the percentage of a run of a search.
SEARCH = 'search, no percentage'

#: Facts of the system under test at the top of a table or page.
HEADER_FACTS = (
    'cpu_model',
    'kernel',
    'os_release',
    'jre',
    'hadoop',
    'nova',
    'libvirt',
    'qemu',
)

#: Phases in the order of a run.
PHASES = ('HSGen', 'HSDataCheck', 'HSSort', 'HSDataCheck 2', 'HSValidate')

FORMAT = 1


@dataclass
class Row:
    """Results of a configuration or of bare metal.

    :param configuration: full name of the configuration.
    :param label: short name of the configuration.
    :param status: ``ok``, ``failed``, ``not comparable``, ``no baseline``,
        :data:`EMULATED` or :data:`SEARCH`.
    :param valid: records of the valid runs.
    :param failed: records of the other runs.
    :param reasons: reasons why runs failed or cannot be compared.
    :param percent: percent of bare metal; None without a comparison.
    """

    configuration: str
    label: str
    status: str
    valid: list[RunRecord]
    failed: list[RunRecord]
    reasons: list[str] = field(default_factory=list)
    percent: Percent | None = None

    @property
    def seconds(self) -> dict[str, float]:
        """Mean seconds of each phase over the valid runs."""
        return compute_mean_seconds(self.valid)

    @property
    def total_seconds(self) -> float | None:
        """Mean elapsed seconds of the valid runs."""
        if not self.valid:
            return None
        return math.fsum(r.total_seconds for r in self.valid) / len(self.valid)

    @property
    def rate(self) -> float | None:
        """Geometric mean of the valid runs' rates, TB an hour."""
        if not self.valid:
            return None
        logs = [math.log(record.rate) for record in self.valid]
        return math.exp(math.fsum(logs) / len(logs))

    @property
    def title(self) -> str:
        """Label, followed by the type of storage of the volumes, if any."""
        storages = {
            record.sut.storage
            for record in self.valid or self.failed
            if record.sut.storage
        }
        if not storages:
            return self.label
        return f'{self.label} ({" or ".join(sorted(storages))})'

    @property
    def observed(self) -> Observations:
        """Facts that were observed in the last run."""
        last = (self.valid or self.failed)[-1:]
        return last[0].observations if last else Observations()

    @property
    def verdict(self) -> str:
        """Conclusion about the difference to bare metal."""
        if self.status != 'ok':
            return self.status
        if self.configuration == BARE_METAL:
            return 'the reference'
        return stats.describe(self.percent)


@dataclass(frozen=True)
class Growth:
    """Growth of the time on bare metal with the size of the data.

    :param small: size of the smaller data in bytes.
    :param large: size of the larger data in bytes.
    :param seconds: mean seconds for the small and the large data by phase.
    """

    small: int
    large: int
    seconds: dict[str, tuple[float, float]]

    @property
    def factor(self) -> float:
        """Ratio of the two sizes of data."""
        return self.large / self.small

    def ratio(self, phase: str) -> float | None:
        """Return the ratio of the seconds; None if the phase took no time."""
        small, large = self.seconds[phase]
        return large / small if small else None

    def fixed_seconds(self, phase: str) -> float | None:
        """Return the seconds that do not grow: 2 t1 - t2 for doubled data.

        The model is a straight line: a constant part and a part in proportion
        to the data. The result is None if the line has a negative part,
        because the machine was not equally fast in all runs.
        """
        small, large = self.seconds[phase]
        fixed = (self.factor * small - large) / (self.factor - 1)
        return fixed if 0 <= fixed <= small else None


@dataclass
class SweepReport:
    """Contents of a report.

    :param baseline_sweep: name of the sweep of the runs on bare metal.
    :param excluded: configurations with a run that failed for good.
    :param allowed: allowed differences between runs, as text.
    :param invalid_records: reasons why further records were not used.
    :param decision: answer of the search of the sweep; None without a search.
    """

    sweep: str
    rows: list[Row]
    size_bytes: int
    records: list[RunRecord]
    corrected_rates: stats.CorrectedRates
    growth: list[Growth]
    baseline_sweep: str = ''
    drift: stats.Drift | None = None
    choice: stats.Choice | None = None
    excluded: frozenset[str] = frozenset()
    allowed: list[str] = field(default_factory=list)
    invalid_records: list[str] = field(default_factory=list)
    decision: SearchDecision | None = None

    @property
    def ranked(self) -> list[Row]:
        """Rows that can be selected, the best first.

        They have a percentage, and none of their runs failed for good.
        """
        eligible_rows = [
            row
            for row in self.rows
            if row.percent
            and row.configuration != BARE_METAL
            and row.configuration not in self.excluded
        ]
        return sorted(eligible_rows, key=_percent_value, reverse=True)

    @property
    def bare_metal(self) -> Row | None:
        """Row of the baseline; None without a valid run."""
        for row in self.rows:
            if row.configuration == BARE_METAL and row.valid:
                return row
        return None

    @property
    def _excluded_labels(self) -> list[str]:
        """Labels of the rows with a percentage that cannot be selected."""
        return [
            row.label
            for row in self.rows
            if row.percent and row.configuration in self.excluded
        ]

    @property
    def pooled(self) -> stats.Pooled:
        """Variance of the sweep."""
        return self.corrected_rates.pooled

    @property
    def headline(self) -> str:
        """Summary of the report in one or two sentences."""
        answer = f' {self.decision.format_answer()}' if self.decision else ''
        return f'{self._describe_best()}{answer}'

    def _describe_best(self) -> str:
        if not self.ranked:
            every = {row.status for row in self.rows if row.valid}
            if every == {SEARCH}:
                return (
                    'No percentage: the runs of a search count in none, and '
                    'the confirmation has no run yet.'
                )
            if self.bare_metal is None and every != {EMULATED}:
                return (
                    'The report has no percentages: no valid run on bare '
                    'metal exists for a comparison.'
                )
            if self._excluded_labels:
                return (
                    'None is best: of each configuration that can be '
                    'compared with bare metal a run failed for good.'
                )
            if any(row.status == EMULATED for row in self.rows):
                return (
                    'No percentage: emulated CPUs tell nothing about percent '
                    'of bare metal.'
                )
            return (
                'No percentage: no configuration has a valid run that can '
                'be compared with bare metal.'
            )
        best = self.leading_row
        assert best
        percent = best.percent
        assert percent
        verb = 'is selected' if self.decision else 'is best'
        text = f'{best.title} {verb}: {percent.percent:.1f} % of bare metal'
        if percent.low is None or percent.high is None:
            return (
                f'{text}. There are too few clusters for an interval, so '
                'nothing can be said about differences.'
            )
        text += (
            f' (95 % interval {percent.low:.1f} to {percent.high:.1f}, '
            f'{percent.clusters} against {percent.baseline_clusters} '
            'clusters)'
        )
        tied = self.choice.tied if self.choice else ()
        alike = [row.label for row in self.ranked if row.configuration in tied]
        if stats.contains_100(percent):
            alike.insert(0, 'bare metal')
        if alike:
            text += f'. It cannot be told apart from {", ".join(alike)}'
        elif len(self.ranked) > 1 and not self.faster_labels:
            text += '. Every other one that can be compared is slower'
        if self.faster_labels:
            text += f'. {", ".join(self.faster_labels)} is faster'
        return f'{text}.'

    @property
    def leading_row(self) -> Row | None:
        """Row of the answer of the search, or the best one, if any."""
        for row in self.ranked:
            if self.decision and row.configuration == self.decision.winner:
                return row
        return next(iter(self.ranked), None)

    @property
    def faster_labels(self) -> list[str]:
        """Labels of the rows that are faster than the answer of the search."""
        if self.decision is None or self.choice is None:
            return []
        winner = self.choice.selected
        return [
            row.label
            for row in self.ranked
            if row.configuration != winner
            and self.corrected_rates.is_slower(winner, row.configuration)
        ]

    @property
    def missing_runs(self) -> list[str]:
        """Runs without a record although a later run has a record.

        Runs on bare metal are not checked: Rally tasks that vary a single
        parameter number them by the configuration that follows, and skip them
        with this configuration.
        """
        indexes_by_configuration: dict[str, set[int]] = {}
        for record in self.records:
            if record.kind == 'baseline':
                continue
            indexes_by_configuration.setdefault(
                record.configuration, set()
            ).add(record.index)
        return [
            f'{name}: run {index} has no record'
            for name, indexes in indexes_by_configuration.items()
            for index in range(max(indexes))
            if index not in indexes
        ]

    @property
    def systems(self) -> list[Mapping[str, Json]]:
        """Facts of the systems under test, configurations first."""
        ordered = sorted(self.records, key=lambda r: r.kind == 'baseline')
        return [record.sut.facts for record in ordered]

    def get_fact(self, name: str) -> Json:
        """Return a fact of the first system under test that has it."""
        return _find_fact(self.records, name)

    @property
    def system_under_test(self) -> JsonObject:
        """All facts, each from the first system under test that has it."""
        names = sorted({key for env in self.systems for key in env})
        return {name: self.get_fact(name) for name in names}

    @property
    def backends(self) -> list[str]:
        """Names of the compute backends that were used."""
        backend_names = {
            str(environment['backend'])
            for environment in self.systems
            if environment.get('backend')
        }
        return sorted(backend_names)

    @property
    def derived(self) -> bool:
        """Whether a result comes from the substitute workload."""
        return any(record.derived for record in self.records)

    @property
    def rate_name(self) -> str:
        """Permitted name of the rate."""
        factor = self.size_bytes / 1e12
        if self.derived or factor not in SCALE_FACTORS:
            return 'TPCx-HS-derived rate'
        return f'HSph@SF{factor:.0f}'

    @property
    def provenance_notes(self) -> list[str]:
        """Notes that every form of the report must contain."""
        lines = list_provenance_notes(self.records, {self.size_bytes})
        lines += [f'Allowed to differ: {line}.' for line in self.allowed]
        return lines + self._unverified

    @property
    def _unverified(self) -> list[str]:
        """Notes on records that count only on request of the user."""
        counts = Counter(
            record.unverified for record in self.records if record.unverified
        )
        return [
            f'Not verified: {count} of {len(self.records)} records, each of '
            f'which {reason}.'
            for reason, count in sorted(counts.items())
        ]

    @property
    def notes(self) -> list[str]:
        """All notes, for forms of the report without a size limit."""
        lines = [
            *self.provenance_notes,
            *self._unready,
            *self._without_effect,
        ]
        unknown = comparability.list_unknown_facts(self.records)
        if unknown:
            lines.append(
                'Not recorded by all runs, so not compared: '
                f'{", ".join(unknown)}.'
            )
        lines += run_conditions.list_notes(self.records)
        lines += variance_notes.list_notes(self.corrected_rates)
        lines += [self._drift_note, *self.choice_note]
        lines += [
            f'Not to be taken: {label}, a run of it failed for good.'
            for label in self._excluded_labels
        ]
        lines += [
            f'Left out: {reason.removesuffix(".")}.'
            for reason in self.invalid_records
        ]
        lines += [f'Missing: {gap}.' for gap in self.missing_runs]
        return lines

    @property
    def _unready(self) -> list[str]:
        """Notes on runs that were not prepared as they should be."""
        valid = [record for record in self.records if record.valid]
        messages = [
            message
            for record in valid
            for message in record.observations.before_run
        ]
        if not messages:
            return []
        runs = sum(bool(record.observations.before_run) for record in valid)
        return [
            f'Before {runs} of {len(valid)} runs not all was as it should '
            f'be; the last time {messages[-1]}.'
        ]

    @property
    def _without_effect(self) -> list[str]:
        """Note on settings that the nodes could not apply."""
        settings = sorted(
            {
                str(setting)
                for record in self.records
                if record.valid
                for setting in record.observations.without_effect
            }
        )
        if not settings:
            return []
        return [f'Settings without effect: {"; ".join(settings)}.']

    @property
    def _worker_hosts(self) -> str:
        """Number of hosts with workers, for both sides if they differ.

        vsphere6 has 31.5 hosts with workers, and 31 on bare metal.
        """
        sides = {
            record_kind: record.sut.worker_hosts
            for record_kind in ('configuration', 'baseline')
            for record in self.records
            if record.kind == record_kind
        }
        values = [value for value in sides.values() if value is not None]
        if len(values) == 2 and values[0] != values[1]:
            own, bare_metal = map(_format_count, values)
            return f'{own}; bare metal {bare_metal}'
        return _format_count(values[0]) if values else ''

    @property
    def _drift_note(self) -> str:
        if self.drift is None:
            return (
                "Bare metal's drift over the sweep: not known, it takes "
                f'{stats.DRIFT_RUNS} valid runs at different times.'
            )
        mean, low, high = self.drift.percent_an_hour
        return (
            f"Bare metal's drift over the sweep: {mean:+.1f} % an hour (95 % "
            f'interval {low:+.1f} to {high:+.1f}), ' + self._correction
        )

    @property
    def _correction(self) -> str:
        if self.drift is None or not self.drift.applied:
            return 'not told from none, nothing is corrected.'
        if self.corrected_rates.drift is None:
            return 'not corrected: rows have no pass in common.'
        return (
            'removed from the rates within each pass; the effects of the '
            'passes contain the remainder.'
        )

    @property
    def choice_note(self) -> list[str]:
        """Note that names the winner or the tied configurations."""
        label = {row.configuration: row.label for row in self.rows}
        label.pop(BARE_METAL, None)
        if self.choice is None or len(label) < 2:
            return []
        if self.decision:
            return [f'Winner of the search: {label[self.choice.selected]}.']
        if self.choice.winner:
            return [f'Winner: {label[self.choice.best]}.']
        tied = ', '.join(label[name] for name in self.choice.tied)
        return [
            f'Tied: {label[self.choice.best]} with {tied}; the cheapest, '
            f'{label[self.choice.selected]}, is taken.'
        ]

    def list_facts(self) -> list[tuple[str, str]]:
        """Return names and values of the provenance, in order."""
        hosts = self.get_fact('hosts')
        first = self.records[0]
        facts = [
            ('sweep', self.sweep),
            (
                'bare metal of',
                ''
                if self.baseline_sweep == self.sweep
                else self.baseline_sweep,
            ),
            ('compute backend', ', '.join(self.backends) or 'none'),
            ('hosts', _format_count(hosts)),
            ('effective worker hosts', self._worker_hosts),
            ('data disks of a host', disk_facts.format_records(self.records)),
            ('data', format_size(self.size_bytes)),
            ('replication', str(first.replication)),
            ('caps', format_plain(self.get_fact('caps'))),
        ]
        facts += [
            (name, format_plain(self.get_fact(name))) for name in HEADER_FACTS
        ]
        facts.append(('hvstack', get_version()))
        facts.append(('runs', f'{first.started} to {self.records[-1].ended}'))
        return [(name, value) for name, value in facts if value]


def list_provenance_notes(
    records: Sequence[RunRecord], sizes: Collection[int]
) -> list[str]:
    """Return the limits of results, which every form of them must contain.

    :param records: records of the results.
    :param sizes: sizes of the data of the results in bytes.
    """
    lines = []
    is_derived = any(record.derived for record in records)
    if is_derived or any(size / 1e12 not in SCALE_FACTORS for size in sizes):
        lines.append(f'These figures are {DERIVED_NOTE}.')
    backends = {record.sut.backend or '' for record in records}
    lines += [
        f'{BACKEND_NOTES[backend]}.'
        for backend in sorted(backends)
        if backend in BACKEND_NOTES
    ]
    scale = _find_fact(records, 'scale_model')
    if scale:
        text = (
            'hosts report more CPUs than their cap has cores'
            if scale is True
            else str(scale)
        )
        lines.append(f'Scale model: {text}.')
    if _find_fact(records, 'tuning') == sizing.LAB:
        lines.append(
            "Tuning profile 'lab': JVMs have small heaps and only the first "
            'compiler of Java.'
        )
    low = sorted({r.replication for r in records if r.replication < 3})
    if low:
        lines.append(
            f'Replication is {low[0]}: below the three copies that the '
            'benchmark asks for.'
        )
    return lines + run_conditions.list_warnings(records)


def _find_fact(records: Iterable[RunRecord], name: str) -> Json:
    """Return a fact of the first record with it, configurations first."""
    for record in sorted(records, key=lambda r: r.kind == 'baseline'):
        if record.sut.facts.get(name) is not None:
            return record.sut.facts[name]
    return None


def build_report(
    records: Sequence[RunRecord],
    invalid_records: Sequence[str] = (),
    allow: Collection[str] = (),
    history_records: Iterable[Sequence[RunRecord]] = (),
    decision: SearchDecision | None = None,
) -> SweepReport:
    """Build the report of a sweep.

    :param records: records of the sweep.
    :param invalid_records: reasons why further records could not be used.
    :param allow: facts that may differ; the report lists the differences.
    :param history_records: records of any sweeps; the variance of earlier
        ones counts, too.
    :param decision: answer of the search of the sweep; None without a search.
    :raises hvstack.errors.InputError: the sweep has no records, or a record
        does not contain its cluster and its pass.
    :raises hvstack.errors.NotComparableError: the runs on bare metal differ in
        a fact that must agree.
    """
    if not records:
        raise errors.InputError(
            'there are no run records of this sweep: run a sweep first, or '
            'name another one'
            + ''.join(
                f'; left out: {reason}' for reason in invalid_records[:3]
            )
        )
    records = sorted(
        records, key=lambda record: (record.started, record.index)
    )
    allow = comparability.check_fact_names(allow, records)
    configured = [r for r in records if r.kind == 'configuration']
    bases = [r for r in records if r.kind == 'baseline']
    # The last run on bare metal has other data.
    size = min(r.size_bytes for r in (configured or bases[:1]))
    baseline = [r for r in bases if r.size_bytes == size]
    good = [record for record in baseline if record.valid]
    for record in good[1:]:
        comparability.require_comparable(record, good[0], allow)
    rows = _group_rows(configured)
    valid = [r for r in configured if r.valid]
    reference_record = _find_reference_record(
        [r for r in valid if not is_emulated(r)] or valid or records
    )
    for row in rows:
        _set_status(row, good[:1], reference_record, allow)
    fair = [row for row in rows if row.status == 'ok']
    sweep_percents = percentages.compute_percents(
        {row.configuration: row.valid for row in fair},
        good,
        collect_history(history_records, records),
    )
    for row in fair:
        row.percent = sweep_percents.rows.get(row.configuration)
    if baseline:
        rows.insert(
            0, _build_bare_metal_row(baseline, sweep_percents.corrected_rates)
        )
    excluded_configurations = percentages.list_excluded(configured, size)
    return SweepReport(
        sweep=_join_sweep_names(configured or records),
        baseline_sweep=_join_sweep_names(good),
        rows=rows,
        size_bytes=size,
        records=list(records),
        corrected_rates=sweep_percents.corrected_rates,
        growth=_compute_growth(
            good, [r for r in bases if r.size_bytes != size]
        ),
        drift=sweep_percents.drift,
        choice=_choose(
            sweep_percents.corrected_rates, excluded_configurations, decision
        ),
        excluded=excluded_configurations,
        allowed=sorted(
            {
                line
                for first_record in (good or records)[:1]
                for other in records
                if other.valid
                for line in comparability.list_allowed_differences(
                    other, first_record, allow
                )
            }
        ),
        invalid_records=list(invalid_records),
        decision=decision,
    )


def _choose(
    corrected_rates: stats.CorrectedRates,
    excluded: Collection[str],
    decision: SearchDecision | None,
) -> stats.Choice | None:
    """Return the best configuration; after a search, its answer.

    :param corrected_rates: rates of the sweep.
    :param excluded: configurations with a run that failed for good.
    :param decision: answer of the search; None without a search.
    """
    choice = stats.choose_winner(
        corrected_rates,
        lambda name: parse(name).cost,
        corrected_rates.rows.keys() - excluded,
    )
    if choice is None or decision is None:
        return choice
    winner = decision.winner
    if winner not in corrected_rates.rows or winner in excluded:
        return choice
    alike = [
        name
        for name in (choice.best, *choice.tied)
        if name != winner and not corrected_rates.is_slower(winner, name)
    ]
    return stats.Choice(winner, tuple(alike), winner)


def to_mapping(report: SweepReport) -> JsonObject:
    """Return a report as plain data, for ``results.json``."""
    return {
        'format': FORMAT,
        'hvstack': get_version(),
        'sweep': report.sweep,
        'baseline_sweep': report.baseline_sweep,
        'headline': report.headline,
        'notes': report.notes,
        'derived': report.derived,
        'rate_name': report.rate_name,
        'rate_unit': 'TB/h',
        'backends': report.backends,
        'hosts': report.get_fact('hosts'),
        'worker_hosts': report.get_fact('worker_hosts'),
        'scale_model': report.get_fact('scale_model'),
        'size_bytes': report.size_bytes,
        'versions': {name: report.get_fact(name) for name in HEADER_FACTS},
        'environment': report.system_under_test,
        'pooled': asdict(report.pooled),
        'drift': _drift_mapping(report),
        'choice': _choice_mapping(report.choice),
        'given_up': sorted(report.excluded),
        'allowed': report.allowed,
        'not_recorded': comparability.list_unknown_facts(report.records),
        'confidence': quantiles.CONFIDENCE,
        'rows': [_row_mapping(row) for row in report.rows],
        'growth': [
            {
                'size_bytes': [growth.small, growth.large],
                'phases': {
                    phase: {
                        'seconds': list(growth.seconds[phase]),
                        'ratio': growth.ratio(phase),
                        'fixed_seconds': growth.fixed_seconds(phase),
                    }
                    for phase in growth.seconds
                },
            }
            for growth in report.growth
        ],
    }


def compute_mean_seconds(records: Sequence[RunRecord]) -> dict[str, float]:
    """Return the mean seconds of each phase, in the order of a run."""
    sums: dict[str, list[float]] = {}
    for record in records:
        for name, seconds in record.phase_seconds().items():
            sums.setdefault(name, []).append(seconds)
    return {
        name: math.fsum(values) / len(values) for name, values in sums.items()
    }


def format_size(size: int) -> str:
    """Return a number of bytes as human-readable text, in units of 1000."""
    for unit, factor in (('TB', 10**12), ('GB', 10**9), ('MB', 10**6)):
        if size >= factor:
            return f'{size / factor:g} {unit}'
    return f'{size} bytes'


def format_plain(value: Json) -> str:
    """Return plain data as one line of text."""
    if value is None:
        return ''
    if isinstance(value, dict):
        return ', '.join(
            f'{key} {{{format_plain(item)}}}'
            if isinstance(item, dict)
            else f'{key} {format_plain(item)}'
            for key, item in value.items()
        )
    if isinstance(value, list):
        return ', '.join(format_plain(item) for item in value)
    if isinstance(value, float):
        return f'{value:.4g}'
    return str(value)


def _percent_value(row: Row) -> float:
    return row.percent.percent if row.percent else 0.0


def get_version() -> str:
    """Return the version of hvstack."""
    return metadata.version('hvstack')


def _format_count(value: Json) -> str:
    if isinstance(value, list | dict):
        return f'{len(value)}: {", ".join(map(str, value))}'
    return format_plain(value)


def _join_sweep_names(records: Iterable[RunRecord]) -> str:
    return ', '.join(sorted({record.sweep for record in records}))


def _group_rows(records: Iterable[RunRecord]) -> list[Row]:
    """Group the runs by configuration, in the order of their first run."""
    rows: dict[str, Row] = {}
    for record in records:
        name = record.configuration
        row = rows.setdefault(name, Row(name, parse(name).label, '', [], []))
        (row.valid if record.valid else row.failed).append(record)
    return list(rows.values())


def _set_status(
    row: Row,
    baseline: list[RunRecord],
    reference_record: RunRecord,
    allow: Collection[str] = (),
) -> None:
    """Set the status of a row and the reasons for it.

    :param baseline: record of a run on bare metal; empty without a run.
    :param allow: facts that may differ.
    :param reference_record: run that agrees with most configurations' runs.
    """
    row.reasons = list(dict.fromkeys(record.reason for record in row.failed))
    if not row.valid:
        row.status = 'failed'
        return
    if any(map(is_emulated, row.valid)):
        row.status = EMULATED
        return
    if any(run_id.is_search(record.sweep) for record in row.valid):
        row.status = SEARCH
        return
    if not baseline:
        row.status = 'no baseline'
        return
    differences = [
        line
        for record in row.valid
        for other, may in (
            (baseline[0], comparability.list_swept_facts(record)),
            (reference_record, comparability.ALL_SWEPT),
            # All runs of a row must use the same storage.
            (row.valid[0], comparability.ALL_SWEPT - {'storage'}),
        )
        for line in comparability.list_record_differences(
            record, other, may.union(allow)
        )
    ]
    row.status = 'not comparable' if differences else 'ok'
    row.reasons += dict.fromkeys(differences)


def is_emulated(record: RunRecord) -> bool:
    """Return whether the guests of a run had emulated CPUs."""
    return compute_backends.is_emulated(record.sut.backend)


def _find_reference_record(records: list[RunRecord]) -> RunRecord:
    """Return the record that agrees with most of the records."""
    # Few of thousands of runs differ: compare one record of each kind.
    kinds: dict[str, tuple[RunRecord, int]] = {}
    for record in records:
        key = _system_key(record)
        kinds[key] = (record, kinds.get(key, (record, 0))[1] + 1)
    return max(
        (record for record, _ in kinds.values()),
        key=lambda candidate: sum(
            count
            for other, count in kinds.values()
            if not comparability.list_record_differences(
                candidate, other, comparability.ALL_SWEPT
            )
        ),
    )


def _system_key(record: RunRecord) -> str:
    workload = [getattr(record, name) for name in comparability.WORKLOAD]
    return json.dumps([workload, record.sut.facts], sort_keys=True)


def _build_bare_metal_row(
    baseline: list[RunRecord], corrected_rates: stats.CorrectedRates
) -> Row:
    good = [record for record in baseline if record.valid]
    bad = [record for record in baseline if not record.valid]
    row = Row(BARE_METAL, 'bare metal', 'ok' if good else 'failed', good, bad)
    row.reasons = list(dict.fromkeys(record.reason for record in bad))
    if good:
        percent = corrected_rates.compute_bare_metal()
        row.percent = replace(percent, runs=len(good), baseline_runs=len(good))
    return row


def _compute_growth(
    baseline: list[RunRecord], others: list[RunRecord]
) -> list[Growth]:
    """Compare the times on bare metal with those of other data."""
    growths = []
    for size in sorted({record.size_bytes for record in others}):
        measured = [r for r in others if r.valid and r.size_bytes == size]
        if not measured or not baseline:
            continue
        for record in measured:
            comparability.require_comparable(
                record, baseline[0], {'size_bytes'}
            )
        smaller, larger = sorted(
            (baseline, measured), key=lambda records: records[0].size_bytes
        )
        small_seconds, large_seconds = map(
            compute_mean_seconds, (smaller, larger)
        )
        growths.append(
            Growth(
                smaller[0].size_bytes,
                larger[0].size_bytes,
                {
                    name: (small_seconds[name], large_seconds[name])
                    for name in small_seconds
                    if name in large_seconds
                },
            )
        )
    return growths


def _drift_mapping(report: SweepReport) -> JsonObject | None:
    drift = report.drift
    if drift is None:
        return None
    mean, low, high = drift.percent_an_hour
    return {
        'percent_an_hour': mean,
        'low': low,
        'high': high,
        'runs': len(drift.hours),
        'applied': report.corrected_rates.drift is not None,
    }


def _choice_mapping(choice: stats.Choice | None) -> JsonObject | None:
    if choice is None:
        return None
    return {**asdict(choice), 'winner': choice.winner}


def to_percent_mapping(row: Row | None) -> Json:
    """Return the percentage of a row as plain data; None without any."""
    if row is not None and row.percent:
        return asdict(row.percent)
    return EMULATED if row is not None and row.status == EMULATED else None


def _row_mapping(row: Row) -> JsonObject:
    return {
        'configuration': row.configuration,
        'label': row.label,
        'title': row.title,
        'status': row.status,
        'verdict': row.verdict,
        'runs': len(row.valid),
        'failed_runs': len(row.failed),
        'reasons': row.reasons,
        'seconds': row.seconds,
        'total_seconds': row.total_seconds,
        'rate': row.rate,
        'percent_of_bare_metal': to_percent_mapping(row),
        'seen': dict(row.observed.facts),
        'records': [
            {
                'id': record.id,
                'digest': record.digest,
                'index': record.index,
                'started': record.started,
                'ended': record.ended,
                'valid': record.valid,
                'reason': record.reason,
                'maps': record.maps,
                'reduces': record.reduces,
                'replication': record.replication,
                'phases': record.document['phases'],
                'total_seconds': record.total_seconds,
                'rate': record.rate,
            }
            for record in row.valid + row.failed
        ],
    }
