#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU seconds, memory and bytes of a run at the scale of vsphere6.

All input is generated: the history file of a sort of up to 112,000 map tasks
as MapReduce 3.4 writes it, with failed and speculative attempts, the answers
of the JobHistory server and of fsck, and an hour of samples of up to 640
nodes. hvstack's own functions read it, build, sign and store the record, read
and check it, and build the page of a sweep of eight runs. Each stage is a
process of its own. The exponent of a quantity is the slope of a line through
the logarithms of the quantity and of the number of nodes; 1 is linear.

.venv/bin/python benchmarks/paper_scale.py [--sizes N] [--directory DIRECTORY]
[-f {table,json}]
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import paper_inputs
from paper_inputs import START, Scale

from hvstack import processutils, report
from hvstack.cluster.sampler import Sampler
from hvstack.hadoop import fsck, job_history
from hvstack.hadoop.site_files import CONF
from hvstack.model.target import BARE_METAL, parse_target
from hvstack.report.sweep_report import build_report
from hvstack.results import (
    observations,
    record,
    record_data,
    task_splits,
    telemetry,
    telemetry_files,
)
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.run_id import RunId
from hvstack.results.typed_json import JsonObject
from hvstack.tpcxhs import datacheck

#: Sizes, each four times the one before: map tasks and workers.
SCALES = (Scale(7_000, 40), Scale(28_000, 160), Scale(112_000, 640))
#: Goals: exponents, and bytes of the page.
GOAL_EXPONENT, GOAL_PAGE_BYTES = 1.1, 10_000_000
SWEEP = 'paper-scale'
TARGETS = (BARE_METAL, 'i10', 'i20', 'i20-dedicated')
RUNS = 2
TIME = '%Y-%m-%dT%H:%M:%SZ'
#: A host.
CPUS, MEMORY_MIB = 64, 262_144
PHASES = (
    ('HSGen', 900.0),
    ('HSDataCheck', 40.0),
    ('HSSort', 1900.0),
    ('HSDataCheck', 40.0),
    ('HSValidate', 720.0),
)
JOB = f'job_{paper_inputs.JOB}'
#: What the shell programs of the sampler print besides the samples.
COUNTERS = (
    'Tcp: OutSegs RetransSegs\nTcp: {} {}\nTcpExt: TCPTimeouts\nTcpExt: 9\n'
    'Link: RxDropped TxDropped\nLink: 1 1\n'
)


@dataclass(frozen=True)
class GeneratedNode:
    """A node whose programs print the generated input.

    :param samples: text of sadf; empty for a controller.
    """

    name: str
    address: str
    role: str
    host: str
    directory: Path
    samples: str = ''

    def run(
        self,
        command: str,
        *,
        timeout: float = 600,
        check: bool = True,
        stdin: str | None = None,
        on_timeout: Callable[[], float] | None = None,
    ) -> processutils.Result:
        """Run a command, or answer a sampler."""
        if self.samples and stdin is not None:
            now = f'{time.time()}\n'
            return processutils.Result(0, COUNTERS.format(10, 1) + now, '')
        if self.samples:
            text = f'{COUNTERS.format(10**7, 9)}eth0\n{self.samples}'
            return processutils.Result(0, text, '')
        return processutils.run(
            [
                *('sh', '-c'),
                command.replace(
                    f'{CONF}/topology.table',
                    str(self.directory / 'topology.table'),
                ),
            ],
            timeout=timeout,
            check=check,
            env={'PATH': f'{self.directory}/bin:{os.environ["PATH"]}'},
        )

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        """Write nothing: no stage needs a file on a node."""


#: Stage that a process executes: returns the bytes of its result.
Action = Callable[[], int]


def store_json(path: Path, content: object) -> int:
    """Write a result for another stage, and return its bytes."""
    return path.write_text(json.dumps(content), encoding='utf-8')


def read_json(path: Path) -> Any:
    """Return the result of another stage."""
    return json.loads(path.read_text(encoding='utf-8'))


