# SPDX-License-Identifier: Apache-2.0
"""Report of a sweep: its rows with their percentages, and its conclusions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hvstack import errors
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL
from hvstack.report import disk_facts, run_conditions, variance_notes
from hvstack.report.formats import (
    describe_interval,
    format_count,
    format_plain,
    format_size,
)
from hvstack.report.growth import Growth, compute_growth
from hvstack.report.provenance import (
    HEADER_FACTS,
    SCALE_FACTORS,
    find_fact,
    format_worker_hosts,
    get_version,
    list_provenance_notes,
    list_unverified_notes,
)
from hvstack.report.sweep_rows import (
    EMULATED,
    SEARCH,
    Row,
    build_bare_metal_row,
    build_rows,
    explain_unselected,
)
from hvstack.results import comparability, percentages, stats
from hvstack.results.decision import SearchDecision
from hvstack.results.history import collect_earlier
from hvstack.results.record_data import RunRecord
from hvstack.results.typed_json import Json, JsonObject


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
        if self.decision is None:
            return self._describe_best()
        answer = f'{self._describe_best()} {self.decision.format_answer()}'
        if self.choice is None and self.ranked:
            reason = explain_unselected(self.rows, self.decision.winner)
            answer += f' The confirmation does not select it: {reason}.'
        return answer

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
        is_answer = self.decision and self.choice
        verb = 'is selected' if is_answer else 'is best'
        text = f'{best.title} {verb}: {percent.percent:.1f} % of bare metal'
        if percent.low is None or percent.high is None:
            return (
                f'{text}. There are too few clusters for an interval, so '
                'nothing can be said about differences.'
            )
        text += (
            f' ({describe_interval(percent)}, {percent.clusters} against '
            f'{percent.baseline_clusters} clusters)'
        )
        tied = self.choice.tied if self.choice else ()
        alike = [row.label for row in self.ranked if row.configuration in tied]
        if stats.contains_100(percent):
            alike.insert(0, 'bare metal')
        if alike:
            text += f'. It cannot be told apart from {", ".join(alike)}'
        elif self.choice and self.ranked[1:] and not self.faster_labels:
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
        return find_fact(self.records, name)

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
        return lines + list_unverified_notes(self.records)

    @property
    def notes(self) -> list[str]:
        """All notes, for forms of the report without a size limit."""
        lines = [
            *self.provenance_notes,
            *run_conditions.list_preparation_notes(self.records),
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
    def _drift_note(self) -> str:
        if self.drift is None:
            return (
                "Bare metal's drift over the sweep: not known, it takes "
                f'{stats.DRIFT_RUNS} clusters at different times.'
            )
        mean, low, high = self.drift.percent_an_hour
        return (
            f"Bare metal's drift over the sweep: {mean:+.1f} % an hour (95 % "
            f'interval {low:+.1f} to {high:+.1f}), ' + self._correction
        )

    @property
    def _correction(self) -> str:
        if self.drift is None or not self.drift.applied:
            return 'it cannot be told apart from 0, and nothing is corrected.'
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
            ('hosts', format_count(hosts)),
            ('effective worker hosts', format_worker_hosts(self.records)),
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
    :param history_records: records of any sweeps; the variance of runs that
        ended before those of the sweep counts, too.
    :param decision: answer of the search of the sweep; None without a search.
    :raises hvstack.errors.InputError: the sweep has no records, a record does
        not contain its cluster and its pass, or its workload has no rate.
    :raises hvstack.errors.NotComparableError: the runs on bare metal differ in
        a fact that must agree.
    """
    if not records:
        reasons = '; '.join(
            f'left out: {reason.removesuffix(".")}'
            for reason in invalid_records[:3]
        )
        raise errors.InputError(
            'Cannot report the sweep: it has no run records'
            + (f' ({reasons})' if reasons else '')
            + '. Run a sweep first, or name another one.'
        )
    run_conditions.refuse_programs(records)
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
    rows = build_rows(configured, good[:1], allow)
    fair = [row for row in rows if row.status == 'ok']
    sweep_percents = percentages.compute_percents(
        {row.configuration: row.valid for row in fair},
        good,
        collect_earlier(history_records, records, size),
    )
    for row in fair:
        row.percent = sweep_percents.rows.get(row.configuration)
    if baseline:
        rows.insert(
            0, build_bare_metal_row(baseline, sweep_percents.corrected_rates)
        )
    excluded_configurations = percentages.list_excluded(configured, size)
    return SweepReport(
        sweep=_join_sweep_names(configured or records),
        baseline_sweep=_join_sweep_names(good),
        rows=rows,
        size_bytes=size,
        records=list(records),
        corrected_rates=sweep_percents.corrected_rates,
        growth=compute_growth(
            good, [r for r in bases if r.size_bytes != size], allow
        ),
        drift=sweep_percents.drift,
        choice=_choose(
            sweep_percents.corrected_rates, excluded_configurations, decision
        ),
        excluded=excluded_configurations,
        allowed=_list_allowed_differences(
            records, (good or records)[0], allow
        ),
        invalid_records=list(invalid_records),
        decision=decision,
    )


def _list_allowed_differences(
    records: Iterable[RunRecord],
    reference_record: RunRecord,
    allow: Collection[str],
) -> list[str]:
    """Return the allowed differences of valid runs from a run, sorted.

    :param records: records of the sweep.
    :param reference_record: run on bare metal; the first run without any.
    :param allow: facts that may differ.
    """
    return sorted(
        {
            line
            for record in records
            if record.valid
            for line in comparability.list_allowed_differences(
                record, reference_record, allow
            )
        }
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
    :returns: None also if the answer has no percentage, or is excluded.
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
        # The search did not select the best of the others.
        return None
    alike = [
        name
        for name in (choice.best, *choice.tied)
        if name != winner and not corrected_rates.is_slower(winner, name)
    ]
    return stats.Choice(winner, tuple(alike), winner)


def _percent_value(row: Row) -> float:
    return row.percent.percent if row.percent else 0.0


def _join_sweep_names(records: Iterable[RunRecord]) -> str:
    return ', '.join(sorted({record.sweep for record in records}))
