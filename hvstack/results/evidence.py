# SPDX-License-Identifier: Apache-2.0
"""Evidence of an approved flavor: the raw records that it stands on."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict

from hvstack import errors
from hvstack.model.catalogue import CatalogueEntry, Evidence
from hvstack.model.compute_backends import is_emulated
from hvstack.results import comparability, percentages, signing
from hvstack.results.record_data import RunRecord
from hvstack.results.typed_json import Json


def compute_digest(records: Iterable[RunRecord]) -> str:
    """Return SHA-256 over the sorted digests of records."""
    text = '\n'.join(sorted(record.digest for record in records))
    return hashlib.sha256(text.encode()).hexdigest()


def format_canonical(entry: CatalogueEntry, evidence: Evidence) -> str:
    """Return the text that the signature of evidence covers.

    It contains the flavor, so that evidence cannot be moved to another one.

    :param entry: of the catalogue.
    :param evidence: with or without its signature.
    """
    flavor = asdict(entry.flavor)
    del flavor['description']
    content = {
        'flavor': flavor,
        'configuration': entry.configuration.name,
        'evidence': {
            name: value
            for name, value in evidence.items()
            if name != 'signature'
        },
    }
    plain: Json = json.loads(json.dumps(content))
    return json.dumps(
        _normalize_numbers(plain), sort_keys=True, separators=(',', ':')
    )


def _normalize_numbers(value: Json) -> Json:
    """Return plain data in which 90 and 90.0 are the same number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _normalize_numbers(item) for name, item in value.items()}
    return value


def sign_evidence(entry: CatalogueEntry, evidence: Evidence) -> Evidence:
    """Return evidence with a signature by this machine's key.

    :param entry: of the catalogue.
    :param evidence: results that justify the approval.
    :raises hvstack.errors.MissingPrerequisiteError: the key cannot be used.
    """
    signature = signing.sign(
        signing.EVIDENCE, format_canonical(entry, evidence)
    )
    return {**evidence, 'signature': signature}


def select_records(
    records: Iterable[RunRecord],
    sweep: str,
    configuration: str,
    size_bytes: int,
    baseline: str | None,
) -> list[RunRecord]:
    """Return the records that a percentage is computed of.

    :param records: of any sweeps.
    :param configuration: full name.
    :param baseline: sweep of the runs on bare metal, if it is another one.
    :returns: valid runs of it and of bare metal with as much data; of another
        sweep those that are comparable, as :mod:`reference` chooses them.
    """
    matching_records = [
        record
        for record in records
        if record.valid
        and record.size_bytes == size_bytes
        and (
            record.sweep == (baseline or sweep)
            if record.kind == 'baseline'
            else (record.sweep, record.configuration) == (sweep, configuration)
        )
    ]
    if baseline is None:
        return matching_records
    runs = [record for record in matching_records if record.kind != 'baseline']
    return runs + [
        record
        for record in matching_records
        if record.kind == 'baseline'
        and not any(
            comparability.list_record_differences(
                run, record, comparability.list_swept_facts(run)
            )
            for run in runs
        )
    ]


