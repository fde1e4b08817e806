# SPDX-License-Identifier: Apache-2.0
"""Execution of a run, and of the warm-up job before the first run.

Every result is "derived from the TPCx-HS benchmark and not comparable to
published TPCx-HS results".
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial

from hvstack import conf, errors
from hvstack.cluster import (
    cpu_caps,
    cpu_weights,
    effective_settings,
    lab_groups,
    machine_cpu,
    probe,
)
from hvstack.cluster.base import Cluster
from hvstack.cluster.lab_groups import HostGroup
from hvstack.cluster.machine_cpu import MachineMeter
from hvstack.hadoop import daemons, master_node, site_files, tuning_profiles
from hvstack.progress import Progress
from hvstack.results import (
    passes,
    record_data,
    run_clock,
    signing,
    telemetry_files,
    workload_types,
)
from hvstack.results.run_store import RunStore
from hvstack.results.telemetry import Telemetry
from hvstack.results.typed_json import JsonObject
from hvstack.results.workload_types import TESTDFSIO, TPCX_HS
from hvstack.tpcxhs import (
    compute_scaling,
    host_losses,
    preparation,
    second_cluster,
)
from hvstack.tpcxhs.deadlines import DEFAULT_LIMITS, Limits, load_limits
from hvstack.tpcxhs.phases import PhaseRunner
from hvstack.tpcxhs.result import RunResult, RunSpec, format_now
from hvstack.tpcxhs.run_samplers import NO_SAMPLING, RunSamplers, SamplingSpec
from hvstack.tpcxhs.workload import MIB, Workload

#: Size in bytes of the data set of the warm-up job.
WARM_UP_BYTES = 10_000_000


def run(
    cluster: Cluster,
    workload: Workload,
    *,
    program: Sequence[Callable[[], None]] = (),
    progress: Progress | None = None,
    limits: Limits = DEFAULT_LIMITS,
    sampling: SamplingSpec = NO_SAMPLING,
    earliest: float = 0.0,
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
    :param sampling: what is sampled; nothing by default.
    :param earliest: Unix time before which the run has not started.
    :raises hvstack.errors.InputError: the data set does not fit in HDFS.
    :raises hvstack.errors.HVStackError: the cluster cannot be prepared for the
        run.
    """
    run_clock.start(earliest)
    run_result = RunResult(workload)
    kills = probe.oom_lines(cluster.nodes)
    preparation.purge(cluster)
    if not workload.type.is_on_nodes:
        preparation.check_fit(cluster, workload)
    _describe_system(cluster, run_result)
    meter = machine_cpu.create_meter(_list_capped_hosts(run_result))
    runner = PhaseRunner(cluster, workload, run_result, progress, limits)
    groups = meter.hosts if meter else ()
    with contextlib.ExitStack() as quiet_hosts:
        quiet_hosts.enter_context(cpu_caps.in_force(groups))
        messages = quiet_hosts.enter_context(cpu_weights.raised(groups))
        _check_caps(run_result, groups, 'before_probe')
        _observe(cluster, run_result)
        _settle(cluster, run_result, progress, messages)
        with RunSamplers(cluster, run_result, sampling, progress):
            try:
                _run_steps(run_result, program or runner.steps, meter)
                _check_caps(run_result, groups, 'after_run')
                quiet_hosts.close()
                if not program:
                    runner.collect()
            except errors.HVStackError as exc:
                run_result.reason = ' '.join(str(exc).split())[:2000]
            finally:
                run_result.ended = run_result.ended or format_now()
    _check_nodes(cluster, run_result, kills)
    return run_result


def _check_caps(
    run_result: RunResult, groups: Sequence[HostGroup], moment: str
) -> None:
    """Add the caps that the kernel reports to the observations.

    :param groups: groups of the lab hosts; none on other clouds.
    :param moment: last part of the observation's key.
    :raises hvstack.errors.RunFailedError: a cap is not that of the record.
    """
    if not groups:
        return
    run_result.observations[f'caps_{moment}'] = cpu_caps.describe(groups)
    caps = _read_cpu_caps(run_result)
    if differences := cpu_caps.list_differences(groups, caps):
        raise errors.RunFailedError(
            f'Cannot measure: CPU caps are not in force ({moment}): '
            f"{'; '.join(differences)}. Run 'hvstack lab down' and "
            "'hvstack lab up'."
        )


