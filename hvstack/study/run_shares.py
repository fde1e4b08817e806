# SPDX-License-Identifier: Apache-2.0
"""Shares in percent that a single run has, such as bytes over the data."""

from collections.abc import Iterable

from hvstack.report import page_cache
from hvstack.results import time_counters
from hvstack.results.observations import JobStatistics
from hvstack.results.record_data import RunRecord
from hvstack.results.workload_types import WorkloadType
from hvstack.study.claims import (
    RECEIVED_BYTES,
    SPILLED_RECORDS,
    TASKS_IN_ONE_JVM,
    WRITTEN_BYTES,
    Claim,
)

#: Series of the telemetry of a phase.
_SERIES = {RECEIVED_BYTES: 'rx', WRITTEN_BYTES: 'write'}


def compute_share(
    claim: Claim, workload: WorkloadType, run: RunRecord
) -> float | None:
    """Return the share of a run in percent; None if it was not measured.

    :param claim: claim about a share.
    :param workload: workload of the run.
    :param run: valid run.
    """
    if claim.measure in _SERIES:
        sums = time_counters.get_sums(run, claim.phase)
        amount = sums.get(_SERIES[claim.measure])
        return None if amount is None else 100 * amount / run.size_bytes
    for phase in run.phases:
        if phase.name == workload.sorter:
            return _compute_job_share(claim.measure, phase.job)
    return None


def explain_unreliable(claim: Claim, runs: Iterable[RunRecord]) -> str:
    """Return why the written bytes of runs do not show a claim, or ''.

    The page cache writes when it likes, and the disks of nodes that share a
    kernel are those of the machine.

    :param claim: claim about a share.
    :param runs: valid runs.
    """
    if claim.measure != WRITTEN_BYTES:
        return ''
    for run in runs:
        telemetry = run.observations.telemetry
        if telemetry is not None and telemetry.source != 'sysstat':
            return (
                'nodes that are containers share the disks of the machine, '
                'whose bytes are not theirs'
            )
        if page_cache.fits_page_cache(run):
            return (
                'the page cache of the hosts holds the data, and writes it '
                'later'
            )
    return ''


def _compute_job_share(measure: str, job: JobStatistics) -> float | None:
    """Return the share of a sort in percent; None without its counters."""
    counters = job.counters
    if measure == SPILLED_RECORDS:
        part = counters.get('MAP.SPILLED_RECORDS')
        total = counters.get('MAP_OUTPUT_RECORDS', 0)
    else:
        assert measure == TASKS_IN_ONE_JVM, measure
        # JobHistory has no counter that was never incremented.
        part = counters.get('TOTAL_LAUNCHED_UBERTASKS')
        if counters and part is None:
            part = 0
        total = (job.maps or 0) + (job.reduces or 0)
    return None if part is None or not total else 100 * part / total


def describe(claim: Claim) -> str:
    """Return a share as the subject of a sentence, with its verb."""
    return {
        RECEIVED_BYTES: f'the received bytes in {claim.phase} are',
        WRITTEN_BYTES: f'the written bytes in {claim.phase} are',
        SPILLED_RECORDS: 'the records that the maps spilled are',
        TASKS_IN_ONE_JVM: 'the tasks in the JVM of their ApplicationMaster '
        'are',
    }[claim.measure]


def describe_total(claim: Claim) -> str:
    """Return the whole that a share is a part of."""
    return {
        RECEIVED_BYTES: 'the data',
        WRITTEN_BYTES: 'the data',
        SPILLED_RECORDS: 'their output',
        TASKS_IN_ONE_JVM: 'all',
    }[claim.measure]
