# SPDX-License-Identifier: Apache-2.0
"""Which recorded runs on bare metal a configuration is compared with."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from hvstack import errors, textfile
from hvstack.results import compare, record
from hvstack.results.record import Record

#: Stands for the newest comparable runs.
AUTO = 'auto'


def candidates(
    given: str,
    folder: Path,
    known: Iterable[Record] | None = None,
    unsigned: bool | None = None,
) -> list[Record]:
    """Return the valid runs on bare metal that a name may mean, newest last.

    :param given: :data:`AUTO`, a record's file, or the id of a record or a
        sweep.
    :param folder: of the run records.
    :param known: the records there, if they have been read.
    :param unsigned: as in :func:`hvstack.results.record.load`.
    :raises hvstack.errors.InputError: there is none.
    """
    path = Path(given)
    if path.suffix == '.json' or textfile.is_regular(path):
        found = [record.load(path, unsigned)]
    else:
        found = [
            one
            for one in (
                record.load_usable(folder, unsigned)[0]
                if known is None
                else known
            )
            if given in (AUTO, one.id, one.sweep)
        ]
    found = [one for one in found if one.kind == 'baseline' and one.valid]
    if not found:
        raise errors.InputError(
            f"baseline '{given}': {folder} has no such valid run on bare "
            "metal, make one with 'hvstack baseline run'"
            + _left_out(given, folder, unsigned)
        )
    return found


def _left_out(name: str, folder: Path, unsigned: bool | None) -> str:
    """Return why a record that may be meant does not count."""
    _, invalid_records = record.load_usable(folder, unsigned)
    for invalid in invalid_records:
        if name in (AUTO, invalid.sweep) or name in invalid.reason:
            return f'; left out: {invalid.reason}'
    return ''


def choose(
    given: str, run: Record, folder: Path, allow: Collection[str] = ()
) -> list[Record]:
    """Return the runs on bare metal that a run is compared with.

    The newest comparable one decides on the sweep; all comparable ones of
    that sweep count.

    :param given: as in :func:`candidates`.
    :param allow: facts that may differ.
    :raises hvstack.errors.InputError: there is none.
    :raises hvstack.errors.NotComparable: none is comparable, with what
        differs from the newest.
    """
    return _comparable(candidates(given, folder), run, allow)


def instead(
    given: str,
    records: Sequence[Record],
    folder: Path,
    known: Iterable[Record] | None = None,
    allow: Collection[str] = (),
    unsigned: bool | None = None,
) -> list[Record]:
    """Return a sweep's runs with other ones on bare metal than its own.

    The first run that any comparable ones are found for decides.

    :param given: as in :func:`candidates`, as is ``known``.
    :param records: of the sweep.
    :param allow: facts that may differ.
    :param unsigned: as in :func:`hvstack.results.record.load`.
    :raises hvstack.errors.InputError: there is none, or no valid run that
        would be compared with it.
    :raises hvstack.errors.NotComparable: none is comparable, with what
        differs from the newest.
    """
    found = candidates(given, folder, known, unsigned)
    configured = [one for one in records if one.kind == 'configuration']
    valid = [one for one in configured if one.valid]
    refusal: errors.HVStackError = errors.InputError(
        f"baseline '{given}': the sweep has no valid run of a configuration "
        'to compare with it'
    )
    for run in valid:
        try:
            return configured + _comparable(found, run, allow)
        except errors.NotComparable as exc:
            refusal = exc
    raise refusal


def _comparable(
    found: Sequence[Record], run: Record, allow: Collection[str]
) -> list[Record]:
    may = compare.swept(run).union(allow)
    fair = [
        one for one in found if not compare.record_differences(run, one, may)
    ]
    if not fair:
        compare.require_comparable(run, found[-1], may)
    return [one for one in fair if one.sweep == fair[-1].sweep]
