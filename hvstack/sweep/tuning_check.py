# SPDX-License-Identifier: Apache-2.0
"""Whether new runs would have the Hadoop settings of the stored ones.

A new release of hvstack, or an edit, can change a tuning profile between two
invocations of a measurement that takes days.
"""

from collections.abc import Iterable

from hvstack import errors
from hvstack.hadoop import site_files
from hvstack.results.record_data import RunRecord

#: Fact with the digest of the settings of a tuning profile.
FACT = 'hadoop_profile'


def check_unchanged(records: Iterable[RunRecord], subject: str) -> None:
    """Refuse to continue with tuning profiles that have changed.

    :param records: stored runs of a measurement; failed runs, and those of
        releases that recorded no digest, do not count.
    :param subject: what continues, for errors.
    :raises hvstack.errors.InputError: a profile has changed or does not exist.
    """
    digests = {
        (record.sut.facts.get('tuning'), record.sut.facts.get(FACT))
        for record in records
        if record.valid
    }
    for name, digest in digests:
        if not isinstance(name, str) or not isinstance(digest, str):
            continue
        if (now := site_files.digest_settings(name)) != digest:
            raise errors.InputError(
                f"Cannot continue {subject}: the tuning profile '{name}' has "
                f'changed since the start (digest {digest}, now {now}), and '
                'new runs would not be comparable with the earlier ones. Use '
                'the release of hvstack or the profile that measured these, '
                'or start again.'
            )
