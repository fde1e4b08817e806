# SPDX-License-Identifier: Apache-2.0
"""Passes of a sweep: which runs took place close together in time.

Each run record contains its cluster, its pass and its position in the pass. A
pass ends when a configuration gets its next cluster, so that the rule is the
same for all strategies, and also after an interruption.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

from hvstack import errors
from hvstack.model.target import BARE_METAL
from hvstack.results import record_data
from hvstack.results.record_data import RunRecord


@dataclass(frozen=True)
class Location:
    """Location of a run in its sweep.

    :param cluster: ID of the cluster.
    :param pass_number: number of the pass, from 0.
    :param position: number of runs in the same pass before this run.
    """

    cluster: str
    pass_number: int
    position: int


def get_location(run: RunRecord) -> Location | None:
    """Return the location of a run; None if its record lacks it."""
    observations = run.observations
    if (
        not observations.cluster
        or observations.pass_number is None
        or observations.position is None
    ):
        return None
    return Location(
        observations.cluster, observations.pass_number, observations.position
    )


def require_location(run: RunRecord) -> Location:
    """Return the location of a run.

    :raises hvstack.errors.InputError: the record lacks its cluster or its
        pass.
    """
    location = get_location(run)
    if location is None:
        raise errors.InputError(
            f'Cannot compute an interval (sweep {run.sweep}, record '
            f'{run.id}): the record does not contain its cluster, pass and '
            'position, so an older release wrote it. Measure the sweep again.'
        )
    return location


def locate_run(
    records: Iterable[RunRecord],
    configuration: str,
    size_bytes: int,
    cluster: str,
) -> Location:
    """Return the location of the next run of a sweep.

    :param records: records of the sweep so far.
    :param configuration: full name of the configuration of the run.
    :param size_bytes: size of the data of the run in bytes.
    :param cluster: ID of the cluster of the run.
    """
    located = [
        (run, location)
        for run in records
        if run.size_bytes == size_bytes
        and (location := get_location(run)) is not None
    ]
    number = max((location.pass_number for _, location in located), default=0)
    is_measured = any(
        location.pass_number == number
        and location.cluster != cluster
        and run.configuration == configuration
        and run.valid
        for run, location in located
    )
    if configuration != BARE_METAL and is_measured:
        number += 1
    return Location(
        cluster,
        number,
        sum(location.pass_number == number for _, location in located),
    )


def add_location(
    new_record: RunRecord, earlier_records: Iterable[RunRecord]
) -> RunRecord:
    """Return a record with its pass, its position and hvstack's version.

    :param new_record: record of a run that ended, not signed yet; it contains
        its cluster.
    :param earlier_records: records of the sweep before the run. They are read
        before it, because a database may not answer hours later.
    """
    location = locate_run(
        earlier_records,
        new_record.configuration,
        new_record.size_bytes,
        new_record.observations.cluster,
    )
    return record_data.add_observations(
        new_record,
        {
            'pass': location.pass_number,
            'position': location.position,
            'hvstack': metadata.version('hvstack'),
        },
    )