def _list_capped_hosts(run_result: RunResult) -> list[str]:
    """Return the names of the hosts with a cap, which a lab has."""
    caps = run_result.sut.get('caps')
    return list(caps) if isinstance(caps, Mapping) else []


def _read_cpu_caps(run_result: RunResult) -> dict[str, float]:
    """Return the caps of the record in cores by host."""
    caps = run_result.sut.get('caps')
    if not isinstance(caps, Mapping):
        return {}
    return {
        name: cores
        for name, cap in caps.items()
        if isinstance(cap, Mapping) and (cores := cap['cpu']) is not None
    }


def _settle(
    cluster: Cluster,
    run_result: RunResult,
    progress: Progress | None,
    messages: Sequence[str],
) -> None:
    """Drop the caches and wait for idle disks.

    :param messages: other preparations that were not possible.
    """
    with (progress or Progress()).span('caches and idle disks'):
        hosts = preparation.settle_hosts(
            cluster, drop_caches=conf.load().benchmark.drop_caches
        )
    run_result.sut['caches_dropped'] = hosts.caches_dropped
    warnings = [*messages, *hosts.warnings]
    if warnings:
        run_result.observations['before_run'] = warnings
    gate = run_result.observations.get('probe')
    if isinstance(gate, Mapping) and gate.get('passed') is False:
        warnings.append(
            f'the probe was not passed in {gate["tries"]} tries: hosts did '
            'not get their caps'
        )
    for line in warnings if progress else ():
        assert progress is not None
        progress.say(f'before the run: {line}')


def _describe_system(cluster: Cluster, run_result: RunResult) -> None:
    """Add the system under test of a cluster."""
    system = effective_settings.os_state(cluster.nodes)
    workload = run_result.workload
    run_result.sut = {
        'tuning': cluster.tuning,
        'hadoop_profile': site_files.digest_settings(cluster.tuning),
        'application_masters': master_node.locate(cluster),
        'os_profile': system.profile,
        **cluster.environment(),
    }
    if workload.type is not TPCX_HS:
        run_result.sut[workload_types.FACT] = workload.type.name
    if workload.type is TESTDFSIO:
        # Each file has a map task, and the rate is that of a map task.
        run_result.sut['files'] = workload.maps
    if not workload.type.has_data and not workload.type.is_on_nodes:
        # More tasks load the NameNode more, or make a job larger.
        run_result.sut['map_tasks'] = workload.maps
    if workload.output_replication:
        run_result.sut['output_replication'] = workload.output_replication
    if workload.settings:
        run_result.sut['job_settings'] = dict(workload.settings)
    run_result.observations = {'os_not_set': list(system.not_set)}


def _observe(cluster: Cluster, run_result: RunResult) -> None:
    """Add the observations of a cluster, among them the probe of the CPUs."""
    run_result.observations |= {
        **cluster.observe(),
        'cluster': preparation.read_cluster_id(cluster),
        'without_effect': [
            f'{setting}: no libhadoop on the nodes'
            for setting in tuning_profiles.load(cluster.tuning).native_settings
            if run_result.sut.get('libhadoop') == 'none'
        ],
        'one_jvm': run_result.workload.one_jvm,
    }


def _run_steps(
    run_result: RunResult,
    steps: Sequence[Callable[[], None]],
    meter: MachineMeter | None,
) -> None:
    """Execute the steps of a run, and measure their time.

    :param meter: reader of the CPU time of a lab's machine; None elsewhere.
    """
    run_result.started = format_now()
    begin = time.monotonic()
    for step in steps:
        before = meter.read() if meter else None
        count = len(run_result.phases)
        try:
            step()
        finally:
            after = meter.read() if meter else None
            if before and after:
                for phase in run_result.phases[count:]:
                    phase.machine_cpu = after.subtract(before)
    run_result.total_seconds = round(time.monotonic() - begin, 3)
    run_result.ended = format_now()