def prepare_controller(directory: Path) -> GeneratedNode:
    """Return the node that runs the NameNode and the JobHistory server."""
    return GeneratedNode(
        'controller', '10.252.0.9', 'controller', 'host-c', directory
    )


def prepare_history(scale: Scale, directory: Path) -> Action:
    """Read the history file of the sort, and summarize its tasks."""
    controller = prepare_controller(directory)

    def read_history() -> int:
        histories, locations = job_history.load_histories(
            controller, [JOB], scale.maps + scale.reduces
        )
        history = histories[JOB]
        assert len(history.tasks) == scale.maps + scale.reduces
        summary = job_history.summarize_tasks(
            history, locations, scale.workers
        )
        assert len(summary.nodes) == scale.nodes
        return store_json(directory / 'summary.json', summary.to_mapping())

    return read_history


def prepare_job(scale: Scale, directory: Path) -> Action:
    """Read the answers of the JobHistory server about the sort."""
    controller = prepare_controller(directory)

    def read_job() -> int:
        summary = job_history.load_job(controller, JOB, scale.maps)
        return store_json(directory / 'job-summary.json', summary.to_mapping())

    return read_job


def prepare_blocks(scale: Scale, directory: Path) -> Action:
    """Read the blocks of the input, and check them and their placement."""
    controller = prepare_controller(directory)
    hosts_by_name = scale.hosts
    hosts = {
        own_address: hosts_by_name[name]
        for own_address, name in scale.workers.items()
    }

    def check_blocks() -> int:
        files = datacheck.select_data_files(fsck.run(controller, '/'))
        problems = datacheck.find_problems(
            files,
            expected_bytes=scale.size_bytes,
            expected_files=scale.maps,
            replication=3,
        )
        assert not problems, problems
        fsck.find_shared_blocks(files, hosts)
        return (directory / 'fsck.txt').stat().st_size

    return check_blocks


def prepare_telemetry(scale: Scale, directory: Path) -> Action:
    """Collect an hour of samples of all workers, and store them."""
    samples = paper_inputs.format_sadf()
    hosts = scale.hosts
    nodes = [
        GeneratedNode(name, address, 'worker', hosts[name], directory, samples)
        for address, name in scale.workers.items()
    ]
    windows = telemetry.compute_windows(
        observations.read_phases(list_phases(scale, None))
    )

    def collect_samples() -> int:
        sampler = Sampler(nodes, 'sysstat', paper_inputs.INTERVAL)
        sampler.start()
        # The clocks of the nodes are those of the samples.
        sampler.offsets = dict.fromkeys(sampler.offsets, 0.5)
        run_telemetry = sampler.collect(START, windows)
        assert not run_telemetry.gaps, run_telemetry.gaps[:3]
        store = FileRunStore(directory)
        summary = telemetry_files.save(run_telemetry, store, 'samples')
        store_json(directory / 'telemetry-summary.json', summary)
        return (directory / str(summary['file'])).stat().st_size

    return collect_samples


def prepare_record(scale: Scale, directory: Path) -> Action:
    """Build, sign and store a record."""
    records_dir = directory / 'record'

    def store_record() -> int:
        run_record = build_record(scale, directory, 'i20', 0)
        stored = FileRunStore(records_dir).append(run_record)
        return (records_dir / record.build_file_name(stored)).stat().st_size

    return store_record


def prepare_check(_scale: Scale, directory: Path) -> Action:
    """Read a record, and check its digest, signature and content."""

    def read_record() -> int:
        (path,) = record.list_files(directory / 'record')
        record.load(path)
        return path.stat().st_size

    return read_record


def prepare_page(scale: Scale, directory: Path) -> Action:
    """Build the page of a sweep of eight runs with telemetry."""
    records_dir = directory / 'sweep'
    store = FileRunStore(records_dir)
    (records_dir / telemetry_files.DIRECTORY).mkdir(parents=True)
    for index in range(RUNS):
        for target in TARGETS:
            run_record = build_record(scale, directory, target, index)
            record.save(run_record, records_dir)
            os.link(
                directory / telemetry_files.DIRECTORY / 'samples.json',
                records_dir / telemetry_files.build_name(run_record),
            )

    def build_page() -> int:
        records, invalid_records = store.read_sweep(SWEEP)
        assert not invalid_records, invalid_records[0].reason
        page = report.build_page(build_report(records), store)
        return (directory / 'page.html').write_text(page)

    return build_page


