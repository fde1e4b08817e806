# SPDX-License-Identifier: Apache-2.0
"""Execution of a run: HSGen, HSDataCheck, HSSort, HSDataCheck, HSValidate.

Hadoop's TeraGen, TeraSort and TeraValidate are the substitute workload for
TPC's kit. Every result is "derived from the TPCx-HS benchmark and not
comparable to published TPCx-HS results".
"""

import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hvstack import conf, errors, processutils
from hvstack.cluster import disk_idle, effective_settings, probe
from hvstack.cluster import sampler as sampling
from hvstack.cluster.base import Cluster, Node
from hvstack.hadoop import (
    daemon_http,
    daemons,
    job_history,
    site_files,
    webhdfs,
)
from hvstack.hadoop.tuning_profiles import LARGEST_BLOCK_MIB
from hvstack.progress import Progress
from hvstack.results import record, signing, telemetry
from hvstack.results.benchmark import RECORD_BYTES
from hvstack.results.telemetry import Telemetry
from hvstack.tpcxhs import datacheck
from hvstack.tpcxhs.workload import MIB, Workload

#: JMX bean of the NameNode. FSNamesystem has the same values, but they are up
#: to ten seconds old: right after a start, the capacity is zero.
_STATE_BEAN = 'FSNamesystemState'
BASE = '/benchmarks/tpcx-hs'
INPUT = f'{BASE}/input'
OUTPUT = f'{BASE}/output'
REPORT = f'{BASE}/validate'
_JAR = '/opt/hadoop/hadoop-mapreduce-examples.jar'
_JOB = re.compile(r'\bjob_\d+_\d+\b')
#: Lines in the output of the client about a container that the kernel killed,
#: or that YARN killed because of its memory.
_KILLED = re.compile(
    r'(?i)exit code is 137|exitcode: 137|exit code 137|'
    r"beyond the '?physical'? memory limit|java heap space|"
    r'OutOfMemoryError'
)
#: Messages of nodes, HDFS and YARN about full disks, with the reason. HDFS
#: prints the last one also for lost DataNodes.
_FULL_DISK_REASONS = {
    re.compile(
        r'No space left on device|DiskOutOfSpaceException|'
        r'Could not find any valid local directory|'
        r'local-dirs usable space is below'
    ): 'disks are full',
    re.compile(
        r'could only be written to \d+ of the'
    ): 'no DataNode accepted a block: disks are full or DataNodes are missing',
}
#: Maximum number of seconds for a phase.
PHASE_SECONDS = 3600.0
#: Size in bytes of the data set of the warm-up job.
WARM_UP_BYTES = 10_000_000


@dataclass
class RunResult:
    """The result of a run; the units are those of the run record.

    :param workload: workload of the run.
    :param started: start time in UTC.
    :param ended: end time in UTC.
    :param reason: why the run is not valid, with evidence; empty for a valid
        run.
    :param phases: phases that have ended.
    :param total_seconds: seconds of all phases.
    :param sut: facts of the system under test.
    :param observations: observations of the cluster and the cloud.
    :param telemetry: samples of the nodes; None without sampling.
    """

    workload: Workload
    started: str = ''
    ended: str = ''
    reason: str = ''
    phases: list[dict[str, Any]] = field(default_factory=list)
    total_seconds: float = 0.0
    sut: dict[str, Any] = field(default_factory=dict)
    observations: dict[str, Any] = field(default_factory=dict)
    telemetry: Telemetry | None = None

    @property
    def is_valid(self) -> bool:
        """Whether all phases have ended and every check has passed."""
        return not self.reason

    @property
    def rate(self) -> float:
        """Rate in TB per hour; 0 for a run that is not valid."""
        if not self.is_valid:
            return 0.0
        return record.compute_rate(
            self.workload.size_bytes, self.total_seconds
        )

    def to_record(
        self, *, sweep: str, kind: str, configuration: str, index: int
    ) -> record.Record:
        """Return the run record, which is not saved yet.

        :param sweep: sweep ID.
        :param kind: kind of the record.
        :param configuration: name of the configuration.
        :param index: index of the run.
        """
        return record.Record(
            sweep=sweep,
            kind=kind,
            configuration=configuration,
            index=index,
            started=self.started,
            ended=self.ended,
            valid=self.is_valid,
            reason=self.reason,
            size_bytes=self.workload.size_bytes,
            replication=self.workload.replication,
            maps=self.workload.maps,
            reduces=self.workload.reduces,
            phases=self.phases,
            total_seconds=self.total_seconds,
            rate=self.rate,
            environment=self.sut,
            seen=self.observations,
        )


