# SPDX-License-Identifier: Apache-2.0
"""TPC's TPCx-HS kit, which the user must provide.

The program of the kit executes both runs of a pair, with only the clean-up of
the file system between them, and writes a single log, from which hvstack
creates two run records. TPCx-HS: the run with the lower metric is the
performance run, the other one is the repeatability run.

Names of files, options and lines are those of the kits 1.x and 2.x.
"""

import base64
import contextlib
import io
import re
import shlex
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from hvstack import errors, textfile
from hvstack.cluster.base import Cluster, Node
from hvstack.progress import Progress
from hvstack.results import passes, record_data, signing
from hvstack.results.benchmark import KIT_SIZES
from hvstack.tpcxhs import (
    datacheck,
    kit_evidence,
    kit_memory,
    preparation,
    run,
)
from hvstack.tpcxhs.deadlines import (
    Limits,
    StallWatch,
    describe_hosts,
    load_limits,
)
from hvstack.tpcxhs.result import PhaseResult, RunResult, RunSpec
from hvstack.tpcxhs.run_samplers import SamplingSpec
from hvstack.tpcxhs.workload import Workload

PROGRAM = 'TPCx-HS-master.sh'
PARAMETERS = 'Benchmark_Parameters.sh'
VERSION = 'VERSION.txt'
#: Files that a kit must contain to run on MapReduce.
FILES = (
    PROGRAM,
    PARAMETERS,
    'BigData_cluster_validate_suite.sh',
    'HSDataCheck.sh',
    'TPCx-HS-master_MR2.jar',
    VERSION,
)
#: Directory of the kit on the controller while it runs.
KIT_DIR = '/opt/hvstack-kit'
#: File in it with the process ID of its program.
_PID = 'hvstack.pid'
#: Exit status of ssh if it lost the connection.
_SSH_ERROR = 255
_DATA = 'TPCx-HS-benchmark'
#: Directory of its data in HDFS.
DATA = f'/user/root/{_DATA}'
OUTPUT = f'{DATA}/HSsort-output'
_MAX_KIT_BYTES = 100 * 10**6
#: Programs that the kit calls.
_REQUIRED_PROGRAMS = ('bash', 'bc', 'md5sum')
#: Substitute for sudo: a node has no user but root, and possibly no sudo.
_SUDO = '#!/bin/sh\n[ "$1" = -u ] && shift 2\nexec "$@"\n'

#: Gap in the telemetry of a run.
_NETWORK = 'counters of the network cover both runs of the kit'

_COLOUR = re.compile(r'(?:\x1b|\\e)\[[0-9;]*m')
_RUN_START = re.compile(r'Run (\d+) - Epoch (\d+)')
_TIME = re.compile(r'Time taken by (HS\w+) = (?:(\d+)m)?([\d.]+)s')
_TOTAL = re.compile(r'Test Run (\d+) details: Total Time = (\d+)')
_METRIC = re.compile(r'Performance Metric \(HSph@SF\): ([\d.]+)')
_FAILED = re.compile(r'(HS\w+) Result FAILURE')


@dataclass(frozen=True)
class KitRun:
    """A run in the log of the kit.

    :param run_number: number of the run, 1 or 2.
    :param started_at: start time in seconds since 1970.
    :param phases: seconds of each phase by its name.
    :param total_seconds: whole seconds; None if the log has no metric.
    :param metric: HSph@SF as the kit prints it; None if the log has no metric.
    :param reason: why the log has no metric.
    """

    run_number: int
    started_at: int
    phases: dict[str, float]
    total_seconds: int | None
    metric: float | None
    reason: str = ''

    def fail(self, reason: str) -> 'KitRun':
        """Return the run as a failed run."""
        return replace(self, reason=reason, total_seconds=None, metric=None)


