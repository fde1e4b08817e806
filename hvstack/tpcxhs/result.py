# SPDX-License-Identifier: Apache-2.0
"""What a run executes, and its result."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hvstack.cluster.base import Fact
from hvstack.hadoop.job_history import JobSummary, TaskSummary
from hvstack.results import (
    host_telemetry,
    observations,
    record_data,
    run_clock,
)
from hvstack.results.host_telemetry import HostsTelemetry
from hvstack.results.observations import DataCheck, MachineCpu, Phase
from hvstack.results.run_id import RunId
from hvstack.results.run_store import RunStore
from hvstack.results.telemetry import Telemetry
from hvstack.results.typed_json import JsonObject
from hvstack.tpcxhs.host_losses import HostLossSpec
from hvstack.tpcxhs.workload import Workload

if TYPE_CHECKING:
    # It executes sorts, whose results are in this module.
    from hvstack.tpcxhs.compute_scaling import ComputeScalingSpec
    from hvstack.tpcxhs.second_cluster import SecondClusterSpec


@dataclass(frozen=True)
class RunSpec:
    """Specification of a run, or of a pair of runs with TPC's kit.

    :param run_id: identity of the run, or of the first run of the pair.
    :param workload: workload of each run.
    :param store: store of the run records.
    :param kit: directory of the kit; None runs the substitute workload.
    :param run_numbers: numbers of the runs of the pair to record; a run that
        already has a valid record is not recorded again.
    :param phase_timeout: deadline of each phase in seconds; 0 computes it, and
        None uses the option of hvstack.conf.
    :param baseline: name of recorded runs on bare metal with which the task
        compares; empty for those of the sweep.
    :param host_losses: losses of hosts to provoke after the run; None provokes
        none.
    :param compute_scaling: change of the number of compute workers after the
        run; None changes nothing.
    :param second_cluster: second compute cluster on the same HDFS after the
        run; None creates none.
    """

    run_id: RunId
    workload: Workload
    store: RunStore
    kit: Path | None = None
    run_numbers: tuple[int, ...] = (1, 2)
    phase_timeout: float | None = None
    baseline: str = ''
    host_losses: HostLossSpec | None = None
    compute_scaling: 'ComputeScalingSpec | None' = None
    second_cluster: 'SecondClusterSpec | None' = None


@dataclass
class PhaseResult:
    """Phase of a run that has ended.

    :param name: name of the phase.
    :param seconds: duration in seconds.
    :param started_at: start time in seconds since 1970; None if it is
        unknown.
    :param data_check: result of HSDataCheck; None for other phases.
    :param has_client: whether the client of a job ended. The record contains
        the job ID then, even if the client did not print it.
    :param job_id: ID of the job; None without a job.
    :param job: times and counters of the job; None until they are loaded.
    :param tasks: statistics of the tasks; None if they cannot be read.
    :param hosts: numbers of workers and tasks by host; empty without
        statistics of the tasks.
    :param machine_cpu: CPU time of the machine below a lab; None elsewhere.
    :param reported: value that the program of the phase reports; None if it
        reports none.
    """

    name: str
    seconds: float
    started_at: float | None = None
    data_check: DataCheck | None = None
    has_client: bool = False
    job_id: str | None = None
    job: JobSummary | None = None
    tasks: TaskSummary | None = None
    hosts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    machine_cpu: MachineCpu | None = None
    reported: float | None = None

    def to_mapping(self) -> JsonObject:
        """Return the phase as the run record contains it."""
        mapping: JsonObject = {'name': self.name, 'seconds': self.seconds}
        if self.started_at is not None:
            mapping['began'] = self.started_at
        if self.data_check is not None:
            mapping |= asdict(self.data_check)
        if self.has_client:
            mapping['job_id'] = self.job_id
        if self.reported is not None:
            mapping['reported'] = self.reported
        if self.machine_cpu is not None:
            mapping['machine_cpu'] = asdict(self.machine_cpu)
        if self.job is not None:
            mapping |= self.job.to_mapping()
        if self.tasks is not None:
            mapping |= self.tasks.to_mapping()
            mapping['hosts'] = self.hosts
        return mapping


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
    :param compute_hosts: samples of the hosts of guests; None without
        sampling.
    """

    workload: Workload
    started: str = ''
    ended: str = ''
    reason: str = ''
    phases: list[PhaseResult] = field(default_factory=list)
    total_seconds: float = 0.0
    sut: dict[str, Fact] = field(default_factory=dict)
    observations: JsonObject = field(default_factory=dict)
    telemetry: Telemetry | None = None
    compute_hosts: HostsTelemetry | None = None

    @property
    def is_valid(self) -> bool:
        """Whether all phases have ended and every check has passed."""
        return not self.reason

    @property
    def rate(self) -> float:
        """Rate in TB per hour; 0 for a run that is not valid."""
        if not self.is_valid:
            return 0.0
        return record_data.compute_rate(
            self.workload.size_bytes, self.total_seconds
        )

    def read_phases(self) -> list[Phase]:
        """Return the phases as a reader of the record gets them.

        :raises hvstack.errors.InputError: a value cannot be recorded.
        """
        return observations.read_phases(
            [phase.to_mapping() for phase in self.phases]
        )

    def add_failures(self, evidence: Sequence[str]) -> None:
        """Make the run invalid if nodes or their daemons have failed.

        This alone is no evidence that memory ran out: the host of a node may
        have been restarted. The run is repeated.

        :param evidence: texts about nodes and daemons.
        """
        if evidence:
            self.reason = (
                f'nodes failed during the run: {", ".join(evidence[:5])}'
                + (f'; {self.reason}' if self.reason else '')
            )[:2000]

    def add_kills(self, evidence: Sequence[str]) -> None:
        """Make the run invalid if processes were killed.

        :param evidence: lines about processes that were killed.
        """
        if evidence:
            self.observations['killed'] = list(evidence)
            self.reason = (
                f'killed because it ran out of memory: {evidence[0]}'
                + (f'; {self.reason}' if self.reason else '')
            )[:2000]

    def to_record(
        self, run_id: RunId, *, derived: bool = True
    ) -> record_data.RunRecord:
        """Return the run record, which is not saved yet.

        :param run_id: identity of the run.
        :param derived: whether the substitute workload ran.
        :raises hvstack.errors.InputError: a value cannot be recorded.
        """
        return record_data.create(
            run_id,
            {
                'started': self.started,
                'ended': self.ended,
                'valid': self.is_valid,
                'reason': self.reason,
                'size_bytes': self.workload.size_bytes,
                'replication': self.workload.replication,
                'maps': self.workload.maps,
                'reduces': self.workload.reduces,
                'phases': [phase.to_mapping() for phase in self.phases],
                'total_seconds': self.total_seconds,
                'rate': self.rate,
                'environment': self.sut,
                'seen': self._list_observations(),
                'derived': derived,
            },
        )

    def _list_observations(self) -> JsonObject:
        """Return the observations with the use of the compute hosts."""
        if self.compute_hosts is None:
            return self.observations
        return {
            **self.observations,
            'compute_hosts': host_telemetry.summarize(
                self.compute_hosts, self.read_phases()
            ),
        }


def format_now() -> str:
    """Return the time of the run in UTC in the format of run records."""
    moment = datetime.fromtimestamp(run_clock.now(), UTC)
    return moment.strftime('%Y-%m-%dT%H:%M:%SZ')
