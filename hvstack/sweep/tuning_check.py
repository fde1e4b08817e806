# SPDX-License-Identifier: Apache-2.0
"""Whether new runs would have the Hadoop settings of the stored ones.

A new release of hvstack, or an edit, can change a tuning profile between two
invocations of a measurement that takes days.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from hvstack import errors
from hvstack.hadoop import site_files
from hvstack.results.record_data import RunRecord

#: Fact with the digest of the settings of a tuning profile.
FACT = 'hadoop_profile'


@dataclass(frozen=True)
class TuningChange:
    """Change of a tuning profile since it was measured.

    :param profile: name of the profile.
    :param measured: digest of its settings in the stored runs.
    :param current: digest of its settings now.
    """

    profile: str
    measured: str
    current: str


def find_change(records: Iterable[RunRecord]) -> TuningChange | None:
    """Return the change of a tuning profile of stored runs, or None.

    :param records: stored runs of a measurement; failed runs, and those of
        releases that recorded no digest, do not count.
    :raises hvstack.errors.InputError: a profile does not exist.
    """
    digests = {
        (record.sut.facts.get('tuning'), record.sut.facts.get(FACT))
        for record in records
        if record.valid
    }
    for name, digest in digests:
        if not isinstance(name, str) or not isinstance(digest, str):
            continue
        if (current := site_files.digest_settings(name)) != digest:
            return TuningChange(name, digest, current)
    return None


def check_unchanged(records: Iterable[RunRecord], subject: str) -> None:
    """Refuse to continue with tuning profiles that have changed.

    :param records: stored runs, as for :func:`find_change`.
    :param subject: what continues, for errors.
    :raises hvstack.errors.InputError: a profile has changed or does not exist.
    """
    if change := find_change(records):
        raise errors.InputError(
            f'Cannot continue {subject}: the tuning profile '
            f"'{change.profile}' has changed since the start (digest "
            f'{change.measured}, now {change.current}), and new runs would '
            'not be comparable with the earlier ones. Use the release of '
            'hvstack or the profile that measured these, or start again.'
        )
