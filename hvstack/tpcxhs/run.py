# SPDX-License-Identifier: Apache-2.0
"""One run: HSGen, HSDataCheck, HSSort, HSDataCheck, HSValidate.

Hadoop's TeraGen, TeraSort and TeraValidate stand in for TPC's kit. Every
figure is "derived from the TPCx-HS benchmark and not comparable to published
TPCx-HS results".
"""

import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hvstack import conf, errors, shell
from hvstack.cluster import disks, inforce, probe
from hvstack.cluster import telemetry as sampling
from hvstack.cluster.base import Cluster, Node
from hvstack.hadoop import daemons, history, rest, sites, webhdfs
from hvstack.hadoop.tables import LARGEST_BLOCK_MIB
from hvstack.progress import Progress
from hvstack.results import record, signing, telemetry
from hvstack.results.benchmark import RECORD_BYTES
from hvstack.results.telemetry import Telemetry
from hvstack.tpcxhs import datacheck
from hvstack.tpcxhs.workload import MIB, Workload

#: The NameNode's bean of the same figures as FSNamesystem, which is up to
#: ten seconds old: right after a start it says that there is no room.
_STATE_BEAN = 'FSNamesystemState'
BASE = '/benchmarks/tpcx-hs'
INPUT = f'{BASE}/input'
OUTPUT = f'{BASE}/output'
REPORT = f'{BASE}/validate'
_JAR = '/opt/hadoop/hadoop-mapreduce-examples.jar'
_JOB = re.compile(r'\bjob_\d+_\d+\b')
#: What a container's end by the kernel, or by YARN for its memory, looks
#: like in the client's output.
_KILLED = re.compile(
    r'(?i)exit code is 137|exitcode: 137|exit code 137|'
    r"beyond the '?physical'? memory limit|java heap space|"
    r'OutOfMemoryError'
)
#: What disks that fill up look like there: a node's, HDFS' and YARN's sight
#: of them; HDFS says the last of DataNodes that are gone, too.
_FULL_DISK_REASONS = {
    re.compile(
        r'No space left on device|DiskOutOfSpaceException|'
        r'Could not find any valid local directory|'
        r'local-dirs usable space is below'
    ): 'disks are full',
    re.compile(
        r'could only be written to \d+ of the'
    ): 'no DataNode took a block, for want of room or of DataNodes',
}
#: Seconds that a phase may take.
PHASE_SECONDS = 3600.0
#: Data of the sort that a new cluster does once before it is measured.
WARM_UP_BYTES = 10_000_000