STAGES: dict[str, Callable[[Scale, Path], Action]] = {
    'history': prepare_history,
    'job': prepare_job,
    'blocks': prepare_blocks,
    'telemetry': prepare_telemetry,
    'record': prepare_record,
    'check': prepare_check,
    'page': prepare_page,
}
#: Name of the CPU time that programs of the controller use for the history.
EVENTS = 'events'


def list_phases(scale: Scale, directory: Path | None) -> list[JsonObject]:
    """Return the phases of a run.

    :param directory: results of other stages; None leaves out the jobs.
    """
    count = scale.size_bytes // 100
    phases: list[JsonObject] = []
    start_seconds = float(START)
    for index, (name, seconds) in enumerate(PHASES):
        phase: JsonObject = {'name': name, 'seconds': seconds}
        phase['began'] = start_seconds
        start_seconds += seconds
        if name == 'HSDataCheck':
            files = scale.reduces if index > 1 else scale.maps
            phase |= {'bytes': scale.size_bytes, 'files': files}
            phase |= {'blocks': scale.maps, 'blocks_on_one_host': 0}
        elif directory is not None:
            job = read_json(directory / 'job-summary.json')
            tasks = read_json(directory / 'summary.json')
            phase |= job | tasks
            phase['job_id'] = f'{JOB}-{index}'
            phase['counters'] = job['counters'] | {'MAP_OUTPUT_RECORDS': count}
            phase['hosts'] = task_splits.count_by_host(
                tasks['nodes'], scale.hosts
            )
            if name != 'HSSort':
                phase |= {'job_seconds': seconds - 20, 'job_began': None}
                phase |= {'map_shuffle_seconds': seconds - 20}
                phase |= {'reduce_merge_seconds': 0}
        phases.append(phase)
    return phases


def build_placement(scale: Scale, target: str) -> JsonObject:
    """Return the flavor, the inventory and the allocations of workers."""
    configuration = parse_target(target)
    instances = getattr(configuration, 'instances', 1)
    is_dedicated = target.endswith('dedicated')
    cpu_class = 'PCPU' if is_dedicated else 'VCPU'
    vcpus, ram = CPUS // instances, MEMORY_MIB // instances
    totals = {cpu_class: CPUS, 'MEMORY_MB': MEMORY_MIB}
    inventory = {
        name: {'total': total, 'reserved': 0, 'allocation_ratio': 1.0}
        for name, total in totals.items()
    }
    return {
        'flavor': {
            'worker': {
                **{'name': 'benchmark', 'vcpus': vcpus, 'ram': ram},
                **{'disk': 20, 'ephemeral': 0},
                'extra_specs': {'hw:cpu_policy': 'dedicated'}
                if is_dedicated
                else {},
            }
        },
        'inventory': dict.fromkeys(set(scale.hosts.values()), inventory),
        'allocations': {
            name: {cpu_class: vcpus, 'MEMORY_MB': ram, 'DISK_GB': 20}
            for name in scale.hosts
        },
    }