def format_now() -> str:
    """Return the current time in UTC in the format of run records."""
    return datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')


def run(
    cluster: Cluster,
    workload: Workload,
    *,
    program: Sequence[Callable[[], object]] = (),
    progress: Progress | None = None,
    phase_seconds: float = PHASE_SECONDS,
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
    :param phase_seconds: maximum number of seconds for a phase.
    :param interval: seconds between samples of the nodes; 0 takes no samples.
    :raises hvstack.errors.InputError: the data set does not fit in HDFS.
    :raises hvstack.errors.HVStackError: the cluster cannot be prepared for the
        run.
    """
    run_result = RunResult(workload)
    kills = probe.oom_lines(cluster.nodes)
    purge(cluster)
    check_fit(cluster, workload)
    system = effective_settings.os_state(cluster.nodes)
    run_result.sut = {
        'tuning': cluster.tuning,
        'hadoop_profile': site_files.digest_settings(
            workload.replication, cluster.tuning
        ),
        'os_profile': system.profile,
        **cluster.environment(),
    }
    run_result.observations = {
        **cluster.observe(),
        'cluster': _read_cluster_id(cluster),
        'os_not_set': list(system.not_set),
        'one_jvm': workload.one_jvm,
    }
    unready = _settle_hosts(cluster)
    if unready:
        run_result.observations['before_run'] = unready
        for line in unready:
            if progress:
                progress.say(f'before the run: {line}')
    runner = _PhaseRunner(
        cluster, workload, run_result, progress, phase_seconds
    )
    sampler = sampling.Sampler(
        cluster.nodes, sampling.source(run_result.sut), interval
    )
    if interval:
        sampler.start()
    run_result.started = format_now()
    started_at, begin = time.time(), time.monotonic()
    try:
        for step in program or (
            runner.generate,
            runner.check_input,
            runner.sort,
            runner.check_output,
            runner.validate,
        ):
            step()
        run_result.total_seconds = round(time.monotonic() - begin, 3)
        run_result.ended = format_now()
        if not program:
            runner.collect()
    except errors.HVStackError as exc:
        run_result.reason = ' '.join(str(exc).split())[:2000]
    finally:
        run_result.ended = run_result.ended or format_now()
        if interval:
            run_result.telemetry = sampler.collect(
                started_at, telemetry.compute_windows(run_result.phases)
            )
    evidence = _find_kills(cluster, kills)
    if evidence:
        run_result.observations['killed'] = evidence
        run_result.reason = (
            f'killed because it ran out of memory: {evidence[0]}'
            + (f'; {run_result.reason}' if run_result.reason else '')
        )[:2000]
    return run_result


def measure(
    cluster: Cluster,
    workload: Workload,
    records_dir: Path,
    *,
    sweep: str,
    kind: str,
    configuration: str,
    index: int,
    progress: Progress | None = None,
    phase_seconds: float = PHASE_SECONDS,
    observe: Callable[[], dict[str, Any]] | None = None,
) -> record.Record:
    """Execute the benchmark once and save its record, valid or not.

    :param cluster: cluster that executes the run.
    :param workload: workload of the run.
    :param records_dir: directory of the run records.
    :param sweep: sweep ID of the record.
    :param kind: kind of the record.
    :param configuration: name of the configuration.
    :param index: index of the run.
    :param progress: where to report; None reports nothing.
    :param phase_seconds: maximum number of seconds for a phase.
    :param observe: function that returns observations of the cloud after the
        run; None adds no observations.
    """
    # Without a key the record could not be written after the run.
    signing.own_key()
    run_result = run(
        cluster,
        workload,
        progress=progress,
        phase_seconds=phase_seconds,
        interval=conf.load().telemetry.interval,
    )
    if observe:
        run_result.observations.update(observe())
    run_record = run_result.to_record(
        sweep=sweep, kind=kind, configuration=configuration, index=index
    )
    if run_result.telemetry:
        run_record.seen['telemetry'] = telemetry.save_or_add_gap(
            run_result.telemetry, records_dir, run_record.id
        )
    record.save(run_record, records_dir)
    return run_record


def _settle_hosts(cluster: Cluster) -> list[str]:
    """Write back and drop the caches, and wait until the disks are idle.

    Without this, a run could use the page cache of the previous run.

    :returns: warnings for the report: not every user is allowed to drop the
        caches.
    """
    warnings = []
    try:
        cluster.drop_caches()
    except errors.HVStackError as exc:
        warnings.append(
            f'caches were not dropped ({" ".join(str(exc).split())})'
        )
    busy = disk_idle.wait_until_idle(cluster.nodes)
    return [*warnings, busy] if busy else warnings


def warm_up(cluster: Cluster, workload: Workload) -> None:
    """Run the warm-up job, so that the first run finds warm daemons.

    The first run deletes the output of the warm-up job.

    :param cluster: new cluster.
    :param workload: workload of the runs.
    :raises hvstack.errors.RunFailed: the warm-up job failed.
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
    runner = _PhaseRunner(
        cluster, small, RunResult(small), None, PHASE_SECONDS
    )
    # HDFS of a new cluster is empty, and this check is faster than a purge.
    if daemon_http.get_namenode_bean(cluster.gateway, _STATE_BEAN).get(
        'BlocksTotal', 1
    ):
        purge(cluster)
    if small.maps <= small.size_bytes // MIB:
        runner.put_random()
    else:
        runner.generate()
    runner.sort()
    runner.check_output()


def _read_cluster_id(cluster: Cluster) -> str:
    """Return the ID that HDFS got when its NameNode was formatted.

    The file system is formatted once for each cluster, so that records with
    the same ID are runs on the same cluster.
    """
    info = daemon_http.get_namenode_bean(cluster.gateway, 'NameNodeInfo')
    return str(info['ClusterId'])


def purge(cluster: Cluster) -> None:
    """Kill the jobs of an aborted run, and delete its data and the trash.

    The function returns when the DataNodes have deleted the blocks.

    :param cluster: cluster to clean up.
    """
    gateway = cluster.gateway
    apps = daemon_http.get_json(
        cluster.manager,
        'resourcemanager',
        '/ws/v1/cluster/apps?states=NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING',
    ).get('apps')
    for app in (apps or {}).get('app') or []:
        gateway.run(f'yarn application -kill {app["id"]}', check=False)
    try:
        webhdfs.delete_path(gateway, BASE)
        for user in webhdfs.list_names(gateway, '/user'):
            webhdfs.delete_path(gateway, f'/user/{user}/.Trash')
    except errors.HVStackError:
        # Bare-metal hosts may have no curl. The client needs a JVM.
        gateway.run(
            f'hdfs dfs -rm -r -f -skipTrash {BASE} "/user/*/.Trash"',
            timeout=300,
        )

    def is_deleted() -> bool:
        state = daemon_http.get_namenode_bean(gateway, _STATE_BEAN)
        return int(state['PendingDeletionBlocks']) == 0

    processutils.wait_for(
        is_deleted, 'HDFS to delete the last run', timeout=120
    )


def check_fit(cluster: Cluster, workload: Workload) -> None:
    """Check that HDFS has enough space for a data set.

    :param cluster: cluster that would store the data set.
    :param workload: workload of the run.
    :raises hvstack.errors.InputError: the remaining space is too small.
    """
    state = daemon_http.get_namenode_bean(cluster.gateway, _STATE_BEAN)
    free_bytes = int(state['CapacityRemaining'])
    needed = workload.needed_bytes
    if needed > free_bytes:
        raise errors.InputError(
            f'Cannot sort {workload.size_bytes / 1e9:.3g} GB: the run needs '
            f'{needed / 1e9:.3g} GB in HDFS (twice {workload.replication} '
            'replicas, and half a replica for the sort), and '
            f'{free_bytes / 1e9:.3g} GB remain. Use a smaller size.'
        )


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


@dataclass
class _PhaseRunner:
    """The phases of one run."""

    cluster: Cluster
    workload: Workload
    run_result: RunResult
    progress: Progress | None
    phase_seconds: float

    def generate(self) -> None:
        workload = self.workload
        self._run_job(
            'HSGen',
            f'teragen -Dmapreduce.job.maps={workload.maps}',
            f'{workload.records} {INPUT}',
        )

    def put_random(self) -> None:
        """Write random input without a job, with one block per map task.

        TeraSort sorts data records with any content. A block has at least
        1 MiB.
        """
        workload = self.workload
        block = workload.size_bytes // workload.maps // MIB * MIB
        self.cluster.gateway.run(
            f'head -c {workload.size_bytes} /dev/urandom | hdfs dfs '
            f'-Ddfs.blocksize={block} '
            f'-Ddfs.replication={workload.replication} -put - {INPUT}/part',
            timeout=300,
        )

    def check_input(self) -> None:
        self._check_data(INPUT, self.workload.maps)

    def sort(self) -> None:
        workload = self.workload
        self._run_job(
            'HSSort',
            f'terasort -Dmapreduce.job.reduces={workload.reduces} '
            f'-Dmapreduce.terasort.output.replication={workload.replication}',
            f'{INPUT} {OUTPUT}',
        )

    def check_output(self) -> None:
        checked = self._check_data(OUTPUT, self.workload.reduces)
        self.run_result.observations['blocks_on_one_host'] = checked[
            'blocks_on_one_host'
        ]
        self.run_result.observations['blocks'] = checked['blocks']

    def validate(self) -> None:
        self._run_job('HSValidate', 'teravalidate', f'{OUTPUT} {REPORT}')

    def _say(self, text: str) -> None:
        if self.progress:
            self.progress.say(text)

    def _run_job(self, phase: str, program: str, operands: str) -> None:
        """Run a job and measure the time of its client, as TPCx-HS does."""
        workload = self.workload
        self._say(f'{phase} ...')
        max_block_bytes = LARGEST_BLOCK_MIB[self.cluster.tuning] * MIB
        block = min(workload.block_bytes, max_block_bytes)
        if workload.one_jvm:
            program += ' -Dmapreduce.job.ubertask.enable=true'
        begin = time.monotonic()
        result = self.cluster.gateway.run(
            f'hadoop jar {_JAR} {program} -Ddfs.blocksize={block} '
            f'-Ddfs.replication={workload.replication} {operands}',
            timeout=self.phase_seconds,
            check=False,
        )
        seconds = time.monotonic() - begin
        output = result.stdout + result.stderr
        jobs = _JOB.findall(output)
        self._record_phase(phase, seconds, job_id=jobs[0] if jobs else None)
        if result.returncode != 0 or not jobs:
            raise errors.RunFailed(
                f'{phase} exited with status {result.returncode} after '
                f'{seconds:.0f} s: {_failure_reason(output)}'
            )

    def _check_data(self, path: str, files: int) -> dict[str, Any]:
        begin = time.monotonic()
        checked = datacheck.check_data(
            self.cluster,
            path,
            self.workload.size_bytes,
            files,
            self.workload.replication,
        )
        self._record_phase('HSDataCheck', time.monotonic() - begin, **checked)
        return checked

    def _record_phase(
        self, phase: str, seconds: float, **extra_fields: Any
    ) -> None:
        self.run_result.phases.append(
            {
                'name': phase,
                'seconds': round(seconds, 3),
                'began': round(time.time() - seconds, 3),
                **extra_fields,
            }
        )
        self._say(f'{phase}: {seconds:.0f} s')

    def collect(self) -> None:
        """Load the statistics of all jobs and check them.

        :raises hvstack.errors.RunFailed: data records were lost, or are not
            sorted.
        """
        gateway, manager = self.cluster.gateway, self.cluster.manager
        jobs = [
            phase for phase in self.run_result.phases if phase.get('job_id')
        ]
        with ThreadPoolExecutor(max_workers=len(jobs) or 1) as pool:
            ids = [phase['job_id'] for phase in jobs]
            numbers = pool.map(
                lambda job_id: job_history.load_job(manager, job_id), ids
            )
            for phase, job_summary in zip(jobs, numbers, strict=True):
                phase.update(job_summary)
        histories, locations = job_history.load_histories(manager, ids)
        names = {node.address: node.name for node in self.cluster.nodes}
        for phase in jobs:
            if phase['job_id'] in histories:
                phase.update(
                    job_history.summarize_tasks(
                        histories[phase['job_id']], locations, names
                    )
                )
        report = _read_report(gateway)
        by_name = {phase['name']: phase['job_id'] for phase in jobs}
        self.run_result.observations['parameters'] = (
            effective_settings.parameters(
                self.cluster, str(by_name.get('HSSort'))
            )
        )
        reason = check_sorted(self.run_result.phases, report, self.workload)
        if reason:
            raise errors.RunFailed(f'HSValidate: {reason}')


def _read_report(gateway: Node) -> str:
    """Return the output of HSValidate."""
    try:
        return ''.join(
            webhdfs.read_text(gateway, f'{REPORT}/{name}')
            for name in webhdfs.list_names(gateway, REPORT)
            if name.startswith('part-r-')
        )
    except errors.HVStackError:
        # Bare-metal hosts may have no curl.
        return gateway.run(f"hdfs dfs -cat '{REPORT}/part-r-*'").stdout


def check_sorted(
    phases: list[dict[str, Any]], report: str, workload: Workload
) -> str:
    """Return why the sorted data is not valid; an empty text for valid data.

    :param phases: phases with the counters of their jobs.
    :param report: output of HSValidate: "checksum", a space, a hexadecimal
        number, and lines about data records that are not in order.
    :param workload: workload of the run.
    """
    lines = [line.split() for line in report.splitlines() if line.strip()]
    if [line[0] for line in lines] != ['checksum']:
        text = ' '.join(report.split())[:200] or 'nothing'
        return f'the output is not sorted: it reports {text}'
    counters = {
        phase['name']: phase['counters']
        for phase in phases
        if 'counters' in phase
    }
    input_checksum = counters['HSGen'].get('CHECKSUM')
    if (
        input_checksum is not None
        and int(lines[0][1], 16) != int(input_checksum) % 2**64
    ):
        return 'the checksum of the output is not that of the input'
    for name, counter in (
        ('HSGen', 'MAP_OUTPUT_RECORDS'),
        ('HSSort', 'MAP_INPUT_RECORDS'),
        ('HSSort', 'REDUCE_OUTPUT_RECORDS'),
        ('HSValidate', 'MAP_INPUT_RECORDS'),
    ):
        record_count = counters[name].get(counter)
        if record_count != workload.records:
            return (
                f'{counter} of {name} is {record_count}, not '
                f'{workload.records} (records of {RECORD_BYTES} bytes)'
            )
    return ''


def _failure_reason(output: str) -> str:
    """Return the lines of a job's output with the reason of its failure."""
    lines = output.splitlines()
    for index, line in enumerate(lines):
        if _KILLED.search(line):
            return f'a task was killed: {" ".join(lines[index].split())}'
    for pattern, reason in _FULL_DISK_REASONS.items():
        for line in filter(pattern.search, lines):
            return (
                f'{reason}: {" ".join(line.split())[:300]}. Use a smaller '
                'size, or free space on the nodes.'
            )
    telling = [
        line
        for line in lines
        if 'Exception' in line or 'ERROR' in line or 'failed' in line.lower()
    ]
    return ' '.join(processutils.tail('\n'.join(telling or lines), 4).split())
