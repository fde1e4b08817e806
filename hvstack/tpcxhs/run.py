# SPDX-License-Identifier: Apache-2.0
"""Execution of a run, and of the warm-up job before the first run.

Every result is "derived from the TPCx-HS benchmark and not comparable to
published TPCx-HS results".
"""

import time
from collections.abc import Callable, Sequence

from hvstack import conf, errors
from hvstack.cluster import effective_settings, probe
from hvstack.cluster import sampler as sampling
from hvstack.cluster.base import Cluster
from hvstack.hadoop import daemons, site_files, tuning_profiles
from hvstack.progress import Progress
from hvstack.results import (
    observations,
    passes,
    record_data,
    signing,
    telemetry,
)
from hvstack.results.run_store import FileRunStore
from hvstack.tpcxhs import preparation
from hvstack.tpcxhs.deadlines import DEFAULT_LIMITS, Limits, load_limits
from hvstack.tpcxhs.phases import PhaseRunner
from hvstack.tpcxhs.result import RunResult, RunSpec, format_now
from hvstack.tpcxhs.workload import MIB, Workload

#: Size in bytes of the data set of the warm-up job.
WARM_UP_BYTES = 10_000_000


def run(
    cluster: Cluster,
    workload: Workload,
    *,
    program: Sequence[Callable[[], object]] = (),
    progress: Progress | None = None,
    limits: Limits = DEFAULT_LIMITS,
    interval: float = 0,
) -> RunResult:
    """Execute the benchmark once.

    Before the run, old output is deleted, caches are dropped, and the disks
    must be idle; ``observations['before_run']`` lists the steps that failed. A
    run that fails, or in which a process was killed because it ran out of
    memory, is returned as not valid, with the evidence.

    :param cluster: cluster that executes the run.
    :param workload: workload of the run.
    :param program: functions to call instead of the phases; no counters are
        collected then.
    :param progress: where to report; None reports nothing.
    :param limits: limits of the phases.
    :param interval: seconds between samples of the nodes; 0 takes no samples.
    :raises hvstack.errors.InputError: the data set does not fit in HDFS.
    :raises hvstack.errors.HVStackError: the cluster cannot be prepared for the
        run.
    """
    run_result = RunResult(workload)
    kills = probe.oom_lines(cluster.nodes)
    preparation.purge(cluster)
    preparation.check_fit(cluster, workload)
    _describe_system(cluster, run_result)
    with (progress or Progress()).span('caches and idle disks'):
        hosts = preparation.settle_hosts(
            cluster, drop_caches=conf.load().benchmark.drop_caches
        )
    run_result.sut['caches_dropped'] = hosts.caches_dropped
    if hosts.warnings:
        run_result.observations['before_run'] = hosts.warnings
        for line in hosts.warnings:
            if progress:
                progress.say(f'before the run: {line}')
    runner = PhaseRunner(cluster, workload, run_result, progress, limits)
    sampler = sampling.Sampler(
        cluster.nodes, sampling.source(run_result.sut), interval
    )
    if interval:
        sampler.start()
    started_at = time.time()
    try:
        _run_steps(run_result, program or runner.steps)
        if not program:
            runner.collect()
    except errors.HVStackError as exc:
        run_result.reason = ' '.join(str(exc).split())[:2000]
    finally:
        run_result.ended = run_result.ended or format_now()
        if interval:
            run_result.telemetry = sampler.collect(
                started_at,
                telemetry.compute_windows(
                    observations.read_phases(run_result.phases)
                ),
            )
    run_result.add_kills(_find_kills(cluster, kills))
    return run_result


def _describe_system(cluster: Cluster, run_result: RunResult) -> None:
    """Add the system under test and observations of a cluster."""
    system = effective_settings.os_state(cluster.nodes)
    workload = run_result.workload
    run_result.sut = {
        'tuning': cluster.tuning,
        'hadoop_profile': site_files.digest_settings(
            workload.replication, cluster.tuning
        ),
        'os_profile': system.profile,
        **cluster.environment(),
    }
    if workload.output_replication:
        run_result.sut['output_replication'] = workload.output_replication
    if workload.settings:
        run_result.sut['job_settings'] = dict(workload.settings)
    run_result.observations = {
        **cluster.observe(),
        'cluster': preparation.read_cluster_id(cluster),
        'os_not_set': list(system.not_set),
        'without_effect': [
            f'{setting}: no libhadoop on the nodes'
            for setting in tuning_profiles.load(cluster.tuning).native_settings
            if run_result.sut.get('libhadoop') == 'none'
        ],
        'one_jvm': workload.one_jvm,
    }


def _run_steps(
    run_result: RunResult, steps: Sequence[Callable[[], object]]
) -> None:
    """Execute the steps of a run, and measure their time."""
    run_result.started = format_now()
    begin = time.monotonic()
    for step in steps:
        step()
    run_result.total_seconds = round(time.monotonic() - begin, 3)
    run_result.ended = format_now()


def measure(
    cluster: Cluster, spec: RunSpec, progress: Progress | None = None
) -> record_data.RunRecord:
    """Execute the benchmark once and save its record, valid or not.

    :param cluster: cluster that executes the run.
    :param spec: run to execute, without TPC's kit.
    :param progress: where to report; None reports nothing.
    """
    # Without a key the record could not be written after the run.
    signing.own_key()
    store = FileRunStore(spec.records_dir)
    run_result = run(
        cluster,
        spec.workload,
        progress=progress,
        limits=load_limits(spec, store),
        interval=conf.load().telemetry.interval,
    )
    if spec.baseline:
        run_result.observations['compared_with'] = spec.baseline
    run_record = run_result.to_record(spec.run_id)
    if run_result.telemetry:
        summary = telemetry.save_or_add_gap(
            run_result.telemetry, spec.records_dir, run_record.id
        )
        run_record = record_data.add_observations(
            run_record, {'telemetry': summary}
        )
    return store.append(passes.add_location(run_record, store))


def warm_up(cluster: Cluster, workload: Workload) -> None:
    """Run the warm-up job, so that the first run finds warm daemons.

    The first run deletes the output of the warm-up job.

    :param cluster: new cluster.
    :param workload: workload of the runs.
    :raises hvstack.errors.RunFailedError: the warm-up job failed.
    """
    # One task per worker loads the classes of every daemon. The job takes as
    # long as the start of its JVMs.
    few = max(2, len(cluster.workers))
    small = Workload(
        WARM_UP_BYTES,
        workload.replication,
        min(few, workload.maps),
        min(few, workload.reduces),
    )
    runner = PhaseRunner(cluster, small, RunResult(small))
    # HDFS of a new cluster is empty, and this check is faster than a purge.
    if preparation.has_blocks(cluster):
        preparation.purge(cluster)
    if small.maps <= small.size_bytes // MIB:
        runner.put_random()
    else:
        runner.generate()
    runner.sort()
    runner.check_output()


def _find_kills(cluster: Cluster, before: set[str]) -> list[str]:
    """Return the evidence of processes that were killed during the run."""
    try:
        lines = sorted(probe.oom_lines(cluster.nodes) - before)
        return lines + [
            f'{daemon} is dead'
            for daemon in daemons.find_dead_daemons(cluster.nodes, silent=True)
        ]
    except errors.HVStackError as exc:
        return [str(exc)]