def build_record(
    scale: Scale, directory: Path, target: str, index: int
) -> record_data.RunRecord:
    """Return a record of a run, which is not signed."""
    phases = list_phases(scale, directory)
    total = math.fsum(seconds for _, seconds in PHASES)
    number = index * len(TARGETS) + TARGETS.index(target)
    start = datetime.fromtimestamp(START, UTC)
    # Runs follow each other, and their phases are within them.
    shift = timedelta(seconds=number * 2 * total)
    for phase in phases:
        phase['began'] = float(str(phase['began'])) + shift.total_seconds()
    hosts = sorted(set(scale.hosts.values()))
    summary = read_json(directory / 'telemetry-summary.json')
    record_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f'{target}/{index}'))
    observed: JsonObject = {
        **{'cluster': f'CID-{number}', 'pass': index, 'hvstack': '1.0.0'},
        **{'position': TARGETS.index(target), 'workers': scale.nodes},
        'worker_hosts': len(hosts),
        'blocks': scale.maps,
        'parameters': {f'mapreduce.number{n}': str(n) for n in range(60)},
        'uneven_tasks': [
            str(split)
            for split in task_splits.list_uneven(
                observations.read_phases(phases)
            )
        ],
        'telemetry': summary
        | {'file': f'{telemetry_files.DIRECTORY}/{record_id}.json'},
    }
    facts: JsonObject = {'cpu_model': 'Xeon', 'hosts': hosts}
    facts['worker_hosts'] = len(hosts)
    if target != BARE_METAL:
        facts |= {'backend': 'kvm', 'nova': '34.0.0'}
        observed |= build_placement(scale, target)
    return record_data.create(
        RunId(SWEEP, parse_target(target), index),
        {
            'id': record_id,
            'started': (start + shift).strftime(TIME),
            'ended': (start + shift + timedelta(seconds=total)).strftime(TIME),
            **{'valid': True, 'replication': 3, 'total_seconds': total},
            **{'maps': scale.maps, 'reduces': scale.reduces},
            'size_bytes': scale.size_bytes,
            'phases': phases,
            'rate': record_data.compute_rate(scale.size_bytes, total),
            'environment': facts,
            'seen': observed,
        },
    )


def read_memory(name: str) -> float:
    """Return a quantity of this process in MiB, such as VmHWM, the peak.

    The peak in getrusage() can be that of the parent before exec.
    """
    text = Path('/proc/self/status').read_text(encoding='utf-8')
    for line in text.splitlines():
        if line.startswith(f'{name}:'):
            return int(line.split()[1]) / 1024
    raise SystemExit(f'/proc/self/status has no {name}')


def cpu_seconds(scope: int) -> float:
    """Return the CPU seconds of this process or of its children."""
    usage = resource.getrusage(scope)
    return usage.ru_utime + usage.ru_stime


