# SPDX-License-Identifier: Apache-2.0
"""Phases of a run: HSGen, HSDataCheck, HSSort, HSDataCheck, HSValidate.

Hadoop's TeraGen, TeraSort and TeraValidate are the substitute workload for
TPC's kit.
"""

import re
import shlex
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

from hvstack import errors, processutils, speed
from hvstack.cluster import effective_settings
from hvstack.cluster.base import Cluster, Node
from hvstack.hadoop import job_history, tuning_profiles, webhdfs
from hvstack.progress import Progress
from hvstack.results import task_splits
from hvstack.results.benchmark import RECORD_BYTES
from hvstack.results.observations import DataCheck
from hvstack.tpcxhs import datacheck, job_memory
from hvstack.tpcxhs.deadlines import (
    DEFAULT_LIMITS,
    Limits,
    StallWatch,
    describe_hosts,
)
from hvstack.tpcxhs.preparation import BASE
from hvstack.tpcxhs.result import PhaseResult, RunResult
from hvstack.tpcxhs.workload import MIB, Workload

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


@dataclass
class PhaseRunner:
    """The phases of one run.

    :param cluster: cluster that executes the run.
    :param workload: workload of the run.
    :param run_result: receives the phases and observations.
    :param progress: where to report; None reports nothing.
    :param limits: limits of the phases.
    """

    cluster: Cluster
    workload: Workload
    run_result: RunResult
    progress: Progress | None = None
    limits: Limits = DEFAULT_LIMITS

    @property
    def steps(self) -> Sequence[Callable[[], None]]:
        """The phases in order."""
        return (
            self.generate,
            self.check_input,
            self.sort,
            self.check_output,
            self.validate,
        )

    def generate(self) -> None:
        """Create the input (HSGen)."""
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
        """Check the input (HSDataCheck)."""
        workload = self.workload
        self._check_data(INPUT, workload.maps, workload.replication)

    def sort(self) -> None:
        """Sort the input (HSSort)."""
        workload = self.workload
        self._run_job(
            'HSSort',
            f'terasort -Dmapreduce.job.reduces={workload.reduces} '
            '-Dmapreduce.terasort.output.replication='
            f'{workload.output_copies}',
            f'{INPUT} {OUTPUT}',
        )

    def check_output(self) -> None:
        """Check the output (HSDataCheck)."""
        workload = self.workload
        checked = self._check_data(
            OUTPUT, workload.reduces, workload.output_copies
        )
        self.run_result.observations |= {
            'blocks_on_one_host': checked.blocks_on_one_host,
            'blocks': checked.blocks,
        }

    def validate(self) -> None:
        """Check the order of the output (HSValidate)."""
        self._run_job('HSValidate', 'teravalidate', f'{OUTPUT} {REPORT}')

    @cached_property
    def _deadlines(self) -> dict[str, float]:
        """Deadline of each phase that is a job, in seconds."""
        return self.limits.deadlines(
            self.workload,
            describe_hosts(self.cluster, self.run_result.sut),
        )

    def _report_deadline(self, phase: str) -> None:
        self._say(
            f'{phase}: its deadline of '
            f'{self._deadlines[phase] * speed.factor():.0f} s has passed; it '
            'continues while its progress changes within '
            f'{self.limits.stall_timeout * speed.factor():.0f} s'
        )

    def _say(self, text: str) -> None:
        if self.progress:
            self.progress.say(text)

    def _run_job(self, phase: str, program: str, operands: str) -> None:
        """Run a job and measure the time of its client, as TPCx-HS does."""
        workload = self.workload
        self._say(f'{phase} ...')
        tuning = tuning_profiles.load(self.cluster.tuning)
        max_block_bytes = tuning.max_block_mib * MIB
        block = min(workload.block_bytes, max_block_bytes)
        client, master = self._job_memory(phase)
        if workload.one_jvm:
            program += ' -Dmapreduce.job.ubertask.enable=true'
        for name, value in workload.settings:
            program += f' -D{name}={shlex.quote(value)}'
        watch = StallWatch(
            self.cluster.manager,
            self.limits.stall_timeout,
            lambda: self._report_deadline(phase),
        )
        begin = time.monotonic()
        try:
            result = self.cluster.gateway.run(
                f'{client}hadoop jar {_JAR} {program}{master} '
                f'-Ddfs.blocksize={block} '
                f'-Ddfs.replication={workload.replication} {operands}',
                timeout=self._deadlines[phase],
                check=False,
                on_timeout=watch,
            )
        except errors.DeadlineExceededError as exc:
            self._record_phase(PhaseResult(phase, time.monotonic() - begin))
            raise errors.RunFailedError(
                f'{phase} was stopped after {time.monotonic() - begin:.0f} s: '
                f'{watch.stop_jobs(self._deadlines[phase]).removesuffix(".")}.'
            ) from exc
        seconds = time.monotonic() - begin
        output = result.stdout + result.stderr
        jobs = _JOB.findall(output)
        self._record_phase(
            PhaseResult(
                phase,
                seconds,
                has_client=True,
                job_id=jobs[0] if jobs else None,
            )
        )
        if result.returncode != 0 or not jobs:
            raise errors.RunFailedError(
                f'{phase} exited with status {result.returncode} after '
                f'{seconds:.0f} s: '
                f'{_failure_reason(output).removesuffix(".")}.'
            )

    def _count_maps(self, phase: str) -> int:
        """Return the expected number of map tasks of a phase."""
        if phase == 'HSSort':
            tuning = tuning_profiles.load(self.cluster.tuning)
            return self.workload.count_splits(tuning.max_block_mib * MIB)
        return {'HSGen': self.workload.maps}.get(phase, self.workload.reduces)

    def _count_reduces(self, phase: str) -> int:
        """Return the number of reduce tasks of a phase."""
        return {'HSGen': 0, 'HSSort': self.workload.reduces}.get(phase, 1)

    def _count_tasks(self, phase: str) -> int:
        """Return the expected number of tasks of a phase."""
        return self._count_maps(phase) + self._count_reduces(phase)

    def _job_memory(self, phase: str) -> tuple[str, str]:
        """Return the settings that give a large job more memory.

        :returns: assignment of a variable for its client, and options for its
            ApplicationMaster.
        """
        cluster = self.cluster
        maps, reduces = self._count_maps(phase), self._count_reduces(phase)
        keys = tuning_profiles.load(cluster.tuning).sampled_keys
        client = job_memory.client_mib(maps, keys)
        return (
            f'HADOOP_CLIENT_OPTS=-Xmx{client}m ' if client else '',
            ''.join(
                f' {option}'
                for option in job_memory.master_options(
                    cluster.manager, maps + reduces, cluster.processors
                )
            ),
        )

    def _check_data(
        self, path: str, files: int, replication: int
    ) -> DataCheck:
        begin = time.monotonic()
        checked = datacheck.check_data(
            self.cluster,
            path,
            self.workload.size_bytes,
            files,
            replication,
        )
        self._record_phase(
            PhaseResult(
                'HSDataCheck', time.monotonic() - begin, data_check=checked
            )
        )
        return checked

    def _record_phase(self, phase: PhaseResult) -> None:
        """Add a phase that has just ended to the result of the run."""
        phase.started_at = round(time.time() - phase.seconds, 3)
        phase.seconds = round(phase.seconds, 3)
        self.run_result.phases.append(phase)
        self._say(f'{phase.name}: {phase.seconds:.0f} s')

    def collect(self) -> None:
        """Load the statistics of all jobs and check them.

        :raises hvstack.errors.RunFailedError: data records were lost, or are
            not sorted.
        """
        gateway, manager = self.cluster.gateway, self.cluster.manager
        jobs = [
            (phase.job_id, phase)
            for phase in self.run_result.phases
            if phase.job_id
        ]
        ids = [job_id for job_id, _ in jobs]
        task_counts = [self._count_tasks(phase.name) for _, phase in jobs]
        with ThreadPoolExecutor(max_workers=len(jobs) or 1) as pool:
            summaries = pool.map(
                lambda job_id, task_count: job_history.load_job(
                    manager, job_id, task_count
                ),
                ids,
                task_counts,
            )
            for (_, phase), summary in zip(jobs, summaries, strict=True):
                phase.job = summary
        histories, locations = job_history.load_histories(
            manager, ids, sum(task_counts)
        )
        names = {node.address: node.name for node in self.cluster.nodes}
        workers = {node.name: node.host for node in self.cluster.workers}
        for job_id, phase in jobs:
            if job_id in histories:
                phase.tasks = job_history.summarize_tasks(
                    histories[job_id], locations, names
                )
                phase.hosts = task_splits.count_by_host(
                    phase.tasks.nodes, workers
                )
        self.run_result.observations['uneven_tasks'] = [
            str(split)
            for split in task_splits.list_uneven(self.run_result.read_phases())
        ]
        report = _read_report(gateway)
        by_name = {phase.name: job_id for job_id, phase in jobs}
        self.run_result.observations['parameters'] = (
            effective_settings.parameters(
                self.cluster, str(by_name.get('HSSort'))
            )
        )
        reason = check_sorted(self.run_result.phases, report, self.workload)
        if reason:
            raise errors.RunFailedError(
                f'HSValidate failed: {reason.removesuffix(".")}.'
            )


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
    phases: Sequence[PhaseResult], report: str, workload: Workload
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
        phase.name: phase.job.counters
        for phase in phases
        if phase.job is not None
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