def check_kit(path: Path, size_bytes: int) -> str:
    """Check that a directory contains a kit, which supports a data size.

    :param path: directory of the kit.
    :param size_bytes: size of the data set in bytes.
    :returns: version of the kit.
    :raises hvstack.errors.InputError: files are missing, the version cannot be
        read, or the kit does not support the size.
    """
    missing = [name for name in FILES if not (path / name).is_file()]
    if missing:
        raise errors.InputError(
            f'Cannot use the kit (--kit {path}): {", ".join(missing)} is '
            'missing. Use the directory TPCx-HS-Runtime-Suite of the kit that '
            'the TPC distributes.'
        )
    if size_bytes not in KIT_SIZES:
        sizes = ', '.join(name for _, name in KIT_SIZES.values())
        raise errors.InputError(
            f'Cannot sort {size_bytes} bytes (--size): the kit supports only '
            f'{sizes}. Use one of these sizes.'
        )
    version = textfile.read(path / VERSION).strip()[:40]
    if not version:
        raise errors.InputError(
            f'Cannot use the kit (--kit {path}): {VERSION} is empty, and the '
            'run records contain the version. Use the kit that the TPC '
            'distributes.'
        )
    return version


def parse_log(log: str) -> list[KitRun]:
    """Return the runs in the log of a kit, in order."""
    text = _COLOUR.sub('', log)
    starts = list(_RUN_START.finditer(text))
    bounds = [*(start.start() for start in starts), len(text)]
    return [
        _parse_run(int(start[1]), int(start[2]), text[start.end() : end])
        for start, end in zip(starts, bounds[1:], strict=True)
    ]


def _parse_run(run_number: int, started_at: int, text: str) -> KitRun:
    total, metric = _TOTAL.search(text), _METRIC.search(text)
    failed = _FAILED.findall(text)
    reason = ''
    if failed:
        reason = f'the kit reports that {", ".join(failed)} failed'
    elif not total or not metric or int(total[2]) < 1:
        reason = 'the kit ended without a metric'
    return KitRun(
        run_number,
        started_at,
        {
            name: 60 * int(minutes or 0) + float(seconds)
            for name, minutes, seconds in _TIME.findall(text)
        },
        int(total[2]) if total and not reason else None,
        float(metric[1]) if metric and not reason else None,
        reason,
    )


def install_kit(node: Node, path: Path, workload: Workload) -> None:
    """Copy the kit to the controller, with the settings for this cluster.

    :param node: controller that runs the kit.
    :param path: directory of the kit.
    :param workload: workload of the runs.
    :raises hvstack.errors.InputError: the directory is too large for a kit.
    :raises hvstack.errors.HVStackError: the kit cannot be copied.
    """
    if sum(file.lstat().st_size for file in path.rglob('*')) > _MAX_KIT_BYTES:
        raise errors.InputError(
            f'Cannot copy the kit (--kit {path}): the directory has more than '
            f'{_MAX_KIT_BYTES // 10**6} MB. Use the directory of the kit only.'
        )
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode='w:gz') as tar:
        tar.add(path, '.')
    node.run(
        f'rm -rf {KIT_DIR} && mkdir -p {KIT_DIR} && '
        f'base64 -d | tar -xz -C {KIT_DIR} --no-same-owner && '
        # The user of Hadoop reads it, and the user's own files may be private.
        f'chmod -R a+rX {KIT_DIR}',
        stdin=base64.b64encode(packed.getvalue()).decode(),
        timeout=600,
    )
    # The last assignment counts, so the settings of the kit can remain.
    own = textfile.read(path / PARAMETERS)
    overrides = {
        'NUM_MAPS': workload.maps,
        'NUM_REDUCERS': workload.reduces,
        'HADOOP_USER': 'root',
        'HDFS_USER': 'root',
        'HDFS_BENCHMARK_DIR': _DATA,
    }
    lines = [f'export {name}="{value}"' for name, value in overrides.items()]
    node.put('\n'.join([own, *lines, '']), f'{KIT_DIR}/{PARAMETERS}')
    node.put(_SUDO, f'{KIT_DIR}/.bin/sudo', 0o755)


def stop_kit(node: Node) -> None:
    """End the program of the kit, also one of an earlier pair.

    It does not end with its connection, and starts its next job if a job
    fails. The next pair stops it if this node does not answer now.
    """
    with contextlib.suppress(errors.HVStackError):
        node.run(
            f'pid=$(cat {KIT_DIR}/{_PID}) || exit 0; '
            # Another process can have got the number.
            f'! grep -qs {PROGRAM} "/proc/$pid/cmdline" || '
            'kill -KILL "$pid"',
            timeout=60,
        )