def execute(stage: str, scale: Scale, directory: Path) -> dict[str, float]:
    """Execute a stage in this process, and return its costs."""
    idle = read_memory('VmRSS')
    action = STAGES[stage](scale, directory)
    own, children = map(
        cpu_seconds, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    size = action()
    return {
        'seconds': cpu_seconds(resource.RUSAGE_SELF) - own,
        'child_seconds': cpu_seconds(resource.RUSAGE_CHILDREN) - children,
        'idle_mib': idle,
        'peak_mib': read_memory('VmHWM'),
        'bytes': size,
    }


@dataclass(frozen=True)
class Cost:
    """Cost of a stage at one size.

    :param seconds: CPU seconds.
    :param peak_mib: peak of the memory in MiB; None for other programs.
    :param grown_mib: the same less the memory of the imported modules.
    :param bytes: size of the result.
    """

    stage: str
    maps: int
    nodes: int
    seconds: float
    peak_mib: float | None
    grown_mib: float | None
    bytes: int


def measure(scale: Scale, directory: Path) -> list[Cost]:
    """Generate the input of a size, and return the costs of all stages."""
    run_child('inputs', scale, directory)
    costs = []
    for stage in STAGES:
        answer = run_child(stage, scale, directory)
        size = int(answer['bytes'])
        peak = answer['peak_mib']
        if stage == 'history':
            path = directory / 'history.jhist'
            costs.append(
                Cost(
                    *(EVENTS, scale.maps, scale.nodes),
                    answer['child_seconds'],
                    *(None, None),
                    path.stat().st_size,
                )
            )
            path.unlink()
        costs.append(
            Cost(
                *(stage, scale.maps, scale.nodes, answer['seconds'], peak),
                *(peak - answer['idle_mib'], size),
            )
        )
        print(f'{scale.nodes} nodes: {stage}', file=sys.stderr, flush=True)
    return costs


def run_child(stage: str, scale: Scale, directory: Path) -> dict[str, float]:
    """Execute a stage in a process of its own."""
    args = (stage, str(scale.maps), str(scale.nodes), str(directory))
    process = subprocess.run(
        [sys.executable, __file__, '--child', *args],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    answer: dict[str, float] = json.loads(process.stdout)
    return answer


def fit_exponent(values: Mapping[int, float | None]) -> float | None:
    """Return the slope of the logarithms of values over those of nodes.

    :param values: values by number of nodes.
    :returns: None for fewer than two positive values.
    """
    points = [
        (math.log(nodes), math.log(value))
        for nodes, value in values.items()
        if value is not None and value > 0
    ]
    if len(points) < 2:
        return None
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def fit(costs: Sequence[Cost]) -> dict[str, dict[str, float | None]]:
    """Return the exponents by stage and quantity."""
    return {
        stage: {
            quantity: fit_exponent(
                {
                    cost.nodes: getattr(cost, quantity)
                    for cost in costs
                    if cost.stage == stage
                }
            )
            for quantity in ('seconds', 'grown_mib', 'bytes')
        }
        for stage in dict.fromkeys(cost.stage for cost in costs)
    }


def format_table(
    costs: Sequence[Cost], exponents: Mapping[str, Mapping[str, float | None]]
) -> str:
    """Return costs and exponents as human-readable text."""
    lines = [
        f'{"stage":10}{"maps":>9}{"nodes":>7}{"CPU s":>9}{"peak MiB":>10}'
        f'{"bytes":>15}'
    ]
    for stage, slopes in exponents.items():
        for cost in costs:
            if cost.stage != stage:
                continue
            peak = '-' if cost.peak_mib is None else f'{cost.peak_mib:.0f}'
            lines.append(
                f'{stage:10}{cost.maps:9}{cost.nodes:7}{cost.seconds:9.2f}'
                f'{peak:>10}{cost.bytes:15,}'
            )
        cells = [
            '-' if slope is None else f'{slope:.2f}'
            for slope in slopes.values()
        ]
        lines.append(
            f'{"exponent":26}{cells[0]:>9}{cells[1]:>10}{cells[2]:>15}'
        )
    return '\n'.join(lines)


def main() -> int:
    """Generate, measure and print; status 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--sizes', type=int, default=len(SCALES))
    parser.add_argument('--directory', type=Path)
    parser.add_argument('-f', choices=('table', 'json'), default='table')
    parser.add_argument('--child', nargs=4)
    args = parser.parse_args()
    if args.child:
        stage, maps, nodes, name = args.child
        scale, directory = Scale(int(maps), int(nodes)), Path(name)
        if stage == 'inputs':
            paper_inputs.write_inputs(scale, directory)
            print('{}')
        else:
            print(json.dumps(execute(stage, scale, directory)))
        return 0
    costs: list[Cost] = []
    for scale in SCALES[: args.sizes]:
        with tempfile.TemporaryDirectory(dir=args.directory) as name:
            # The keys of the user stay as they are.
            os.environ['HVSTACK_STATE_DIR'] = f'{name}/state'
            costs += measure(scale, Path(name))
    exponents = fit(costs)
    if args.f == 'json':
        document = {'generated': True, 'exponents': exponents}
        document['costs'] = [asdict(cost) for cost in costs]
        print(json.dumps(document, indent=1))
    else:
        print(format_table(costs, exponents))
        print(
            f'All input is generated. Goals: exponents of {GOAL_EXPONENT}, '
            f'and {GOAL_PAGE_BYTES:,} bytes of the page'
        )
    slopes = [slope for row in exponents.values() for slope in row.values()]
    is_missed = any(slope and slope > GOAL_EXPONENT for slope in slopes)
    is_large = any(
        cost.stage == 'page' and cost.bytes > GOAL_PAGE_BYTES for cost in costs
    )
    return int(is_missed or is_large)


if __name__ == '__main__':
    sys.exit(main())
