# SPDX-License-Identifier: Apache-2.0
"""Evidence of an approved flavor: the raw records that it stands on."""

import hashlib
from collections.abc import Iterable

from hvstack import errors
from hvstack.model.catalogue import Entry
from hvstack.results import compare, percents
from hvstack.results.record import Record


def digest(records: Iterable[Record]) -> str:
    """Return SHA-256 over the sorted digests of records."""
    text = '\n'.join(sorted(record.digest for record in records))
    return hashlib.sha256(text.encode()).hexdigest()


def used(
    records: Iterable[Record],
    sweep: str,
    configuration: str,
    size_bytes: int,
    baseline: str | None = None,
) -> list[Record]:
    """Return the records that a percentage is computed of.

    :param records: of any sweeps.
    :param configuration: full name.
    :param baseline: sweep of the runs on bare metal, if it is another one.
    :returns: valid runs of it and of bare metal with as much data; of another
        sweep those that are comparable, as :mod:`reference` chooses them.
    """
    found = [
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
        return found
    runs = [one for one in found if one.kind != 'baseline']
    return runs + [
        one
        for one in found
        if one.kind == 'baseline'
        and not any(
            compare.record_differences(run, one, compare.swept(run))
            for run in runs
        )
    ]


def verify(entry: Entry, records: Iterable[Record]) -> None:
    """Prove that an approved flavor stands on these very records.

    :param records: of any sweeps; :func:`hvstack.results.record.load` has
        proved that none was edited.
    :raises hvstack.errors.InputError: it is no approved one, a record is
        missing or was added, or the evidence was edited.
    """
    place = entry.place('evidence')
    name = entry.flavor.name
    evidence = entry.evidence
    if entry.status != 'approved' or not evidence:
        raise errors.InputError(
            f"{place}: flavor '{name}' has no evidence, measure it and let "
            "'hvstack flavor approve' write it"
        )
    sweep = evidence.get('sweep')
    found = used(
        records,
        str(sweep),
        str(evidence.get('configuration')),
        int(evidence.get('size_bytes', 0)),
        evidence.get('baseline'),
    )
    if len({record.kind for record in found}) < 2:
        raise errors.InputError(
            f"{place}: flavor '{name}' stands on sweep '{sweep}', of which "
            'no run or no baseline is here: give the folder that has them '
            'with --records'
        )
    if digest(found) != evidence.get('digest'):
        raise errors.InputError(
            f"{place}: 'digest' of flavor '{name}' does not fit the "
            f"{len(found)} records of sweep '{sweep}': restore them, or "
            "approve it again with 'hvstack flavor approve'"
        )
    figures = _figures(found)
    for field, value in figures.items():
        if evidence.get(field) != value:
            raise errors.InputError(
                f"{entry.place(f'evidence.{field}')}: '{field}' of flavor "
                f"'{name}' is {evidence.get(field)}, but the records make "
                f"{value}: approve it again with 'hvstack flavor approve'"
            )


def _figures(found: Iterable[Record]) -> dict[str, float]:
    """Return what these records alone tell.

    The interval is not among it: its variance is that of the whole sweep.
    """
    runs: dict[str, list[Record]] = {'baseline': [], 'configuration': []}
    for record in found:
        runs[record.kind].append(record)
    base = runs.pop('baseline')
    percent = percents.of(runs, base).rows['configuration']
    return {'percent': rounded(percent.percent), 'runs': percent.runs}


def rounded(percent: float) -> float:
    """Return a percentage as precisely as evidence has it."""
    return round(percent, 2)
