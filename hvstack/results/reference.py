# SPDX-License-Identifier: Apache-2.0
"""Which recorded runs on bare metal a configuration is compared with."""

from collections.abc import Sequence
from pathlib import Path

from hvstack import errors
from hvstack.results import compare, record
from hvstack.results.record import Record

#: Stands for the newest comparable runs.
AUTO = 'auto'


def candidates(given: str, folder: Path) -> list[Record]:
    """Return the valid runs on bare metal that a name may mean, newest last.

    :param given: :data:`AUTO`, a record's file, or the id of a record or a
        sweep.
    :param folder: of the run records.
    :raises hvstack.errors.InputError: there is none.
    """
    path = Path(given)
    if path.suffix == '.json' or path.is_file():
        found = [record.load(path)]
    else:
        found = [
            one
            for one in record.load_all(folder)
            if given in (AUTO, one.id, one.sweep)
        ]
    found = [one for one in found if one.kind == 'baseline' and one.valid]
    if not found:
        raise errors.InputError(
            f"baseline '{given}': {folder} has no such valid run on bare "
            "metal, make one with 'hvstack baseline run'"
        )
    return found


def choose(given: str, run: Record, folder: Path) -> list[Record]:
    """Return the runs on bare metal that a run is compared with.

    The newest comparable one decides on the sweep; all comparable ones of
    that sweep count.

    :param given: as in :func:`candidates`.
    :raises hvstack.errors.InputError: there is none.
    :raises hvstack.errors.NotComparable: none is comparable, with what
        differs from the newest.
    """
    found = candidates(given, folder)
    fair = [one for one in found if not compare.record_differences(run, one)]
    if not fair:
        compare.require_comparable(run, found[-1])
    return _of_sweep(fair, fair[-1].sweep)


def _of_sweep(records: Sequence[Record], sweep: str) -> list[Record]:
    return [one for one in records if one.sweep == sweep]
