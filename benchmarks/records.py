#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seconds and memory of a report from each store of 100,000 run records.

The records are generated: sweeps of many operators, each on a system of its
own. All stores get the same records, and must give the same report. At the
end, two processes write to each database at once, and a third is killed:
.venv/bin/python benchmarks/records.py [--postgresql URL] [--count N]
"""

import argparse
import hashlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path

from hvstack import paths
from hvstack.model.configuration import Configuration, parse
from hvstack.model.target import BARE_METAL, parse_target
from hvstack.results import record_data, stores
from hvstack.results.benchmark import RECORD_BYTES
from hvstack.results.record_data import RunRecord
from hvstack.results.run_id import RunId
from hvstack.results.run_store import RunStore
from hvstack.results.typed_json import JsonObject

COUNT, OPERATORS, PASSES = 100_000, 20, 10
TARGETS = (BARE_METAL, 'i1', 'i2', 'i4', 'i4-dedicated')
TIME = '%Y-%m-%dT%H:%M:%SZ'
SIZE_BYTES = 10**12
#: A record of the future is refused.
START = datetime(2020, 1, 1, tzinfo=UTC)
#: A host.
CPUS, MEMORY_MIB = 64, 262144
PHASES = (
    ('HSGen', 0.25),
    ('HSDataCheck', 0.02),
    ('HSSort', 0.5),
    ('HSDataCheck', 0.02),
    ('HSValidate', 0.21),
)
#: Number of counters of a job, and of properties in a record.
COUNTERS, PROPERTIES = 50, 60
#: Goals of a report from a database: seconds of CPU time, and growth of the
#: memory with the records of other sweeps in MiB.
GOAL_SECONDS, GOAL_MIB = 10.0, 50.0
#: Number of runs of each of the two writers, and the seconds after which the
#: third one is killed.
WRITER_RUNS, KILL_SECONDS = 100, 2.0
HVSTACK = Path(sys.executable).with_name('hvstack')


def draw(*parts: object) -> int:
    """Return a number that looks random, but is the same in each run."""
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()
    return int(digest[:10], 16)


def build_phase(name: str, seconds: float) -> JsonObject:
    """Return a phase with the counters of its data set."""
    if name == 'HSDataCheck':
        counts = {'bytes': SIZE_BYTES, 'files': 64, 'blocks': 64}
        return {
            **{'name': name, 'seconds': seconds},
            **{**counts, 'blocks_on_one_host': 0},
        }
    counters = {
        f'Counter {number} of the job': draw(name, number, seconds)
        for number in range(COUNTERS)
    }
    rows = SIZE_BYTES // RECORD_BYTES
    counters['MAP_INPUT_RECORDS'] = rows
    if name == 'HSGen':
        counters['MAP_OUTPUT_RECORDS'] = rows
    if name == 'HSSort':
        counters['REDUCE_OUTPUT_RECORDS'] = rows
    return {
        **{'name': name, 'seconds': seconds},
        **{'job_id': f'job_1_{name}', 'counters': counters},
    }


def build_placement(configuration: Configuration) -> JsonObject:
    """Return the flavor and the inventory of the workers."""
    vcpus = CPUS // configuration.instances
    ram = MEMORY_MIB // configuration.instances
    is_dedicated = configuration.cpu_policy == 'dedicated'
    specs = {'hw:cpu_policy': 'dedicated'} if is_dedicated else {}
    totals = {
        'PCPU' if is_dedicated else 'VCPU': (CPUS, configuration.cpu_ratio),
        'MEMORY_MB': (MEMORY_MIB, configuration.ram_ratio),
    }
    return {
        'flavor': {
            'worker': {
                **{'name': 'benchmark', 'vcpus': vcpus, 'ram': ram},
                **{'disk': 20, 'ephemeral': 0, 'extra_specs': specs},
            }
        },
        'inventory': {
            'host': {
                name: {
                    **{'total': total, 'reserved': 0},
                    'allocation_ratio': float(ratio),
                }
                for name, (total, ratio) in totals.items()
            }
        },
    }


def build_record(
    sweep: str,
    operator: int,
    target: str,
    index: int,
    start: datetime,
    *,
    seconds: float | None = None,
    observed: JsonObject | None = None,
) -> RunRecord:
    """Return a signed record of a run.

    :param seconds: seconds of the run; None draws them.
    :param observed: further observations; None adds none.
    """
    if seconds is None:
        seconds = 1000 + draw(sweep, target, index) % 50
    observations: JsonObject = {
        'cluster': f'CID-{sweep}-{target}-{index}',
        'pass': index,
        'position': TARGETS.index(target) if target in TARGETS else 0,
        'hvstack': '1.0.0',
        'parameters': {
            f'mapreduce.property.number{number}': str(number)
            for number in range(PROPERTIES)
        },
        **(observed or {}),
    }
    facts: JsonObject = {
        'cpu_model': f'CPU of operator {operator}',
        'hosts': [f'operator{operator}-host{host}' for host in range(8)],
        'worker_hosts': 8,
    }
    if target != BARE_METAL:
        facts |= {'backend': 'kvm', 'nova': '34.0.0'}
        observations |= build_placement(parse(target))
    content: JsonObject = {
        'id': str(uuid.uuid5(uuid.NAMESPACE_URL, f'{sweep}/{target}/{index}')),
        'started': start.strftime(TIME),
        'ended': (start + timedelta(seconds=seconds)).strftime(TIME),
        'valid': True,
        'size_bytes': SIZE_BYTES,
        'replication': 3,
        'maps': 64,
        'reduces': 64,
        'phases': [
            build_phase(name, seconds * share) for name, share in PHASES
        ],
        'total_seconds': seconds,
        'rate': record_data.compute_rate(SIZE_BYTES, seconds),
        'environment': facts,
        'seen': observations,
    }
    run = RunId(sweep, parse_target(target), index)
    return record_data.sign(record_data.create(run, content))


def generate(count: int) -> Iterator[list[RunRecord]]:
    """Return the records of one sweep after the other."""
    start = START
    for number in range(count // (len(TARGETS) * PASSES)):
        operator = number % OPERATORS
        records = []
        for index in range(PASSES):
            for target in TARGETS:
                records.append(
                    build_record(
                        *(f'sweep-{number}', operator, target, index, start)
                    )
                )
                start += timedelta(seconds=1500)
        yield records


def fill(targets: dict[str, RunStore], count: int) -> None:
    """Store the same records in all stores."""
    seconds = dict.fromkeys([*targets, 'generate and sign'], 0.0)
    begin = time.monotonic()
    for number, records in enumerate(generate(count)):
        seconds['generate and sign'] += time.monotonic() - begin
        for name, store in targets.items():
            begin = time.monotonic()
            store.add(records, {})
            seconds[name] += time.monotonic() - begin
        if number % 100 == 99:
            print(f'{(number + 1) * len(records)} records', flush=True)
        begin = time.monotonic()
    for name, value in seconds.items():
        print(f'{name:20} {value:8.1f} s to write {count} records')


def report(location: str, sweep: str) -> tuple[str, list[float]]:
    """Return the report of a sweep and its costs.

    :returns: text; elapsed seconds, seconds of CPU time, and memory in MiB.
    """
    begin = time.monotonic()
    # The maximum of all children would include the reports before.
    process = subprocess.run(
        [
            *(sys.executable, __file__, '--child', HVSTACK, 'report', sweep),
            *('--records', location, '--details'),
        ],
        capture_output=True,
        text=True,
    )
    took = time.monotonic() - begin
    if process.returncode:
        raise SystemExit(f'{location}: {process.stderr}')
    return process.stdout, [took, *map(float, process.stderr.split()[-2:])]


def measure(
    title: str, locations: dict[str, str], last: int
) -> tuple[bool, dict[str, float]]:
    """Print the figures of a report; True if a goal is missed.

    :param last: number of the last sweep.
    """
    missed = False
    texts, memory = {}, {}
    for name, location in locations.items():
        texts[name], costs = report(location, f'sweep-{last}')
        seconds, cpu_seconds, memory[name] = costs
        print(
            f'{title:30} {name:10} {seconds:7.1f} s, CPU {cpu_seconds:6.1f} s '
            f'{memory[name]:6.0f} MiB',
            flush=True,
        )
        missed |= name != 'directory' and cpu_seconds > GOAL_SECONDS
    if len(set(texts.values())) != 1:
        print(f'{title}: the reports differ')
        missed = True
    return missed, memory


def write_runs(
    location: str, sweep: str, count: int, sender: Connection
) -> None:
    """Store runs as a sweep does it, and send the ID and seconds of each."""
    store = stores.open_store(location)
    start = START
    for index in range(count):
        record = build_record(sweep, 0, BARE_METAL, index, start)
        start += timedelta(seconds=1500)
        begin = time.monotonic()
        store.append(record)
        sender.send((record.id, time.monotonic() - begin))


def measure_writers(
    name: str, location: str, sweeps: list[str], count: int, seconds: float
) -> bool:
    """Let processes write at once; True if a stored run is not there.

    :param name: name of the store.
    :param location: URL of the database.
    :param sweeps: names of the sweeps, one for each process.
    :param count: number of runs of a sweep.
    :param seconds: time after which the processes are killed; 0 waits until
        they end.
    """
    context = multiprocessing.get_context('fork')
    receiver, sender = context.Pipe(duplex=False)
    writers = [
        context.Process(
            target=write_runs, args=(location, sweep, count, sender)
        )
        for sweep in sweeps
    ]
    begin = time.monotonic()
    for writer in writers:
        writer.start()
    sender.close()
    stored: list[tuple[str, float]] = []
    while True:
        try:
            stored.append(receiver.recv())
        except EOFError:
            break
        if seconds and time.monotonic() - begin > seconds:
            for writer in writers:
                writer.kill()
    for writer in writers:
        writer.join()
    took = time.monotonic() - begin
    store = stores.open_store(location)
    ids = [
        record.id for sweep in sweeps for record in store.load_records(sweep)
    ]
    store.append(build_record(f'{sweeps[0]}-next', 0, BARE_METAL, 0, START))
    states = {writer.exitcode for writer in writers}
    missing = {record_id for record_id, _ in stored}.difference(ids)
    # A process can be killed between the end of a transaction and its message.
    extra = len(ids) - len(stored)
    print(
        f'{name}: {len(writers)} writers{" (killed)" * bool(seconds)}: '
        f'{len(ids)} runs stored in {took:.1f} s, longest wait '
        f'{max(item for _, item in stored):.2f} s, {len(missing)} missing, '
        f'{extra} more',
        flush=True,
    )
    expected = -signal.SIGKILL if seconds else 0
    return bool(missing or extra > bool(seconds) or states != {expected})


def main() -> int:
    """Generate, measure and print; status 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=COUNT)
    parser.add_argument('--postgresql', metavar='URL')
    parser.add_argument('--directory', type=Path)
    parser.add_argument(
        '--databases-only',
        action='store_true',
        help='Leave out the directory of records, whose files are synced '
        'one by one.',
    )
    parser.add_argument('--measure', dest='is_measured', action='store_true')
    parser.add_argument('--child', nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.child:
        subprocess.run(args.child, check=True)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_seconds = usage.ru_utime + usage.ru_stime
        print(cpu_seconds, usage.ru_maxrss / 1024, file=sys.stderr)
        return 0
    if not args.is_measured:
        # Keys, records and index of the user stay as they are.
        with tempfile.TemporaryDirectory(dir=args.directory) as name:
            return subprocess.run(
                [sys.executable, __file__, *sys.argv[1:], '--measure'],
                env={**os.environ, 'HVSTACK_STATE_DIR': name},
            ).returncode
    locations = {
        'directory': str(stores.RECORDS_DIR),
        'SQLite': f'sqlite:///{paths.STATE}/records.sqlite',
    }
    if args.databases_only:
        del locations['directory']
    if args.postgresql:
        locations['PostgreSQL'] = args.postgresql
    targets = {
        store: stores.open_store(
            stores.RECORDS_DIR if store == 'directory' else location
        )
        for store, location in locations.items()
    }
    sweep_size = len(TARGETS) * PASSES
    small = OPERATORS * sweep_size
    fill(targets, small)
    is_missed, before = measure(f'{small} records', locations, OPERATORS - 1)
    fill(targets, args.count)
    last = args.count // sweep_size - 1
    for title in ('first report', 'second report'):
        title = f'{args.count} records, {title}'
        has_missed, after = measure(title, locations, last)
        is_missed |= has_missed
    databases = [store for store in locations if store != 'directory']
    for store in databases:
        growth = after[store] - before[store]
        print(f'{store}: memory grew by {growth:.0f} MiB')
        is_missed |= growth > GOAL_MIB
    for store in databases:
        for sweeps, count, seconds in (
            (['writer-1', 'writer-2'], WRITER_RUNS, 0.0),
            (['writer-3'], 1000 * WRITER_RUNS, KILL_SECONDS),
        ):
            is_missed |= measure_writers(
                store, locations[store], sweeps, count, seconds
            )
    print(f'goals: {GOAL_SECONDS} s of CPU time, and growth of {GOAL_MIB} MiB')
    return int(is_missed)


if __name__ == '__main__':
    sys.exit(main())