def compute_last_end(run_records: Iterable[record_data.RunRecord]) -> float:
    """Return the Unix time of the end of the last run; 0 without runs."""
    return max(
        (
            datetime.fromisoformat(run_record.ended).timestamp()
            for run_record in run_records
        ),
        default=0.0,
    )


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
    store = spec.store
    earlier_records, _ = store.read_sweep(spec.run_id.sweep)
    run_result = run(
        cluster,
        spec.workload,
        progress=progress,
        limits=load_limits(spec, store),
        sampling=SamplingSpec.load(),
        earliest=compute_last_end(earlier_records),
    )
    if spec.baseline:
        run_result.observations['compared_with'] = spec.baseline
    if spec.host_losses and run_result.is_valid:
        _lose_hosts(cluster, spec, run_result, progress)
    if spec.compute_scaling and run_result.is_valid:
        scale = partial(compute_scaling.scale, cluster, spec.compute_scaling)
        _sort_again('compute workers', scale, spec, run_result, progress)
    if spec.second_cluster and run_result.is_valid:
        share = partial(
            second_cluster.share_hdfs, cluster, spec.second_cluster
        )
        _sort_again('second cluster', share, spec, run_result, progress)
    run_record = run_result.to_record(spec.run_id)
    run_record = add_telemetry(run_record, run_result.telemetry, store)
    return store.append(passes.add_location(run_record, earlier_records))


def add_telemetry(
    run_record: record_data.RunRecord,
    samples: Telemetry | None,
    store: RunStore,
) -> record_data.RunRecord:
    """Save the samples of a run, and return its record with a summary.

    :param run_record: record of the run.
    :param samples: samples of the nodes; None without sampling.
    :param store: store of the record.
    """
    if not samples:
        return run_record
    summary = telemetry_files.save_or_add_gap(samples, store, run_record.id)
    return record_data.add_observations(run_record, {'telemetry': summary})


def _lose_hosts(
    cluster: Cluster,
    spec: RunSpec,
    run_result: RunResult,
    progress: Progress | None,
) -> None:
    """Provoke losses of hosts; a run without their result is not valid."""
    assert spec.host_losses is not None
    try:
        with cpu_caps.in_force(
            lab_groups.find_hosts(_list_capped_hosts(run_result))
        ):
            run_result.observations |= host_losses.provoke(
                cluster,
                spec.host_losses,
                spec.workload.replication,
                # The same choice on both sides of a comparison.
                str(spec.run_id.index),
                progress,
            )
    except errors.HVStackError as exc:
        run_result.reason = ' '.join(f'loss of hosts: {exc}'.split())[:2000]


def _sort_again(
    title: str,
    change: Callable[[Workload, Limits, Progress | None], JsonObject],
    spec: RunSpec,
    run_result: RunResult,
    progress: Progress | None,
) -> None:
    """Change the compute workers while sorts run.

    A run without the result of this is not valid. No time is compared, so that
    the CPU caps of a lab stay lifted, under which guests boot slowly.

    :param title: start of the reason of a failure.
    :param change: function that returns observations of the record.
    """
    try:
        run_result.observations |= change(
            spec.workload, load_limits(spec, spec.store), progress
        )
    except errors.HVStackError as exc:
        run_result.reason = ' '.join(f'{title}: {exc}'.split())[:2000]


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


def _check_nodes(
    cluster: Cluster, run_result: RunResult, kills: set[str]
) -> None:
    """Make a run invalid if a process was killed, or a node failed or moved.

    :param cluster: cluster that executed the run.
    :param run_result: result of the run.
    :param kills: lines of the kernel about earlier kills.
    """
    new_kills: list[str] = []
    try:
        new_kills = sorted(probe.oom_lines(cluster.nodes) - kills)
        failures = [
            f'{daemon} is dead'
            for daemon in daemons.find_dead_daemons(cluster.nodes, silent=True)
        ]
    except errors.HVStackError as exc:
        failures = [str(exc)]
    try:
        failures += [
            f'{name} moved to another host' for name in cluster.list_moved()
        ]
    except errors.CloudError as exc:
        # The run is measured; only whether a node moved is not known.
        run_result.observations['moved_nodes'] = f'not checked: {exc}'
    run_result.add_failures(failures)
    run_result.add_kills(new_kills)
