# SPDX-License-Identifier: Apache-2.0
"""Rules of the lint for approved flavors and their evidence.

``doc/source/user/lint.md`` describes each rule.
"""

from datetime import UTC, date, datetime, timedelta

from hvstack.model.catalogue import EVIDENCE_FIELDS, CatalogueEntry, Evidence
from hvstack.model.compute_backends import BACKENDS, is_emulated
from hvstack.model.guest_shape import FieldMessages
from hvstack.model.host import HostProfile

#: Runs that a measurement has at least.
_MIN_RUNS = 2

#: No evidence is older than TPCx-HS.
_FIRST_DAY = date(2014, 1, 1)


def check_approved_ratios(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield approved flavors with a ratio (HV006)."""
    chosen = entry.configuration
    if entry.status == 'approved' and (
        chosen.cpu_ratio != 1 or chosen.ram_ratio != 1
    ):
        yield (
            'status',
            f'{chosen.label} over-subscribes its host: approved means ratios '
            'of 1',
        )


def check_evidence(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield approved flavors without their evidence (HV016)."""
    if entry.status != 'approved':
        return
    evidence: Evidence = entry.evidence or {}
    missing = [name for name in EVIDENCE_FIELDS if name not in evidence]
    if missing:
        yield (
            'evidence',
            f"lacks {', '.join(missing)}: measure it and let 'hvstack flavor "
            "approve' write it",
        )
    elif evidence['configuration'] != entry.configuration.name:
        yield (
            'evidence.configuration',
            f'is of another one than {entry.configuration.name}: measure '
            'this one',
        )


def check_evidence_values(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield values of the evidence that contradict each other (HV019)."""
    evidence: Evidence = entry.evidence or {}
    percent, low = evidence.get('percent'), evidence.get('low')
    high = evidence.get('high')
    required = evidence.get('min_percent')
    again = "let 'hvstack flavor approve' write it again"
    if low is not None and high is not None and low > high:
        yield 'evidence.low', f'{low:g} is more than high, {high:g}: {again}'
    elif percent is not None and not (
        (low is None or low <= percent) and (high is None or percent <= high)
    ):
        yield (
            'evidence.percent',
            f'{percent:g} is outside its interval: {again}',
        )
    if low is not None and required is not None and low < required:
        yield (
            'evidence.low',
            f'{low:g} is less than the {required:g} that were required: '
            f'{again}',
        )
    for name, count in (
        ('runs', evidence.get('runs')),
        ('baseline_runs', evidence.get('baseline_runs')),
    ):
        if count is not None and count < _MIN_RUNS:
            yield (
                f'evidence.{name}',
                f'{count} is no measurement, which has {_MIN_RUNS} runs or '
                'more: measure it again',
            )
    backend = evidence.get('backend')
    if backend is not None and (
        backend not in BACKENDS or is_emulated(backend)
    ):
        yield (
            'evidence.backend',
            f"'{backend:.40}' approves no flavor: measure it on kvm",
        )
    host = evidence.get('host')
    if host is not None and host != profile.name:
        yield (
            'evidence.host',
            f"'{host:.40}' is not the catalogue's host profile: measure it "
            f"on '{profile.name}'",
        )
    if 'date' in evidence and not _is_past(evidence['date']):
        yield (
            'evidence.date',
            f"'{evidence['date']:.40}' is not a day in the past, such as "
            f'2026-11-21: {again}',
        )


def _is_past(text: str) -> bool:
    """Return whether a text is a day on which something was measured."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return False
    # Another machine may have tomorrow's date already.
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    return text == day.isoformat() and _FIRST_DAY <= day <= tomorrow


def check_pool_copies(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield flavors approved on a pool with one copy (HV018)."""
    if entry.status == 'approved' and entry.configuration.storage == 'ceph':
        copies = (entry.evidence or {}).get('pool_size')
        if copies is None or copies < 2:
            yield (
                'evidence.pool_size',
                f'{copies or "unknown"}: with one copy a lost disk loses '
                'volumes, measure it on a pool of two or more',
            )
