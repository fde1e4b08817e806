# SPDX-License-Identifier: Apache-2.0
"""Verdicts on numbers of blocks and tasks after changes of clusters.

After a run, hosts are lost, compute workers are removed and added, or a second
compute cluster uses the same HDFS.
"""

from collections.abc import Sequence

from hvstack.nouns import format_noun
from hvstack.results.record_data import RunRecord
from hvstack.study import verdicts
from hvstack.study.claims import (
    ADDED_TASKS,
    MISSING_BLOCKS,
    SECOND_TASKS,
    Claim,
)

#: Measures of claims that :func:`judge` knows.
MEASURES = (MISSING_BLOCKS, ADDED_TASKS, SECOND_TASKS)


def judge(claim: Claim, runs: Sequence[RunRecord]) -> tuple[str, str]:
    """Return the verdict on a claim, and what was measured as text.

    :param claim: claim about one of :data:`MEASURES`.
    :param runs: valid runs of its variant.
    """
    if claim.measure == ADDED_TASKS:
        count, *texts = _describe_added_tasks(runs)
    elif claim.measure == SECOND_TASKS:
        count, *texts = _describe_second_tasks(runs)
    else:
        count, *texts = _describe_missing_blocks(runs)
    verdict = (
        verdicts.UNDECIDED
        if count is None
        else verdicts.judge_count(claim.rule, count)
    )
    methods = {run.observations.host_loss_method for run in runs} - {''}
    text, *numbers = texts
    numbers += [format_noun(len(runs), 'cluster'), *sorted(methods)]
    return verdict, f'{text} ({", ".join(filter(None, numbers))})'


def _describe_missing_blocks(
    runs: Sequence[RunRecord],
) -> tuple[int | None, str, str]:
    """Return the number of missing blocks, as text and its base.

    :returns: no number without any change.
    """
    observations = [run.observations for run in runs]
    scalings = [
        scaling
        for item in observations
        if (scaling := item.compute_scaling) is not None
    ]
    if scalings:
        missing = sum(scaling.missing for scaling in scalings)
        removed = format_noun(scalings[0].removed, 'compute worker')
        return (
            missing,
            (
                f'after the removal of {removed} and the addition of '
                f'{scalings[0].added}, {missing} blocks were missing'
            ),
            '',
        )
    seconds = [
        second
        for item in observations
        if (second := item.second_cluster) is not None
    ]
    if seconds:
        missing = sum(second.missing for second in seconds)
        return (
            missing,
            (
                'after the sorts of two compute clusters at the same time, '
                f'{missing} blocks were missing'
            ),
            '',
        )
    losses = [loss for item in observations for loss in item.host_losses]
    missing = sum(loss.missing for loss in losses)
    low = sum(loss.under_replicated for loss in losses)
    misplaced = sum(loss.misplaced for loss in losses)
    hosts = format_noun(losses[0].hosts if losses else 0, 'host')
    text = (
        f'{missing} of {sum(loss.blocks for loss in losses)} blocks were '
        f'missing, {low} under-replicated and {misplaced} mis-replicated '
        f'after the loss of {hosts}'
    )
    return missing if losses else None, text, f'{len(losses)} losses'


def _describe_added_tasks(
    runs: Sequence[RunRecord],
) -> tuple[int | None, str, str]:
    """Return the number of tasks on added compute workers, as text and base.

    :returns: no number without any change.
    """
    scalings = [
        scaling
        for run in runs
        if (scaling := run.observations.compute_scaling) is not None
    ]
    during = sum(scaling.tasks_during for scaling in scalings)
    after = sum(scaling.tasks_after for scaling in scalings)
    added = scalings[0].added if scalings else 0
    sorts = sum(scaling.sorts for scaling in scalings)
    text = (
        f'{during} tasks of sorts that ran meanwhile and {after} of the sorts '
        f'afterwards were on {format_noun(added, "added compute worker")}'
    )
    return (
        during + after if scalings else None,
        text,
        format_noun(sorts, 'correct sort'),
    )


def _describe_second_tasks(
    runs: Sequence[RunRecord],
) -> tuple[int | None, str, str]:
    """Return the number of tasks of second clusters, as text and its base.

    :returns: no number without any second cluster.
    """
    seconds = [
        second
        for run in runs
        if (second := run.observations.second_cluster) is not None
    ]
    tasks = sum(second.tasks for second in seconds)
    workers = seconds[0].workers if seconds else 0
    overlap = sum(second.overlap_seconds for second in seconds)
    text = (
        f'{tasks} tasks of correct sorts ran on '
        f'{format_noun(workers, "compute worker")} of a second cluster, '
        f'{overlap:.0f} s at the same time as sorts of the first cluster'
    )
    return tasks if seconds else None, text, ''