@dataclass
class RunResult:
    """What one run came to, valid or not; units as in a run record.

    :param reason: why it is not valid, with evidence.
    :param telemetry: of its nodes, if it was asked for.
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
        """All phases ended and every check passed."""
        return not self.reason

    @property
    def rate(self) -> float:
        """TB an hour; 0 for a run that is not valid."""
        if not self.is_valid:
            return 0.0
        return record.compute_rate(
            self.workload.size_bytes, self.total_seconds
        )

    def to_record(
        self, *, sweep: str, kind: str, configuration: str, index: int
    ) -> record.Record:
        """Return the run's record, to be saved."""
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
    """Return the time in UTC as records have it."""
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
    """Run the benchmark once.

    Old output is purged, caches are dropped and idle disks waited for first;
    what of that cannot be had is in ``seen['before_run']``. A run that fails
    half way, or in which anything was killed for want of memory, is returned
    as not valid, with the evidence.

    :param program: what runs instead of our phases, whose counters are then
        not there to be fetched.
    :param phase_seconds: longest time of a phase.
    :param interval: seconds between samples of the nodes; 0 takes none.
    :raises hvstack.errors.InputError: the data set does not fit.
    :raises hvstack.errors.HVStackError: the cluster cannot even be made
        ready for a run.
    """
    run_result = RunResult(workload)
    kills = probe.oom_lines(cluster.nodes)
    purge(cluster)
    check_fit(cluster, workload)
    system = inforce.os_state(cluster.nodes)
    run_result.sut = {
        'tuning': cluster.tuning,
        'hadoop_profile': sites.digest_settings(
            workload.replication, cluster.tuning
        ),
        'os_profile': system.profile,
        **cluster.environment(),
    }
    run_result.observations = {
        **cluster.seen(),
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
            f'killed for want of memory: {evidence[0]}'
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
    """Run the benchmark once and save its record, valid or not.

    :param records_dir: where records are.
    :param observe: gives what was seen of the cloud after the run.
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
    """Have no run find what the one before left in memory.

    Write back, drop the caches, and wait until the disks are idle.

    :returns: what could not be had, to be said beside the figure: a tenant
        may not drop caches everywhere.
    """
    warnings = []
    try:
        cluster.drop_caches()
    except errors.HVStackError as exc:
        warnings.append(
            f'caches were not dropped ({" ".join(str(exc).split())})'
        )
    busy = disks.settle(cluster.nodes)
    return [*warnings, busy] if busy else warnings


def warm_up(cluster: Cluster, workload: Workload) -> None:
    """Sort a little once, so that no first run pays for cold daemons.

    What it leaves in HDFS the first run purges.

    :raises hvstack.errors.RunFailed: it does not work.
    """
    # A task a worker: enough to start every daemon's classes, and the start
    # of JVMs is what takes the time.
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
    # A new cluster holds nothing, and to look is quicker than to remove it.
    if rest.get_namenode_bean(cluster.gateway, _STATE_BEAN).get(
        'BlocksTotal', 1
    ):
        purge(cluster)
    if small.maps <= small.size_bytes // MIB:
        runner.put_random()
    else:
        runner.generate()
    runner.sort()
    runner.check_output()


def purge(cluster: Cluster) -> None:
    """End jobs that an aborted run left; remove its data and all trash.

    Waits until the DataNodes have really let go of the blocks.
    """
    gateway = cluster.gateway
    apps = rest.get_json(
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
        # Hosts of their own may lack curl: a JVM has to start then.
        gateway.run(
            f'hdfs dfs -rm -r -f -skipTrash {BASE} "/user/*/.Trash"',
            timeout=300,
        )

    def is_deleted() -> bool:
        state = rest.get_namenode_bean(gateway, _STATE_BEAN)
        return int(state['PendingDeletionBlocks']) == 0

    shell.wait_for(is_deleted, 'HDFS to delete the last run', timeout=120)


def check_fit(cluster: Cluster, workload: Workload) -> None:
    """Refuse a data set for which HDFS has no room.

    :raises hvstack.errors.InputError: names what is needed and what is left.
    """
    state = rest.get_namenode_bean(cluster.gateway, _STATE_BEAN)
    free_bytes = int(state['CapacityRemaining'])
    needed = workload.needed_bytes
    if needed > free_bytes:
        raise errors.InputError(
            f'data of {workload.size_bytes / 1e9:.3g} GB needs '
            f'{needed / 1e9:.3g} GB of HDFS (twice {workload.replication} '
            f'replicas and half for the sort), {free_bytes / 1e9:.3g} GB are '
            'left: take a smaller size'
        )


def _find_kills(cluster: Cluster, before: set[str]) -> list[str]:
    """Return the evidence that something was killed during the run."""
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
        work = self.workload
        self._run_job(
            'HSGen',
            f'teragen -Dmapreduce.job.maps={work.maps}',
            f'{work.records} {INPUT}',
        )

    def put_random(self) -> None:
        """Have input without a job, in as many blocks as there are maps.

        TeraSort sorts whatever its records hold. A block is 1 MiB at least.
        """
        work = self.workload
        block = work.size_bytes // work.maps // MIB * MIB
        self.cluster.gateway.run(
            f'head -c {work.size_bytes} /dev/urandom | hdfs dfs '
            f'-Ddfs.blocksize={block} -Ddfs.replication={work.replication} '
            f'-put - {INPUT}/part',
            timeout=300,
        )

    def check_input(self) -> None:
        self._check_data(INPUT, self.workload.maps)

    def sort(self) -> None:
        work = self.workload
        self._run_job(
            'HSSort',
            f'terasort -Dmapreduce.job.reduces={work.reduces} '
            f'-Dmapreduce.terasort.output.replication={work.replication}',
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
        """Run one job; its time is the client's, as in TPCx-HS."""
        work = self.workload
        self._say(f'{phase} ...')
        max_block_bytes = LARGEST_BLOCK_MIB[self.cluster.tuning] * MIB
        block = min(work.block_bytes, max_block_bytes)
        if work.one_jvm:
            program += ' -Dmapreduce.job.ubertask.enable=true'
        begin = time.monotonic()
        result = self.cluster.gateway.run(
            f'hadoop jar {_JAR} {program} -Ddfs.blocksize={block} '
            f'-Ddfs.replication={work.replication} {operands}',
            timeout=self.phase_seconds,
            check=False,
        )
        seconds = time.monotonic() - begin
        output = result.stdout + result.stderr
        jobs = _JOB.findall(output)
        self._record_phase(phase, seconds, job_id=jobs[0] if jobs else None)
        if result.returncode != 0 or not jobs:
            raise errors.RunFailed(
                f'{phase} ended with status {result.returncode} after '
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

    def _record_phase(self, phase: str, seconds: float, **more: Any) -> None:
        self.run_result.phases.append(
            {
                'name': phase,
                'seconds': round(seconds, 3),
                'began': round(time.time() - seconds, 3),
                **more,
            }
        )
        self._say(f'{phase}: {seconds:.0f} s')

    def collect(self) -> None:
        """Fetch every job's numbers and hold them against the data set.

        :raises hvstack.errors.RunFailed: records were lost, or not sorted.
        """
        gateway, manager = self.cluster.gateway, self.cluster.manager
        jobs = [
            phase for phase in self.run_result.phases if phase.get('job_id')
        ]
        with ThreadPoolExecutor(max_workers=len(jobs) or 1) as pool:
            ids = [phase['job_id'] for phase in jobs]
            numbers = pool.map(
                lambda job_id: history.load_job(manager, job_id), ids
            )
            for phase, job_summary in zip(jobs, numbers, strict=True):
                phase.update(job_summary)
        histories, locations = history.load_histories(manager, ids)
        names = {node.address: node.name for node in self.cluster.nodes}
        for phase in jobs:
            if phase['job_id'] in histories:
                phase.update(
                    history.summarize_tasks(
                        histories[phase['job_id']], locations, names
                    )
                )
        report = _read_report(gateway)
        by_name = {phase['name']: phase['job_id'] for phase in jobs}
        self.run_result.observations['parameters'] = inforce.parameters(
            self.cluster, str(by_name.get('HSSort'))
        )
        reason = check_sorted(self.run_result.phases, report, self.workload)
        if reason:
            raise errors.RunFailed(f'HSValidate: {reason}')


def _read_report(gateway: Node) -> str:
    """Return what HSValidate wrote."""
    try:
        return ''.join(
            webhdfs.read_text(gateway, f'{REPORT}/{name}')
            for name in webhdfs.list_names(gateway, REPORT)
            if name.startswith('part-r-')
        )
    except errors.HVStackError:
        # As in purge.
        return gateway.run(f"hdfs dfs -cat '{REPORT}/part-r-*'").stdout


def check_sorted(
    phases: list[dict[str, Any]], report: str, workload: Workload
) -> str:
    """Return why sorted data is not what was generated; nothing if it is.

    :param phases: with the jobs' counters.
    :param report: what HSValidate wrote: "checksum", a blank, a number in
        hexadecimal, and lines about records that are out of order.
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
    """Return the lines of a job's output that say why it failed."""
    lines = output.splitlines()
    for number, line in enumerate(lines):
        if _KILLED.search(line):
            return f'a task was killed: {" ".join(lines[number].split())}'
    for pattern, reason in _FULL_DISK_REASONS.items():
        for line in filter(pattern.search, lines):
            return (
                f'{reason}: {" ".join(line.split())[:300]}; take a smaller '
                'size, or make room on the nodes'
            )
    telling = [
        line
        for line in lines
        if 'Exception' in line or 'ERROR' in line or 'failed' in line.lower()
    ]
    return ' '.join(shell.tail('\n'.join(telling or lines), 4).split())
