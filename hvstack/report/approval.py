# SPDX-License-Identifier: Apache-2.0
"""Approval of flavors: from the records of a sweep to evidence.

The percentage is that of the report. Each condition is a function that
returns the reason why a flavor is not approved, with the remedy, or None.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hvstack import errors
from hvstack.model.catalogue import (
    MAX_PERCENT,
    Catalogue,
    CatalogueEntry,
    Evidence,
)
from hvstack.model.compute_backends import BACKENDS, unsupported_spec
from hvstack.model.configuration import parse
from hvstack.model.host import HostCaps, HostProfile
from hvstack.model.target import BARE_METAL
from hvstack.nouns import format_noun
from hvstack.report import sweep_report, sweep_rows
from hvstack.report.formats import describe_interval
from hvstack.report.sweep_rows import Row
from hvstack.results.decision import SearchDecision
from hvstack.results.evidence import (
    compute_digest,
    round_percent,
    sign_evidence,
)
from hvstack.results.observations import CloudObservations
from hvstack.results.record_data import RunRecord
from hvstack.results.stats import Percent

#: Minimum number of runs of a measurement: the performance run and the
#: repeatability run.
MIN_RUNS = 2


@dataclass(frozen=True)
class Approval:
    """Approval of a flavor.

    :param index: position of the flavor in the catalogue.
    :param entry: catalogue entry of the flavor.
    :param evidence: evidence for the catalogue.
    """

    index: int
    entry: CatalogueEntry
    evidence: Evidence

    @property
    def changed(self) -> bool:
        """Whether the approval changes the catalogue."""
        return (
            self.entry.status != 'approved'
            or self.entry.evidence != self.evidence
        )


@dataclass(frozen=True)
class _Case:
    """Facts about a flavor that a user wants to approve.

    :param entry: catalogue entry of the flavor.
    :param profile: host profile of the catalogue.
    :param row: row of the report for the configuration.
    :param baseline: records of the valid runs on bare metal.
    :param min_percent: required percent of bare metal.
    :param is_excluded: whether a run of the configuration failed for good.
    """

    entry: CatalogueEntry
    profile: HostProfile
    row: Row
    baseline: list[RunRecord]
    min_percent: float
    is_excluded: bool

    @property
    def observed_clouds(self) -> list[CloudObservations]:
        """Observations of the cloud in each valid run."""
        return [record.observations.cloud for record in self.row.valid]

    @property
    def backends(self) -> set[str]:
        """Names of the compute backends of the runs."""
        return {record.sut.backend or 'unknown' for record in self.row.valid}

    @property
    def percent(self) -> Percent:
        """Percentage of the row, which must have a valid comparison."""
        assert self.row.percent is not None
        return self.row.percent


def approve(
    catalogue: Catalogue,
    names: Sequence[str],
    profile: HostProfile,
    records: Sequence[RunRecord],
    min_percent: float | None = None,
    history_records: Iterable[Sequence[RunRecord]] = (),
    decision: SearchDecision | None = None,
) -> list[Approval]:
    """Return the approvals of all named flavors.

    :param catalogue: catalogue with the flavors.
    :param names: names of flavors; if empty, the worker of the winner, or of
        the cheapest tied configuration.
    :param profile: host profile of the catalogue.
    :param records: records of one sweep with its baseline.
    :param min_percent: required percent of bare metal; None uses the value in
        the catalogue.
    :param history_records: records of earlier sweeps by sweep, for the
        variance.
    :param decision: answer of the search of the sweep; None without a search.
    :raises hvstack.errors.InputError: a flavor does not meet a condition; no
        flavor is approved.
    :raises hvstack.errors.NotComparableError: the runs on bare metal differ.
    """
    required_percent = (
        catalogue.min_percent if min_percent is None else min_percent
    )
    if not 0 <= required_percent <= MAX_PERCENT:
        raise errors.InputError(
            f"Cannot approve flavors: 'min_percent' is {required_percent:g}. "
            f'Use a number from 0 to {MAX_PERCENT}.'
        )
    report = sweep_report.build_report(
        records, history_records=history_records, decision=decision
    )
    numbers = {
        entry.flavor.name: index
        for index, entry in enumerate(catalogue.entries)
    }
    approvals = []
    for name in dict.fromkeys(names or _select_workers(catalogue, report)):
        if name not in numbers:
            near = difflib.get_close_matches(name, numbers, 1, cutoff=0)
            raise errors.InputError(
                f"Cannot approve flavor '{name}': it is not in the catalogue. "
                'Use one of its flavors'
                + (f", such as '{near[0]}'." if near else '.')
            )
        entry = catalogue.entries[numbers[name]]
        case = _build_case(entry, profile, report, required_percent)
        for condition in CONDITIONS:
            reason = condition(case)
            if reason:
                raise _build_error(entry, reason)
        evidence = sign_evidence(entry, _build_evidence(case, report))
        approvals.append(Approval(numbers[name], entry, evidence))
    return approvals


def _select_workers(
    catalogue: Catalogue, report: sweep_report.SweepReport
) -> list[str]:
    """Return the names of the workers of the selected configuration."""
    if report.choice is None:
        raise errors.InputError(
            f"Cannot select a flavor of sweep '{report.sweep}': it has no "
            f'winner ({report.headline.removesuffix(".")}). Complete the '
            'sweep, or use another one.'
        )
    selected_name = report.choice.selected
    names = [
        entry.flavor.name
        for entry in catalogue.entries
        if entry.configuration.name == selected_name
        and entry.flavor.role == 'worker'
    ]
    if not names:
        raise errors.InputError(
            f"Cannot select a flavor of sweep '{report.sweep}': it takes "
            f"'{parse(selected_name).label}', of which the catalogue has no "
            'worker. Derive it, or name a FLAVOR.'
        )
    return names


def _build_error(entry: CatalogueEntry, reason: str) -> errors.InputError:
    """Return an error that names the flavor and its place in the catalogue.

    :param reason: reason and remedy, without the period at the end, as in
        ``its runs were on two backends. Measure it on kvm``.
    """
    return errors.InputError(
        f"Cannot approve flavor '{entry.flavor.name}' "
        f'({entry.source_location("status")}): {reason}.'
    )


def _build_case(
    entry: CatalogueEntry,
    profile: HostProfile,
    report: sweep_report.SweepReport,
    required_percent: float,
) -> _Case:
    rows = {row.configuration: row for row in report.rows}
    name = entry.configuration.name
    if name not in rows:
        raise _build_error(
            entry,
            f"sweep '{report.sweep}' has no run of '{name}'. Measure it, or "
            'use another --sweep',
        )
    base = rows.get(BARE_METAL)
    return _Case(
        entry,
        profile,
        rows[name],
        base.valid if base else [],
        required_percent,
        name in report.excluded,
    )


def _check_runs(case: _Case) -> str | None:
    for label, count in (
        (case.entry.configuration.label, len(case.row.valid)),
        ('bare metal', len(case.baseline)),
    ):
        if count < MIN_RUNS:
            reasons = '; '.join(case.row.reasons) or 'more were not run'
            return (
                f'{format_noun(count, "run")} of {label} ended with a good '
                f'data check, {MIN_RUNS} are needed ({reasons[:200]}). Run '
                'the sweep again'
            )
    return None


def _check_failures(case: _Case) -> str | None:
    if case.is_excluded:
        return (
            'a run of it failed for good, and the percentage is that of the '
            f'other runs ({"; ".join(case.row.reasons)[:300]}). Remove the '
            'cause and run another sweep'
        )
    return None


def _check_comparable(case: _Case) -> str | None:
    if case.row.status == sweep_rows.EMULATED:
        return None  # _check_backend reports it with a remedy.
    if case.row.status != 'ok':
        return (
            'its runs cannot be compared with bare metal '
            f'({"; ".join(case.row.reasons)[:300]}). Measure both alike'
        )
    return None


def _check_host_profile(case: _Case) -> str | None:
    profile = case.profile
    for cloud in case.observed_clouds:
        recorded_profile = cloud.host_profile.get(case.entry.flavor.role)
        if recorded_profile is None:
            return (
                'the records do not say on which host profile a '
                f'{case.entry.flavor.role} ran. Measure it again'
            )
        if recorded_profile.name != profile.name:
            return (
                'it was measured on host profile '
                f"'{recorded_profile.name}', but the catalogue is for "
                f"'{profile.name}'. Measure it there"
            )
        if recorded_profile.digest != profile.digest:
            return (
                f"host profile '{profile.name}' has changed since it was "
                'measured. Measure it again'
            )
    return None


def _check_flavor(case: _Case) -> str | None:
    flavor = case.entry.flavor
    for cloud in case.observed_clouds:
        recorded_flavor = cloud.flavor.get(flavor.role)
        if recorded_flavor is None:
            return (
                f'the records do not say which flavor a {flavor.role} had. '
                'Measure it again'
            )
        for name in ('vcpus', 'ram', 'disk', 'ephemeral'):
            recorded_value = getattr(recorded_flavor, name)
            if recorded_value != getattr(flavor, name):
                return (
                    f'the flavor that was measured has {name} '
                    f'{recorded_value}, this one '
                    f'{getattr(flavor, name)}. Measure this one'
                )
        specs = _select_unpublished_specs(recorded_flavor.extra_specs)
        expected_specs = _select_unpublished_specs(flavor.extra_specs)
        for name in sorted({*specs, *expected_specs}):
            if specs.get(name) != expected_specs.get(name):
                return (
                    f'the flavor that was measured has {name} '
                    f'{specs.get(name, "unset")}, this one '
                    f'{expected_specs.get(name, "unset")}. Measure this one'
                )
    return None


def _select_unpublished_specs(
    extra_specs: Mapping[str, str],
) -> dict[str, str]:
    """Return the extra specs without those that publish evidence."""
    return {
        name: value
        for name, value in extra_specs.items()
        if not name.startswith('hvstack:')
    }


def _check_configured_ratios(case: _Case) -> str | None:
    chosen = case.entry.configuration
    if chosen.cpu_ratio != 1 or chosen.ram_ratio != 1:
        return (
            f'{chosen.label} over-subscribes its host, and only ratios of 1 '
            'are approved. Measure such a configuration'
        )
    return None


def _check_observed_ratios(case: _Case) -> str | None:
    for cloud in case.observed_clouds:
        if not cloud.inventory:
            return (
                "the records do not hold Placement's inventories. Measure it "
                'again'
            )
        for host, kinds in cloud.inventory.items():
            if 'MEMORY_MB' not in kinds or not {'VCPU', 'PCPU'} & set(kinds):
                return (
                    f'Placement had no CPUs or memory of {host} in the '
                    'records. Measure it again'
                )
            for resource_class, content in kinds.items():
                if content.allocation_ratio != 1:
                    return (
                        f'Placement had ratio {content.allocation_ratio} of '
                        f'{resource_class} on {host} while it ran. Set it to '
                        '1 and measure again'
                    )
    return None


def _check_backend(case: _Case) -> str | None:
    (backend, *others) = sorted(case.backends)
    if others or backend not in BACKENDS:
        return (
            f'its runs were on backend {", ".join([backend, *others])}. '
            'Measure it on kvm, or in the lab on lxc'
        )
    if backend == 'qemu':
        return (
            'backend qemu emulates the CPU, so its speed says nothing. '
            'Measure it on kvm'
        )
    profile = case.profile
    is_capped_lab = profile.policy.lab and profile.caps != HostCaps()
    if backend == 'lxc' and not is_capped_lab:
        return (
            'backend lxc measures no hypervisor and approves flavors of a '
            f"lab's capped hosts only, which '{case.profile.name}' is not. "
            'Measure it on kvm'
        )
    return None


def _check_extra_specs(case: _Case) -> str | None:
    for backend in case.backends:
        spec = unsupported_spec(case.entry.flavor, backend)
        if spec:
            return (
                f'backend {backend} does not honour {spec}. Measure it on '
                'kvm, or take it out'
            )
    return None


def _list_pool_copies(case: _Case) -> Iterator[tuple[str, int]]:
    """Yield the Ceph pools of the runs with their numbers of copies."""
    for cloud in case.observed_clouds:
        yield from (cloud.ceph_pools or {'': 0}).items()


def _check_pool_copies(case: _Case) -> str | None:
    if case.entry.configuration.storage != 'ceph':
        return None
    for pool, copies in _list_pool_copies(case):
        if not copies:
            return (
                'the records do not say how many copies its Ceph pools keep. '
                'Measure it again'
            )
        if copies < 2:
            return (
                f"Ceph pool '{pool}' kept one copy, which is for benchmarks "
                'only. Measure it with two or more'
            )
    return None


def _check_percent(case: _Case) -> str | None:
    percent = case.percent
    if percent.low is None:
        return 'its percentage has no interval. Measure it more often'
    if percent.low < case.min_percent:
        return (
            f'{percent.percent:.1f} % of bare metal '
            f'({describe_interval(percent)}) may be less than the '
            f'{case.min_percent:g} that are needed. Measure it more often, or '
            'use another one'
        )
    return None


#: What must hold, in this order; ``doc/source/user/flavors.md`` lists them.
CONDITIONS: tuple[Callable[[_Case], str | None], ...] = (
    _check_configured_ratios,
    _check_runs,
    _check_failures,
    _check_comparable,
    _check_host_profile,
    _check_flavor,
    _check_observed_ratios,
    _check_backend,
    _check_extra_specs,
    _check_pool_copies,
    _check_percent,
)


def _build_evidence(case: _Case, report: sweep_report.SweepReport) -> Evidence:
    """Return the evidence of a flavor."""
    percent = case.percent
    runs = case.row.valid
    last = max(runs, key=lambda record: record.ended)
    evidence: Evidence = {
        'percent': round_percent(percent.percent),
        'low': round_percent(percent.low or 0),
        'high': round_percent(percent.high or 0),
        'min_percent': case.min_percent,
        'runs': percent.runs,
        'baseline_runs': percent.baseline_runs,
        'size_bytes': report.size_bytes,
        'backend': case.backends.pop(),
        'date': last.ended[:10],
        'releases': {
            'nova': last.sut.nova or 'unknown',
            'hadoop': last.sut.hadoop or 'unknown',
            'hvstack': last.observations.hvstack or 'unknown',
        },
        'configuration': case.row.configuration,
        'host': case.profile.name,
        'sweep': report.sweep,
        'digest': compute_digest([*runs, *case.baseline]),
    }
    if report.baseline_sweep != report.sweep:
        evidence['baseline'] = report.baseline_sweep
    unverified = sum(
        bool(record.unverified) for record in [*runs, *case.baseline]
    )
    if unverified:
        evidence['unverified'] = unverified
    copies = [
        copy_count for _, copy_count in _list_pool_copies(case) if copy_count
    ]
    if copies:
        evidence['pool_size'] = min(copies)
    return evidence