def verify_evidence(
    entry: CatalogueEntry,
    records: Iterable[RunRecord],
    policy: signing.Policy | None = None,
) -> str:
    """Prove that an approved flavor stands on these very records.

    :param records: of any sweeps; :func:`hvstack.results.record.load` has
        proved that none was edited.
    :param policy: the signatures that count; None for those that count on
        this machine.
    :returns: why the evidence counts only on request; empty if a trusted
        key signed it.
    :raises hvstack.errors.InputError: it is no approved one, a record is
        missing or was added, or the evidence was edited or is not signed by
        a trusted key.
    """
    records = list(records)
    source_location = entry.source_location('evidence')
    name = entry.flavor.name
    evidence = entry.evidence
    if entry.status != 'approved' or not evidence:
        raise errors.InputError(
            f"{source_location}: Flavor '{name}' has no evidence. Measure it, "
            "then run 'hvstack flavor approve'."
        )
    sweep = evidence.get('sweep')
    used_records = select_records(
        records,
        str(sweep),
        str(evidence.get('configuration')),
        evidence.get('size_bytes', 0),
        evidence.get('baseline'),
    )
    if len({record.kind for record in used_records}) < 2:
        raise errors.InputError(
            f"Cannot check the evidence of flavor '{name}' "
            f'({source_location}): this directory does not contain the runs '
            f"and the baseline of sweep '{sweep}'. Set --records to the "
            'directory that contains them.'
        )
    if compute_digest(used_records) != evidence.get('digest'):
        raise errors.InputError(
            f"{source_location}: 'digest' of flavor '{name}' does not match "
            f"the {len(used_records)} records of sweep '{sweep}'. Restore the "
            "records, or approve the flavor again with 'hvstack flavor "
            "approve'."
        )
    stored = dict(evidence)
    percents = _compute_percents(used_records, records)
    figures = {'percent': percents[0], **_compute_figures(used_records)}
    if stored.get('percent') in percents:
        del figures['percent']
    for field, value in figures.items():
        # Older catalogues do not have all of them.
        if stored.get(field, value) != value:
            raise errors.InputError(
                f"{entry.source_location(f'evidence.{field}')}: '{field}' of "
                f"flavor '{name}' is {stored.get(field)}, but the records "
                f"result in {value}. Approve the flavor again with 'hvstack "
                "flavor approve'."
            )
    try:
        return (policy or signing.policy()).assess(
            signing.EVIDENCE,
            format_canonical(entry, evidence),
            evidence.get('signature'),
        )
    except ValueError as exc:
        raise errors.InputError(
            f"{source_location}: The evidence of flavor '{name}' {exc}, or "
            "approve the flavor again with 'hvstack flavor approve'."
        ) from None


def _compute_percents(
    used_records: Iterable[RunRecord], records: Iterable[RunRecord]
) -> list[float]:
    """Return the percentages that a report on these records can contain.

    The runs of the other configurations determine the effects of the passes
    and the drift, too: the first percentage is that of the whole sweep, and
    the second one that of the configuration alone.

    :param used_records: runs of the configuration and of bare metal.
    :param records: records of any sweeps.
    """
    runs, base = _split_kinds(used_records)
    last = runs[-1]
    rows: dict[str, list[RunRecord]] = {}
    for record in records:
        if (
            record.valid
            and record.kind == last.kind
            and (record.sweep, record.size_bytes)
            == (last.sweep, last.size_bytes)
        ):
            rows.setdefault(record.configuration, []).append(record)
    rows = {
        name: others
        for name, others in rows.items()
        if not any(is_emulated(other.sut.backend) for other in others)
    }
    reference_record = comparability.find_reference_record(
        sorted(
            (other for others in rows.values() for other in others),
            key=lambda other: (other.started, other.index),
        )
        or runs
    )
    comparable_rows = {
        name: others
        for name, others in rows.items()
        if not comparability.list_row_differences(
            others, base[0], reference_record
        )
    }
    name = last.configuration
    return [
        round_percent(
            percentages.compute_percents({**chosen_rows, name: runs}, base)
            .rows[name]
            .percent
        )
        for chosen_rows in (comparable_rows, {})
    ]


def _split_kinds(
    records: Iterable[RunRecord],
) -> tuple[list[RunRecord], list[RunRecord]]:
    """Return the runs of configurations, and those of bare metal."""
    runs: dict[str, list[RunRecord]] = {'configuration': [], 'baseline': []}
    for record in records:
        runs[record.kind].append(record)
    return runs['configuration'], runs['baseline']


def _compute_figures(records: Iterable[RunRecord]) -> Evidence:
    """Return the evidence that follows from these records alone.

    The interval is not among it: its variance is that of the whole sweep.
    """
    runs, base = _split_kinds(records)
    last = max(runs, key=lambda record: record.ended)
    return {
        'runs': len(runs),
        'baseline_runs': len(base),
        'backend': last.sut.backend or 'unknown',
        'date': last.ended[:10],
    }


def round_percent(percent: float) -> float:
    """Return a percentage as precisely as evidence has it."""
    return round(percent, 2)
