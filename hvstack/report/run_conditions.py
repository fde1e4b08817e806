# SPDX-License-Identifier: Apache-2.0
"""Notes on the conditions of runs that are not part of a configuration."""

from collections.abc import Iterable, Sequence

from hvstack.model.target import parse_target
from hvstack.results import task_splits
from hvstack.results.record_data import RunRecord

#: Runs that a note names.
_MAX_NAMED = 5
#: Phases whose tasks are many enough to be split.
_SPLIT_PHASES = ('HSGen', 'HSSort')


def list_warnings(records: Iterable[RunRecord]) -> list[str]:
    """Return notes that no figure of these runs is shown without.

    :param records: records of configurations and of bare metal.
    """
    valid = [record for record in records if record.valid]
    uneven = [
        record for record in valid if task_splits.list_uneven(record.phases)
    ]
    if not uneven:
        return []
    return [f'Tasks were split unevenly in {_name_runs(uneven, len(valid))}.']


def list_notes(records: Iterable[RunRecord]) -> list[str]:
    """Return other notes.

    :param records: records of configurations and of bare metal.
    """
    splits = dict.fromkeys(
        f'{_label(record)}: {task_type} of {phase.name} {split}'
        for record in records
        if record.valid
        for phase in record.phases
        if phase.name in _SPLIT_PHASES
        for task_type in ('maps', 'reduces')
        # HSGen has no reduces.
        if (
            split := task_splits.format_split(phase.job.hosts, task_type)
        ).strip('0 +')
    )
    return [f'Tasks by host: {"; ".join(splits)}.'] if splits else []


def _label(record: RunRecord) -> str:
    return parse_target(record.configuration).label


def _name_runs(records: Sequence[RunRecord], total: int) -> str:
    """Return the number of runs, and the names of the first of them."""
    names = [
        f'{_label(record)} run {record.index}'
        for record in records[:_MAX_NAMED]
    ]
    if records[_MAX_NAMED:]:
        names.append('others')
    return f'{len(records)} of {total} runs ({", ".join(names)})'
