# SPDX-License-Identifier: Apache-2.0
"""Phases of a run: those of TPCx-HS, or of another workload.

Hadoop's TeraGen, TeraSort and TeraValidate are the substitute workload for
TPC's kit.
"""

import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from hvstack import errors, speed
from hvstack.cluster import effective_settings
from hvstack.cluster.base import Cluster
from hvstack.hadoop import (
    job_history,
    master_node,
    micro_benchmarks,
    tuning_profiles,
)
from hvstack.hadoop.job_history import JobHistory
from hvstack.progress import Progress
from hvstack.results import run_clock, task_splits
from hvstack.results.observations import DataCheck
from hvstack.results.workload_types import (
    MRBENCH,
    NNBENCH,
    TERASORT,
    TESTDFSIO,
    TPCX_HS,
)
from hvstack.tpcxhs import datacheck, job_memory, job_results, node_programs
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
_JAR = '/opt/hadoop/hadoop-mapreduce-examples.jar'
_JOB = re.compile(r'\bjob_\d+_\d+\b')


@dataclass
class PhaseRunner:
    """The phases of one run.

    :param cluster: cluster that executes the run.
    :param workload: workload of the run.
    :param run_result: receives the phases and observations.
    :param progress: where to report; None reports nothing.
    :param limits: limits of the phases.
    :param parent: directory of the output and of the report.
    """

    cluster: Cluster
    workload: Workload
    run_result: RunResult
    progress: Progress | None = None
    limits: Limits = DEFAULT_LIMITS
    parent: str = BASE
    _results: dict[str, str] = field(default_factory=dict)

    @property
    def output(self) -> str:
        """Directory of the sorted data."""
        return f'{self.parent}/output'

    @property
    def report(self) -> str:
        """Directory of the output of HSValidate."""
        return f'{self.parent}/validate'

    @property
    def steps(self) -> Sequence[Callable[[], None]]:
        """The phases in order."""
        checked = (
            self.generate,
            self.check_input,
            self.sort,
            self.check_output,
            self.validate,
        )
        steps: dict[str, Sequence[Callable[[], None]]] = {
            TPCX_HS.name: checked,
            TERASORT.name: (self.generate, self.sort),
            TESTDFSIO.name: (self.write_files, self.read_files),
            NNBENCH.name: tuple(
                partial(self._run_nnbench, phase, program)
                for phase, program in zip(
                    NNBENCH.jobs,
                    ('nnbench', 'nnbench-open', 'nnbench-delete'),
                    strict=True,
                )
            ),
            MRBENCH.name: (self.run_small_jobs,),
        }
        workload_type = self.workload.type
        if workload_type.is_on_nodes:
            return [
                partial(self._run_on_nodes, phase)
                for phase in workload_type.phases
            ]
        return steps[workload_type.name]

    def _run_on_nodes(self, phase: str) -> None:
        """Run a program on all workers, and record the sum of its values."""
        self._say(f'{phase} ...')
        begin = time.monotonic()
        result = PhaseResult(phase, 0.0)
        try:
            rate = node_programs.measure(
                *(phase, self.cluster, self.workload.size_bytes),
                self.progress or Progress(),
            )
            result.reported = round(rate, 3)
        finally:
            result.seconds = time.monotonic() - begin
            self._record_phase(result)

    def generate(self) -> None:
        """Create the input (HSGen)."""
        workload = self.workload
        self._run_job(
            workload.type.generator,
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
            workload.type.sorter,
            f'terasort -Dmapreduce.job.reduces={workload.reduces} '
            '-Dmapreduce.terasort.output.replication='
            f'{workload.output_copies}',
            f'{INPUT} {self.output}',
        )

    def check_output(self) -> None:
        """Check the output (HSDataCheck)."""
        workload = self.workload
        checked = self._check_data(
            self.output, workload.reduces, workload.output_copies
        )
        self.run_result.observations |= {
            'blocks_on_one_host': checked.blocks_on_one_host,
            'blocks': checked.blocks,
        }

    def validate(self) -> None:
        """Check the order of the output (HSValidate)."""
        self._run_job(
            'HSValidate', 'teravalidate', f'{self.output} {self.report}'
        )

    def write_files(self) -> None:
        """Write the files of TestDFSIO."""
        self._run_dfsio('write')

    def read_files(self) -> None:
        """Read the files of TestDFSIO."""
        self._run_dfsio('read')

    def _run_dfsio(self, verb: str) -> None:
        """Run TestDFSIO, and record the rate that it reports."""
        self._run_micro_benchmark(
            f'{TESTDFSIO.title} {verb}',
            verb,
            micro_benchmarks.parse_dfsio,
        )

    def _run_nnbench(self, phase: str, program: str) -> None:
        """Run an operation of NNBench, and record the rate that it reports."""
        self._run_micro_benchmark(
            phase,
            program,
            partial(micro_benchmarks.parse_nnbench, tasks=self.workload.maps),
        )

    def run_small_jobs(self) -> None:
        """Run the jobs of MRBench, and record their rate.

        The statistics of the phase are those of the first job.
        """
        self._run_micro_benchmark(
            MRBENCH.jobs[0],
            'mrbench',
            partial(micro_benchmarks.parse_mrbench, tasks=self.workload.maps),
        )

    def _run_micro_benchmark(
        self, phase: str, program: str, parse: Callable[[str], float]
    ) -> None:
        """Run a benchmark of Hadoop's tests, and record what it reports.

        :param program: first argument of the program.
        :param parse: function that returns the value of its result.
        """
        workload = self.workload
        client, options = self._list_options(phase)
        text = micro_benchmarks.render(
            program, BASE, workload.maps, f'{workload.file_bytes}B', *options
        )
        output = self._run_client(phase, f'{client}sh -c {shlex.quote(text)}')
        self._results[phase] = output
        try:
            rate = parse(output)
        except ValueError as exc:
            raise errors.RunFailedError(f'{phase} failed: {exc}.') from exc
        self.run_result.phases[-1].reported = round(rate, 3)

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
        """Run a program of Hadoop's examples as a job."""
        client, options = self._list_options(phase)
        self._run_client(
            phase,
            f'{client}hadoop jar {_JAR} {program} {shlex.join(options)} '
            f'{operands}',
        )

    def _list_options(self, phase: str) -> tuple[str, list[str]]:
        """Return the settings of the job of a phase.

        :returns: assignment of a variable for its client, and options.
        """
        workload = self.workload
        tuning = tuning_profiles.load(self.cluster.tuning)
        block = min(workload.block_bytes, tuning.max_block_mib * MIB)
        client, master = self._job_memory(phase)
        options = [
            f'-D{name}={value}' for name, value in workload.settings
        ] + master
        if workload.one_jvm:
            options.insert(0, '-Dmapreduce.job.ubertask.enable=true')
        if workload.is_uber:
            # Tasks in the JVM of the ApplicationMaster belong to a worker.
            options.append(f'-D{master_node.EXPRESSION}=')
            if tuning.sizing.master_share is not None and not master:
                options += job_memory.TASK_SIZE_OPTIONS
        return client, [
            *options,
            f'-Ddfs.blocksize={block}',
            f'-Ddfs.replication={workload.replication}',
        ]

    def _run_client(self, phase: str, command: str) -> str:
        """Run a job and measure the time of its client, as TPCx-HS does.

        :returns: standard output of the client.
        """
        self._say(f'{phase} ...')
        watch = StallWatch(
            self.cluster.manager,
            self.limits.stall_timeout,
            lambda: self._report_deadline(phase),
        )
        begin = time.monotonic()
        try:
            result = self.cluster.gateway.run(
                command,
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
                f'{job_results.find_reason(output).removesuffix(".")}.'
            )
        return result.stdout

    def _count_maps(self, phase: str) -> int:
        """Return the expected number of map tasks of a phase."""
        workload = self.workload
        if phase == workload.type.sorter:
            tuning = tuning_profiles.load(self.cluster.tuning)
            return workload.count_splits(tuning.max_block_mib * MIB)
        return workload.reduces if phase == 'HSValidate' else workload.maps

    def _count_reduces(self, phase: str) -> int:
        """Return the number of reduce tasks of a phase."""
        phases = self.workload.type
        return {
            phases.generator: 0,
            phases.sorter: self.workload.reduces,
        }.get(phase, 1)

    def _count_tasks(self, phase: str) -> int:
        """Return the expected number of tasks of a phase."""
        return self._count_maps(phase) + self._count_reduces(phase)

    def _job_memory(self, phase: str) -> tuple[str, list[str]]:
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
            list(
                job_memory.master_options(
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
        phase.started_at = round(run_clock.now() - phase.seconds, 3)
        phase.seconds = round(phase.seconds, 3)
        self.run_result.phases.append(phase)
        self._say(f'{phase.name}: {phase.seconds:.0f} s')

    def collect(self) -> None:
        """Load the statistics of all jobs and check them.

        :raises hvstack.errors.RunFailedError: data was lost, or is not sorted.
        """
        if self.workload.type.is_on_nodes:
            return
        manager, workload = self.cluster.manager, self.workload
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
        # Nodes that store alone have no tasks.
        workers = {
            node.name: node.host
            for node in self.cluster.workers
            if node.role != 'data'
        }
        for job_id, phase in jobs:
            if job_id in histories:
                phase.tasks = job_history.summarize_tasks(
                    histories[job_id], locations, names
                )
                if not workload.type.sorter:
                    # Its input is a name for each task, not the data.
                    phase.tasks = replace(phase.tasks, locality={})
                phase.hosts = task_splits.count_by_host(
                    phase.tasks.nodes, workers
                )
        self.run_result.observations['uneven_tasks'] = [
            str(split)
            for split in task_splits.list_uneven(self.run_result.read_phases())
        ]
        by_name = {phase.name: job_id for job_id, phase in jobs}
        self.run_result.observations['parameters'] = (
            effective_settings.parameters(
                self.cluster, str(by_name.get(workload.type.main_job))
            )
        )
        phases = self.run_result.phases
        if workload.type is TPCX_HS:
            report = job_results.read_report(self.cluster.gateway, self.report)
            reason = job_results.check_sorted(phases, report, workload)
            name = 'HSValidate'
        else:
            reason = job_results.check_counters(phases, workload)
            reason = reason or self._explain_late_maps(histories)
            name = workload.type.title
        if reason:
            raise errors.RunFailedError(
                f'{name} failed: {reason.removesuffix(".")}.'
            )

    def _explain_late_maps(self, histories: Mapping[str, JobHistory]) -> str:
        """Return why maps of NNBench did not work together; empty if they did.

        :param histories: histories of the jobs that can be read.
        """
        if self.workload.type is not NNBENCH:
            return ''
        for phase in self.run_result.phases:
            history = histories.get(phase.job_id or '')
            if history is None:
                continue
            reason = micro_benchmarks.explain_late(
                self._results[phase.name],
                [
                    task.started_at
                    for task in history.tasks
                    if task.kind == 'map'
                ],
            )
            if reason:
                return (
                    f'{phase.name}: {reason}. Use fewer maps, so that all of '
                    'them run at the same time'
                )
        return ''
