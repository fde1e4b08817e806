# SPDX-License-Identifier: Apache-2.0
"""Evidence of runs of TPC's kit: statistics of their jobs, and telemetry.

The kit reports times only, and executes two runs as one program.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from hvstack import errors
from hvstack.cluster.base import Cluster
from hvstack.hadoop import job_history, tuning_profiles
from hvstack.hadoop.daemon_http import Runner
from hvstack.hadoop.job_history import JobSummary
from hvstack.results import run_clock, telemetry
from hvstack.results.benchmark import KIT_PHASES
from hvstack.results.telemetry import Telemetry
from hvstack.tpcxhs.result import PhaseResult, RunResult
from hvstack.tpcxhs.workload import MIB

#: Seconds by which the clock of the kit may be late: it has whole seconds.
_CLOCK_SECONDS = 2.0


def read_lead(controller: Runner) -> int:
    """Return how far the clock of a controller is ahead of that of the run.

    The times of the kit and of its jobs are those of the controller; samples
    and other runs have the clock of the run.

    :param controller: controller that runs the kit.
    :returns: whole seconds, as those of the kit, so that the times of the kit
        and of its jobs still fit each other.
    :raises hvstack.errors.CommandError: the controller does not print its
        time.
    """
    before = run_clock.now()
    output = controller.run('date +%s.%N', timeout=60).stdout
    try:
        return round(float(output) - (before + run_clock.now()) / 2)
    except ValueError as exc:
        raise errors.CommandError(['date', '+%s.%N'], 0, output) from exc


def add_jobs(cluster: Cluster, run_result: RunResult, lead: int) -> str:
    """Add the statistics of its job to each phase of a run, and its start.

    The jobs of a run are HSGen, HSSort and HSValidate, in this order.

    :param cluster: cluster that executed the run.
    :param run_result: run of the kit; its phases get the statistics.
    :param lead: seconds by which the clock of the jobs is ahead.
    :returns: why the statistics are missing; empty if they are not.
    """
    begin, end = (
        datetime.fromisoformat(moment).timestamp()
        for moment in (run_result.started, run_result.ended)
    )
    workload = run_result.workload
    max_block_mib = tuning_profiles.load(cluster.tuning).max_block_mib
    # HSSort has the most tasks.
    task_count = workload.count_splits(max_block_mib * MIB) + workload.reduces
    names = {name.casefold() for name in KIT_PHASES}
    phases = [
        phase for phase in run_result.phases if phase.name.casefold() in names
    ]
    try:
        jobs = job_history.list_jobs(
            cluster.manager,
            begin + lead - _CLOCK_SECONDS,
            end + lead + _CLOCK_SECONDS,
        )
        if len(jobs) != len(phases):
            return (
                f'no counters: the JobHistory server has {len(jobs)} jobs of '
                f'the run instead of {len(phases)}'
            )
        summaries = []
        for job in jobs:
            summary = job_history.load_job(cluster.manager, job, task_count)
            moment = round(summary.started_at - lead, 3)
            summaries.append(replace(summary, started_at=moment))
    except errors.HVStackError as exc:
        # A record has the start times of all its phases, or of none.
        return f'no counters: {exc}'
    for phase, summary in zip(phases, summaries, strict=True):
        phase.job = summary
    # The log has no start time of another phase.
    if len(phases) == len(run_result.phases):
        _add_starts(phases, summaries, begin, end)
    return ''


def _add_starts(
    phases: Sequence[PhaseResult],
    jobs: Sequence[JobSummary],
    begin: float,
    end: float,
) -> None:
    """Add the start times of the phases of a run.

    The kit reports how long the client of each job ran: it starts before its
    job, and ends after it. Times that do not fit the run are not added, such
    as those of a node with another clock.

    :param phases: phases in order.
    :param jobs: job of each phase.
    :param begin: Unix time of the start of the run.
    :param end: Unix time of its end.
    """
    starts = []
    earliest = begin
    for phase, job in zip(phases, jobs, strict=True):
        job_end = job.started_at + job.seconds
        start = min(job.started_at, max(earliest, job_end - phase.seconds))
        if start < earliest - _CLOCK_SECONDS:
            return
        starts.append(round(start, 3))
        earliest = start + phase.seconds
    if earliest > end + _CLOCK_SECONDS:
        return
    for phase, start in zip(phases, starts, strict=True):
        phase.started_at = start


def cut_telemetry(
    whole: RunResult, run_result: RunResult, gaps: Sequence[str]
) -> Telemetry | None:
    """Return the samples of one run of the kit.

    :param whole: result of both runs together, with their samples.
    :param run_result: the run, with the start times of its phases.
    :param gaps: what is not known, and why.
    :returns: None if no samples were taken.
    """
    if whole.telemetry is None:
        return None
    zero, begin, end = (
        datetime.fromisoformat(moment).timestamp()
        for moment in (whole.started, run_result.started, run_result.ended)
    )
    windows = telemetry.compute_windows(run_result.read_phases())
    return telemetry.cut(
        whole.telemetry,
        begin - zero,
        end - zero,
        {
            name: (first - zero, last - zero)
            for name, (first, last) in windows.items()
        },
        gaps,
    )