def execute_kit(
    node: Node,
    size_bytes: int,
    timeout: float,
    watch: StallWatch,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Execute both runs, and return the log of the kit.

    :param node: controller that runs the kit.
    :param size_bytes: size of the data set in bytes.
    :param timeout: deadline of both runs in seconds.
    :param watch: decides how long the runs continue after the deadline.
    :param variables: environment variables of the program.
    :raises hvstack.errors.MissingPrerequisiteError: programs that the kit
        needs are not installed on the node.
    :raises hvstack.errors.RunFailedError: the runs made no progress after the
        deadline.
    """
    missing_programs = node.run(
        f'for p in {" ".join(_REQUIRED_PROGRAMS)}; do '
        'command -v $p >/dev/null || echo $p; done'
    ).stdout.split()
    if missing_programs:
        raise errors.MissingPrerequisiteError(
            f'Cannot run the kit ({node.name}): the kit needs '
            f'{", ".join(missing_programs)}. Install it in the image of the '
            'controller.'
        )
    option, name = KIT_SIZES[size_bytes]
    log = f'TPCx-HS-result-{name}.log'
    assignments = shlex.join(
        f'{key}={text}' for key, text in variables.items()
    )
    try:
        result = node.run(
            f'cd {KIT_DIR} && rm -f {log}* && echo $$ >{_PID} && '
            f'exec env PATH={KIT_DIR}/.bin:"$PATH" {assignments} '
            f'bash ./{PROGRAM} -m -g {option} >output.txt 2>&1',
            timeout=timeout,
            check=False,
            on_timeout=watch,
        )
    except errors.DeadlineExceededError as exc:
        stop_kit(node)
        raise errors.RunFailedError(
            "TPC's kit was stopped: "
            f'{watch.stop_jobs(timeout).removesuffix(".")}.'
        ) from exc
    except BaseException:
        stop_kit(node)
        raise
    if result.returncode == _SSH_ERROR:
        stop_kit(node)
        raise errors.RunFailedError(
            f"The connection to {node.name} was lost while TPC's kit ran."
        )
    done = node.run(f'cat {KIT_DIR}/{log} || tail -n 5 {KIT_DIR}/output.txt')
    return done.stdout


def measure_runs(
    cluster: Cluster, spec: RunSpec, progress: Progress | None = None
) -> list[record_data.RunRecord]:
    """Execute a run, or a pair of runs with TPC's kit, and save the records.

    :param cluster: cluster that executes the runs.
    :param spec: runs to execute.
    :param progress: where to report; None reports nothing.
    :raises hvstack.errors.InputError: the kit is incomplete, or does not
        support the size.
    :raises hvstack.errors.HVStackError: the run could not be started.
    """
    if spec.kit is None:
        return [run.measure(cluster, spec, progress)]
    return _measure_pair(cluster, spec, spec.kit, progress)


def _measure_pair(
    cluster: Cluster,
    spec: RunSpec,
    path: Path,
    progress: Progress | None,
) -> list[record_data.RunRecord]:
    """Execute the two runs of the kit, and save a record of each run.

    Caches are dropped only before the first run: TPCx-HS allows only the
    clean-up of the file system between the runs.
    """
    workload = spec.workload
    version = check_kit(path, workload.size_bytes)
    # Without a key the records could not be written after the runs.
    signing.own_key()
    if progress:
        progress.say("TPC's kit: both runs ...")
    store = spec.store
    earlier_records, _ = store.read_sweep(spec.run_id.sweep)
    limits = load_limits(spec, store)
    watch = StallWatch(
        cluster.manager, limits.stall_timeout, lambda: _say_late(progress)
    )
    # The program deletes the data of an earlier pair itself, but only after
    # it was checked whether its own data fits.
    stop_kit(cluster.gateway)
    preparation.purge(cluster, DATA)
    logs: list[str] = []
    leads: list[int] = []
    variables: dict[str, str] = {}
    whole = run.run(
        cluster,
        workload,
        program=[
            lambda: install_kit(cluster.gateway, path, workload),
            lambda: variables.update(
                kit_memory.prepare(cluster, workload, f'{KIT_DIR}/.conf')
            ),
            lambda: leads.append(kit_evidence.read_lead(cluster.gateway)),
            lambda: logs.append(
                execute_kit(
                    cluster.gateway,
                    workload.size_bytes,
                    _compute_deadline(cluster, workload, limits),
                    watch,
                    variables,
                )
            ),
        ],
        sampling=SamplingSpec.load(),
        earliest=run.compute_last_end(earlier_records),
    )
    if spec.baseline:
        whole.observations['compared_with'] = spec.baseline
    kit_runs = _collect_runs(whole, ''.join(logs), sum(leads))
    kit_runs[1] = _check_output(cluster, workload, kit_runs[1])
    slower = _performance_run_number(kit_runs)
    records: list[record_data.RunRecord] = []
    for kit_run in kit_runs:
        if kit_run.run_number not in spec.run_numbers:
            continue
        first = spec.run_id
        run_id = replace(first, index=first.index + kit_run.run_number - 1)
        run_result = _build_result(whole, kit_run, slower, version)
        missing = kit_evidence.add_jobs(cluster, run_result, sum(leads))
        if missing:
            run_result.observations['without_counters'] = missing
        samples = kit_evidence.cut_telemetry(whole, run_result, [_NETWORK])
        new_record = run_result.to_record(run_id, derived=False)
        new_record = run.add_telemetry(new_record, samples, store)
        new_record = passes.add_location(
            new_record, [*earlier_records, *records]
        )
        records.append(store.append(new_record))
    return records


def _compute_deadline(
    cluster: Cluster, workload: Workload, limits: Limits
) -> float:
    """Return the deadline of both runs: the sum of those of their phases."""
    hosts = describe_hosts(cluster, cluster.environment())
    return 2 * sum(limits.deadlines(workload, hosts).values())


def _say_late(progress: Progress | None) -> None:
    if progress:
        progress.say(
            "TPC's kit: the deadline of both runs has passed; they continue "
            'while the progress of their jobs changes'
        )


def _build_result(
    whole: RunResult, kit_run: KitRun, slower: int | None, version: str
) -> RunResult:
    """Return the result of one run of the kit.

    :param whole: result of both runs together.
    :param kit_run: run in the log of the kit.
    :param slower: number of the performance run; None if a run failed.
    :param version: version of the kit.
    """
    total_seconds = kit_run.total_seconds or 0
    return replace(
        whole,
        started=_format_time(kit_run.started_at),
        ended=_format_time(kit_run.started_at + total_seconds),
        reason=kit_run.reason,
        total_seconds=float(total_seconds),
        phases=[
            PhaseResult(name, seconds)
            for name, seconds in kit_run.phases.items()
        ],
        observations={
            **whole.observations,
            'kit': {
                'version': version,
                'metric': kit_run.metric,
                'run': kit_run.run_number,
                'role': _run_role(kit_run, slower),
            },
        },
    )


def _collect_runs(whole: RunResult, log: str, lead: int) -> list[KitRun]:
    """Return both runs; a problem of the whole kit invalidates both.

    :param lead: seconds by which the clock of the log is ahead.
    """
    runs_by_number = {
        kit_run.run_number: replace(
            kit_run, started_at=kit_run.started_at - lead
        )
        for kit_run in parse_log(log)
    }
    started_at = int(datetime.fromisoformat(whole.started).timestamp())
    tail = ' '.join(log.split())[-300:]
    runs = []
    for run_number in (1, 2):
        kit_run = runs_by_number.get(run_number) or KitRun(
            run_number, started_at, {}, None, None, f'it did not start: {tail}'
        )
        if whole.reason:
            kit_run = kit_run.fail(whole.reason)
        runs.append(kit_run)
    return runs


def _check_output(
    cluster: Cluster, workload: Workload, kit_run: KitRun
) -> KitRun:
    """Check the size and replication of the output of the last run.

    The kit prints the result of HSDataCheck, but checks only the jobs.
    """
    if kit_run.reason:
        return kit_run
    try:
        datacheck.check_data(
            cluster,
            OUTPUT,
            workload.size_bytes,
            None,
            workload.replication,
        )
    except errors.HVStackError as exc:
        # Also if fsck takes too long: the first run keeps its record.
        return kit_run.fail(str(exc))
    return kit_run


def _performance_run_number(runs: list[KitRun]) -> int | None:
    """Return the number of the performance run; None if a run failed."""
    if any(kit_run.total_seconds is None for kit_run in runs):
        return None
    return max(runs, key=lambda kit_run: kit_run.total_seconds or 0).run_number


def _run_role(kit_run: KitRun, slower: int | None) -> str:
    if slower is None:
        return 'none: the pair is not whole'
    return 'performance' if kit_run.run_number == slower else 'repeatability'


def _format_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime('%Y-%m-%dT%H:%M:%SZ')
